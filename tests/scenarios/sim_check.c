/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold after every step of the engine, whatever happened. Keeps books of its own from events and effects, and
 * holds the engine's view against them; shares none of its code.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "policies/retry.h"
#include "tests/scenarios/sim.h"

#define BROKEN(...) (b->error[0] ? (void)0 : (void)snprintf(b->error, sizeof(b->error), __VA_ARGS__))
#define MUST(condition, ...)     \
    do {                         \
        if (!(condition))        \
            BROKEN(__VA_ARGS__); \
    } while (0)

static bool node_ended(enum bh_node_state s)
{
    return s >= BH_NODE_DONE;
}

static bool attempt_ended(enum bh_attempt_state s)
{
    return s >= BH_ATTEMPT_SUCCEEDED;
}

static enum bh_node_state state_of(const struct bh_engine *e, size_t n)
{
    return bh_engine_node(e, n)->state;
}

static const char *name_of(const struct sim_book *b, size_t n)
{
    return b->spec->nodes[n].name;
}

/* --- life --- */

void sim_book_init(struct sim_book *b, const struct bh_spec *spec, const struct bh_engine *e)
{
    *b = (struct sim_book){.spec = spec};
    b->nodes = bh_calloc(spec->n_nodes, sizeof(*b->nodes));
    b->boxes = bh_calloc(spec->n_boxes, sizeof(*b->boxes));
    for (size_t i = 0; i < spec->n_nodes; i++) {
        b->nodes[i].live = SIZE_MAX;
        b->nodes[i].digest = sc_digest_node(e, i);
        b->nodes[i].handled |= spec->nodes[i].continue_on_failure;
        for (size_t d = 0; d < spec->nodes[i].n_deps; d++)
            b->nodes[spec->nodes[i].deps[d].node].handled |= spec->nodes[i].deps[d].kind == BH_DEP_OPTIONAL;
    }
    for (size_t i = 0; i < spec->n_boxes; i++) {
        b->boxes[i].home = -1;
        b->boxes[i].digest = sc_digest_box(e, i);
    }
    b->run_digest = sc_digest_run(e);
    b->epoch = bh_engine_epoch(e);
    sim_forks_init(b);
}

void sim_book_fini(struct sim_book *b)
{
    sim_forks_fini(b);
    bh_free(b->nodes);
    bh_free(b->boxes);
    bh_free(b->attempts);
    bh_free(b->layers);
}

/* --- before the step --- */

static int missing(const struct sim_book *b, const struct bh_engine *e, size_t node);

static int foresee_attempt(const struct bh_engine *e, const struct bh_event *ev)
{
    const struct bh_attempt *a = bh_engine_find(e, ev->instance);
    if (!a || a->epoch != ev->epoch || attempt_ended(a->state))
        return 0;
    if (ev->kind == BH_EV_ENDED)
        return attempt_ended(ev->state);
    return !attempt_ended(ev->state) && ev->state > a->state;
}

static int foresee_freeze(const struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev)
{
    if (ev->box >= b->spec->n_boxes || !bh_engine_box(e, ev->box)->freezing)
        return 0;
    if (ev->kind == BH_EV_FREEZE_FAILED && !ev->layer[0])
        return 1;
    return strncmp(b->boxes[ev->box].pending, ev->layer, sizeof(ev->layer)) == 0;
}

static int foresee_published(const struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev)
{
    const struct bh_attempt *a = bh_engine_find(e, ev->instance);
    size_t at = a ? b->nodes[a->node].publishing : SIZE_MAX;
    return at != SIZE_MAX && bh_engine_attempt(e, at) == a && bh_engine_status(e) == BH_RUN_RUNNING;
}

static bool stage_gate_open(const struct sim_book *b, const struct bh_engine *e, size_t node)
{
    size_t gate = b->spec->nodes[node].stage_gate;
    return gate == 0 || bh_engine_gate(e, gate - 1)->state == BH_GATE_OPEN;
}

