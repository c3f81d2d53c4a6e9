/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the broker has only counted, as the audit log has them. */
#include "workers/decision_sums.h"

#include "base/val.h"
#include "tests/support/t.h"

static void on_sum(void *arg, enum bh_audit_kind kind, struct bh_val *fields)
{
    T_INT(kind, BH_AUDIT_CALL);
    assert_string_equal(bh_val_str_of(fields, "reason"), "many");
    *(int64_t *)arg += bh_val_int_of(fields, "more");
    bh_val_free(fields);
}

static void test_what_was_told_in_sum_is_in_the_sum(void **state)
{
    (void)state;
    static const int64_t times[] = {40000, 3, 1};
    struct bh_decision_sums *sums = bh_decision_sums_new();
    int64_t more = 0;
    for (int i = 0; i < 3; i++) {
        struct bh_val *msg = bh_val_map(), *fields = bh_val_map();
        bh_val_set_int(msg, "times", times[i]);
        bh_val_set_str(fields, "reason", "many");
        assert_false(bh_decision_sums_add(sums, BH_AUDIT_CALL, fields, msg, true, on_sum, &more));
        bh_val_free(msg);
    }
    bh_decision_sums_take(sums, on_sum, &more);
    T_INT(more, 40004);
    bh_decision_sums_free(sums);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_was_told_in_sum_is_in_the_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
