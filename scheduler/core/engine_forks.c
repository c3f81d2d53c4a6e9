/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of several executions: what is made once (setup, prepare), then the attempts that start from it, all at once,
 * and the choice among them. Owns the units of such a node; one unit is one of these executions with its tries.
 *
 *                 bh_fork_leased           passed
 *      ready ────────────────────► live ───────────► passed     setup, prepare: the next ones may start
 *        ▲                          │ │
 *        │    again, or forgotten   │ └────────────► failed     for good
 *        └──────────────────────────┘ └────────────► stopped    a loser that need not go on
 *        ◄── reopened by a person ─── failed, stopped (and passed, where what it started from may be another now)
 *
 * The node is `active` while a unit is live, or between the choice and the answer to the effect PUBLISH; `ready` or
 * `waiting` while none is live and some unit is still to start. It is in the ready queue exactly while `queued`, and it
 * may be both active and queued. Once it has begun it goes on like anybody who runs when the failure budget stops new
 * starts; only what ended badly is not tried again. What was cut off by a new owner then, or by a cancel, is not
 * started again, and the node is opened with it when a person resumes.
 *
 * A setup or preparation is made again whenever its snapshot may be gone: with a new owner, and when the host or the
 * box of an attempt failed. Where it is still there under its key, that costs next to nothing.
 */
#include "scheduler/core/engine_priv.h"

static struct bh_engine_forks *forks_of(struct bh_engine *e, size_t node)
{
    return e->nodes[node].forks;
}

static const struct bh_spec_forks *rules_of(const struct bh_engine *e, size_t node)
{
    return e->spec->nodes[node].forks;
}

/* --- life --- */

void bh_forks_init(struct bh_engine *e)
{
    e->setups = bh_calloc(e->spec->n_setups, sizeof(*e->setups));
    for (size_t i = 0; i < e->spec->n_setups; i++)
        bh_list_init(&e->setups[i].waiters);
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        const struct bh_spec_forks *rules = rules_of(e, n);
        if (!rules)
            continue;
        struct bh_engine_forks *f = e->nodes[n].forks = bh_alloc(sizeof(*f));
        f->n_once = (size_t)rules->setup + (size_t)rules->prepare;
        f->n_units = f->n_once + rules->attempts;
        f->units = bh_calloc(f->n_units, sizeof(*f->units));
        f->n_open = rules->attempts;
        f->next = f->n_once;
        f->publishing = BH_NONE;
        bh_list_init(&f->wait);
    }
}

void bh_forks_fini(struct bh_engine *e)
{
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        if (e->nodes[n].forks)
            bh_free(e->nodes[n].forks->units);
        bh_free(e->nodes[n].forks);
    }
    bh_free(e->setups);
}

/* --- which unit is next --- */

static enum bh_execution kind_of(const struct bh_spec_forks *rules, const struct bh_engine_forks *f, size_t unit)
{
    if (unit >= f->n_once)
        return BH_EXECUTION_RUN;
    return rules->setup && unit == 0 ? BH_EXECUTION_SETUP : BH_EXECUTION_PREPARE;
}

size_t bh_fork_next(struct bh_engine *e, size_t node)
{
    struct bh_engine_forks *f = forks_of(e, node);
    if (f->stopping || f->cut_off)
        return BH_NONE;
    for (size_t u = 0; u < f->n_once; u++) {
        if (f->units[u].state == BH_UNIT_READY)
            return u;
        if (f->units[u].state != BH_UNIT_PASSED)
            return BH_NONE;
    }
    while (f->next < f->n_units && f->units[f->next].state != BH_UNIT_READY)
        f->next++;
    return f->next < f->n_units ? f->next : BH_NONE;
}

static struct bh_engine_setup *setup_of(struct bh_engine *e, size_t node)
{
    size_t setup = rules_of(e, node)->setup_group;
    return setup > 0 ? &e->setups[setup - 1] : NULL;
}

