/* SPDX-License-Identifier: Apache-2.0 */
/* Executions whose boxes may reach something: their phases, and every way in which that may end badly. */
#include "base/home.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/unit/workers/rig.h"
#include "tests/unit/workers/sham_broker.h"

#define LISTENS "listen own1 3128"

static void allow(struct bh_lease *lease, enum bh_net_phase phase)
{
    struct bh_lease_network *n = &lease->network[phase];
    n->kind = BH_NET_ALLOW;
    n->allow = bh_calloc(1, sizeof(*n->allow));
    n->allow[0] = bh_strdup("good.example.org:443");
    n->n_allow = 1;
}

static void add_endpoint(struct bh_lease *lease)
{
    lease->endpoints = bh_calloc(1, sizeof(*lease->endpoints));
    lease->n_endpoints = 1;
    lease->endpoints[0].name = bh_strdup("llm");
    lease->endpoints[0].upstream = bh_strdup("https://x.org");
    lease->max_tokens = 50;
}

static struct bh_lease lease_of(struct rig *r, const char *role, const char *step)
{
    struct bh_lease lease = RIG_LEASE(r, step);
    rig_set_text(&lease.agent, role);
    return lease;
}

static bool did(struct rig *r, const void *line)
{
    return fake_boxes_did(r->boxes, line);
}

static void test_phases_in_one_box(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = lease_of(r, "good", "env:HTTP_PROXY");
    RIG_SETUP(&lease, "env:HTTP_PROXY");
    allow(&lease, BH_NET_RUN);
    struct bh_instance_id instance = rig_send(r, &lease);
    const struct bh_result *result = rig_result(r, instance);
    T_INT(result->outcome, BH_OUTCOME_SUCCEEDED);
    T_STR(result->detail, "1 connection or call was denied: bad.example.org:443 (not-listed)");
    BH_CLEANUP_FREE char *log = rig_log(r, instance);
    assert_true(bh_starts_with(log, "HTTP_PROXY unset\nHTTP_PROXY=http://127.0.0.1:"));
    T_TRUE(fake_boxes_did(r->boxes, LISTENS));
}

static void test_nothing_is_opened_for_who_reaches_nothing(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = lease_of(r, "dies", "exit:0");
    allow(&lease, BH_NET_SETUP); /* which it has not */
    T_INT(rig_run(r, &lease)->outcome, BH_OUTCOME_SUCCEEDED);
    T_TRUE(!fake_boxes_did(r->boxes, LISTENS));
}

static void test_the_check_has_its_own(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = lease_of(r, "good", "env:HTTP_PROXY");
    static const char *const check[] = {"check", "env:HTTP_PROXY", NULL};
    rig_set_argv(&lease.check.argv, &lease.check.n_argv, check);
    allow(&lease, BH_NET_CHECK);
    struct bh_instance_id instance = rig_send(r, &lease);
    T_INT(rig_result(r, instance)->outcome, BH_OUTCOME_SUCCEEDED);
    BH_CLEANUP_FREE char *log = rig_log(r, instance);
    assert_true(bh_starts_with(log, "HTTP_PROXY unset\nHTTP_PROXY=http://127.0.0.1:"));
    T_TRUE(fake_boxes_did(r->boxes, "listen own1.check 3128") && !fake_boxes_did(r->boxes, LISTENS));
}

static void test_the_setup_of_a_shared_box(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = lease_of(r, "good", "env:HTTP_PROXY");
    rig_set_shared(&lease, "crew.1");
    RIG_BOX_SETUP(&lease, "env:HTTP_PROXY");
    allow(&lease, BH_NET_SETUP);
    struct bh_instance_id instance = rig_send(r, &lease);
    T_INT(rig_result(r, instance)->outcome, BH_OUTCOME_SUCCEEDED);
    BH_CLEANUP_FREE char *log = rig_log(r, instance);
    assert_true(bh_starts_with(log, "HTTP_PROXY=http://127.0.0.1:"));
    assert_non_null(strstr(log, "\nHTTP_PROXY unset\n"));
}

