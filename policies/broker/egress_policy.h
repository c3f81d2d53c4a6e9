/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box may reach in a phase: the decisions of the egress broker, without a socket. First the name and the port as
 * they were asked for, then, of what the name resolves to, each address.
 */
#pragma once

#include "base/err.h"
#include "policies/host_name.h"
#include "policies/range.h"

struct bh_val;

enum bh_egress_reason {
#define BH_X(name, text, http, socks, what) BH_EGRESS_##name,
#include "policies/broker/egress_reasons.def"
#undef BH_X
};

const char *bh_egress_reason_text(enum bh_egress_reason reason); /* "not-listed" */
const char *bh_egress_reason_what(enum bh_egress_reason reason); /* follows "HOST:PORT " */
int bh_egress_reason_http(enum bh_egress_reason reason);
int bh_egress_reason_socks(enum bh_egress_reason reason);
/* The decision is one of denial. */
bool bh_egress_is_denial(enum bh_egress_reason reason);

struct bh_egress_policy {
    enum { BH_EGRESS_KIND_NONE, BH_EGRESS_KIND_PUBLIC, BH_EGRESS_KIND_ALLOW } kind;
    struct bh_destination *allow;
    size_t n_allow;
    struct bh_range *ranges; /* what the site permits beyond public addresses */
    size_t n_ranges;
};

/* {"kind","allow","ranges"}; an entry that cannot be read is an error, never left out. `ret` is filled on success. */
int bh_egress_policy_read(const struct bh_val *v, struct bh_egress_policy *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_egress_policy_fini(struct bh_egress_policy *p);

/* LISTED or PUBLIC, or why not. Of a host that is an address the address has to be asked for too. */
enum bh_egress_reason bh_egress_decide_name(const struct bh_egress_policy *p, const struct bh_host *host,
                                            uint16_t port);
/* PUBLIC (which here says only "may be reached"), or why not. */
enum bh_egress_reason bh_egress_decide_address(const struct bh_egress_policy *p,
                                               const unsigned char address[static BH_ADDRESS_LEN]);
