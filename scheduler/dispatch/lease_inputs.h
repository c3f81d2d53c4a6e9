/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent would find in /workspace/in if it started now. Touches no file. */
#pragma once

#include "scheduler/dispatch/live_run.h"

struct bh_found_input {
    const struct bh_artifact *artifact; /* borrowed from the run's registry */
    const char *path;                   /* below /workspace/in; borrowed from the plan or the artifact */
};
struct bh_found_inputs {
    struct bh_found_input *items;
    size_t len, cap;
};

/*
 * Valid until something is published. Error -BH_E_UNBOUND_INPUT: a required input is not there; `lenient` leaves it out
 * instead. On failure nothing is kept in *ret.
 */
int bh_find_inputs(const struct bh_live_run *run, size_t node, bool lenient, struct bh_found_inputs *ret,
                   struct bh_err **err) BH_MUST_CHECK;
void bh_found_inputs_fini(struct bh_found_inputs *found);
