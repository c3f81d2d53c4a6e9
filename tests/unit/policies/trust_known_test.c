/* SPDX-License-Identifier: Apache-2.0 */
/* Content that another run knows as tainted, and what a plan notes of gates and endpoints beside what it refuses. */
#include "tests/support/t.h"
#include "base/buf.h"
#include "base/mem.h"
#include "policies/trust.h"
#include "topologies/plan.h"

#define HEAD "version: 1\nname: t\nsecrets: {k: {env: K}}\nsources: {s: {file: s}, mine: {file: m, private: true}}\n"

static const struct known {
    const char *what, *yaml, *want; /* as in trust_rows.h, for taint */
} known[] = {
    {"a file of an agent",
     HEAD "agents: [{name: a, run: x, files: {f: ./bad}, outputs: [o]}, {name: b, run: x, inputs: [o]}]\n",
     "a=./bad (file with tainted content);b=o ← a ← ./bad (file with tainted content);"},
    {"another file", HEAD "agents: [{name: a, run: x, files: {bad: ./good}}]\n", ""},
    {"a file beside a secret", HEAD "agents: [{name: a, run: x, secrets: [k], files: {f: ./bad}}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: ./bad (file with tainted content)\n"},
    {"no gate is for files",
     HEAD "agents: [{name: a, run: x, secrets: [k], files: {f: ./bad}, accept: {'**': {approve: true}}}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: ./bad (file with tainted content)\n"},
    {"a file of a check", HEAD "agents: [{name: a, run: x, check: {run: y, files: {t: ./bad}}}]\n",
     "a=./bad (file with tainted content);"},
    {"a prompt", HEAD "agents: [{name: a, run: x, prompt: {file: ./bad}}]\n", "a=./bad (file with tainted content);"},
    {"by a parameter",
     HEAD
     "params: {which: {type: string, default: bad}}\nagents: [{name: a, run: x, files: {f: './{{params.which}}'}}]\n",
     "a=./bad (file with tainted content);"},
    {"one cell of a matrix",
     HEAD "agents: [{name: a, run: x, matrix: {m: [bad, good]}, files: {f: './{{matrix.m}}'}}]\n",
     "a-bad=./bad (file with tainted content);"},
    {"a file of a box", HEAD "boxes: {lab: {files: {f: ./bad}}}\nagents: [{name: a, run: x, box: lab}]\n",
     "trust: file './bad' of box 'lab' is tainted: an earlier run knows what it holds\n"},
    {"all in the box of who has one",
     HEAD "boxes: {lab: {}}\nagents: [{name: a, run: x, box: lab, files: {f: ./bad}}, {name: b, run: x, box: lab}]\n",
     "a=./bad (file with tainted content);b=shares a box with a ← ./bad (file with tainted content);"},
    {"nobody else", HEAD "agents: [{name: a, run: x, files: {f: ./bad}}, {name: b, run: x, secrets: [k]}]\n",
     "a=./bad (file with tainted content);"},
};

static const struct known sources[] = {
    {"a source", HEAD "agents: [{name: a, run: x, inputs: [s]}]\n", "a=s (source with tainted content);"},
    {"behind a gate", HEAD "agents: [{name: a, run: x, inputs: [s], secrets: [k], accept: {s: {approve: true}}}]\n",
     ""},
    {"without one", HEAD "agents: [{name: a, run: x, inputs: [s], secrets: [k]}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: s (source with tainted content)\n"},
    {"that steers", HEAD "agents: [{name: a, run: x, when: {artifact: s, is: y}, secrets: [k]}]\n",
     "trust: agent 'a' is steered by the tainted artifact 's', and its box has a power: secret k | tainted: s "
     "(source with tainted content)\n"},
    {"with private data and a way out", HEAD "agents: [{name: a, run: x, inputs: [s, mine], network: public}]\n",
     "trust: box 'a' holds private data and untrusted content and has a way out: network public | private: agent 'a', "
     "mine (private source); tainted: agent 'a', s (source with tainted content)\n"},
    {"a name that is no source", HEAD "agents: [{name: a, run: x, inputs: [mine]}]\n", ""},
};