bool bh_fork_must_wait(struct bh_engine *e, size_t node)
{
    struct bh_engine_forks *f = forks_of(e, node);
    struct bh_engine_setup *s = setup_of(e, node);
    if (!s || !s->busy || kind_of(rules_of(e, node), f, bh_fork_next(e, node)) != BH_EXECUTION_SETUP)
        return false;
    bh_ready_hold(&e->ready, e->spec->nodes[node].box, BH_HOLD_SETUP);
    f->node = node;
    bh_list_append(&s->waiters, &f->wait);
    return true;
}

static void setup_ended(struct bh_engine *e, size_t node)
{
    struct bh_engine_setup *s = setup_of(e, node);
    if (!s)
        return;
    s->busy = false;
    BH_LIST_FOREACH (it, tmp, &s->waiters) {
        const struct bh_engine_forks *f = BH_CONTAINER(it, struct bh_engine_forks, wait);
        bh_list_remove(it);
        bh_ready_release(&e->ready, e->spec->nodes[f->node].box, BH_HOLD_SETUP);
    }
}

void bh_fork_leased(struct bh_engine *e, size_t node, size_t attempt)
{
    struct bh_engine_forks *f = forks_of(e, node);
    size_t unit = bh_fork_next(e, node);
    BH_ASSERT(unit != BH_NONE);
    struct bh_attempt *a = &e->attempts[attempt].pub;
    struct bh_engine_unit *u = &f->units[unit];
    e->attempts[attempt].unit = unit;
    a->kind = kind_of(rules_of(e, node), f, unit);
    a->attempt = unit < f->n_once ? 0 : (int)(unit - f->n_once) + 1;
    a->try_ = ++u->tries;
    u->state = BH_UNIT_LIVE;
    u->execution = attempt;
    f->n_live++;
    f->begun = true;
    f->queued = false;
    if (a->kind == BH_EXECUTION_SETUP && setup_of(e, node))
        setup_of(e, node)->busy = true;
}

/* There is more to start beside what has just been leased. */
void bh_fork_requeue(struct bh_engine *e, size_t node)
{
    struct bh_engine_forks *f = forks_of(e, node);
    if (f->queued || bh_fork_next(e, node) == BH_NONE || bh_node_unmet(e, node) > 0)
        return;
    f->queued = true;
    bh_ready_add(&e->ready, node);
}

static void dequeue(struct bh_engine *e, size_t node)
{
    if (forks_of(e, node)->queued)
        bh_ready_drop(&e->ready, node);
    forks_of(e, node)->queued = false;
}

/* --- one of them has ended --- */

static void set_unit(struct bh_engine_forks *f, size_t unit, enum bh_unit_state to)
{
    struct bh_engine_unit *u = &f->units[unit];
    bool was_open = u->state == BH_UNIT_READY || u->state == BH_UNIT_LIVE;
    bool is_open = to == BH_UNIT_READY || to == BH_UNIT_LIVE;
    if (unit >= f->n_once) {
        f->n_open += (size_t)is_open - (size_t)was_open;
        f->n_passed += (size_t)(to == BH_UNIT_PASSED) - (size_t)(u->state == BH_UNIT_PASSED);
        if (to == BH_UNIT_READY && unit < f->next)
            f->next = unit;
    }
    u->state = to;
}

static struct bh_engine_unit *leave_unit(struct bh_engine *e, size_t attempt)
{
    const struct bh_engine_attempt *a = &e->attempts[attempt];
    struct bh_engine_forks *f = forks_of(e, a->pub.node);
    f->n_live--;
    if (a->pub.kind == BH_EXECUTION_SETUP)
        setup_ended(e, a->pub.node);
    return &f->units[a->unit];
}

void bh_fork_passed(struct bh_engine *e, size_t attempt, bool has_score, double score)
{
    struct bh_engine_forks *f = forks_of(e, e->attempts[attempt].pub.node);
    struct bh_engine_unit *u = leave_unit(e, attempt);
    set_unit(f, e->attempts[attempt].unit, BH_UNIT_PASSED);
    u->has_score = has_score;
    u->score = score;
    u->passed_as = ++f->passes;
}

