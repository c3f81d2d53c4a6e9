/* SPDX-License-Identifier: Apache-2.0 */
/* Several leases in one box: making it, setting it up, taking turns, freezing, letting go, losing it. */
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/unit/workers/rig.h"

static const struct bh_result *expect(const struct bh_result *result, enum bh_outcome outcome, const char *detail)
{
    if (result->outcome != outcome || (detail && (!result->detail || !strstr(result->detail, detail))))
        fail_msg("outcome %d, detail: %s; wanted %d, '%s'", (int)result->outcome,
                 result->detail ? result->detail : "none", (int)outcome, detail ? detail : "");
    return result;
}

#define SUCCEEDED BH_OUTCOME_SUCCEEDED
#define FAILED BH_OUTCOME_FAILED

static struct bh_lease crew_lease(struct rig *r, const char *const *steps)
{
    struct bh_lease lease = rig_lease(r, steps);
    rig_set_shared(&lease, "crew.1");
    return lease;
}
#define CREW(r, ...) crew_lease((r), (const char *const[]){__VA_ARGS__, NULL})

static size_t count(const struct rig *r, const char *part)
{
    size_t n = 0;
    for (const char *at = r->boxes->journal.data; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

static bool exists(const struct rig *r, const char *name)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/%s", r->home, r->run.s, name);
    return access(path, F_OK) == 0;
}

static void test_two_agents_one_box(void **state)
{
    struct rig *r = *state;
    struct bh_lease first = CREW(r, "write:out/notes=seen", "write:shared=1"), second = CREW(r, "cat:shared");
    rig_add_output(&first, "notes");
    const struct bh_result *one = expect(rig_run(r, &first), SUCCEEDED, NULL);
    rig_expect_object(r, &one->outputs[0], "notes", "seen");
    const struct bh_result *two = expect(rig_run(r, &second), SUCCEEDED, NULL);
    BH_CLEANUP_FREE char *log = rig_log(r, two->instance);
    T_STR(log, "1\\|");
    T_INT(count(r, "create crew.1 shared\n"), 1);
    T_INT(count(r, "destroy"), 0);
    BH_CLEANUP_FREE char *delivered = bh_asprintf("boxes/crew.1/deliver/%s", one->instance.s);
    T_TRUE(exists(r, "boxes/crew.1/deliver"));
    T_TRUE(!exists(r, delivered));
}

static void add_box_file(struct rig *r, struct bh_lease *lease, const char *path, const char *text)
{
    lease->box.files = bh_calloc(1, sizeof(*lease->box.files));
    lease->box.n_files = 1;
    lease->box.files[0] = (struct bh_lease_file){.path = bh_strdup(path), .object = rig_store(r, text)};
}

static void test_the_setup_of_a_box_runs_once(void **state)
{
    struct rig *r = *state;
    for (int i = 0; i < 3; i++) {
        struct bh_lease lease = CREW(r, "cat:tool", "cat:made");
        add_box_file(r, &lease, "tool", "T");
        RIG_BOX_SETUP(&lease, "out:making\\n", "write:made=M", "env:HOME", "env:BULKHEAD_RUN", "env:BULKHEAD_AGENT",
                      "env:BULKHEAD_PARAM_TOPIC", "env:COLOUR");
        (void)rig_send(r, &lease);
    }
    for (unsigned i = 1; i <= 3; i++) {
        const struct bh_result *result = expect(rig_result(r, bh_instance_id_make(r->run, i)), SUCCEEDED, NULL);
        BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
        BH_CLEANUP_FREE char *made = bh_asprintf("making\nHOME=/root\nBULKHEAD_RUN=%s\nBULKHEAD_AGENT unset\n"
                                                 "BULKHEAD_PARAM_TOPIC=boxes\nCOLOUR unset\n",
                                                 r->run.s);
        BH_CLEANUP_FREE char *want = bh_asprintf("%sTM\\|", i == 1 ? made : "");
        T_STR(log, want);
    }
    T_INT(count(r, "out:making"), 1);
    T_INT(count(r, "env:COLOUR as root give in /workspace\n"), 1);
}

static void test_files_without_a_setup_come_too(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = CREW(r, "cat:tool");
    add_box_file(r, &lease, "tool", "T");
    const struct bh_result *result = expect(rig_run(r, &lease), SUCCEEDED, NULL);
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    T_STR(log, "T\\|");
}

static void test_a_box_from_layers_needs_no_setup(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = CREW(r, "exit:0");
    RIG_BOX_SETUP(&lease, "exit:1");
    lease.box.layers = bh_calloc(1, sizeof(*lease.box.layers));
    lease.box.layers[0] = bh_strdup("crew.0");
    lease.box.n_layers = 1;
    expect(rig_run(r, &lease), SUCCEEDED, NULL);
    T_TRUE(fake_boxes_did(r->boxes, "create crew.1 shared on crew.0"));
    T_INT(count(r, "exec"), 1);
}

/* All who wait for a box whose setup fails fail alike; the next one has it made again. */
static void test_a_setup_of_a_box_that_fails(void **state)
{
    struct rig *r = *state;
    r->boxes->held = "create";
    for (int i = 0; i < 2; i++) {
        struct bh_lease lease = CREW(r, "exit:0");
        RIG_BOX_SETUP(&lease, "exit:3");
        (void)rig_send(r, &lease);
    }
    rig_until_said(r, "state 2 booting");
    fake_boxes_go_on(r->boxes);
    for (unsigned i = 1; i <= 2; i++) {
        const struct bh_result *result = rig_result(r, bh_instance_id_make(r->run, i));
        expect(result, FAILED, "setup of box 'crew' exited with code 3");
        T_STR(result->reason, "exit");
        T_INT(result->exit_code, 3);
    }
    T_TRUE(fake_boxes_did(r->boxes, "destroy crew.1"));
    struct bh_lease again = CREW(r, "exit:0");
    RIG_BOX_SETUP(&again, "exit:0");
    expect(rig_run(r, &again), SUCCEEDED, NULL);
    T_INT(count(r, "create crew.1 shared\n"), 2);
}

static void test_a_setup_of_a_box_that_takes_too_long(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = CREW(r, "exit:0");
    RIG_BOX_SETUP(&lease, "hang");
    lease.setup_ns = BH_NS_PER_MS;
    const struct bh_result *result = expect(rig_run(r, &lease), FAILED, "setup of box 'crew' took longer than");
    T_STR(result->reason, "timeout(setup)");
}

static void test_a_shared_box_that_cannot_be_made(void **state)
{
    struct rig *r = *state;
    r->boxes->fail_create = -BH_E_HOST;
    struct bh_lease lease = CREW(r, "exit:0"), next = CREW(r, "exit:0");
    const struct bh_result *result = expect(rig_run(r, &lease), FAILED, "making the box: the fake refuses to create");
    T_STR(result->reason, "host");
    expect(rig_run(r, &next), SUCCEEDED, NULL);
}

/* Who had the box made goes away while it is set up: the others still get it. */
static void test_the_first_one_is_killed_while_the_box_is_set_up(void **state)
{
    struct rig *r = *state;
    struct bh_lease first = CREW(r, "exit:0"), second = CREW(r, "exit:0");
    RIG_BOX_SETUP(&first, "hang");
    struct bh_instance_id one = rig_send(r, &first), two = rig_send(r, &second);
    rig_until_said(r, "state 2 booting");
    rig_send_kill(r, one, 7);
    T_INT(rig_result(r, one)->outcome, BH_OUTCOME_CANCELLED);
    T_TRUE(!strstr(r->boxes->journal.data, "kill")); /* it is still wanted */
    rig_send_kill(r, two, 7);
    T_INT(rig_result(r, two)->outcome, BH_OUTCOME_CANCELLED);
    T_TRUE(fake_boxes_did(r->boxes, "destroy crew.1")); /* now it is not */
    struct bh_lease third = CREW(r, "exit:0");
    expect(rig_run(r, &third), SUCCEEDED, NULL);
}

static bool is_hanging_twice(struct rig *r, const void *arg)
{
    (void)arg;
    return count(r, "exec crew.1 fake hang") == 2;
}

static void test_setups_take_turns(void **state)
{
    struct rig *r = *state;
    struct bh_instance_id ids[3];
    for (int i = 0; i < 3; i++) {
        struct bh_lease lease = CREW(r, "exit:0");
        RIG_SETUP(&lease, i < 2 ? "hang" : "exit:0");
        ids[i] = rig_send(r, &lease);
    }
    struct bh_lease free_one = CREW(r, "exit:0"); /* has none: need not wait */
    expect(rig_run(r, &free_one), SUCCEEDED, NULL);
    T_INT(count(r, "exec crew.1 fake hang"), 1);
    rig_send_kill(r, ids[0], 7); /* the turn goes on */
    rig_until(r, is_hanging_twice, NULL);
    T_TRUE(!rig_said(r, "state 3 setup"));
    rig_send_kill(r, ids[1], 7);
    expect(rig_result(r, ids[2]), SUCCEEDED, NULL);
}

static void test_one_is_killed_while_it_waits_for_its_turn(void **state)
{
    struct rig *r = *state;
    struct bh_lease first = CREW(r, "exit:0"), second = CREW(r, "exit:0");
    RIG_SETUP(&first, "hang");
    RIG_SETUP(&second, "exit:0");
    struct bh_instance_id one = rig_send(r, &first), two = rig_send(r, &second);
    rig_until_said(r, "state 1 setup");
    rig_until_said(r, "state 2 booting");
    rig_send_kill(r, two, 7);
    T_INT(rig_result(r, two)->outcome, BH_OUTCOME_CANCELLED);
    rig_send_kill(r, one, 7);
    T_INT(rig_result(r, one)->outcome, BH_OUTCOME_CANCELLED);
    T_TRUE(!rig_said(r, "state 2 setup"));
}

static void test_a_shared_box_that_dies(void **state)
{
    struct rig *r = *state;
    struct bh_lease runs = CREW(r, "hang"), sets_up = CREW(r, "exit:0"), waits = CREW(r, "exit:0");
    RIG_SETUP(&sets_up, "hang");
    RIG_SETUP(&waits, "exit:0");
    struct bh_instance_id ids[] = {rig_send(r, &runs), rig_send(r, &sets_up), rig_send(r, &waits)};
    rig_until_said(r, "state 1 running");
    rig_until_said(r, "state 2 setup");
    rig_until_said(r, "state 3 booting");
    fake_boxes_lose(r->boxes, "crew.1");
    for (size_t i = 0; i < BH_ARRAY_LEN(ids); i++) {
        const struct bh_result *result = rig_result(r, ids[i]);
        T_INT(result->outcome, BH_OUTCOME_LOST);
        T_STR(result->reason, "box-lost");
    }
    struct bh_lease again = CREW(r, "exit:0");
    expect(rig_run(r, &again), SUCCEEDED, NULL);
}

/* --- freeze and release --- */

static void test_a_quiet_box_is_frozen(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = CREW(r, "write:x=1");
    expect(rig_run(r, &lease), SUCCEEDED, NULL);
    rig_send_box(r, "freeze", "crew.1", "layer-1");
    rig_until_said(r, "frozen crew.1 layer-1 ok");
    T_TRUE(exists(r, "layers/layer-1/workspace/x"));
    T_TRUE(!exists(r, "boxes/crew.1"));
    rig_send_box(r, "freeze", "crew.1", "layer-2");
    rig_until_said(r, "frozen crew.1 layer-2 box 'crew.1' does not live on this worker");
}

static void test_a_busy_box_is_not_frozen(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = CREW(r, "hang");
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until_said(r, "state 1 running");
    rig_send_box(r, "freeze", "crew.1", "l");
    rig_until_said(r, "frozen crew.1 l box 'crew.1' has an agent in it");
    rig_send_kill(r, instance, 7);
    (void)rig_result(r, instance);
    r->boxes->fail_freeze = -BH_E_DISK_FULL;
    rig_send_box(r, "freeze", "crew.1", "l");
    rig_until_said(r, "frozen crew.1 l the fake refuses to freeze");
}

/* Who comes while the old box is being frozen gets a new one. */
static void test_one_comes_while_the_box_is_frozen(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = CREW(r, "exit:0"), late = CREW(r, "exit:0");
    expect(rig_run(r, &lease), SUCCEEDED, NULL);
    r->boxes->held = "freeze";
    rig_send_box(r, "freeze", "crew.1", "l");
    struct bh_instance_id instance = rig_send(r, &late);
    rig_until_said(r, "state 2 booting");
    fake_boxes_go_on(r->boxes);
    expect(rig_result(r, instance), SUCCEEDED, NULL);
    T_TRUE(rig_said(r, "frozen crew.1 l ok"));
    T_INT(count(r, "create crew.1 shared\n"), 2);
}

static void test_release(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = CREW(r, "hang"), other = CREW(r, "exit:0");
    rig_send_box(r, "release", "nobody", NULL);
    rig_until_said(r, "released nobody");
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until_said(r, "state 1 running");
    rig_send_box(r, "release", "crew.1", NULL);
    rig_set_text(&other.box.key, "crew.2");
    expect(rig_run(r, &other), SUCCEEDED, NULL);
    T_TRUE(!rig_said(r, "released crew.1")); /* somebody is in it */
    rig_send_kill(r, instance, 7);
    rig_until_said(r, "released crew.1");
    T_TRUE(fake_boxes_did(r->boxes, "destroy crew.1"));
    rig_send_box(r, "release", "crew.2", NULL);
    rig_until_said(r, "released crew.2");
}

static void test_the_worker_is_freed_with_shared_boxes(void **state)
{
    struct rig *r = *state;
    struct bh_lease ready = CREW(r, "exit:0"), making = CREW(r, "exit:0"), frozen = CREW(r, "exit:0");
    rig_set_text(&making.box.key, "crew.2");
    rig_set_text(&frozen.box.key, "crew.3");
    RIG_BOX_SETUP(&making, "hang");
    expect(rig_run(r, &ready), SUCCEEDED, NULL);
    expect(rig_run(r, &frozen), SUCCEEDED, NULL);
    (void)rig_send(r, &making);
    rig_until_said(r, "state 2 booting");
    r->boxes->held = "freeze";
    rig_send_box(r, "freeze", "crew.3", "l");
    struct bh_lease last = RIG_LEASE(r, "exit:0");
    expect(rig_run(r, &last), SUCCEEDED, NULL); /* the freeze has been asked for by now */
    rig_worker_stop(r);
    T_TRUE(fake_boxes_did(r->boxes, "destroy crew.1"));
    T_TRUE(fake_boxes_did(r->boxes, "destroy crew.2"));
}

/* --- trying again --- */

static void test_a_second_try_finds_its_outputs_gone(void **state)
{
    struct rig *r = *state;
    struct bh_lease first = CREW(r, "write:out/a=old", "write:kept=1", "exit:1"),
                    second = CREW(r, "cat:out/a", "cat:kept");
    rig_add_output(&first, "a");
    rig_add_output(&second, "a");
    second.try_ = 2;
    expect(rig_run(r, &first), FAILED, NULL);
    const struct bh_result *result = expect(rig_run(r, &second), FAILED, "declared output 'a' is missing");
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    T_STR(log, "absent1\\|");
}

/* The matches of a glob that an earlier try left are not this one's. */
static void test_a_second_try_does_not_publish_the_first_ones_matches(void **state)
{
    struct rig *r = *state;
    struct bh_lease first =
                        CREW(r, "write:out/old.json=1", "write:out/sub/old.json=1", "write:out/kept.txt=1", "exit:1"),
                    second = CREW(r, "write:out/new.json=2", "cat:out/old.json", "cat:out/kept.txt");
    for (int i = 0; i < 2; i++) {
        struct bh_lease *lease = i ? &second : &first;
        rig_add_output(lease, "a.json")->optional = true;
        rig_add_glob(lease, "*.json");
        rig_add_glob(lease, "sub/**")->optional = true;
    }
    second.try_ = 2;
    expect(rig_run(r, &first), FAILED, NULL);
    const struct bh_result *result = expect(rig_run(r, &second), SUCCEEDED, NULL);
    T_INT(result->n_outputs, 1);
    rig_expect_object(r, &result->outputs[0], "new.json", "2");
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    T_STR(log, "absent1\\|");
}

static bool is_held(struct rig *r, const void *arg)
{
    (void)arg;
    return fake_boxes_has_held(r->boxes);
}

static bool is_quiet(struct rig *r, const void *arg)
{
    (void)arg;
    return fake_boxes_is_quiet(r->boxes);
}

static void test_a_second_try_is_killed_or_lost_while_it_looks(void **state)
{
    struct rig *r = *state;
    for (int lose = 0; lose < 2; lose++) {
        struct bh_lease lease = CREW(r, "exit:0");
        rig_add_glob(&lease, "*.json");
        lease.try_ = 2;
        r->boxes->held = "open";
        struct bh_instance_id instance = rig_send(r, &lease);
        rig_until(r, is_held, NULL);
        if (lose)
            fake_boxes_lose(r->boxes, "crew.1");
        else
            rig_send_kill(r, instance, 7);
        expect(rig_result(r, instance), lose ? BH_OUTCOME_LOST : BH_OUTCOME_CANCELLED, NULL);
        fake_boxes_go_on(r->boxes);
        rig_until(r, is_quiet, NULL); /* or the next round holds this one's answer */
    }
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_two_agents_one_box),
        TEST(test_the_setup_of_a_box_runs_once),
        TEST(test_files_without_a_setup_come_too),
        TEST(test_a_box_from_layers_needs_no_setup),
        TEST(test_a_setup_of_a_box_that_fails),
        TEST(test_a_setup_of_a_box_that_takes_too_long),
        TEST(test_a_shared_box_that_cannot_be_made),
        TEST(test_the_first_one_is_killed_while_the_box_is_set_up),
        TEST(test_setups_take_turns),
        TEST(test_one_is_killed_while_it_waits_for_its_turn),
        TEST(test_a_shared_box_that_dies),
        TEST(test_a_quiet_box_is_frozen),
        TEST(test_a_busy_box_is_not_frozen),
        TEST(test_one_comes_while_the_box_is_frozen),
        TEST(test_release),
        TEST(test_the_worker_is_freed_with_shared_boxes),
        TEST(test_a_second_try_finds_its_outputs_gone),
        TEST(test_a_second_try_does_not_publish_the_first_ones_matches),
        TEST(test_a_second_try_is_killed_or_lost_while_it_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
