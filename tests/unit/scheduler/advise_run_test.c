/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that read a run, on a store that is written as engines write it: what they say, whom they name, and that
 * they are silent where a run has nothing to complain of.
 */
#include "scheduler/advise/advise_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "scheduler/advise/package_scan.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

#define HEAD "version: 1\nname: t\n"
#define AT(s) ((struct bh_wall){INT64_C(1700000000000000) + (int64_t)((s)*1000000)})

struct fixture {
    struct kit_home h;
    struct bh_store *store;
    struct bh_run_id id;
    struct bh_store_event events[32];
    char *payloads[32];
    size_t n_events;
    struct bh_attempt_row attempts[16];
    size_t n_attempts;
    const char *status; /* of the run; NULL: failed */
    struct bh_pipeline *pipeline;
    struct bh_plan *plan;
    struct bh_advices list;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    kit_home_make(&f->h);
    T_OK(bh_store_open(&f->h.home, BH_STORE_WRITE, &f->store, &err));
    f->id = kit_run_id(1);
    bh_advices_init(&f->list);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    bh_advices_fini(&f->list);
    bh_plan_free(f->plan);
    bh_pipeline_free(f->pipeline);
    for (size_t i = 0; i < f->n_events; i++)
        bh_free(f->payloads[i]);
    bh_store_close(f->store);
    kit_home_remove(&f->h);
    free(f);
    return 0;
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static void event(struct fixture *f, struct bh_wall at, const char *kind, char *payload)
{
    f->payloads[f->n_events] = payload;
    f->events[f->n_events++] = (struct bh_store_event){.kind = kind, .at = at, .payload = payload};
}

static void state_of(struct fixture *f, const char *instance, double at, const char *state)
{
    event(f, AT(at), "attempt.state",
          bh_asprintf("{\"instance\":\"%s\",\"epoch\":1,\"state\":\"%s\"}", instance, state));
}

static struct bh_attempt_row *attempt(struct fixture *f, const char *agent, const char *instance, const char *box,
                                      double from, double to, const char *reason)
{
    struct bh_attempt_row *row = &f->attempts[f->n_attempts++];
    *row = (struct bh_attempt_row){.run = f->id.s,
                                   .agent = text(agent),
                                   .instance = text(instance),
                                   .box = text(box),
                                   .status = text(reason ? "failed" : "succeeded"),
                                   .reason = text(reason),
                                   .attempt = 1,
                                   .try_ = 1,
                                   .epoch = 1,
                                   .exit_code = -1,
                                   .created = AT(from),
                                   .started = AT(from),
                                   .ended = AT(to)};
    return row;
}

static void advise(struct fixture *f, const char *yaml)
{
    struct bh_errlist errors = {0};
    struct bh_plan_options options = {.lint = true};
    struct bh_run_row row = kit_run_row(f->id.s, f->status ? f->status : "failed");
    row.document = text(yaml);
    row.started = AT(0);
    row.ended = AT(100);
    struct bh_store_batch batch = {.run = f->id.s,
                                   .events = f->events,
                                   .n_events = f->n_events,
                                   .run_row = &row,
                                   .attempts = f->attempts,
                                   .n_attempts = f->n_attempts};
    T_OK(bh_store_commit(f->store, &batch, &err));
    assert_int_equal(bh_pipeline_load("p.yaml", yaml, strlen(yaml), &f->pipeline, &errors), 0);
    assert_int_equal(bh_plan_make(f->pipeline, &options, &f->plan, &errors), 0);
    struct bh_advise_subject subject = {
        .file = "p.yaml", .text = yaml, .len = strlen(yaml), .pipeline = f->pipeline, .plan = f->plan};
    bh_advise_document(&subject, &f->list);
    T_OK(bh_advise_run(&f->h.home, f->store, &row, &subject, &f->list, &err));
    bh_advise_one_box(&subject, &f->list);
    bh_advices_finish(&subject, &f->list);
}

static void is_silent(struct fixture *f, const char *yaml)
{
    advise(f, yaml);
    if (f->list.len > 0)
        fail_msg("is told: %s", f->list.items[0].summary);
}

static const struct bh_advice *the_only(struct fixture *f, enum bh_advice_rule rule)
{
    T_INT(f->list.len, 1);
    T_INT(f->list.items[0].rule, rule);
    return &f->list.items[0];
}

static void cites(const struct bh_advice *a, const char *part, double at)
{
    for (size_t i = 0; i < a->n_evidence; i++) {
        if (strstr(a->evidence[i].text, part) && (at < 0 || a->evidence[i].at.us == AT(at).us))
            return;
    }
    struct bh_buf all = BH_BUF_INIT;
    for (size_t i = 0; i < a->n_evidence; i++)
        bh_buf_addf(&all, "\n%lld %s", (long long)a->evidence[i].at.us, a->evidence[i].text);
    fail_msg("cites no '%s' but:%s", part, all.data);
}

static void patch_has(const struct bh_advice *a, const char *part)
{
    assert_non_null(a->patch);
    if (!strstr(a->patch, part))
        fail_msg("no '%s' in\n%s", part, a->patch);
}

/* --- the same setup over and over --- */

/* In a shared box: setup and run are phases of one execution. */
static void setup_and_run(struct fixture *f, const char *agent, const char *instance, double from, double setup,
                          double run)
{
    attempt(f, agent, instance, "crew", from, from + setup + run, NULL);
    state_of(f, instance, from, "setup");
    state_of(f, instance, from + setup, "running");
}

/* In a box of its own: the setup is an execution of its own, attempt 0. */
static struct bh_attempt_row *setup_then_run(struct fixture *f, const char *agent, const char *setup_instance,
                                             const char *instance, double setup)
{
    struct bh_attempt_row *row = attempt(f, agent, setup_instance, agent, 1, 1 + setup, NULL);
    row->attempt = 0;
    row->kind = text("setup");
    state_of(f, setup_instance, 1, "setup");
    attempt(f, agent, instance, agent, 1 + setup, 2 + setup, NULL);
    state_of(f, instance, 1 + setup, "running");
    return row;
}

#define THREE                                                                          \
    HEAD "agents:\n  - {name: a, setup: s, run: x}\n  - {name: b, setup: s, run: x}\n" \
         "  - {name: c, setup: other, run: x}\n"

static void equal_setups_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    setup_and_run(f, "a", "i1", 1, 20, 1);
    setup_and_run(f, "b", "i2", 21, 30, 2);
    setup_and_run(f, "c", "i3", 51, 30, 2);
    advise(f, THREE);
    const struct bh_advice *a = the_only(f, BH_ADVICE_SETUP);
    T_STR(a->summary, "one environment was made 2 times: 50.0s of setup for 3.0s of work");
    T_INT(a->topology, BH_TOPOLOGY_PER_ATTEMPT);
    T_INT(a->saved_ns, INT64_C(20000000000));
    T_STR(a->box, "crew");
    cites(a, "the setup of 'a' took 20.0s", 1);
    cites(a, "the setup of 'b' took 30.0s", 21);
    T_STR(a->evidence[0].instance, "i1");
    patch_has(a, "+  - {name: a, topology: per-agent, setup: s, run: x}\n");
    patch_has(a, "+  - {name: b, topology: per-agent, setup: s, run: x}\n");
    assert_null(strstr(a->patch, "+  - {name: c"));
}

