/* SPDX-License-Identifier: Apache-2.0 */
/* What brokers are told, made from a lease. Pure; docs/protocol.md ("Brokers") has the fields. */
#pragma once

#include "artifact-bus/lease.h"

struct bh_val;

struct bh_val *bh_ways_open_proxy(const struct bh_lease *lease, enum bh_net_phase phase);
struct bh_val *bh_ways_policy(const struct bh_lease *lease, enum bh_net_phase phase);
struct bh_val *bh_ways_open_endpoint(const struct bh_lease *lease, size_t endpoint);
