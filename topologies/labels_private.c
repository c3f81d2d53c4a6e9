/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns which agents have private data. It begins at a source that says `private: true`, flows with every artifact to
 * whoever reads it, to all who share a box with one that has it, to the next round, and, other than taint, to all later
 * stages that see whatever was made before them. Nothing clears it.
 */
#include "topologies/flows.h"

struct spread {
    struct bh_planner *pl;
    struct bh_flows flows;
    bool *stage_done, *box_done; /* all agents of it have been told */
    size_t shown_from;           /* what this stage made is seen, and told, in all later ones */
};

static void make_private(struct spread *s, size_t agent, enum bh_via via, size_t from, const char *artifact)
{
    struct bh_draft *d = &s->pl->drafts[agent];
    if (d->private_.via != BH_VIA_NOTHING)
        return;
    d->private_ = (struct bh_cause){
        .via = via,
        .agent = from,
        .origin = from == agent ? agent : s->pl->drafts[from].private_.origin,
        .artifact = artifact,
    };
    bh_flows_enqueue(&s->flows, agent);
}

static void to_readers(struct spread *s, size_t agent)
{
    for (size_t i = s->flows.first[agent]; i < s->flows.first[agent + 1]; i++) {
        struct bh_flow f = s->flows.items[i];
        make_private(s, f.reader, BH_VIA_INPUT, agent, bh_flow_artifact(s->pl, f));
    }
}

static void to_box(struct spread *s, size_t agent)
{
    size_t b = s->pl->plan->agents[agent].box;
    const struct bh_plan_box *box = &s->pl->plan->boxes[b];
    for (size_t i = 0; !s->box_done[b] && i < box->n_agents; i++)
        make_private(s, box->agents[i], BH_VIA_BOX, agent, NULL);
    s->box_done[b] = true;
}

static void to_next_round(struct spread *s, size_t agent)
{
    int stage = s->pl->plan->agents[agent].stage;
    if (stage < 0 || !s->pl->doc->stages[stage].repeat || s->stage_done[stage])
        return;
    s->stage_done[stage] = true;
    for (size_t a = s->pl->stage_start[stage]; a < s->pl->stage_start[stage + 1]; a++)
        make_private(s, a, BH_VIA_PREVIOUS, agent, NULL);
}

/* Agents that name no inputs see all untainted artifacts of earlier stages. Each of them is told once. */
static void to_later_stages(struct spread *s, size_t agent)
{
    struct bh_planner *pl = s->pl;
    const struct bh_plan_agent *from = &pl->plan->agents[agent];
    if (from->stage < 0 || from->label == BH_TAINTED || from->n_outputs == 0 || (size_t)from->stage >= s->shown_from)
        return;
    size_t end = s->shown_from < pl->doc->n_stages ? s->shown_from + 1 : pl->doc->n_stages;
    const char *name = pl->drafts[agent].output_names[0].s;
    for (size_t a = pl->stage_start[from->stage + 1]; a < pl->stage_start[end]; a++) {
        if (pl->plan->agents[a].implicit_inputs)
            make_private(s, a, BH_VIA_INPUT, agent, name);
    }
    s->shown_from = (size_t)from->stage;
}

void bh_plan_private(struct bh_planner *pl)
{
    struct spread s = {.pl = pl, .shown_from = pl->doc->n_stages};
    bh_flows_init(&s.flows, pl);
    s.stage_done = bh_calloc(pl->doc->n_stages + 1, sizeof(*s.stage_done));
    s.box_done = bh_calloc(pl->plan->n_boxes + 1, sizeof(*s.box_done));
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        if (pl->drafts[a].private_source)
            make_private(&s, a, BH_VIA_SOURCE, a, pl->drafts[a].private_source);
    }
    for (size_t i = 0; i < s.flows.len; i++) {
        size_t agent = s.flows.queue[i];
        to_readers(&s, agent);
        to_box(&s, agent);
        to_next_round(&s, agent);
        to_later_stages(&s, agent);
    }
    bh_flows_fini(&s.flows);
    bh_free(s.stage_done);
    bh_free(s.box_done);
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        struct bh_plan_agent *agent = &pl->plan->agents[a];
        agent->private_why = bh_plan_private_path(pl, a);
        pl->plan->boxes[agent->box].private_ |= agent->private_why != NULL;
    }
}
