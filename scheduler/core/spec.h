/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine needs to know of a plan: nodes, edges, boxes and numbers, nothing else. Owns its texts.
 * bh_spec_from_plan is the only way from a plan; the simulator makes its own.
 *
 * The spec is part of what a log means: a log is replayed over the very spec that it was made with. Whoever lets a
 * person change `max_parallel` or `keep_going` of a run has to keep what was said with the run, and cannot change it
 * under a log that exists.
 */
#pragma once

#include "policies/select.h"

enum bh_dep_kind {
    BH_DEP_BARRIER,  /* waits until the other has ended, however */
    BH_DEP_REQUIRED, /* the other must have succeeded, else this one is skipped */
    BH_DEP_OPTIONAL, /* waits until the other has ended, however, and handles its failure */
};
struct bh_dep {
    size_t node;
    enum bh_dep_kind kind;
};

/* Of a node of several executions: what is made once, and the attempts that start from it. */
struct bh_spec_forks {
    size_t attempts; /* at least 1 */
    bool setup, prepare;
    size_t setup_group; /* 0: none; else 1 + its index: of those with equal setups one at a time makes it */
    bool numbered;      /* outputs are on the bus as name@N first; who is chosen is published */
    struct bh_select_rule rule;
};

struct bh_spec_node {
    char *name;
    int stage; /* -1 where there are no stages */
    size_t box;
    struct bh_dep *deps;
    size_t n_deps;
    size_t group;            /* 0: none; else it waits for groups[group - 1] as well */
    size_t gate, stage_gate; /* 0: none; else 1 + the index of the gate that it waits for as well */
    bool continue_on_failure;
    /* The person asked for other agents only: skipped at the start, blaming nobody. Who is not left out may wait for
     * nobody who is. */
    bool left_out;
    int64_t retries;
    struct bh_spec_forks *forks; /* NULL: one execution; else its box is its own */
};

/*
 * Nodes that many wait for together: whoever names the group waits until all of it have ended, however. Says once what
 * would be a BARRIER from each of its nodes to each that waits: 5,000 agents behind a stage of 5,000 are 25 million.
 */
struct bh_spec_group {
    size_t *nodes;
    size_t n_nodes;
};

/* A question to a person, and who waits for the answer. */
struct bh_spec_gate {
    char *id;      /* name of the agent or the stage */
    bool of_stage; /* one question for all nodes of a stage */
    size_t *after; /* of a stage: nodes of earlier stages that its nodes wait for, each once */
    size_t n_after;
    size_t *nodes; /* that wait for it; of an agent: itself */
    size_t n_nodes;
    int64_t timeout_ms; /* greater than 0: there is always one */
};

struct bh_spec_box {
    char *id;
    bool shared; /* frozen at stage ends (without stages: after successes) */
};

struct bh_spec {
    struct bh_spec_node *nodes;
    size_t n_nodes;
    struct bh_spec_group *groups;
    size_t n_groups;
    struct bh_spec_gate *gates;
    size_t n_gates;
    struct bh_spec_box *boxes;
    size_t n_boxes;
    size_t n_setups;      /* groups of equal setups */
    int64_t max_parallel; /* 0: what the workers hold */
    int64_t failures_allowed;
    int64_t deadline_ms; /* 0: none */
    bool keep_going;     /* no failure stops new starts */
};

struct bh_plan;
/* The caller owns it. Node and box indices are those of the plan. */
struct bh_spec *bh_spec_from_plan(const struct bh_plan *plan);
void bh_spec_free(struct bh_spec *spec); /* NULL and half-built ones are fine; saves errno */

static inline void bh_spec_freep(struct bh_spec **spec)
{
    bh_spec_free(*spec);
}
#define BH_CLEANUP_SPEC BH_CLEANUP(bh_spec_freep)
