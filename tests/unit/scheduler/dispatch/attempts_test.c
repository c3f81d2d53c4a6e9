/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of several executions: their leases and keys, what is on the bus afterwards, and all of it again from the log.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "scheduler/dispatch/attempt_text.h"
#include "scheduler/dispatch/lease_make.h"
#include "scheduler/dispatch/live_run.h"
#include "scheduler/dispatch/snapshot_key.h"
#include "tests/support/t.h"
#include "tests/unit/scheduler/dispatch/run_fixture.h"

#define DIGEST "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static const char text[] =
    "version: 1\nname: t\nmax_failures: 9\nagents:\n"
    "- name: a\n  setup: make\n  prepare: [ready]\n  attempts: {select: best, score: s, each: [{A: '1'}, {A: "
    "'x{{attempt}}'}]}\n"
    "  env: {N: 'n{{attempt}}', K: k}\n  run: [go, '{{attempt}}']\n  check: {run: [judge, '{{attempt}}'], box: fresh}\n"
    "  prompt: 'number {{attempt}}'\n  outputs: [o, 'p-{{attempt}}']\n"
    "- {name: b, run: x, outputs: [{glob: '*'}], attempts: 2, needs: [a]}\n"
    "- {name: c, run: x, setup: make, topology: per-agent, env: {K: k}}\n";

/* What all of several attempts left, and who reads it. */
static const char all_text[] =
    "version: 1\nname: t\nmax_failures: 9\nagents:\n"
    "- {name: many, run: x, attempts: {count: 3, select: all}, check: [judge], outputs: [r]}\n"
    "- {name: every, run: x, inputs: ['r@*']}\n"
    "- {name: second, run: x, inputs: ['r@2']}\n"
    "- {name: may, run: x, inputs: [{name: 'r@2', optional: true}, 'r@3']}\n";

static int set_up_with(void **state, const char *document)
{
    struct fixture *f = run_fixture_new(document);
    T_TRUE(bh_live_run_apply(f->run, &(struct bh_event){.kind = BH_EV_START}, NULL));
    T_TRUE(bh_live_run_apply(f->run, &(struct bh_event){.kind = BH_EV_WORKER_UP, .slots = 8}, NULL));
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, text);
}

static int set_up_all(void **state)
{
    return set_up_with(state, all_text);
}

/* The newest execution of the agent that is of this kind and number. */
static const struct bh_attempt *newest(const struct fixture *f, size_t node, enum bh_execution kind, int attempt)
{
    const struct bh_engine *e = bh_live_run_engine(f->run);
    for (size_t i = bh_engine_n_attempts(e); i > 0; i--) {
        const struct bh_attempt *a = bh_engine_attempt(e, i - 1);
        if (a->node == node && a->kind == kind && a->attempt == attempt)
            return a;
    }
    fail_msg("agent %zu has no execution %d of attempt %d", node, kind, attempt);
    return NULL;
}

static struct bh_lease lease_of(struct fixture *f, const struct bh_attempt *a)
{
    struct bh_lease lease = {0};
    struct bh_lease_order order = {.instance = a->instance,
                                   .epoch = a->epoch,
                                   .node = a->node,
                                   .kind = a->kind,
                                   .attempt = a->attempt,
                                   .try_ = a->try_,
                                   .box_key = a->instance.s,
                                   .host = "h"};
    T_OK(bh_lease_make(f->run, &order, &lease, &err));
    return lease;
}

struct ending {
    enum bh_outcome outcome;
    const char *reason, *snapshot;
    const char *outputs[2];
    bool has_score;
    double score;
};

static void end(struct fixture *f, size_t node, enum bh_execution kind, int attempt, struct ending how)
{
    const struct bh_attempt *a = newest(f, node, kind, attempt);
    struct bh_lease lease = lease_of(f, a);
    char *stack[] = {(char *)(uintptr_t)how.snapshot};
    struct bh_result_output outputs[2] = {{0}};
    struct bh_result r = {.instance = a->instance,
                          .epoch = a->epoch,
                          .outcome = how.outcome,
                          .reason = (char *)(uintptr_t)how.reason,
                          .snapshots = stack,
                          .n_snapshots = how.snapshot != NULL,
                          .snapshot = (char *)(uintptr_t)(how.snapshot ? DIGEST : NULL),
                          .outputs = outputs,
                          .has_score = how.has_score,
                          .score = how.score};
    for (; r.n_outputs < 2 && how.outputs[r.n_outputs]; r.n_outputs++) {
        const char *name = how.outputs[r.n_outputs];
        outputs[r.n_outputs] = (struct bh_result_output){.name = (char *)(uintptr_t)name,
                                                         .object = {.digest = bh_digest_of(name, strlen(name))}};
    }
    T_TRUE(bh_live_run_end(f->run, &lease, &r));
    bh_lease_fini(&lease);
}

