/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the labels as far as placement needs them. Taint begins at `untrusted: true` of an agent or a source, flows with
 * every artifact to whoever reads it, and from one agent of a shared box to all others; in a stage that repeats, from
 * one round to the next. What `accept` lets in with `validate` taints what the agent makes, not its box; with `approve`
 * or `endorse` the label is cleared. `private` flows in the same way, and nothing clears it.
 */
#include "base/buf.h"
#include "base/text.h"
#include "topologies/plan_priv.h"

enum { SHOWN_HOPS = 6 };

enum admission { ADMIT_NOT, ADMIT_HERE /* the agent may have it, the label stays */, ADMIT_CLEARED };

/* One flow: `reader` has what the producer makes, by its input number `input`, or by its steer. */
struct flow {
    size_t reader, index;
    bool is_steer;
};

struct spread {
    struct bh_planner *pl;
    size_t *first; /* flows of producer p: flows[first[p]] .. flows[first[p + 1]] */
    struct flow *flows;
    size_t *queue, queue_len, queue_cap;
    bool *stage_done, *group_done; /* all agents of it have been told */
};

static bool says_true(const struct bh_node *map, const char *key)
{
    return bh_streq(bh_node_text(bh_node_get(map, key)), "true");
}

static enum admission admission_of(struct bh_planner *pl, const struct bh_agent *doc, const char *artifact)
{
    enum admission best = ADMIT_NOT;
    for (size_t i = 0; i < bh_node_len(doc->accept) && bh_planner_may_work(pl, 5); i++) {
        const char *key = bh_node_key_at(doc->accept, i);
        const struct bh_node *entry = bh_node_at(doc->accept, i);
        if (!bh_streq(key, artifact) && !bh_glob_match(key, artifact))
            continue;
        if (says_true(entry, "approve") || says_true(entry, "endorse"))
            return ADMIT_CLEARED;
        best = bh_node_get(entry, "validate") ? ADMIT_HERE : best;
    }
    return best;
}

/* --- who reads whom --- */

static void each_flow(struct bh_planner *pl, void (*visit)(struct spread *, size_t producer, struct flow),
                      struct spread *s)
{
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        const struct bh_plan_agent *agent = &pl->plan->agents[a];
        const struct bh_draft *d = &pl->drafts[a];
        for (size_t i = 0; i < agent->n_inputs; i++) {
            for (size_t p = 0; p < agent->inputs[i].n_producers; p++)
                visit(s, agent->inputs[i].producers[p], (struct flow){a, i, false});
        }
        for (size_t i = 0; i < d->n_steers; i++) {
            for (size_t p = 0; d->steers[i].is_data && p < d->steers[i].n_producers; p++)
                visit(s, d->steers[i].producers[p], (struct flow){a, i, true});
        }
    }
}

static void count_flow(struct spread *s, size_t producer, struct flow f)
{
    (void)f;
    s->first[producer + 1]++;
}

/* `first` is one behind while it is being filled. */
static void put_flow(struct spread *s, size_t producer, struct flow f)
{
    s->flows[s->first[producer]++] = f;
}

static void build(struct spread *s)
{
    size_t n = s->pl->plan->n_agents;
    s->first = bh_calloc(n + 1, sizeof(*s->first));
    s->stage_done = bh_calloc(s->pl->doc->n_stages + 1, sizeof(*s->stage_done));
    s->group_done = bh_calloc(s->pl->n_groups + 1, sizeof(*s->group_done));
    each_flow(s->pl, count_flow, s);
    for (size_t i = 0; i < n; i++)
        s->first[i + 1] += s->first[i];
    s->flows = bh_calloc(s->first[n] + 1, sizeof(*s->flows));
    each_flow(s->pl, put_flow, s);
    memmove(s->first + 1, s->first, n * sizeof(*s->first));
    s->first[0] = 0;
}

static void spread_fini(struct spread *s)
{
    bh_free(s->first);
    bh_free(s->flows);
    bh_free(s->queue);
    bh_free(s->stage_done);
    bh_free(s->group_done);
}

static void enqueue(struct spread *s, size_t agent)
{
    *BH_PUSH(s->queue, s->queue_len, s->queue_cap) = agent;
}

