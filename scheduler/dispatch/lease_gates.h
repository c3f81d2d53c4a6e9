/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of `accept` and `validate` goes into a lease: what the worker has to look at before an input is delivered or an
 * output taken, and in each input's provenance which gates it has passed. Touches no file.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "scheduler/dispatch/live_run.h"

struct bh_node;

/* `validate` of the document; NULL checks nothing. The command has its values put in, but for the attempt's number. */
struct bh_lease_validate bh_lease_validate_of(const struct bh_node *validate, const char *const *command, size_t n,
                                              int attempt);
/*
 * Adds the gates of the lease's inputs, and what they have passed to their provenance. -BH_E_POLICY: an input that a
 * person has to approve was not.
 */
int bh_lease_add_gates(const struct bh_live_run *run, size_t node, struct bh_lease *lease,
                       struct bh_err **err) BH_MUST_CHECK;
