/* SPDX-License-Identifier: Apache-2.0 */
/* What inputs and outputs must be, in fake boxes: who is begun, who is not, and what stands in the boxes that judge. */
#include "base/mem.h"
#include "base/text.h"
#include "tests/unit/workers/rig.h"

static void expect(const struct bh_result *result, enum bh_outcome outcome, const char *reason, const char *detail)
{
    if (result->outcome != outcome || !bh_streq(result->reason, reason) ||
        (detail && (!result->detail || !strstr(result->detail, detail))))
        fail_msg("outcome %d, reason %s, detail: %s", (int)result->outcome, result->reason ? result->reason : "none",
                 result->detail ? result->detail : "none");
}

static void add_input(struct rig *r, struct bh_lease *lease, const char *name, const char *text)
{
    lease->inputs = bh_realloc_array(lease->inputs, lease->n_inputs + 1, sizeof(*lease->inputs));
    lease->inputs[lease->n_inputs++] = (struct bh_lease_file){
        .path = bh_strdup(name),
        .name = bh_strdup(name),
        .object = rig_store(r, text),
        .provenance = bh_asprintf("{\"name\":\"%s\"}", name),
    };
}

static void set_command(struct bh_lease_validate *v, const char *step)
{
    v->command = bh_calloc(3, sizeof(*v->command));
    v->command[0] = bh_strdup("fake");
    v->command[1] = bh_strdup(step);
    v->n_command = 2;
}

static struct bh_lease_validate *add_gate(struct bh_lease *lease, const char *artifact)
{
    lease->gates = bh_realloc_array(lease->gates, lease->n_gates + 1, sizeof(*lease->gates));
    struct bh_lease_gate *gate = &lease->gates[lease->n_gates++];
    *gate = (struct bh_lease_gate){.artifact = bh_strdup(artifact), .validate = BH_LEASE_VALIDATE_NOTHING};
    return &gate->validate;
}

static void inputs_that_pass_are_delivered(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "cat:in/page");
    add_input(r, &lease, "page", "{\"a\":1}\n");
    struct bh_lease_validate *v = add_gate(&lease, "page");
    v->kind = BH_VALIDATE_JSONL;
    set_command(v, "cat:in/page");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, BH_OUTCOME_SUCCEEDED, NULL, NULL);
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    BH_CLEANUP_FREE char *of_gate = rig_gate_log(r, result->instance);
    T_STR(log, "{\"a\":1}\n|");
    T_STR(of_gate, "{\"a\":1}\n|"); /* what it printed of it is not the agent's */
    BH_CLEANUP_FREE char *box = bh_asprintf("create %s.gate1", result->instance.s);
    T_TRUE(fake_boxes_did(r->boxes, box));
    T_INT(fake_boxes_alive(r->boxes), 0);
}

static void inputs_that_do_not_begin_nothing(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "out:begun");
    add_input(r, &lease, "good", "{}");
    add_input(r, &lease, "page", "no json");
    add_gate(&lease, "good")->kind = BH_VALIDATE_JSON;
    struct bh_lease_validate *v = add_gate(&lease, "page");
    v->kind = BH_VALIDATE_JSON;
    set_command(v, "exit:0");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, BH_OUTCOME_FAILED, "policy",
           "the gate for input 'page' is shut: line 1 is where it stops being JSON");
    T_INT(result->started.us, 0);
    T_TRUE(!fake_boxes_did(r->boxes, "create own1"));
    BH_CLEANUP_FREE char *box = bh_asprintf("create %s.gate2", result->instance.s);
    T_TRUE(!fake_boxes_did(r->boxes, box)); /* no command looks at what is wrong already */
}

