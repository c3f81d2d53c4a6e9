/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an execution that ended badly is tried again. Pure. */
#pragma once

#include "policies/reasons.h"

struct bh_retry_state {
    unsigned host_tries;  /* executions so far that ended in box-lost or host */
    unsigned other_tries; /* executions so far that ended in anything else */
};
/*
 * `max` is the agent's `retries`. box-lost and host are tried again up to twice whatever max is; policy, collision and
 * budget never; `bulkhead_died` (the execution was lost together with bulkhead itself) counts against nothing and is
 * always tried again.
 */
bool bh_retry_again(const struct bh_retry_state *so_far, enum bh_reason reason, int64_t max, bool bulkhead_died);
