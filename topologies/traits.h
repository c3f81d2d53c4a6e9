/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box is (base, network, user, limits) and whether an agent asks for another. Only what an agent says itself
 * counts: what comes from `defaults` gives way to what the box has.
 */
#pragma once

#include "topologies/plan_priv.h"

struct bh_box_traits {
    const char *base, *network, *user;       /* never NULL */
    const char *limits, *box_limits;         /* canonical JSON; NULL: none */
    bool base_said, network_said, user_said; /* by the document, not by us */
};

/* Of a shared box: what boxes.NAME says (doc may be NULL), else the defaults, else the top level, else built in. */
struct bh_box_traits bh_traits_of_box(struct bh_planner *pl, const struct bh_box_doc *doc);
/* Of the box of one agent alone. */
struct bh_box_traits bh_traits_of_agent(struct bh_planner *pl, size_t agent);

/*
 * The first key that the agent sets itself to something else than the box has ("network", "limits.disk"), else NULL.
 * `all_limits`: also those that count per agent. The values are for messages.
 */
struct bh_difference {
    const char *key;
    const char *agent_has, *box_has; /* NULL where they are not one word */
    struct bh_pos pos;
};
struct bh_difference bh_traits_differ(struct bh_planner *pl, size_t agent, const struct bh_box_traits *box,
                                      bool all_limits);

/* Whether the agent itself lists other secrets, or endpoints, than `defaults` do. */
bool bh_traits_other_secrets(struct bh_planner *pl, size_t agent);
bool bh_traits_other_endpoints(struct bh_planner *pl, size_t agent);

/* Powers of an agent in a box with this network: "secret x", "endpoint y", "network host". Appended to `list`. */
void bh_traits_add_powers(struct bh_planner *pl, size_t agent, struct bh_map *seen, struct bh_texts *list);
bool bh_traits_is_host_network(const char *network);
