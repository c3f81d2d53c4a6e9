/* SPDX-License-Identifier: Apache-2.0 */
/* The line to the engine: greeting, being refused, an engine that is gone and back, and messages that must arrive. */
#include "artifact-bus/transport.h"
#include "base/mem.h"
#include "tests/unit/workers/rig.h"

static bool greeted(struct rig *r, const void *arg)
{
    return r->hellos >= *(const int *)arg;
}

static bool is_parked(struct rig *r, const void *arg)
{
    (void)arg;
    return r->work.parked && r->control.parked;
}

static void test_hello_then_both_calls_wait(void **state)
{
    struct rig *r = *state;
    rig_until(r, is_parked, NULL);
    T_INT(r->hellos, 1);
}

static void test_a_refused_worker_tries_again(void **state)
{
    struct rig *r = *state;
    const int thrice = 3;
    r->refuse_hello = true;
    rig_until(r, greeted, &thrice);
    assert_null(r->work.parked);
    r->refuse_hello = false;
    rig_until(r, is_parked, NULL);
}

static void test_a_refused_call_means_hello_again(void **state)
{
    struct rig *r = *state;
    const int twice = 2;
    rig_until(r, is_parked, NULL);
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "error", "who are you?");
    bh_bus_reply(BH_TAKE(r->work.parked), v);
    rig_until(r, greeted, &twice);
    rig_until(r, is_parked, NULL);
}

static void test_a_result_waits_for_the_engine(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "hang");
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until_said(r, "state 1 running");
    rig_send_kill(r, instance, 7);
    rig_engine_stop(r); /* the kill may or may not have gone out */
    rig_engine_start(r);
    const int twice = 2;
    rig_until(r, greeted, &twice);
    rig_send_kill(r, instance, 7);
    T_INT(rig_result(r, instance)->outcome, BH_OUTCOME_CANCELLED);
}

static size_t said_times(const struct rig *r, const char *part)
{
    size_t n = 0;
    for (const char *at = r->said.data; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

static bool said_twice(struct rig *r, const void *line)
{
    return said_times(r, line) >= 2;
}

static bool destroyed(struct rig *r, const void *line)
{
    return fake_boxes_did(r->boxes, line);
}

/* The engine dies after it has heard of the result and before it has answered: it hears of it again. */
static void test_an_unanswered_result_is_repeated(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "exit:3");
    r->drop_done = true;
    struct bh_instance_id instance = rig_send(r, &lease);
    (void)rig_result(r, instance);
    rig_engine_stop(r);
    r->drop_done = false;
    rig_engine_start(r);
    rig_until(r, said_twice, "done 1\n");
    T_INT(rig_result(r, instance)->exit_code, 3);
    rig_until(r, is_parked, NULL);
    T_INT(said_times(r, "done 1\n"), 2);
}

/* Executions live on while the engine is away, and end. */
static void test_an_execution_ends_without_an_engine(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1", "exit:0");
    rig_add_output(&lease, "a");
    r->boxes->held = "open";
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until_said(r, "state 1 collecting");
    rig_engine_stop(r);
    fake_boxes_go_on(r->boxes);
    rig_until(r, destroyed, "destroy own1");
    rig_engine_start(r);
    const struct bh_result *result = rig_result(r, instance);
    T_INT(result->outcome, BH_OUTCOME_SUCCEEDED);
    rig_expect_object(r, &result->outputs[0], "a", "1");
}

static void test_a_stale_answer_ends_the_matter(void **state)
{
    struct rig *r = *state;
    r->stale = true;
    struct bh_lease lease = RIG_LEASE(r, "exit:0"), next = RIG_LEASE(r, "exit:0");
    (void)rig_run(r, &lease);
    r->stale = false;
    (void)rig_run(r, &next);
    rig_until(r, is_parked, NULL);
    T_INT(r->hellos, 1);
    T_INT(said_times(r, "done 1\n"), 1);
}

static void test_a_lease_told_twice_is_carried_out_once(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "hang");
    struct bh_val *v = bh_lease_to_val(&lease);
    struct bh_lease again = {0};
    T_OK(bh_lease_from_val(v, &again, &err));
    bh_val_free(v);
    struct bh_instance_id instance = rig_send(r, &lease);
    (void)rig_send(r, &again);
    rig_until_said(r, "state 1 running");
    rig_until(r, is_parked, NULL);
    const char *first = strstr(r->boxes->journal.data, "create own1\n");
    T_TRUE(first && !strstr(first + 1, "create own1\n"));
    rig_send_kill(r, instance, 7);
    (void)rig_result(r, instance);
}

static void test_a_lease_that_cannot_be_read(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "exit:0"), next = RIG_LEASE(r, "exit:0");
    rig_set_text(&lease.box.key, "../elsewhere");
    const struct bh_result *result = rig_run(r, &lease);
    T_INT(result->outcome, BH_OUTCOME_FAILED);
    T_STR(result->reason, "host");
    T_TRUE(strstr(result->detail, "taking the work: ") != NULL);
    T_INT(result->epoch, 7);
    T_INT(rig_run(r, &next)->outcome, BH_OUTCOME_SUCCEEDED);
}

static void test_an_unknown_answer_is_passed_over(void **state)
{
    struct rig *r = *state;
    rig_send_box(r, "dance", "crew.1", NULL);
    rig_send_box(r, "freeze", "crew.1", NULL); /* names no layer */
    struct bh_lease lease = RIG_LEASE(r, "exit:0");
    T_INT(rig_run(r, &lease)->outcome, BH_OUTCOME_SUCCEEDED);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hello_then_both_calls_wait),       TEST(test_a_refused_worker_tries_again),
        TEST(test_a_refused_call_means_hello_again), TEST(test_a_result_waits_for_the_engine),
        TEST(test_an_unanswered_result_is_repeated), TEST(test_an_execution_ends_without_an_engine),
        TEST(test_a_stale_answer_ends_the_matter),   TEST(test_a_lease_told_twice_is_carried_out_once),
        TEST(test_a_lease_that_cannot_be_read),      TEST(test_an_unknown_answer_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