static bool somebody_waits(const struct sim_book *b, const struct bh_engine *e, size_t gate)
{
    const struct bh_spec_gate *g = &b->spec->gates[gate];
    bool waits = false;
    for (size_t i = 0; i < g->n_after; i++) {
        if (!node_ended(state_of(e, g->after[i])))
            return false;
    }
    for (size_t i = 0; i < g->n_nodes; i++)
        waits |= state_of(e, g->nodes[i]) == BH_NODE_WAITING &&
                 (g->of_stage || (missing(b, e, g->nodes[i]) == 0 && stage_gate_open(b, e, g->nodes[i])));
    return waits;
}

static int foresee_gate(const struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev)
{
    if (bh_engine_status(e) != BH_RUN_RUNNING || ev->gate >= b->spec->n_gates)
        return 0;
    const struct bh_gate *g = bh_engine_gate(e, ev->gate);
    return g->state == BH_GATE_ASKED && somebody_waits(b, e, ev->gate) &&
           (ev->kind != BH_EV_GATE_ASKED || g->expires.us == 0);
}

int sim_foresee(const struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev)
{
    switch (ev->kind) {
    case BH_EV_START:
        return !b->started && bh_engine_status(e) == BH_RUN_QUEUED;
    case BH_EV_OWNER:
        return 1;
    case BH_EV_RETRY_FAILED:
        return bh_engine_status(e) != BH_RUN_QUEUED && bh_engine_status(e) != BH_RUN_SUCCEEDED;
    case BH_EV_WORKER_UP:
        return ev->worker >= 0 && ev->worker < SIM_MAX_WORKERS && ev->slots > 0 && b->slots[ev->worker] != ev->slots;
    case BH_EV_WORKER_LOST:
        return ev->worker >= 0 && ev->worker < SIM_MAX_WORKERS && b->slots[ev->worker] > 0;
    case BH_EV_STATE:
    case BH_EV_ENDED:
        return foresee_attempt(e, ev);
    case BH_EV_PUBLISHED:
        return foresee_published(b, e, ev);
    case BH_EV_FROZEN:
    case BH_EV_FREEZE_FAILED:
        return foresee_freeze(b, e, ev);
    case BH_EV_GATE_ASKED:
    case BH_EV_GATE_DECIDED:
    case BH_EV_GATE_EXPIRED:
        return foresee_gate(b, e, ev);
    case BH_EV_CANCEL:
        return bh_engine_status(e) <= BH_RUN_RUNNING && !b->cancelled && !b->timed_out;
    case BH_EV_DEADLINE:
        return bh_engine_status(e) == BH_RUN_RUNNING && !b->cancelled && !b->timed_out && b->spec->deadline_ms > 0;
    }
    return -1;
}

/* --- writing the event down --- */

static void book_end(struct sim_book *b, const struct bh_engine *e, size_t attempt, enum bh_attempt_state state,
                     enum bh_reason reason, bool free_of_charge, const struct bh_event *ev)
{
    struct sim_node_book *n = &b->nodes[bh_engine_attempt(e, attempt)->node];
    b->attempts[attempt].live = false;
    if (n->units) {
        sim_fork_ended(b, e, attempt, ev);
        return;
    }
    n->live = SIZE_MAX;
    if (state == BH_ATTEMPT_SUCCEEDED) {
        n->successes++;
        n->done = true;
    } else if (!free_of_charge) {
        bool host = state != BH_ATTEMPT_FAILED || reason == BH_REASON_HOST || reason == BH_REASON_BOX_LOST ||
                    reason == BH_REASON_NONE;
        ++*(host ? &n->host : &n->other);
    }
}

static void book_all_lost(struct sim_book *b, const struct bh_engine *e, int worker, bool with_bulkhead)
{
    for (size_t i = 0; i < b->n_attempts; i++) {
        if (b->attempts[i].live && (with_bulkhead || bh_engine_attempt(e, i)->worker == worker))
            book_end(b, e, i, BH_ATTEMPT_LOST, BH_REASON_BOX_LOST, with_bulkhead, NULL);
    }
    for (size_t i = 0; i < b->spec->n_boxes; i++) {
        if (!with_bulkhead && b->boxes[i].home == worker)
            b->boxes[i].due = false;
        if (with_bulkhead || b->boxes[i].home == worker)
            b->boxes[i].home = -1;
    }
}