/* A phase that ended within one message was the last one seen. */
static void a_run_too_short_to_be_seen(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "crew", 1, 11, NULL);
    attempt(f, "b", "i2", "crew", 12, 22, NULL);
    state_of(f, "i1", 1, "setup");
    state_of(f, "i2", 12, "setup");
    advise(f, THREE);
    T_INT(the_only(f, BH_ADVICE_SETUP)->saved_ns, INT64_C(10000000000));
}

static void short_setups_are_fine(void **state)
{
    struct fixture *f = *state;
    setup_and_run(f, "a", "i1", 1, 2, 3);
    setup_and_run(f, "b", "i2", 1, 2, 3);
    is_silent(f, THREE);
}

static void little_to_save_is_no_news(void **state)
{
    struct fixture *f = *state;
    setup_and_run(f, "a", "i1", 1, 0.9, 0.1);
    setup_and_run(f, "b", "i2", 1, 0.9, 0.1);
    is_silent(f, THREE);
}

static void a_setup_that_failed_made_nothing(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "crew", 1, 11, "exit");
    attempt(f, "b", "i2", "crew", 12, 22, NULL);
    state_of(f, "i1", 1, "setup");
    state_of(f, "i2", 12, "setup");
    is_silent(f, THREE);
}

/* Who works together is not torn apart. */
static void a_crew_is_no_row_of_attempts(void **state)
{
    struct fixture *f = *state;
    setup_and_run(f, "a", "i1", 1, 20, 1);
    setup_and_run(f, "b", "i2", 30, 20, 1);
    is_silent(f, HEAD "agents:\n  - {name: a, setup: s, run: x, outputs: [o]}\n"
                      "  - {name: b, setup: s, inputs: [o], run: x}\n");
}

