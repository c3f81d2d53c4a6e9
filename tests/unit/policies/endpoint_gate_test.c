/* SPDX-License-Identifier: Apache-2.0 */
/* Turns at a service, on a clock of the test's own. */
#include "policies/broker/endpoint_gate.h"

#include "tests/support/t.h"

#define S BH_NS_PER_S

static struct bh_mono at(int64_t seconds)
{
    return (struct bh_mono){1000 * S + seconds * S};
}

static void test_at_most_so_many_at_once(void **state)
{
    (void)state;
    struct bh_gate gate;
    struct bh_gate_box box;
    struct bh_gate_call calls[4] = {0};
    bh_gate_init(&gate, 2);
    bh_gate_box_init(&box);
    for (int i = 0; i < 4; i++)
        bh_gate_enter(&gate, &box, &calls[i]);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &calls[0]);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &calls[1]);
    assert_null(bh_gate_next(&gate, at(0)));
    T_INT(bh_gate_wait_ns(&gate, at(0)), -1);
    bh_gate_answered(&gate, &calls[0], false, -1, at(0));
    assert_null(bh_gate_next(&gate, at(0)));
    bh_gate_leave(&gate, &calls[0]);
    bh_gate_leave(&gate, &calls[0]);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &calls[2]);
    assert_null(bh_gate_next(&gate, at(0)));
    bh_gate_leave(&gate, &calls[3]); /* given up while it waits */
    bh_gate_leave(&gate, &calls[1]);
    bh_gate_leave(&gate, &calls[2]);
    assert_null(bh_gate_next(&gate, at(0)));
    T_INT(gate.in_flight, 0);
    T_INT(gate.unanswered, 0);
}

static void test_boxes_take_turns(void **state)
{
    (void)state;
    struct bh_gate gate;
    struct bh_gate_box busy, other, third;
    struct bh_gate_call many[3] = {0}, one = {0}, last = {0};
    bh_gate_init(&gate, 0);
    bh_gate_box_init(&busy);
    bh_gate_box_init(&other);
    bh_gate_box_init(&third);
    for (int i = 0; i < 3; i++)
        bh_gate_enter(&gate, &busy, &many[i]);
    bh_gate_enter(&gate, &other, &one);
    bh_gate_enter(&gate, &third, &last);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &many[0]);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &one);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &last);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &many[1]);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &many[2]);
    assert_null(bh_gate_next(&gate, at(0)));
}

static void test_all_wait_on_429_and_come_back_one_by_one(void **state)
{
    (void)state;
    enum { N = 200 };
    struct bh_gate gate;
    static struct bh_gate_box boxes[N];
    static struct bh_gate_call calls[N], again[N];
    bh_gate_init(&gate, 0);
    for (int i = 0; i < N; i++) {
        bh_gate_box_init(&boxes[i]);
        bh_gate_enter(&gate, &boxes[i], &calls[i]);
        assert_ptr_equal(bh_gate_next(&gate, at(0)), &calls[i]);
    }
    for (int i = 0; i < N; i++) {
        bh_gate_answered(&gate, &calls[i], i >= 50, i == N - 1 ? 7 * S : 5 * S, at(1));
        bh_gate_leave(&gate, &calls[i]);
        bh_gate_enter(&gate, &boxes[i], &again[i]);
    }
    assert_null(bh_gate_next(&gate, at(7)));
    T_INT(bh_gate_wait_ns(&gate, at(7)), S);
    int next = 0;
    for (int most = 1; next < N; most++) {
        int sent = next;
        while (bh_gate_next(&gate, at(8)))
            sent++;
        T_INT(sent - next, most < N - next ? most : N - next);
        for (; next < sent; next++)
            bh_gate_answered(&gate, &again[next], false, -1, at(8));
        most = sent; /* each answer opens it by one */
    }
}

static void test_429s_of_one_moment_are_one_wait(void **state)
{
    (void)state;
    struct bh_gate gate;
    struct bh_gate_box box;
    struct bh_gate_call calls[20] = {0}, next = {0}, after = {0};
    bh_gate_init(&gate, 0);
    bh_gate_box_init(&box);
    for (int i = 0; i < 20; i++) {
        bh_gate_enter(&gate, &box, &calls[i]);
        assert_non_null(bh_gate_next(&gate, at(0)));
    }
    for (int i = 0; i < 20; i++) {
        bh_gate_answered(&gate, &calls[i], true, -1, at(0));
        bh_gate_leave(&gate, &calls[i]);
    }
    bh_gate_enter(&gate, &box, &next);
    assert_null(bh_gate_next(&gate, at(0)));
    T_INT(bh_gate_wait_ns(&gate, at(0)), S);
    assert_ptr_equal(bh_gate_next(&gate, at(1)), &next);
    bh_gate_answered(&gate, &next, true, -1, at(1)); /* twice in a row: twice as long */
    bh_gate_leave(&gate, &next);
    bh_gate_enter(&gate, &box, &after);
    T_INT(bh_gate_wait_ns(&gate, at(1)), 2 * S);
}

