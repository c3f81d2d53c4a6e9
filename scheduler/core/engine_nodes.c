/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node machine. Owns node states, the counters behind them, and what of the graph is ready; decides nothing about
 * retries or the end of the run.
 *
 *                 make_ready           bh_attempt_lease           bh_node_done
 *      waiting ───────────────► ready ──────────────────► active ─────────────────► done
 *         ▲ ▲ ◄── reopen ──────  │ ▲                       │ │
 *         │ │                    │ └────── make_ready ─────┤ │ bh_node_fail
 *         │ └──────────── bh_node_again (another try) ─────┘ ├──────────────────────► failed
 *         │     (refused) waiting├── bh_node_fail (no id) ───┘
 *         │   waiting, ready ────┼── skip ──────────────────────────────────────────► skipped
 *         │   active (of several executions) ── bh_node_leave_out ───────────────────► skipped
 *         │   waiting, ready, active ── bh_node_cancel ─────────────────────────────► cancelled
 *         └──────── reopen ◄──────── failed, skipped, cancelled
 *
 *   waiting    unmet > 0, or a gate of its own is not open; nothing starts it but its last dependency, or the last of
 *              its group, ending, or its gate opening
 *   ready      every REQUIRED dependency is done, every other has ended; it is in the ready queue
 *   active     `live` is its one live execution; of several (engine_forks.c) at least one is live, or the choice is
 * being published done       for ever: no move leads out, so a node succeeds at most once failed     reason; whoever
 * REQUIREs it is skipped skipped    blamed; reason INPUT_SKIPPED, or NONE where the failure budget kept it from
 * starting or going on; who was left out by request blames nobody, and is never opened again cancelled  the run was
 * cancelled, ran out of time, or bulkhead died with it while nothing could start any more While the run is stopped
 * (`stop` is not NONE) no node is waiting or ready, but nodes of several executions that have begun when the failure
 * budget stopped it.
 */
#include "scheduler/core/engine_priv.h"

static bool has_ended(enum bh_node_state s)
{
    switch (s) {
    case BH_NODE_DONE:
    case BH_NODE_FAILED:
    case BH_NODE_SKIPPED:
    case BH_NODE_CANCELLED:
        return true;
    case BH_NODE_WAITING:
    case BH_NODE_READY:
    case BH_NODE_ACTIVE:
        return false;
    }
    return false;
}

/* A REQUIRED one that has ended was done: else the node would be skipped, and nobody would ask. */
size_t bh_node_unmet(const struct bh_engine *e, size_t node)
{
    const struct bh_spec_node *s = &e->spec->nodes[node];
    size_t n = s->group > 0 && e->group_open[s->group - 1] > 0;
    n += !bh_gate_is_open(e, s->stage_gate);
    for (size_t i = 0; i < s->n_deps; i++)
        n += !has_ended(e->nodes[s->deps[i].node].pub.state);
    return n;
}

/* How many of each group and stage have not ended: from scratch. */
static void count_open(struct bh_engine *e)
{
    for (size_t k = 0; k < e->graph.n_stages; k++)
        e->stage_open[k] = 0;
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        if (e->spec->nodes[n].stage >= 0)
            e->stage_open[e->spec->nodes[n].stage] += !has_ended(e->nodes[n].pub.state);
    }
    for (size_t g = 0; g < e->spec->n_groups; g++) {
        e->group_open[g] = 0;
        for (size_t i = 0; i < e->spec->groups[g].n_nodes; i++)
            e->group_open[g] += !has_ended(e->nodes[e->spec->groups[g].nodes[i]].pub.state);
    }
}

void bh_nodes_init(struct bh_engine *e)
{
    const struct bh_spec *spec = e->spec;
    bh_graph_init(&e->graph, spec);
    bh_ready_init(&e->ready, spec);
    e->nodes = bh_calloc(spec->n_nodes, sizeof(*e->nodes));
    e->work = bh_calloc(spec->n_nodes, sizeof(*e->work));
    e->group_open = bh_calloc(spec->n_groups, sizeof(*e->group_open));
    e->stage_open = bh_calloc(e->graph.n_stages, sizeof(*e->stage_open));
    for (size_t n = 0; n < spec->n_nodes; n++) {
        e->nodes[n].pub.blamed = e->nodes[n].live = BH_NONE;
        e->nodes[n].handled = spec->nodes[n].continue_on_failure || bh_graph_is_handled(&e->graph, n);
    }
    e->n_in[BH_NODE_WAITING] = spec->n_nodes;
    count_open(e);
    bh_gates_count(e);
    for (size_t n = 0; n < spec->n_nodes; n++)
        e->nodes[n].unmet = bh_node_unmet(e, n);
}

