/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the box of one agent. Its id is the agent's name; where a shared box may bear that name, it gets an ending that
 * no name has.
 */
#include "topologies/placement.h"

static const char *own_id(const struct bh_planner *pl, const char *name)
{
    bool taken = strcmp(name, "crew") == 0 || strcmp(name, "crew-tainted") == 0 || bh_placement_box_doc(pl, name);
    return taken ? bh_arena_printf(pl->arena, "%s.own", name) : name;
}

void bh_per_agent_place(struct bh_planner *pl, size_t agent, enum bh_topology topology, const char *reason)
{
    const char *id = own_id(pl, pl->plan->agents[agent].name);
    bh_placement_put(pl, agent, bh_placement_new_box(pl, id, topology, NULL, reason), reason);
}