static void test_no_wait_is_believed_that_is_too_long(void **state)
{
    (void)state;
    struct bh_gate gate;
    struct bh_gate_box box;
    struct bh_gate_call call = {0}, next = {0};
    bh_gate_init(&gate, 0);
    bh_gate_box_init(&box);
    bh_gate_enter(&gate, &box, &call);
    assert_non_null(bh_gate_next(&gate, at(0)));
    bh_gate_answered(&gate, &call, true, INT64_MAX / 4, at(0));
    bh_gate_leave(&gate, &call);
    bh_gate_enter(&gate, &box, &next);
    T_INT(bh_gate_wait_ns(&gate, at(0)), 300 * S);
}

static void test_a_call_without_an_answer_keeps_others_for_seconds(void **state)
{
    (void)state;
    struct bh_gate gate;
    struct bh_gate_box slow, other;
    struct bh_gate_call first = {0}, stands = {0}, call = {0}, next = {0};
    bh_gate_init(&gate, 0);
    bh_gate_box_init(&slow);
    bh_gate_box_init(&other);
    bh_gate_enter(&gate, &slow, &first);
    assert_ptr_equal(bh_gate_next(&gate, at(0)), &first);
    bh_gate_answered(&gate, &first, true, 0, at(0));
    bh_gate_leave(&gate, &first);
    bh_gate_enter(&gate, &slow, &stands);
    assert_ptr_equal(bh_gate_next(&gate, at(1)), &stands);
    bh_gate_enter(&gate, &other, &call);
    assert_null(bh_gate_next(&gate, at(1)));
    T_INT(bh_gate_wait_ns(&gate, at(1)), 5 * S);
    assert_null(bh_gate_next(&gate, at(5)));
    assert_ptr_equal(bh_gate_next(&gate, at(6)), &call);
    bh_gate_enter(&gate, &other, &next);
    assert_null(bh_gate_next(&gate, at(6)));
    bh_gate_answered(&gate, &stands, false, -1, at(7)); /* late, and an answer all the same */
    assert_ptr_equal(bh_gate_next(&gate, at(7)), &next);
    bh_gate_leave(&gate, &stands);
    bh_gate_leave(&gate, &call);
    bh_gate_leave(&gate, &next);
    T_INT(gate.unanswered, 0);
    T_INT(gate.in_flight, 0);
    T_INT(gate.n_present, 0);
}

static void test_a_box_has_its_share_while_others_wait(void **state)
{
    (void)state;
    struct bh_gate gate;
    struct bh_gate_box busy, other;
    struct bh_gate_call many[6] = {0}, few[3] = {0};
    bh_gate_init(&gate, 4);
    bh_gate_box_init(&busy);
    bh_gate_box_init(&other);
    for (int i = 0; i < 6; i++)
        bh_gate_enter(&gate, &busy, &many[i]);
    for (int i = 0; i < 4; i++) /* alone it has them all */
        assert_ptr_equal(bh_gate_next(&gate, at(0)), &many[i]);
    assert_false(bh_gate_is_in_the_way(&gate, &many[0]));
    for (int i = 0; i < 3; i++)
        bh_gate_enter(&gate, &other, &few[i]);
    assert_null(bh_gate_next(&gate, at(0)));
    assert_true(bh_gate_is_in_the_way(&gate, &many[0]));
    assert_false(bh_gate_is_in_the_way(&gate, &few[0]));
    for (int i = 0; i < 2; i++) {
        bh_gate_leave(&gate, &many[i]);
        assert_ptr_equal(bh_gate_next(&gate, at(1)), &few[i]);
    }
    bh_gate_leave(&gate, &many[2]);
    assert_ptr_equal(bh_gate_next(&gate, at(1)), &many[4]); /* each has its half */
    bh_gate_leave(&gate, &few[0]);
    assert_ptr_equal(bh_gate_next(&gate, at(1)), &few[2]);
    bh_gate_leave(&gate, &few[1]);
    assert_ptr_equal(bh_gate_next(&gate, at(1)), &many[5]); /* nobody else waits */
    assert_false(bh_gate_is_in_the_way(&gate, &many[3]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_most_so_many_at_once),
        cmocka_unit_test(test_boxes_take_turns),
        cmocka_unit_test(test_all_wait_on_429_and_come_back_one_by_one),
        cmocka_unit_test(test_429s_of_one_moment_are_one_wait),
        cmocka_unit_test(test_no_wait_is_believed_that_is_too_long),
        cmocka_unit_test(test_a_call_without_an_answer_keeps_others_for_seconds),
        cmocka_unit_test(test_a_box_has_its_share_while_others_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
