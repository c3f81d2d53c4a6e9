/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns how the way of a label is written: from the agent back to where it began, "scores.csv ← modeling ← pages.jsonl ←
 * retrieval (untrusted: true)". The first cause of each agent is the one that is kept, so a way never turns back.
 */
#include "base/buf.h"
#include "topologies/plan_priv.h"

enum { SHOWN_HOPS = 6 };

/* One label's words and where its causes are. */
struct way {
    const struct bh_planner *pl;
    bool private_;
    size_t box_of; /* begins at this agent, with how its box came to it; SIZE_MAX: at none */
};

static const struct bh_cause *cause_of(const struct way *w, size_t agent)
{
    const struct bh_draft *d = &w->pl->drafts[agent];
    if (agent == w->box_of)
        return &d->box_taint;
    return w->private_ ? &d->private_ : &d->taint;
}

static bool ends(const struct bh_cause *c)
{
    return c->via == BH_VIA_SELF || c->via == BH_VIA_SOURCE || c->via == BH_VIA_FILE;
}

const char *bh_plan_tainted_source(const struct bh_planner *pl, const char *name)
{
    const struct bh_source *source = bh_map_get(pl->sources, name);
    return source && source->untrusted ? "untrusted source" : "source with tainted content";
}

static void add_hop(const struct way *w, size_t at, bool first, struct bh_buf *out)
{
    const struct bh_cause *c = cause_of(w, at);
    const char *from = w->pl->plan->agents[c->agent].name, *arrow = first ? "" : " ← ";
    switch (c->via) {
    case BH_VIA_SELF:
        bh_buf_adds(out, first ? "untrusted: true" : " (untrusted: true)");
        return;
    case BH_VIA_SOURCE:
        bh_buf_addf(out, "%s%s (%s)", arrow, c->artifact,
                    w->private_ ? "private source" : bh_plan_tainted_source(w->pl, c->artifact));
        return;
    case BH_VIA_FILE:
        bh_buf_addf(out, "%s%s (file with tainted content)", arrow, c->artifact);
        return;
    case BH_VIA_INPUT:
        bh_buf_addf(out, "%s%s ← %s", arrow, c->artifact, from);
        return;
    case BH_VIA_PREVIOUS:
        bh_buf_addf(out, "%sthe round before ← %s", arrow, from);
        return;
    case BH_VIA_BOX:
        bh_buf_addf(out, "%sshares a box with %s", first ? "" : ", which ", from);
        return;
    case BH_VIA_NOTHING:
        return;
    }
}

/* Behind `artifact` of the agent, where there is one. */
static const char *written(struct bh_planner *pl, struct way *w, size_t agent, const char *artifact)
{
    if (cause_of(w, agent)->via == BH_VIA_NOTHING)
        return NULL;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    size_t at = agent;
    if (artifact)
        bh_buf_addf(&out, "%s ← %s", artifact, pl->plan->agents[agent].name);
    for (int hop = 0;; hop++) {
        const struct bh_cause *c = cause_of(w, at);
        if (hop == SHOWN_HOPS && !ends(c)) {
            bh_buf_addf(&out, " ← … ← %s", pl->plan->agents[c->origin].name);
            add_hop(w, c->origin, false, &out);
            break;
        }
        add_hop(w, at, hop == 0 && !artifact, &out);
        if (ends(c))
            break;
        at = c->agent;
        w->box_of = SIZE_MAX; /* where the way comes by it again, that is how the agent itself came to it */
    }
    return bh_arena_strdup(pl->arena, out.data);
}

const char *bh_plan_taint_path(struct bh_planner *pl, size_t agent)
{
    return written(pl, &(struct way){.pl = pl, .box_of = SIZE_MAX}, agent, NULL);
}

const char *bh_plan_box_taint_path(struct bh_planner *pl, size_t agent)
{
    return written(pl, &(struct way){.pl = pl, .box_of = agent}, agent, NULL);
}

const char *bh_plan_private_path(struct bh_planner *pl, size_t agent)
{
    return written(pl, &(struct way){.pl = pl, .private_ = true, .box_of = SIZE_MAX}, agent, NULL);
}

const char *bh_plan_taint_path_of(struct bh_planner *pl, const char *artifact, size_t producer)
{
    return written(pl, &(struct way){.pl = pl, .box_of = SIZE_MAX}, producer, artifact);
}
