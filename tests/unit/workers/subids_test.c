/* SPDX-License-Identifier: Apache-2.0 */
/* Which line of /etc/subuid is whose. */
#include "workers/box/subids.h"

#include "tests/support/t.h"

static void test_find(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name;
        uint32_t uid, first;
    } rows[] = {
        {"", "me", 5, 0},
        {"me:100000:65536\n", "me", 5, 100000},
        {"me:100000:65536", "me", 5, 100000},
        {"5:200000:70000\n", "me", 5, 200000},
        {"5:200000:65536\n", NULL, 5, 200000},
        {"other:100000:65536\nme:165536:65536\n", "me", 5, 165536},
        {"meme:100000:65536\n", "me", 5, 0},
        {"55:100000:65536\n", "me", 5, 0},
        {"me:100000:1000\n", "me", 5, 0},                       /* too few */
        {"me:100000:1000\nme:300000:65536\n", "me", 5, 300000}, /* the line that has enough */
        {"me:1000:65536\n", "me", 5, 0},                        /* where accounts of the host are */
        {"me:x:65536\nme\n:\n\nme:100000:65536\n", "me", 5, 100000},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++)
        T_INT(bh_subids_find(rows[i].text, rows[i].name, rows[i].uid), rows[i].first);
}

/* Root has no use for them, and who wants none gets none: nothing of the process has changed. */
static void test_off(void **state)
{
    (void)state;
    T_INT(setenv("BULKHEAD_SUBIDS", "off", 1), 0);
    T_TRUE(!bh_subids_enter());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_find), cmocka_unit_test(test_off)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