static const char *artifact_of(const struct bh_planner *pl, struct flow f)
{
    return f.is_steer ? pl->drafts[f.reader].steers[f.index].name : pl->plan->agents[f.reader].inputs[f.index].name;
}

/* --- taint --- */

/* The first cause is kept: so the path of causes never turns back on itself. */
static void taint(struct spread *s, size_t agent, bool box, enum bh_taint_via via, size_t from, const char *artifact)
{
    struct bh_plan_agent *a = &s->pl->plan->agents[agent];
    struct bh_draft *d = &s->pl->drafts[agent];
    if (a->label == BH_TAINTED && (d->box_tainted || !box))
        return;
    if (a->label != BH_TAINTED) {
        bool begins = via == BH_VIA_SELF || via == BH_VIA_SOURCE;
        d->via = via;
        d->via_agent = from;
        d->via_artifact = artifact;
        d->origin = begins ? agent : s->pl->drafts[from].origin;
    }
    a->label = BH_TAINTED;
    d->admitted = d->admitted || !box;
    d->box_tainted = d->box_tainted || box;
    enqueue(s, agent);
}

static void taint_by_source(struct spread *s, size_t agent, const char *source)
{
    enum admission admission = admission_of(s->pl, s->pl->plan->agents[agent].doc, source);
    if (admission != ADMIT_CLEARED)
        taint(s, agent, admission == ADMIT_NOT, BH_VIA_SOURCE, agent, source);
}

static void begin_taint(struct spread *s)
{
    struct bh_planner *pl = s->pl;
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        const struct bh_draft *d = &pl->drafts[a];
        if (pl->plan->agents[a].doc->untrusted)
            taint(s, a, true, BH_VIA_SELF, a, NULL);
        for (size_t i = 0; i < pl->plan->agents[a].n_inputs; i++) {
            if (d->input_untrusted[i])
                taint_by_source(s, a, d->input_untrusted[i]);
        }
        for (size_t i = 0; i < d->n_steers; i++) {
            if (d->steers[i].is_data && d->steers[i].untrusted)
                taint_by_source(s, a, d->steers[i].untrusted);
        }
    }
}

static void taint_readers(struct spread *s, size_t agent)
{
    for (size_t i = s->first[agent]; i < s->first[agent + 1]; i++) {
        struct flow f = s->flows[i];
        const char *artifact = artifact_of(s->pl, f);
        enum admission admission = admission_of(s->pl, s->pl->plan->agents[f.reader].doc, artifact);
        if (admission != ADMIT_CLEARED)
            taint(s, f.reader, admission == ADMIT_NOT, BH_VIA_INPUT, agent, artifact);
    }
}

static void taint_box(struct spread *s, size_t agent)
{
    const struct bh_draft *d = &s->pl->drafts[agent];
    if (d->group < 0 || !d->box_tainted || s->group_done[d->group])
        return;
    s->group_done[d->group] = true;
    const struct bh_group *g = &s->pl->groups[d->group];
    for (size_t i = 0; i < g->n; i++)
        taint(s, g->agents[i], true, BH_VIA_BOX, agent, NULL);
}

/* What a round made lies before all agents of the next one. */
static void taint_rounds(struct spread *s, size_t agent)
{
    int stage = s->pl->plan->agents[agent].stage;
    if (stage < 0 || !s->pl->doc->stages[stage].repeat || s->stage_done[stage])
        return;
    s->stage_done[stage] = true;
    for (size_t a = s->pl->stage_start[stage]; a < s->pl->stage_start[stage + 1]; a++)
        taint(s, a, true, BH_VIA_PREVIOUS, agent, NULL);
}

static void spread_taint(struct spread *s)
{
    begin_taint(s);
    for (size_t i = 0; i < s->queue_len; i++) {
        size_t agent = s->queue[i];
        taint_readers(s, agent);
        taint_box(s, agent);
        taint_rounds(s, agent);
    }
}

/* --- private --- */

static void make_private(struct spread *s, size_t agent)
{
    struct bh_draft *d = &s->pl->drafts[agent];
    if (!d->private_)
        enqueue(s, agent);
    d->private_ = true;
}

