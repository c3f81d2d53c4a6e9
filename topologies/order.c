/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the topological order and the naming of cycles. A stage's barrier is one node between those before it and those
 * behind it, so the work is linear in what stages.c made. Among agents that could come next the first of the document
 * does.
 */
#include "base/buf.h"
#include "topologies/graph.h"

enum { SHOWN_MEMBERS = 12 };

struct sorter {
    struct bh_planner *pl;
    size_t n_agents, n_nodes;   /* agents, then one node per stage's barrier */
    size_t *first, *dependents; /* those of node i: dependents[first[i]] .. dependents[first[i + 1]] */
    size_t *missing;            /* what each node still waits for */
    size_t *heap, n_heap;       /* agents that could come next, the least index on top */
};

static void heap_push(struct sorter *s, size_t agent)
{
    size_t i = s->n_heap++;
    while (i > 0 && s->heap[(i - 1) / 2] > agent) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = agent;
}

static size_t heap_pop(struct sorter *s)
{
    size_t top = s->heap[0], last = s->heap[--s->n_heap], i = 0;
    for (size_t child = 1; child < s->n_heap; child = 2 * i + 1) {
        if (child + 1 < s->n_heap && s->heap[child + 1] < s->heap[child])
            child++;
        if (s->heap[child] >= last)
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* Calls `visit` for each pair (node, what it waits for). */
static void each_edge(struct sorter *s, void (*visit)(struct sorter *, size_t node, size_t on))
{
    const struct bh_planner *pl = s->pl;
    for (size_t a = 0; a < s->n_agents; a++) {
        const struct bh_draft *d = &pl->drafts[a];
        for (size_t i = 0; i < d->n_edges; i++)
            visit(s, a, d->edges[i].agent);
        if (d->barrier)
            visit(s, a, s->n_agents + (size_t)pl->plan->agents[a].stage);
    }
    for (size_t stage = 0; stage < pl->doc->n_stages; stage++) {
        for (size_t i = 0; i < pl->barriers[stage].n; i++)
            visit(s, s->n_agents + stage, pl->barriers[stage].edges[i].agent);
    }
}

static void count_edge(struct sorter *s, size_t node, size_t on)
{
    s->missing[node]++;
    s->first[on + 1]++;
}

/* `first` is one behind while it is being filled. */
static void put_edge(struct sorter *s, size_t node, size_t on)
{
    s->dependents[s->first[on]++] = node;
}

static void build(struct sorter *s)
{
    each_edge(s, count_edge);
    for (size_t i = 0; i < s->n_nodes; i++)
        s->first[i + 1] += s->first[i];
    s->dependents = bh_calloc(s->first[s->n_nodes] + 1, sizeof(*s->dependents));
    each_edge(s, put_edge);
    memmove(s->first + 1, s->first, s->n_nodes * sizeof(*s->first));
    s->first[0] = 0;
}

static void become_ready(struct sorter *s, size_t node);

static void finish_node(struct sorter *s, size_t node)
{
    for (size_t i = s->first[node]; i < s->first[node + 1]; i++) {
        if (--s->missing[s->dependents[i]] == 0)
            become_ready(s, s->dependents[i]);
    }
}

/* A barrier takes no place in the order. Only agents stand behind it: this goes one level deep. */
static void become_ready(struct sorter *s, size_t node)
{
    if (node < s->n_agents)
        heap_push(s, node);
    else
        finish_node(s, node);
}

/* Returns how many agents found their place. */
static size_t sort(struct sorter *s, size_t *order)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_agents; i++) {
        if (s->missing[i] == 0)
            heap_push(s, i);
    }
    for (size_t i = s->n_agents; i < s->n_nodes; i++) {
        if (s->missing[i] == 0)
            finish_node(s, i);
    }
    while (s->n_heap > 0) {
        order[n] = heap_pop(s);
        finish_node(s, order[n++]);
    }
    return n;
}

/* An agent of the same knot that `agent` waits for. Cycles stay inside a stage, so barriers have no part in them. */
static size_t stuck_on(const struct sorter *s, size_t agent)
{
    const struct bh_draft *d = &s->pl->drafts[agent];
    for (size_t i = 0; i < d->n_edges; i++) {
        if (s->missing[d->edges[i].agent] > 0)
            return d->edges[i].agent;
    }
    return SIZE_MAX;
}