/* One that was found made, one that was made again because it was lost, and two that are two. */
static void what_a_snapshot_serves(void **state)
{
    struct fixture *f = *state;
    setup_then_run(f, "a", "s1", "i1", 20);
    setup_then_run(f, "b", "s2", "i2", 20)->snapshot_reused = true;
    setup_then_run(f, "c", "s3", "i3", 20);
    setup_then_run(f, "a", "s4", "i4", 20)->try_ = 2;
    is_silent(f, HEAD "topology: per-agent\nagents:\n  - {name: a, setup: s, run: x}\n"
                      "  - {name: b, setup: s, run: x}\n  - {name: c, setup: s, files: {f: ./f}, run: x}\n");
}

static void variables_make_two_of_one(void **state)
{
    struct fixture *f = *state;
    setup_then_run(f, "a", "s1", "i1", 20);
    setup_then_run(f, "b", "s2", "i2", 30);
    advise(f, HEAD "topology: per-agent\nagents:\n"
                   "  - {name: a, setup: s, env: {SEED: '1', T: u}, run: echo \"$SEED\"}\n"
                   "  - {name: b, setup: s, env: {SEED: it's, T: u}, run: y}\n");
    const struct bh_advice *a = the_only(f, BH_ADVICE_SETUP);
    T_STR(a->summary, "one environment was made 2 times: 50.0s of setup for 2.0s of work");
    T_INT(a->saved_ns, INT64_C(20000000000));
    patch_has(a, "+  - {name: a, setup: s, env: {T: u}, run: \"export SEED='1'; echo \\\"$SEED\\\"\"}\n");
    patch_has(a, "+  - {name: b, setup: s, env: {T: u}, run: \"export SEED='it'\\\\''s'; y\"}\n");
}

/* Where the run is no line of a shell, or the setup needs the variable, the agents can be attempts of one. */
static void variables_that_cannot_move(void **state)
{
    struct fixture *f = *state;
    setup_then_run(f, "a", "s1", "i1", 20);
    setup_then_run(f, "b", "s2", "i2", 30);
    advise(f, HEAD "topology: per-agent\nagents:\n  - {name: a, setup: s, env: {K: '1'}, run: [x]}\n"
                   "  - {name: b, setup: s, env: {K: '2'}, run: y}\n");
    const struct bh_advice *a = the_only(f, BH_ADVICE_SETUP);
    assert_non_null(strstr(a->action, "'attempts: {each: [{K: \"1\"}, {K: \"2\"}], select: all}'"));
    assert_null(a->patch);
}

static void a_setup_that_names_the_variable(void **state)
{
    struct fixture *f = *state;
    setup_then_run(f, "a", "s1", "i1", 20);
    setup_then_run(f, "b", "s2", "i2", 30);
    advise(f, HEAD "topology: per-agent\nagents:\n  - {name: a, setup: 's $K', env: {K: '1'}, run: x}\n"
                   "  - {name: b, setup: 's $K', env: {K: '2'}, run: y}\n");
    assert_null(the_only(f, BH_ADVICE_SETUP)->patch);
}

/* --- one wedge, many dead --- */

#define CREW HEAD "agents:\n  - {name: hog, run: x}\n  - {name: fine, run: x}\n  - {name: late, run: x}\n"

static void who_met_the_limit_is_the_culprit(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "oom")->detail = text("memory limit of box 'crew' was reached");
    attempt(f, "fine", "i2", "crew", 1, 5.5, "box-lost")->status = text("lost");
    attempt(f, "late", "i3", "crew", 9, 11, NULL);
    advise(f, CREW);
    const struct bh_advice *a = the_only(f, BH_ADVICE_WEDGE);
    T_STR(a->summary, "'hog' took box 'crew' down, and agents that were fine with it");
    T_STR(a->box, "crew");
    T_INT(a->n_agents, 2);
    cites(a, "'hog' ended after 4.0s by oom: memory limit of box 'crew' was reached", 5);
    cites(a, "'fine' went down with it after 4.5s by box-lost", 5.5);
    cites(a, "'fine' has no timeout of its own: it may hang for an hour", 0 - 1);
    patch_has(a,
              "+  - {name: hog, topology: per-agent, timeout: 1m, run: x}\n+  - {name: fine, timeout: 1m, run: x}\n");
}

