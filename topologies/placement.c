/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the walk over agents and boxes. First who shares on purpose, which labels need; then, with the labels known,
 * every agent gets its box, and every box what follows from its members. Boxes stand in the order of their first agent.
 */
#include "topologies/placement.h"

#include "base/text.h"
#include "topologies/fill.h"

static const char crew_id[] = "crew", tainted_id[] = "crew-tainted";

enum bh_topology bh_placement_topology(const struct bh_planner *pl, size_t agent)
{
    enum bh_topology own = pl->plan->agents[agent].doc->topology, top = pl->doc->topology;
    if (own != BH_TOPOLOGY_UNSET)
        return own;
    return top != BH_TOPOLOGY_UNSET ? top : BH_TOPOLOGY_AUTO;
}

const struct bh_box_doc *bh_placement_box_doc(const struct bh_planner *pl, const char *name)
{
    return bh_map_get(pl->box_docs, name);
}

/* --- who shares on purpose --- */

static void join(struct bh_planner *pl, size_t agent, const char *id)
{
    uintptr_t number = (uintptr_t)bh_map_get(pl->group_index, id);
    if (number == 0) {
        struct bh_group *made = BH_ARENA_PUSH(pl->arena, pl->groups, pl->n_groups, pl->cap_groups);
        *made = (struct bh_group){.id = id, .doc = bh_placement_box_doc(pl, id)};
        number = pl->n_groups;
        (void)bh_map_put(pl->group_index, id, (void *)number);
    }
    struct bh_group *group = &pl->groups[number - 1];
    *BH_ARENA_PUSH(pl->arena, group->agents, group->n, group->cap) = agent;
    pl->drafts[agent].group = (long)number - 1;
}

static void join_by_name(struct bh_planner *pl, size_t agent)
{
    const struct bh_agent *doc = pl->plan->agents[agent].doc;
    if (doc->topology == BH_TOPOLOGY_PER_AGENT) {
        bh_planner_fail(pl, BH_E_TOPOLOGY, doc->box.pos, bh_arena_printf(pl->arena, "%s.box", doc->path),
                        "agent '%s' asks for a box of its own and joins box '%s'", doc->name.s, doc->box.s);
        return;
    }
    if (!bh_per_attempt_refuse(pl, agent, doc->box.s))
        join(pl, agent, doc->box.s);
}

void bh_placement_join(struct bh_planner *pl)
{
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        if (pl->plan->agents[a].doc->box.s)
            join_by_name(pl, a);
        else if (bh_placement_topology(pl, a) == BH_TOPOLOGY_SHARED_BOX && !bh_per_attempt_refuse(pl, a, crew_id))
            join(pl, a, crew_id);
    }
}

/* --- boxes --- */

size_t bh_placement_new_box(struct bh_planner *pl, const char *id, enum bh_topology topology,
                            const struct bh_box_doc *doc, const char *reason)
{
    struct bh_plan *plan = pl->plan;
    struct bh_plan_box *box = BH_ARENA_PUSH(pl->arena, plan->boxes, plan->n_boxes, pl->cap_boxes);
    *box = (struct bh_plan_box){
        .id = id,
        .shared = topology == BH_TOPOLOGY_SHARED_BOX,
        .topology = topology,
        .doc = doc,
        .reason = reason,
    };
    return plan->n_boxes - 1;
}

void bh_placement_put(struct bh_planner *pl, size_t agent, size_t box, const char *reason)
{
    struct bh_plan_agent *a = &pl->plan->agents[agent];
    a->box = box;
    a->topology = pl->plan->boxes[box].topology;
    a->reason = reason;
    pl->plan->boxes[box].n_agents++;
}

static size_t crew_box(struct bh_place *place, bool tainted, const char *reason)
{
    size_t *box = tainted ? &place->tainted_box : &place->crew_box;
    const char *id = tainted ? tainted_id : crew_id;
    if (*box == SIZE_MAX)
        *box = bh_placement_new_box(place->pl, id, BH_TOPOLOGY_SHARED_BOX, bh_placement_box_doc(place->pl, id), reason);
    return *box;
}

static size_t box_of_group(struct bh_place *place, size_t g)
{
    struct bh_planner *pl = place->pl;
    const struct bh_group *group = &pl->groups[g];
    bool all = pl->doc->topology == BH_TOPOLOGY_SHARED_BOX;
    const char *reason = all ? "one box on purpose (topology: shared-box)"
                             : bh_arena_printf(pl->arena, "one box on purpose: its agents join '%s'", group->id);
    if (strcmp(group->id, crew_id) == 0)
        return crew_box(place, false, reason);
    if (strcmp(group->id, tainted_id) == 0)
        return crew_box(place, true, reason);
    if (place->group_box[g] == SIZE_MAX)
        place->group_box[g] = bh_placement_new_box(pl, group->id, BH_TOPOLOGY_SHARED_BOX, group->doc, reason);
    return place->group_box[g];
}

static void place_in_group(struct bh_place *place, size_t agent)
{
    struct bh_planner *pl = place->pl;
    size_t box = box_of_group(place, (size_t)pl->drafts[agent].group);
    const char *name = pl->plan->agents[agent].doc->box.s;
    bh_placement_put(pl, agent, box,
                     name ? bh_arena_printf(pl->arena, "joins box '%s' by name", name)
                          : "shares one box on purpose (topology: shared-box)");
}

