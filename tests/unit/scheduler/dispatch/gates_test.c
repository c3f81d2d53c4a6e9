/* SPDX-License-Identifier: Apache-2.0 */
/* Gates from the document to the lease: specs, questions, decisions, what passed, and all of it again from the log. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"
#include "scheduler/dispatch/decision.h"
#include "scheduler/dispatch/lease_make.h"
#include "scheduler/dispatch/question.h"
#include "tests/support/t.h"
#include "tests/unit/scheduler/dispatch/run_fixture.h"

static const char text[] =
    "version: 1\nname: t\ntopology: per-agent\nparams: {n: {type: int, default: 7}}\nstages:\n"
    "- name: read\n  agents:\n"
    "  - {name: reader, untrusted: true, run: x, outputs: [page, other]}\n"
    "  - {name: clean, run: x, outputs: [notes]}\n"
    "- name: use\n  gate: approve\n  agents:\n"
    "  - {name: ask, run: x, inputs: [page, notes], timeout: 2m, accept: {page: {approve: true}}, outputs: [mine]}\n"
    "  - {name: look, run: x, inputs: [page, other], accept: {'*': {validate: {kind: jsonl, max_size: 1KiB, command: "
    "[judge, '{{params.n}}']}}}}\n"
    "  - {name: late, run: x, inputs: [mine], gate: approve, outputs: [{name: end, validate: {kind: csv, max_lines: "
    "3}}]}\n"
    "  - {name: again, run: x, inputs: [page], accept: {'pa*': {approve: true}}}\n";

enum { READER, CLEAN, ASK, LOOK, LATE, AGAIN };
enum { GATE_ASK, GATE_LATE, GATE_AGAIN, GATE_USE };

static void apply(struct fixture *f, struct bh_event event, struct bh_val *extra)
{
    T_TRUE(bh_live_run_apply(f->run, &event, extra));
}

static int set_up(void **state)
{
    struct fixture *f = run_fixture_new(text);
    apply(f, (struct bh_event){.kind = BH_EV_START}, NULL);
    apply(f, (struct bh_event){.kind = BH_EV_WORKER_UP, .slots = 8}, NULL);
    *state = f;
    return 0;
}

static int lease_of(struct fixture *f, size_t node, struct bh_lease *ret, struct bh_err **err)
{
    struct bh_lease_order order = {.epoch = 1, .node = node, .attempt = 1, .try_ = 1, .box_key = "k"};
    *ret = (struct bh_lease){0};
    snprintf(order.instance.s, sizeof(order.instance.s), "%s-%06zu", f->id.s, node + 1);
    return bh_lease_make(f->run, &order, ret, err);
}

/* The agent has ended well, and its outputs are on the bus: their content is `content` and their name. */
static void done(struct fixture *f, size_t node, const char *content)
{
    const struct bh_plan_agent *agent = &bh_live_run_plan(f->run)->agents[node];
    const struct bh_engine *e = bh_live_run_engine(f->run);
    const struct bh_attempt *a = NULL;
    struct bh_lease lease;
    struct bh_result_output outputs[2] = {{0}};
    for (size_t i = 0; i < bh_engine_n_attempts(e); i++)
        a = bh_engine_attempt(e, i)->node == node ? bh_engine_attempt(e, i) : a;
    T_TRUE(a != NULL);
    T_OK(lease_of(f, node, &lease, &err));
    struct bh_result r = {
        .instance = a->instance, .epoch = a->epoch, .outputs = outputs, .n_outputs = agent->n_outputs};
    for (size_t i = 0; i < r.n_outputs; i++) {
        BH_CLEANUP_FREE char *bytes = bh_asprintf("%s%s", content, agent->outputs[i].name);
        outputs[i] = (struct bh_result_output){.name = (char *)(uintptr_t)agent->outputs[i].name,
                                               .object = {.digest = bh_digest_of(bytes, strlen(bytes))}};
    }
    T_TRUE(bh_live_run_end(f->run, &lease, &r));
    bh_lease_fini(&lease);
}

static enum bh_gate_state gate(const struct fixture *f, size_t i)
{
    return bh_engine_gate(bh_live_run_engine(f->run), i)->state;
}

