/* SPDX-License-Identifier: Apache-2.0 */
/* The book's part about nodes of several executions: what may start, who is chosen, when such a node is done. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/scenarios/sim.h"

#define BROKEN(...) (b->error[0] ? (void)0 : (void)snprintf(b->error, sizeof(b->error), __VA_ARGS__))
#define MUST(condition, ...)     \
    do {                         \
        if (!(condition))        \
            BROKEN(__VA_ARGS__); \
    } while (0)

static const struct bh_spec_forks *rules(const struct sim_book *b, size_t node)
{
    return b->spec->nodes[node].forks;
}

void sim_forks_init(struct sim_book *b)
{
    for (size_t n = 0; n < b->spec->n_nodes; n++) {
        if (rules(b, n))
            b->nodes[n].units = bh_calloc(rules(b, n)->attempts + SIM_ONCE, sizeof(*b->nodes[n].units));
        b->nodes[n].publishing = SIZE_MAX;
    }
}

void sim_forks_fini(struct sim_book *b)
{
    for (size_t n = 0; n < b->spec->n_nodes; n++)
        bh_free(b->nodes[n].units);
}

static size_t unit_of(enum bh_execution kind, int attempt)
{
    return kind == BH_EXECUTION_SETUP ? 0 : kind == BH_EXECUTION_PREPARE ? 1 : (size_t)attempt - 1 + SIM_ONCE;
}

/* --- what happened --- */

void sim_fork_ended(struct sim_book *b, const struct bh_engine *e, size_t attempt, const struct bh_event *ev)
{
    const struct bh_attempt *a = bh_engine_attempt(e, attempt);
    struct sim_node_book *n = &b->nodes[a->node];
    struct sim_unit_book *u = &n->units[unit_of(a->kind, a->attempt)];
    n->n_live--;
    if (!ev || ev->state != BH_ATTEMPT_SUCCEEDED)
        return;
    u->passed = true;
    u->has_score = ev->has_score;
    u->score = ev->score;
    u->order = ++n->passes;
}

void sim_forks_event(struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev)
{
    for (size_t i = 0; i < b->spec->n_nodes; i++) {
        struct sim_node_book *n = &b->nodes[i];
        if (rules(b, i) && ev->kind == BH_EV_OWNER)
            n->units[0].passed = n->units[1].passed = false;
        if (rules(b, i) && ev->kind == BH_EV_RETRY_FAILED && !n->done) {
            n->may_redo = true;
            n->refused = false;
        }
    }
    if (ev->kind != BH_EV_PUBLISHED)
        return;
    struct sim_node_book *n = &b->nodes[bh_engine_find(e, ev->instance)->node];
    n->publishing = SIZE_MAX;
    n->published = ev->reason == BH_REASON_NONE;
    n->refused = !n->published;
}

/* --- what it brings about --- */

void sim_fork_leased(struct sim_book *b, const struct bh_engine *e, const struct bh_effect *f)
{
    const char *name = b->spec->nodes[f->node].name;
    const struct bh_spec_forks *r = rules(b, f->node);
    struct sim_node_book *n = &b->nodes[f->node];
    struct sim_unit_book *u = &n->units[unit_of(f->execution, f->attempt)];
    for (size_t i = 0; i < b->n_attempts; i++) {
        const struct bh_attempt *a = bh_engine_attempt(e, i);
        if (!b->attempts[i].live)
            continue;
        MUST(a->node != f->node || a->kind != f->execution || a->attempt != f->attempt, "%s: %d runs twice", name,
             f->attempt);
        const struct bh_spec_forks *other = rules(b, a->node);
        MUST(f->execution != BH_EXECUTION_SETUP || a->kind != BH_EXECUTION_SETUP || r->setup_group == 0 ||
                 r->setup_group != other->setup_group,
             "%s: an equal setup is being made", name);
    }
    if (f->execution == BH_EXECUTION_RUN) {
        MUST(f->attempt >= 1 && (size_t)f->attempt <= r->attempts, "%s has no attempt %d", name, f->attempt);
        MUST(!r->setup || n->units[0].passed, "%s starts without its setup", name);
        MUST(!r->prepare || n->units[1].passed, "%s starts unprepared", name);
        MUST(!u->passed || n->may_redo, "%s: attempt %d had passed", name, f->attempt);
    } else {
        MUST(f->attempt == 0, "%s: a number for what is made once", name);
        MUST(f->execution == BH_EXECUTION_SETUP ? r->setup : r->prepare, "%s has nothing to make", name);
    }
    MUST(n->publishing == SIZE_MAX, "%s starts while it publishes", name);
    MUST(f->try_ == ++u->starts, "%s.%d: try %d, start %d", name, f->attempt, f->try_, u->starts);
    u->passed = false;
    n->begun = true;
    n->n_live++;
}

static size_t n_passed(const struct sim_book *b, size_t node)
{
    size_t n = 0;
    for (size_t i = 0; i < rules(b, node)->attempts; i++)
        n += b->nodes[node].units[SIM_ONCE + i].passed;
    return n;
}

static bool is_better(const struct bh_spec_forks *r, const struct sim_unit_book *a, const struct sim_unit_book *than)
{
    if (r->rule.kind == BH_SELECT_BEST)
        return a->has_score && (r->rule.order_min ? a->score < than->score : a->score > than->score);
    return r->rule.stop_losers && a->order < than->order;
}

