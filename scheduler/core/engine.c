/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run machine and the handlers of events. Owns the run's status, why nothing starts any more (`stop`), the failure
 * budget, workers and epoch, and what becomes of a node when its execution has ended. Touches nothing but its own
 * memory; the same events give the same steps.
 *
 *               on_start              end_run
 *      queued ───────────► running ───────────► succeeded
 *        │                  │ ▲ │
 *        │                  │ │ └── end_run ──► failed    ──┐
 *        │                  │ └───── on_retry_failed ───────┤
 *        │                  └────── end_run ──► cancelled ──┘
 *        └───────────────── end_run ──────────────▲
 *
 *   queued      nothing has started; workers may come and go already
 *   running     some node has not ended, or (of a run that is bound to fail) a box is being frozen
 *   the ends    every node has ended and no execution is live; the effect ENDED has been given once
 */
#include "scheduler/core/engine_priv.h"

#define ENGINE_MAGIC 0x62a7e91eU

struct input { /* of a handler */
    const struct bh_event *ev;
    struct bh_wall now;
    struct bh_effects *fx;
};

static void set_status(struct bh_engine *e, enum bh_run_status to)
{
    BH_ASSERT(bh_run_may_move(e->status, to));
    e->status = to;
    e->changed_run = true;
}

/* --- life --- */

struct bh_engine *bh_engine_new(struct bh_run_id run, const struct bh_spec *spec)
{
    struct bh_engine *e = bh_alloc(sizeof(*e));
    e->magic = ENGINE_MAGIC;
    e->run = run;
    e->spec = spec;
    e->epoch = 1;
    e->failure.node = e->live_first = e->live_last = BH_NONE;
    e->max_attempts = BH_ENGINE_MAX_INSTANCES;
    bh_boxes_init(e);
    bh_gates_init(e);
    bh_nodes_init(e);
    bh_forks_init(e);
    return e;
}

void bh_engine_free(struct bh_engine *e)
{
    if (!e)
        return;
    BH_ASSERT(e->magic == ENGINE_MAGIC);
    e->magic = 0;
    bh_forks_fini(e);
    bh_nodes_fini(e);
    bh_gates_fini(e);
    bh_boxes_fini(e);
    bh_free(e->attempts);
    bh_free(e->workers);
    bh_free(e->changed_nodes.items);
    bh_free(e->changed_attempts.items);
    bh_free(e->changed_boxes.items);
    bh_free(e);
}

/* --- endings --- */

static void end_run(struct bh_engine *e, struct bh_effects *fx)
{
    enum bh_run_status to = BH_RUN_SUCCEEDED;
    if (e->stop == BH_STOP_CANCEL)
        to = BH_RUN_CANCELLED;
    else if (e->failure.reason != BH_REASON_NONE)
        to = BH_RUN_FAILED;
    set_status(e, to);
    bh_effects_add(fx, BH_EFFECT_ENDED)->status = to;
}

static void kill_live(struct bh_engine *e, struct bh_effects *fx)
{
    for (size_t i = e->live_first; i != BH_NONE; i = e->attempts[i].next)
        bh_attempt_kill(e, i, fx);
}

static bool killed_by_us(enum bh_stop stop)
{
    return stop == BH_STOP_CANCEL || stop == BH_STOP_DEADLINE;
}

/* The node fails for good. What that means for the run depends on whether somebody handles it. */
static void fail_node(struct bh_engine *e, size_t node, enum bh_reason reason, enum bh_phase phase)
{
    struct bh_failure_budget budget = {.allowed = e->spec->failures_allowed};
    bh_node_fail(e, node, reason, phase);
    if (e->nodes[node].handled)
        return;
    e->failures++;
    if (!bh_failure_budget_exceeded(&budget, e->failures) || e->failure.reason != BH_REASON_NONE)
        return;
    e->failure.reason = reason;
    e->failure.node = node;
    e->changed_run = true;
    if (!e->spec->keep_going && e->stop == BH_STOP_NONE) {
        e->stop = BH_STOP_BUDGET;
        bh_nodes_close_skipped(e, node);
    }
}

static void settle_forks(struct bh_engine *e, size_t node, struct bh_effects *fx)
{
    struct bh_node_failure failure;
    if (!bh_fork_settle(e, node, fx, &failure))
        fail_node(e, node, failure.reason, failure.phase);
}

/*
 * An execution has ended and did not succeed. What we killed, and what died with bulkhead, counts against nothing. One
 * that was cancelled though nobody asked (its worker gave up) is as good as lost.
 */