static void decide(struct fixture *f, size_t i, bool approved)
{
    struct bh_val *q = bh_question_make(f->run, i);
    bh_val_set_str(q, "by", "ada");
    bh_val_set_str(q, "at", "2026-11-30T00:00:00Z");
    bh_val_set_str(q, "reason", "looked");
    apply(f, (struct bh_event){.kind = BH_EV_GATE_DECIDED, .gate = i, .approved = approved}, q);
}

static void names_are(const struct bh_val *question, const char *want)
{
    char got[128] = "";
    const struct bh_val *list = bh_val_get(question, "artifacts");
    for (size_t i = 0; i < bh_val_len(list); i++) {
        size_t len = strlen(got);
        snprintf(got + len, sizeof(got) - len, "%s%s", i ? " " : "", bh_val_str_of(bh_val_at(list, i), "name"));
    }
    T_STR(got, want);
}

static void the_spec_has_the_gates_of_the_document(void **state)
{
    struct fixture *f = *state;
    const struct bh_spec *spec = bh_live_run_spec(f->run);
    T_INT(spec->n_gates, 4);
    T_STR(spec->gates[GATE_ASK].id, "ask");
    T_INT(spec->gates[GATE_ASK].timeout_ms, 120000);
    T_INT(spec->nodes[LOOK].gate, 0); /* a validation asks nobody */
    T_TRUE(spec->gates[GATE_USE].of_stage);
    T_INT(spec->gates[GATE_USE].n_nodes, 4);
    T_INT(spec->gates[GATE_USE].n_after, 2); /* not `ask`, which `late` waits for */
    T_INT(spec->gates[GATE_USE].timeout_ms, 3600000);
    T_INT(spec->nodes[LATE].stage_gate, GATE_USE + 1);
    T_INT(spec->nodes[READER].stage_gate, 0);
}

static void a_question_is_about_what_would_pass(void **state)
{
    struct fixture *f = *state;
    done(f, READER, "1");
    T_INT(gate(f, GATE_USE), BH_GATE_SHUT);
    done(f, CLEAN, "1");
    T_INT(gate(f, GATE_USE), BH_GATE_ASKED);
    T_INT(gate(f, GATE_ASK), BH_GATE_SHUT);
    BH_CLEANUP_VAL struct bh_val *stage = bh_question_make(f->run, GATE_USE), *ask = bh_question_make(f->run, GATE_ASK);
    names_are(stage, "notes other page"); /* not what is made inside */
    names_are(ask, "page");               /* what it accepts, of all that it reads */
    T_STR(bh_val_str_of(bh_val_at(bh_val_get(ask, "artifacts"), 0), "label"), "tainted");
    T_STR(bh_val_str_of(stage, "of"), "stage");
    T_TRUE(!bh_streq(bh_val_str_of(stage, "digest"), bh_val_str_of(ask, "digest")));
    BH_CLEANUP_VAL struct bh_val *same = bh_question_make(f->run, GATE_ASK);
    T_STR(bh_val_str_of(same, "digest"), bh_val_str_of(ask, "digest"));
}

static void what_a_person_must_approve_is_not_leased_before(void **state)
{
    struct fixture *f = *state;
    struct bh_lease lease;
    done(f, READER, "1");
    done(f, CLEAN, "1");
    T_ERR(lease_of(f, ASK, &lease, &err), BH_E_POLICY, "the input 'page' was not approved as it is now");
    decide(f, GATE_USE, true);
    T_INT(gate(f, GATE_ASK), BH_GATE_ASKED);
    T_OK(lease_of(f, ASK, &lease, &err)); /* the stage's question was about it, too */
    bh_lease_fini(&lease);
}

static void the_same_content_is_asked_about_once(void **state)
{
    struct fixture *f = *state;
    const struct bh_val *before = NULL;
    done(f, READER, "1");
    done(f, CLEAN, "1");
    BH_CLEANUP_VAL struct bh_val *first = bh_question_make(f->run, GATE_AGAIN);
    T_TRUE(bh_question_is_new(f->run, GATE_AGAIN, first, &before));
    decide(f, GATE_USE, true);
    T_TRUE(!bh_question_is_new(f->run, GATE_AGAIN, first, &before));
    T_STR(bh_val_str_of(before, "by"), "ada");
    BH_CLEANUP_VAL struct bh_val *late = bh_question_make(f->run, GATE_LATE);
    T_TRUE(bh_question_is_new(f->run, GATE_LATE, late, &before)); /* `gate: approve` asks whether it starts */
    T_OK(bh_live_run_commit(f->run, &err));
    bh_live_run_free(f->run);
    T_OK(bh_live_run_load(f->store, f->id.s, &f->run, &err));
    T_TRUE(!bh_question_is_new(f->run, GATE_AGAIN, first, &before));
    T_STR(bh_val_str_of(bh_live_run_decision(f->run, GATE_USE), "reason"), "looked");
}