static void the_kernel_names_the_culprit(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "disk-full");
    attempt(f, "fine", "i2", "crew", 1, 5, "disk-full")->evidence = text("{\"kind\":\"wedge\",\"caused_by\":\"hog\"}");
    advise(f, HEAD "defaults: {timeout: 2m}\nagents:\n  - {name: fine, run: x}\n  - {name: hog, run: x}\n");
    const struct bh_advice *a = the_only(f, BH_ADVICE_WEDGE);
    T_STR(a->summary, "'hog' took box 'crew' down, and agents that were fine with it");
    patch_has(a, "+  - {name: hog, topology: per-agent, run: x}\n");
    assert_null(strstr(a->patch, "timeout: 1"));
}

/* It took the processors, and went on. */
static void a_culprit_may_survive(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 60, NULL);
    struct bh_attempt_row *row = attempt(f, "fine", "i2", "crew", 1, 5, "timeout(run)");
    row->evidence = text("{\"kind\":\"wedge\",\"what\":\"spin\",\"caused_by\":\"hog\"}");
    row->detail = text("run took longer than 4.0s; the cause, as the kernel counts: agent 'hog'");
    advise(f, CREW);
    const struct bh_advice *a = the_only(f, BH_ADVICE_WEDGE);
    T_STR(a->summary, "'hog' took box 'crew' down, and agents that were fine with it");
    cites(a, "'fine' went down with it after 4.0s by timeout(run): run took longer than 4.0s; the cause", 5);
    cites(a, "'hog' was at work in the box, and succeeded", 1);
    patch_has(a, "+  - {name: hog, topology: per-agent, timeout: 10m, run: x}");
}

/* A wedge that nobody else felt, or whose cause nobody could tell, is its own. */
static void a_wedge_of_one_is_none(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "oom")->evidence = text("{\"kind\":\"wedge\",\"caused_by\":\"hog\"}");
    attempt(f, "fine", "i2", "crew", 7, 8, "timeout(run)")->evidence = text("{\"kind\":\"wedge\",\"caused_by\":null}");
    attempt(f, "late", "i3", "crew", 1, 9, NULL);
    is_silent(f, CREW);
}

static void nobody_is_named_without_proof(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "disk-full");
    attempt(f, "fine", "i2", "crew", 1, 5, "disk-full");
    advise(f, CREW);
    const struct bh_advice *a = the_only(f, BH_ADVICE_WEDGE);
    assert_non_null(strstr(a->summary, "which one it was cannot be told"));
    patch_has(a, "+  - {name: hog, topology: per-agent"); /* both: the one alone might be who was fine */
    patch_has(a, "+  - {name: fine, topology: per-agent");
}

/* Both rows say disk-full: one died of its own write, the other was killed. */
static void disk_wedge(struct fixture *f, int64_t exit_code, int64_t signal)
{
    struct bh_attempt_row *fine = attempt(f, "fine", "i1", "crew", 1, 5, "disk-full");
    struct bh_attempt_row *hog = attempt(f, "hog", "i2", "crew", 1, 5, "disk-full");
    fine->signal = SIGKILL;
    hog->exit_code = exit_code;
    hog->signal = signal;
    advise(f, CREW);
    const struct bh_advice *a = the_only(f, BH_ADVICE_WEDGE);
    T_STR(a->summary, "'hog' took box 'crew' down, and agents that were fine with it");
    patch_has(a, "+  - {name: hog, topology: per-agent");
    assert_null(strstr(a->patch, "name: fine, topology"));
}

static void who_wrote_to_the_limit_is_the_culprit(void **state)
{
    disk_wedge(*state, 153, 0);
}

static void who_died_of_its_write_is_the_culprit(void **state)
{
    disk_wedge(*state, -1, SIGXFSZ);
}

static void who_gave_up_at_the_limit_is_the_culprit(void **state)
{
    disk_wedge(*state, 1, 0);
}