static void settle_bad_end(struct bh_engine *e, size_t attempt, struct bh_effects *fx)
{
    const struct bh_engine_attempt *a = &e->attempts[attempt];
    struct bh_engine_node *n = &e->nodes[a->pub.node];
    bool cancelled = a->pub.state == BH_ATTEMPT_CANCELLED;
    bool free_of_charge = a->pub.died_with_bulkhead || (cancelled && a->kill_asked);
    enum bh_reason reason = cancelled ? BH_REASON_BOX_LOST : a->pub.reason;
    if (n->forks) {
        bh_fork_ended_badly(e, attempt, free_of_charge, reason);
        settle_forks(e, a->pub.node, fx);
        return;
    }
    if (!free_of_charge)
        ++*(bh_retry_is_host(reason) ? &n->retry.host_tries : &n->retry.other_tries);
    bool again = bh_retry_again(&n->retry, reason, e->spec->nodes[a->pub.node].retries, free_of_charge);
    if (again && e->stop == BH_STOP_NONE)
        bh_node_again(e, a->pub.node);
    else if (free_of_charge || (killed_by_us(e->stop) && a->pub.state != BH_ATTEMPT_FAILED))
        bh_node_cancel(e, a->pub.node);
    else
        fail_node(e, a->pub.node, reason, a->pub.phase);
}

static void lose_attempt(struct bh_engine *e, size_t attempt, bool with_bulkhead, const struct input *in)
{
    e->attempts[attempt].pub.died_with_bulkhead = with_bulkhead;
    bh_attempt_end(e, attempt, BH_ATTEMPT_LOST, BH_REASON_BOX_LOST, BH_PHASE_NONE, in->now);
    settle_bad_end(e, attempt, in->fx);
}

/* --- the end of every step --- */

static int64_t parallel_limit(const struct bh_engine *e)
{
    int64_t most = e->spec->max_parallel;
    return most > 0 && most < e->slots ? most : e->slots;
}

/* The run has used up its instance ids. */
static void give_up(struct bh_engine *e, size_t node, struct bh_effects *fx)
{
    if (!e->nodes[node].forks) {
        fail_node(e, node, BH_REASON_HOST, BH_PHASE_NONE);
        return;
    }
    bh_fork_give_up(e, node);
    settle_forks(e, node, fx);
}

static void lease_ready(struct bh_engine *e, struct bh_wall now, struct bh_effects *fx)
{
    if (e->slot_freed)
        bh_boxes_slot_freed(e);
    e->slot_freed = false;
    while ((int64_t)e->n_live < parallel_limit(e)) {
        size_t node = bh_ready_first(&e->ready);
        if (node == BH_NONE)
            return;
        if (e->nodes[node].forks && bh_fork_must_wait(e, node))
            continue;
        int worker = bh_box_pick_worker(e, e->spec->nodes[node].box);
        if (worker < 0)
            continue;
        bh_ready_take(&e->ready, node);
        if (e->n_attempts == e->max_attempts) {
            give_up(e, node, fx);
            continue;
        }
        size_t at = bh_attempt_lease(e, node, worker, now); /* moves e->attempts */
        const struct bh_attempt *a = &e->attempts[at].pub;
        struct bh_effect *f = bh_effects_add(fx, BH_EFFECT_LEASE);
        f->execution = a->kind;
        f->node = node;
        f->box = e->spec->nodes[node].box;
        f->attempt = a->attempt;
        f->try_ = a->try_;
        f->worker = worker;
        f->instance = a->instance;
        f->epoch = a->epoch;
    }
}

static bool all_ended(const struct bh_engine *e)
{
    return e->n_in[BH_NODE_WAITING] + e->n_in[BH_NODE_READY] + e->n_in[BH_NODE_ACTIVE] == 0;
}

/* What those who succeeded left in a shared box is kept for a person who mends the failure and resumes. */
static bool must_freeze_first(struct bh_engine *e, struct bh_effects *fx)
{
    if (e->failure.reason == BH_REASON_NONE || killed_by_us(e->stop))
        return false;
    bh_boxes_freeze_due(e, fx);
    return e->n_freezing > 0;
}

static void settle(struct bh_engine *e, struct bh_wall now, struct bh_effects *fx)
{
    if (e->status != BH_RUN_RUNNING)
        return;
    if (!all_ended(e) && !killed_by_us(e->stop)) {
        bh_gates_ask(e, fx);
        bh_boxes_freeze_due(e, fx);
        lease_ready(e, now, fx);
    }
    if (all_ended(e) && !must_freeze_first(e, fx))
        end_run(e, fx);
}

/* --- events: each handler says whether the event meant anything --- */

static void arm_deadline(struct bh_engine *e, struct bh_effects *fx)
{
    if (e->spec->deadline_ms > 0)
        bh_effects_add(fx, BH_EFFECT_DEADLINE)->at = e->deadline_at;
}

static void begin_deadline(struct bh_engine *e, struct bh_wall now, struct bh_effects *fx)
{
    e->deadline_at = (struct bh_wall){.us = now.us + e->spec->deadline_ms * 1000};
    arm_deadline(e, fx);
}

