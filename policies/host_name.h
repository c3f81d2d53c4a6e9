/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts as documents and clients write them, in the one form in which they are compared: lower case, ASCII
 * (international names as their "xn--" form), no dot at the end; addresses in their usual text, an IPv4-mapped one as
 * IPv4. What a resolver may take for a number in disguise (127.1, 0x7f.1, 2130706433) is no host.
 */
#pragma once

#include "base/compiler.h"
#include "policies/address.h"

#define BH_HOST_TEXT 256

struct bh_host {
    char name[BH_HOST_TEXT]; /* of an IPv6 address without brackets */
    bool is_address;
    unsigned char address[BH_ADDRESS_LEN];
};

struct bh_destination {
    struct bh_host host;
    bool below; /* written "*.host": the names below it, not itself */
    uint16_t port;
};

/* `text` need not end with NUL. IPv6 with or without brackets. */
bool bh_host_read(const char *text, size_t len, struct bh_host *ret) BH_MUST_CHECK;
/* "host:port", IPv6 in brackets. `patterns`: also "*.host:port". */
bool bh_destination_read(const char *text, size_t len, bool patterns, struct bh_destination *ret) BH_MUST_CHECK;
bool bh_destination_matches(const struct bh_destination *allowed, const struct bh_host *host, uint16_t port);
