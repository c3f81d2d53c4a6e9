/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph behind a run: for each node, who waits for it, alone or as one of a group. Takes time and memory linear in
 * what the spec lists. Holds no state of a run.
 */
#include "scheduler/core/graph_priv.h"

#include "base/mem.h"

/*
 * Built in three strokes: count what each key will hold, open, place. While things are placed off[k + 1] is where the
 * next of k goes; when all are placed, it is where those of k + 1 begin.
 */
static void csr_init(struct bh_csr *c, size_t n_keys)
{
    c->off = bh_calloc(n_keys + 2, sizeof(*c->off));
}

static void csr_count(struct bh_csr *c, size_t key)
{
    c->off[key + 2]++;
}

static size_t csr_open(struct bh_csr *c, size_t n_keys)
{
    for (size_t k = 2; k < n_keys + 2; k++)
        c->off[k] += c->off[k - 1];
    c->items = bh_calloc(c->off[n_keys + 1], sizeof(*c->items));
    return c->off[n_keys + 1];
}

static size_t csr_place(struct bh_csr *c, size_t key, size_t item)
{
    size_t at = c->off[key + 1]++;
    c->items[at] = item;
    return at;
}

static void csr_fini(struct bh_csr *c)
{
    bh_free(c->off);
    bh_free(c->items);
}

/* Else it would wait for ever for one that is skipped without a word. */
static void check_left_out(const struct bh_spec *spec)
{
    bool *left_out BH_CLEANUP_FREE = bh_calloc(spec->n_groups, sizeof(*left_out));
    for (size_t g = 0; g < spec->n_groups; g++) {
        for (size_t i = 0; i < spec->groups[g].n_nodes; i++)
            left_out[g] |= spec->nodes[spec->groups[g].nodes[i]].left_out;
    }
    for (size_t n = 0; n < spec->n_nodes; n++) {
        const struct bh_spec_node *s = &spec->nodes[n];
        for (size_t i = 0; i < s->n_deps; i++)
            BH_ASSERT(s->left_out || !spec->nodes[s->deps[i].node].left_out);
        BH_ASSERT(s->left_out || s->group == 0 || !left_out[s->group - 1]);
    }
}

/* A gate of a stage waits for earlier stages alone: so it cannot make a cycle. */
static void check_gates(const struct bh_spec *spec)
{
    for (size_t g = 0; g < spec->n_gates; g++) {
        const struct bh_spec_gate *gate = &spec->gates[g];
        BH_ASSERT(gate->n_nodes > 0 && gate->timeout_ms > 0 && (gate->of_stage || gate->n_nodes == 1));
        for (size_t i = 0; i < gate->n_nodes; i++) {
            const struct bh_spec_node *n = &spec->nodes[gate->nodes[i]];
            BH_ASSERT((gate->of_stage ? n->stage_gate : n->gate) == g + 1);
        }
        for (size_t i = 0; i < gate->n_after; i++)
            BH_ASSERT(spec->nodes[gate->after[i]].stage < spec->nodes[gate->nodes[0]].stage);
    }
}

static void check_spec(const struct bh_spec *spec)
{
    for (size_t n = 0; n < spec->n_nodes; n++) {
        const struct bh_spec_node *s = &spec->nodes[n];
        BH_ASSERT(s->box < spec->n_boxes && s->stage >= -1 && s->group <= spec->n_groups);
        BH_ASSERT(s->gate <= spec->n_gates && s->stage_gate <= spec->n_gates);
        for (size_t i = 0; i < s->n_deps; i++)
            BH_ASSERT(s->deps[i].node < spec->n_nodes);
    }
    check_gates(spec);
    for (size_t g = 0; g < spec->n_groups; g++) {
        BH_ASSERT(spec->groups[g].n_nodes > 0);
        for (size_t i = 0; i < spec->groups[g].n_nodes; i++)
            BH_ASSERT(spec->groups[g].nodes[i] < spec->n_nodes);
    }
}

static void init_dependents(struct bh_graph *g, const struct bh_spec *spec)
{
    csr_init(&g->dependents, spec->n_nodes);
    for (size_t n = 0; n < spec->n_nodes; n++) {
        for (size_t i = 0; i < spec->nodes[n].n_deps; i++)
            csr_count(&g->dependents, spec->nodes[n].deps[i].node);
    }
    g->kinds = bh_calloc(csr_open(&g->dependents, spec->n_nodes), sizeof(*g->kinds));
    for (size_t n = 0; n < spec->n_nodes; n++) {
        for (size_t i = 0; i < spec->nodes[n].n_deps; i++) {
            const struct bh_dep *d = &spec->nodes[n].deps[i];
            g->kinds[csr_place(&g->dependents, d->node, n)] = d->kind;
        }
    }
}