static void place_with_crew(struct bh_place *place, size_t agent)
{
    static const char *const box_reasons[] = {"one box for the crew: nothing in the document asks for a wall",
                                              "agents tainted by what they read share a box, apart from the crew"};
    static const char *const reasons[] = {
        "shares the crew box: nothing in the document asks for a wall",
        "reads tainted artifacts, so it shares the box of the tainted, never the crew's"};
    bool tainted = place->pl->drafts[agent].box_tainted;
    bh_placement_put(place->pl, agent, crew_box(place, tainted, box_reasons[tainted]), reasons[tainted]);
}

static void place_agent(struct bh_place *place, size_t agent)
{
    struct bh_planner *pl = place->pl;
    if (pl->drafts[agent].group >= 0) {
        place_in_group(place, agent);
        return;
    }
    if (bh_per_attempt_place(pl, agent))
        return;
    if (bh_placement_topology(pl, agent) == BH_TOPOLOGY_PER_AGENT) {
        bool own = pl->plan->agents[agent].doc->topology == BH_TOPOLOGY_PER_AGENT;
        bh_per_agent_place(pl, agent, BH_TOPOLOGY_PER_AGENT,
                           own ? "asks for a box of its own (topology: per-agent)"
                               : "the document gives each agent a box (topology: per-agent)");
        return;
    }
    const char *reason = bh_auto_split(place, agent);
    if (reason)
        bh_per_agent_place(pl, agent, BH_TOPOLOGY_PER_AGENT, reason);
    else
        place_with_crew(place, agent);
}

/* --- what follows from the members --- */

static void fill_members(struct bh_plan *plan, struct bh_arena *arena)
{
    for (size_t b = 0; b < plan->n_boxes; b++) {
        plan->boxes[b].agents = bh_arena_alloc(arena, plan->boxes[b].n_agents * sizeof(size_t));
        plan->boxes[b].n_agents = 0;
    }
    for (size_t a = 0; a < plan->n_agents; a++) {
        struct bh_plan_box *box = &plan->boxes[plan->agents[a].box];
        box->agents[box->n_agents++] = a;
    }
}

static void settle_own_box(struct bh_planner *pl, struct bh_plan_box *box)
{
    struct bh_box_traits t = bh_traits_of_agent(pl, box->agents[0]);
    box->base = t.base;
    box->network = t.network;
    box->user = t.user;
}

static void add_members(struct bh_planner *pl, struct bh_plan_box *box)
{
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    struct bh_texts powers = {0};
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_draft *d = &pl->drafts[box->agents[i]];
        const struct bh_agent *doc = pl->plan->agents[box->agents[i]].doc;
        box->label = d->box_tainted ? BH_TAINTED : box->label;
        box->writable_usr = box->writable_usr || doc->setup.set || doc->prepare.set;
        bh_traits_add_powers(pl, box->agents[i], seen, &powers);
    }
    if (bh_traits_is_host_network(box->network))
        bh_texts_add(pl, &powers, "network host");
    box->powers = powers.items;
    box->n_powers = powers.len;
    box->writable_usr = box->writable_usr || strcmp(box->user, "root") == 0;
}

/* setup and files of boxes.NAME, with parameters put in. */
static void add_doc(struct bh_planner *pl, struct bh_plan_box *box)
{
    const struct bh_box_doc *doc = box->doc;
    if (!doc)
        return;
    struct bh_scope scope = bh_planner_scope(pl);
    const char *path = bh_arena_printf(pl->arena, "boxes.%s", doc->name.s);
    box->setup = bh_fill_command(pl, &scope, &doc->setup, path, "setup", &box->n_setup);
    box->n_files = doc->files.len;
    box->files = bh_fill_files(pl, &scope, &doc->files, path);
    box->writable_usr = doc->setup.set;
}

void bh_placement_make(struct bh_planner *pl)
{
    struct bh_plan *plan = pl->plan;
    struct bh_place place = {.pl = pl, .crew_box = SIZE_MAX, .tainted_box = SIZE_MAX};
    place.crew = bh_traits_of_box(pl, bh_placement_box_doc(pl, crew_id));
    place.group_box = bh_arena_alloc(pl->arena, (pl->n_groups + 1) * sizeof(size_t));
    for (size_t g = 0; g < pl->n_groups; g++)
        place.group_box[g] = SIZE_MAX;
    for (size_t a = 0; a < plan->n_agents; a++)
        place_agent(&place, a);
    fill_members(plan, pl->arena);
    for (size_t a = 0; a < plan->n_agents; a++) {
        struct bh_plan_agent *agent = &plan->agents[a];
        bool own_setup = agent->n_setup > 0 && !plan->boxes[agent->box].shared;
        agent->forks = agent->topology == BH_TOPOLOGY_PER_ATTEMPT || own_setup;
    }
    for (size_t b = 0; b < plan->n_boxes; b++) {
        if (plan->boxes[b].shared)
            bh_shared_box_settle(pl, b);
        else
            settle_own_box(pl, &plan->boxes[b]);
        add_doc(pl, &plan->boxes[b]);
        add_members(pl, &plan->boxes[b]);
        bh_box_trust_check(pl, b);
        bh_host_network_check(pl, b);
    }
}
