/* SPDX-License-Identifier: Apache-2.0 */
/* Leases that make snapshots, and leases that are judged, in fake boxes: the order of things, and every way to end. */
#include <signal.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/unit/workers/rig.h"

#define K "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define STEPS(...)                \
    (const char *const[])         \
    {                             \
        "fake", __VA_ARGS__, NULL \
    }

static bool folder_exists(const struct rig *r, const char *name)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/%s", r->home, r->run.s, name);
    return access(path, F_OK) == 0;
}

static const struct bh_result *expect(const struct bh_result *result, enum bh_outcome outcome, const char *reason,
                                      const char *detail)
{
    if (result->outcome != outcome || !bh_streq(result->reason, reason) ||
        (detail && (!result->detail || !strstr(result->detail, detail))))
        fail_msg("outcome %d, reason %s, detail: %s\nwanted %d, %s, '%s'", (int)result->outcome,
                 result->reason ? result->reason : "none", result->detail ? result->detail : "none", (int)outcome,
                 reason ? reason : "none", detail ? detail : "");
    return result;
}

static struct bh_lease preparing(struct rig *r, const char *const *argv)
{
    struct bh_lease lease = RIG_LEASE(r, "exit:0");
    lease.kind = BH_LEASE_PREPARE;
    lease.attempt = 0;
    lease.snapshot_key = bh_strdup(K);
    lease.prepare_ns = 60 * BH_NS_PER_S;
    rig_set_argv(&lease.prepare, &lease.n_prepare, argv);
    return lease;
}

static struct bh_lease judged(struct rig *r, const char *const *argv, bool fresh)
{
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1");
    lease.check_ns = 60 * BH_NS_PER_S;
    lease.check.fresh = fresh;
    rig_set_argv(&lease.check.argv, &lease.check.n_argv, argv);
    rig_add_output(&lease, "a");
    return lease;
}

/* --- snapshots --- */

static void test_what_is_made_is_frozen_and_found(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = preparing(r, STEPS("out:made\\n"));
    const struct bh_result *made = expect(rig_run(r, &lease), BH_OUTCOME_SUCCEEDED, NULL, NULL);
    T_INT(made->n_snapshots, 1);
    T_STR(made->snapshots[0], K);
    T_TRUE(!made->snapshot_reused && !made->passed && !made->kept_box);
    T_TRUE(fake_boxes_did(r->boxes, "destroy own1 keep"));
    T_TRUE(!folder_exists(r, "boxes/own1"));
    lease = preparing(r, STEPS("out:made\\n"));
    const struct bh_result *found = expect(rig_run(r, &lease), BH_OUTCOME_SUCCEEDED, NULL, NULL);
    T_TRUE(found->snapshot_reused);
    T_TRUE(!fake_boxes_did(r->boxes, "create own2"));
    lease = RIG_LEASE(r, "exit:0");
    lease.box.n_snapshots = 1;
    lease.box.snapshots = bh_calloc(1, sizeof(char *));
    lease.box.snapshots[0] = bh_strdup(K);
    const struct bh_result *attempt = expect(rig_run(r, &lease), BH_OUTCOME_SUCCEEDED, NULL, NULL);
    T_TRUE(fake_boxes_did(r->boxes, "create own3 from " K));
    T_TRUE(attempt->snapshot && bh_starts_with(attempt->snapshot, "sha256:"));
}

static void test_bad_making(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = preparing(r, STEPS("exit:1"));
    const struct bh_result *bad = expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "exit", "prepare exited with code 1");
    T_INT(bad->n_snapshots, 0);
    T_TRUE(bad->kept_box != NULL); /* to be looked into */
    T_TRUE(fake_boxes_did(r->boxes, "destroy own1 keep"));
    T_TRUE(folder_exists(r, "boxes/own1"));
    lease = preparing(r, STEPS("exit:1"));
    lease.keep = BH_LEASE_KEEP_NEVER;
    T_TRUE(!expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "exit", "prepare exited with code 1")->kept_box);
    T_TRUE(fake_boxes_did(r->boxes, "destroy own2"));
    lease = preparing(r, STEPS("exit:0"));
    r->boxes->fail_create = -BH_E_HOST;
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "host", "making the box");
    lease = RIG_LEASE(r, "exit:0");
    lease.box.n_snapshots = 1;
    lease.box.snapshots = bh_calloc(1, sizeof(char *));
    lease.box.snapshots[0] = bh_strdup(K);
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "host",
           "starting from the prepared state: snapshot 'aaaaaaaaaaaa' is gone");
}

