/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the default: one box for the crew, and a wall exactly where the document names a reason. The first reason that
 * holds is the one that is printed; each is a sentence for the person who reads the plan.
 */
#include "base/mem.h"
#include "base/text.h"
#include "topologies/placement.h"

static const char *untrusted_source(const struct bh_planner *pl, size_t agent)
{
    const struct bh_draft *d = &pl->drafts[agent];
    for (size_t i = 0; i < pl->plan->agents[agent].doc->n_inputs; i++) {
        if (d->input_untrusted[i])
            return d->input_untrusted[i];
    }
    for (size_t i = 0; i < d->n_steers; i++) {
        if (d->steers[i].is_data && d->steers[i].untrusted)
            return d->steers[i].untrusted;
    }
    return NULL;
}

static const char *split_by_trust(struct bh_planner *pl, size_t agent)
{
    const struct bh_draft *d = &pl->drafts[agent];
    if (pl->plan->agents[agent].doc->untrusted)
        return "reads untrusted content, so it stands alone";
    const char *source = untrusted_source(pl, agent);
    if (source)
        return bh_arena_printf(pl->arena, "reads the %s '%s', so it stands alone", bh_plan_tainted_source(pl, source),
                               source);
    if (d->admitted && !d->box_tainted)
        return "reads tainted artifacts that 'accept' lets in, so it stands alone";
    return NULL;
}

static const char *split_by_number(struct bh_planner *pl, size_t agent)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    if (a->doc->matrix)
        return "is one cell of a matrix, and each cell stands alone";
    if (a->stage >= 0 && pl->doc->stages[a->stage].for_each)
        return "runs once per item, and each item stands alone";
    for (size_t i = 0; i < a->n_outputs; i++) {
        if (a->outputs[i].glob)
            return bh_arena_printf(pl->arena, "declares its outputs by the glob '%s', so nobody else may write there",
                                   a->outputs[i].glob);
    }
    return NULL;
}

/* Of a limit that the crew has as well: another value; else there is nothing that it could differ from. */
static bool crew_has(const struct bh_place *place, const char *key)
{
    static const char lead[] = "limits.";
    const char *limits = place->crew.limits ? place->crew.limits : "";
    if (!bh_starts_with(key, lead))
        return true;
    BH_CLEANUP_FREE char *member = bh_asprintf("\"%s\":", key + strlen(lead));
    return strstr(limits, member) != NULL;
}

static const char *split_by_traits(struct bh_place *place, size_t agent)
{
    struct bh_planner *pl = place->pl;
    struct bh_difference d = bh_traits_differ(pl, agent, &place->crew, true);
    if (d.key && d.agent_has)
        return bh_arena_printf(pl->arena, "its %s is %s, the crew's is %s", d.key, d.agent_has, d.box_has);
    if (d.key && !crew_has(place, d.key))
        return bh_arena_printf(pl->arena, "it has %s of its own, and the crew says nothing of it", d.key);
    if (d.key)
        return bh_arena_printf(pl->arena, "its %s differs from the crew's", d.key);
    if (bh_traits_other_secrets(pl, agent))
        return "its secrets differ from the crew's";
    if (bh_traits_other_endpoints(pl, agent))
        return "its endpoints differ from the crew's";
    return NULL;
}

const char *bh_auto_split(struct bh_place *place, size_t agent)
{
    const char *reason = split_by_trust(place->pl, agent);
    if (!reason)
        reason = split_by_number(place->pl, agent);
    return reason ? reason : split_by_traits(place, agent);
}