/* Of two that ended by themselves the one with the large file is the culprit, whoever wrote less was fine. */
static void a_large_file_tells_more_than_a_failed_write(void **state)
{
    struct fixture *f = *state;
    attempt(f, "fine", "i1", "crew", 1, 5, "disk-full")->exit_code = 1;
    attempt(f, "hog", "i2", "crew", 1, 5, "disk-full")->exit_code = 153;
    advise(f, CREW);
    T_STR(the_only(f, BH_ADVICE_WEDGE)->summary, "'hog' took box 'crew' down, and agents that were fine with it");
}

#define WROTE(a, b)                                                                                                 \
    "{\"kind\":\"wedge\",\"what\":\"disk\",\"caused_by\":null,\"agents\":[{\"agent\":\"fine\",\"written_bytes\":" a \
    "},"                                                                                                            \
    "{\"agent\":\"hog\",\"written_bytes\":" b "}]}"

static void written_bytes_tell_more_than_endings(void **state)
{
    struct fixture *f = *state;
    struct bh_attempt_row *fine = attempt(f, "fine", "i1", "crew", 1, 5, "disk-full");
    fine->exit_code = 1;
    fine->evidence = text(WROTE("100", "5000"));
    attempt(f, "hog", "i2", "crew", 1, 5, "disk-full")->signal = SIGKILL;
    advise(f, CREW);
    T_STR(the_only(f, BH_ADVICE_WEDGE)->summary, "'hog' took box 'crew' down, and agents that were fine with it");
}

static void alike_bytes_name_nobody(void **state)
{
    struct fixture *f = *state;
    attempt(f, "fine", "i1", "crew", 1, 5, "disk-full")->evidence = text(WROTE("4000", "5000"));
    attempt(f, "hog", "i2", "crew", 1, 5, "disk-full")->evidence = text(WROTE("4000", "null"));
    advise(f, CREW);
    assert_non_null(strstr(the_only(f, BH_ADVICE_WEDGE)->summary, "which one it was cannot be told"));
}

static void a_limit_of_one_s_own_is_no_wedge(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "oom");
    attempt(f, "fine", "i2", "crew", 1, 6, NULL);
    attempt(f, "late", "i3", "crew", 1, 6, "exit");
    is_silent(f, CREW);
}

static void one_after_the_other_is_no_wedge(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "oom");
    attempt(f, "fine", "i2", "crew", 6, 7, "oom");
    is_silent(f, CREW);
}

static void bulkhead_s_own_death_is_no_wedge(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "box-lost")->status = text("lost");
    attempt(f, "fine", "i2", "crew", 1, 5, "box-lost")->status = text("lost");
    event(f, AT(5), "run.owner", bh_strdup("{}"));
    is_silent(f, CREW);
}

static void separate_boxes_do_not_wedge_each_other(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "hog", 1, 5, "oom");
    attempt(f, "fine", "i2", "fine", 1, 5, "box-lost");
    is_silent(f, HEAD "topology: per-agent\nagents: [{name: hog, run: x}, {name: fine, run: x}]\n");
}

/* --- whose artifact is it --- */

static void a_collision_whose_writer_is_not_known(void **state)
{
    struct fixture *f = *state;
    struct bh_attempt_row *row = attempt(f, "hog", "i1", "crew", 1, 5, "collision");
    row->detail = text("output 'o' changed after its agent 'hog' had ended");
    row->evidence = text("{\"kind\":\"collision\",\"artifact\":\"o\",\"attributed\":false,\"writers\":[],"
                         "\"alive\":[{\"agent\":\"fine\"},{\"agent\":\"late\"}]}");
    attempt(f, "fine", "i2", "crew", 2, 7, NULL);
    advise(f, CREW);
    const struct bh_advice *a = the_only(f, BH_ADVICE_PRODUCER);
    T_STR(a->summary,
          "'o' of 'hog' is not its owner's alone: another hand in box 'crew' was on it, and whose it was cannot be "
          "told; meanwhile there was 'fine', 'late'");
    T_INT(a->n_agents, 3);
    cites(a, "'hog' failed by collision: output 'o' changed after its agent 'hog' had ended", 5);
    cites(a, "'fine' was in the box at the same time", 2);
    patch_has(a, "+  - {name: hog, topology: per-agent, run: x}\n");
}

static void a_collision_with_a_known_writer(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "collision")->evidence =
        text("{\"kind\":\"collision\",\"artifact\":\"o\",\"attributed\":true,\"writers\":[{\"agent\":\"late\"}],"
             "\"alive\":[]}");
    advise(f, CREW);
    T_STR(the_only(f, BH_ADVICE_PRODUCER)->summary,
          "'o' of 'hog' is not its owner's alone: another agent of box 'crew' wrote to it: 'late'");
}

