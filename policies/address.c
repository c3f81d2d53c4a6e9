/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what is not public, after the registries of special-purpose addresses (RFC 6890 and its successors). */
#include "policies/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "policies/range.h"

enum { MAPPED = 12 }; /* bytes before the IPv4 address */

struct row {
    unsigned char prefix[BH_ADDRESS_LEN];
    int bits;
    enum bh_address_kind kind;
};

/* The first that holds an address decides. */
static const struct row v4[] = {
    {{169, 254, 169, 254}, 32, BH_ADDRESS_METADATA},
    {{169, 254, 169, 253}, 32, BH_ADDRESS_METADATA},
    {{169, 254, 169, 123}, 32, BH_ADDRESS_METADATA},
    {{169, 254, 170, 2}, 32, BH_ADDRESS_METADATA},
    {{169, 254, 170, 23}, 32, BH_ADDRESS_METADATA},
    {{169, 254, 0, 23}, 32, BH_ADDRESS_METADATA},
    {{168, 63, 129, 16}, 32, BH_ADDRESS_METADATA},
    {{100, 100, 100, 200}, 32, BH_ADDRESS_METADATA},
    {{192, 0, 0, 192}, 32, BH_ADDRESS_METADATA},
    {{0}, 8, BH_ADDRESS_NOWHERE},
    {{10}, 8, BH_ADDRESS_PRIVATE},
    {{100, 64}, 10, BH_ADDRESS_CGNAT},
    {{127}, 8, BH_ADDRESS_LOOPBACK},
    {{169, 254}, 16, BH_ADDRESS_LINK_LOCAL},
    {{172, 16}, 12, BH_ADDRESS_PRIVATE},
    {{192, 0, 0}, 24, BH_ADDRESS_RESERVED},
    {{192, 0, 2}, 24, BH_ADDRESS_RESERVED},
    {{192, 88, 99}, 24, BH_ADDRESS_RESERVED},
    {{192, 168}, 16, BH_ADDRESS_PRIVATE},
    {{198, 18}, 15, BH_ADDRESS_RESERVED},
    {{198, 51, 100}, 24, BH_ADDRESS_RESERVED},
    {{203, 0, 113}, 24, BH_ADDRESS_RESERVED},
    {{224}, 4, BH_ADDRESS_MULTICAST},
    {{240}, 4, BH_ADDRESS_RESERVED},
    {{0}, 0, BH_ADDRESS_PUBLIC},
};

static const struct row v6[] = {
    {{0}, 128, BH_ADDRESS_NOWHERE},
    {{[15] = 1}, 128, BH_ADDRESS_LOOPBACK},
    {{0xfd, 0, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54}, 128, BH_ADDRESS_METADATA},
    {{0xfd, 0, 0x0e, 0xc2, [15] = 0x23}, 128, BH_ADDRESS_METADATA},
    {{0xfd, 0x20, 0, 0xce, [14] = 0x02, [15] = 0x54}, 128, BH_ADDRESS_METADATA},
    {{0xfc}, 7, BH_ADDRESS_PRIVATE},
    {{0xfe, 0x80}, 10, BH_ADDRESS_LINK_LOCAL},
    {{0xfe, 0xc0}, 10, BH_ADDRESS_PRIVATE},
    {{0xff}, 8, BH_ADDRESS_MULTICAST},
    {{0x20, 0x01, 0x00}, 23, BH_ADDRESS_RESERVED},       /* Teredo and other protocols' own */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, BH_ADDRESS_RESERVED}, /* documentation */
    {{0x20, 0x02}, 16, BH_ADDRESS_RESERVED},             /* 6to4 */
    {{0x3f, 0xff}, 20, BH_ADDRESS_RESERVED},             /* documentation */
    {{0x20}, 3, BH_ADDRESS_PUBLIC},
    {{0}, 0, BH_ADDRESS_RESERVED},
};

static const unsigned char mapped[MAPPED] = {[10] = 0xff, [11] = 0xff};
static const unsigned char nat64[MAPPED] = {0x00, 0x64, 0xff, 0x9b};

bool bh_address_parse(const char *text, unsigned char ret[static BH_ADDRESS_LEN])
{
    if (inet_pton(AF_INET6, text, ret) == 1)
        return true;
    memcpy(ret, mapped, MAPPED);
    return inet_pton(AF_INET, text, ret + MAPPED) == 1;
}