static void init_groups(struct bh_graph *g, const struct bh_spec *spec)
{
    csr_init(&g->member_of, spec->n_nodes);
    csr_init(&g->waiters, spec->n_groups);
    for (size_t k = 0; k < spec->n_groups; k++) {
        for (size_t i = 0; i < spec->groups[k].n_nodes; i++)
            csr_count(&g->member_of, spec->groups[k].nodes[i]);
    }
    for (size_t n = 0; n < spec->n_nodes; n++) {
        if (spec->nodes[n].group > 0)
            csr_count(&g->waiters, spec->nodes[n].group - 1);
    }
    (void)csr_open(&g->member_of, spec->n_nodes);
    (void)csr_open(&g->waiters, spec->n_groups);
    for (size_t k = 0; k < spec->n_groups; k++) {
        for (size_t i = 0; i < spec->groups[k].n_nodes; i++)
            (void)csr_place(&g->member_of, spec->groups[k].nodes[i], k);
    }
    for (size_t n = 0; n < spec->n_nodes; n++) {
        if (spec->nodes[n].group > 0)
            (void)csr_place(&g->waiters, spec->nodes[n].group - 1, n);
    }
}

static void init_gates(struct bh_graph *g, const struct bh_spec *spec)
{
    csr_init(&g->gates_behind, spec->n_nodes);
    for (size_t k = 0; k < spec->n_gates; k++) {
        for (size_t i = 0; i < spec->gates[k].n_after; i++)
            csr_count(&g->gates_behind, spec->gates[k].after[i]);
    }
    (void)csr_open(&g->gates_behind, spec->n_nodes);
    for (size_t k = 0; k < spec->n_gates; k++) {
        for (size_t i = 0; i < spec->gates[k].n_after; i++)
            (void)csr_place(&g->gates_behind, spec->gates[k].after[i], k);
    }
}

/* What still holds each node and group back while every node is ended in thought. */
struct unwinding {
    size_t *left, *open, *ready, n_ready;
};

static void let_go(struct unwinding *u, size_t node)
{
    if (--u->left[node] == 0)
        u->ready[u->n_ready++] = node;
}

static void end_in_thought(const struct bh_graph *g, struct unwinding *u, size_t node)
{
    for (size_t i = g->dependents.off[node]; i < g->dependents.off[node + 1]; i++)
        let_go(u, g->dependents.items[i]);
    for (size_t i = g->member_of.off[node]; i < g->member_of.off[node + 1]; i++) {
        size_t k = g->member_of.items[i];
        if (--u->open[k] > 0)
            continue;
        for (size_t w = g->waiters.off[k]; w < g->waiters.off[k + 1]; w++)
            let_go(u, g->waiters.items[w]);
    }
}

/* A spec with a cycle would be a run that waits for ever; the plan has refused it, so it is our own fault. */
static void check_acyclic(const struct bh_graph *g, const struct bh_spec *spec)
{
    size_t *left BH_CLEANUP_FREE = bh_calloc(spec->n_nodes, sizeof(*left));
    size_t *open BH_CLEANUP_FREE = bh_calloc(spec->n_groups, sizeof(*open));
    size_t *ready BH_CLEANUP_FREE = bh_calloc(spec->n_nodes, sizeof(*ready));
    struct unwinding u = {.left = left, .open = open, .ready = ready};
    for (size_t k = 0; k < spec->n_groups; k++)
        open[k] = spec->groups[k].n_nodes;
    for (size_t n = 0; n < spec->n_nodes; n++) {
        left[n] = spec->nodes[n].n_deps + (spec->nodes[n].group > 0);
        if (left[n] == 0)
            ready[u.n_ready++] = n;
    }
    for (size_t at = 0; at < u.n_ready; at++)
        end_in_thought(g, &u, ready[at]);
    BH_ASSERT(u.n_ready == spec->n_nodes);
}

void bh_graph_init(struct bh_graph *g, const struct bh_spec *spec)
{
    check_spec(spec);
    check_left_out(spec);
    *g = (struct bh_graph){0};
    init_dependents(g, spec);
    init_groups(g, spec);
    init_gates(g, spec);
    for (size_t n = 0; n < spec->n_nodes; n++) {
        if (spec->nodes[n].stage >= 0 && (size_t)spec->nodes[n].stage >= g->n_stages)
            g->n_stages = (size_t)spec->nodes[n].stage + 1;
    }
    check_acyclic(g, spec);
}

void bh_graph_fini(struct bh_graph *g)
{
    csr_fini(&g->dependents);
    csr_fini(&g->member_of);
    csr_fini(&g->waiters);
    csr_fini(&g->gates_behind);
    bh_free(g->kinds);
    *g = (struct bh_graph){0};
}

bool bh_graph_is_handled(const struct bh_graph *g, size_t node)
{
    for (size_t i = g->dependents.off[node]; i < g->dependents.off[node + 1]; i++) {
        if (g->kinds[i] == BH_DEP_OPTIONAL)
            return true;
    }
    return false;
}
