/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who reads what whom makes, turned round: from each agent to its readers. For those who follow a label. Only what is
 * named flows here; what a stage shows to all who come after it is looked at by stages.
 */
#pragma once

#include "topologies/plan_priv.h"

/* `reader` has what the producer makes, by its input number `index`, or by its steer. */
struct bh_flow {
    size_t reader, index;
    bool is_steer;
};

struct bh_flows {
    size_t *first; /* those of producer p: items[first[p]] .. items[first[p + 1]] */
    struct bh_flow *items;
    size_t *queue, len, cap; /* agents whose readers are still to be told */
};
void bh_flows_init(struct bh_flows *f, const struct bh_planner *pl);
void bh_flows_fini(struct bh_flows *f);
void bh_flows_enqueue(struct bh_flows *f, size_t agent);
const char *bh_flow_artifact(const struct bh_planner *pl, struct bh_flow flow);
