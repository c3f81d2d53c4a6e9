/* SPDX-License-Identifier: Apache-2.0 */
/* Counted in whole milliseconds, so that nothing is lost by asking often. */
#include "policies/broker/rate.h"

enum { THOUSAND = 1000 };

static int64_t most(const struct bh_rate *r)
{
    return 2 * r->per_second * THOUSAND;
}

void bh_rate_init(struct bh_rate *r, int64_t per_second, struct bh_mono now)
{
    *r = (struct bh_rate){.per_second = per_second, .counted = now};
    r->left = most(r);
}

bool bh_rate_has(struct bh_rate *r, struct bh_mono now)
{
    int64_t ms = (now.ns - r->counted.ns) / BH_NS_PER_MS;
    if (ms > 0) {
        r->left = ms >= 2 * THOUSAND ? most(r) : r->left + ms * r->per_second;
        r->left = r->left > most(r) ? most(r) : r->left;
        r->counted.ns += ms * BH_NS_PER_MS;
    }
    return r->left >= THOUSAND;
}

bool bh_rate_take(struct bh_rate *r, struct bh_mono now)
{
    if (!bh_rate_has(r, now))
        return false;
    r->left -= THOUSAND;
    return true;
}
