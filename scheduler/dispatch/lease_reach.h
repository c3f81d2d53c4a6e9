/* SPDX-License-Identifier: Apache-2.0 */
/* What a lease lets its box reach, phase by phase, and whether it may have that. Pure. */
#pragma once

#include "artifact-bus/lease.h"

struct bh_val;

/*
 * `network`: of the box, as the plan has it ("none", "public", "host", or JSON). A value that stands for all phases is
 * that of setup, prepare and run. `ranges`: a list of texts, or NULL.
 */
void bh_lease_reach(struct bh_lease *lease, const char *network, const struct bh_val *ranges);

/*
 * What the plan has refused is looked at again where it counts, so that no fault of the plan gives a power away: a
 * lease for a tainted box has none. BH_E_POLICY.
 */
int bh_lease_check_powers(const struct bh_lease *lease, struct bh_err **err);