static void a_wrong_output_in_company(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "output-invalid")->detail = text("'o' is no JSON");
    attempt(f, "fine", "i2", "crew", 2, 7, NULL);
    advise(f, CREW);
    const struct bh_advice *a = the_only(f, BH_ADVICE_PRODUCER);
    cites(a, "'hog' failed by output-invalid: 'o' is no JSON", 5);
    patch_has(a, "+  - {name: hog, topology: per-agent");
}

static void a_wrong_output_of_one_alone_is_its_own(void **state)
{
    struct fixture *f = *state;
    attempt(f, "hog", "i1", "crew", 1, 5, "output-invalid");
    attempt(f, "fine", "i2", "crew", 6, 7, NULL);
    attempt(f, "late", "i3", "crew", 6, 7, "collision"); /* of names: the bus knows both owners */
    is_silent(f, CREW);
}

/* --- package directories --- */

static void put_file(struct fixture *f, const char *path, const char *content)
{
    BH_CLEANUP_FREE char *full = bh_home_run_path(&f->h.home, f->id.s, path);
    BH_CLEANUP_FREE char *dir = bh_path_dirname(full);
    T_OK(bh_mkdir_p(dir, 0700, &err));
    T_OK(bh_write_file_atomic(full, content, strlen(content), 0644, &err));
}

static void npm(struct fixture *f, const char *layer, const char *name, const char *version)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/root/workspace/node_modules/%s/package.json", layer, name);
    BH_CLEANUP_FREE char *json = bh_asprintf("{\"name\":\"%s\",\"version\":\"%s\"}", name, version);
    put_file(f, path, json);
}

static void frozen(struct fixture *f, double at, const char *layer)
{
    event(f, AT(at), "box.frozen", bh_asprintf("{\"box\":0,\"layer\":\"%s\"}", layer));
}

static void another_version_than_it_asked_for(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "crew", 1, 4, NULL);
    attempt(f, "b", "i2", "crew", 1, 5, NULL);
    frozen(f, 6, "crew-1");
    npm(f, "layers/crew-1", "d3", "2.0.0");
    advise(f, HEAD "stages:\n  - name: s\n    agents:\n"
                   "      - {name: a, setup: '[ -d node_modules/d3 ] || npm i d3@1.4.5', run: x}\n"
                   "      - {name: b, setup: npm i d3@2.0.0, run: x}\n");
    const struct bh_advice *a = the_only(f, BH_ADVICE_INSTALLS); /* that of the document, with what was found */
    cites(a, "'b' installs npm package 'd3' 2.0.0 in /workspace: npm i d3@2.0.0", -1);
    cites(a, "'a' asked for npm package 'd3' 1.4.5, and when it had ended there was 2.0.0 in /workspace/node_modules",
          6);
    patch_has(a, "+      - {name: b, topology: per-agent");
}

#define TWO_STAGES                                                                                                    \
    HEAD "stages:\n  - {name: s, agents: [{name: a, run: x}]}\n  - name: t\n    agents:\n      - {name: b, run: x}\n" \
         "      - {name: c, run: x}\n"

static void a_package_that_changed_under_others(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "crew", 1, 4, NULL);
    attempt(f, "b", "i2", "crew", 6, 9, NULL);
    attempt(f, "c", "i3", "crew", 7, 8, NULL);
    frozen(f, 5, "crew-1");
    frozen(f, 10, "crew-2");
    npm(f, "layers/crew-1", "@s/d3", "1.0.0");
    npm(f, "layers/crew-1", "same", "1.0.0");
    npm(f, "layers/crew-2", "@s/d3", "2.0.0");
    npm(f, "layers/crew-2", "same", "1.0.0");
    npm(f, "layers/crew-2", "new", "1.0.0");
    advise(f, TWO_STAGES);
    const struct bh_advice *a = the_only(f, BH_ADVICE_INSTALLS);
    T_STR(a->summary, "npm package '@s/d3' changed under the agents of box 'crew'");
    cites(a,
          "npm package '@s/d3' in /workspace/node_modules was 1.0.0 and then 2.0.0, while several agents were at work",
          10);
    cites(a, "'b' was in box 'crew' then", 6);
    patch_has(a, "+      - {name: c, topology: per-agent, run: x}\n");
}