/* What it started from may be what is broken. */
static void make_once_again(struct bh_engine_forks *f)
{
    for (size_t u = 0; u < f->n_once; u++) {
        if (f->units[u].state == BH_UNIT_PASSED)
            set_unit(f, u, BH_UNIT_READY);
    }
}

void bh_fork_ended_badly(struct bh_engine *e, size_t attempt, bool free_of_charge, enum bh_reason reason)
{
    const struct bh_engine_attempt *a = &e->attempts[attempt];
    size_t node = a->pub.node, unit = a->unit;
    struct bh_engine_forks *f = forks_of(e, node);
    struct bh_engine_unit *u = leave_unit(e, attempt);
    if (f->stopping) {
        set_unit(f, unit, a->kill_asked ? BH_UNIT_STOPPED : BH_UNIT_FAILED);
        u->reason = reason;
        u->phase = a->pub.phase;
        return;
    }
    if (!free_of_charge)
        ++*(bh_retry_is_host(reason) ? &u->retry.host_tries : &u->retry.other_tries);
    bool again = bh_retry_again(&u->retry, reason, e->spec->nodes[node].retries, free_of_charge);
    bool cut_off = e->stop != BH_STOP_NONE && (free_of_charge || a->pub.state != BH_ATTEMPT_FAILED);
    if (cut_off) {
        f->cut_off = true;
        dequeue(e, node);
    }
    set_unit(f, unit, (again && e->stop == BH_STOP_NONE) || cut_off ? BH_UNIT_READY : BH_UNIT_FAILED);
    u->reason = reason;
    u->phase = a->pub.phase;
    if (again && bh_retry_is_host(reason))
        make_once_again(f);
}

/* Nobody can start from what could not be made. */
static void fail_unstarted(struct bh_engine_forks *f)
{
    for (size_t once = 0; once < f->n_once; once++) {
        const struct bh_engine_unit *bad = &f->units[once];
        if (bad->state != BH_UNIT_FAILED)
            continue;
        for (size_t u = f->n_once; u < f->n_units; u++) {
            if (f->units[u].state != BH_UNIT_READY)
                continue;
            set_unit(f, u, BH_UNIT_FAILED);
            f->units[u].reason = bad->reason;
            f->units[u].phase = bad->phase;
        }
        return;
    }
}

void bh_fork_give_up(struct bh_engine *e, size_t node)
{
    struct bh_engine_forks *f = forks_of(e, node);
    f->queued = false; /* it was taken from there */
    for (size_t u = 0; u < f->n_units; u++) {
        if (f->units[u].state != BH_UNIT_READY)
            continue;
        set_unit(f, u, BH_UNIT_FAILED);
        f->units[u].reason = BH_REASON_HOST;
    }
}

/* --- the choice --- */

static struct bh_select_verdict decide(struct bh_engine *e, size_t node)
{
    static const enum bh_select_state states[] = {[BH_UNIT_READY] = BH_SELECT_OPEN,
                                                  [BH_UNIT_LIVE] = BH_SELECT_OPEN,
                                                  [BH_UNIT_PASSED] = BH_SELECT_PASSED,
                                                  [BH_UNIT_FAILED] = BH_SELECT_FAILED,
                                                  [BH_UNIT_STOPPED] = BH_SELECT_STOPPED};
    const struct bh_engine_forks *f = forks_of(e, node);
    const struct bh_select_rule *rule = &rules_of(e, node)->rule;
    size_t n = f->n_units - f->n_once;
    if (f->n_open > 0 && !rule->stop_losers) /* asked at each end of thousands */
        return (struct bh_select_verdict){.winner = SIZE_MAX};
    BH_CLEANUP_FREE struct bh_select_attempt *attempts = bh_calloc(n, sizeof(*attempts));
    for (size_t i = 0; i < n; i++) {
        const struct bh_engine_unit *u = &f->units[f->n_once + i];
        attempts[i] = (struct bh_select_attempt){
            .state = states[u->state], .has_score = u->has_score, .score = u->score, .passed_as = u->passed_as};
    }
    return bh_select_decide(rule, attempts, n);
}

