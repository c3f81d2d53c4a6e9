/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process that holds everything: the launcher is started first, before any thread exists (nng starts some), then
 * the store is opened, then engine and worker meet on the bus. Teardown goes the other way; on every path the boxes are
 * gone before this returns.
 */
#include "scheduler/run_local.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "policies/trust.h"
#include "scheduler/dispatch/dispatcher.h"
#include "scheduler/dispatch/images.h"
#include "scheduler/dispatch/known_taint.h"
#include "scheduler/dispatch/lease_secrets.h"
#include "scheduler/dispatch/submission.h"
#include "scheduler/run_limits.h"
#include "scheduler/shell/live.h"
#include "scheduler/sweep.h"
#include "workers/box/box.h"
#include "workers/worker.h"

/* How long a run's dying owner is waited for: its launcher holds the lock until every box is gone. */
#define OWNER_WAIT_NS (10 * BH_NS_PER_S)

enum { TOKEN_BYTES = 16, N_SIGNALS = 3, MIN_SLOTS = 4, SLOTS_PER_CPU = 2, FORKS_PER_CPU = 8, TICK_US = 250000 };

struct session {
    const struct bh_run_options *options;
    struct bh_run_id id;
    int lock, launcher;
    struct bh_image_host images;
    struct bh_store *store;
    struct bh_live_run *run;
    struct event_base *loop;
    struct bh_boxes *boxes;
    struct bh_worker *worker;
    struct bh_dispatcher *dispatcher;
    struct bh_shell_server *shells;
    struct event *signals[N_SIGNALS];
    struct event *tick;
    int signal; /* the first that came */
    bool hard;  /* a second one came */
    bool resumed;
    bool over; /* the run has ended, perhaps before the loop began: what a person decided while it was dead ends it */
    struct bh_policy policy;
    char *watched; /* limits that are not enforced, with the site's leave: bh_run_limits_check */
    struct bh_err *failed;
};

/* --- what the front end is told --- */

/*
 * Of a node of several executions: the one that was chosen, or that is to blame, with the time that all of them took;
 * and why it failed.
 */
static char *sum_up(const struct session *s, size_t node, struct bh_attempt *ret)
{
    const struct bh_engine *engine = bh_live_run_engine(s->run);
    const struct bh_attempt *blamed = NULL, *chosen = NULL;
    struct bh_wall first = {0}, last = {0};
    bool failed = bh_engine_node(engine, node)->state == BH_NODE_FAILED;
    char *detail = failed ? bh_live_run_attempts_detail(s->run, node, &blamed) : NULL;
    for (size_t i = 0; i < bh_engine_n_attempts(engine); i++) {
        const struct bh_attempt *a = bh_engine_attempt(engine, i);
        if (a->node != node)
            continue;
        first = first.us == 0 ? a->created : first;
        last = a->ended.us > last.us ? a->ended : last;
        chosen = a->selected || !chosen ? a : chosen;
    }
    chosen = blamed ? blamed : chosen;
    if (chosen)
        *ret = *chosen;
    ret->created = first;
    ret->ended = last;
    if (failed) { /* which may be no attempt's own: all of them passed, and none had a score */
        ret->reason = bh_engine_node(engine, node)->reason;
        ret->phase = bh_engine_node(engine, node)->phase;
    }
    return detail;
}

/* It never began: what it failed by stands at its gate. */
static bool told_of_gate(struct session *s, size_t node)
{
    const struct bh_run_watch *watch = &s->options->watch;
    const struct bh_node *n = bh_engine_node(bh_live_run_engine(s->run), node);
    BH_CLEANUP_FREE char *detail = bh_live_run_gate_detail(s->run, node);
    struct bh_attempt none = {.node = node, .reason = n->reason, .phase = n->phase};
    if (detail && watch->node)
        watch->node(watch->arg, node, n->state, &none, detail);
    return detail != NULL;
}

static void on_gate(void *arg, size_t gate)
{
    struct session *s = arg;
    const struct bh_run_watch *watch = &s->options->watch;
    const struct bh_gate *state = bh_engine_gate(bh_live_run_engine(s->run), gate);
    if (watch->gate)
        watch->gate(watch->arg, state,
                    state->state == BH_GATE_ASKED ? bh_live_run_question(s->run, gate)
                                                  : bh_live_run_decision(s->run, gate));
}