static bool is_held(struct rig *r, const void *arg)
{
    (void)arg;
    return fake_boxes_has_held(r->boxes);
}

static void test_cancel_while_its_box_ends(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = preparing(r, STEPS("exit:0"));
    r->boxes->held = "destroy";
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until(r, is_held, NULL);
    rig_send_kill(r, instance, 7);
    expect(rig_result(r, instance), BH_OUTCOME_CANCELLED, NULL, "cancelled");
    fake_boxes_go_on(r->boxes);
    T_TRUE(!folder_exists(r, "snapshots"));
}

/* --- checks --- */

static void test_the_order_of_a_check(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = judged(r, STEPS("env:PATH", "env:COLOUR", "cat:in/a"), true);
    const struct bh_result *good = expect(rig_run(r, &lease), BH_OUTCOME_SUCCEEDED, NULL, NULL);
    T_TRUE(good->passed && good->n_outputs == 1 && !good->kept_box);
    T_TRUE(fake_boxes_did(r->boxes, "destroy own1 keep"));
    T_TRUE(fake_boxes_did(r->boxes, "create own1.check"));
    T_TRUE(fake_boxes_did(r->boxes, "destroy own1.check"));
    BH_CLEANUP_FREE char *log = rig_log(r, good->instance);
    T_STR(log, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nCOLOUR=blue\n1\\|");
    lease = judged(r, STEPS("exit:1"), false);
    const struct bh_result *bad = expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "check", "check exited with code 1");
    T_TRUE(!bad->passed && bad->n_outputs == 1);
    T_STR(bad->kept_box + strlen("runs/") + BH_ID_LEN, "/boxes/own2");
    T_TRUE(fake_boxes_did(r->boxes, "create own2.check workspace of own2"));
    T_TRUE(folder_exists(r, "boxes/own2"));
}

static void test_bad_ends_of_a_check(void **state)
{
    static const struct {
        const char *step;
        enum bh_outcome outcome;
        const char *reason, *detail;
    } rows[] = {
        {"exit:3", BH_OUTCOME_FAILED, "check", "check exited with code 3"},
        {"signal:11", BH_OUTCOME_FAILED, "check", "check was ended by signal 11"},
        {"fail:2=enter the working directory '/x'", BH_OUTCOME_FAILED, "check", "cannot enter the working directory"},
        {"fail:28=mount something", BH_OUTCOME_FAILED, "host", "cannot mount something"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct rig *r = *state;
        struct bh_lease lease = judged(r, STEPS(rows[i].step), false);
        expect(rig_run(r, &lease), rows[i].outcome, rows[i].reason, rows[i].detail);
    }
}

static void test_limits_in_a_check(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = judged(r, STEPS("hit:oom", "signal:9"), true);
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "oom", "check was ended by signal 9");
    lease = judged(r, STEPS("hang"), true);
    lease.check_ns = 1;
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "timeout(check)", "check took longer than");
}

/* What fails before the outputs are in is never judged. */
static void test_no_check_of_what_failed(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = judged(r, STEPS("exit:0"), true);
    RIG_RUN(&lease, "fake", "exit:2");
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "exit", "run exited with code 2");
    lease = judged(r, STEPS("exit:0"), true);
    RIG_RUN(&lease, "fake", "exit:0");
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "output-missing", "'a' is missing");
    T_TRUE(!fake_boxes_did(r->boxes, "create own1.check") && !fake_boxes_did(r->boxes, "create own2.check"));
}

static bool created(struct rig *r, const void *arg)
{
    return fake_boxes_did(r->boxes, arg);
}

