/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker: keeps one `work` and one `control` call waiting at the engine, gives leases to executions, and sends what
 * they end with until the engine has it. Owns everything that lives on this host for its engine; decides nothing about
 * a run. The messages are those of docs/protocol.md:
 *
 *   sent:      hello work control state done frozen released
 *   answered:  work: none lease freeze release · control: none kill
 */
#include "workers/worker.h"

#include <event2/event.h>
#include <fcntl.h>

#include "artifact-bus/lease.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "workers/brokers.h"
#include "workers/engine_link.h"
#include "workers/execution.h"
#include "workers/verdict.h"

#define MAGIC 0x776f726bu

#define PARKED_TIMEOUT_NS (30 * BH_NS_PER_S) /* the engine parks a call for 20 s at most */
#define PLAIN_TIMEOUT_NS (10 * BH_NS_PER_S)
#define TELL_AFTER_US 10000

struct parked { /* a call that waits at the engine for something to happen */
    struct bh_worker *worker;
    const char *kind;
    void (*on_answer)(struct bh_worker *w, const struct bh_val *answer);
    bool outstanding;
};

struct must_arrive { /* a message that is sent until it is answered */
    struct bh_list link;
    struct bh_worker *worker;
    struct bh_val *body;
    bool outstanding;
};

struct live { /* an execution, by its instance */
    struct bh_execution *execution;
    const char *untold; /* the state that the engine has still to be told, or NULL */
};

struct bh_worker {
    uint32_t magic;
    struct event_base *loop;
    struct bh_boxes *boxes;
    char *home;
    int null_fd;
    struct bh_helper *helper, *audit;
    struct bh_secret_desk *secrets;
    struct bh_shared_boxes *shared;
    struct bh_snapshots *snapshots;
    struct bh_warm_servers *warm;
    struct bh_ways_host ways;
    struct bh_engine_link *link;
    struct parked work, control;
    struct bh_list messages;
    struct bh_execution_host host;
    struct bh_map *lives; /* struct live by instance */
    struct event *tell;
    struct bh_map *runs; /* struct bh_run_files by run */
};

static struct bh_worker *check(void *arg)
{
    struct bh_worker *w = arg;
    BH_ASSERT(w->magic == MAGIC);
    return w;
}

/* --- messages that must arrive --- */

static void send_message(struct must_arrive *m);

static void on_arrived(void *arg, const struct bh_val *answer)
{
    struct must_arrive *m = arg;
    m->outstanding = false;
    if (!answer)
        return; /* again when the line is up */
    if (!bh_val_bool_of(answer, "ok"))
        bh_log(BH_LOG_INFO, "worker.stale", "kind", bh_val_str_of(m->body, "kind"), NULL);
    bh_list_remove(&m->link);
    bh_val_free(m->body);
    bh_free(m);
}

static void send_message(struct must_arrive *m)
{
    if (!m->outstanding)
        m->outstanding = bh_engine_link_call(m->worker->link, bh_val_copy(m->body), PLAIN_TIMEOUT_NS, on_arrived, m);
}

/* Takes body. */
static void post_message(struct bh_worker *w, struct bh_val *body)
{
    struct must_arrive *m = bh_alloc(sizeof(*m));
    m->worker = w;
    m->body = body;
    bh_list_append(&w->messages, &m->link);
    send_message(m);
}

/* --- executions --- */

static void on_state_told(void *arg, const struct bh_val *answer)
{
    (void)arg;
    (void)answer;
}

static void tell_state(struct bh_worker *w, const char *instance, int64_t epoch, const char *state)
{
    struct bh_val *body = bh_val_map();
    bh_val_set_str(body, "kind", "state");
    bh_val_set_str(body, "instance", instance);
    bh_val_set_int(body, "epoch", epoch);
    bh_val_set_str(body, "state", state);
    (void)bh_engine_link_call(w->link, body, PLAIN_TIMEOUT_NS, on_state_told, w);
}

static void tell_states(evutil_socket_t fd, short what, void *arg)
{
    struct bh_worker *w = check(arg);
    const char *instance;
    void *value;
    (void)fd;
    (void)what;
    for (size_t it = 0; bh_map_next(w->lives, &it, &instance, &value);) {
        struct live *live = value;
        if (live->untold)
            tell_state(w, instance, bh_execution_lease(live->execution)->epoch, BH_TAKE(live->untold));
    }
}

/*
 * States are for people, and each costs the engine an event: what is overtaken within a moment, by the next state or by
 * the end, is not told at all.
 */