void bh_address_from_v4(const unsigned char four[static 4], unsigned char ret[static BH_ADDRESS_LEN])
{
    memcpy(ret, mapped, MAPPED);
    memcpy(ret + MAPPED, four, BH_ADDRESS_LEN - MAPPED);
}

bool bh_address_from_sockaddr(const struct sockaddr *at, unsigned char ret[static BH_ADDRESS_LEN])
{
    unsigned char four[4];
    if (at->sa_family == AF_INET6) {
        memcpy(ret, &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr, BH_ADDRESS_LEN);
    } else if (at->sa_family == AF_INET) {
        memcpy(four, &((const struct sockaddr_in *)(const void *)at)->sin_addr, sizeof(four));
        bh_address_from_v4(four, ret);
    }
    return at->sa_family == AF_INET6 || at->sa_family == AF_INET;
}

bool bh_address_is_v4(const unsigned char address[static BH_ADDRESS_LEN])
{
    return memcmp(address, mapped, MAPPED) == 0;
}

char *bh_address_format(const unsigned char address[static BH_ADDRESS_LEN], char buf[static BH_ADDRESS_TEXT])
{
    const char *text = bh_address_is_v4(address) ? inet_ntop(AF_INET, address + MAPPED, buf, BH_ADDRESS_TEXT)
                                                 : inet_ntop(AF_INET6, address, buf, BH_ADDRESS_TEXT);
    BH_ASSERT(text != NULL);
    return buf;
}

static enum bh_address_kind look_up(const struct row *rows, const unsigned char *address, size_t len)
{
    for (;; rows++) { /* the last row of each table holds everything */
        struct bh_range range = {.bits = rows->bits};
        unsigned char whole[BH_ADDRESS_LEN] = {0};
        memcpy(range.address, rows->prefix, BH_ADDRESS_LEN);
        memcpy(whole, address, len);
        if (bh_range_holds(&range, whole))
            return rows->kind;
    }
}

/* What a translator would make of it: the same address where it carries none. */
static void see_through(const unsigned char address[static BH_ADDRESS_LEN], unsigned char ret[static BH_ADDRESS_LEN])
{
    memcpy(ret, address, BH_ADDRESS_LEN);
    if (memcmp(address, nat64, MAPPED) == 0)
        memcpy(ret, mapped, MAPPED);
}

enum bh_address_kind bh_address_kind(const unsigned char address[static BH_ADDRESS_LEN])
{
    unsigned char seen[BH_ADDRESS_LEN];
    see_through(address, seen);
    return bh_address_is_v4(seen) ? look_up(v4, seen + MAPPED, BH_ADDRESS_LEN - MAPPED)
                                  : look_up(v6, seen, BH_ADDRESS_LEN);
}

const char *bh_address_kind_text(enum bh_address_kind kind)
{
    static const char *const texts[] = {
        [BH_ADDRESS_PUBLIC] = "public",       [BH_ADDRESS_PRIVATE] = "private",
        [BH_ADDRESS_LOOPBACK] = "loopback",   [BH_ADDRESS_LINK_LOCAL] = "link-local",
        [BH_ADDRESS_CGNAT] = "cgnat",         [BH_ADDRESS_METADATA] = "metadata",
        [BH_ADDRESS_RESERVED] = "reserved",   [BH_ADDRESS_MULTICAST] = "multicast",
        [BH_ADDRESS_NOWHERE] = "unspecified",
    };
    return texts[kind];
}

bool bh_address_is_permitted(const unsigned char address[static BH_ADDRESS_LEN], const struct bh_range *ranges,
                             size_t n_ranges)
{
    unsigned char seen[BH_ADDRESS_LEN];
    enum bh_address_kind kind = bh_address_kind(address);
    if (kind == BH_ADDRESS_MULTICAST || kind == BH_ADDRESS_NOWHERE)
        return false;
    see_through(address, seen);
    for (size_t i = 0; i < n_ranges; i++) {
        bool alone = ranges[i].bits == BH_ADDRESS_LEN * 8;
        if ((alone || kind != BH_ADDRESS_METADATA) && bh_range_holds(&ranges[i], seen))
            return true;
    }
    return false;
}
