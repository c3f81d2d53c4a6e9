/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a plan to a spec: drops everything that the engine need not know. The one place where the plan's reasons for an
 * order (stages, needs, data) become the engine's kinds of waiting, and where the failure budget becomes a number.
 */
#include "base/buf.h"
#include "base/map.h"
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
    struct bh_map *setups;        /* text of a setup → 1 + its group */
    size_t *taken_by;             /* by agent: 1 + the last agent seen that takes it as an optional input */
    size_t cap_gates;
    size_t *seen_by; /* by agent: 1 + the gate that listed it last */
};

static int64_t to_ms(int64_t ns)
{
    return ns / NS_PER_MS + (ns % NS_PER_MS > 0);
}

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

/* What a setup is made of, as far as the document says it: equal texts, equal setups. */
static char *setup_text(const struct bh_plan *plan, const struct bh_plan_agent *a)
{
    struct bh_buf text = BH_BUF_INIT;
    const struct bh_plan_box *box = &plan->boxes[a->box];
    const char *parts[] = {box->base, box->network, box->user, bh_label_text(box->label)};
    for (size_t i = 0; i < BH_ARRAY_LEN(parts); i++)
        bh_buf_addf(&text, "%zu:%s", strlen(parts[i]), parts[i]);
    for (size_t i = 0; i < a->n_setup; i++)
        bh_buf_addf(&text, "s%zu:%s", strlen(a->setup[i]), a->setup[i]);
    for (size_t i = 0; i < a->n_files + a->n_env; i++) {
        const struct bh_pair *p = i < a->n_files ? &a->files[i] : &a->env[i - a->n_files];
        bh_buf_addf(&text, "%c%zu:%s%zu:%s", i < a->n_files ? 'f' : 'e', strlen(p->name.s), p->name.s,
                    strlen(p->value.s), p->value.s);
    }
    return bh_buf_take(&text);
}

static size_t setup_group_of(struct making *m, const struct bh_plan_agent *a)
{
    BH_CLEANUP_FREE char *text = setup_text(m->plan, a);
    uintptr_t known = (uintptr_t)bh_map_get(m->setups, text);
    if (known == 0) {
        known = ++m->spec->n_setups;
        (void)bh_map_put(m->setups, text, (void *)known);
    }
    return known;
}

static struct bh_spec_forks *forks_of(struct making *m, const struct bh_plan_agent *a)
{
    const struct bh_attempts *doc = &a->doc->attempts;
    if (!a->forks)
        return NULL;
    struct bh_spec_forks *f = bh_alloc(sizeof(*f));
    *f = (struct bh_spec_forks){
        .attempts = (size_t)doc->count,
        .setup = a->n_setup > 0,
        .prepare = a->n_prepare > 0,
        .setup_group = a->n_setup > 0 ? setup_group_of(m, a) : 0,
        .numbered = bh_agent_numbered(a->doc),
        .rule = {.kind = doc->select,
                 .order_min = doc->order_min,
                 .stop_losers = doc->stop_losers,
                 .min_success = doc->min_success},
    };
    return f;
}

/* --- gates --- */

static bool asks_for_inputs(const struct bh_plan_agent *agent)
{
    for (size_t i = 0; i < agent->n_gates; i++) {
        if (agent->gates[i].kind == BH_GATE_APPROVE)
            return true;
    }
    return false;
}

static struct bh_spec_gate *add_gate(struct making *m, const char *id, int64_t timeout_ns, size_t n_nodes)
{
    struct bh_spec_gate *g = BH_PUSH(m->spec->gates, m->spec->n_gates, m->cap_gates);
    *g = (struct bh_spec_gate){.id = bh_strdup(id), .timeout_ms = to_ms(timeout_ns)};
    g->nodes = bh_calloc(n_nodes, sizeof(*g->nodes));
    return g;
}

static void add_own_gates(struct making *m)
{
    for (size_t i = 0; i < m->plan->n_agents; i++) {
        const struct bh_agent *doc = m->plan->agents[i].doc;
        if (!doc->gate && !asks_for_inputs(&m->plan->agents[i]))
            continue;
        struct bh_spec_gate *g = add_gate(m, m->plan->agents[i].name, doc->timeouts.run, 1);
        g->nodes[g->n_nodes++] = i;
        m->spec->nodes[i].gate = m->spec->n_gates;
    }
}

/* Agents of a stage stand together, and those behind one stage share their edges: each array is gone through once. */
static void add_before(struct making *m, struct bh_spec_gate *g)
{
    const struct bh_edge *newest = NULL;
    size_t cap = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const struct bh_plan_agent *a = &m->plan->agents[g->nodes[i]];
        for (size_t k = 0; a->after != newest && k < a->n_after; k++) {
            size_t on = a->after[k].agent;
            if (m->plan->agents[on].stage >= a->stage || m->seen_by[on] == m->spec->n_gates)
                continue;
            m->seen_by[on] = m->spec->n_gates;
            *BH_PUSH(g->after, g->n_after, cap) = on;
        }
        newest = a->after;
    }
}

/* The question waits as long as the most patient of its agents. */
static void add_stage_gate(struct making *m, int stage, size_t first, size_t end)
{
    int64_t timeout = 0;
    for (size_t i = first; i < end; i++) {
        int64_t own = m->plan->agents[i].doc->timeouts.run;
        timeout = own > timeout ? own : timeout;
    }
    struct bh_spec_gate *g = add_gate(m, m->plan->pipeline->stages[stage].name.s, timeout, end - first);
    g->of_stage = true;
    for (size_t i = first; i < end; i++) {
        g->nodes[g->n_nodes++] = i;
        m->spec->nodes[i].stage_gate = m->spec->n_gates;
    }
    add_before(m, g);
}

static void add_gates(struct making *m)
{
    add_own_gates(m);
    for (size_t first = 0, end; first < m->plan->n_agents; first = end) {
        int stage = m->plan->agents[first].stage;
        for (end = first + 1; end < m->plan->n_agents && m->plan->agents[end].stage == stage;)
            end++;
        if (stage >= 0 && m->plan->pipeline->stages[stage].gate)
            add_stage_gate(m, stage, first, end);
    }
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
                                 .retries = a->doc->retries,
                                 .forks = forks_of(m, a)};
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
    struct bh_map *setups BH_CLEANUP_MAP = bh_map_new(NULL);
    size_t *seen_by BH_CLEANUP_FREE = bh_calloc(plan->n_agents, sizeof(*seen_by));
    struct making making = {.plan = plan, .spec = spec, .setups = setups, .taken_by = taken_by, .seen_by = seen_by};
    spec->nodes = bh_calloc(plan->n_agents, sizeof(*spec->nodes));
    for (; spec->n_nodes < plan->n_agents; spec->n_nodes++)
        fill_node(&making, spec->n_nodes, &spec->nodes[spec->n_nodes]);
    add_gates(&making);
    spec->boxes = bh_calloc(plan->n_boxes, sizeof(*spec->boxes));
    for (; spec->n_boxes < plan->n_boxes; spec->n_boxes++) {
        const struct bh_plan_box *box = &plan->boxes[spec->n_boxes];
        spec->boxes[spec->n_boxes] = (struct bh_spec_box){.id = bh_strdup(box->id), .shared = box->shared};
    }
    spec->max_parallel = doc->max_parallel;
    spec->failures_allowed =
        bh_failure_budget_make(doc->max_failures, doc->max_failures_percent, plan->n_agents).allowed;
    spec->deadline_ms = to_ms(doc->deadline_ns);
    return spec;
}