static const char *env_of(const struct bh_lease *lease, const char *name)
{
    for (size_t i = 0; i < lease->n_env; i++) {
        if (bh_streq(lease->env[i].name, name))
            return lease->env[i].value;
    }
    return "-";
}

static void names_are(const struct fixture *f, const char *want)
{
    const struct bh_registry *bus = bh_live_run_registry(f->run);
    BH_CLEANUP_BUF struct bh_buf names = BH_BUF_INIT;
    for (size_t i = 0; i < bh_registry_len(bus); i++)
        bh_buf_addf(&names, "%s ", bh_registry_at(bus, i)->name);
    T_STR(names.data ? names.data : "", want);
}

static void commit_and_load(struct fixture *f)
{
    T_OK(bh_live_run_commit(f->run, &err));
    bh_live_run_free(f->run);
    T_OK(bh_live_run_load(f->store, f->id.s, &f->run, &err));
}

#define PASSED(...) ((struct ending){.outcome = BH_OUTCOME_SUCCEEDED, __VA_ARGS__})
#define FAILED(why, ...) ((struct ending){.outcome = BH_OUTCOME_FAILED, .reason = (why), __VA_ARGS__})

/* --- leases --- */

static void each_kind_has_its_own(void **state)
{
    struct fixture *f = *state;
    struct bh_lease setup = lease_of(f, newest(f, 0, BH_EXECUTION_SETUP, 0));
    T_INT(setup.kind, BH_LEASE_SETUP);
    T_STR(setup.setup[2], "make");
    T_INT(setup.n_prepare + setup.n_run + setup.check.n_argv + setup.n_outputs, 0);
    T_STR(env_of(&setup, "BULKHEAD_RUN"), "-");
    T_STR(env_of(&setup, "BULKHEAD_AGENT"), "-");
    T_STR(env_of(&setup, "N"), "-"); /* it has no number */
    T_STR(env_of(&setup, "K"), "k");
    end(f, 0, BH_EXECUTION_SETUP, 0, PASSED(.snapshot = "below"));
    struct bh_lease prepare = lease_of(f, newest(f, 0, BH_EXECUTION_PREPARE, 0));
    T_INT(prepare.kind, BH_LEASE_PREPARE);
    T_STR(prepare.prepare[0], "ready");
    T_INT(prepare.n_setup + prepare.n_run, 0);
    T_STR(prepare.box.snapshots[0], "below");
    T_STR(env_of(&prepare, "BULKHEAD_AGENT"), "a");
    T_STR(env_of(&prepare, "BULKHEAD_INSTANCE"), "-");
    T_TRUE(strcmp(prepare.snapshot_key, setup.snapshot_key) != 0);
    end(f, 0, BH_EXECUTION_PREPARE, 0, PASSED(.snapshot = "above"));
    struct bh_lease run = lease_of(f, newest(f, 0, BH_EXECUTION_RUN, 2));
    T_INT(run.kind, BH_LEASE_RUN);
    T_STR(run.run_argv[1], "2");
    T_STR(run.check.argv[1], "2");
    T_TRUE(run.check.fresh);
    T_STR(run.check.score, "s");
    T_STR(run.prompt, "number 2");
    T_STR(run.outputs[1].name, "p-2");
    T_STR(run.outputs[1].path, "out/p-2");
    T_STR(env_of(&run, "N"), "n2");
    T_STR(env_of(&run, "A"), "x2");
    T_STR(env_of(&run, "BULKHEAD_ATTEMPT"), "2");
    T_STR(run.box.snapshots[0], "above");
    T_STR(run.snapshot_key, prepare.snapshot_key);
    T_INT(run.n_setup, 0);
    bh_lease_fini(&setup);
    bh_lease_fini(&prepare);
    bh_lease_fini(&run);
}

/* Another agent's equal setup has the key of the first. */
static void equal_setups_have_one_key(void **state)
{
    struct fixture *f = *state;
    struct bh_lease a = lease_of(f, newest(f, 0, BH_EXECUTION_SETUP, 0));
    end(f, 0, BH_EXECUTION_SETUP, 0, PASSED(.snapshot = "below"));
    struct bh_lease c = lease_of(f, newest(f, 2, BH_EXECUTION_SETUP, 0));
    T_STR(a.snapshot_key, c.snapshot_key);
    T_INT(strlen(a.snapshot_key), 64);
    bh_lease_fini(&a);
    bh_lease_fini(&c);
}