static void on_state(void *arg, const struct bh_lease *lease, const char *state)
{
    static const struct timeval soon = {.tv_usec = TELL_AFTER_US};
    struct bh_worker *w = check(arg);
    struct live *live = bh_map_get(w->lives, lease->instance.s);
    live->untold = state;
    if (!evtimer_pending(w->tell, NULL))
        (void)event_add(w->tell, &soon);
}

static void post_result(struct bh_worker *w, const struct bh_result *result)
{
    struct bh_val *body = bh_val_map();
    bh_val_set_str(body, "kind", "done");
    bh_val_set(body, "result", bh_result_to_val(result));
    post_message(w, body);
}

static void on_ended(void *arg, struct bh_execution *e, struct bh_result *result)
{
    struct bh_worker *w = check(arg);
    post_result(w, result);
    bh_map_del(w->lives, result->instance.s);
    bh_result_fini(result);
    bh_execution_free(e);
}

/* Forgets runs that nothing works for any more. */
static void close_idle_runs(struct bh_worker *w)
{
    const char *run;
    void *files;
    for (size_t it = 0; bh_map_next(w->runs, &it, &run, &files);) {
        if (((struct bh_run_files *)files)->refs > 1)
            continue;
        BH_CLEANUP_FREE char *name = bh_strdup(run);
        bh_map_del(w->runs, name);
        bh_run_files_unref(files);
        it = 0;
    }
}

static int find_run(struct bh_worker *w, const char *run, struct bh_run_files **ret, struct bh_err **err)
{
    *ret = bh_map_get(w->runs, run);
    if (*ret)
        return 0;
    close_idle_runs(w);
    int rc = bh_run_files_open(w->home, run, ret, err);
    if (rc == 0)
        bh_map_put(w->runs, run, *ret);
    return rc;
}

static void refuse_lease(struct bh_worker *w, const struct bh_lease *lease, int code, const struct bh_err *err)
{
    struct bh_verdict verdict;
    struct bh_result result = {.instance = lease->instance, .epoch = lease->epoch, .ended = bh_wall_now()};
    bh_verdict_host(&verdict, "taking the work", code, err);
    bh_verdict_to_result(&verdict, NULL, &result);
    bh_verdict_fini(&verdict);
    post_result(w, &result);
    bh_result_fini(&result);
}

/* A lease that cannot be read is answered as far as it names its execution. */
static void on_bad_lease(struct bh_worker *w, const struct bh_val *lease, int code, const struct bh_err *err)
{
    const char *instance = bh_val_str_of(lease, "instance");
    struct bh_lease head = {.epoch = bh_val_int_of(lease, "epoch")};
    bh_log(BH_LOG_ERROR, "worker.lease", "error", bh_err_message(err), NULL);
    if (!instance || !bh_instance_id_valid(instance))
        return;
    memcpy(head.instance.s, instance, sizeof(head.instance.s));
    refuse_lease(w, &head, code, err);
}

static void on_lease(struct bh_worker *w, const struct bh_val *answer)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    struct bh_lease lease = {0};
    struct bh_run_files *run;
    int rc = bh_lease_from_val(bh_val_get(answer, "lease"), &lease, &err);
    if (rc != 0) {
        on_bad_lease(w, bh_val_get(answer, "lease"), rc, err);
        return;
    }
    if (bh_map_has(w->lives, lease.instance.s)) { /* told twice */
        bh_lease_fini(&lease);
        return;
    }
    rc = find_run(w, lease.run.s, &run, &err);
    if (rc != 0) {
        refuse_lease(w, &lease, rc, err);
        bh_lease_fini(&lease);
        return;
    }
    struct live *live = bh_alloc(sizeof(*live));
    bh_map_put(w->lives, lease.instance.s, live);
    live->execution = bh_execution_start(&w->host, run, &lease);
}

/* --- boxes --- */

/* A freeze or release that is under way: what is to be said when it is over. */
struct box_message {
    struct bh_worker *worker;
    struct bh_val *body;
};

static struct box_message *box_message_new(struct bh_worker *w, const char *kind, const struct bh_val *answer)
{
    static const char *const fields[] = {"run", "box", "key", "layer"};
    struct box_message *m = bh_alloc(sizeof(*m));
    m->worker = w;
    m->body = bh_val_map();
    bh_val_set_str(m->body, "kind", kind);
    for (size_t i = 0; i < BH_ARRAY_LEN(fields); i++) {
        if (bh_val_get(answer, fields[i]))
            bh_val_set_str(m->body, fields[i], bh_val_str_of(answer, fields[i]));
    }
    return m;
}

