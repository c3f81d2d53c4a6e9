/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/failure_budget.h"
#include "tests/support/t.h"

static void makes_a_number_of_what_was_said(void **state)
{
    static const struct {
        int64_t max;
        bool percent;
        size_t agents;
        int64_t allowed;
    } rows[] = {
        {-1, false, 10, 0},
        {-1, true, 10, 0},
        {0, false, 10, 0},
        {5, false, 10, 5},
        {INT64_MAX, false, 10, INT64_MAX},
        {0, true, 10, 0},
        {10, true, 10, 1},
        {10, true, 9, 0}, /* rounded down */
        {10, true, 19, 1},
        {99, true, 100, 99},
        {100, true, 7, 7},
        {250, true, 7, 7}, /* more than all is all */
        {50, true, 0, 0},
        {33, true, 10000, 3300},
        {1, true, SIZE_MAX / 2, (int64_t)(SIZE_MAX / 2 / 100)}, /* leaves no 64 bits on the way */
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_failure_budget b = bh_failure_budget_make(rows[i].max, rows[i].percent, rows[i].agents);
        if (b.allowed != rows[i].allowed)
            fail_msg("row %zu: allowed %lld", i, (long long)b.allowed);
    }
}

static void is_exceeded_beyond_it(void **state)
{
    struct bh_failure_budget none = {.allowed = 0}, two = {.allowed = 2}, all = {.allowed = INT64_MAX};
    struct bh_failure_budget bad = {.allowed = -3};
    (void)state;
    T_TRUE(!bh_failure_budget_exceeded(&none, 0));
    T_TRUE(bh_failure_budget_exceeded(&none, 1));
    T_TRUE(!bh_failure_budget_exceeded(&two, 2));
    T_TRUE(bh_failure_budget_exceeded(&two, 3));
    T_TRUE(!bh_failure_budget_exceeded(&all, 1000000));
    T_TRUE(!bh_failure_budget_exceeded(&bad, 0));
    T_TRUE(bh_failure_budget_exceeded(&bad, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_a_number_of_what_was_said),
        cmocka_unit_test(is_exceeded_beyond_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