static void the_key_is_all_that_goes_in(void **state)
{
    struct fixture *f = *state;
    struct bh_lease l = lease_of(f, newest(f, 0, BH_EXECUTION_SETUP, 0));
    struct bh_snapshot_world world = {.network = "none", .host = "h"};
    BH_CLEANUP_FREE char *first = bh_snapshot_key(&l, NULL, &world), *again = bh_snapshot_key(&l, NULL, &world);
    T_STR(first, again);
    char old = l.setup[2][0];
    struct bh_snapshot_world others[] = {{.network = "public", .host = "h"},
                                         {.network = "none", .tainted = true, .host = "h"},
                                         {.network = "none", .host = "another"}};
    for (size_t i = 0; i < BH_ARRAY_LEN(others); i++) {
        BH_CLEANUP_FREE char *other = bh_snapshot_key(&l, NULL, &others[i]);
        T_TRUE(strcmp(first, other) != 0);
    }
    l.setup[2][0] = 'M';
    BH_CLEANUP_FREE char *command = bh_snapshot_key(&l, NULL, &world), *below = bh_snapshot_key(&l, first, &world);
    T_TRUE(strcmp(first, command) != 0 && strcmp(command, below) != 0);
    l.setup[2][0] = old;
    l.attempt = l.try_ = 7; /* who it is made for */
    l.setup_ns++;
    BH_CLEANUP_FREE char *same = bh_snapshot_key(&l, NULL, &world);
    T_STR(first, same);
    BH_CLEANUP_FREE char *host = bh_host_stamp();
    T_TRUE(strstr(host, "/usr:") != NULL);
    bh_lease_fini(&l);
}

/* Beneath a process that lives nothing is replaced by another run, another agent or a later try. */
static void a_warm_one_is_shared_with_nobody(void **state)
{
    struct fixture *f = *state;
    end(f, 0, BH_EXECUTION_SETUP, 0, PASSED(.snapshot = "below"));
    struct bh_lease l = lease_of(f, newest(f, 0, BH_EXECUTION_PREPARE, 0));
    const struct bh_snapshot_world world = {.network = "none", .host = "h"};
    BH_CLEANUP_FREE char *cold = bh_snapshot_key(&l, NULL, &world);
    l.warm = true;
    BH_CLEANUP_FREE char *warm = bh_snapshot_key(&l, NULL, &world), *again = bh_snapshot_key(&l, NULL, &world);
    T_TRUE(strcmp(cold, warm) != 0);
    T_STR(warm, again);
    l.try_++;
    BH_CLEANUP_FREE char *late = bh_snapshot_key(&l, NULL, &world);
    l.try_--;
    l.epoch++;
    BH_CLEANUP_FREE char *resumed = bh_snapshot_key(&l, NULL, &world);
    l.epoch--;
    l.run.s[0] ^= 1;
    BH_CLEANUP_FREE char *run = bh_snapshot_key(&l, NULL, &world);
    l.run.s[0] ^= 1;
    l.instance.s[0] ^= 1;
    BH_CLEANUP_FREE char *other = bh_snapshot_key(&l, NULL, &world);
    const char *all[] = {warm, late, resumed, run, other};
    for (size_t i = 0; i < BH_ARRAY_LEN(all); i++) {
        for (size_t j = 0; j < i; j++)
            T_TRUE(strcmp(all[i], all[j]) != 0);
    }
    bh_lease_fini(&l);
}

static void numbers_in_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", ""},
        {"x", "x"},
        {"{{attempt}}", "12"},
        {"a{{ attempt }}b{{attempt}}", "a12b12"},
        {"{{other}} {{", "{{other}} {{"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_FREE char *got = bh_attempt_text(rows[i].text, 12);
        T_STR(got, rows[i].want);
    }
    assert_null(bh_attempt_text(NULL, 1));
}

/* --- the bus --- */

static void run_a(struct fixture *f)
{
    end(f, 0, BH_EXECUTION_SETUP, 0, PASSED(.snapshot = "below"));
    end(f, 0, BH_EXECUTION_PREPARE, 0, PASSED(.snapshot = "above"));
    end(f, 0, BH_EXECUTION_RUN, 2, PASSED(.outputs = {"o", "p-2"}, .has_score = true, .score = 0.1));
    names_are(f, "o@2 p-2@2 ");
    end(f, 0, BH_EXECUTION_RUN, 1, FAILED("check", .outputs = {"o"}));
}