static void on_frozen(void *arg, int code, const struct bh_err *err)
{
    struct box_message *m = arg;
    bh_val_set_bool(m->body, "ok", code == 0);
    bh_val_set_str(m->body, "detail", err ? bh_err_message(err) : NULL);
    post_message(m->worker, m->body);
    bh_free(m);
}

static void on_freeze(struct bh_worker *w, const struct bh_val *answer)
{
    const char *run = bh_val_str_of(answer, "run"), *key = bh_val_str_of(answer, "key");
    const char *layer = bh_val_str_of(answer, "layer");
    if (run && key && layer)
        bh_shared_freeze(w->shared, run, key, layer, on_frozen, box_message_new(w, "frozen", answer));
}

static void on_released(void *arg)
{
    struct box_message *m = arg;
    post_message(m->worker, m->body);
    bh_free(m);
}

static void on_release(struct bh_worker *w, const struct bh_val *answer)
{
    const char *run = bh_val_str_of(answer, "run"), *key = bh_val_str_of(answer, "key");
    if (run && key)
        bh_shared_release(w->shared, run, key, bh_val_bool_of(answer, "keep"), on_released,
                          box_message_new(w, "released", answer));
}

/* --- what the engine answers --- */

static void on_kill(struct bh_worker *w, const struct bh_val *answer)
{
    const char *instance = bh_val_str_of(answer, "instance");
    const struct live *live = instance ? bh_map_get(w->lives, instance) : NULL;
    if (live && bh_execution_lease(live->execution)->epoch == bh_val_int_of(answer, "epoch"))
        bh_execution_cancel(live->execution);
}

static void on_none(struct bh_worker *w, const struct bh_val *answer)
{
    (void)w;
    (void)answer;
}

struct answer_kind {
    const char *kind;
    void (*fn)(struct bh_worker *w, const struct bh_val *answer);
};

static void dispatch(struct bh_worker *w, const struct answer_kind *kinds, size_t n, const struct bh_val *answer)
{
    const char *kind = bh_val_str_of(answer, "kind");
    for (size_t i = 0; i < n; i++) {
        if (bh_streq(kind, kinds[i].kind)) {
            kinds[i].fn(w, answer);
            return;
        }
    }
    bh_log(BH_LOG_WARN, "worker.unknown", "kind", kind ? kind : "", NULL);
}

static void on_work(struct bh_worker *w, const struct bh_val *answer)
{
    static const struct answer_kind kinds[] = {
        {"none", on_none}, {"lease", on_lease}, {"freeze", on_freeze}, {"release", on_release}};
    dispatch(w, kinds, BH_ARRAY_LEN(kinds), answer);
}

static void on_control(struct bh_worker *w, const struct bh_val *answer)
{
    static const struct answer_kind kinds[] = {{"none", on_none}, {"kill", on_kill}};
    dispatch(w, kinds, BH_ARRAY_LEN(kinds), answer);
}

static void park(struct parked *p);

/* The next call goes out before the answer is looked at: the engine need not wait for what follows from it. */
static void on_parked(void *arg, const struct bh_val *answer)
{
    struct parked *p = arg;
    p->outstanding = false;
    if (!answer)
        return; /* again when the line is up */
    park(p);
    p->on_answer(p->worker, answer);
}

static void park(struct parked *p)
{
    if (p->outstanding)
        return;
    struct bh_val *body = bh_val_map();
    bh_val_set_str(body, "kind", p->kind);
    p->outstanding = bh_engine_link_call(p->worker->link, body, PARKED_TIMEOUT_NS, on_parked, p);
}

static void on_up(void *arg)
{
    struct bh_worker *w = check(arg);
    BH_LIST_FOREACH (it, tmp, &w->messages) {
        send_message(BH_CONTAINER(it, struct must_arrive, link));
    }
    park(&w->work);
    park(&w->control);
}

/* --- life --- */

