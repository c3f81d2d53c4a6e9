/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what a shared box is: one base, network, user and set of limits, from its document or, where nobody says, from
 * what all of its agents ask. An agent that asks for something else, or whose glob may take what another one made, is
 * one that it cannot hold.
 */
#include "base/text.h"
#include "topologies/makers.h"
#include "topologies/placement.h"

/* What all members set themselves to the same value, NULL otherwise. `get` gives NULL where an agent says nothing. */
static const char *agreed(const struct bh_planner *pl, const struct bh_plan_box *box,
                          const char *(*get)(const struct bh_planner *, size_t))
{
    const char *value = get(pl, box->agents[0]);
    for (size_t i = 1; value && i < box->n_agents; i++) {
        if (!bh_streq(value, get(pl, box->agents[i])))
            return NULL;
    }
    return value;
}

static const char *own_base(const struct bh_planner *pl, size_t agent)
{
    return pl->drafts[agent].own.base ? pl->drafts[agent].base.s : NULL;
}

static const char *own_network(const struct bh_planner *pl, size_t agent)
{
    return pl->drafts[agent].own.network ? pl->plan->agents[agent].doc->traits.network.s : NULL;
}

static const char *own_user(const struct bh_planner *pl, size_t agent)
{
    return pl->drafts[agent].own.user ? pl->plan->agents[agent].doc->traits.user.s : NULL;
}

static void adopt_agreed(const struct bh_planner *pl, const struct bh_plan_box *box, struct bh_box_traits *t)
{
    const char *base = t->base_said ? NULL : agreed(pl, box, own_base);
    const char *network = t->network_said ? NULL : agreed(pl, box, own_network);
    const char *user = t->user_said ? NULL : agreed(pl, box, own_user);
    t->base = base ? base : t->base;
    t->network = network ? network : t->network;
    t->user = user ? user : t->user;
}

static void report_difference(struct bh_planner *pl, const struct bh_plan_box *box, size_t agent,
                              const struct bh_difference *d)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    struct bh_err *err = NULL;
    if (d->agent_has)
        bh_err_set(&err, BH_E_TOPOLOGY, 0, "the shared box '%s' cannot hold agent '%s': its %s is %s, the box's is %s",
                   box->id, a->name, d->key, d->agent_has, d->box_has);
    else
        bh_err_set(&err, BH_E_TOPOLOGY, 0, "the shared box '%s' cannot hold agent '%s': its %s differs from the box's",
                   box->id, a->name, d->key);
    bh_err_hint(&err, "take the key away, set it in boxes.%s, or give the agent a box of its own", box->id);
    bh_planner_report(pl, err, d->pos, bh_arena_printf(pl->arena, "%s.%s", a->doc->path, d->key));
}

static bool joins_on_purpose(const struct bh_planner *pl, size_t agent)
{
    return pl->drafts[agent].group >= 0;
}

static void check_traits(struct bh_planner *pl, const struct bh_plan_box *box, const struct bh_box_traits *t)
{
    for (size_t i = 0; i < box->n_agents; i++) {
        if (!joins_on_purpose(pl, box->agents[i]))
            continue;
        struct bh_difference d = bh_traits_differ(pl, box->agents[i], t, false);
        if (d.key)
            report_difference(pl, box, box->agents[i], &d);
    }
}

/* --- globs: the whole output folder is one, so a glob takes whatever lies there --- */

static void add_outputs(struct bh_planner *pl, struct bh_makers *makers, size_t agent)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    for (size_t i = 0; i < a->n_outputs; i++) {
        const struct bh_plan_output *out = &a->outputs[i];
        const struct bh_text *t = &pl->drafts[agent].output_names[i];
        if (out->glob)
            bh_makers_add(makers, out->glob, t->glob, agent);
        else if (!a->doc->outputs[i].path.s)
            bh_makers_add(makers, out->name, t->glob, agent);
        else if (bh_starts_with(out->path, "out/"))
            bh_makers_add(makers, out->path + 4, out->path + 4, agent);
    }
}

static void check_glob(struct bh_planner *pl, const struct bh_plan_box *box, struct bh_makers *makers, size_t agent,
                       size_t i)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    const struct bh_maker_list *list = bh_makers_of_glob(makers, pl->drafts[agent].output_names[i].glob);
    for (size_t k = 0; k < list->len; k++) {
        if (list->items[k]->agent == agent)
            continue;
        struct bh_err *err = NULL;
        bh_err_set(&err, BH_E_TOPOLOGY, 0,
                   "the shared box '%s' cannot hold agent '%s': its glob '%s' may take what '%s' makes ('%s')", box->id,
                   a->name, a->outputs[i].glob, pl->plan->agents[list->items[k]->agent].name, list->items[k]->name);
        bh_err_hint(&err, "give '%s' a box of its own (topology: per-agent), or a folder of its own", a->name);
        bh_planner_report(pl, err, a->outputs[i].pos, bh_arena_printf(pl->arena, "%s.outputs[%zu]", a->doc->path, i));
        return;
    }
}

static bool has_glob(const struct bh_planner *pl, const struct bh_plan_box *box)
{
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_plan_agent *a = &pl->plan->agents[box->agents[i]];
        for (size_t k = 0; k < a->n_outputs; k++) {
            if (a->outputs[k].glob)
                return true;
        }
    }
    return false;
}

static void check_globs(struct bh_planner *pl, const struct bh_plan_box *box)
{
    if (box->n_agents < 2 || !has_glob(pl, box))
        return;
    struct bh_makers *makers = bh_makers_new(pl->arena);
    for (size_t i = 0; i < box->n_agents; i++)
        add_outputs(pl, makers, box->agents[i]);
    bh_makers_seal(makers);
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_plan_agent *a = &pl->plan->agents[box->agents[i]];
        for (size_t k = 0; k < a->n_outputs; k++) {
            if (a->outputs[k].glob)
                check_glob(pl, box, makers, box->agents[i], k);
        }
    }
    bh_makers_free(makers);
}

void bh_shared_box_settle(struct bh_planner *pl, size_t index)
{
    struct bh_plan_box *box = &pl->plan->boxes[index];
    struct bh_box_traits t = bh_traits_of_box(pl, box->doc);
    adopt_agreed(pl, box, &t);
    box->base = t.base;
    box->network = t.network;
    box->user = t.user;
    check_traits(pl, box, &t);
    check_globs(pl, box);
}
