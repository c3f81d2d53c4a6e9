/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/t.h"

#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "scheduler/dispatch/run_rows.h"

struct fixture {
    struct bh_pipeline *pipeline;
    struct bh_plan *plan;
    struct bh_spec *spec;
    struct bh_engine *engine;
    struct bh_effects effects;
};

static int setup(void **state)
{
    static const char text[] = "version: 1\nname: t\ndeadline: 90s\nagents: [{name: a, run: 'true'}]\n";
    struct fixture *f = bh_alloc(sizeof(*f));
    struct bh_errlist errors = {0};
    struct bh_plan_options options = {0};
    if (bh_pipeline_load("t.yaml", text, strlen(text), &f->pipeline, &errors) != 0 ||
        bh_plan_make(f->pipeline, &options, &f->plan, &errors) != 0)
        fail_msg("%s", bh_err_message(errors.items[0]));
    f->spec = bh_spec_from_plan(f->plan);
    f->engine = bh_engine_new(bh_run_id_new(), f->spec);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bh_effects_fini(&f->effects);
    bh_engine_free(f->engine);
    bh_spec_free(f->spec);
    bh_plan_free(f->plan);
    bh_pipeline_free(f->pipeline);
    bh_free(f);
    return 0;
}

static void step(struct fixture *f, struct bh_event event)
{
    T_TRUE(bh_engine_step(f->engine, &event, (struct bh_wall){1000}, &f->effects));
}

static void a_deadline_is_nobodys_failure(void **state)
{
    struct fixture *f = *state;
    T_TRUE(bh_failure_of_run(f->plan, f->engine, NULL) == NULL);
    step(f, (struct bh_event){.kind = BH_EV_START});
    step(f, (struct bh_event){.kind = BH_EV_DEADLINE});
    BH_CLEANUP_VAL struct bh_val *failure = bh_failure_of_run(f->plan, f->engine, NULL);
    T_TRUE(bh_val_str_of(failure, "agent") == NULL);
    T_STR(bh_val_str_of(failure, "reason"), "timeout");
    T_STR(bh_val_str_of(failure, "detail"), "the run's deadline of 1m30s passed");
    T_STR(bh_val_str_of(failure, "remedy"), "raise 'deadline', or make the agents shorter");
}

static void a_failure_names_agent_detail_and_remedy(void **state)
{
    struct fixture *f = *state;
    step(f, (struct bh_event){.kind = BH_EV_START});
    step(f, (struct bh_event){.kind = BH_EV_WORKER_UP, .slots = 1});
    const struct bh_attempt *attempt = bh_engine_attempt(f->engine, 0);
    step(f, (struct bh_event){.kind = BH_EV_ENDED,
                              .instance = attempt->instance,
                              .epoch = attempt->epoch,
                              .state = BH_ATTEMPT_FAILED,
                              .reason = BH_REASON_EXIT});
    BH_CLEANUP_VAL struct bh_val *ended = bh_val_map();
    bh_val_set_int(ended, "exit_code", 127);
    bh_val_set_str(ended, "detail", "not found");
    BH_CLEANUP_VAL struct bh_val *failure = bh_failure_of_run(f->plan, f->engine, ended);
    T_STR(bh_val_str_of(failure, "agent"), "a");
    T_STR(bh_val_str_of(failure, "reason"), "exit");
    T_STR(bh_val_str_of(failure, "detail"), "not found");
    T_STR(bh_val_str_of(failure, "remedy"), bh_reason_remedy(BH_REASON_EXIT, 127));
    T_TRUE(strcmp(bh_reason_remedy(BH_REASON_EXIT, 127), bh_reason_remedy(BH_REASON_EXIT, 1)) != 0);
}

/* Of several attempts the detail sums up; the remedy is that of the one that is blamed. */
static void a_failure_of_several_is_mended_by_its_cause(void **state)
{
    struct fixture *f = *state;
    step(f, (struct bh_event){.kind = BH_EV_START});
    step(f, (struct bh_event){.kind = BH_EV_WORKER_UP, .slots = 1});
    const struct bh_attempt *attempt = bh_engine_attempt(f->engine, 0);
    step(f, (struct bh_event){.kind = BH_EV_ENDED,
                              .instance = attempt->instance,
                              .epoch = attempt->epoch,
                              .state = BH_ATTEMPT_FAILED,
                              .reason = BH_REASON_TIMEOUT,
                              .phase = BH_PHASE_CHECK});
    BH_CLEANUP_VAL struct bh_val *ended = bh_val_map();
    bh_val_set_str(ended, "detail", "none of 2 attempts passed (2 by timeout(check)); attempt 1: check took longer");
    bh_val_set_str(ended, "cause", "check took longer than 1s");
    bh_val_set_int(ended, "attempt", 1);
    BH_CLEANUP_VAL struct bh_val *failure = bh_failure_of_run(f->plan, f->engine, ended);
    T_STR(bh_val_str_of(failure, "detail"), bh_val_str_of(ended, "detail"));
    T_STR(bh_val_str_of(failure, "remedy"), "raise 'timeout.check' of the agent, or make the step shorter");
}

