/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the agents of several attempts: each attempt has a box of its own, forked from one prepared state. The plan
 * holds one box for all of them.
 */
#include <inttypes.h>

#include "topologies/placement.h"

static const char *reason_of(struct bh_planner *pl, const struct bh_agent *doc)
{
    if (!bh_agent_numbered(doc))
        return doc->prepare.set ? "runs in a fork of a box that 'prepare' made, so it stands alone"
                                : "is checked after it has ended, so it stands alone";
    const char *from =
        doc->prepare.set || doc->setup.set ? "each in a fork of one prepared box" : "each in a box of its own";
    return bh_arena_printf(pl->arena, "is tried %" PRId64 " times, %s", doc->attempts.count, from);
}

bool bh_per_attempt_place(struct bh_planner *pl, size_t agent)
{
    const struct bh_agent *doc = pl->plan->agents[agent].doc;
    if (!bh_agent_forks(doc))
        return false;
    bh_per_agent_place(pl, agent, BH_TOPOLOGY_PER_ATTEMPT, reason_of(pl, doc));
    return true;
}

bool bh_per_attempt_refuse(struct bh_planner *pl, size_t agent, const char *box)
{
    const struct bh_agent *doc = pl->plan->agents[agent].doc;
    if (!bh_agent_forks(doc))
        return false;
    struct bh_err *err = NULL;
    if (bh_agent_numbered(doc))
        bh_err_set(&err, BH_E_TOPOLOGY, 0, "the shared box '%s' cannot hold agent '%s': it is tried %" PRId64 " times",
                   box, doc->name.s, doc->attempts.count);
    else
        bh_err_set(&err, BH_E_TOPOLOGY, 0, "the shared box '%s' cannot hold agent '%s': it has a '%s'", box,
                   doc->name.s, doc->prepare.set ? "prepare" : "check");
    bh_err_hint(&err, "leave '%s' away: every attempt gets a box of its own", doc->box.s ? "box" : "topology");
    bh_planner_report(pl, err, doc->name.pos, doc->path);
    return true;
}