/* "'b' reads 'x' of 'a'" */
static void add_reason(const struct bh_planner *pl, size_t from, size_t to, struct bh_buf *out)
{
    const struct bh_plan_agent *a = &pl->plan->agents[from], *b = &pl->plan->agents[to];
    for (size_t i = 0; i < b->n_inputs && !b->implicit_inputs; i++) {
        for (size_t p = 0; p < b->inputs[i].n_producers; p++) {
            if (b->inputs[i].producers[p] == from) {
                bh_buf_addf(out, "'%s' reads '%s' of '%s'", b->name, b->inputs[i].name, a->name);
                return;
            }
        }
    }
    const struct bh_draft *d = &pl->drafts[to];
    for (size_t i = 0; i < d->n_steers; i++) {
        for (size_t p = 0; p < d->steers[i].n_producers; p++) {
            if (d->steers[i].producers[p] == from) {
                bh_buf_addf(out, "'%s' depends on '%s' of '%s'", b->name, d->steers[i].name, a->name);
                return;
            }
        }
    }
    bh_buf_addf(out, "'%s' needs '%s'", b->name, a->name);
}

/* `members` in the order in which they feed each other, the first of the document first. */
static void report_cycle(struct bh_planner *pl, const size_t *members, size_t n)
{
    BH_CLEANUP_BUF struct bh_buf path = BH_BUF_INIT, why = BH_BUF_INIT;
    for (size_t i = 0; i < n; i++) {
        if (i < SHOWN_MEMBERS || i == n - 1)
            bh_buf_addf(&path, "%s → ", pl->plan->agents[members[i]].name);
        else if (i == SHOWN_MEMBERS)
            bh_buf_addf(&path, "… (%zu more) → ", n - SHOWN_MEMBERS - 1);
        if (i < SHOWN_MEMBERS) {
            bh_buf_adds(&why, i ? "; " : "");
            add_reason(pl, members[i], members[(i + 1) % n], &why);
        }
    }
    const struct bh_agent *first = pl->plan->agents[members[0]].doc;
    bh_buf_adds(&path, pl->plan->agents[members[0]].name);
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_CYCLE, 0, "agents wait for each other: %s", path.data);
    bh_err_detail(&err, "%s", why.data);
    bh_err_hint(&err, "one of them has to start without the other's output");
    bh_planner_report(pl, err, first->name.pos, first->path);
}

/* Turns the members of `walk` (each waits for the next) round, and begins with the first of the document. */
static void name_cycle(struct bh_planner *pl, const size_t *walk, size_t n)
{
    BH_CLEANUP_FREE size_t *members = bh_calloc(n, sizeof(*members));
    size_t least = 0;
    for (size_t i = 1; i < n; i++)
        least = walk[i] < walk[least] ? i : least;
    for (size_t i = 0; i < n; i++)
        members[i] = walk[(least + n - i) % n];
    report_cycle(pl, members, n);
}

/* From each agent that found no place back along what it waits for, until a walk meets itself or an older one. */
static void find_cycles(struct sorter *s)
{
    BH_CLEANUP_FREE size_t *walk = bh_calloc(s->n_agents, sizeof(*walk));
    BH_CLEANUP_FREE size_t *seen_by = bh_calloc(s->n_agents, sizeof(*seen_by)); /* start + 1 */
    BH_CLEANUP_FREE size_t *place = bh_calloc(s->n_agents, sizeof(*place));
    for (size_t start = 0; start < s->n_agents; start++) {
        if (s->missing[start] == 0 || seen_by[start])
            continue;
        size_t n = 0, at = start;
        while (at != SIZE_MAX && !seen_by[at]) {
            seen_by[at] = start + 1;
            place[at] = n;
            walk[n++] = at;
            at = stuck_on(s, at);
        }
        if (at != SIZE_MAX && seen_by[at] == start + 1)
            name_cycle(s->pl, walk + place[at], n - place[at]);
    }
}

void bh_graph_order(struct bh_planner *pl)
{
    struct bh_plan *plan = pl->plan;
    struct sorter s = {.pl = pl, .n_agents = plan->n_agents, .n_nodes = plan->n_agents + pl->doc->n_stages};
    BH_CLEANUP_FREE size_t *first = bh_calloc(s.n_nodes + 1, sizeof(size_t));
    BH_CLEANUP_FREE size_t *missing = bh_calloc(s.n_nodes + 1, sizeof(size_t));
    BH_CLEANUP_FREE size_t *heap = bh_calloc(s.n_agents + 1, sizeof(size_t));
    s.first = first;
    s.missing = missing;
    s.heap = heap;
    build(&s);
    plan->order = bh_arena_alloc(pl->arena, (plan->n_agents + 1) * sizeof(*plan->order));
    if (sort(&s, plan->order) < plan->n_agents)
        find_cycles(&s);
    bh_free(s.dependents);
}
