/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what stages mean: an agent without inputs and needs waits for all earlier stages and sees their untainted
 * artifacts. Ten thousand agents must not cost a hundred million edges: a barrier is one array per stage that all who
 * wait there share, it leaves out what it covers through others, and the implicit inputs of all stages are beginnings
 * of one array.
 */
#include <stdlib.h>

#include "base/text.h"
#include "topologies/graph.h"

/*
 * Everything in stages before `stage`, directly or through the barrier of a stage between: where an agent of stage s
 * waits for all stages before s, who waits for it need not name them.
 */
static void make_barrier(struct bh_planner *pl, size_t stage)
{
    size_t from = stage;
    bool covered = false;
    while (from > 0 && !covered) {
        from--;
        for (size_t a = pl->stage_start[from]; a < pl->stage_start[from + 1]; a++)
            covered = covered || pl->drafts[a].barrier;
    }
    struct bh_barrier *b = &pl->barriers[stage];
    for (size_t a = pl->stage_start[from]; a < pl->stage_start[stage]; a++)
        *BH_ARENA_PUSH(pl->arena, b->edges, b->n, b->cap) = (struct bh_edge){a, BH_EDGE_BARRIER};
}

static bool has_barrier_agent(struct bh_planner *pl, size_t stage)
{
    for (size_t a = pl->stage_start[stage]; a < pl->stage_start[stage + 1]; a++) {
        if (pl->drafts[a].barrier)
            return true;
    }
    return false;
}

/* Higher is stricter: success counts more than an end. Data is seen from the inputs as well, `needs` only here. */
static int strictness(enum bh_edge_kind kind)
{
    switch (kind) {
    case BH_EDGE_NEEDS:
        return 3;
    case BH_EDGE_DATA:
        return 2;
    case BH_EDGE_OPTIONAL:
        return 1;
    case BH_EDGE_BARRIER:
        break;
    }
    return 0;
}

static int by_agent(const void *a, const void *b)
{
    const struct bh_edge *x = a, *y = b;
    if (x->agent != y->agent)
        return x->agent < y->agent ? -1 : 1;
    return strictness(y->kind) - strictness(x->kind);
}

/* Sorts, and keeps the strictest edge to each agent. */
static size_t tidy(struct bh_edge *edges, size_t n)
{
    size_t kept = 0;
    if (n > 1)
        qsort(edges, n, sizeof(*edges), by_agent);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || edges[kept - 1].agent != edges[i].agent)
            edges[kept++] = edges[i];
    }
    return kept;
}

/* What an agent at a barrier waits for inside its own stage; the rest the barrier covers. */
static size_t drop_earlier_stages(struct bh_planner *pl, size_t agent)
{
    struct bh_draft *d = &pl->drafts[agent];
    size_t kept = 0;
    for (size_t i = 0; i < d->n_edges; i++) {
        if (pl->plan->agents[d->edges[i].agent].stage == pl->plan->agents[agent].stage)
            d->edges[kept++] = d->edges[i];
    }
    return kept;
}

static void finish_edges(struct bh_planner *pl, size_t agent)
{
    struct bh_plan_agent *a = &pl->plan->agents[agent];
    struct bh_draft *d = &pl->drafts[agent];
    if (d->barrier)
        d->n_edges = drop_earlier_stages(pl, agent);
    d->n_edges = tidy(d->edges, d->n_edges);
    a->after = d->edges;
    a->n_after = d->n_edges;
    if (!d->barrier)
        return;
    const struct bh_barrier *b = &pl->barriers[a->stage];
    a->after = b->edges;
    a->n_after = b->n;
    if (d->n_edges == 0)
        return;
    /* Members of the own stage come behind all of the barrier: the array stays sorted. */
    a->after = bh_arena_alloc(pl->arena, (b->n + d->n_edges) * sizeof(*a->after));
    if (b->n)
        memcpy(a->after, b->edges, b->n * sizeof(*a->after));
    memcpy(a->after + b->n, d->edges, d->n_edges * sizeof(*a->after));
    a->n_after = b->n + d->n_edges;
}

/* The artifacts of all stages in their order, those of stage s first_of[s] .. first_of[s + 1]. */
struct offers {
    struct bh_plan_input *inputs;
    size_t n_inputs, cap_inputs, *inputs_before; /* per stage: how many earlier stages offer */
    const char **tainted;
    size_t n_tainted, cap_tainted, *tainted_before;
};

static void offer(struct bh_planner *pl, size_t agent, size_t i, struct offers *o)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    const struct bh_text *t = &pl->drafts[agent].output_names[i];
    const char *name = a->doc->attempts.select == BH_SELECT_ALL ? bh_arena_printf(pl->arena, "%s@*", t->glob) : t->glob;
    if (a->label == BH_TAINTED) {
        *BH_ARENA_PUSH(pl->arena, o->tainted, o->n_tainted, o->cap_tainted) = name;
        return;
    }
    bool is_glob = bh_glob_is(name);
    size_t *producer = bh_arena_alloc(pl->arena, sizeof(*producer));
    *producer = agent;
    *BH_ARENA_PUSH(pl->arena, o->inputs, o->n_inputs, o->cap_inputs) = (struct bh_plan_input){
        .name = name,
        .is_glob = is_glob,
        .path = is_glob ? NULL : name,
        .optional = true,
        .source = -1,
        .producers = producer,
        .n_producers = 1,
    };
}

static void collect_offers(struct bh_planner *pl, struct offers *o)
{
    for (size_t s = 0; s < pl->doc->n_stages; s++) {
        o->inputs_before[s] = o->n_inputs;
        o->tainted_before[s] = o->n_tainted;
        for (size_t a = pl->stage_start[s]; a < pl->stage_start[s + 1]; a++) {
            for (size_t i = 0; i < pl->plan->agents[a].n_outputs; i++)
                offer(pl, a, i, o);
        }
    }
}

static void set_implicit_inputs(struct bh_planner *pl)
{
    BH_CLEANUP_FREE size_t *inputs_before = bh_calloc(pl->doc->n_stages + 1, sizeof(size_t));
    BH_CLEANUP_FREE size_t *tainted_before = bh_calloc(pl->doc->n_stages + 1, sizeof(size_t));
    struct offers o = {.inputs_before = inputs_before, .tainted_before = tainted_before};
    collect_offers(pl, &o);
    for (size_t i = 0; i < pl->plan->n_agents; i++) {
        struct bh_plan_agent *a = &pl->plan->agents[i];
        if (!pl->drafts[i].barrier || a->stage == 0)
            continue;
        a->implicit_inputs = true;
        a->inputs = o.inputs;
        a->n_inputs = inputs_before[a->stage];
        a->left_out = o.tainted;
        a->n_left_out = tainted_before[a->stage];
    }
}

void bh_graph_stages(struct bh_planner *pl)
{
    pl->barriers = bh_arena_alloc(pl->arena, (pl->doc->n_stages + 1) * sizeof(*pl->barriers));
    for (size_t s = 1; s < pl->doc->n_stages; s++) {
        if (has_barrier_agent(pl, s))
            make_barrier(pl, s);
    }
    for (size_t a = 0; a < pl->plan->n_agents; a++)
        finish_edges(pl, a);
    set_implicit_inputs(pl);
}
