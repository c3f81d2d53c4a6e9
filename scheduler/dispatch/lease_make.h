/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the lease of one execution from the plan, the submission and what is on the bus of the run. Touches no file. */
#pragma once

#include "artifact-bus/lease.h"
#include "scheduler/dispatch/live_run.h"

struct bh_lease_order {
    struct bh_instance_id instance;
    int64_t epoch;
    size_t node;
    enum bh_execution kind;
    int attempt, try_;
    const char *box_key;   /* folder of the box's present incarnation */
    const char *box_layer; /* newest frozen layer, NULL where there is none */
    const char *host;      /* bh_host_stamp() */
};

/*
 * Error -BH_E_UNBOUND_INPUT: a required input is not on the bus (its producer ended without it); the attempt fails with
 * `input-skipped` and the error's message. On failure nothing is kept in *ret.
 */
int bh_lease_make(const struct bh_live_run *run, const struct bh_lease_order *order, struct bh_lease *ret,
                  struct bh_err **err) BH_MUST_CHECK;
