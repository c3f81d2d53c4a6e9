/* SPDX-License-Identifier: Apache-2.0 */
/* What a lease says of the services that an agent may call. Pure. */
#pragma once

#include "artifact-bus/lease.h"

struct bh_plan;
struct bh_plan_agent;

/* The endpoints that the agent lists, with references to the secrets of their headers, and its limits on calls. `file`
 * is the document's absolute path. */
void bh_lease_fill_endpoints(const struct bh_plan *plan, const char *file, const struct bh_plan_agent *agent,
                             struct bh_lease *lease);
