/* SPDX-License-Identifier: Apache-2.0 */
/* Edges of the engine that make no story: bounds, names, times, what a caller may hand in. */
#include "base/mem.h"
#include "tests/support/t.h"
#include "tests/unit/scheduler/core/fixture.h"

static void nothing_is_freed_twice_or_missed(void **state)
{
    (void)state;
    bh_engine_free(NULL);
    struct bh_effects none = {0};
    bh_effects_fini(&none);
    struct fx f = fx_new(fx_spec(0));
    fx_free(&f);
}

static void workers_out_of_range_mean_nothing(void **state)
{
    (void)state;
    struct fx f = fx_new(fx_spec(1));
    T_TRUE(fx_kind(&f, BH_EV_START));
    T_TRUE(!fx_worker(&f, -1, 4));
    T_TRUE(!fx_worker(&f, BH_ENGINE_MAX_WORKERS, 4));
    T_TRUE(!fx_worker(&f, 7, -1));
    T_TRUE(!fx_worker(&f, 7, 0));
    T_INT(bh_engine_n_attempts(f.e), 0);
    T_TRUE(fx_worker(&f, BH_ENGINE_MAX_WORKERS - 1, 1));
    T_INT(f.out.items[0].worker, BH_ENGINE_MAX_WORKERS - 1);
    T_TRUE(!fx_worker(&f, 0, 0)); /* never came */
    fx_free(&f);
}

static void fewer_slots_start_nothing_new(void **state)
{
    (void)state;
    struct fx f = fx_new(fx_spec(4));
    fx_start(&f, 3);
    T_TRUE(fx_worker(&f, 0, 1)); /* three run there by now */
    T_TRUE(fx_end(&f, 0, BH_ATTEMPT_SUCCEEDED, BH_REASON_NONE));
    T_TRUE(fx_end(&f, 1, BH_ATTEMPT_SUCCEEDED, BH_REASON_NONE));
    T_INT(bh_engine_n_attempts(f.e), 3);
    T_TRUE(fx_end(&f, 2, BH_ATTEMPT_SUCCEEDED, BH_REASON_NONE));
    T_INT(bh_engine_n_attempts(f.e), 4);
    fx_free(&f);
}

/* Two workers, one of them over its slots: the other gets the next one. */
static void an_overfull_worker_is_passed_by(void **state)
{
    (void)state;
    struct fx f = fx_new(fx_spec(5));
    fx_start(&f, 3);
    T_TRUE(fx_worker(&f, 0, 1));
    T_TRUE(fx_worker(&f, 1, 4));
    T_INT(f.out.len, 2);
    T_INT(f.out.items[0].worker, 1);
    T_INT(f.out.items[1].worker, 1);
    fx_free(&f);
}

/* The room is what the workers that are up have; else nodes would be looked at that nobody can take. */
static void room_is_that_of_those_who_are_up(void **state)
{
    (void)state;
    struct fx f = fx_new(fx_spec(9));
    fx_start(&f, 2);
    T_TRUE(fx_worker(&f, 1, 3));
    T_INT(f.e->slots, 5);
    T_TRUE(fx_worker(&f, 1, 1));
    T_INT(f.e->slots, 3);
    T_TRUE(fx_worker(&f, 0, 0));
    T_INT(f.e->slots, 1);
    T_TRUE(fx_worker(&f, 0, 4));
    T_INT(f.e->slots, 5);
    T_TRUE(fx_kind(&f, BH_EV_OWNER));
    T_INT(f.e->slots, 0);
    T_TRUE(bh_list_empty(&f.e->slot_waiters));
    T_TRUE(fx_worker(&f, 0, 4));
    T_INT(f.e->slots, 4);
    T_TRUE(!f.e->slot_freed);
    fx_free(&f);
}

static void times_are_kept(void **state)
{
    (void)state;
    struct fx f = fx_new(fx_spec(2));
    f.now.us = 100;
    fx_start(&f, 2);
    const struct bh_attempt *a = bh_engine_attempt(f.e, 0);
    T_INT(a->created.us, 102);
    T_INT(a->started.us, 0);
    T_TRUE(fx_state(&f, 0, BH_ATTEMPT_BOOTING));
    T_TRUE(fx_state(&f, 0, BH_ATTEMPT_RUNNING));
    T_INT(a->started.us, 103);
    T_TRUE(fx_end(&f, 0, BH_ATTEMPT_SUCCEEDED, BH_REASON_NONE));
    T_INT(a->started.us, 103);
    T_INT(a->ended.us, 105);
    T_TRUE(fx_end(&f, 1, BH_ATTEMPT_SUCCEEDED, BH_REASON_NONE)); /* its states were overtaken */
    T_INT(bh_engine_attempt(f.e, 1)->started.us, 102);
    fx_free(&f);
}