static bool over_budget(const struct sim_book *b, const struct bh_engine *e)
{
    int64_t failures = 0;
    for (size_t i = 0; i < b->spec->n_nodes; i++)
        failures += state_of(e, i) == BH_NODE_FAILED && !b->nodes[i].handled;
    return failures > b->spec->failures_allowed;
}

static void book_event(struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev)
{
    sim_forks_event(b, e, ev);
    switch (ev->kind) {
    case BH_EV_START:
        b->started = true;
        return;
    case BH_EV_OWNER:
        memset(b->slots, 0, sizeof(b->slots));
        book_all_lost(b, e, -1, true);
        return;
    case BH_EV_RETRY_FAILED:
        b->cancelled = b->timed_out = false;
        for (size_t i = 0; i < b->spec->n_nodes; i++)
            b->nodes[i].host = b->nodes[i].other = 0;
        return;
    case BH_EV_WORKER_UP:
        b->slots[ev->worker] = ev->slots;
        return;
    case BH_EV_WORKER_LOST:
        b->slots[ev->worker] = 0;
        book_all_lost(b, e, ev->worker, false);
        return;
    case BH_EV_ENDED:
        for (size_t i = 0; i < b->n_attempts; i++) {
            if (strcmp(bh_engine_attempt(e, i)->instance.s, ev->instance.s) == 0)
                book_end(b, e, i, ev->state, ev->reason, ev->state == BH_ATTEMPT_CANCELLED && b->attempts[i].kill_asked,
                         ev);
        }
        return;
    case BH_EV_FROZEN:
    case BH_EV_FREEZE_FAILED:
        b->boxes[ev->box].due = false;
        return;
    case BH_EV_CANCEL:
        b->cancelled = true;
        return;
    case BH_EV_DEADLINE:
        b->timed_out = true;
        return;
    case BH_EV_STATE:
    case BH_EV_PUBLISHED:
    case BH_EV_GATE_ASKED:
    case BH_EV_GATE_DECIDED:
    case BH_EV_GATE_EXPIRED:
        return;
    }
}

/* --- effects --- */

static size_t n_live(const struct sim_book *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_attempts; i++)
        n += b->attempts[i].live;
    return n;
}

static size_t n_live_on(const struct sim_book *b, const struct bh_engine *e, int worker)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_attempts; i++)
        n += b->attempts[i].live && bh_engine_attempt(e, i)->worker == worker;
    return n;
}

static size_t n_live_in(const struct sim_book *b, const struct bh_engine *e, size_t box)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_attempts; i++)
        n += b->attempts[i].live && b->spec->nodes[bh_engine_attempt(e, i)->node].box == box;
    return n;
}

static bool nothing_may_start(const struct sim_book *b)
{
    return b->cancelled || b->timed_out || (!b->spec->keep_going && b->over_budget);
}

/* How far the node is from starting: 0 where every dependency is met; -1 where one never will be. */
static int missing(const struct sim_book *b, const struct bh_engine *e, size_t node)
{
    const struct bh_spec_node *s = &b->spec->nodes[node];
    int n = 0;
    for (size_t d = 0; d < s->n_deps; d++) {
        enum bh_node_state on = state_of(e, s->deps[d].node);
        if (s->deps[d].kind == BH_DEP_REQUIRED && node_ended(on) && on != BH_NODE_DONE)
            return -1;
        n += !node_ended(on);
    }
    for (size_t i = 0; s->group > 0 && i < b->spec->groups[s->group - 1].n_nodes; i++)
        n += !node_ended(state_of(e, b->spec->groups[s->group - 1].nodes[i]));
    return n;
}

