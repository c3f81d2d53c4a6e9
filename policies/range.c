/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes of 16 bytes. The C library's parser is strict about what an address is; the prefix is ours. */
#include "policies/range.h"

#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "base/val.h"
#include "policies/address.h"

enum { MAPPED = 96, LONGEST = 64 };

/* Its bits are counted from where it is written: those of `::ffff:10.0.0.0` from the first of the 16 bytes. */
static bool parse_address(const char *text, struct bh_range *ret)
{
    ret->bits = strchr(text, ':') ? 0 : MAPPED;
    return bh_address_parse(text, ret->address);
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

int bh_ranges_read(const struct bh_val *list, struct bh_range **ret, size_t *ret_n, struct bh_err **err)
{
    size_t n = bh_val_len(list);
    BH_CLEANUP_FREE struct bh_range *ranges = bh_calloc(n, sizeof(*ranges));
    *ret = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = bh_val_get_str(bh_val_at(list, i));
        if (!text || !bh_range_parse(text, &ranges[i]))
            return bh_err_set(err, BH_E_BAD_VALUE, 0, "'%s' is no range of addresses", text ? text : "");
    }
    *ret = BH_TAKE(ranges);
    *ret_n = n;
    return 0;
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
