/* SPDX-License-Identifier: Apache-2.0 */
/* What the limits of a lease come to on this host: nothing that was left open is unlimited. */
#pragma once

#include "artifact-bus/lease.h"

/* Of the lease's box, with what is usual where nothing is said. */
struct bh_limits bh_box_limits(const struct bh_lease_box *box);
/* Of one command of the lease, as bh_exec_spec wants them: open files, and in a shared box the agent's own group. */
struct bh_limits bh_exec_limits(const struct bh_lease *lease);
/* Which hold for the agent: its own, else those of its box. OUTPUT is the capture's. */
struct bh_limits bh_limits_in_force(const struct bh_lease *lease);
