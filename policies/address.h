/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internet addresses, and which of them boxes may reach. 16 bytes for both families: an IPv4 address is its IPv4-mapped
 * form (as in range.h), so that the two ways to write it are one address. Pure.
 *
 * Only public addresses may be reached. What is none says why, whatever a document allows; a site may permit ranges
 * beyond them. An IPv6 address that carries an IPv4 one through a translator (NAT64) is what that one is.
 */
#pragma once

#include "base/compiler.h"

struct bh_range;

#define BH_ADDRESS_LEN 16
#define BH_ADDRESS_TEXT 46

enum bh_address_kind {
    BH_ADDRESS_PUBLIC,
    BH_ADDRESS_PRIVATE,
    BH_ADDRESS_LOOPBACK,
    BH_ADDRESS_LINK_LOCAL,
    BH_ADDRESS_CGNAT,
    BH_ADDRESS_METADATA, /* where clouds hand out credentials */
    BH_ADDRESS_RESERVED, /* documentation, benchmarks, tunnels, unassigned */
    BH_ADDRESS_MULTICAST,
    BH_ADDRESS_NOWHERE, /* 0.0.0.0/8 and ::, which kernels take for themselves */
};

/* Strict: four decimal numbers without leading zeros, or IPv6 without brackets and zone. */
bool bh_address_parse(const char *text, unsigned char ret[static BH_ADDRESS_LEN]) BH_MUST_CHECK;
/* Of four bytes as they go over the wire. */
void bh_address_from_v4(const unsigned char four[static 4], unsigned char ret[static BH_ADDRESS_LEN]);
struct sockaddr;
/* False: of another family, and *ret is untouched. */
bool bh_address_from_sockaddr(const struct sockaddr *at, unsigned char ret[static BH_ADDRESS_LEN]) BH_MUST_CHECK;
/* The usual text: IPv4 with dots, IPv6 in its shortest form. */
char *bh_address_format(const unsigned char address[static BH_ADDRESS_LEN], char buf[static BH_ADDRESS_TEXT]);
bool bh_address_is_v4(const unsigned char address[static BH_ADDRESS_LEN]);

enum bh_address_kind bh_address_kind(const unsigned char address[static BH_ADDRESS_LEN]);
const char *bh_address_kind_text(enum bh_address_kind kind); /* "link-local" */

/*
 * Whether one of the ranges permits an address that is not public. A service of metadata needs a range of its own (the
 * address alone, /32 or /128), multicast and nowhere cannot be permitted.
 */
bool bh_address_is_permitted(const unsigned char address[static BH_ADDRESS_LEN], const struct bh_range *ranges,
                             size_t n_ranges);