static bool gates_open(const struct sim_book *b, const struct bh_engine *e, size_t node)
{
    const struct bh_spec_node *s = &b->spec->nodes[node];
    return (s->gate == 0 || bh_engine_gate(e, s->gate - 1)->state == BH_GATE_OPEN) && stage_gate_open(b, e, node);
}

static void check_ask(struct sim_book *b, const struct bh_engine *e, const struct bh_effect *f)
{
    MUST(somebody_waits(b, e, f->gate), "gate %zu is asked and nobody waits for it", f->gate);
    MUST(!nothing_may_start(b), "gate %zu is asked when nothing may start", f->gate);
    MUST(bh_engine_gate(e, f->gate)->state == BH_GATE_ASKED, "gate %zu is not asked", f->gate);
}

static void check_lease(struct sim_book *b, const struct bh_engine *e, const struct bh_effect *f)
{
    struct sim_node_book *n = &b->nodes[f->node];
    const char *name = name_of(b, f->node);
    MUST(!n->done, "%s is done and was leased again", name);
    MUST(n->units || n->live == SIZE_MAX, "%s has two live executions", name);
    MUST(!nothing_may_start(b) || (n->begun && !b->cancelled && !b->timed_out), "%s was leased when nothing may start",
         name);
    MUST(missing(b, e, f->node) == 0, "%s was leased before what it waits for had ended", name);
    MUST(gates_open(b, e, f->node), "%s was leased behind a gate that is not open", name);
    MUST(!bh_engine_box(e, f->box)->freezing, "%s was leased into a box that freezes", name);
    MUST(f->box == b->spec->nodes[f->node].box, "%s was leased into another box", name);
    MUST(n->units || (f->try_ == ++n->starts && f->attempt == 1), "%s: try %d, start %d", name, f->try_, n->starts);
    MUST(f->epoch == bh_engine_epoch(e), "%s was leased with an old epoch", name);
    MUST(f->worker >= 0 && f->worker < SIM_MAX_WORKERS && b->slots[f->worker] > 0, "%s was leased to nobody", name);
    struct sim_box_book *box = &b->boxes[f->box];
    MUST(!b->spec->boxes[f->box].shared || box->home < 0 || box->home == f->worker, "%s: its box lives elsewhere",
         name);
    if (b->spec->boxes[f->box].shared)
        box->home = f->worker;
    if (n->units)
        sim_fork_leased(b, e, f);
    else
        n->live = b->n_attempts;
    MUST(b->n_attempts < bh_engine_n_attempts(e), "%s was leased without an execution", name);
    MUST(strcmp(bh_engine_attempt(e, b->n_attempts)->instance.s, f->instance.s) == 0, "%s: another instance", name);
    BH_PUSH(b->attempts, b->n_attempts, b->cap_attempts)->live = true;
    MUST((int)n_live_on(b, e, f->worker) <= b->slots[f->worker], "worker %d has more than its slots", f->worker);
    MUST(b->spec->max_parallel <= 0 || (int64_t)n_live(b) <= b->spec->max_parallel, "max_parallel was exceeded");
}

static void check_kill(struct sim_book *b, const struct bh_engine *e, const struct bh_effect *f)
{
    size_t live = SIZE_MAX;
    for (size_t i = 0; i < b->n_attempts; i++) {
        if (b->attempts[i].live && strcmp(bh_engine_attempt(e, i)->instance.s, f->instance.s) == 0)
            live = i;
    }
    MUST(live != SIZE_MAX, "%s is killed though it does not run", name_of(b, f->node));
    if (live == SIZE_MAX)
        return;
    MUST(!b->attempts[live].kill_asked, "killed twice");
    MUST(bh_engine_attempt(e, live)->node == f->node, "another node is killed");
    MUST(bh_engine_attempt(e, live)->epoch == f->epoch, "killed with another epoch");
    b->attempts[live].kill_asked = true;
}