static void set_selected(struct bh_engine *e, size_t node, size_t unit, bool selected)
{
    size_t execution = forks_of(e, node)->units[unit].execution;
    e->attempts[execution].pub.selected = selected;
    bh_changed_attempt(e, execution);
}

static void take(struct bh_engine *e, size_t node, size_t winner, struct bh_effects *fx)
{
    struct bh_engine_forks *f = forks_of(e, node);
    if (e->nodes[node].pub.state != BH_NODE_ACTIVE) /* the last that was open has been given up */
        bh_node_set_state(e, node, BH_NODE_ACTIVE);
    for (size_t u = f->n_once; u < f->n_units; u++) {
        if (winner == SIZE_MAX ? f->units[u].state == BH_UNIT_PASSED : u == f->n_once + winner)
            set_selected(e, node, u, true);
    }
    if (winner == SIZE_MAX || !rules_of(e, node)->numbered) {
        bh_node_done(e, node);
        return;
    }
    f->publishing = f->n_once + winner;
    bh_fork_publish(e, node, fx);
}

void bh_fork_publish(struct bh_engine *e, size_t node, struct bh_effects *fx)
{
    const struct bh_engine_forks *f = forks_of(e, node);
    const struct bh_attempt *a = &e->attempts[f->units[f->publishing].execution].pub;
    struct bh_effect *effect = bh_effects_add(fx, BH_EFFECT_PUBLISH);
    effect->node = node;
    effect->box = e->spec->nodes[node].box;
    effect->attempt = a->attempt;
    effect->try_ = a->try_;
    effect->instance = a->instance;
    effect->epoch = a->epoch;
}

/* Why the agent has no result: what its first attempt that failed failed by. */
static struct bh_engine_unit blame(const struct bh_engine_forks *f, bool unscored)
{
    for (size_t u = 0; u < f->n_units && !unscored; u++) {
        if (f->units[u].state == BH_UNIT_FAILED)
            return f->units[u];
    }
    return (struct bh_engine_unit){.reason = BH_REASON_CHECK};
}

static void stop_losers(struct bh_engine *e, size_t node, struct bh_effects *fx)
{
    struct bh_engine_forks *f = forks_of(e, node);
    f->stopping = true;
    dequeue(e, node);
    for (size_t u = f->n_once; u < f->n_units; u++) {
        if (f->units[u].state == BH_UNIT_LIVE)
            bh_attempt_kill(e, f->units[u].execution, fx);
        else if (f->units[u].state == BH_UNIT_READY)
            set_unit(f, u, BH_UNIT_STOPPED);
    }
}

static bool may_go_on(const struct bh_engine *e)
{
    return e->stop == BH_STOP_NONE || e->stop == BH_STOP_BUDGET;
}

/* Nobody is live and nothing is decided: the rest starts as soon as it may, or never. */
static void go_on(struct bh_engine *e, size_t node)
{
    struct bh_engine_forks *f = forks_of(e, node);
    dequeue(e, node);
    if (e->stop == BH_STOP_NONE || (may_go_on(e) && bh_fork_next(e, node) != BH_NONE && bh_node_unmet(e, node) == 0)) {
        bh_node_again(e, node);
        f->begun = e->nodes[node].pub.state == BH_NODE_READY;
    } else if (e->stop == BH_STOP_BUDGET) {
        bh_node_leave_out(e, node, e->failure.node);
    } else {
        bh_node_cancel(e, node);
    }
}