static void a_command_has_the_last_word(void **state)
{
    static const struct {
        const char *step, *detail;
    } rows[] = {
        {"exit:1", "is shut: its validation exited with code 1"},
        {"signal:11", "is shut: its validation was ended by signal 11"},
        {"hit:oom", NULL}, /* on the way to a good end */
        {"fail:2=exec", "its validation could not start: command 'fake' was not found"},
    };
    struct rig *r = *state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_lease lease = RIG_LEASE(r, "out:begun");
        add_input(r, &lease, "page", "x");
        set_command(add_gate(&lease, "page"), rows[i].step);
        const struct bh_result *result = rig_run(r, &lease);
        expect(result, rows[i].detail ? BH_OUTCOME_FAILED : BH_OUTCOME_SUCCEEDED, rows[i].detail ? "policy" : NULL,
               rows[i].detail);
    }
    T_INT(fake_boxes_alive(r->boxes), 0);
}

static void a_gate_that_guards_nothing_is_shut(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "out:begun");
    add_input(r, &lease, "page", "x");
    add_gate(&lease, "other");
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "policy",
           "the gate for input 'other' is shut: there is no such input");
}

static void a_box_that_cannot_be_made_is_the_hosts_fault(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "out:begun");
    add_input(r, &lease, "page", "x");
    set_command(add_gate(&lease, "page"), "exit:0");
    r->boxes->fail_create = -BH_E_HOST;
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "host", "making the box of a validation");
}

static void who_is_cancelled_is_not_validated_to_the_end(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "out:begun");
    add_input(r, &lease, "page", "x");
    set_command(add_gate(&lease, "page"), "hang");
    int64_t epoch = lease.epoch;
    r->boxes->held = "create";
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_send_kill(r, instance, epoch);
    expect(rig_result(r, instance), BH_OUTCOME_CANCELLED, NULL, NULL);
    fake_boxes_go_on(r->boxes);
}

static void outputs_are_given_only_if_all_are_valid(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1,2", "write:out/b=text");
    rig_add_output(&lease, "a")->validate.kind = BH_VALIDATE_CSV;
    rig_add_output(&lease, "b")->validate.max_size = 4;
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, BH_OUTCOME_SUCCEEDED, NULL, NULL);
    T_INT(result->n_outputs, 2);
    lease = RIG_LEASE(r, "write:out/a=1,2", "write:out/b=texts");
    rig_add_output(&lease, "a")->validate.kind = BH_VALIDATE_CSV;
    rig_add_output(&lease, "b")->validate.max_size = 4;
    result = rig_run(r, &lease);
    expect(result, BH_OUTCOME_FAILED, "output-invalid", "output 'b' is not valid: it has 5 bytes, more than 4");
    T_INT(result->n_outputs, 0);
    T_INT(result->exit_code, 0); /* of run */
}

static void each_match_of_a_glob_is_looked_at(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a.json={}", "write:out/b.json=[");
    rig_add_glob(&lease, "*.json")->validate.kind = BH_VALIDATE_JSON;
    expect(rig_run(r, &lease), BH_OUTCOME_FAILED, "output-invalid", "output 'b.json' is not valid: it ends inside");
}

static void a_command_looks_at_outputs_in_a_box_of_its_own(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=made", "write:secret=own");
    set_command(&rig_add_output(&lease, "a")->validate, "cat:in/a");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, BH_OUTCOME_SUCCEEDED, NULL, NULL);
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance),
                         *box = bh_asprintf("create %s.validate1", result->instance.s);
    T_STR(log, "made\\|");
    T_TRUE(fake_boxes_did(r->boxes, box));
    lease = RIG_LEASE(r, "write:out/a=made", "write:secret=own");
    set_command(&rig_add_output(&lease, "a")->validate, "exit:2");
    result = rig_run(r, &lease);
    expect(result, BH_OUTCOME_FAILED, "output-invalid", "output 'a' is not valid: its validation exited with code 2");
    T_INT(fake_boxes_alive(r->boxes), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(inputs_that_pass_are_delivered),
        TEST(inputs_that_do_not_begin_nothing),
        TEST(a_command_has_the_last_word),
        TEST(a_gate_that_guards_nothing_is_shut),
        TEST(a_box_that_cannot_be_made_is_the_hosts_fault),
        TEST(who_is_cancelled_is_not_validated_to_the_end),
        TEST(outputs_are_given_only_if_all_are_valid),
        TEST(each_match_of_a_glob_is_looked_at),
        TEST(a_command_looks_at_outputs_in_a_box_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
