/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random runs: graphs with and without stages, whose document order is not their topological order, nodes in shared and
 * own boxes, all the numbers. Shapes that a plan could give; nothing else is promised to work.
 */
#include <string.h>

#include "base/mem.h"
#include "tests/scenarios/sim.h"

/* A random order of 0 … n - 1: deps go from later to earlier in it. */
static size_t *shuffled(struct sim_rng *r, size_t n)
{
    size_t *order = bh_calloc(n, sizeof(*order));
    for (size_t i = 0; i < n; i++) {
        size_t j = sim_below(r, (unsigned)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

static void add_dep(struct bh_spec_node *n, size_t on, enum bh_dep_kind kind)
{
    for (size_t i = 0; i < n->n_deps; i++) {
        if (n->deps[i].node == on)
            return;
    }
    n->deps = bh_realloc_array(n->deps, n->n_deps + 1, sizeof(*n->deps));
    n->deps[n->n_deps++] = (struct bh_dep){.node = on, .kind = kind};
}

static enum bh_dep_kind any_kind(struct sim_rng *r)
{
    unsigned k = sim_below(r, 10);
    return k < 6 ? BH_DEP_REQUIRED : k < 8 ? BH_DEP_OPTIONAL : BH_DEP_BARRIER;
}

static void draw_edges(struct sim_rng *r, struct bh_spec *spec, const size_t *order)
{
    unsigned density = sim_below(r, 4);
    for (size_t i = 1; i < spec->n_nodes; i++) {
        struct bh_spec_node *n = &spec->nodes[order[i]];
        for (unsigned k = 0; k < density; k++) {
            size_t on = order[sim_below(r, (unsigned)i)];
            if (sim_chance(r, 60) && spec->nodes[on].stage <= n->stage)
                add_dep(n, on, any_kind(r));
        }
    }
}

/* Stages one behind the other; some agents wait for the whole of what was before, some go by their data alone. */
static void draw_stages(struct sim_rng *r, struct bh_spec *spec, size_t n_stages)
{
    for (size_t i = 0; i < spec->n_nodes; i++)
        spec->nodes[i].stage = (int)(i * n_stages / spec->n_nodes);
    spec->groups = bh_calloc(n_stages, sizeof(*spec->groups));
    for (size_t k = 1; k < n_stages; k++) {
        struct bh_spec_group *g = &spec->groups[spec->n_groups++];
        g->nodes = bh_calloc(spec->n_nodes, sizeof(*g->nodes));
        for (size_t i = 0; i < spec->n_nodes; i++) {
            if (spec->nodes[i].stage < (int)k)
                g->nodes[g->n_nodes++] = i;
            else if (spec->nodes[i].stage == (int)k && sim_chance(r, 60))
                spec->nodes[i].group = spec->n_groups;
        }
        if (g->n_nodes == 0) /* no such plan; leave no group behind that nothing ends */
            g->nodes[g->n_nodes++] = 0;
    }
}

static void draw_boxes(struct sim_rng *r, struct bh_spec *spec)
{
    size_t n_shared = sim_below(r, 4);
    spec->boxes = bh_calloc(n_shared + spec->n_nodes, sizeof(*spec->boxes));
    for (size_t b = 0; b < n_shared; b++)
        spec->boxes[spec->n_boxes++] = (struct bh_spec_box){.id = bh_asprintf("crew.%zu", b), .shared = true};
    for (size_t i = 0; i < spec->n_nodes; i++) {
        if (n_shared > 0 && sim_chance(r, 70)) {
            spec->nodes[i].box = sim_below(r, (unsigned)n_shared);
            continue;
        }
        spec->nodes[i].box = spec->n_boxes;
        spec->boxes[spec->n_boxes++] = (struct bh_spec_box){.id = bh_asprintf("own-%zu", i)};
    }
}

/* Nodes in boxes of their own may have several executions. */
static void draw_forks(struct sim_rng *r, struct bh_spec *spec)
{
    spec->n_setups = 2;
    for (size_t i = 0; i < spec->n_nodes; i++) {
        if (spec->boxes[spec->nodes[i].box].shared || !sim_chance(r, 60))
            continue;
        struct bh_spec_forks *f = spec->nodes[i].forks = bh_alloc(sizeof(*f));
        f->attempts = 1 + sim_below(r, 5);
        f->setup = sim_chance(r, 40);
        f->setup_group = f->setup ? sim_below(r, 3) : 0;
        f->prepare = sim_chance(r, 40);
        f->numbered = f->attempts > 1;
        f->rule.kind = f->numbered ? (enum bh_select)sim_below(r, 3) : BH_SELECT_FIRST_PASS;
        f->rule.order_min = sim_chance(r, 50);
        f->rule.stop_losers = f->rule.kind == BH_SELECT_FIRST_PASS && sim_chance(r, 50);
        f->rule.min_success = 1 + sim_below(r, sim_chance(r, 25) ? (unsigned)f->attempts : 1);
    }
}

static void draw_gate(struct bh_spec *spec, const char *id, int64_t timeout_ms)
{
    spec->gates = bh_realloc_array(spec->gates, spec->n_gates + 1, sizeof(*spec->gates));
    struct bh_spec_gate *g = &spec->gates[spec->n_gates++];
    *g = (struct bh_spec_gate){.id = bh_strdup(id), .timeout_ms = timeout_ms};
    g->nodes = bh_calloc(spec->n_nodes, sizeof(*g->nodes));
    g->after = bh_calloc(spec->n_nodes, sizeof(*g->after));
}

static bool waits_for(const struct bh_spec *spec, const struct bh_spec_node *n, size_t on)
{
    const struct bh_spec_group *g = n->group ? &spec->groups[n->group - 1] : NULL;
    for (size_t i = 0; i < n->n_deps; i++) {
        if (n->deps[i].node == on)
            return true;
    }
    for (size_t i = 0; g && i < g->n_nodes; i++) {
        if (g->nodes[i] == on)
            return true;
    }
    return false;
}

static void draw_stage_gate(struct bh_spec *spec, int stage, int64_t timeout_ms)
{
    draw_gate(spec, "stage", timeout_ms);
    struct bh_spec_gate *g = &spec->gates[spec->n_gates - 1];
    g->of_stage = true;
    for (size_t i = 0; i < spec->n_nodes; i++) {
        struct bh_spec_node *n = &spec->nodes[i];
        bool before = false;
        if (n->stage == stage) {
            n->stage_gate = spec->n_gates;
            g->nodes[g->n_nodes++] = i;
        }
        for (size_t k = 0; n->stage < stage && k < spec->n_nodes; k++)
            before |= spec->nodes[k].stage == stage && waits_for(spec, &spec->nodes[k], i);
        if (before)
            g->after[g->n_after++] = i;
    }
}

/* By numbers of its own, so that a seed without gates goes the way that it always went. */
static void draw_gates(const struct sim_rng *of, struct bh_spec *spec, size_t n_stages)
{
    struct sim_rng own = {.state = of->state ^ UINT64_C(0x9a7e)}, *r = &own;
    if (!sim_chance(r, 50))
        return;
    for (size_t i = 0; i < spec->n_nodes; i++) {
        if (!sim_chance(r, 25))
            continue;
        draw_gate(spec, spec->nodes[i].name, 1 + sim_below(r, 60));
        spec->gates[spec->n_gates - 1].nodes[0] = i;
        spec->gates[spec->n_gates - 1].n_nodes = 1;
        spec->nodes[i].gate = spec->n_gates;
    }
    for (size_t k = 0; k < n_stages; k++) {
        if (sim_chance(r, 40))
            draw_stage_gate(spec, (int)k, 1 + sim_below(r, 60));
    }
}

/* As for --only: one agent and all that it waits for, however far. */
static void draw_only(struct sim_rng *r, struct bh_spec *spec)
{
    size_t wanted = sim_below(r, (unsigned)spec->n_nodes);
    for (size_t i = 0; i < spec->n_nodes; i++)
        spec->nodes[i].left_out = i != wanted;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < spec->n_nodes; i++) {
            const struct bh_spec_node *n = &spec->nodes[i];
            const struct bh_spec_group *g = n->group ? &spec->groups[n->group - 1] : NULL;
            for (size_t d = 0; !n->left_out && d < n->n_deps; d++) {
                more |= spec->nodes[n->deps[d].node].left_out;
                spec->nodes[n->deps[d].node].left_out = false;
            }
            for (size_t m = 0; !n->left_out && g && m < g->n_nodes; m++) {
                more |= spec->nodes[g->nodes[m]].left_out;
                spec->nodes[g->nodes[m]].left_out = false;
            }
        }
    }
}

struct bh_spec *sim_spec(struct sim_rng *r)
{
    static const int64_t budgets[] = {0, 0, 0, 1, 3, 100};
    struct bh_spec *spec = bh_alloc(sizeof(*spec));
    spec->n_nodes = 1 + sim_below(r, sim_chance(r, 5) ? 60 : 14);
    spec->nodes = bh_calloc(spec->n_nodes, sizeof(*spec->nodes));
    for (size_t i = 0; i < spec->n_nodes; i++) {
        spec->nodes[i].name = bh_asprintf("n%zu", i);
        spec->nodes[i].stage = -1;
        spec->nodes[i].continue_on_failure = sim_chance(r, 12);
        spec->nodes[i].retries = sim_chance(r, 30) ? 1 + sim_below(r, 2) : 0;
    }
    size_t n_stages = sim_chance(r, 50) ? 1 + sim_below(r, 4) : 0;
    if (n_stages > spec->n_nodes)
        n_stages = spec->n_nodes;
    if (n_stages > 0)
        draw_stages(r, spec, n_stages);
    size_t *order BH_CLEANUP_FREE = shuffled(r, spec->n_nodes);
    draw_edges(r, spec, order);
    draw_boxes(r, spec);
    draw_forks(r, spec);
    draw_gates(r, spec, n_stages);
    if (sim_chance(r, 10))
        draw_only(r, spec);
    spec->max_parallel = sim_chance(r, 50) ? 1 + sim_below(r, 4) : 0;
    spec->failures_allowed = budgets[sim_below(r, BH_ARRAY_LEN(budgets))];
    spec->keep_going = sim_chance(r, 15);
    spec->deadline_ms = sim_chance(r, 20) ? 1 + sim_below(r, 60) : 0;
    return spec;
}
