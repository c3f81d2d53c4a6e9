/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the concession: a small crew that the document puts into separate boxes and that only passes files along. It is
 * proven by planning the same document without the walls that were asked for: where that gives one box, no other
 * reason for a wall was there.
 */
#include "base/mem.h"
#include "base/text.h"
#include "topologies/advise_priv.h"

enum { SMALL = 8 };

/* Each agent alone, because the document asks for it of all of them: of one alone there was a reason, and it may be one
 * that an earlier run gave. */
static bool asks_for_walls(const struct bh_plan *plan)
{
    if (plan->n_agents < 2 || plan->n_agents > SMALL || plan->n_boxes != plan->n_agents)
        return false;
    for (size_t i = 0; i < plan->n_agents; i++) {
        const struct bh_plan_agent *a = &plan->agents[i];
        const struct bh_plan_box *box = &plan->boxes[a->box];
        bool asked = a->doc->topology == BH_TOPOLOGY_PER_AGENT ||
                     (a->doc->topology == BH_TOPOLOGY_UNSET && plan->pipeline->topology == BH_TOPOLOGY_PER_AGENT);
        if (!asked || box->shared || box->n_powers > 0 || box->private_ || a->label == BH_TAINTED)
            return false;
    }
    return true;
}

static size_t root_of(const size_t *parent, size_t i)
{
    while (parent[i] != i)
        i = parent[i];
    return i;
}

/* Whether the files that they pass tie all of them together. */
static bool pass_files(const struct bh_plan *plan)
{
    size_t parent[SMALL], parts = plan->n_agents;
    for (size_t i = 0; i < plan->n_agents; i++)
        parent[i] = i;
    for (size_t i = 0; i < plan->n_agents; i++) {
        const struct bh_plan_agent *a = &plan->agents[i];
        for (size_t k = 0; k < a->n_inputs; k++) {
            for (size_t m = 0; m < a->inputs[k].n_producers; m++) {
                size_t x = root_of(parent, i), y = root_of(parent, a->inputs[k].producers[m]);
                parts -= x != y;
                parent[x] = y;
            }
        }
    }
    return parts == 1;
}

static bool one_box_would_do(const struct bh_advise_subject *subject)
{
    struct bh_pipeline copy = *subject->pipeline;
    BH_CLEANUP_FREE struct bh_agent *agents = bh_memdup(copy.agents, copy.n_agents * sizeof(*agents));
    for (size_t i = 0; i < copy.n_agents; i++)
        agents[i].topology = BH_TOPOLOGY_UNSET;
    copy.agents = agents;
    copy.topology = BH_TOPOLOGY_AUTO;
    struct bh_plan_options options = {.lint = true};
    struct bh_errlist errors = {0};
    struct bh_plan *plan = NULL;
    bool good = bh_plan_make(&copy, &options, &plan, &errors) == 0 && plan->n_boxes == 1 && plan->boxes[0].shared;
    if (good) {
        struct bh_advise_subject other = *subject;
        struct bh_advices conflicts;
        other.plan = plan;
        bh_advices_init(&conflicts);
        bh_advise_installs(&other, &conflicts);
        good = conflicts.len == 0;
        bh_advices_fini(&conflicts);
    }
    bh_plan_free(plan);
    bh_errlist_fini(&errors);
    return good;
}

static struct bh_pos topology_pos(const struct bh_node *map)
{
    const struct bh_node *value = bh_node_get(map, "topology");
    return value ? bh_node_key_pos(value) : (struct bh_pos){0};
}

static void cite_walls(const struct bh_advise_subject *subject, struct bh_advices *list, struct bh_advice *advice)
{
    struct bh_editor ed;
    bh_editor_init(&ed, subject->text, subject->len, subject->pipeline->root);
    if (subject->pipeline->topology == BH_TOPOLOGY_PER_AGENT) {
        bh_advice_cite(list, advice, topology_pos(subject->pipeline->root), NULL,
                       "the document gives each agent a box: topology: per-agent");
        bh_advice_change(list, advice, NULL, "topology", "auto");
    }
    for (size_t i = 0; i < subject->pipeline->n_agents; i++) {
        const struct bh_agent *agent = &subject->pipeline->agents[i];
        if (agent->topology != BH_TOPOLOGY_PER_AGENT)
            continue;
        bh_advice_cite(list, advice, topology_pos(bh_editor_agent(&ed, agent->name.s)), agent->name.s,
                       "'%s' asks for a box of its own: topology: per-agent", agent->name.s);
        bh_advice_change(list, advice, agent->name.s, "topology", "auto");
    }
    bh_editor_fini(&ed);
}

static void cite_files(const struct bh_plan *plan, struct bh_advices *list, struct bh_advice *advice)
{
    for (size_t i = 0; i < plan->n_agents; i++) {
        const struct bh_plan_agent *a = &plan->agents[i];
        bh_advice_name(list, advice, a->name);
        for (size_t k = 0; k < a->n_inputs; k++) {
            const struct bh_plan_input *in = &a->inputs[k];
            struct bh_pos pos =
                !a->implicit_inputs && k < a->doc->n_inputs ? a->doc->inputs[k].name.pos : a->doc->name.pos;
            if (in->n_producers > 0)
                bh_advice_cite(list, advice, pos, a->name, "'%s' takes '%s' from '%s'", a->name, in->name,
                               plan->agents[in->producers[0]].name);
        }
    }
}

void bh_advise_one_box(const struct bh_advise_subject *subject, struct bh_advices *list)
{
    const struct bh_plan *plan = subject->plan;
    if (!plan || list->len > 0 || list->no_concession || !asks_for_walls(plan) || !pass_files(plan) ||
        !one_box_would_do(subject))
        return;
    struct bh_advice *advice =
        bh_advices_add(list, BH_ADVICE_ONE_BOX, BH_TOPOLOGY_SHARED_BOX,
                       "%zu agents in %zu boxes only pass files along: they are all trusted, hold no secret and need "
                       "the same base, network, user and limits, so one box would do",
                       plan->n_agents, plan->n_boxes);
    advice->action = "let the plan decide: it makes one box, and walls where the document comes to name a reason";
    cite_walls(subject, list, advice);
    cite_files(plan, list, advice);
}
