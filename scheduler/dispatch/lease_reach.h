/* SPDX-License-Identifier: Apache-2.0 */
/* What a lease lets its box reach, phase by phase. Pure. */
#pragma once

#include "artifact-bus/lease.h"

struct bh_val;

/*
 * `network`: of the box, as the plan has it ("none", "public", "host", or JSON). A value that stands for all phases is
 * that of setup, prepare and run. `ranges`: a list of texts, or NULL.
 */
void bh_lease_reach(struct bh_lease *lease, const char *network, const struct bh_val *ranges);
