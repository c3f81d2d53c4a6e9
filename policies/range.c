/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes of 16 bytes. The C library's parser is strict about what an address is; the prefix is ours. */
#include "policies/range.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/units.h"

enum { MAPPED = 96, LONGEST = 64 };

static bool parse_address(const char *text, struct bh_range *ret)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (inet_pton(AF_INET6, text, ret->address) == 1) {
        ret->bits = 0;
        return true;
    }
    memcpy(ret->address, mapped, sizeof(mapped));
    ret->bits = MAPPED;
    return inet_pton(AF_INET, text, ret->address + sizeof(mapped)) == 1;
}

static bool bit(const unsigned char address[static 16], int i)
{
    return address[i / 8] >> (7 - i % 8) & 1;
}

static bool ends_in_zeros(const struct bh_range *r)
{
    for (int i = r->bits; i < 128; i++) {
        if (bit(r->address, i))
            return false;
    }
    return true;
}

bool bh_range_parse(const char *text, struct bh_range *ret)
{
    char address[LONGEST];
    int64_t bits;
    size_t len = strcspn(text, "/");
    if (len >= sizeof(address))
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    if (!parse_address(address, ret))
        return false;
    int most = 128 - ret->bits;
    if (text[len] != '/')
        bits = most;
    else if (bh_parse_int(text + len + 1, &bits) != 0 || bits < 0 || bits > most)
        return false;
    ret->bits += (int)bits;
    return ends_in_zeros(ret);
}

bool bh_range_holds(const struct bh_range *range, const unsigned char address[static 16])
{
    int whole = range->bits / 8, rest = range->bits % 8;
    if (memcmp(range->address, address, (size_t)whole) != 0)
        return false;
    return rest == 0 || (range->address[whole] ^ address[whole]) >> (8 - rest) == 0;
}

bool bh_range_is_within(const struct bh_range *inner, const struct bh_range *outer)
{
    return inner->bits >= outer->bits && bh_range_holds(outer, inner->address);
}