static void a_failure_of_several_leads_to_the_attempt(void **state)
{
    struct fixture *f = *state;
    step(f, (struct bh_event){.kind = BH_EV_START});
    step(f, (struct bh_event){.kind = BH_EV_WORKER_UP, .slots = 1});
    const struct bh_attempt *attempt = bh_engine_attempt(f->engine, 0);
    step(f, (struct bh_event){.kind = BH_EV_ENDED,
                              .instance = attempt->instance,
                              .epoch = attempt->epoch,
                              .state = BH_ATTEMPT_FAILED,
                              .reason = BH_REASON_EXIT});
    BH_CLEANUP_VAL struct bh_val *ended = bh_val_map();
    bh_val_set_int(ended, "attempt", 2);
    BH_CLEANUP_VAL struct bh_val *failure = bh_failure_of_run(f->plan, f->engine, ended);
    T_STR(bh_val_str_of(failure, "remedy"),
          "read its last lines with 'bulkhead logs RUN -a AGENT --attempt 2 --tail 20'");
}

static struct bh_val *failure_with(struct fixture *f, const char *evidence)
{
    BH_CLEANUP_VAL struct bh_val *ended = bh_val_map();
    bh_val_set_str(ended, "evidence", evidence);
    return bh_failure_of_run(f->plan, f->engine, ended);
}

static void a_failure_says_whom_its_evidence_blames(void **state)
{
    static const struct {
        const char *evidence, *blamed;
    } rows[] = {
        {"{\"kind\":\"wedge\",\"caused_by\":\"hog\"}", "hog"},
        {"{\"kind\":\"wedge\",\"caused_by\":null}", NULL},
        {"{\"kind\":\"collision\",\"writers\":[{\"agent\":\"w\"}]}", "w"},
        {"{\"kind\":\"collision\",\"writers\":[{\"agent\":\"w\"},{\"agent\":\"v\"}]}", NULL},
        {"no JSON", NULL},
        {NULL, NULL},
    };
    struct fixture *f = *state;
    step(f, (struct bh_event){.kind = BH_EV_START});
    step(f, (struct bh_event){.kind = BH_EV_WORKER_UP, .slots = 1});
    const struct bh_attempt *attempt = bh_engine_attempt(f->engine, 0);
    step(f, (struct bh_event){.kind = BH_EV_ENDED,
                              .instance = attempt->instance,
                              .epoch = attempt->epoch,
                              .state = BH_ATTEMPT_FAILED,
                              .reason = BH_REASON_COLLISION});
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_VAL struct bh_val *failure = failure_with(f, rows[i].evidence);
        const char *blamed = bh_val_str_of(failure, "caused_by");
        T_TRUE(bh_streq(blamed, rows[i].blamed));
        T_TRUE(bh_val_get(failure, "caused_by") && bh_val_get(failure, "evidence")); /* null where there is none */
    }
}

static void an_attempt_says_what_held_it(void **state)
{
    struct fixture *f = *state;
    step(f, (struct bh_event){.kind = BH_EV_START});
    step(f, (struct bh_event){.kind = BH_EV_WORKER_UP, .slots = 1});
    const struct bh_attempt *attempt = bh_engine_attempt(f->engine, 0);
    BH_CLEANUP_VAL struct bh_val *ended = bh_val_map();
    struct bh_attempt_facts facts = {.ended = ended};
    struct bh_attempt_scratch scratch;
    struct bh_attempt_row row = bh_row_of_attempt("r", f->plan, attempt, &facts, &scratch);
    T_TRUE(row.limits == NULL && row.output_dropped == 0 && row.evidence == NULL);
    bh_val_set_str(ended, "limits", "memory=cgroup-v2");
    bh_val_set_int(ended, "output_dropped", 7);
    bh_val_set_str(ended, "evidence", "{}");
    row = bh_row_of_attempt("r", f->plan, attempt, &facts, &scratch);
    T_STR(row.limits, "memory=cgroup-v2");
    T_INT(row.output_dropped, 7);
    T_STR(row.evidence, "{}");
    T_TRUE(row.kind == NULL && row.snapshot == NULL && row.score == NULL && !row.snapshot_reused && !row.selected);
    bh_attempt_scratch_fini(&scratch);
    bh_val_set(ended, "score", bh_val_num(-2.5));
    bh_val_set_str(ended, "snapshot", "sha256:00");
    bh_val_set_bool(ended, "snapshot_reused", true);
    row = bh_row_of_attempt("r", f->plan, attempt, &facts, &scratch);
    T_STR(row.score, "-2.5");
    T_STR(row.snapshot, "sha256:00");
    T_TRUE(row.snapshot_reused);
    bh_attempt_scratch_fini(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_deadline_is_nobodys_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_names_agent_detail_and_remedy, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_of_several_is_mended_by_its_cause, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_of_several_leads_to_the_attempt, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_says_whom_its_evidence_blames, setup, teardown),
        cmocka_unit_test_setup_teardown(an_attempt_says_what_held_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
