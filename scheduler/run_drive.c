/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run from its start to its end: engine and worker meet on the bus, the loop turns until the run has ended, a signal
 * cancels it, and a second one, or a store that fails, breaks the loop.
 */
#include "scheduler/run_priv.h"

#include <event2/event.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/mem.h"

enum { TOKEN_BYTES = 16, MIN_SLOTS = 4, SLOTS_PER_CPU = 2, FORKS_PER_CPU = 8, TICK_US = 250000 };

/* --- what happens while it runs --- */

static void on_ended(void *arg, enum bh_run_status status BH_UNUSED)
{
    struct bh_session *s = arg;
    s->over = true;
    (void)event_base_loopbreak(s->loop);
}

static void on_failed(void *arg, struct bh_err *err)
{
    struct bh_session *s = arg;
    s->failed = err;
    (void)event_base_loopbreak(s->loop);
}

static void on_signal(evutil_socket_t number, short what BH_UNUSED, void *arg)
{
    struct bh_session *s = arg;
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
    struct bh_session *s = arg;
    s->options->watch.tick(s->options->watch.arg);
}

static int start_tick(struct bh_session *s, struct bh_err **err)
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

static int watch_signals(struct bh_session *s, struct bh_err **err)
{
    static const int numbers[BH_SESSION_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < BH_SESSION_SIGNALS; i++) {
        if (numbers[i] == SIGHUP && ignored(SIGHUP))
            continue;
        s->signals[i] = evsignal_new(s->loop, numbers[i], on_signal, s);
        if (!s->signals[i] || event_add(s->signals[i], NULL) != 0)
            return bh_err_set(err, BH_E_INTERNAL, 0, "cannot watch signals");
    }
    return 0;
}

/* --- how it begins --- */

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

static int slots(const struct bh_session *s)
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

static int meet(struct bh_session *s, struct bh_err **err)
{
    char token[2 * TOKEN_BYTES + 1];
    BH_CLEANUP_FREE char *url = bh_asprintf("inproc://bulkhead-%s", s->id.s);
    struct bh_worker_options worker = {.home = s->options->home->path, .url = url, .token = token, .slots = slots(s)};
    struct bh_dispatcher_owner owner = {
        .arg = s, .home = s->options->home, .gate = bh_session_tell_gate, .ended = on_ended, .failed = on_failed};
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
static bool has_unfinished(const struct bh_session *s)
{
    for (size_t i = 0; i < bh_live_run_plan(s->run)->n_agents; i++) {
        enum bh_node_state state = bh_engine_node(bh_live_run_engine(s->run), i)->state;
        if (state == BH_NODE_FAILED || state == BH_NODE_SKIPPED || state == BH_NODE_CANCELLED)
            return true;
    }
    return false;
}

/* {AGENT: ["10.0.0.0/8"]}: what the site permits each beyond public addresses. */
static void add_ranges(const struct bh_session *s, struct bh_val *extra)
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

static void begin(struct bh_session *s)
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

int bh_session_drive(struct bh_session *s, struct bh_err **err)
{
    struct bh_live_run_watch watch = {.arg = s, .node = bh_session_tell_node, .attempt = bh_session_tell_attempt};
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
