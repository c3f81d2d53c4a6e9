/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns where taint is and how it got there. It begins at `untrusted: true` of an agent or a source and at content that
 * another run knows as tainted, flows with every artifact to whoever reads it, and from one agent of a shared box to
 * all others; in a stage that repeats, from one round to the next. What `accept` lets in with `validate` taints what
 * the agent makes, and not its box where it stands alone in that: no gate let it in for the others. With `approve` or
 * `endorse` the label is cleared. Every agent is visited at most twice: when it becomes tainted, and when its box does.
 */
#include "base/text.h"
#include "topologies/flows.h"

enum admission { ADMIT_NOT, ADMIT_HERE /* the agent may have it, the label stays */, ADMIT_CLEARED };

struct spread {
    struct bh_planner *pl;
    struct bh_flows flows;
    bool *stage_told;            /* its members without gates */
    size_t *gated, *gated_start; /* those with gates, of stage i: gated[gated_start[i]] .. */
    bool *group_tainted;         /* all members have been told */
};

static enum admission admission_of(struct bh_planner *pl, size_t agent, const char *artifact)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    if (a->n_gates == 0 || !bh_planner_may_work(pl, 5 * a->n_gates))
        return ADMIT_NOT;
    const struct bh_plan_gate *gate = bh_plan_gate_of(a->gates, a->n_gates, artifact);
    if (!gate)
        return ADMIT_NOT;
    return gate->kind == BH_GATE_VALIDATE ? ADMIT_HERE : ADMIT_CLEARED;
}

static bool shares_box(const struct bh_planner *pl, size_t agent)
{
    long group = pl->drafts[agent].group;
    return group >= 0 && pl->groups[group].n > 1;
}

/* The first cause is kept: so the path of causes never turns back on itself. */
static void taint(struct spread *s, size_t agent, enum admission admission, enum bh_via via, size_t from,
                  const char *artifact)
{
    struct bh_plan_agent *a = &s->pl->plan->agents[agent];
    struct bh_draft *d = &s->pl->drafts[agent];
    bool box = admission == ADMIT_NOT || shares_box(s->pl, agent);
    if (admission == ADMIT_CLEARED || (a->label == BH_TAINTED && (d->box_tainted || !box)))
        return;
    struct bh_cause cause = {
        .via = via,
        .agent = from,
        .origin = from == agent ? agent : s->pl->drafts[from].taint.origin,
        .artifact = artifact,
    };
    if (a->label != BH_TAINTED)
        d->taint = cause;
    if (box)
        d->box_taint = cause;
    a->label = BH_TAINTED;
    d->admitted = d->admitted || !box;
    d->box_tainted = d->box_tainted || box;
    bh_flows_enqueue(&s->flows, agent);
}

/* --- where it begins --- */

static void begin_by_source(struct spread *s, size_t agent, const char *source)
{
    if (source)
        taint(s, agent, admission_of(s->pl, agent, source), BH_VIA_SOURCE, agent, source);
}

/* A gate may let in one of the sources that a glob fits, and not another. */
static void begin_by_each(struct spread *s, size_t agent, const char *glob)
{
    const struct bh_pipeline *doc = s->pl->doc;
    for (size_t i = 0; i < doc->n_sources && bh_planner_may_work(s->pl, 5); i++) {
        if (s->pl->source_tainted[i] && bh_glob_match(glob, doc->sources[i].name.s))
            begin_by_source(s, agent, doc->sources[i].name.s);
    }
}

static void begin_by_sources(struct spread *s, size_t agent)
{
    const struct bh_plan_agent *a = &s->pl->plan->agents[agent];
    const struct bh_draft *d = &s->pl->drafts[agent];
    for (size_t i = 0; i < a->n_inputs; i++) {
        bool many = d->input_untrusted[i] && (a->inputs[i].is_glob || d->input_names[i].open);
        if (many && a->n_gates > 0)
            begin_by_each(s, agent, d->input_names[i].glob);
        else
            begin_by_source(s, agent, d->input_untrusted[i]);
    }
    for (size_t i = 0; i < d->n_steers; i++) {
        if (d->steers[i].is_data)
            begin_by_source(s, agent, d->steers[i].untrusted);
    }
}

static void begin_by_files(struct spread *s, size_t agent, const struct bh_pair *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (files[i].value.s && bh_map_has(s->pl->tainted_files, files[i].value.s))
            taint(s, agent, ADMIT_NOT, BH_VIA_FILE, agent, files[i].value.s);
    }
}

static void begin(struct spread *s, size_t agent)
{
    const struct bh_plan_agent *a = &s->pl->plan->agents[agent];
    if (a->doc->untrusted)
        taint(s, agent, ADMIT_NOT, BH_VIA_SELF, agent, NULL);
    begin_by_sources(s, agent);
    if (bh_map_len(s->pl->tainted_files) == 0)
        return;
    begin_by_files(s, agent, a->files, a->n_files);
    begin_by_files(s, agent, a->check_files, a->n_check_files);
    if (a->prompt_file)
        begin_by_files(s, agent, &(struct bh_pair){.value.s = a->prompt_file}, 1);
}

/* --- how it flows --- */

static void to_readers(struct spread *s, size_t agent)
{
    for (size_t i = s->flows.first[agent]; i < s->flows.first[agent + 1]; i++) {
        struct bh_flow f = s->flows.items[i];
        const char *artifact = bh_flow_artifact(s->pl, f);
        taint(s, f.reader, admission_of(s->pl, f.reader, artifact), BH_VIA_INPUT, agent, artifact);
    }
}

