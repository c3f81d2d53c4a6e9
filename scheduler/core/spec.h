/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine needs to know of a plan: nodes, edges, boxes and numbers, nothing else. Owns its texts.
 * bh_spec_from_plan is the only way from a plan; the simulator makes its own.
 */
#pragma once

#include "base/compiler.h"

enum bh_dep_kind {
    BH_DEP_BARRIER,  /* waits until the other has ended, however */
    BH_DEP_REQUIRED, /* the other must have succeeded, else this one is skipped */
    BH_DEP_OPTIONAL, /* waits until the other has ended, however */
};
struct bh_dep {
    size_t node;
    enum bh_dep_kind kind;
};

struct bh_spec_node {
    char *name;
    int stage; /* -1 where there are no stages */
    size_t box;
    struct bh_dep *deps;
    size_t n_deps;
    bool continue_on_failure;
    int64_t retries;
};

struct bh_spec_box {
    char *id;
    bool shared; /* frozen at stage ends (without stages: after successes) */
};

struct bh_spec {
    struct bh_spec_node *nodes;
    size_t n_nodes;
    struct bh_spec_box *boxes;
    size_t n_boxes;
    int64_t max_parallel; /* 0: what the workers hold */
    int64_t failures_allowed;
    int64_t deadline_ms; /* 0: none */
    bool keep_going;     /* no failure stops new starts */
};

struct bh_plan;
struct bh_spec *bh_spec_from_plan(const struct bh_plan *plan);
void bh_spec_free(struct bh_spec *spec);
