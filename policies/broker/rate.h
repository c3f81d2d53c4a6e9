/* SPDX-License-Identifier: Apache-2.0 */
/*
 * So many things in a second, and twice as many at a stroke: what one box may make a broker do. Pure: times come from
 * the caller.
 */
#pragma once

#include "base/clock.h"

struct bh_rate {
    int64_t per_second;
    int64_t left; /* in thousandths, at the time when it was counted */
    struct bh_mono counted;
};

void bh_rate_init(struct bh_rate *r, int64_t per_second, struct bh_mono now);
bool bh_rate_has(struct bh_rate *r, struct bh_mono now);
/* False where there is none left; then nothing is taken. */
bool bh_rate_take(struct bh_rate *r, struct bh_mono now);