static void instances_are_found_by_their_name_alone(void **state)
{
    (void)state;
    struct fx f = fx_new(fx_spec(3));
    fx_start(&f, 3);
    for (unsigned i = 0; i < 3; i++)
        T_TRUE(bh_engine_find(f.e, bh_instance_id_make(fx_run(), i + 1)) == bh_engine_attempt(f.e, i));
    T_TRUE(bh_engine_find(f.e, bh_instance_id_make(fx_run(), 4)) == NULL);
    struct bh_run_id other = {.s = "01hyyyyyyyyyyyyyyyyyyyyyyy"};
    T_TRUE(bh_engine_find(f.e, bh_instance_id_make(other, 1)) == NULL);
    struct bh_instance_id bytes;
    memset(&bytes, '0', sizeof(bytes));
    T_TRUE(bh_engine_find(f.e, bytes) == NULL);
    memset(&bytes, 0xff, sizeof(bytes));
    T_TRUE(bh_engine_find(f.e, bytes) == NULL);
    memset(&bytes, 0, sizeof(bytes));
    T_TRUE(bh_engine_find(f.e, bytes) == NULL);
    bytes = bh_instance_id_make(fx_run(), 1);
    bytes.s[BH_INSTANCE_LEN] = 'x'; /* no end */
    T_TRUE(bh_engine_find(f.e, bytes) == NULL);
    fx_free(&f);
}

/* An instance id counts to 999,999; a run that needs more fails by its host instead of using one twice. */
static void instance_ids_run_out(void **state)
{
    (void)state;
    struct bh_spec *spec = fx_spec(1);
    spec->nodes[0].retries = INT64_MAX;
    struct fx f = fx_new(spec);
    f.e->max_attempts = 3;
    fx_start(&f, 1);
    for (int i = 0; i < 3; i++)
        T_TRUE(fx_end(&f, 0, BH_ATTEMPT_FAILED, BH_REASON_EXIT));
    T_INT(bh_engine_n_attempts(f.e), 3);
    T_INT(bh_engine_node(f.e, 0)->state, BH_NODE_FAILED);
    T_INT(bh_engine_node(f.e, 0)->reason, BH_REASON_HOST);
    T_INT(bh_engine_status(f.e), BH_RUN_FAILED);
    T_TRUE(fx_kind(&f, BH_EV_RETRY_FAILED));
    T_INT(bh_engine_status(f.e), BH_RUN_FAILED);
    fx_free(&f);
}

static const char *layer_of(const char *box_id, struct fx *f)
{
    struct bh_spec *spec = fx_spec(2);
    fx_share(spec, box_id);
    *f = fx_new(spec);
    fx_start(f, 1);
    T_TRUE(fx_end(f, 0, BH_ATTEMPT_SUCCEEDED, BH_REASON_NONE));
    T_INT(f->out.len, 1);
    T_INT(f->out.items[0].kind, BH_EFFECT_FREEZE);
    return f->out.items[0].layer;
}

