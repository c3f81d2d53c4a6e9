/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOCKS 4, 4a and 5 (RFC 1928), as far as a client says something: CONNECT without authentication. Pure: what the
 * caller has read, and how much of it was a message.
 */
#pragma once

#include "policies/broker/egress_policy.h"

struct bh_egress_socks {
    bool fifth; /* else the fourth version */
    struct bh_host host;
    uint16_t port;
};

/* Both give the length of the message, 0 where it is not there as a whole yet, -1 with a reason. */

/* The first message of SOCKS 5; the answer is {5, 0}. */
long bh_egress_socks_greeting(const unsigned char *data, size_t len, enum bh_egress_reason *ret);
/* The request; by its first byte of 4 or 5. */
long bh_egress_socks_request(const unsigned char *data, size_t len, struct bh_egress_socks *ret,
                             enum bh_egress_reason *ret_reason);

#define BH_SOCKS_ANSWER_MAX 10
/* The answer to a request; `reason` is LISTED or PUBLIC where it goes on. Its length. */
size_t bh_egress_socks_answer(bool fifth, enum bh_egress_reason reason, unsigned char ret[static BH_SOCKS_ANSWER_MAX]);