void bh_nodes_fini(struct bh_engine *e)
{
    bh_graph_fini(&e->graph);
    bh_ready_fini(&e->ready);
    bh_free(e->nodes);
    bh_free(e->work);
    bh_free(e->group_open);
    bh_free(e->stage_open);
}

/* --- moving --- */

static void make_ready(struct bh_engine *e, size_t node)
{
    bh_node_set_state(e, node, BH_NODE_READY);
    bh_ready_add(&e->ready, node);
    if (e->nodes[node].forks)
        e->nodes[node].forks->queued = true;
}

void bh_node_all_met(struct bh_engine *e, size_t node)
{
    size_t gate = e->spec->nodes[node].gate;
    if (bh_gate_is_open(e, gate))
        make_ready(e, node);
    else
        bh_gate_due(e, gate - 1);
}

void bh_node_met_one(struct bh_engine *e, size_t node)
{
    struct bh_engine_node *n = &e->nodes[node];
    if (n->pub.state == BH_NODE_WAITING && --n->unmet == 0 && !e->spec->nodes[node].left_out)
        bh_node_all_met(e, node);
}

/* The node has ended: so may have its stage, and groups that it is a member of. */
static void leave(struct bh_engine *e, size_t node)
{
    const struct bh_csr *groups = &e->graph.member_of, *waiters = &e->graph.waiters;
    int stage = e->spec->nodes[node].stage;
    if (stage >= 0 && --e->stage_open[stage] == 0)
        bh_boxes_stage_ended(e);
    for (size_t i = groups->off[node]; i < groups->off[node + 1]; i++) {
        size_t g = groups->items[i];
        if (--e->group_open[g] > 0)
            continue;
        for (size_t w = waiters->off[g]; w < waiters->off[g + 1]; w++)
            bh_node_met_one(e, waiters->items[w]);
    }
    bh_gates_node_ended(e, node);
}

void bh_node_set_state(struct bh_engine *e, size_t node, enum bh_node_state to)
{
    struct bh_node *n = &e->nodes[node].pub;
    enum bh_node_state from = n->state;
    BH_ASSERT(bh_node_may_move(from, to));
    e->n_in[from]--;
    e->n_in[to]++;
    n->state = to;
    bh_changed_node(e, node);
    if (has_ended(to))
        leave(e, node);
}

static void skip(struct bh_engine *e, size_t node, enum bh_reason reason, size_t blamed)
{
    e->nodes[node].pub.reason = reason;
    e->nodes[node].pub.blamed = blamed;
    bh_node_set_state(e, node, BH_NODE_SKIPPED);
}

/*
 * `node` has ended: whoever waits for it waits for one less, whoever required its success in vain is skipped, and so on
 * from there. A stack instead of recursion: a chain may be as long as the document.
 */
static void tell_dependents(struct bh_engine *e, size_t node)
{
    size_t top = 0;
    e->work[top++] = node;
    while (top > 0) {
        size_t n = e->work[--top];
        const struct bh_node *ended = &e->nodes[n].pub;
        size_t root = ended->state == BH_NODE_SKIPPED ? ended->blamed : n;
        for (size_t i = e->graph.dependents.off[n]; i < e->graph.dependents.off[n + 1]; i++) {
            size_t d = e->graph.dependents.items[i];
            if (e->nodes[d].pub.state != BH_NODE_WAITING)
                continue;
            if (e->graph.kinds[i] == BH_DEP_REQUIRED && ended->state != BH_NODE_DONE) {
                skip(e, d, BH_REASON_INPUT_SKIPPED, root);
                e->work[top++] = d;
            } else {
                bh_node_met_one(e, d);
            }
        }
    }
}

/*
 * Who was left out by request is skipped first. Nobody who was asked for waits for one of them (what the asked for wait
 * for is asked for as well), so there is nobody to tell; a group that closes by it makes nobody ready.
 */
void bh_nodes_start(struct bh_engine *e)
{
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        if (e->spec->nodes[n].left_out)
            skip(e, n, BH_REASON_NONE, BH_NONE);
    }
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        if (e->nodes[n].pub.state == BH_NODE_WAITING && e->nodes[n].unmet == 0)
            bh_node_all_met(e, n);
    }
    bh_gates_start(e);
}

/* What it waited for may have been opened again while it was active; then it waits once more. */
void bh_node_again(struct bh_engine *e, size_t node)
{
    e->nodes[node].unmet = bh_node_unmet(e, node);
    if (e->nodes[node].unmet == 0 && bh_gate_is_open(e, e->spec->nodes[node].gate)) {
        make_ready(e, node);
        return;
    }
    bh_node_set_state(e, node, BH_NODE_WAITING);
    bh_gate_await(e, e->spec->nodes[node].stage_gate);
    if (e->nodes[node].unmet == 0)
        bh_gate_await(e, e->spec->nodes[node].gate);
}

