/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the agents of several attempts: each attempt has a box of its own, forked from one prepared state. The plan
 * holds one box for all of them.
 */
#include <inttypes.h>

#include "topologies/placement.h"

bool bh_per_attempt_place(struct bh_planner *pl, size_t agent)
{
    int64_t attempts = pl->plan->agents[agent].doc->attempts;
    if (attempts <= 1)
        return false;
    bh_per_agent_place(
        pl, agent, BH_TOPOLOGY_PER_ATTEMPT,
        bh_arena_printf(pl->arena, "is tried %" PRId64 " times, each in a fork of one prepared box", attempts));
    return true;
}

bool bh_per_attempt_refuse(struct bh_planner *pl, size_t agent, const char *box)
{
    const struct bh_agent *doc = pl->plan->agents[agent].doc;
    if (doc->attempts <= 1)
        return false;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_TOPOLOGY, 0, "the shared box '%s' cannot hold agent '%s': it is tried %" PRId64 " times", box,
               doc->name.s, doc->attempts);
    bh_err_hint(&err, "leave '%s' away: every attempt gets a box of its own", doc->box.s ? "box" : "topology");
    bh_planner_report(pl, err, doc->name.pos, doc->path);
    return true;
}