void sim_fork_publishes(struct sim_book *b, const struct bh_engine *e, const struct bh_effect *f)
{
    const char *name = b->spec->nodes[f->node].name;
    const struct bh_spec_forks *r = rules(b, f->node);
    struct sim_node_book *n = &b->nodes[f->node];
    const struct bh_attempt *a = bh_engine_find(e, f->instance);
    MUST(r && r->numbered && r->rule.kind != BH_SELECT_ALL, "%s has nothing to choose", name);
    MUST(n->n_live == 0 && !n->done, "%s publishes too early", name);
    MUST(a && a->state == BH_ATTEMPT_SUCCEEDED && a->selected, "%s publishes what did not pass", name);
    MUST((int64_t)n_passed(b, f->node) >= r->rule.min_success, "%s publishes though too few passed", name);
    size_t mine = (size_t)f->attempt - 1 + SIM_ONCE;
    for (size_t u = SIM_ONCE; u < SIM_ONCE + r->attempts; u++) {
        bool better = n->units[u].passed && is_better(r, &n->units[u], &n->units[mine]);
        bool lower = u < mine && n->units[u].passed && r->rule.kind == BH_SELECT_FIRST_PASS && !r->rule.stop_losers;
        MUST((!better && !lower) || n->may_redo, "%s: %zu is better than %d", name, u - SIM_ONCE + 1, f->attempt);
    }
    for (size_t i = 0; i < bh_engine_n_attempts(e); i++) {
        if (bh_engine_attempt(e, i)->selected && bh_engine_attempt(e, i)->node == f->node)
            MUST(bh_engine_attempt(e, i) == a, "%s chose two", name);
        if (bh_engine_attempt(e, i) == a)
            n->publishing = i;
    }
}

/* --- the state --- */

static void check_done(struct sim_book *b, size_t i)
{
    struct sim_node_book *n = &b->nodes[i];
    const struct bh_spec_forks *r = rules(b, i);
    const char *name = b->spec->nodes[i].name;
    MUST(n->n_live == 0, "%s is done while it runs", name);
    MUST(n_passed(b, i) > 0 && (int64_t)n_passed(b, i) >= r->rule.min_success, "%s is done, too few passed", name);
    MUST(!r->numbered || r->rule.kind == BH_SELECT_ALL || n->published, "%s is done unpublished", name);
    n->done = true;
}

static bool some_score(const struct sim_book *b, size_t i)
{
    for (size_t u = 0; u < rules(b, i)->attempts; u++) {
        if (b->nodes[i].units[SIM_ONCE + u].passed && b->nodes[i].units[SIM_ONCE + u].has_score)
            return true;
    }
    return false;
}

void sim_fork_check(struct sim_book *b, const struct bh_engine *e, size_t i)
{
    struct sim_node_book *n = &b->nodes[i];
    const char *name = b->spec->nodes[i].name;
    enum bh_node_state s = bh_engine_node(e, i)->state;
    n->begun = n->begun && (s == BH_NODE_READY || s == BH_NODE_ACTIVE);
    MUST((s == BH_NODE_ACTIVE) == (n->n_live > 0 || n->publishing != SIZE_MAX), "%s is %s, the book differs", name,
         bh_node_state_text(s));
    if (s == BH_NODE_DONE && !n->done)
        check_done(b, i);
    MUST(s == BH_NODE_DONE || !n->done, "%s is not done any more", name);
    if (s != BH_NODE_FAILED)
        return;
    bool enough = n_passed(b, i) > 0 && (int64_t)n_passed(b, i) >= rules(b, i)->rule.min_success;
    bool scored = rules(b, i)->rule.kind != BH_SELECT_BEST || some_score(b, i);
    MUST(!enough || !scored || n->refused || n->may_redo, "%s failed though enough passed", name);
}

/* Whether the node waits for the setup of another. */
bool sim_fork_is_held(const struct sim_book *b, const struct bh_engine *e, size_t node)
{
    const struct bh_spec_forks *r = rules(b, node);
    for (size_t i = 0; r && r->setup && r->setup_group > 0 && i < b->n_attempts; i++) {
        const struct bh_attempt *a = bh_engine_attempt(e, i);
        if (b->attempts[i].live && a->kind == BH_EXECUTION_SETUP && rules(b, a->node)->setup_group == r->setup_group)
            return true;
    }
    return false;
}

/* Whether some attempt could start now: what comes once is there, it never started, and nothing is decided. */
bool sim_fork_could_start(const struct sim_book *b, const struct bh_engine *e, size_t node)
{
    const struct bh_spec_forks *r = rules(b, node);
    const struct sim_node_book *n = &b->nodes[node];
    if (!r || r->rule.stop_losers || bh_engine_node(e, node)->state != BH_NODE_ACTIVE || n->may_redo)
        return false;
    for (size_t i = 0; i < b->n_attempts; i++) {
        const struct bh_attempt *a = bh_engine_attempt(e, i);
        if (a->node == node && a->kind != BH_EXECUTION_RUN && b->attempts[i].live)
            return false;
    }
    size_t started = 0;
    for (size_t i = 0; i < b->n_attempts; i++)
        started += bh_engine_attempt(e, i)->node == node && bh_engine_attempt(e, i)->kind == BH_EXECUTION_RUN &&
                   bh_engine_attempt(e, i)->try_ == 1;
    return started < r->attempts && (!r->setup || n->units[0].passed) && (!r->prepare || n->units[1].passed);
}