static void check_freeze(struct sim_book *b, const struct bh_engine *e, const struct bh_effect *f)
{
    MUST(b->spec->boxes[f->box].shared, "a box of one agent is frozen");
    MUST(n_live_in(b, e, f->box) == 0, "a box is frozen while somebody runs in it");
    MUST(b->slots[f->worker] > 0, "a freeze goes to a worker that is not there");
    MUST(!b->cancelled && !b->timed_out, "a freeze after the run was stopped");
    for (size_t i = 0; i < b->n_layers; i++)
        MUST(strcmp(b->layers[i], f->layer) != 0, "layer %s was used before", f->layer);
    memcpy(*BH_PUSH(b->layers, b->n_layers, b->cap_layers), f->layer, sizeof(f->layer));
    memcpy(b->boxes[f->box].pending, f->layer, sizeof(f->layer));
    b->boxes[f->box].home = f->worker;
}

static void check_effects(struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev, bool meant,
                          const struct bh_effects *fx)
{
    bool reopened = ev->kind == BH_EV_RETRY_FAILED && b->status != BH_RUN_SUCCEEDED;
    bool had_ended = b->status > BH_RUN_PAUSED && !reopened;
    bool has_ended = bh_engine_status(e) > BH_RUN_PAUSED;
    size_t endings = 0, freezes = 0, deadlines = 0;
    for (size_t i = 0; i < fx->len; i++) {
        const struct bh_effect *f = &fx->items[i];
        if (f->kind == BH_EFFECT_LEASE)
            check_lease(b, e, f);
        else if (f->kind == BH_EFFECT_KILL)
            check_kill(b, e, f);
        else if (f->kind == BH_EFFECT_FREEZE)
            check_freeze(b, e, f);
        else if (f->kind == BH_EFFECT_PUBLISH)
            sim_fork_publishes(b, e, f);
        else if (f->kind == BH_EFFECT_ASK)
            check_ask(b, e, f);
        endings += f->kind == BH_EFFECT_ENDED;
        freezes += f->kind == BH_EFFECT_FREEZE;
        deadlines += f->kind == BH_EFFECT_DEADLINE;
        MUST(f->kind != BH_EFFECT_ENDED || i + 1 == fx->len, "something comes behind the end");
        MUST(f->kind != BH_EFFECT_ENDED || f->status == bh_engine_status(e), "the end has another status");
    }
    MUST(endings == (size_t)(has_ended && !had_ended), "%zu ends", endings);
    MUST(endings == 0 || freezes == 0, "a freeze in the step that ends the run");
    bool arms = ev->kind == BH_EV_START || reopened ||
                (ev->kind == BH_EV_OWNER && b->status == BH_RUN_RUNNING && !b->cancelled && !b->timed_out);
    MUST(deadlines == (size_t)(meant && arms && b->spec->deadline_ms > 0), "%zu deadlines", deadlines);
    b->status = bh_engine_status(e);
}

/* --- the state as a whole --- */

static void check_skipped(struct sim_book *b, const struct bh_engine *e, size_t i)
{
    const struct bh_node *n = bh_engine_node(e, i);
    MUST((n->blamed == SIZE_MAX) == b->spec->nodes[i].left_out, "%s blames the wrong one", name_of(b, i));
    if (n->blamed >= b->spec->n_nodes)
        return;
    MUST(state_of(e, n->blamed) == BH_NODE_FAILED, "%s blames one that did not fail", name_of(b, i));
    if (n->reason == BH_REASON_INPUT_SKIPPED)
        MUST(missing(b, e, i) == -1, "%s is skipped for an input that is there", name_of(b, i));
    else
        MUST(b->over_budget, "%s is skipped within the budget", name_of(b, i));
}

static void check_failed(struct sim_book *b, const struct bh_engine *e, size_t i)
{
    const struct bh_node *n = bh_engine_node(e, i);
    struct bh_retry_state so_far = {.host_tries = b->nodes[i].host, .other_tries = b->nodes[i].other};
    MUST(n->reason != BH_REASON_NONE, "%s failed without a reason", name_of(b, i));
    MUST(nothing_may_start(b) || n->phase == BH_PHASE_GATE ||
             !bh_retry_again(&so_far, n->reason, b->spec->nodes[i].retries, false),
         "%s had tries left", name_of(b, i));
}

