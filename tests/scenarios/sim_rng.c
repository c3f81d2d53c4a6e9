/* SPDX-License-Identifier: Apache-2.0 */
/* splitmix64: small, and the same on every machine. */
#include "tests/scenarios/sim.h"

uint64_t sim_next(struct sim_rng *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

unsigned sim_below(struct sim_rng *r, unsigned n)
{
    return n == 0 ? 0 : (unsigned)(sim_next(r) % n);
}

bool sim_chance(struct sim_rng *r, unsigned percent)
{
    return sim_below(r, 100) < percent;
}