bool bh_fork_settle(struct bh_engine *e, size_t node, struct bh_effects *fx, struct bh_node_failure *ret)
{
    struct bh_engine_forks *f = forks_of(e, node);
    fail_unstarted(f);
    struct bh_select_verdict v = decide(e, node);
    if (v.answer == BH_SELECT_WAIT && f->n_live == 0)
        go_on(e, node);
    else if (v.answer == BH_SELECT_WAIT && may_go_on(e))
        bh_fork_requeue(e, node);
    if (v.answer == BH_SELECT_WAIT)
        return true;
    if (!f->stopping)
        stop_losers(e, node, fx);
    if (f->n_live > 0)
        return true;
    if (v.answer == BH_SELECT_TAKE) {
        take(e, node, v.winner, fx);
        return true;
    }
    struct bh_engine_unit bad = blame(f, v.unscored);
    *ret = (struct bh_node_failure){bad.reason, bad.phase};
    return false;
}

bool bh_fork_published(struct bh_engine *e, const struct bh_event *ev, size_t *ret_node)
{
    size_t at = bh_attempt_place(e, &ev->instance);
    struct bh_engine_forks *f = at == BH_NONE ? NULL : forks_of(e, e->attempts[at].pub.node);
    if (!f || f->publishing == BH_NONE || f->units[f->publishing].execution != at)
        return false;
    *ret_node = e->attempts[at].pub.node;
    f->refused = ev->reason != BH_REASON_NONE;
    if (f->refused)
        set_selected(e, *ret_node, f->publishing, false);
    f->publishing = BH_NONE;
    return true;
}

/* --- starting anew --- */

void bh_forks_new_owner(struct bh_engine *e, struct bh_effects *fx)
{
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        struct bh_engine_forks *f = e->nodes[n].forks;
        if (!f || bh_node_has_ended(e, n))
            continue;
        if (f->publishing != BH_NONE)
            bh_fork_publish(e, n, fx);
        else
            make_once_again(f);
    }
}

void bh_fork_unqueue_all(struct bh_engine *e)
{
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        if (e->nodes[n].forks)
            e->nodes[n].forks->queued = false;
    }
}

bool bh_fork_has_begun(const struct bh_engine *e, size_t node)
{
    return e->nodes[node].forks && e->nodes[node].forks->begun;
}

void bh_fork_forgive(struct bh_engine *e, size_t node)
{
    struct bh_engine_forks *f = forks_of(e, node);
    for (size_t u = 0; u < f->n_units; u++)
        f->units[u].retry = (struct bh_retry_state){0};
    f->cut_off = false;
}

void bh_fork_reopen(struct bh_engine *e, size_t node, bool all)
{
    struct bh_engine_forks *f = forks_of(e, node);
    bool some = false; /* did not pass: else they all did, and still nobody could be chosen */
    for (size_t u = f->n_once; u < f->n_units; u++)
        some = some || f->units[u].state != BH_UNIT_PASSED;
    bool keep = some && !all && !f->refused;
    for (size_t u = 0; u < f->n_units; u++) {
        if (f->units[u].state == BH_UNIT_PASSED && u >= f->n_once && keep)
            continue;
        if (f->units[u].state == BH_UNIT_PASSED && e->attempts[f->units[u].execution].pub.selected)
            set_selected(e, node, u, false);
        set_unit(f, u, BH_UNIT_READY);
    }
    f->stopping = f->refused = f->cut_off = f->begun = false;
}

bool bh_engine_is_final(const struct bh_engine *e, struct bh_instance_id instance)
{
    size_t at = bh_attempt_place(e, &instance);
    const struct bh_engine_forks *f = at == BH_NONE ? NULL : e->nodes[e->attempts[at].pub.node].forks;
    if (!f || e->attempts[at].pub.kind != BH_EXECUTION_RUN)
        return false;
    const struct bh_engine_unit *u = &f->units[e->attempts[at].unit];
    return u->execution == at && u->state != BH_UNIT_READY && u->state != BH_UNIT_LIVE;
}