static void layers_have_names_a_folder_can_have(void **state)
{
    static const struct {
        const char *box, *layer;
    } rows[] = {
        {"crew", "crew-1"},
        {"crew-tainted_2", "crew-tainted_2-1"},
        {"../../etc", "------etc-1"},
        {".", "--1"},
        {"a/b\nc", "a-b-c-1"},
        {"123456789012345678901234567890123456789012345678901234567890123", /* the longest name there is */
         "1234567890123456789012345678901234567890123456789012-1"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct fx f;
        T_STR(layer_of(rows[i].box, &f), rows[i].layer);
        fx_free(&f);
    }
}

static void an_answer_names_the_layer_that_was_asked_for(void **state)
{
    struct fx f;
    (void)state;
    (void)layer_of("crew", &f);
    struct bh_event ev = {.kind = BH_EV_FROZEN, .layer = "crew-2"};
    T_TRUE(!fx_send(&f, ev));
    memset(ev.layer, 'x', sizeof(ev.layer)); /* no end */
    T_TRUE(!fx_send(&f, ev));
    ev = (struct bh_event){.kind = BH_EV_FROZEN};
    T_TRUE(!fx_send(&f, ev)); /* no name */
    ev = (struct bh_event){.kind = BH_EV_FROZEN, .box = 17, .layer = "crew-1"};
    T_TRUE(!fx_send(&f, ev)); /* no box */
    ev.kind = BH_EV_FREEZE_FAILED;
    T_TRUE(!fx_send(&f, ev));
    T_TRUE(bh_engine_box(f.e, 0)->freezing);
    ev = (struct bh_event){.kind = BH_EV_FROZEN, .layer = "crew-1"};
    T_TRUE(fx_send(&f, ev));
    T_STR(bh_engine_box(f.e, 0)->layer.s, "crew-1");
    T_TRUE(!fx_send(&f, ev)); /* twice */
    fx_free(&f);
}

/* Once each, and nothing of the step before. */
static void changes_are_those_of_the_last_step(void **state)
{
    (void)state;
    struct bh_spec *spec = fx_spec(3);
    fx_dep(spec, 1, 0, BH_DEP_REQUIRED);
    spec->keep_going = true;
    struct fx f = fx_new(spec);
    fx_start(&f, 1);
    T_TRUE(fx_end(&f, 0, BH_ATTEMPT_FAILED, BH_REASON_EXIT)); /* 0 failed, 1 skipped, 2 leased */
    struct bh_changes c = bh_engine_changes(f.e);
    T_INT(c.n_nodes, 3);
    T_INT(c.nodes[0], 0);
    T_INT(c.nodes[1], 1);
    T_INT(c.nodes[2], 2);
    T_INT(c.n_attempts, 2);
    T_INT(c.n_boxes, 0);
    T_TRUE(c.run); /* its failure is known */
    T_TRUE(fx_state(&f, 2, BH_ATTEMPT_RUNNING));
    c = bh_engine_changes(f.e);
    T_INT(c.n_nodes, 0);
    T_INT(c.n_attempts, 1);
    T_INT(c.attempts[0], 1);
    T_TRUE(!c.run);
    T_TRUE(!fx_state(&f, 2, BH_ATTEMPT_RUNNING));
    T_INT(bh_engine_changes(f.e).n_attempts, 0);
    fx_free(&f);
}

static void failure_may_be_asked_without_the_node(void **state)
{
    size_t node = 77;
    (void)state;
    struct fx f = fx_new(fx_spec(1));
    T_INT(bh_engine_failure(f.e, NULL), BH_REASON_NONE);
    T_INT(bh_engine_failure(f.e, &node), BH_REASON_NONE);
    T_TRUE(node == SIZE_MAX);
    fx_start(&f, 1);
    T_TRUE(fx_end(&f, 0, BH_ATTEMPT_FAILED, BH_REASON_POLICY));
    T_INT(bh_engine_failure(f.e, NULL), BH_REASON_POLICY);
    T_INT(bh_engine_failure(f.e, &node), BH_REASON_POLICY);
    T_INT(node, 0);
    fx_free(&f);
}

static void a_deadline_belongs_to_runs_that_have_one(void **state)
{
    (void)state;
    struct fx f = fx_new(fx_spec(1));
    T_TRUE(fx_kind(&f, BH_EV_START));
    T_INT(f.out.len, 0);
    T_TRUE(!fx_kind(&f, BH_EV_DEADLINE));
    fx_free(&f);
    struct bh_spec *spec = fx_spec(1);
    spec->deadline_ms = 1500;
    f = fx_new(spec);
    f.now.us = 9;
    T_TRUE(fx_kind(&f, BH_EV_START));
    T_INT(f.out.items[0].kind, BH_EFFECT_DEADLINE);
    T_INT(f.out.items[0].at.us, 10 + 1500000);
    fx_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_freed_twice_or_missed),
        cmocka_unit_test(workers_out_of_range_mean_nothing),
        cmocka_unit_test(fewer_slots_start_nothing_new),
        cmocka_unit_test(an_overfull_worker_is_passed_by),
        cmocka_unit_test(room_is_that_of_those_who_are_up),
        cmocka_unit_test(times_are_kept),
        cmocka_unit_test(instances_are_found_by_their_name_alone),
        cmocka_unit_test(instance_ids_run_out),
        cmocka_unit_test(layers_have_names_a_folder_can_have),
        cmocka_unit_test(an_answer_names_the_layer_that_was_asked_for),
        cmocka_unit_test(changes_are_those_of_the_last_step),
        cmocka_unit_test(failure_may_be_asked_without_the_node),
        cmocka_unit_test(a_deadline_belongs_to_runs_that_have_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
