/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of internet addresses, of both families in one form: an IPv4 address is its IPv4-mapped IPv6 address
 * (RFC 4291, 2.5.5.2). Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct bh_val;

struct bh_range {
    unsigned char address[16]; /* bits beyond `bits` are zero */
    int bits;                  /* 0..128; an IPv4 prefix is 96 more */
};

/* "10.1.0.0/16", "fd00:1::/32", or an address alone. Decimal IPv4 without leading zeros; bits beyond the prefix must be
 * zero. No brackets, no zones. */
bool bh_range_parse(const char *text, struct bh_range *ret) BH_MUST_CHECK;
/* A list of such texts. The caller owns *ret; NULL and 0 where this fails. BAD_VALUE: one of them
 * is no range. */
int bh_ranges_read(const struct bh_val *list, struct bh_range **ret, size_t *ret_n, struct bh_err **err) BH_MUST_CHECK;
bool bh_range_holds(const struct bh_range *range, const unsigned char address[static 16]);
bool bh_range_is_within(const struct bh_range *inner, const struct bh_range *outer);
