/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of leases on this host (lease_limits.h). */
#include "workers/lease_limits.h"

struct bh_limits bh_box_limits(const struct bh_lease_box *box)
{
    struct bh_limits limits = box->limits;
    int64_t memory;
    int cpus;
    bh_limits_host(&memory, &cpus);
    bh_limits_fill(&limits, memory);
    return limits;
}

struct bh_limits bh_exec_limits(const struct bh_lease *lease)
{
    static const enum bh_limit groups[] = {BH_LIMIT_MEMORY, BH_LIMIT_CPUS, BH_LIMIT_PIDS};
    struct bh_limits limits = {.asked = lease->limits.asked};
    limits.of[BH_LIMIT_NOFILE] = bh_limits_in_force(lease).of[BH_LIMIT_NOFILE];
    for (size_t i = 0; lease->box.shared && i < BH_ARRAY_LEN(groups); i++)
        limits.of[groups[i]] = lease->limits.of[groups[i]];
    return limits;
}

struct bh_limits bh_limits_in_force(const struct bh_lease *lease)
{
    struct bh_limits limits = bh_box_limits(&lease->box);
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (lease->limits.of[i] > 0)
            limits.of[i] = lease->limits.of[i];
    }
    return limits;
}
