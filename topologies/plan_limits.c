/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the limits of boxes and agents: who said what, and whose it is. A shared box has one set, from boxes.NAME and,
 * key by key, from `defaults`; what one of its agents says of memory, cpus and pids is a group inside it. Needs placed
 * agents; decides nothing about where they stand (traits.c).
 */
#include "topologies/traits.h"

#define GROUPS (1u << BH_LIMIT_MEMORY | 1u << BH_LIMIT_CPUS | 1u << BH_LIMIT_PIDS)

static bool has(uint32_t set, int limit)
{
    return set & 1u << limit;
}

static void take(struct bh_limits *into, const struct bh_limits *from, int limit)
{
    into->of[limit] = from->of[limit];
    into->asked |= from->asked & 1u << limit;
}

/* `first`, and what it does not say from `second`. */
static struct bh_limits over(const struct bh_limits *first, const struct bh_limits *second)
{
    struct bh_limits both = *first;
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (!has(first->asked, i))
            take(&both, second, i);
    }
    return both;
}

static struct bh_limits without(struct bh_limits limits, uint32_t set)
{
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (has(set, i))
            limits.of[i] = 0;
    }
    limits.asked &= ~set;
    return limits;
}

static const struct bh_limits *said_of_box(const struct bh_plan_box *box)
{
    static const struct bh_limits nothing;
    return box->doc ? &box->doc->traits.said : &nothing;
}

/* Whether the agent itself writes the key, not `defaults`. */
static bool says_itself(const struct bh_planner *pl, size_t agent, int limit)
{
    const struct bh_node *limits = bh_node_get(pl->drafts[agent].node, "limits");
    return bh_node_get(limits, bh_limit_name((enum bh_limit)limit)) != NULL;
}

/* In a shared box: groups of its own, and the output that counts for itself. */
static struct bh_limits of_member(const struct bh_planner *pl, size_t agent, const struct bh_plan_box *box)
{
    const struct bh_limits *said = &pl->plan->agents[agent].doc->traits.said, *all = &box->limits;
    struct bh_limits own = {0};
    for (int i = 0; i < BH_N_LIMITS; i++) {
        bool group = has(GROUPS, i) && has(said->asked, i);
        bool tighter = group && (!has(all->asked, i) || said->of[i] < all->of[i]);
        if (tighter || (group && says_itself(pl, agent, i)))
            take(&own, said, i);
    }
    bool outputs = says_itself(pl, agent, BH_LIMIT_OUTPUT) || !has(said_of_box(box)->asked, BH_LIMIT_OUTPUT);
    take(&own, outputs ? said : said_of_box(box), BH_LIMIT_OUTPUT);
    return own;
}

static void add_room(struct bh_limits *room, const struct bh_limits *asked)
{
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (has(GROUPS & asked->asked, i) && asked->of[i] > room->of[i])
            take(room, asked, i);
    }
}

static void fill_shared(struct bh_planner *pl, struct bh_plan_box *box)
{
    struct bh_limits all = over(said_of_box(box), &pl->doc->traits.said);
    box->limits = without(all, 1u << BH_LIMIT_OUTPUT);
    for (size_t i = 0; i < box->n_agents; i++) {
        struct bh_plan_agent *a = &pl->plan->agents[box->agents[i]];
        a->limits = of_member(pl, box->agents[i], box);
        add_room(&box->room, &a->limits);
    }
}

void bh_plan_limits(struct bh_planner *pl)
{
    for (size_t b = 0; b < pl->plan->n_boxes; b++) {
        struct bh_plan_box *box = &pl->plan->boxes[b];
        if (box->shared) {
            fill_shared(pl, box);
            continue;
        }
        struct bh_plan_agent *a = &pl->plan->agents[box->agents[0]];
        a->limits = a->doc->traits.said;
        box->limits = without(a->limits, 1u << BH_LIMIT_OUTPUT);
    }
}