static void the_chosen_one_has_the_plain_names(void **state)
{
    struct fixture *f = *state;
    run_a(f);
    for (int again = 0; again < 2; again++) {
        const struct bh_registry *bus = bh_live_run_registry(f->run);
        names_are(f, "o@2 p-2@2 o@1 o p-2 ");
        T_STR(bh_registry_get(bus, "o")->instance, bh_registry_get(bus, "o@2")->instance);
        T_INT(bh_registry_get(bus, "o")->attempt, 2);
        BH_CLEANUP_VAL struct bh_val *record = NULL;
        const char *json = bh_registry_get(bus, "o")->provenance;
        T_OK(bh_json_parse(json, strlen(json), &record, &err));
        T_STR(bh_val_str_of(record, "name"), "o");
        T_TRUE(bh_starts_with(bh_val_str_of(record, "setup"), "sha256:"));
        T_TRUE(bh_starts_with(bh_val_str_of(record, "prepare"), "sha256:"));
        T_STR(bh_val_str_of(record, "snapshot_key"), bh_val_str_of(bh_live_run_prepared_of(f->run, 0), "snapshot_key"));
        T_INT(bh_engine_node(bh_live_run_engine(f->run), 0)->state, BH_NODE_DONE);
        T_TRUE(newest(f, 0, BH_EXECUTION_RUN, 2)->selected);
        T_STR(bh_val_str_of(bh_live_run_prepared_of(f->run, 0), "snapshot"), DIGEST);
        commit_and_load(f);
    }
}

static void rows_say_what_they_were(void **state)
{
    struct fixture *f = *state;
    struct bh_attempt_row *rows = NULL;
    size_t n = 0;
    run_a(f);
    T_OK(bh_live_run_commit(f->run, &err));
    T_OK(bh_store_list_attempts(f->store, f->id.s, &rows, &n, &err));
    T_STR(rows[0].kind, "setup");
    T_STR(rows[1].kind, "prepare");
    T_STR(rows[1].snapshot, DIGEST);
    assert_null(rows[2].kind);
    T_INT(rows[2].attempt, 1);
    T_TRUE(!rows[2].selected && rows[3].selected);
    T_STR(rows[3].score, "0.1");
    bh_attempt_rows_free(rows, n);
}

/* The glob of b takes a name of a: both attempts keep theirs, the agent fails. */
static void a_choice_may_collide(void **state)
{
    struct fixture *f = *state;
    run_a(f);
    end(f, 1, BH_EXECUTION_RUN, 1, PASSED(.outputs = {"p-2"}));
    end(f, 1, BH_EXECUTION_RUN, 2, FAILED("exit"));
    const struct bh_node *b = bh_engine_node(bh_live_run_engine(f->run), 1);
    T_INT(b->state, BH_NODE_FAILED);
    T_INT(b->reason, BH_REASON_COLLISION);
    const struct bh_attempt *blamed = NULL;
    BH_CLEANUP_FREE char *detail = bh_live_run_attempts_detail(f->run, 1, &blamed);
    T_TRUE(strstr(detail, "'p-2' of agent 'b' (attempt 1) is the same name as 'p-2' of agent 'a' (attempt 2)") != NULL);
    assert_null(blamed);
    commit_and_load(f);
    T_INT(bh_engine_node(bh_live_run_engine(f->run), 1)->reason, BH_REASON_COLLISION);
}

/* --- why there is no result --- */

static void a_failure_is_summed_up(void **state)
{
    struct fixture *f = *state;
    const struct bh_attempt *blamed = NULL;
    run_a(f);
    end(f, 1, BH_EXECUTION_RUN, 2, FAILED("timeout(run)"));
    end(f, 1, BH_EXECUTION_RUN, 1, FAILED("exit"));
    BH_CLEANUP_FREE char *detail = bh_live_run_attempts_detail(f->run, 1, &blamed);
    T_STR(detail, "none of 2 attempts passed (1 by exit, 1 by timeout(run))");
    T_INT(blamed->attempt, 1);
}

static void a_preparation_that_fails_is_told(void **state)
{
    struct fixture *f = *state;
    const struct bh_attempt *blamed = NULL;
    end(f, 0, BH_EXECUTION_SETUP, 0, PASSED(.snapshot = "below"));
    end(f, 0, BH_EXECUTION_PREPARE, 0, FAILED("timeout(prepare)"));
    BH_CLEANUP_FREE char *detail = bh_live_run_attempts_detail(f->run, 0, &blamed);
    T_STR(detail, "its preparation failed, so no attempt could start from it");
    T_INT(blamed->kind, BH_EXECUTION_PREPARE);
    T_INT(bh_engine_node(bh_live_run_engine(f->run), 0)->state, BH_NODE_FAILED);
}

