/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attempt machine: one execution of one attempt of a node, from lease to end. Owns executions, their instance ids
 * and the list of live ones. An instance id names the place in the array, so looking one up costs nothing.
 *
 *      queued ──bh_attempt_lease──► leased ─► booting ─► setup ─► running ─► checking ─► collecting
 *                                     └──────── bh_attempt_progress, forward, also over several ────────┘
 *      each of these but queued ──bh_attempt_end──► succeeded | failed | cancelled | lost
 *
 *   queued           for the length of one call
 *   leased …         live: it holds a slot of its worker, its node is active and names it
 *   the four ends    for ever; reason says why where it did not succeed, and `lost` is always box-lost
 * At most one execution of a node is live, unless it has forks (engine_forks.c).
 */
#include <string.h>

#include "scheduler/core/engine_priv.h"

bool bh_attempt_is_end(enum bh_attempt_state s)
{
    switch (s) {
    case BH_ATTEMPT_SUCCEEDED:
    case BH_ATTEMPT_FAILED:
    case BH_ATTEMPT_CANCELLED:
    case BH_ATTEMPT_LOST:
        return true;
    case BH_ATTEMPT_QUEUED:
    case BH_ATTEMPT_LEASED:
    case BH_ATTEMPT_BOOTING:
    case BH_ATTEMPT_SETUP:
    case BH_ATTEMPT_RUNNING:
    case BH_ATTEMPT_CHECKING:
    case BH_ATTEMPT_COLLECTING:
        return false;
    }
    return false;
}

static void set_state(struct bh_engine *e, size_t attempt, enum bh_attempt_state to)
{
    struct bh_attempt *a = &e->attempts[attempt].pub;
    BH_ASSERT(bh_attempt_may_move(a->state, to));
    a->state = to;
    bh_changed_attempt(e, attempt);
}

static void live_append(struct bh_engine *e, size_t attempt)
{
    struct bh_engine_attempt *a = &e->attempts[attempt];
    a->prev = e->live_last;
    a->next = BH_NONE;
    *(e->live_last == BH_NONE ? &e->live_first : &e->attempts[e->live_last].next) = attempt;
    e->live_last = attempt;
    e->n_live++;
}

static void live_remove(struct bh_engine *e, size_t attempt)
{
    const struct bh_engine_attempt *a = &e->attempts[attempt];
    *(a->prev == BH_NONE ? &e->live_first : &e->attempts[a->prev].next) = a->next;
    *(a->next == BH_NONE ? &e->live_last : &e->attempts[a->next].prev) = a->prev;
    e->n_live--;
}

size_t bh_attempt_lease(struct bh_engine *e, size_t node, int worker, struct bh_wall now)
{
    struct bh_engine_node *n = &e->nodes[node];
    size_t index = e->n_attempts;
    struct bh_engine_attempt *a = BH_PUSH(e->attempts, e->n_attempts, e->cap_attempts);
    a->pub = (struct bh_attempt){.node = node,
                                 .attempt = 1,
                                 .try_ = ++n->tries,
                                 .instance = bh_instance_id_make(e->run, (unsigned)index + 1),
                                 .epoch = e->epoch,
                                 .worker = worker,
                                 .state = BH_ATTEMPT_QUEUED,
                                 .created = now};
    if (n->forks)
        bh_fork_leased(e, node, index);
    else
        n->live = index;
    set_state(e, index, BH_ATTEMPT_LEASED);
    live_append(e, index);
    e->workers[worker].active++;
    bh_box_enter(e, e->spec->nodes[node].box, worker);
    if (n->pub.state != BH_NODE_ACTIVE)
        bh_node_set_state(e, node, BH_NODE_ACTIVE);
    if (n->forks)
        bh_fork_requeue(e, node);
    return index;
}

bool bh_attempt_progress(struct bh_engine *e, size_t attempt, enum bh_attempt_state to, struct bh_wall now)
{
    struct bh_attempt *a = &e->attempts[attempt].pub;
    if (bh_attempt_is_end(to) || !bh_attempt_may_move(a->state, to))
        return false;
    if (a->state == BH_ATTEMPT_LEASED)
        a->started = now;
    set_state(e, attempt, to);
    return true;
}

/* The node stays active: what becomes of it is decided by who calls, before the step is over. */
void bh_attempt_end(struct bh_engine *e, size_t attempt, enum bh_attempt_state to, enum bh_reason reason,
                    enum bh_phase phase, struct bh_wall now)
{
    struct bh_attempt *a = &e->attempts[attempt].pub;
    BH_ASSERT(bh_attempt_is_end(to));
    set_state(e, attempt, to);
    a->reason = reason;
    a->phase = phase;
    a->ended = now;
    if (a->started.us == 0 && (to == BH_ATTEMPT_SUCCEEDED || to == BH_ATTEMPT_FAILED))
        a->started = a->created; /* it did run: the messages that said so were overtaken */
    live_remove(e, attempt);
    e->nodes[a->node].live = BH_NONE;
    e->workers[a->worker].active--;
    e->slot_freed = true;
    bh_box_leave(e, e->spec->nodes[a->node].box);
}

/* The place that an instance id names, or BH_NONE. The id may be any bytes. */
size_t bh_attempt_place(const struct bh_engine *e, const struct bh_instance_id *instance)
{
    size_t n = 0;
    for (size_t i = BH_INSTANCE_LEN - 6; i < BH_INSTANCE_LEN; i++) {
        if (instance->s[i] < '0' || instance->s[i] > '9')
            return BH_NONE;
        n = n * 10 + (size_t)(instance->s[i] - '0');
    }
    if (n == 0 || n > e->n_attempts)
        return BH_NONE;
    return strncmp(e->attempts[n - 1].pub.instance.s, instance->s, sizeof(instance->s)) == 0 ? n - 1 : BH_NONE;
}

size_t bh_attempt_named(const struct bh_engine *e, const struct bh_event *ev)
{
    size_t at = bh_attempt_place(e, &ev->instance);
    if (at == BH_NONE || bh_attempt_is_end(e->attempts[at].pub.state) || e->attempts[at].pub.epoch != ev->epoch)
        return BH_NONE;
    return at;
}

void bh_attempt_kill(struct bh_engine *e, size_t attempt, struct bh_effects *fx)
{
    const struct bh_attempt *a = &e->attempts[attempt].pub;
    if (e->attempts[attempt].kill_asked)
        return;
    e->attempts[attempt].kill_asked = true;
    struct bh_effect *f = bh_effects_add(fx, BH_EFFECT_KILL);
    f->execution = a->kind;
    f->node = a->node;
    f->box = e->spec->nodes[a->node].box;
    f->attempt = a->attempt;
    f->try_ = a->try_;
    f->worker = a->worker;
    f->instance = a->instance;
    f->epoch = a->epoch;
}

size_t bh_engine_n_attempts(const struct bh_engine *e)
{
    return e->n_attempts;
}

const struct bh_attempt *bh_engine_attempt(const struct bh_engine *e, size_t i)
{
    BH_ASSERT(i < e->n_attempts);
    return &e->attempts[i].pub;
}

const struct bh_attempt *bh_engine_find(const struct bh_engine *e, struct bh_instance_id instance)
{
    size_t at = bh_attempt_place(e, &instance);
    return at == BH_NONE ? NULL : &e->attempts[at].pub;
}