void bh_node_done(struct bh_engine *e, size_t node)
{
    bh_node_set_state(e, node, BH_NODE_DONE);
    tell_dependents(e, node);
}

void bh_node_fail(struct bh_engine *e, size_t node, enum bh_reason reason, enum bh_phase phase)
{
    e->nodes[node].pub.reason = reason;
    e->nodes[node].pub.phase = phase;
    bh_node_set_state(e, node, BH_NODE_FAILED);
    tell_dependents(e, node);
}

void bh_node_leave_out(struct bh_engine *e, size_t node, size_t blamed)
{
    skip(e, node, BH_REASON_NONE, blamed);
}

bool bh_node_has_ended(const struct bh_engine *e, size_t node)
{
    return has_ended(e->nodes[node].pub.state);
}

void bh_node_cancel(struct bh_engine *e, size_t node)
{
    bh_node_set_state(e, node, BH_NODE_CANCELLED);
}

static bool is_unstarted(const struct bh_engine *e, size_t node)
{
    enum bh_node_state s = e->nodes[node].pub.state;
    return s == BH_NODE_WAITING || s == BH_NODE_READY;
}

/* It has begun, and is neither held up nor over: the failure of another does not keep the rest of it from starting. */
static bool goes_on(const struct bh_engine *e, size_t node)
{
    enum bh_node_state s = e->nodes[node].pub.state;
    return bh_fork_has_begun(e, node) && (s == BH_NODE_READY || s == BH_NODE_ACTIVE);
}

/*
 * In both, a group that closes on the way may make nodes ready that stand further on in the loop; they are closed when
 * it gets there.
 */
void bh_nodes_close_cancelled(struct bh_engine *e)
{
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        if (is_unstarted(e, n))
            bh_node_cancel(e, n);
    }
    bh_ready_clear(&e->ready);
    bh_fork_unqueue_all(e);
}

void bh_nodes_close_skipped(struct bh_engine *e, size_t blamed)
{
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        if (is_unstarted(e, n) && !goes_on(e, n))
            skip(e, n, BH_REASON_NONE, blamed);
    }
    bh_ready_clear(&e->ready);
    bh_fork_unqueue_all(e);
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        if (goes_on(e, n))
            bh_fork_requeue(e, n);
    }
}

static void reopen(struct bh_engine *e, size_t node)
{
    struct bh_engine_node *n = &e->nodes[node];
    bh_node_set_state(e, node, BH_NODE_WAITING);
    n->pub.reason = BH_REASON_NONE;
    n->pub.phase = BH_PHASE_NONE;
    n->pub.blamed = BH_NONE;
}

/*
 * Nodes that were ready wait again as well where something that they wait for has been opened again. Who is active goes
 * on: what it started with is what it was given.
 */
/* Who passed stays so, unless what it started from may be another when what the node waits for has ended again. */
static void reopen_forks(struct bh_engine *e, size_t node)
{
    if (e->nodes[node].forks)
        bh_fork_reopen(e, node, e->nodes[node].unmet > 0);
}

/* Attempts that were not to start any more may start now. */
static void go_on(struct bh_engine *e, size_t node)
{
    if (e->nodes[node].forks && e->nodes[node].pub.state == BH_NODE_ACTIVE)
        bh_fork_requeue(e, node);
}

void bh_nodes_reopen(struct bh_engine *e)
{
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        e->nodes[n].retry = (struct bh_retry_state){0};
        if (e->nodes[n].forks)
            bh_fork_forgive(e, n);
        if (has_ended(e->nodes[n].pub.state) && e->nodes[n].pub.state != BH_NODE_DONE && !e->spec->nodes[n].left_out) {
            reopen(e, n);
            e->nodes[n].reopened = true;
        }
    }
    count_open(e);
    bh_gates_reopen(e);
    bh_ready_clear(&e->ready);
    bh_fork_unqueue_all(e);
    for (size_t n = 0; n < e->spec->n_nodes; n++) {
        struct bh_engine_node *node = &e->nodes[n];
        bool reopened = node->reopened;
        node->reopened = false;
        if (!is_unstarted(e, n)) {
            go_on(e, n);
            continue;
        }
        node->unmet = bh_node_unmet(e, n);
        if (reopened || (node->pub.state == BH_NODE_READY && node->unmet > 0))
            reopen_forks(e, n);
        if (node->pub.state == BH_NODE_READY && node->unmet > 0) {
            reopen(e, n);
        } else if (node->pub.state == BH_NODE_READY) {
            bh_ready_add(&e->ready, n);
            if (node->forks)
                node->forks->queued = true;
        } else if (node->unmet == 0) {
            bh_node_all_met(e, n);
        }
    }
}