static void without_a_score_nobody_wins(void **state)
{
    struct fixture *f = *state;
    const struct bh_attempt *blamed = NULL;
    end(f, 0, BH_EXECUTION_SETUP, 0, PASSED(.snapshot = "below"));
    end(f, 0, BH_EXECUTION_PREPARE, 0, PASSED(.snapshot = "above"));
    end(f, 0, BH_EXECUTION_RUN, 1, PASSED(.outputs = {"o"}));
    end(f, 0, BH_EXECUTION_RUN, 2, PASSED(.outputs = {"o"}));
    BH_CLEANUP_FREE char *detail = bh_live_run_attempts_detail(f->run, 0, &blamed);
    T_STR(detail, "none of the 2 attempts that passed left one finite decimal in 's'");
    T_INT(bh_engine_node(bh_live_run_engine(f->run), 0)->reason, BH_REASON_CHECK);
    names_are(f, "o@1 o@2 ");
}

/* --- what others read --- */

static int try_lease(struct fixture *f, size_t node, struct bh_lease *ret, struct bh_err **err)
{
    const struct bh_attempt *a = newest(f, node, BH_EXECUTION_RUN, 1);
    struct bh_lease_order order = {.instance = a->instance,
                                   .epoch = a->epoch,
                                   .node = node,
                                   .kind = a->kind,
                                   .attempt = 1,
                                   .try_ = a->try_,
                                   .box_key = a->instance.s,
                                   .host = "h"};
    return bh_lease_make(f->run, &order, ret, err);
}

static void what_a_check_refused_is_not_handed_on(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_ERR struct bh_err *why = NULL;
    struct bh_lease lease = {0};
    end(f, 0, BH_EXECUTION_RUN, 1, PASSED(.outputs = {"r"}));
    end(f, 0, BH_EXECUTION_RUN, 2, FAILED("check", .outputs = {"r"}));
    end(f, 0, BH_EXECUTION_RUN, 3, PASSED(.outputs = {"r"}));
    commit_and_load(f);
    names_are(f, "r@1 r@2 r@3 "); /* for people they all are there */
    T_OK(try_lease(f, 1, &lease, &err));
    T_INT(lease.n_inputs, 2);
    T_STR(lease.inputs[0].name, "r@1");
    T_STR(lease.inputs[1].name, "r@3");
    bh_lease_fini(&lease);
    T_INT(try_lease(f, 2, &lease, &why), -BH_E_UNBOUND_INPUT);
    T_STR(bh_err_message(why),
          "the input 'r@2' was not published by 'many': attempt 2 failed by check, and what it left is not handed on");
    assert_non_null(strstr(bh_err_get_hint(why), "'r@*'"));
    T_OK(try_lease(f, 3, &lease, &err));
    T_INT(lease.n_inputs, 1);
    T_STR(lease.inputs[0].name, "r@3");
    bh_lease_fini(&lease);
}

/* Where it left nothing the reason is the same. */
static void an_input_says_which_attempt_failed(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_ERR struct bh_err *why = NULL;
    struct bh_lease lease = {0};
    end(f, 0, BH_EXECUTION_RUN, 1, PASSED(.outputs = {"r"}));
    end(f, 0, BH_EXECUTION_RUN, 2, FAILED("timeout(run)"));
    end(f, 0, BH_EXECUTION_RUN, 3, PASSED(.outputs = {"r"}));
    T_INT(try_lease(f, 2, &lease, &why), -BH_E_UNBOUND_INPUT);
    T_STR(bh_err_message(why), "the input 'r@2' was not published by 'many': attempt 2 failed by timeout(run)");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, run_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(each_kind_has_its_own),
        T(equal_setups_have_one_key),
        T(the_key_is_all_that_goes_in),
        T(a_warm_one_is_shared_with_nobody),
        cmocka_unit_test(numbers_in_texts),
        T(the_chosen_one_has_the_plain_names),
        T(rows_say_what_they_were),
        T(a_choice_may_collide),
        T(a_failure_is_summed_up),
        T(a_preparation_that_fails_is_told),
        T(without_a_score_nobody_wins),
        cmocka_unit_test_setup_teardown(what_a_check_refused_is_not_handed_on, set_up_all, run_fixture_tear_down),
        cmocka_unit_test_setup_teardown(an_input_says_which_attempt_failed, set_up_all, run_fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
