/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision to try an execution again. Knows reasons and counts, nothing of nodes, boxes or time: who asks keeps the
 * counts and waits out a backoff.
 */
#include "policies/retry.h"

/* Whether the agent's own `retries` covers this reason: the grammar's default for `retries.on`. */
static bool covered_by_retries(enum bh_reason reason)
{
    switch (reason) {
    case BH_REASON_EXIT:
    case BH_REASON_SIGNAL:
    case BH_REASON_TIMEOUT:
    case BH_REASON_OOM:
        return true;
    case BH_REASON_NONE:
    case BH_REASON_DISK_FULL:
    case BH_REASON_PIDS:
    case BH_REASON_CHECK:
    case BH_REASON_OUTPUT_MISSING:
    case BH_REASON_OUTPUT_INVALID:
    case BH_REASON_COLLISION:
    case BH_REASON_BUDGET:
    case BH_REASON_ITEMS:
    case BH_REASON_ROUNDS:
    case BH_REASON_INPUT_SKIPPED:
    case BH_REASON_POLICY:
    case BH_REASON_BOX_LOST:
    case BH_REASON_HOST:
    case BH_REASON_MAX_:
        return false;
    }
    return false;
}

bool bh_retry_is_host(enum bh_reason reason)
{
    return bh_reason_info(reason)->default_retries > 0;
}

bool bh_retry_again(const struct bh_retry_state *so_far, enum bh_reason reason, int64_t max, bool bulkhead_died)
{
    if (bulkhead_died)
        return true;
    if (bh_retry_is_host(reason))
        return so_far->host_tries <= (unsigned)bh_reason_info(reason)->default_retries;
    return covered_by_retries(reason) && (int64_t)so_far->other_tries <= max;
}
