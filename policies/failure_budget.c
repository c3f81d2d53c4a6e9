/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failure budget: turns `max_failures` into a number once, at the start of a run, and compares with it. Pure; which
 * failures count at all is the engine's to know.
 */
#include "policies/failure_budget.h"

/* `max` percent of `agents`, rounded down, without leaving 64 bits: 100 % of everything is the most there can be. */
static int64_t percent_of(int64_t max, size_t agents)
{
    if (max >= 100)
        return (int64_t)agents;
    int64_t whole = (int64_t)(agents / 100), rest = (int64_t)(agents % 100);
    return whole * max + rest * max / 100;
}

struct bh_failure_budget bh_failure_budget_make(int64_t max, bool percent, size_t agents)
{
    if (max < 0)
        return (struct bh_failure_budget){.allowed = 0};
    return (struct bh_failure_budget){.allowed = percent ? percent_of(max, agents) : max};
}

bool bh_failure_budget_exceeded(const struct bh_failure_budget *b, size_t failures)
{
    return b->allowed < 0 ? failures > 0 : failures > (uint64_t)b->allowed;
}