static void test_brokers_that_cannot(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *role, *part;
    } rows[] = {
        {"refuses", "opening what its box may reach: the network cannot be had: the secret 'KEY' is empty"},
        {"dies", "has ended"},
        {"nonsense", "has ended"},
        {"dies-soon", "the broker through which"}, /* before or after `run` began */
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_lease lease = lease_of(r, rows[i].role, "hang");
        allow(&lease, BH_NET_RUN);
        const struct bh_result *result = rig_run(r, &lease);
        T_INT(result->outcome, BH_OUTCOME_FAILED);
        T_STR(result->reason, "host");
        if (!strstr(result->detail, rows[i].part))
            fail_msg("%s: %s", rows[i].role, result->detail);
    }
}

static void test_a_shared_box_whose_broker_cannot(void **state)
{
    struct rig *r = *state;
    static const char *const roles[] = {"refuses", "dies", "dies-soon"};
    for (size_t i = 0; i < BH_ARRAY_LEN(roles); i++) {
        BH_CLEANUP_FREE char *key = bh_asprintf("crew.%zu", i);
        struct bh_lease lease = lease_of(r, roles[i], "exit:0");
        rig_set_shared(&lease, key);
        RIG_BOX_SETUP(&lease, "hang");
        allow(&lease, BH_NET_SETUP);
        const struct bh_result *result = rig_run(r, &lease);
        T_INT(result->outcome, BH_OUTCOME_FAILED);
        T_STR(result->reason, "host");
    }
}

static void test_the_budget_ends_it(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = lease_of(r, "calls", "hang");
    add_endpoint(&lease);
    const struct bh_result *result = rig_run(r, &lease);
    T_INT(result->outcome, BH_OUTCOME_FAILED);
    T_STR(result->reason, "budget");
    assert_non_null(strstr(result->detail, "it has used up its 50 tokens (limits.tokens)"));
    T_INT(result->requests, 3);
    T_INT(result->tokens_in, 40);
    T_INT(result->tokens_out, 5);
}

/* One that never answers when it is opened. */
static struct bh_instance_id send_silent(struct rig *r)
{
    struct bh_lease lease = lease_of(r, "silent", "exit:0");
    allow(&lease, BH_NET_RUN);
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until(r, did, LISTENS);
    return instance;
}

static void test_a_kill_while_it_is_opened(void **state)
{
    struct rig *r = *state;
    struct bh_instance_id instance = send_silent(r);
    rig_send_kill(r, instance, 7);
    T_INT(rig_result(r, instance)->outcome, BH_OUTCOME_CANCELLED);
}

static void test_a_box_lost_while_it_is_opened(void **state)
{
    struct rig *r = *state;
    struct bh_instance_id instance = send_silent(r);
    fake_boxes_lose(r->boxes, "own1");
    T_INT(rig_result(r, instance)->outcome, BH_OUTCOME_LOST);
}

static void test_a_worker_taken_away_while_it_is_opened(void **state)
{
    struct rig *r = *state;
    (void)send_silent(r); /* the teardown does it */
}

static void test_an_audit_log_that_cannot_be_written_is_told(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = lease_of(r, "good", "exit:0");
    allow(&lease, BH_NET_RUN);
    const struct bh_result *result = rig_run(r, &lease);
    T_INT(result->outcome, BH_OUTCOME_SUCCEEDED);
    assert_true(bh_starts_with(result->detail, "its decisions could not be written to the audit log: "));
}

/* The rig's folder is no state directory until somebody makes one of it. */
static int set_up(void **state)
{
    struct bh_home home;
    int rc = rig_setup(state);
    T_OK(bh_home_open(((struct rig *)*state)->home, true, &home, &err));
    bh_home_close(&home);
    return rc;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, rig_teardown)

static int all_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_phases_in_one_box),
        TEST(test_nothing_is_opened_for_who_reaches_nothing),
        TEST(test_the_check_has_its_own),
        TEST(test_the_setup_of_a_shared_box),
        TEST(test_brokers_that_cannot),
        TEST(test_a_shared_box_whose_broker_cannot),
        TEST(test_the_budget_ends_it),
        TEST(test_a_kill_while_it_is_opened),
        TEST(test_a_box_lost_while_it_is_opened),
        TEST(test_a_worker_taken_away_while_it_is_opened),
        cmocka_unit_test_setup_teardown(test_an_audit_log_that_cannot_be_written_is_told, rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    (void)argc;
    return sham_broker_main(argv, all_tests);
}