static bool on_start(struct bh_engine *e, const struct input *in)
{
    set_status(e, BH_RUN_RUNNING);
    bh_nodes_start(e);
    begin_deadline(e, in->now, in->fx);
    return true;
}

static bool on_owner(struct bh_engine *e, const struct input *in)
{
    e->epoch++;
    e->changed_run = true;
    for (size_t w = 0; w < e->n_workers; w++)
        e->workers[w].up = false;
    e->slots = 0;
    bh_boxes_forget_workers(e);
    bh_gates_new_owner(e);
    bh_forks_new_owner(e, in->fx); /* before more of them come to publish */
    while (e->live_first != BH_NONE)
        lose_attempt(e, e->live_first, true, in);
    if (e->status == BH_RUN_RUNNING && !killed_by_us(e->stop))
        arm_deadline(e, in->fx);
    return true;
}

static bool on_retry_failed(struct bh_engine *e, const struct input *in)
{
    if (e->status != BH_RUN_RUNNING)
        set_status(e, BH_RUN_RUNNING);
    e->stop = BH_STOP_NONE;
    e->failures = 0;
    e->failure.reason = BH_REASON_NONE;
    e->failure.node = BH_NONE;
    e->changed_run = true;
    bh_nodes_reopen(e);
    begin_deadline(e, in->now, in->fx);
    return true;
}

static bool on_worker_up(struct bh_engine *e, const struct input *in)
{
    if (in->ev->worker < 0 || in->ev->worker >= BH_ENGINE_MAX_WORKERS || in->ev->slots <= 0)
        return false;
    while (e->n_workers <= (size_t)in->ev->worker)
        (void)BH_PUSH(e->workers, e->n_workers, e->cap_workers);
    struct bh_engine_worker *w = &e->workers[in->ev->worker];
    if (w->up && w->slots == in->ev->slots)
        return false;
    e->slots += in->ev->slots - (w->up ? w->slots : 0);
    w->up = true;
    w->slots = in->ev->slots;
    e->slot_freed = true;
    return true;
}

static bool on_worker_lost(struct bh_engine *e, const struct input *in)
{
    if (in->ev->worker < 0 || (size_t)in->ev->worker >= e->n_workers || !e->workers[in->ev->worker].up)
        return false;
    e->workers[in->ev->worker].up = false;
    e->slots -= e->workers[in->ev->worker].slots;
    e->slot_freed = true;
    bh_boxes_worker_lost(e, in->ev->worker);
    for (size_t i = e->live_first, next; i != BH_NONE; i = next) {
        next = e->attempts[i].next;
        if (e->attempts[i].pub.worker == in->ev->worker)
            lose_attempt(e, i, false, in);
    }
    return true;
}

static bool on_state(struct bh_engine *e, const struct input *in)
{
    size_t at = bh_attempt_named(e, in->ev);
    return at != BH_NONE && bh_attempt_progress(e, at, in->ev->state, in->now);
}

/* Reasons come from a worker: what is none becomes `host`, the reason of whatever the host did not get done. */
static enum bh_reason reason_of(const struct bh_event *ev)
{
    if (ev->state == BH_ATTEMPT_LOST)
        return BH_REASON_BOX_LOST;
    if (ev->state != BH_ATTEMPT_FAILED)
        return BH_REASON_NONE;
    return bh_reason_info(ev->reason)->reason == BH_REASON_NONE ? BH_REASON_HOST : ev->reason;
}

static bool on_ended(struct bh_engine *e, const struct input *in)
{
    enum bh_attempt_state to = in->ev->state;
    size_t at = bh_attempt_named(e, in->ev);
    if (at == BH_NONE || !bh_attempt_is_end(to))
        return false;
    size_t node = e->attempts[at].pub.node;
    bh_attempt_end(e, at, to, reason_of(in->ev), to == BH_ATTEMPT_FAILED ? in->ev->phase : BH_PHASE_NONE, in->now);
    if (to == BH_ATTEMPT_SUCCEEDED && e->nodes[node].forks) {
        bh_fork_passed(e, at, in->ev->has_score, in->ev->score);
        settle_forks(e, node, in->fx);
    } else if (to == BH_ATTEMPT_SUCCEEDED) {
        e->attempts[at].pub.selected = true;
        bh_box_succeeded(e, e->spec->nodes[node].box); /* before the node: its stage may end with it */
        bh_node_done(e, node);
    } else {
        settle_bad_end(e, at, in->fx);
    }
    return true;
}

static bool on_published(struct bh_engine *e, const struct input *in)
{
    size_t node;
    if (!bh_fork_published(e, in->ev, &node))
        return false;
    if (in->ev->reason == BH_REASON_NONE)
        bh_node_done(e, node);
    else
        fail_node(e, node, in->ev->reason, BH_PHASE_NONE);
    return true;
}