static void one_alone_may_upgrade(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "crew", 1, 4, NULL);
    attempt(f, "b", "i2", "crew", 6, 7, NULL);
    attempt(f, "c", "i3", "crew", 8, 9, NULL);
    frozen(f, 5, "crew-1");
    frozen(f, 10, "crew-2");
    npm(f, "layers/crew-1", "d3", "1.0.0");
    npm(f, "layers/crew-2", "d3", "2.0.0");
    is_silent(f, TWO_STAGES);
}

static void what_a_kept_box_holds_counts(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "crew", 1, 4, NULL);
    attempt(f, "b", "i2", "crew", 6, 9, NULL);
    attempt(f, "c", "i3", "crew", 7, 8, NULL);
    frozen(f, 5, "crew-1");
    put_file(f, "layers/crew-1/opt/v/lib/site-packages/Foo_Bar-1.0.dist-info/METADATA", "");
    put_file(f, "boxes/crew.1.9/upper/opt/v/lib/site-packages/old.txt", "");
    put_file(f, "boxes/crew.1.10/upper/opt/v/lib/site-packages/foo_bar-1.1.dist-info/METADATA", "");
    put_file(f, "boxes/crew-tainted.1.11/upper/opt/v/lib/site-packages/foo_bar-9.dist-info/METADATA", "");
    advise(f, TWO_STAGES);
    cites(the_only(f, BH_ADVICE_INSTALLS), "pip package 'foo-bar' in /opt/v/lib/site-packages was 1.0 and then 1.1",
          100);
}

/* What agents wrote is looked at with care: no links, no junk, no end of it either. */
static void hostile_trees_are_passed_over(void **state)
{
    struct fixture *f = *state;
    struct bh_packages list = {0};
    npm(f, "layers/l", "good", "1.0.0");
    npm(f, "layers/l", "junk", "\\u001b[2J");
    npm(f, "layers/l", "no-number", "latest");
    put_file(f, "layers/l/root/workspace/node_modules/torn/package.json", "{\"version\":");
    put_file(f, "layers/l/root/workspace/node_modules/.bin/package.json", "{\"version\":\"1.0.0\"}");
    put_file(f, "layers/elsewhere/package.json", "{\"version\":\"6.6.6\"}");
    BH_CLEANUP_FREE char *modules = bh_home_run_path(&f->h.home, f->id.s, "layers/l/root/workspace/node_modules");
    BH_CLEANUP_FREE char *link = bh_path_join(modules, "linked"), *loop = bh_path_join(modules, "fifo");
    T_INT(symlink("../../../../elsewhere", link), 0);
    T_INT(mkdir(loop, 0700), 0);
    BH_CLEANUP_FREE char *fifo = bh_path_join(loop, "package.json");
    T_INT(mkfifo(fifo, 0600), 0);
    BH_CLEANUP_FREE char *dir = bh_asprintf("runs/%s/layers/l", f->id.s);
    bh_packages_scan(f->h.home.dirfd, dir, &list);
    T_INT(list.len, 1);
    T_STR(list.items[0].name, "good");
    T_STR(list.items[0].place, "/workspace/node_modules");
    bh_packages_fini(&list);
    bh_packages_scan(f->h.home.dirfd, "runs/nowhere", &list);
    T_INT(list.len, 0);
}

static void a_whiteout_is_a_package_taken_away(void **state)
{
    struct fixture *f = *state;
    struct bh_packages list = {0};
    npm(f, "layers/l", "good", "1.0.0");
    BH_CLEANUP_FREE char *path = bh_home_run_path(&f->h.home, f->id.s, "layers/l/root/workspace/node_modules/gone");
    if (mknod(path, S_IFCHR, makedev(0, 0)) != 0)
        t_skip("whiteout", "no device 0:0 can be made here");
    BH_CLEANUP_FREE char *dir = bh_asprintf("runs/%s/layers/l", f->id.s);
    bh_packages_scan(f->h.home.dirfd, dir, &list);
    T_INT(list.len, 2);
    size_t gone = strcmp(list.items[0].name, "gone") == 0 ? 0 : 1;
    T_STR(list.items[gone].name, "gone");
    assert_null(list.items[gone].version);
    bh_packages_fini(&list);
}

/* --- the whole --- */