static void to_box(struct spread *s, size_t agent)
{
    const struct bh_draft *d = &s->pl->drafts[agent];
    if (d->group < 0 || !d->box_tainted || s->group_tainted[d->group])
        return;
    s->group_tainted[d->group] = true;
    const struct bh_group *g = &s->pl->groups[d->group];
    for (size_t i = 0; i < g->n; i++)
        taint(s, g->agents[i], ADMIT_NOT, BH_VIA_BOX, agent, NULL);
}

/* How what the agent made in one round is let in by another in the next: as the worst of its outputs. */
static enum admission of_round(struct spread *s, size_t reader, size_t agent)
{
    enum admission worst = ADMIT_CLEARED;
    for (size_t i = 0; i < s->pl->plan->agents[agent].n_outputs; i++) {
        enum admission here = admission_of(s->pl, reader, s->pl->drafts[agent].output_names[i].glob);
        worst = here < worst ? here : worst;
    }
    return worst;
}

/*
 * What a round made lies before all agents of the next one. Who has no gates is told once, by the first: that one is
 * tainted itself, and so is its box if it has no gates either.
 */
static void to_next_round(struct spread *s, size_t agent)
{
    const struct bh_plan_agent *agents = s->pl->plan->agents;
    int stage = agents[agent].stage;
    if (stage < 0 || !s->pl->doc->stages[stage].repeat || agents[agent].n_outputs == 0)
        return;
    for (size_t i = s->gated_start[stage]; i < s->gated_start[stage + 1]; i++) {
        size_t reader = s->gated[i];
        if (reader != agent)
            taint(s, reader, of_round(s, reader, agent), BH_VIA_PREVIOUS, agent, NULL);
    }
    if (s->stage_told[stage])
        return;
    s->stage_told[stage] = true;
    for (size_t a = s->pl->stage_start[stage]; a < s->pl->stage_start[stage + 1]; a++) {
        if (a != agent && agents[a].n_gates == 0)
            taint(s, a, ADMIT_NOT, BH_VIA_PREVIOUS, agent, NULL);
    }
}

static void spread_taint(struct spread *s)
{
    for (size_t a = 0; a < s->pl->plan->n_agents; a++)
        begin(s, a);
    for (size_t i = 0; i < s->flows.len; i++) {
        size_t agent = s->flows.queue[i];
        to_readers(s, agent);
        to_box(s, agent);
        to_next_round(s, agent);
    }
}

/* --- what steers --- */

/* The way of the taint; NULL where there is none. */
static const char *steer_path(struct bh_planner *pl, const struct bh_steer *steer)
{
    if (steer->untrusted)
        return bh_arena_printf(pl->arena, "%s (%s)", steer->untrusted, bh_plan_tainted_source(pl, steer->untrusted));
    for (size_t p = 0; p < steer->n_producers; p++) {
        if (pl->plan->agents[steer->producers[p]].label == BH_TAINTED)
            return bh_plan_taint_path_of(pl, steer->name, steer->producers[p]);
    }
    return NULL;
}

static void set_steered_by(struct bh_planner *pl, size_t agent)
{
    struct bh_texts names = {0}, paths = {0};
    for (size_t i = 0; i < pl->drafts[agent].n_steers; i++) {
        const char *path = steer_path(pl, &pl->drafts[agent].steers[i]);
        if (!path)
            continue;
        bh_texts_add(pl, &names, pl->drafts[agent].steers[i].name);
        bh_texts_add(pl, &paths, path);
    }
    pl->plan->agents[agent].steered_by = names.items;
    pl->plan->agents[agent].steered_why = paths.items;
    pl->plan->agents[agent].n_steered_by = names.len;
}

/* Only what an agent names: what a stage shows to all who come after it is not tainted. */
static void set_tainted_inputs(struct bh_planner *pl, size_t agent)
{
    struct bh_plan_agent *a = &pl->plan->agents[agent];
    for (size_t i = 0; i < a->n_inputs; i++) {
        struct bh_plan_input *in = &a->inputs[i];
        in->tainted = pl->drafts[agent].input_untrusted[i] != NULL;
        for (size_t p = 0; !in->tainted && p < in->n_producers; p++)
            in->tainted = pl->plan->agents[in->producers[p]].label == BH_TAINTED;
    }
}

static void list_gated(struct spread *s)
{
    struct bh_planner *pl = s->pl;
    size_t n = 0;
    s->gated = bh_calloc(pl->plan->n_agents + 1, sizeof(*s->gated));
    s->gated_start = bh_calloc(pl->doc->n_stages + 1, sizeof(*s->gated_start));
    for (size_t i = 0; i < pl->doc->n_stages; i++) {
        for (size_t a = pl->stage_start[i]; a < pl->stage_start[i + 1]; a++) {
            if (pl->plan->agents[a].n_gates > 0)
                s->gated[n++] = a;
        }
        s->gated_start[i + 1] = n;
    }
}

const char *bh_label_text(enum bh_label label)
{
    return label == BH_TAINTED ? "tainted" : "trusted";
}

void bh_plan_labels(struct bh_planner *pl)
{
    struct spread s = {.pl = pl};
    list_gated(&s);
    bh_flows_init(&s.flows, pl);
    s.stage_told = bh_calloc(pl->doc->n_stages + 1, sizeof(*s.stage_told));
    s.group_tainted = bh_calloc(pl->n_groups + 1, sizeof(*s.group_tainted));
    spread_taint(&s);
    bh_flows_fini(&s.flows);
    bh_free(s.stage_told);
    bh_free(s.gated);
    bh_free(s.gated_start);
    bh_free(s.group_tainted);
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        pl->plan->agents[a].why = bh_plan_taint_path(pl, a);
        set_tainted_inputs(pl, a);
        set_steered_by(pl, a);
    }
}