static void on_node(void *arg, size_t node)
{
    struct session *s = arg;
    if (told_of_gate(s, node))
        return;
    const struct bh_engine *engine = bh_live_run_engine(s->run);
    const struct bh_attempt *last = NULL;
    for (size_t i = bh_engine_n_attempts(engine); i > 0 && !last; i--) {
        if (bh_engine_attempt(engine, i - 1)->node == node)
            last = bh_engine_attempt(engine, i - 1);
    }
    const struct bh_run_watch *watch = &s->options->watch;
    if (watch->node && last && bh_live_run_plan(s->run)->agents[node].forks) {
        struct bh_attempt whole = *last;
        BH_CLEANUP_FREE char *detail = sum_up(s, node, &whole);
        watch->node(watch->arg, node, bh_engine_node(engine, node)->state, &whole, detail);
        return;
    }
    if (watch->node)
        watch->node(watch->arg, node, bh_engine_node(engine, node)->state, last,
                    last ? bh_live_run_detail(s->run, last->instance) : NULL);
}

static void on_attempt(void *arg, size_t index)
{
    struct session *s = arg;
    const struct bh_attempt *attempt = bh_engine_attempt(bh_live_run_engine(s->run), index);
    const struct bh_run_watch *watch = &s->options->watch;
    bool once = attempt->kind != BH_EXECUTION_RUN; /* a setup from its start to its end, then the agent itself */
    if (watch->attempt && once && attempt->state < BH_ATTEMPT_SUCCEEDED)
        watch->attempt(watch->arg, attempt->node,
                       attempt->state > BH_ATTEMPT_LEASED ? BH_ATTEMPT_SETUP : attempt->state);
    else if (watch->attempt && !once)
        watch->attempt(watch->arg, attempt->node, attempt->state);
}

/* --- what happens while it runs --- */

static void on_ended(void *arg, enum bh_run_status status BH_UNUSED)
{
    struct session *s = arg;
    s->over = true;
    (void)event_base_loopbreak(s->loop);
}

static void on_failed(void *arg, struct bh_err *err)
{
    struct session *s = arg;
    s->failed = err;
    (void)event_base_loopbreak(s->loop);
}

static void on_signal(evutil_socket_t number, short what BH_UNUSED, void *arg)
{
    struct session *s = arg;
    if (s->signal != 0) {
        s->hard = true;
        (void)event_base_loopbreak(s->loop);
        return;
    }
    s->signal = (int)number;
    if (s->options->watch.interrupted)
        s->options->watch.interrupted(s->options->watch.arg, s->signal);
    struct bh_val *extra = bh_val_map();
    bh_val_set_int(extra, "signal", (int64_t)number);
    struct bh_event event = {.kind = BH_EV_CANCEL};
    bh_dispatcher_feed(s->dispatcher, &event, extra);
}

static void on_tick(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    struct session *s = arg;
    s->options->watch.tick(s->options->watch.arg);
}

static int start_tick(struct session *s, struct bh_err **err)
{
    struct timeval every = {.tv_usec = TICK_US};
    if (!s->options->watch.tick)
        return 0;
    s->tick = event_new(s->loop, -1, EV_PERSIST, on_tick, s);
    if (!s->tick || event_add(s->tick, &every) != 0)
        return bh_err_set(err, BH_E_INTERNAL, 0, "cannot start a timer");
    return 0;
}

