/* SPDX-License-Identifier: Apache-2.0 */
/* A spec's edges turned round: who waits for a node. Built once, then read-only. */
#pragma once

#include "scheduler/core/spec.h"

/* A list of indices for each of many keys: those of key k stand in items[off[k]] up to, not including, items[off[k +
 * 1]]. */
struct bh_csr {
    size_t *off, *items;
};

struct bh_graph {
    struct bh_csr dependents;   /* by node */
    enum bh_dep_kind *kinds;    /* beside dependents.items */
    struct bh_csr member_of;    /* by node: groups */
    struct bh_csr waiters;      /* by group: nodes */
    struct bh_csr gates_behind; /* by node: gates of stages that wait for it */
    size_t n_stages;
};

/* Asserts that the indices of the spec lie in their ranges, that it has no cycle, and that nobody waits for one that
 * was left out without being so itself. */
void bh_graph_init(struct bh_graph *g, const struct bh_spec *spec);
void bh_graph_fini(struct bh_graph *g);
/* Whether somebody takes the node as OPTIONAL. */
bool bh_graph_is_handled(const struct bh_graph *g, size_t node);
