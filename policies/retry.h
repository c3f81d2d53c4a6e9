/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an execution that ended badly is tried again. Pure. */
#pragma once

#include "policies/reasons.h"

struct bh_retry_state {   /* the execution that has just ended is counted in it */
    unsigned host_tries;  /* executions so far that ended in box-lost or host */
    unsigned other_tries; /* executions so far that ended in anything else */
};
/*
 * `max` is the agent's `retries`; it covers exit, signal, timeout and oom (the default of `retries.on`). box-lost and
 * host are tried again up to twice whatever max is; policy, collision and budget never; `bulkhead_died` (the execution
 * was lost together with bulkhead itself) counts against nothing, so whoever keeps the counts leaves it out of both,
 * and is always tried again.
 */
bool bh_retry_again(const struct bh_retry_state *so_far, enum bh_reason reason, int64_t max, bool bulkhead_died);

/* Which of the two counts an execution that ended for this reason goes into: true, host_tries. */
bool bh_retry_is_host(enum bh_reason reason);
