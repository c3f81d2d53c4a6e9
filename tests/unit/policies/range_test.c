/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses: what is one, what is in one. */
#include "policies/range.h"

#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"

static struct bh_range parsed(const char *text)
{
    struct bh_range r;
    if (!bh_range_parse(text, &r))
        fail_msg("'%s' is a range", text);
    return r;
}

static void what_is_a_range(void **state)
{
    static const char *const good[] = {
        "10.0.0.0/8", "10.1.2.3", "0.0.0.0/0",    "::/0",           "fd00::/8",
        "::1",        "::1/128",  "127.0.0.1/32", "192.168.0.0/23", "::ffff:10.0.0.0/104"};
    static const char *const bad[] = {"",
                                      "/8",
                                      "10.0.0.0/",
                                      "10.0.0.0/33",
                                      "10.0.0.0/-1",
                                      "10.0.0.1/8",
                                      "010.0.0.0",
                                      "10.0.0/8",
                                      "0x0a.0.0.0",
                                      "::/129",
                                      "fd00::1/8",
                                      "[::1]",
                                      "fe80::1%lo",
                                      "10.0.0.0/8x",
                                      "example.org",
                                      "10.0.0.0 /8",
                                      "10.0.0.0/ 8",
                                      "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"};
    struct bh_range r;
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++)
        (void)parsed(good[i]);
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        if (bh_range_parse(bad[i], &r))
            fail_msg("'%s' is no range", bad[i]);
    }
}

static void what_is_within(void **state)
{
    static const struct {
        const char *inner, *outer;
        bool within;
    } rows[] = {
        {"10.1.0.0/16", "10.0.0.0/8", true},
        {"10.0.0.0/8", "10.1.0.0/16", false},
        {"10.0.0.0/8", "10.0.0.0/8", true},
        {"11.0.0.0/8", "10.0.0.0/8", false},
        {"10.9.9.9", "0.0.0.0/0", true},
        {"::1", "0.0.0.0/0", false},
        {"::ffff:10.0.0.1", "10.0.0.0/8", true},
        {"10.0.0.1", "::/0", true},
        {"192.168.1.255", "192.168.0.0/23", true},
        {"192.168.2.0", "192.168.0.0/23", false},
        {"fd01::1", "fd00::/8", true},
        {"fe00::", "fd00::/8", false},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_range inner = parsed(rows[i].inner), outer = parsed(rows[i].outer);
        if (bh_range_is_within(&inner, &outer) != rows[i].within)
            fail_msg("%s in %s", rows[i].inner, rows[i].outer);
    }
}

static void a_list_is_read_whole_or_not_at_all(void **state)
{
    (void)state;
    struct bh_range *ranges = NULL;
    size_t n = 9;
    T_OK(bh_ranges_read(NULL, &ranges, &n, &err));
    T_INT(n, 0);
    bh_free(ranges);
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
    bh_val_add(list, bh_val_str("10.0.0.0/8"));
    bh_val_add(list, bh_val_str("fd00::/8"));
    T_OK(bh_ranges_read(list, &ranges, &n, &err));
    T_INT(n, 2);
    T_INT(ranges[0].bits, 104);
    T_INT(ranges[1].bits, 8);
    bh_free(ranges);
    bh_val_add(list, bh_val_str("10.0.0.1/8"));
    T_ERR(bh_ranges_read(list, &ranges, &n, &err), BH_E_BAD_VALUE, "'10.0.0.1/8' is no range of addresses");
    T_TRUE(!ranges && n == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_a_range),
        cmocka_unit_test(what_is_within),
        cmocka_unit_test(a_list_is_read_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
