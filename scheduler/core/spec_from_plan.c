/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a plan to a spec: drops everything that the engine need not know. The one place where the plan's reasons for an
 * order (stages, needs, data) become the engine's kinds of waiting, and where the failure budget becomes a number.
 */
#include "base/mem.h"
#include "policies/failure_budget.h"
#include "scheduler/core/spec.h"
#include "topologies/plan.h"

#define NS_PER_MS INT64_C(1000000)

struct making {
    const struct bh_plan *plan;
    struct bh_spec *spec;
    size_t cap_groups;
    const struct bh_edge *newest; /* the array of edges behind the newest group */
    size_t *taken_by;             /* by agent: 1 + the last agent seen that takes it as an optional input */
};

/*
 * An optional input handles a failure; a glob only waits. The plan draws the same edge for both, so its inputs are
 * asked, once for each agent.
 */
static void mark_optional(struct making *m, size_t agent)
{
    const struct bh_plan_agent *a = &m->plan->agents[agent];
    for (size_t i = 0; i < a->n_inputs && !a->implicit_inputs; i++) {
        const struct bh_plan_input *in = &a->inputs[i];
        for (size_t p = 0; in->optional && p < in->n_producers; p++)
            m->taken_by[in->producers[p]] = agent + 1;
    }
}

static enum bh_dep_kind dep_kind(const struct making *m, size_t agent, const struct bh_edge *edge)
{
    switch (edge->kind) {
    case BH_EDGE_BARRIER:
        return BH_DEP_BARRIER;
    case BH_EDGE_NEEDS:
    case BH_EDGE_DATA:
        return BH_DEP_REQUIRED;
    case BH_EDGE_OPTIONAL:
        return m->taken_by[edge->agent] == agent + 1 ? BH_DEP_OPTIONAL : BH_DEP_BARRIER;
    }
    return BH_DEP_REQUIRED;
}

static bool only_barriers(const struct making *m, size_t agent)
{
    const struct bh_plan_agent *a = &m->plan->agents[agent];
    for (size_t i = 0; i < a->n_after; i++) {
        if (dep_kind(m, agent, &a->after[i]) != BH_DEP_BARRIER)
            return false;
    }
    return a->n_after > 1;
}

/*
 * Agents behind the same stage share one array of edges in the plan; they share one group in the spec. The agents of a
 * stage stand together, so it is enough to look at the newest array. Gives what bh_spec_node.group holds.
 */
static size_t group_of(struct making *m, size_t agent)
{
    const struct bh_plan_agent *a = &m->plan->agents[agent];
    bool known = m->spec->n_groups > 0 && a->after == m->newest;
    if (!known && !only_barriers(m, agent))
        return 0;
    if (!known) {
        struct bh_spec_group *g = BH_PUSH(m->spec->groups, m->spec->n_groups, m->cap_groups);
        g->nodes = bh_calloc(a->n_after, sizeof(*g->nodes));
        for (; g->n_nodes < a->n_after; g->n_nodes++)
            g->nodes[g->n_nodes] = a->after[g->n_nodes].agent;
        m->newest = a->after;
    }
    return m->spec->n_groups;
}

static void fill_node(struct making *m, size_t agent, struct bh_spec_node *ret)
{
    const struct bh_plan_agent *a = &m->plan->agents[agent];
    mark_optional(m, agent);
    *ret = (struct bh_spec_node){.name = bh_strdup(a->name),
                                 .stage = a->stage,
                                 .box = a->box,
                                 .group = group_of(m, agent),
                                 .continue_on_failure = a->doc->continue_on_failure,
                                 .retries = a->doc->retries};
    if (ret->group > 0)
        return;
    ret->deps = bh_calloc(a->n_after, sizeof(*ret->deps));
    for (; ret->n_deps < a->n_after; ret->n_deps++) {
        const struct bh_edge *edge = &a->after[ret->n_deps];
        ret->deps[ret->n_deps] = (struct bh_dep){.node = edge->agent, .kind = dep_kind(m, agent, edge)};
    }
}

struct bh_spec *bh_spec_from_plan(const struct bh_plan *plan)
{
    const struct bh_pipeline *doc = plan->pipeline;
    struct bh_spec *spec = bh_alloc(sizeof(*spec));
    size_t *taken_by BH_CLEANUP_FREE = bh_calloc(plan->n_agents, sizeof(*taken_by));
    struct making making = {.plan = plan, .spec = spec, .taken_by = taken_by};
    spec->nodes = bh_calloc(plan->n_agents, sizeof(*spec->nodes));
    for (; spec->n_nodes < plan->n_agents; spec->n_nodes++)
        fill_node(&making, spec->n_nodes, &spec->nodes[spec->n_nodes]);
    spec->boxes = bh_calloc(plan->n_boxes, sizeof(*spec->boxes));
    for (; spec->n_boxes < plan->n_boxes; spec->n_boxes++) {
        const struct bh_plan_box *box = &plan->boxes[spec->n_boxes];
        spec->boxes[spec->n_boxes] = (struct bh_spec_box){.id = bh_strdup(box->id), .shared = box->shared};
    }
    spec->max_parallel = doc->max_parallel;
    spec->failures_allowed =
        bh_failure_budget_make(doc->max_failures, doc->max_failures_percent, plan->n_agents).allowed;
    spec->deadline_ms = doc->deadline_ns / NS_PER_MS + (doc->deadline_ns % NS_PER_MS > 0);
    return spec;
}