static void check_node(struct sim_book *b, const struct bh_engine *e, size_t i)
{
    struct sim_node_book *n = &b->nodes[i];
    const char *name = name_of(b, i);
    enum bh_node_state s = state_of(e, i);
    if (n->units)
        sim_fork_check(b, e, i);
    else
        MUST((s == BH_NODE_ACTIVE) == (n->live != SIZE_MAX), "%s is %s, the book differs", name, bh_node_state_text(s));
    MUST((s == BH_NODE_DONE) == n->done, "%s is %s, the book differs", name, bh_node_state_text(s));
    MUST(n->successes <= 1, "%s succeeded twice", name);
    MUST(s == BH_NODE_SKIPPED || bh_engine_node(e, i)->blamed == SIZE_MAX, "%s blames somebody", name);
    MUST(s == BH_NODE_SKIPPED || s == BH_NODE_FAILED || bh_engine_node(e, i)->reason == BH_REASON_NONE,
         "%s has a reason", name);
    MUST((int64_t)n->other <= b->spec->nodes[i].retries + 1 && n->host <= 3, "%s had too many tries", name);
    if (!b->started)
        return;
    MUST(!b->spec->nodes[i].left_out || s == BH_NODE_SKIPPED || b->cancelled, "%s was left out", name);
    MUST(s != BH_NODE_WAITING || missing(b, e, i) > 0 || !gates_open(b, e, i), "%s waits for nothing", name);
    MUST(s != BH_NODE_READY || (missing(b, e, i) == 0 && gates_open(b, e, i)), "%s is ready too early", name);
    if (s == BH_NODE_WAITING || s == BH_NODE_READY)
        MUST(!nothing_may_start(b) || (n->begun && !b->cancelled && !b->timed_out), "%s is %s when nothing may start",
             name, bh_node_state_text(s));
    if (s == BH_NODE_SKIPPED)
        check_skipped(b, e, i);
    else if (s == BH_NODE_FAILED && !n->units)
        check_failed(b, e, i);
    else if (s == BH_NODE_CANCELLED)
        MUST(b->cancelled || b->timed_out || b->over_budget, "%s is cancelled for no reason", name);
}

static void check_attempts(struct sim_book *b, const struct bh_engine *e)
{
    MUST(bh_engine_n_attempts(e) == b->n_attempts, "an execution without a lease");
    for (size_t i = 0; i < b->n_attempts; i++) {
        const struct bh_attempt *a = bh_engine_attempt(e, i);
        MUST(attempt_ended(a->state) == !b->attempts[i].live, "%s: the book differs", a->instance.s);
        MUST(attempt_ended(a->state) == (a->ended.us != 0), "%s: time of the end", a->instance.s);
        MUST(a->started.us == 0 || a->started.us >= a->created.us, "%s: started before it was", a->instance.s);
        MUST(a->started.us != 0 || a->state == BH_ATTEMPT_LEASED || a->state >= BH_ATTEMPT_CANCELLED,
             "%s: never started", a->instance.s);
        MUST(bh_engine_find(e, a->instance) == a, "%s is not found", a->instance.s);
    }
}

static bool stage_has_ended(const struct sim_book *b, const struct bh_engine *e, int stage)
{
    for (size_t i = 0; i < b->spec->n_nodes; i++) {
        if (b->spec->nodes[i].stage == stage && !node_ended(state_of(e, i)))
            return false;
    }
    return true;
}

/* Whether a stage has ended in this step; b->nodes[].digest is still that of before. */
static bool some_stage_ended(const struct sim_book *b, const struct bh_engine *e)
{
    struct bh_changes c = bh_engine_changes(e);
    for (size_t i = 0; i < c.n_nodes; i++) {
        int stage = b->spec->nodes[c.nodes[i]].stage;
        if (node_ended(state_of(e, c.nodes[i])) && (stage < 0 || stage_has_ended(b, e, stage)))
            return true;
    }
    return false;
}

