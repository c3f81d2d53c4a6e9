/* SPDX-License-Identifier: Apache-2.0 */
/* How many failed agents a run tolerates (max_failures). Pure. */
#pragma once

#include "base/compiler.h"

struct bh_failure_budget {
    int64_t allowed; /* failures tolerated */
};

/* `max` < 0: none said, 0 are tolerated. A percentage is of `agents`, rounded down. */
struct bh_failure_budget bh_failure_budget_make(int64_t max, bool percent, size_t agents);
bool bh_failure_budget_exceeded(const struct bh_failure_budget *b, size_t failures);