static void look(const struct known *k, const struct bh_plan_options *options)
{
    struct bh_errlist errors = {0};
    BH_CLEANUP_PIPELINE struct bh_pipeline *pipeline = NULL;
    BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    T_INT(bh_pipeline_load("p.yaml", k->yaml, strlen(k->yaml), &pipeline, &errors), 0);
    int rc = bh_plan_make(pipeline, options, &plan, &errors);
    if (rc == 0)
        rc = bh_trust_check(plan, NULL, &errors);
    assert_int_equal(rc == 0, errors.len == 0);
    for (size_t i = 0; i < errors.len; i++) {
        const char *detail = bh_err_get_detail(errors.items[i]);
        bh_buf_addf(&out, "%s: %s%s%s\n", bh_code_info((int)bh_err_code(errors.items[i]))->text,
                    bh_err_message(errors.items[i]), detail ? " | " : "", detail ? detail : "");
    }
    for (size_t i = 0; rc == 0 && i < plan->n_agents; i++) {
        if (plan->agents[i].why)
            bh_buf_addf(&out, "%s=%s;", plan->agents[i].name, plan->agents[i].why);
    }
    if (strcmp(out.data, k->want) != 0)
        fail_msg("%s:\n got  %s\n want %s", k->what, out.data, k->want);
    bh_errlist_fini(&errors);
}

static void test_known_files(void **state)
{
    static const char *const bad[] = {"./bad"};
    const struct bh_plan_options options = {.tainted_files = bad, .n_tainted_files = 1};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(known); i++)
        look(&known[i], &options);
}

static void test_known_sources(void **state)
{
    static const char *const bad[] = {"s", "gone"};
    const struct bh_plan_options options = {.tainted_sources = bad, .n_tainted_sources = 2};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(sources); i++)
        look(&sources[i], &options);
}

/* --- what is noted --- */

#define READ HEAD "endpoints: {e: {upstream: 'https://e.org', allow: ['POST /x'], tainted: true}}\n"

static const struct {
    const char *what, *yaml, *want; /* warnings, each with a line's end */
} notes[] = {
    {"an endpoint beside private data", READ "agents: [{name: a, run: x, inputs: [mine], endpoints: [e]}]\n",
     "box 'a' holds private data, and agent 'a' sends what it likes to endpoint 'e'\n"},
    {"private by another in the box",
     READ "boxes: {lab: {}}\nagents: [{name: a, run: x, box: lab, inputs: [mine]}, {name: b, run: x, box: lab, "
          "endpoints: [e]}]\n",
     "box 'lab' holds private data, and agent 'b' sends what it likes to endpoint 'e'\n"},
    {"nothing private", READ "agents: [{name: a, run: x, inputs: [s], endpoints: [e]}]\n", ""},
    {"a gate for what is read", HEAD "agents: [{name: a, run: x, inputs: [s], accept: {s: {approve: true}}}]\n", ""},
    {"by a glob", HEAD "agents: [{name: a, run: x, inputs: ['*'], accept: {s: {approve: true}}}]\n", ""},
    {"of what steers", HEAD "agents: [{name: a, run: x, when: {artifact: s, is: y}, accept: {s: {approve: true}}}]\n",
     ""},
    {"a slip", HEAD "agents: [{name: a, run: x, inputs: [s], accept: {z: {approve: true}}}]\n",
     "agent 'a' accepts 'z', which it does not name as an input\n"},
    {"of the defaults",
     HEAD "defaults: {accept: {s: {approve: true}}}\nagents: [{name: a, run: x, inputs: [s]}, {name: b, run: x}]\n",
     ""},
    {"in a stage that sees all that is not tainted",
     HEAD "stages: [{name: s1, agents: [{name: r, run: x, untrusted: true, outputs: [p]}]}, {name: s2, agents: [{name: "
          "a, run: x, accept: {p: {approve: true}}}]}]\n",
     "agent 'a' accepts 'p', which it does not name as an input\n"},
};

static void test_notes(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(notes); i++) {
        struct bh_errlist errors = {0};
        BH_CLEANUP_PIPELINE struct bh_pipeline *pipeline = NULL;
        BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        const struct bh_plan_options options = {.lint = true};
        T_INT(bh_pipeline_load("p.yaml", notes[i].yaml, strlen(notes[i].yaml), &pipeline, &errors), 0);
        T_INT(bh_plan_make(pipeline, &options, &plan, &errors), 0);
        for (size_t w = 0; w < plan->n_warnings; w++) {
            const char *message = bh_err_message(plan->warnings[w]);
            if (bh_err_code(plan->warnings[w]) == BH_E_TRUST || strstr(message, " accepts "))
                bh_buf_addf(&out, "%s\n", message);
        }
        if (strcmp(out.data, notes[i].want) != 0)
            fail_msg("%s:\n got  %s\n want %s", notes[i].what, out.data, notes[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_files),
        cmocka_unit_test(test_known_sources),
        cmocka_unit_test(test_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