static void a_lease_says_what_is_to_be_validated_and_what_passed(void **state)
{
    struct fixture *f = *state;
    struct bh_lease lease;
    BH_CLEANUP_VAL struct bh_val *record = NULL;
    done(f, READER, "1");
    done(f, CLEAN, "1");
    decide(f, GATE_USE, true);
    T_OK(lease_of(f, LOOK, &lease, &err));
    T_INT(lease.n_gates, 2);
    T_STR(lease.gates[0].artifact, "page");
    T_INT(lease.gates[0].validate.kind, BH_VALIDATE_JSONL);
    T_INT(lease.gates[0].validate.max_size, 1024);
    T_INT(lease.gates[0].validate.max_lines, -1);
    T_INT(lease.gates[0].validate.n_command, 2);
    T_STR(lease.gates[0].validate.command[1], "7");
    T_OK(bh_json_parse(lease.inputs[0].provenance, strlen(lease.inputs[0].provenance), &record, &err));
    const struct bh_val *passed = bh_val_get(record, "passed");
    T_INT(bh_val_len(passed), 2);
    T_STR(bh_val_str_of(bh_val_at(passed, 0), "how"), "validate");
    T_STR(bh_val_str_of(bh_val_at(passed, 1), "how"), "approve");
    T_STR(bh_val_str_of(bh_val_at(passed, 1), "gate"), "use");
    T_STR(bh_val_str_of(bh_val_at(passed, 1), "by"), "ada");
    bh_lease_fini(&lease);
}

static void outputs_are_validated_as_the_document_says(void **state)
{
    struct fixture *f = *state;
    struct bh_lease lease;
    done(f, READER, "1");
    done(f, CLEAN, "1");
    decide(f, GATE_USE, true);
    decide(f, GATE_ASK, true);
    done(f, ASK, "1");
    T_OK(lease_of(f, LATE, &lease, &err));
    T_INT(lease.outputs[0].validate.kind, BH_VALIDATE_CSV);
    T_INT(lease.outputs[0].validate.max_lines, 3);
    T_INT(lease.n_gates, 0);
    bh_lease_fini(&lease);
}

static void who_is_refused_is_told_by_whom(void **state)
{
    struct fixture *f = *state;
    done(f, READER, "1");
    done(f, CLEAN, "1");
    assert_null(bh_live_run_gate_detail(f->run, ASK));
    decide(f, GATE_USE, false);
    BH_CLEANUP_FREE char *detail = bh_live_run_gate_detail(f->run, ASK);
    T_STR(detail, "gate 'use' was rejected by ada: looked");
    assert_null(bh_live_run_gate_detail(f->run, LOOK)); /* skipped because of it */
}

/* --- decisions as files --- */

static const char digest[] = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static char *decision_path(const struct fixture *f)
{
    BH_CLEANUP_FREE char *rel = bh_asprintf("decisions/%s.json", digest + strlen("sha256:"));
    return bh_home_run_path(&f->home.home, f->id.s, rel);
}

static void a_decision_comes_back(void **state)
{
    struct fixture *f = *state;
    struct bh_decision out = {0}, in = {.gate = (char[]){"ask"},
                                        .digest = (char *)(uintptr_t)digest,
                                        .approved = true,
                                        .by = (char[]){"ada"},
                                        .at = {1764460800000000}};
    T_INT(bh_decision_read(&f->home.home, f->id.s, digest, &out, NULL), -BH_E_NOT_FOUND);
    T_OK(bh_decision_write(&f->home.home, f->id.s, &in, &err));
    T_OK(bh_decision_read(&f->home.home, f->id.s, digest, &out, &err));
    T_TRUE(out.approved && !out.audited && !out.reason && out.at.us == in.at.us);
    T_STR(out.by, "ada");
    bh_decision_fini(&out);
    in.approved = false;
    in.audited = true;
    in.reason = (char[]){"no"};
    T_OK(bh_decision_write(&f->home.home, f->id.s, &in, &err));
    T_OK(bh_decision_read(&f->home.home, f->id.s, digest, &out, &err));
    T_TRUE(!out.approved && out.audited);
    T_STR(out.reason, "no");
    bh_decision_fini(&out);
    in.digest = (char[]){"sha256:../../x"};
    T_ERR(bh_decision_write(&f->home.home, f->id.s, &in, &err), BH_E_BAD_VALUE, "is no digest");
}