static void a_good_run_is_told_nothing(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "crew", 1, 4, NULL);
    attempt(f, "b", "i2", "crew", 6, 9, NULL);
    attempt(f, "c", "i3", "crew", 7, 8, "exit");
    state_of(f, "unknown", 1, "setup");
    event(f, AT(5), "something.new", bh_strdup("{}"));
    frozen(f, 5, "../../escape");
    is_silent(f, TWO_STAGES);
}

#define FILES HEAD "topology: per-agent\nagents: [{name: a, run: x, outputs: [o]}, {name: b, inputs: [o], run: x}]\n"

/* The concession is for runs in which walls kept nothing back. */
static void walls_that_served_are_not_talked_away(void **state)
{
    struct fixture *f = *state;
    f->status = "succeeded";
    attempt(f, "a", "i1", "a", 1, 4, "oom");
    attempt(f, "a", "i2", "a", 5, 6, NULL)->try_ = 2;
    attempt(f, "b", "i3", "b", 7, 8, NULL);
    is_silent(f, FILES);
}

static void walls_that_nobody_needed(void **state)
{
    struct fixture *f = *state;
    f->status = "succeeded";
    attempt(f, "a", "i1", "a", 1, 4, NULL);
    attempt(f, "b", "i2", "b", 5, 6, NULL);
    advise(f, FILES);
    patch_has(the_only(f, BH_ADVICE_ONE_BOX), "-topology: per-agent\n+topology: auto\n");
}

static void a_failed_run_is_no_proof(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "a", 1, 4, NULL);
    is_silent(f, FILES);
}

static void a_damaged_store_is_named(void **state)
{
    struct fixture *f = *state;
    attempt(f, "a", "i1", "crew", 1, 4, NULL);
    event(f, AT(5), "run.started", bh_strdup("{}"));
    advise(f, TWO_STAGES);
    kit_write_mark(&f->h.home, f->id.s, "junk");
    struct bh_run_row row = kit_run_row(f->id.s, "failed");
    struct bh_advise_subject subject = {.file = "p.yaml", .text = "", .pipeline = f->pipeline, .plan = f->plan};
    T_ERR(bh_advise_run(&f->h.home, f->store, &row, &subject, &f->list, &err), BH_E_STORE_CORRUPT, f->id.s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(equal_setups_one_after_the_other),
        TEST(a_run_too_short_to_be_seen),
        TEST(short_setups_are_fine),
        TEST(little_to_save_is_no_news),
        TEST(a_setup_that_failed_made_nothing),
        TEST(a_crew_is_no_row_of_attempts),
        TEST(what_a_snapshot_serves),
        TEST(variables_make_two_of_one),
        TEST(variables_that_cannot_move),
        TEST(a_setup_that_names_the_variable),
        TEST(who_met_the_limit_is_the_culprit),
        TEST(the_kernel_names_the_culprit),
        TEST(a_culprit_may_survive),
        TEST(a_wedge_of_one_is_none),
        TEST(nobody_is_named_without_proof),
        TEST(who_wrote_to_the_limit_is_the_culprit),
        TEST(who_died_of_its_write_is_the_culprit),
        TEST(who_gave_up_at_the_limit_is_the_culprit),
        TEST(a_large_file_tells_more_than_a_failed_write),
        TEST(written_bytes_tell_more_than_endings),
        TEST(alike_bytes_name_nobody),
        TEST(a_limit_of_one_s_own_is_no_wedge),
        TEST(one_after_the_other_is_no_wedge),
        TEST(bulkhead_s_own_death_is_no_wedge),
        TEST(separate_boxes_do_not_wedge_each_other),
        TEST(a_collision_whose_writer_is_not_known),
        TEST(a_collision_with_a_known_writer),
        TEST(a_wrong_output_in_company),
        TEST(a_wrong_output_of_one_alone_is_its_own),
        TEST(another_version_than_it_asked_for),
        TEST(a_package_that_changed_under_others),
        TEST(one_alone_may_upgrade),
        TEST(what_a_kept_box_holds_counts),
        TEST(hostile_trees_are_passed_over),
        TEST(a_whiteout_is_a_package_taken_away),
        TEST(a_good_run_is_told_nothing),
        TEST(walls_that_served_are_not_talked_away),
        TEST(walls_that_nobody_needed),
        TEST(a_failed_run_is_no_proof),
        TEST(a_damaged_store_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
