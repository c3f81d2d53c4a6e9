/* SPDX-License-Identifier: Apache-2.0 */
/* What a box may do in a second, on a clock of the test's own. */
#include "policies/broker/rate.h"

#include "tests/support/t.h"

static struct bh_mono at_ms(int64_t ms)
{
    return (struct bh_mono){1000 * BH_NS_PER_S + ms * BH_NS_PER_MS};
}

static int take_all(struct bh_rate *r, struct bh_mono now)
{
    int n = 0;
    while (bh_rate_take(r, now))
        n++;
    return n;
}

static void test_twice_at_a_stroke_then_so_many_a_second(void **state)
{
    (void)state;
    struct bh_rate r;
    bh_rate_init(&r, 100, at_ms(0));
    T_INT(take_all(&r, at_ms(0)), 200);
    assert_false(bh_rate_has(&r, at_ms(9)));
    assert_true(bh_rate_has(&r, at_ms(10)));
    T_INT(take_all(&r, at_ms(1000)), 100);
    T_INT(take_all(&r, at_ms(1000 * 3600)), 200);
}

static void test_nothing_is_lost_by_asking_often(void **state)
{
    (void)state;
    struct bh_rate r;
    int n = 0;
    bh_rate_init(&r, 10, at_ms(0));
    (void)take_all(&r, at_ms(0));
    for (int64_t us = 0; us <= 1000200; us += 300) {
        struct bh_mono now = at_ms(0);
        now.ns += us * 1000;
        n += bh_rate_take(&r, now);
    }
    T_INT(n, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twice_at_a_stroke_then_so_many_a_second),
        cmocka_unit_test(test_nothing_is_lost_by_asking_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