static bool ignored(int number)
{
    struct sigaction old;
    return sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

static int watch_signals(struct session *s, struct bh_err **err)
{
    static const int numbers[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (numbers[i] == SIGHUP && ignored(SIGHUP))
            continue;
        s->signals[i] = evsignal_new(s->loop, numbers[i], on_signal, s);
        if (!s->signals[i] || event_add(s->signals[i], NULL) != 0)
            return bh_err_set(err, BH_E_INTERNAL, 0, "cannot watch signals");
    }
    return 0;
}

/* --- setting up --- */

/* Attempts of one agent are to run at once where that is anything like what the host can hold. */
static int64_t forks_at_once(const struct bh_plan *plan)
{
    int64_t most = 0;
    for (size_t i = 0; i < plan->n_agents; i++) {
        const struct bh_agent *doc = plan->agents[i].doc;
        if (plan->agents[i].topology == BH_TOPOLOGY_PER_ATTEMPT && doc->attempts.count > most)
            most = doc->attempts.count;
    }
    return most;
}

static int slots(const struct session *s)
{
    int64_t asked =
        s->options->max_parallel > 0 ? s->options->max_parallel : bh_live_run_plan(s->run)->pipeline->max_parallel;
    cpu_set_t cpus;
    int n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    int held = n * SLOTS_PER_CPU > MIN_SLOTS ? n * SLOTS_PER_CPU : MIN_SLOTS;
    int64_t most = bh_policy_parallel(&s->policy, bh_live_run_plan(s->run));
    int64_t forks = forks_at_once(bh_live_run_plan(s->run));
    forks = forks < n * FORKS_PER_CPU ? forks : n * FORKS_PER_CPU;
    held = forks > held ? (int)forks : held;
    held = asked > 0 ? (int)(asked < 1000 ? asked : 1000) : held;
    return most > 0 && most < held ? (int)most : held;
}

static int make_token(char *hex, struct bh_err **err)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return bh_err_set(err, BH_E_HOST, errno, "cannot get random bytes");
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int make_folders(const struct session *s, struct bh_err **err)
{
    static const char *const names[] = {"logs", "boxes", "layers", "tmp"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        BH_CLEANUP_FREE char *path = bh_home_run_path(s->options->home, s->id.s, names[i]);
        int rc = bh_mkdir_p(path, 0700, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Takes the run, starts the launcher, opens the store: in this order, see above. */
static int take(struct session *s, struct bh_err **err)
{
    const struct bh_home *home = s->options->home;
    int64_t pid;
    int rc = bh_home_own_run(home, s->id.s, OWNER_WAIT_NS, &s->lock, err);
    if (rc == 0)
        rc = bh_launcher_start(home->path, s->lock, &s->launcher, &pid, err);
    if (rc == 0)
        rc = bh_store_open(home, BH_STORE_WRITE, &s->store, err);
    if (rc == 0)
        rc = make_folders(s, err);
    if (rc == 0)
        bh_sweep_at_start(home);
    return rc;
}

/* The launcher's socket goes to the boxes, and images are asked of it beside them: it answers those on sockets of their
 * own. */
static int prepare_images(struct session *s, const struct bh_plan *plan, struct bh_err **err)
{
    s->images = (struct bh_image_host){.home = s->options->home->path,
                                       .launcher = -1,
                                       .progress = s->options->watch.importing,
                                       .arg = s->options->watch.arg};
    if (!bh_images_any(plan))
        return 0;
    s->images.launcher = fcntl(s->launcher, F_DUPFD_CLOEXEC, 3);
    if (s->images.launcher < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot copy a descriptor");
    return bh_image_host_ask(&s->images, err);
}

/* The launcher ends when its socket does, so ours must not outlive its use. */
static void forget_images(struct session *s)
{
    bh_close(BH_TAKE_FD(s->images.launcher));
}

static int open_boxes(struct session *s, struct bh_err **err)
{
    s->loop = event_base_new();
    if (!s->loop)
        return bh_err_set(err, BH_E_INTERNAL, 0, "cannot make an event loop");
    return bh_boxes_ns_new(s->loop, BH_TAKE_FD(s->launcher), s->options->home->path, &s->boxes, err);
}

/* The smaller one of what the site and the caller say: nothing new is begun in a state directory that holds more. */
static int set_budget(const struct session *s, struct bh_err **err)
{
    const char *own = getenv("BULKHEAD_DISK_BUDGET"), *who = "BULKHEAD_DISK_BUDGET";
    int64_t bytes = 0;
    if (own && *own && (bh_parse_size(own, &bytes) != 0 || bytes <= 0)) {
        int rc = bh_err_set(err, BH_E_USAGE, 0, "'BULKHEAD_DISK_BUDGET=%s' is no size", own);
        bh_err_hint(err, "write for example 50GiB, or unset it");
        return rc;
    }
    const char *file = NULL;
    int64_t of_site = bh_policy_disk_budget(&s->policy, &file);
    if (of_site > 0 && (bytes == 0 || of_site < bytes)) {
        bytes = of_site;
        who = file;
    }
    return bytes > 0 ? bh_boxes_ns_budget(s->boxes, bytes, who, err) : 0;
}

/* What was asked for and cannot be had is refused before the first byte runs. */
static int check_limits(struct session *s, const struct bh_plan *plan, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    int rc = bh_run_limits_check(plan, s->boxes, &s->policy, &s->watched, errors);
    if (rc == 0)
        rc = set_budget(s, &err);
    if (err)
        bh_errlist_add(errors, err);
    return rc;
}

static int meet(struct session *s, struct bh_err **err)
{
    char token[2 * TOKEN_BYTES + 1];
    BH_CLEANUP_FREE char *url = bh_asprintf("inproc://bulkhead-%s", s->id.s);
    struct bh_worker_options worker = {.home = s->options->home->path, .url = url, .token = token, .slots = slots(s)};
    struct bh_dispatcher_owner owner = {
        .arg = s, .home = s->options->home, .gate = on_gate, .ended = on_ended, .failed = on_failed};
    int rc = make_token(token, err);
    if (rc == 0)
        rc = bh_dispatcher_new(s->loop, s->run, url, token, owner, &s->dispatcher, err);
    if (rc == 0)
        rc = bh_worker_new(s->loop, s->boxes, &worker, &s->worker, err);
    if (rc == 0)
        rc = bh_shell_server_new(s->loop, s->options->home, s->id.s, s->worker, &s->shells, err);
    return rc;
}

/* Whether some agent ended without success: whoever resumes wants it to run again. */
static bool has_unfinished(const struct session *s)
{
    for (size_t i = 0; i < bh_live_run_plan(s->run)->n_agents; i++) {
        enum bh_node_state state = bh_engine_node(bh_live_run_engine(s->run), i)->state;
        if (state == BH_NODE_FAILED || state == BH_NODE_SKIPPED || state == BH_NODE_CANCELLED)
            return true;
    }
    return false;
}

/* {AGENT: ["10.0.0.0/8"]}: what the site permits each beyond public addresses. */
static void add_ranges(const struct session *s, struct bh_val *extra)
{
    const struct bh_plan *plan = bh_live_run_plan(s->run);
    BH_CLEANUP_VAL struct bh_val *all = bh_val_map();
    for (size_t i = 0; i < plan->n_agents; i++) {
        char **texts;
        size_t n;
        bh_policy_ranges(&s->policy, plan, i, &texts, &n);
        struct bh_val *list = n > 0 ? bh_val_set(all, plan->agents[i].name, bh_val_list()) : NULL;
        for (size_t k = 0; k < n; k++) {
            bh_val_add(list, bh_val_str(texts[k]));
            bh_free(texts[k]);
        }
        bh_free(texts);
    }
    if (bh_val_len(all) > 0)
        bh_val_set(extra, "ranges", BH_TAKE(all));
}

static void begin(struct session *s)
{
    enum bh_event_kind kinds[2];
    size_t n = 0;
    if (s->resumed)
        kinds[n++] = BH_EV_OWNER;
    if (bh_engine_status(bh_live_run_engine(s->run)) == BH_RUN_QUEUED)
        kinds[n++] = BH_EV_START;
    else if (has_unfinished(s))
        kinds[n++] = BH_EV_RETRY_FAILED;
    struct bh_val *extra = bh_val_map();
    if (s->watched)
        bh_val_set_str(extra, "limits", s->watched);
    add_ranges(s, extra);
    bh_dispatcher_begin(s->dispatcher, kinds, n, extra);
}

static int drive(struct session *s, struct bh_err **err)
{
    struct bh_live_run_watch watch = {.arg = s, .node = on_node, .attempt = on_attempt};
    bh_live_run_watch(s->run, watch);
    int rc = watch_signals(s, err);
    if (rc == 0)
        rc = meet(s, err);
    if (rc == 0)
        rc = start_tick(s, err);
    if (rc != 0)
        return rc;
    if (s->watched && s->options->watch.limits)
        s->options->watch.limits(s->options->watch.arg, s->watched);
    if (s->options->watch.started)
        s->options->watch.started(s->options->watch.arg, s->id.s, bh_live_run_plan(s->run), bh_live_run_engine(s->run));
    begin(s);
    if (!s->failed && !s->over)
        (void)event_base_dispatch(s->loop);
    return 0;
}

/* --- tearing down --- */

static void stop_work(struct session *s)
{
    bh_shell_server_free(BH_TAKE(s->shells));
    bh_worker_free(s->worker);
    s->worker = NULL;
    if (s->boxes)
        s->boxes->ops->close(s->boxes);
    s->boxes = NULL;
}

static void session_fini(struct session *s)
{
    stop_work(s);
    bh_dispatcher_free(s->dispatcher);
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (s->signals[i])
            event_free(s->signals[i]);
    }
    if (s->tick)
        event_free(s->tick);
    if (s->loop)
        event_base_free(s->loop);
    bh_live_run_free(s->run);
    bh_store_close(s->store);
    bh_close(s->launcher);
    bh_close(s->images.launcher);
    bh_close(s->lock);
    bh_free(s->watched);
    bh_policy_fini(&s->policy);
    bh_err_free(s->failed);
}

static int finish(struct session *s, struct bh_run_outcome *ret, struct bh_err **err)
{
    stop_work(s);
    if (s->failed) {
        *err = BH_TAKE(s->failed);
        return bh_err_wrap(err, -BH_E_IO, "run '%s' cannot go on", s->id.s);
    }
    int rc = s->hard ? bh_dispatcher_abandon(s->dispatcher, err) : 0;
    if (rc != 0)
        return rc;
    const struct bh_engine *engine = bh_live_run_engine(s->run);
    *ret = (struct bh_run_outcome){.run = s->id,
                                   .status = bh_engine_status(engine),
                                   .reason = bh_engine_failure(engine, NULL),
                                   .signal = s->signal};
    bh_sweep_ended_run(s->options->home, s->id.s, ret->status == BH_RUN_SUCCEEDED);
    if (s->options->watch.ended)
        s->options->watch.ended(s->options->watch.arg, ret->status);
    return 0;
}

/* --- the two entries --- */

static int add_error(struct bh_errlist *errors, int rc, struct bh_err *err)
{
    if (err)
        bh_errlist_add(errors, err);
    return rc;
}

static struct bh_val *options_to_val(const struct bh_run_options *options)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_int(v, "max_parallel", options->max_parallel);
    bh_val_set_bool(v, "keep_going", options->keep_going);
    struct bh_val *only = bh_val_set(v, "only", bh_val_list());
    for (const char *const *name = options->only; name && *name; name++)
        bh_val_add(only, bh_val_str(*name));
    return v;
}

/*
 * Some run of this state directory knows a file or source as tainted: the plan is made again with that, and may be
 * refused for it.
 */
static int follow_known_taint(const struct session *s, const struct bh_pipeline *pipeline, struct bh_plan **plan,
                              struct bh_val *submission, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    bool any = false;
    int rc = bh_known_taint_find(s->store, submission, &any, &err);
    if (rc != 0 || !any)
        return add_error(errors, rc, err);
    struct bh_plan_options options = {.params = s->options->params, .n_params = s->options->n_params};
    BH_CLEANUP_PLAN struct bh_plan *again = NULL;
    bh_known_taint_options(submission, &options);
    rc = bh_plan_make(pipeline, &options, &again, errors);
    if (rc == 0)
        rc = bh_trust_check(again, &s->policy, errors);
    bh_known_taint_options_fini(&options);
    if (rc != 0) {
        bh_known_taint_tell(submission, errors);
        return rc;
    }
    bh_plan_free(*plan);
    *plan = BH_TAKE(again);
    return 0;
}

static int submit(struct session *s, const struct bh_plan *plan, struct bh_val **ret, struct bh_errlist *errors)
{
    const struct bh_run_options *o = s->options;
    BH_CLEANUP_FREE char *dir = bh_home_path(o->home, "cas");
    BH_CLEANUP_FREE char *tmp = bh_home_run_path(o->home, s->id.s, "tmp");
    struct bh_cas *cas = NULL;
    struct bh_err *err = NULL;
    int rc = bh_cas_open(dir, tmp, &cas, &err);
    if (rc != 0)
        return add_error(errors, rc, err);
    rc = bh_submission_make(plan, o->file, o->sources, o->n_sources, true, cas, ret, errors);
    if (rc == 0) {
        rc = bh_cas_sync(cas, &err);
        rc = add_error(errors, rc, err);
    }
    bh_cas_close(cas);
    if (rc == 0)
        bh_val_set(*ret, "options", options_to_val(o));
    if (rc == 0)
        rc = bh_images_import(plan, o->file, &s->images, *ret, errors);
    forget_images(s);
    return rc;
}

/* Takes pipeline and plan. */
static int run_planned(struct session *s, struct bh_pipeline *pipeline, struct bh_plan *plan,
                       struct bh_run_outcome *ret, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    BH_CLEANUP_PIPELINE struct bh_pipeline *own_pipeline = pipeline;
    BH_CLEANUP_PLAN struct bh_plan *own_plan = plan;
    BH_CLEANUP_VAL struct bh_val *submission = NULL;
    int rc = take(s, &err);
    if (rc != 0)
        return add_error(errors, rc, err);
    rc = prepare_images(s, plan, &err);
    if (rc == 0)
        rc = open_boxes(s, &err);
    if (rc != 0)
        return add_error(errors, rc, err);
    rc = check_limits(s, plan, errors);
    if (rc == 0)
        rc = submit(s, plan, &submission, errors);
    if (rc == 0)
        rc = bh_lease_secrets_check(plan, s->options->file, submission, errors);
    if (rc == 0)
        rc = follow_known_taint(s, own_pipeline, &own_plan, submission, errors);
    if (rc != 0)
        return rc;
    struct bh_live_run_new what = {
        .store = s->store,
        .run = s->id,
        .file = s->options->file,
        .pipeline = BH_TAKE(own_pipeline),
        .plan = BH_TAKE(own_plan),
        .text = s->options->text,
        .text_len = s->options->text_len,
        .submission = BH_TAKE(submission),
    };
    rc = bh_live_run_create(&what, &s->run, &err);
    if (rc == 0)
        rc = drive(s, &err);
    if (rc == 0)
        rc = finish(s, ret, &err);
    return add_error(errors, rc, err);
}

static int check_only(const struct bh_run_options *o, const struct bh_plan *plan, struct bh_errlist *errors)
{
    BH_CLEANUP_FREE const char **names = bh_calloc(plan->n_agents + 1, sizeof(*names));
    int rc = 0;
    for (size_t i = 0; i < plan->n_agents; i++)
        names[i] = plan->agents[i].name;
    for (const char *const *name = o->only; name && *name; name++) {
        bool found = false;
        for (size_t i = 0; i < plan->n_agents; i++)
            found = found || bh_streq(names[i], *name);
        if (found)
            continue;
        struct bh_err *err = NULL;
        const char *near = bh_nearest(*name, names, plan->n_agents);
        rc = bh_err_set(&err, BH_E_USAGE, 0, "the pipeline has no agent '%s'", *name);
        if (near)
            bh_err_hint(&err, "did you mean '%s'?", near);
        bh_errlist_add(errors, err);
    }
    return rc;
}

/* After all that may be wrong with the document itself. */
static int check_grant(const struct bh_run_options *o, const struct bh_plan *plan, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    if (plan->n_asks == 0)
        return 0;
    int rc = o->grant ? o->grant(o->grant_arg, plan, &err)
                      : bh_err_set(&err, BH_E_POLICY, 0, "the pipeline asks for '%s'", plan->asks[0].s);
    if (err)
        bh_err_at(&err, plan->pipeline->file, plan->asks[0].pos.line, plan->asks[0].pos.column, NULL);
    return add_error(errors, rc, err);
}

static int plan_document(const struct bh_run_options *o, const struct bh_policy *policy,
                         struct bh_pipeline **ret_pipeline, struct bh_plan **ret_plan, struct bh_errlist *errors)
{
    BH_CLEANUP_PIPELINE struct bh_pipeline *pipeline = NULL;
    BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
    struct bh_plan_options options = {.params = o->params, .n_params = o->n_params};
    int rc = bh_pipeline_load(o->file, o->text, o->text_len, &pipeline, errors);
    if (rc == 0)
        rc = bh_plan_make(pipeline, &options, &plan, errors);
    if (rc == 0)
        rc = bh_trust_check(plan, policy, errors);
    if (rc == 0)
        rc = bh_plan_check_supported(plan, errors);
    if (rc == 0)
        rc = check_only(o, plan, errors);
    if (rc == 0)
        rc = bh_policy_check(policy, plan, errors);
    if (rc == 0)
        rc = check_grant(o, plan, errors);
    if (rc == 0)
        rc = bh_submission_make(plan, o->file, o->sources, o->n_sources, true, NULL, NULL, errors);
    if (rc == 0) {
        *ret_pipeline = BH_TAKE(pipeline);
        *ret_plan = BH_TAKE(plan);
    }
    return rc;
}

int bh_run_new(const struct bh_run_options *options, struct bh_run_outcome *ret, struct bh_errlist *errors)
{
    struct bh_pipeline *pipeline = NULL;
    struct bh_plan *plan = NULL;
    struct session s = {
        .options = options, .id = bh_run_id_new(), .lock = -1, .launcher = -1, .images = {.launcher = -1}};
    int rc = bh_policy_load(NULL, &s.policy, errors);
    if (rc == 0)
        rc = plan_document(options, &s.policy, &pipeline, &plan, errors);
    if (rc != 0) {
        bh_policy_fini(&s.policy);
        return rc;
    }
    rc = run_planned(&s, pipeline, plan, ret, errors);
    bool recorded = s.run != NULL;
    session_fini(&s);
    if (!recorded)
        bh_sweep_unrecorded_run(options->home, s.id.s);
    return rc;
}

static int check_same_document(const struct session *s, struct bh_err **err)
{
    const struct bh_run_options *o = s->options;
    const char *have = bh_live_run_document(s->run);
    if (!o->text || (strlen(have) == o->text_len && memcmp(have, o->text, o->text_len) == 0))
        return 0;
    int rc = bh_err_set(err, BH_E_USAGE, 0, "'%s' differs from the document of run '%s'", o->file, s->id.s);
    bh_err_hint(err, "leave the file out to go on with the run as it was submitted, or start a new run");
    return rc;
}

static int reclaim(const struct session *s, struct bh_err **err)
{
    size_t n;
    BH_CLEANUP_FREE char *dir = bh_home_run_path(s->options->home, s->id.s, NULL);
    BH_CLEANUP_FREE const char **layers = bh_sweep_layers_in_use(s->options->home, s->run, &n);
    return bh_boxes_reclaim(dir, layers, n, err);
}

static int resume(struct session *s, const char *run, struct bh_run_outcome *ret, struct bh_errlist *errors,
                  struct bh_err **err)
{
    int rc = bh_policy_load(NULL, &s->policy, errors);
    if (rc == 0)
        rc = take(s, err);
    if (rc == 0)
        rc = bh_live_run_load(s->store, run, &s->run, err);
    if (rc == 0)
        rc = check_same_document(s, err);
    if (rc == 0)
        rc = reclaim(s, err);
    if (rc != 0)
        return rc;
    if (bh_engine_status(bh_live_run_engine(s->run)) == BH_RUN_SUCCEEDED) {
        *ret = (struct bh_run_outcome){.run = s->id, .status = BH_RUN_SUCCEEDED};
        bh_sweep_ended_run(s->options->home, s->id.s, true); /* its last owner may have died before it could */
        return 0;
    }
    const struct bh_plan *plan = bh_live_run_plan(s->run);
    rc = bh_policy_check(&s->policy, plan, errors);
    if (rc == 0)
        rc = make_folders(s, err);
    if (rc == 0)
        rc = prepare_images(s, plan, err);
    if (rc == 0)
        rc = open_boxes(s, err);
    if (rc == 0)
        rc = check_limits(s, plan, errors);
    if (rc == 0)
        rc = bh_images_restore(plan->pipeline->file, &s->images, bh_live_run_submission(s->run), err);
    forget_images(s);
    if (rc == 0)
        rc = drive(s, err);
    return rc == 0 ? finish(s, ret, err) : rc;
}

int bh_run_resume(const struct bh_run_options *options, const char *run, struct bh_run_outcome *ret,
                  struct bh_errlist *errors)
{
    struct session s = {.options = options, .lock = -1, .launcher = -1, .images = {.launcher = -1}, .resumed = true};
    struct bh_err *err = NULL;
    snprintf(s.id.s, sizeof(s.id.s), "%s", run);
    int rc = resume(&s, run, ret, errors, &err);
    session_fini(&s);
    return add_error(errors, rc, err);
}