static void check_boxes(struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev)
{
    bool ended = some_stage_ended(b, e) && ev->kind != BH_EV_RETRY_FAILED, somebody = false;
    for (int w = 0; w < SIM_MAX_WORKERS; w++)
        somebody |= b->slots[w] > 0;
    for (size_t i = 0; i < b->spec->n_boxes; i++) {
        const struct bh_box_state *box = bh_engine_box(e, i);
        MUST(b->spec->boxes[i].shared || (!box->dirty && !box->freezing), "a box of one agent is dirty");
        MUST(!box->freezing || (box->dirty && n_live_in(b, e, i) == 0), "somebody runs in a box that freezes");
        if (box->dirty && (ended || b->spec->nodes[0].stage < 0))
            b->boxes[i].due = true;
        if (!box->dirty)
            b->boxes[i].due = false;
        if (b->cancelled || b->timed_out || !somebody)
            continue;
        bool fails_now = ev->kind != BH_EV_FROZEN && bh_engine_changes(e).run && bh_engine_status(e) == BH_RUN_FAILED;
        MUST(!fails_now || !box->dirty, "a run that fails leaves a dirty box behind");
        if (bh_engine_status(e) != BH_RUN_RUNNING)
            continue;
        MUST(!b->boxes[i].due || box->freezing || n_live_in(b, e, i) > 0, "a quiet box that is due is not frozen");
    }
}

/* Whether the node could be leased now, as far as its box goes. */
static bool box_is_open(const struct sim_book *b, const struct bh_engine *e, size_t box)
{
    int home = b->boxes[box].home;
    if (bh_engine_box(e, box)->freezing)
        return false;
    return !b->spec->boxes[box].shared || home < 0 || (int)n_live_on(b, e, home) < b->slots[home];
}

/* Nobody who could run waits while there is room. */
static void check_idle(struct sim_book *b, const struct bh_engine *e)
{
    int64_t room = 0;
    for (int w = 0; w < SIM_MAX_WORKERS; w++)
        room += b->slots[w];
    if (b->spec->max_parallel > 0 && b->spec->max_parallel < room)
        room = b->spec->max_parallel;
    if (bh_engine_status(e) != BH_RUN_RUNNING || (int64_t)n_live(b) >= room)
        return;
    for (size_t i = 0; i < b->spec->n_nodes; i++) {
        bool open = box_is_open(b, e, b->spec->nodes[i].box) && !sim_fork_is_held(b, e, i);
        MUST(state_of(e, i) != BH_NODE_READY || !open, "%s waits while there is room", name_of(b, i));
        MUST(nothing_may_start(b) || !open || !sim_fork_could_start(b, e, i),
             "an attempt of %s waits while there is room", name_of(b, i));
    }
}

/* Nobody waits for a question that is not put. */
static void check_gates(struct sim_book *b, const struct bh_engine *e)
{
    if (bh_engine_status(e) != BH_RUN_RUNNING || nothing_may_start(b))
        return;
    for (size_t i = 0; i < b->spec->n_gates; i++)
        MUST(bh_engine_gate(e, i)->state != BH_GATE_SHUT || !somebody_waits(b, e, i), "gate %zu is not asked", i);
}

static void check_run(struct sim_book *b, const struct bh_engine *e)
{
    enum bh_run_status s = bh_engine_status(e);
    size_t open = 0, node;
    for (size_t i = 0; i < b->spec->n_nodes; i++)
        open += !node_ended(state_of(e, i));
    bool bad = b->timed_out || b->over_budget;
    MUST(s != BH_RUN_RUNNING || open > 0 || bad, "every node has ended, the run has not");
    enum bh_reason r = bh_engine_failure(e, &node);
    MUST((r != BH_REASON_NONE) == (bad && !b->cancelled), "the failure is '%s'", bh_reason_text(r, BH_PHASE_NONE));
    if (s <= BH_RUN_PAUSED)
        return;
    MUST(open == 0, "the run has ended, a node has not");
    MUST(s == (b->cancelled ? BH_RUN_CANCELLED
               : bad        ? BH_RUN_FAILED
                            : BH_RUN_SUCCEEDED),
         "the run is %s", bh_run_status_text(s));
}