static int open_parts(struct bh_worker *w, const struct bh_worker_options *options, struct bh_err **err)
{
    w->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (w->null_fd < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot open '/dev/null'");
    int rc = bh_helper_new(w->loop, &w->helper, err);
    if (rc != 0)
        return rc;
    rc = bh_helper_new(w->loop, &w->audit, err);
    if (rc != 0)
        return rc;
    w->ways =
        (struct bh_ways_host){.loop = w->loop, .brokers = bh_brokers_new(w->loop), .audit = w->audit, .home = w->home};
    w->shared = bh_shared_boxes_new(w->loop, w->boxes, w->null_fd, &w->ways);
    w->snapshots = bh_snapshots_new(w->loop, w->boxes, w->home);
    w->warm = bh_warm_servers_new(w->loop);
    w->secrets = bh_secret_desk_new(w->loop, w->home);
    w->host = (struct bh_execution_host){
        .loop = w->loop,
        .boxes = w->boxes,
        .shared = w->shared,
        .helper = w->helper,
        .snapshots = w->snapshots,
        .warm = w->warm,
        .secrets = w->secrets,
        .ways = &w->ways,
        .null_fd = w->null_fd,
        .arg = w,
        .state = on_state,
        .ended = on_ended,
    };
    const struct bh_engine_link_options link = {
        .url = options->url, .token = options->token, .slots = options->slots, .up = on_up, .arg = w};
    return bh_engine_link_new(w->loop, &link, &w->link, err);
}

int bh_worker_new(struct event_base *loop, struct bh_boxes *boxes, const struct bh_worker_options *options,
                  struct bh_worker **ret, struct bh_err **err)
{
    struct bh_worker *w = bh_alloc(sizeof(*w));
    w->magic = MAGIC;
    w->loop = loop;
    w->boxes = boxes;
    w->home = bh_strdup(options->home);
    w->null_fd = -1;
    w->work = (struct parked){.worker = w, .kind = "work", .on_answer = on_work};
    w->control = (struct parked){.worker = w, .kind = "control", .on_answer = on_control};
    w->lives = bh_map_new(bh_free);
    w->tell = evtimer_new(loop, tell_states, w);
    BH_ASSERT(w->tell);
    w->runs = bh_map_new(NULL);
    bh_list_init(&w->messages);
    int rc = open_parts(w, options, err);
    if (rc != 0) {
        bh_worker_free(w);
        return bh_err_wrap(err, rc, "starting the worker");
    }
    *ret = w;
    return 0;
}

/* Attempts come before what is made for them, and lower numbers first. */
static bool is_sooner(const struct bh_lease *a, const struct bh_lease *b)
{
    bool a_runs = a->kind == BH_LEASE_RUN, b_runs = b->kind == BH_LEASE_RUN;
    return a_runs != b_runs ? a_runs : a->attempt < b->attempt;
}

static struct bh_execution *find_visited(const struct bh_worker *w, const char *agent, int attempt)
{
    struct bh_execution *best = NULL;
    const char *instance;
    void *value;
    for (size_t it = 0; bh_map_next(w->lives, &it, &instance, &value);) {
        struct bh_execution *e = ((struct live *)value)->execution;
        const struct bh_lease *lease = bh_execution_lease(e);
        if (!bh_streq(lease->agent, agent) || !bh_execution_is_visible(e) ||
            (attempt > 0 && lease->kind == BH_LEASE_RUN && lease->attempt != attempt))
            continue;
        if (!best || is_sooner(lease, bh_execution_lease(best)))
            best = e;
    }
    return best;
}

const struct bh_lease *bh_worker_whom(struct bh_worker *w, const char *agent, int attempt)
{
    const struct bh_execution *e = find_visited(check(w), agent, attempt);
    return e ? bh_execution_lease(e) : NULL;
}

struct bh_box_call *bh_worker_visit(struct bh_worker *w, const struct bh_worker_visit *visit,
                                    void (*fn)(void *arg, const struct bh_exec_result *result), void *arg)
{
    struct bh_execution *e = find_visited(check(w), visit->agent, visit->attempt);
    return e ? bh_execution_visit(e, visit, fn, arg) : NULL;
}

static void free_messages(struct bh_worker *w)
{
    BH_LIST_FOREACH (it, tmp, &w->messages) {
        struct must_arrive *m = BH_CONTAINER(it, struct must_arrive, link);
        bh_val_free(m->body);
        bh_free(m);
    }
}

void bh_worker_free(struct bh_worker *w)
{
    const char *key;
    void *value;
    if (!w)
        return;
    for (size_t it = 0; bh_map_next(w->lives, &it, &key, &value);)
        bh_execution_free(((struct live *)value)->execution);
    bh_shared_boxes_free(w->shared);
    bh_warm_servers_free(w->warm);
    bh_brokers_free(w->ways.brokers);
    bh_snapshots_free(w->snapshots);
    bh_engine_link_free(w->link);
    bh_secret_desk_free(w->secrets);
    bh_helper_free(w->helper);
    bh_helper_free(w->audit);
    free_messages(w);
    for (size_t it = 0; bh_map_next(w->runs, &it, &key, &value);)
        bh_run_files_unref(value);
    bh_map_free(w->runs);
    bh_map_free(w->lives);
    event_free(w->tell);
    bh_close(w->null_fd);
    bh_free(w->home);
    w->magic = 0;
    bh_free(w);
}
