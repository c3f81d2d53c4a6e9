/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/retry.h"
#include "tests/support/t.h"

/* How many executions there are in all where each ends for this reason. */
static int executions(enum bh_reason reason, int64_t max)
{
    struct bh_retry_state s = {0};
    for (int n = 1; n < 100; n++) {
        ++*(bh_retry_is_host(reason) ? &s.host_tries : &s.other_tries);
        if (!bh_retry_again(&s, reason, max, false))
            return n;
    }
    return 100;
}

static void each_reason_has_its_tries(void **state)
{
    static const struct {
        enum bh_reason reason;
        int with_0, with_3; /* executions where `retries` is 0, 3 */
    } rows[] = {
        {BH_REASON_EXIT, 1, 4},      {BH_REASON_SIGNAL, 1, 4},         {BH_REASON_TIMEOUT, 1, 4},
        {BH_REASON_OOM, 1, 4},       {BH_REASON_DISK_FULL, 1, 1},      {BH_REASON_PIDS, 1, 1},
        {BH_REASON_CHECK, 1, 1},     {BH_REASON_OUTPUT_MISSING, 1, 1}, {BH_REASON_OUTPUT_INVALID, 1, 1},
        {BH_REASON_COLLISION, 1, 1}, {BH_REASON_BUDGET, 1, 1},         {BH_REASON_ITEMS, 1, 1},
        {BH_REASON_ROUNDS, 1, 1},    {BH_REASON_INPUT_SKIPPED, 1, 1},  {BH_REASON_POLICY, 1, 1},
        {BH_REASON_BOX_LOST, 3, 3},  {BH_REASON_HOST, 3, 3},
    };
    (void)state;
    T_INT(BH_ARRAY_LEN(rows), BH_REASON_MAX_ - 1);
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        int n0 = executions(rows[i].reason, 0), n3 = executions(rows[i].reason, 3);
        if (n0 != rows[i].with_0 || n3 != rows[i].with_3)
            fail_msg("%s: %d and %d executions", bh_reason_info(rows[i].reason)->text, n0, n3);
    }
}

static void the_two_counts_are_apart(void **state)
{
    struct bh_retry_state s = {.host_tries = 2, .other_tries = 1};
    (void)state;
    T_TRUE(bh_retry_again(&s, BH_REASON_EXIT, 1, false));
    T_TRUE(bh_retry_again(&s, BH_REASON_BOX_LOST, 0, false));
    s.host_tries = 3;
    T_TRUE(bh_retry_again(&s, BH_REASON_EXIT, 1, false));
    T_TRUE(!bh_retry_again(&s, BH_REASON_BOX_LOST, 100, false));
    s.other_tries = 2;
    T_TRUE(!bh_retry_again(&s, BH_REASON_EXIT, 1, false));
}

static void what_died_with_bulkhead_is_always_tried_again(void **state)
{
    struct bh_retry_state s = {.host_tries = 50, .other_tries = 50};
    (void)state;
    T_TRUE(bh_retry_again(&s, BH_REASON_BOX_LOST, 0, true));
    T_TRUE(bh_retry_again(&s, BH_REASON_COLLISION, 0, true));
}

static void nonsense_is_not_tried_again(void **state)
{
    struct bh_retry_state s = {0};
    (void)state;
    T_TRUE(!bh_retry_again(&s, BH_REASON_NONE, 9, false));
    T_TRUE(!bh_retry_again(&s, (enum bh_reason)9999, 9, false));
    s.other_tries = 1;
    T_TRUE(!bh_retry_again(&s, BH_REASON_EXIT, -5, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reason_has_its_tries),
        cmocka_unit_test(the_two_counts_are_apart),
        cmocka_unit_test(what_died_with_bulkhead_is_always_tried_again),
        cmocka_unit_test(nonsense_is_not_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