/* --- what the engine says has changed --- */

static bool listed(const size_t *items, size_t n, size_t index)
{
    size_t times = 0;
    for (size_t i = 0; i < n; i++)
        times += items[i] == index;
    return times == 1;
}

static void check_changes(struct sim_book *b, const struct bh_engine *e)
{
    struct bh_changes c = bh_engine_changes(e);
    for (size_t i = 0; i < b->spec->n_nodes; i++) {
        uint64_t now = sc_digest_node(e, i);
        MUST(now == b->nodes[i].digest || listed(c.nodes, c.n_nodes, i), "%s changed unsaid", name_of(b, i));
        b->nodes[i].digest = now;
    }
    for (size_t i = 0; i < b->n_attempts; i++) {
        uint64_t now = sc_digest_attempt(e, i);
        MUST(now == b->attempts[i].digest || listed(c.attempts, c.n_attempts, i), "execution %zu changed unsaid", i);
        b->attempts[i].digest = now;
    }
    for (size_t i = 0; i < b->spec->n_boxes; i++) {
        uint64_t now = sc_digest_box(e, i);
        MUST(now == b->boxes[i].digest || listed(c.boxes, c.n_boxes, i), "box %zu changed unsaid", i);
        b->boxes[i].digest = now;
    }
    uint64_t now = sc_digest_run(e);
    MUST(now == b->run_digest || c.run, "the run changed unsaid");
    b->run_digest = now;
}

static void check_silence(struct sim_book *b, const struct bh_engine *e, const struct bh_effects *fx)
{
    struct bh_changes c = bh_engine_changes(e);
    MUST(fx->len == 0, "an event that means nothing has effects");
    MUST(!c.run && c.n_nodes + c.n_attempts + c.n_boxes == 0, "an event that means nothing changes something");
}

/* What one event brings about. */
static void check_one(struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev)
{
    if (ev->kind == BH_EV_CANCEL || ev->kind == BH_EV_DEADLINE) {
        for (size_t i = 0; i < b->n_attempts; i++)
            MUST(!b->attempts[i].live || b->attempts[i].kill_asked, "somebody was not killed");
    } else if (ev->kind == BH_EV_OWNER) {
        b->epoch++;
    } else if (ev->kind == BH_EV_ENDED) {
        size_t node = bh_engine_find(e, ev->instance)->node, box = b->spec->nodes[node].box;
        MUST(ev->state != BH_ATTEMPT_FAILED || state_of(e, node) != BH_NODE_CANCELLED || b->nodes[node].units,
             "%s failed, it was not cancelled", name_of(b, node));
        MUST(ev->state != BH_ATTEMPT_SUCCEEDED || !b->spec->boxes[box].shared || bh_engine_box(e, box)->dirty,
             "somebody succeeded in a box that is clean");
    }
    MUST(bh_engine_epoch(e) == b->epoch, "the epoch is another");
}

bool sim_check(struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev, int foreseen, bool meant,
               const struct bh_effects *fx)
{
    MUST(foreseen < 0 || foreseen == meant, "%s %s", bh_event_kind_text(ev->kind),
         meant ? "meant something" : "meant nothing");
    if (meant)
        book_event(b, e, ev);
    else
        check_silence(b, e, fx);
    b->over_budget = over_budget(b, e);
    check_effects(b, e, ev, meant, fx);
    for (size_t i = 0; i < b->spec->n_nodes; i++)
        check_node(b, e, i);
    check_attempts(b, e);
    if (meant)
        check_one(b, e, ev);
    check_boxes(b, e, ev);
    check_idle(b, e);
    check_gates(b, e);
    check_run(b, e);
    check_changes(b, e);
    return b->error[0] == '\0';
}