static void make_others_private(struct spread *s, size_t agent)
{
    struct bh_planner *pl = s->pl;
    int stage = pl->plan->agents[agent].stage;
    long group = pl->drafts[agent].group;
    for (size_t i = s->first[agent]; i < s->first[agent + 1]; i++)
        make_private(s, s->flows[i].reader);
    if (group >= 0 && !s->group_done[group]) {
        s->group_done[group] = true;
        for (size_t i = 0; i < pl->groups[group].n; i++)
            make_private(s, pl->groups[group].agents[i]);
    }
    if (stage >= 0 && pl->doc->stages[stage].repeat && !s->stage_done[stage]) {
        s->stage_done[stage] = true;
        for (size_t a = pl->stage_start[stage]; a < pl->stage_start[stage + 1]; a++)
            make_private(s, a);
    }
}

static void spread_private(struct spread *s)
{
    struct bh_planner *pl = s->pl;
    s->queue_len = 0;
    memset(s->stage_done, 0, (pl->doc->n_stages + 1) * sizeof(*s->stage_done));
    memset(s->group_done, 0, (pl->n_groups + 1) * sizeof(*s->group_done));
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        if (pl->drafts[a].private_)
            enqueue(s, a);
    }
    for (size_t i = 0; i < s->queue_len; i++)
        make_others_private(s, s->queue[i]);
}

/* --- what is printed --- */

static void add_hop(const struct bh_planner *pl, size_t at, bool first, struct bh_buf *out)
{
    const struct bh_draft *d = &pl->drafts[at];
    const char *from = pl->plan->agents[d->via_agent].name;
    switch (d->via) {
    case BH_VIA_SELF:
        bh_buf_adds(out, first ? "untrusted: true" : " (untrusted: true)");
        return;
    case BH_VIA_SOURCE:
        bh_buf_addf(out, "%s%s (untrusted source)", first ? "" : " ← ", d->via_artifact);
        return;
    case BH_VIA_INPUT:
        bh_buf_addf(out, "%s%s ← %s", first ? "" : " ← ", d->via_artifact, from);
        return;
    case BH_VIA_PREVIOUS:
        bh_buf_addf(out, "%sthe round before ← %s", first ? "" : " ← ", from);
        return;
    case BH_VIA_BOX:
        bh_buf_addf(out, "%sshares a box with %s", first ? "" : ", which ", from);
        return;
    case BH_VIA_NOTHING:
        return;
    }
}

const char *bh_plan_taint_path(struct bh_planner *pl, size_t agent)
{
    if (pl->plan->agents[agent].label != BH_TAINTED)
        return NULL;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    size_t at = agent;
    for (int hop = 0;; hop++) {
        const struct bh_draft *d = &pl->drafts[at];
        bool ends = d->via == BH_VIA_SELF || d->via == BH_VIA_SOURCE;
        if (hop == SHOWN_HOPS && !ends) {
            bh_buf_addf(&out, " ← … ← %s", pl->plan->agents[d->origin].name);
            at = d->origin;
            add_hop(pl, at, false, &out);
            break;
        }
        add_hop(pl, at, hop == 0, &out);
        if (ends)
            break;
        at = d->via_agent;
    }
    return bh_arena_strdup(pl->arena, out.data);
}

static bool is_tainted_steer(const struct bh_planner *pl, const struct bh_steer *steer)
{
    bool tainted = steer->untrusted != NULL;
    for (size_t p = 0; p < steer->n_producers; p++)
        tainted = tainted || pl->plan->agents[steer->producers[p]].label == BH_TAINTED;
    return tainted;
}

static void set_steered_by(struct bh_planner *pl, size_t agent)
{
    struct bh_texts names = {0};
    for (size_t i = 0; i < pl->drafts[agent].n_steers; i++) {
        if (is_tainted_steer(pl, &pl->drafts[agent].steers[i]))
            bh_texts_add(pl, &names, pl->drafts[agent].steers[i].name);
    }
    pl->plan->agents[agent].steered_by = names.items;
    pl->plan->agents[agent].n_steered_by = names.len;
}

void bh_plan_labels(struct bh_planner *pl)
{
    struct spread s = {.pl = pl};
    build(&s);
    spread_taint(&s);
    spread_private(&s);
    spread_fini(&s);
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        pl->plan->agents[a].why = bh_plan_taint_path(pl, a);
        set_steered_by(pl, a);
    }
}