static void test_the_box_of_a_check_cannot_be_had(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = judged(r, STEPS("exit:0"), true);
    r->boxes->held = "destroy";
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until(r, is_held, NULL);
    r->boxes->fail_create = -BH_E_HOST;
    fake_boxes_go_on(r->boxes);
    expect(rig_result(r, instance), BH_OUTCOME_FAILED, "host", "making the box of the check");
}

static void test_the_box_of_a_check_dies(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = judged(r, STEPS("hang"), true);
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until(r, created, "exec own1.check fake hang in /workspace");
    fake_boxes_lose(r->boxes, "own1.check");
    expect(rig_result(r, instance), BH_OUTCOME_LOST, "box-lost", "the box died during check");
    lease = judged(r, STEPS("exit:0"), true);
    lease.check.score = bh_strdup("score");
    r->boxes->held = "open";
    instance = rig_send(r, &lease);
    rig_until(r, is_held, NULL); /* the output */
    r->boxes->held = NULL;
    fake_boxes_go_on(r->boxes);
    const struct bh_result *result = rig_result(r, instance);
    T_TRUE(result->passed && !result->has_score);
    assert_non_null(strstr(result->detail, "score file 'score' is missing"));
}

/* From where its box ends on. */
static void stop_at(struct rig *r, const char *call)
{
    if (bh_streq(call, "destroy"))
        return;
    fake_boxes_go_on(r->boxes);
    r->boxes->held = call;
    rig_until(r, is_held, NULL);
}

static void test_cancel_in_each_phase(void **state)
{
    static const char *const held[] = {"destroy", "create", "barrier", "open"};
    struct rig *r = *state;
    for (size_t i = 0; i < BH_ARRAY_LEN(held); i++) {
        struct bh_lease lease = judged(r, STEPS("exit:0"), i % 2);
        lease.check.score = bh_strdup("score");
        r->boxes->held = "destroy";
        struct bh_instance_id instance = rig_send(r, &lease);
        rig_until(r, is_held, NULL);
        stop_at(r, held[i]);
        rig_send_kill(r, instance, 7);
        expect(rig_result(r, instance), BH_OUTCOME_CANCELLED, NULL, "cancelled");
        fake_boxes_go_on(r->boxes);
    }
}

static void test_the_worker_goes_away(void **state)
{
    static const char *const held[] = {"destroy", "create", "barrier", "open"};
    struct rig *r = *state;
    for (size_t i = 0; i < BH_ARRAY_LEN(held); i++) {
        struct bh_lease lease = judged(r, STEPS("exit:0"), i % 2);
        lease.check.score = bh_strdup("score");
        r->boxes->held = "destroy";
        (void)rig_send(r, &lease);
        rig_until(r, is_held, NULL);
        stop_at(r, held[i]);
        rig_worker_stop(r);
        fake_boxes_go_on(r->boxes);
        rig_worker_again(r);
    }
}

static void test_scores(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = judged(r, STEPS("write:s/score=2.5"), true);
    lease.check.score = bh_strdup("s/score");
    const struct bh_result *good = expect(rig_run(r, &lease), BH_OUTCOME_SUCCEEDED, NULL, NULL);
    T_TRUE(good->has_score && good->score == 2.5);
    assert_null(good->detail);
    lease = RIG_LEASE(r, "write:score=1e999");
    lease.check.score = bh_strdup("score");
    const struct bh_result *bad = expect(rig_run(r, &lease), BH_OUTCOME_SUCCEEDED, NULL,
                                         "no score: score file 'score' does not hold one finite decimal number");
    T_TRUE(bad->passed && !bad->has_score);
    lease = judged(r, STEPS("write:score=7", "exit:1"), true);
    lease.check.score = bh_strdup("score");
    T_TRUE(!expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "check", NULL)->has_score);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_made_is_frozen_and_found),
        TEST(test_bad_making),
        TEST(test_cancel_while_its_box_ends),
        TEST(test_the_order_of_a_check),
        TEST(test_bad_ends_of_a_check),
        TEST(test_limits_in_a_check),
        TEST(test_no_check_of_what_failed),
        TEST(test_the_box_of_a_check_cannot_be_had),
        TEST(test_the_box_of_a_check_dies),
        TEST(test_cancel_in_each_phase),
        TEST(test_the_worker_goes_away),
        TEST(test_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