static bool on_gate_asked(struct bh_engine *e, const struct input *in)
{
    return bh_gate_asked(e, in->ev->gate, in->now, in->fx);
}

/* Where the first one that fails ends the run's budget the others have been skipped because of it. */
static void refuse(struct bh_engine *e, size_t gate, enum bh_reason reason, enum bh_phase phase)
{
    const struct bh_spec_gate *s = &e->spec->gates[gate];
    for (size_t i = 0; i < s->n_nodes; i++) {
        if (e->nodes[s->nodes[i]].pub.state == BH_NODE_WAITING)
            fail_node(e, s->nodes[i], reason, phase);
    }
}

static bool on_gate_decided(struct bh_engine *e, const struct input *in)
{
    if (in->ev->approved)
        return bh_gate_open(e, in->ev->gate);
    if (!bh_gate_refuse(e, in->ev->gate))
        return false;
    refuse(e, in->ev->gate, BH_REASON_POLICY, BH_PHASE_NONE);
    return true;
}

static bool on_gate_expired(struct bh_engine *e, const struct input *in)
{
    if (!bh_gate_refuse(e, in->ev->gate))
        return false;
    refuse(e, in->ev->gate, BH_REASON_TIMEOUT, BH_PHASE_GATE);
    return true;
}

static bool on_frozen(struct bh_engine *e, const struct input *in)
{
    return bh_box_frozen(e, in->ev->box, in->ev->layer);
}

/*
 * With a reason: what agents left in the box could not be kept. To go on without it would be silently wrong, so nothing
 * starts any more. Without one the box had died before, and who was in it has been told.
 */
static bool on_freeze_failed(struct bh_engine *e, const struct input *in)
{
    if (!bh_box_freeze_failed(e, in->ev->box, in->ev->layer))
        return false;
    if (in->ev->reason == BH_REASON_NONE || e->failure.reason != BH_REASON_NONE || killed_by_us(e->stop))
        return true;
    e->failure.reason = in->ev->reason;
    e->failure.node = BH_NONE;
    e->changed_run = true;
    e->stop = BH_STOP_BUDGET;
    bh_nodes_close_skipped(e, BH_NONE);
    return true;
}

static bool on_cancel(struct bh_engine *e, const struct input *in)
{
    if (killed_by_us(e->stop))
        return false;
    e->stop = BH_STOP_CANCEL;
    e->changed_run = true;
    bh_nodes_close_cancelled(e);
    kill_live(e, in->fx);
    if (e->status == BH_RUN_QUEUED)
        end_run(e, in->fx);
    return true;
}

static bool on_deadline(struct bh_engine *e, const struct input *in)
{
    if (killed_by_us(e->stop) || e->spec->deadline_ms <= 0)
        return false;
    e->stop = BH_STOP_DEADLINE;
    if (e->failure.reason == BH_REASON_NONE)
        e->failure.reason = BH_REASON_TIMEOUT;
    e->changed_run = true;
    bh_nodes_close_cancelled(e);
    kill_live(e, in->fx);
    return true;
}

/* --- the step --- */

#define IN(status) (1U << BH_RUN_##status)
#define ANY (~0U)
static const struct {
    bool (*handle)(struct bh_engine *e, const struct input *in);
    unsigned in; /* statuses */
} rules[] = {
#define BH_EVENT(name, text, handler, statuses) [BH_EV_##name] = {handler, statuses},
#include "scheduler/core/events.def"
#undef BH_EVENT
};

bool bh_engine_step(struct bh_engine *e, const struct bh_event *event, struct bh_wall now, struct bh_effects *effects)
{
    BH_ASSERT(e->magic == ENGINE_MAGIC);
    effects->len = 0;
    bh_changes_clear(e);
    if ((size_t)event->kind >= BH_ARRAY_LEN(rules) || !(rules[event->kind].in & (1U << e->status)))
        return false;
    if (!rules[event->kind].handle(e, &(struct input){.ev = event, .now = now, .fx = effects}))
        return false;
    settle(e, now, effects);
    return true;
}

enum bh_run_status bh_engine_status(const struct bh_engine *e)
{
    return e->status;
}

int64_t bh_engine_epoch(const struct bh_engine *e)
{
    return e->epoch;
}

const struct bh_node *bh_engine_node(const struct bh_engine *e, size_t node)
{
    BH_ASSERT(node < e->spec->n_nodes);
    return &e->nodes[node].pub;
}

enum bh_reason bh_engine_failure(const struct bh_engine *e, size_t *ret_node)
{
    bool failed = e->failure.reason != BH_REASON_NONE && e->stop != BH_STOP_CANCEL;
    if (ret_node)
        *ret_node = failed ? e->failure.node : BH_NONE;
    return failed ? e->failure.reason : BH_REASON_NONE;
}
