/* SPDX-License-Identifier: Apache-2.0 */
/* Kills, lost boxes and a worker that is taken away, in every phase of an execution. */
#include <signal.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/unit/workers/rig.h"

/* Where an execution can be caught: what to hold or do so that it stands still there. */
enum phase { CREATING, IN_SETUP, IN_RUN, AT_BARRIER, OPENING, N_PHASES };

static bool is_held(struct rig *r, const void *arg)
{
    (void)arg;
    return fake_boxes_has_held(r->boxes);
}

/* Sends a lease and lets it run into the phase. */
static struct bh_instance_id catch_in(struct rig *r, enum phase phase)
{
    static const char *const held[] = {"create", NULL, NULL, "barrier", "open"};
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1", phase == IN_RUN ? "hang" : "exit:0");
    RIG_SETUP(&lease, phase == IN_SETUP ? "hang" : "exit:0");
    rig_add_output(&lease, "a");
    r->boxes->held = held[phase];
    BH_CLEANUP_FREE char *said = bh_asprintf("state %u %s", r->instances, phase == IN_SETUP ? "setup" : "running");
    struct bh_instance_id instance = rig_send(r, &lease);
    if (held[phase])
        rig_until(r, is_held, NULL);
    else
        rig_until_said(r, said);
    return instance;
}

static void test_kill_in_each_phase(void **state)
{
    struct rig *r = *state;
    for (int phase = CREATING; phase < N_PHASES; phase++) {
        struct bh_instance_id instance = catch_in(r, (enum phase)phase);
        rig_send_kill(r, instance, 7);
        const struct bh_result *result = rig_result(r, instance);
        T_INT(result->outcome, BH_OUTCOME_CANCELLED);
        assert_null(result->reason);
        T_STR(result->detail, "cancelled");
        T_INT(result->n_outputs, 0);
        assert_null(result->kept_box);
        T_INT(result->signal, phase == IN_SETUP || phase == IN_RUN ? SIGTERM : 0);
        fake_boxes_go_on(r->boxes);
    }
}

static bool nothing_alive(struct rig *r, const void *arg)
{
    (void)arg;
    return fake_boxes_alive(r->boxes) == 0;
}

/* A box whose making could not be stopped is destroyed once it is there. */
static void test_a_box_that_comes_too_late_is_destroyed(void **state)
{
    struct rig *r = *state;
    struct bh_instance_id instance = catch_in(r, CREATING);
    rig_send_kill(r, instance, 7);
    (void)rig_result(r, instance);
    T_TRUE(!fake_boxes_did(r->boxes, "destroy own1"));
    fake_boxes_go_on(r->boxes);
    rig_until(r, nothing_alive, NULL);
    T_TRUE(fake_boxes_did(r->boxes, "destroy own1"));
}

static void test_a_cancelled_one_that_exits_well_is_cancelled(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1", "graceful");
    rig_add_output(&lease, "a");
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until_said(r, "state 1 running");
    rig_send_kill(r, instance, 7);
    rig_send_kill(r, instance, 7); /* twice is once */
    const struct bh_result *result = rig_result(r, instance);
    T_INT(result->outcome, BH_OUTCOME_CANCELLED);
    T_INT(result->exit_code, 0);
    T_INT(result->n_outputs, 0);
    T_STR(strstr(r->boxes->journal.data, "kill"), "kill 15\ndestroy own1\n");
}

static void test_a_cancelled_one_that_is_stubborn_is_killed(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "stubborn");
    lease.grace_ns = BH_NS_PER_MS;
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until_said(r, "state 1 running");
    rig_send_kill(r, instance, 7);
    const struct bh_result *result = rig_result(r, instance);
    T_INT(result->outcome, BH_OUTCOME_CANCELLED);
    T_INT(result->signal, SIGKILL);
}

/* A kill of another epoch, of nobody, and of one who has ended. */
static void test_stale_kills_are_ignored(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "hang"), other = RIG_LEASE(r, "exit:0");
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until_said(r, "state 1 running");
    rig_send_kill(r, instance, 6);
    rig_send_kill(r, bh_instance_id_make(r->run, 999), 7);
    struct bh_instance_id ended = rig_send(r, &other);
    T_INT(rig_result(r, ended)->outcome, BH_OUTCOME_SUCCEEDED);
    rig_send_kill(r, ended, 7);
    T_TRUE(!rig_said(r, "done 1"));
    T_TRUE(!strstr(r->boxes->journal.data, "kill"));
    rig_send_kill(r, instance, 7);
    T_INT(rig_result(r, instance)->outcome, BH_OUTCOME_CANCELLED);
}

static void test_a_box_lost_in_each_phase(void **state)
{
    struct rig *r = *state;
    for (int phase = IN_SETUP; phase < N_PHASES; phase++) {
        struct bh_instance_id instance = catch_in(r, (enum phase)phase);
        BH_CLEANUP_FREE char *key = bh_asprintf("own%u", r->instances);
        fake_boxes_lose(r->boxes, key);
        const struct bh_result *result = rig_result(r, instance);
        T_INT(result->outcome, BH_OUTCOME_LOST);
        T_STR(result->reason, "box-lost");
        T_TRUE(bh_starts_with(result->detail, "the box died during "));
        T_INT(result->n_outputs, 0);
        assert_null(result->kept_box);
        fake_boxes_go_on(r->boxes);
    }
    rig_until(r, nothing_alive, NULL);
}

/* A box that dies while its outputs are being opened answers with an error first. */
static void lose_it(void *arg, const char *path)
{
    struct rig *r = arg;
    (void)path;
    fake_boxes_lose(r->boxes, "own1");
}

static void test_a_box_lost_before_its_output_is_opened(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1");
    rig_add_output(&lease, "a");
    r->boxes->on_open = lose_it;
    r->boxes->on_open_arg = r;
    const struct bh_result *result = rig_run(r, &lease);
    T_INT(result->outcome, BH_OUTCOME_LOST);
    T_STR(result->detail, "the box died during collecting");
}

/* The worker goes away: boxes are destroyed, nobody calls back into what is freed. */
static void test_the_worker_is_freed_in_each_phase(void **state)
{
    struct rig *r = *state;
    for (int phase = CREATING; phase < N_PHASES; phase++) {
        (void)catch_in(r, (enum phase)phase);
        rig_worker_stop(r);
        fake_boxes_go_on(r->boxes);
        rig_until(r, nothing_alive, NULL);
        rig_worker_again(r);
    }
    T_TRUE(fake_boxes_did(r->boxes, "kill 9"));
    T_TRUE(!strstr(r->said.data, "done"));
}

/* The backend is closed while a command still hangs, as at the end of a process. */
static void test_the_backend_is_closed_with_work_in_it(void **state)
{
    struct rig *r = *state;
    (void)catch_in(r, IN_RUN);
    (void)catch_in(r, OPENING);
    rig_worker_stop(r);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_kill_in_each_phase),
        TEST(test_a_box_that_comes_too_late_is_destroyed),
        TEST(test_a_cancelled_one_that_exits_well_is_cancelled),
        TEST(test_a_cancelled_one_that_is_stubborn_is_killed),
        TEST(test_stale_kills_are_ignored),
        TEST(test_a_box_lost_in_each_phase),
        TEST(test_a_box_lost_before_its_output_is_opened),
        TEST(test_the_worker_is_freed_in_each_phase),
        TEST(test_the_backend_is_closed_with_work_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