static void one_at_a_time_decides(void **state)
{
    struct fixture *f = *state;
    int fd = -1;
    T_OK(bh_decision_lock(&f->home.home, f->id.s, &fd, &err));
    BH_CLEANUP_FREE char *folder = bh_home_run_path(&f->home.home, f->id.s, "decisions");
    int other = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_TRUE(other >= 0 && flock(other, LOCK_EX | LOCK_NB) != 0);
    T_INT(close(fd), 0);
    T_INT(flock(other, LOCK_EX | LOCK_NB), 0);
    T_INT(close(other), 0);
}

static void what_is_no_decision_is_not_taken(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "it is no JSON"},
        {"{}", "it is about another question"},
        {"{\"digest\":\"sha256:00\",\"verdict\":\"approve\"}", "it is about another question"},
        {"{\"digest\":\"%s\",\"verdict\":\"approve\"}", "not what 'bulkhead approve' writes"},
        {"{\"digest\":\"%s\",\"verdict\":\"maybe\",\"gate\":\"g\",\"by\":\"b\",\"at\":\"2026-01-01T00:00:00Z\"}",
         "not what 'bulkhead approve' writes"},
        {"{\"digest\":\"%s\",\"verdict\":\"approve\",\"gate\":\"g\",\"by\":\"b\",\"at\":\"today\"}",
         "not what 'bulkhead approve' writes"},
    };
    struct bh_decision out = {0};
    BH_CLEANUP_FREE char *folder = NULL, *path = decision_path(f);
    T_OK(bh_decision_folder(&f->home.home, f->id.s, &folder, &err));
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        const char *at = strstr(rows[i].text, "%s");
        BH_CLEANUP_FREE char *json =
            at ? bh_asprintf("%.*s%s%s", (int)(at - rows[i].text), rows[i].text, digest, at + 2)
               : bh_strdup(rows[i].text);
        T_OK(bh_write_file_atomic(path, json, strlen(json), 0600, &err));
        T_ERR(bh_decision_read(&f->home.home, f->id.s, digest, &out, &err), BH_E_POLICY, rows[i].why);
    }
    T_INT(unlink(path), 0);
    T_INT(symlink("/etc/hostname", path), 0);
    T_ERR(bh_decision_read(&f->home.home, f->id.s, digest, &out, &err), BH_E_IO, "cannot open");
    T_INT(unlink(path), 0);
    T_INT(mkfifo(path, 0600), 0);
    T_ERR(bh_decision_read(&f->home.home, f->id.s, digest, &out, &err), BH_E_POLICY, "it is no file");
}

static void a_decision_of_another_user_is_not_taken(void **state)
{
    struct fixture *f = *state;
    struct bh_decision out = {0}, in = {.gate = (char[]){"ask"},
                                        .digest = (char *)(uintptr_t)digest,
                                        .approved = true,
                                        .by = (char[]){"mallory"},
                                        .at = {1764460800000000}};
    BH_CLEANUP_FREE char *path = decision_path(f);
    T_OK(bh_decision_write(&f->home.home, f->id.s, &in, &err));
    if (chown(path, 65533, 65533) != 0)
        skip(); /* not root */
    T_ERR(bh_decision_read(&f->home.home, f->id.s, digest, &out, &err), BH_E_POLICY, "it belongs to another user");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, run_fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_spec_has_the_gates_of_the_document),
        TEST(a_question_is_about_what_would_pass),
        TEST(what_a_person_must_approve_is_not_leased_before),
        TEST(the_same_content_is_asked_about_once),
        TEST(a_lease_says_what_is_to_be_validated_and_what_passed),
        TEST(outputs_are_validated_as_the_document_says),
        TEST(who_is_refused_is_told_by_whom),
        TEST(a_decision_comes_back),
        TEST(one_at_a_time_decides),
        TEST(what_is_no_decision_is_not_taken),
        TEST(a_decision_of_another_user_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
