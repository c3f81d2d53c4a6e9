/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that read a document: what they say, the lines that they cite, and that the change makes them silent. And
 * silence, where nothing is wrong.
 */
#include "topologies/advise.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"
#include "plan_support.h"

#define HEAD "version: 1\nname: t\n"

struct advised {
    struct planned p;
    struct bh_advices list;
};

static void advise(struct advised *x, const char *yaml)
{
    plan_make(&x->p, yaml, NULL);
    struct bh_advise_subject subject = {.file = "p.yaml",
                                        .text = yaml,
                                        .len = strlen(yaml),
                                        .pipeline = x->p.pipeline,
                                        .plan = x->p.plan,
                                        .errors = &x->p.errors};
    bh_advices_init(&x->list);
    bh_advise_document(&subject, &x->list);
    bh_advise_one_box(&subject, &x->list);
    bh_advices_finish(&subject, &x->list);
}

static void advise_free(struct advised *x)
{
    bh_advices_fini(&x->list);
    plan_free(&x->p);
}

/* "rule topology: summary\nLINE:COLUMN text\n…patch" */
static char *said(const struct bh_advice *a)
{
    struct bh_buf out = BH_BUF_INIT;
    bh_buf_addf(&out, "%s %s: %s\n", bh_advice_rule_text(a->rule), bh_topology_text(a->topology), a->summary);
    for (size_t i = 0; i < a->n_evidence; i++)
        bh_buf_addf(&out, "%d:%d %s\n", a->evidence[i].pos.line, a->evidence[i].pos.column, a->evidence[i].text);
    bh_buf_adds(&out, a->patch ? a->patch : "no patch\n");
    return bh_buf_take(&out);
}

static void says(const char *yaml, const char *want)
{
    struct advised x;
    advise(&x, yaml);
    T_INT(x.list.len, 1);
    char *got = said(&x.list.items[0]);
    T_STR(got, want);
    bh_free(got);
    advise_free(&x);
}

static void is_silent(const char *yaml)
{
    struct advised x;
    advise(&x, yaml);
    if (x.list.len > 0)
        fail_msg("%s\n is told: %s", yaml, x.list.items[0].summary);
    advise_free(&x);
}

/* --- conflicting installs --- */

static void two_versions_in_one_box(void **state)
{
    (void)state;
    says(HEAD "agents:\n"
              "  - {name: a, setup: npm i d3@1.0.0, run: x}\n"
              "  - name: b\n"
              "    setup: cd /workspace && npm i d3@2.0.0\n"
              "    run: x\n"
              "  - {name: c, setup: npm i d3@1.0.0, run: x}\n",
         "conflicting-installs per-agent: 'a' and 'b' share box 'crew' and need different versions of npm package "
         "'d3': whoever installs last, or first, decides for both, and nothing fails\n"
         "4:22 'a' installs npm package 'd3' 1.0.0 in /workspace: npm i d3@1.0.0\n"
         "6:12 'b' installs npm package 'd3' 2.0.0 in /workspace: npm i d3@2.0.0\n"
         "--- p.yaml\n+++ p.yaml\n@@ -3,6 +3,7 @@\n agents:\n   - {name: a, setup: npm i d3@1.0.0, run: x}\n"
         "   - name: b\n+    topology: per-agent\n     setup: cd /workspace && npm i d3@2.0.0\n     run: x\n"
         "   - {name: c, setup: npm i d3@1.0.0, run: x}\n");
}

static void the_setup_of_the_box_counts(void **state)
{
    (void)state;
    says(HEAD "agents:\n  - {name: a, box: lab, run: x}\n  - {name: b, box: lab, run: pip install q==2 && x}\n"
              "boxes: {lab: {setup: pip install q==1}}\n",
         "conflicting-installs per-agent: box 'lab' itself and 'b' share box 'lab' and need different versions of pip "
         "package 'q': whoever installs last, or first, decides for both, and nothing fails\n"
         "6:22 box 'lab' itself installs pip package 'q' 1: pip install q==1\n"
         "5:30 'b' installs pip package 'q' 2: pip install q==2\n"
         "--- p.yaml\n+++ p.yaml\n@@ -2,5 +2,5 @@\n name: t\n agents:\n   - {name: a, box: lab, run: x}\n"
         "-  - {name: b, box: lab, run: pip install q==2 && x}\n"
         "+  - {name: b, setup: \"pip install q==1\", topology: per-agent, run: pip install q==2 && x}\n"
         " boxes: {lab: {setup: pip install q==1}}\n");
}

/* Who leaves a box takes along what the box gave it. */
static void a_box_of_its_own_is_like_the_shared_one(void **state)
{
    (void)state;
    struct advised x;
    advise(&x, HEAD "agents:\n  - {name: a, box: lab, setup: npm i d@1.0.0, run: x}\n"
                    "  - {name: b, box: lab, limits: {pids: 9}, setup: npm i d@2.0.0, run: x}\n"
                    "  - {name: c, box: lab, setup: npm i d@2.0.0, run: x}\n"
                    "boxes:\n  lab:\n    base: 'dir:./root' # of ours\n    user: root\n"
                    "    limits: {disk: 1GiB, pids: 64}\n    files: {f: ./f}\n    setup: prepare it\n");
    T_INT(x.list.len, 1);
    assert_non_null(
        strstr(x.list.items[0].patch,
               "+  - {name: b, base: 'dir:./root', user: root, files: {f: ./f}, topology: per-agent, limits: "
               "{pids: 9}, setup: \"prepare it\\nnpm i d@2.0.0\", run: x}\n"));
    assert_non_null(strstr(x.list.items[0].patch,
                           "+  - {name: c, base: 'dir:./root', user: root, limits: {disk: 1GiB, pids: 64}, files: {f: "
                           "./f}, topology: per-agent, setup: \"prepare it\\nnpm i d@2.0.0\", run: x}\n"));
    advise_free(&x);
    advise(&x, HEAD "agents:\n  - {name: a, setup: npm i d@1.0.0, run: x}\n"
                    "  - {name: b, files: {g: ./g}, setup: npm i d@2.0.0, run: x}\n"
                    "boxes: {crew: {files: {f: ./f}}}\n");
    T_INT(x.list.len, 1);
    assert_null(x.list.items[0].patch); /* two maps of files are for a person to put together */
    advise_free(&x);
}

static const char *const no_conflict[] = {
    /* the same, compatible, other places, other boxes, upgraded by the same agent, not pinned */
    HEAD "agents: [{name: a, setup: npm i d@1.0.0, run: x}, {name: b, setup: npm i d@1.0.0, run: x}]\n",
    HEAD "agents: [{name: a, setup: npm i d@1, run: x}, {name: b, setup: npm i d@1.4.0, run: x}]\n",
    HEAD "agents: [{name: a, setup: cd a && npm i d@1.0.0, run: x}, {name: b, setup: cd b && npm i d@2.0.0, run: x}]\n",
    HEAD
    "agents: [{name: a, topology: per-agent, setup: npm i d@1.0.0, run: x}, {name: b, setup: npm i d@2.0.0, run: x}]\n",
    HEAD "agents: [{name: a, setup: npm i d@1.0.0; npm i d@2.0.0, run: x}, {name: b, setup: npm i d@2.0.0, run: x}]\n",
    HEAD "agents: [{name: a, setup: npm i d, run: x}, {name: b, setup: npm i d@2.0.0, run: x}]\n",
    HEAD "agents: [{name: a, matrix: {v: [1, 2]}, env: {V: '{{matrix.v}}'}, setup: npm i d@1.0.0, run: x}, "
         "{name: b, setup: npm i d@2.0.0, run: x}]\n",
};

static void no_conflict_is_no_news(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(no_conflict); i++)
        is_silent(no_conflict[i]);
}

/* --- trust --- */

#define SECRET "secrets: {k: {env: K}}\n"

static void a_reader_that_holds_a_secret_is_split(void **state)
{
    (void)state;
    says(HEAD SECRET "agents:\n  - name: fetch\n    untrusted: true\n    secrets: [k]\n    run: x\n"
                     "    outputs: [p.jsonl]\n  - {name: z, run: x}\n",
         "trust-boundary per-agent: 'fetch' reads what others wrote beside secret 'k': who writes it can ask for "
         "that\n"
         "6:5 'fetch' is untrusted: it reads content that nobody of this crew wrote\n"
         "7:15 'fetch' holds secret 'k'\n"
         "--- p.yaml\n+++ p.yaml\n@@ -4,7 +4,11 @@\n agents:\n   - name: fetch\n     untrusted: true\n"
         "-    secrets: [k]\n     run: x\n     outputs: [p.jsonl]\n+  - name: fetch-power\n+    secrets: [k]\n"
         "+    inputs: [p.jsonl]\n+    accept: {p.jsonl: {validate: {kind: jsonl, max_size: 1MiB}}}\n"
         "+    run: [sh, -c, \"echo 'what needs the secret goes here; it reads in/ alone' >&2; exit 1\"]\n"
         "   - {name: z, run: x}\n");
}

static void a_shared_box_is_left_by_readers(void **state)
{
    (void)state;
    says(HEAD "topology: shared-box\nagents: [{name: r, untrusted: true, run: x}, {name: z, run: x}]\n",
         "trust-boundary per-agent: box 'crew' holds agents that read what others wrote together with agents that do "
         "not\n"
         "4:17 'r' reads what others wrote\n"
         "--- p.yaml\n+++ p.yaml\n@@ -1,4 +1,4 @@\n version: 1\n name: t\n-topology: shared-box\n+topology: auto\n"
         " agents: [{name: r, untrusted: true, run: x}, {name: z, run: x}]\n");
}

static void a_power_that_takes_tainted_data_gets_a_gate(void **state)
{
    (void)state;
    says(HEAD SECRET "agents:\n  - {name: r, untrusted: true, box: lab, run: x, outputs: [p.csv]}\n"
                     "  - {name: d, box: lab, secrets: [k], inputs: [p.csv], run: x}\nboxes: {lab: {}}\n",
         "trust-boundary per-agent: 'd' holds secret 'k' and takes in what an agent made that reads what others "
         "wrote\n"
         "6:35 'd' holds secret 'k'\n"
         "6:48 'd' takes in 'p.csv', which is tainted\n"
         "--- p.yaml\n+++ p.yaml\n@@ -2,6 +2,6 @@\n name: t\n secrets: {k: {env: K}}\n agents:\n"
         "-  - {name: r, untrusted: true, box: lab, run: x, outputs: [p.csv]}\n"
         "-  - {name: d, box: lab, secrets: [k], inputs: [p.csv], run: x}\n"
         "+  - {name: r, untrusted: true, run: x, outputs: [p.csv]}\n"
         "+  - {name: d, accept: {p.csv: {validate: {kind: csv, max_size: 1MiB}}}, secrets: [k], inputs: [p.csv], run: "
         "x}\n boxes: {lab: {}}\n");
}

static void a_secret_of_the_defaults_is_taken_back(void **state)
{
    (void)state;
    struct advised x;
    advise(&x, HEAD SECRET "defaults: {secrets: [k]}\nagents:\n  - {name: r, untrusted: true, run: x}\n");
    T_INT(x.list.len, 1);
    assert_non_null(strstr(x.list.items[0].patch, "{name: r, secrets: [], outputs: [r.json], untrusted: true"));
    assert_non_null(strstr(x.list.items[0].patch, "+    secrets: [k]\n+    inputs: [r.json]\n"));
    advise_free(&x);
}

static void credentials_that_the_plan_cannot_see(void **state)
{
    (void)state;
    says(HEAD "agents:\n  - name: r\n    untrusted: true\n    run: x\n    outputs: [o]\n    env:\n      A: b\n"
              "      GITHUB_TOKEN: ghp_0123456789abcdef0123\n  - {name: z, run: x}\n",
         "trust-boundary per-agent: 'r' reads what others wrote beside what looks like a credential, the variable "
         "'GITHUB_TOKEN': who writes it can ask for that\n"
         "5:5 'r' is untrusted: it reads content that nobody of this crew wrote\n"
         "10:7 'r' holds what looks like a credential, the variable 'GITHUB_TOKEN'\n"
         "--- p.yaml\n+++ p.yaml\n@@ -7,5 +7,9 @@\n     outputs: [o]\n     env:\n       A: b\n"
         "-      GITHUB_TOKEN: ghp_0123456789abcdef0123\n+  - name: r-power\n"
         "+    env: {\"GITHUB_TOKEN\": ghp_0123456789abcdef0123}\n+    inputs: [o]\n"
         "+    accept: {o: {validate: {kind: text, max_size: 1MiB}}}\n"
         "+    run: [sh, -c, \"echo 'what needs the secret goes here; it reads in/ alone' >&2; exit 1\"]\n"
         "   - {name: z, run: x}\n");
}

static const char *const no_credential[] = {
    HEAD "agents: [{name: r, untrusted: true, run: x, env: {API_KEY: unused, SORT_KEY: name_of_column_12345, "
         "A_TOKEN: 'https://a.org/token/1234567890'}}]\n",
    HEAD "agents: [{name: r, run: x, env: {GITHUB_TOKEN: ghp_0123456789abcdef0123}}]\n",
    HEAD "agents: [{name: r, untrusted: true, run: x, files: {env: ./env, a.json: ./a.json}}]\n",
};

static void what_only_looks_a_little_like_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(no_credential); i++)
        is_silent(no_credential[i]);
}

static void files_and_params_can_be_credentials(void **state)
{
    (void)state;
    static const char *const texts[] = {
        HEAD "agents: [{name: r, untrusted: true, run: x, outputs: [o], files: {.netrc: ./netrc}}]\n",
        HEAD "agents: [{name: r, untrusted: true, run: x, outputs: [o], files: {k: ./.aws/credentials}}]\n",
        HEAD "params: {my_api_key: {type: string}}\nagents: [{name: r, untrusted: true, run: x, outputs: [o], env: "
             "{THE_API_KEY: '{{params.my_api_key}}'}}]\n",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        struct advised x;
        advise(&x, texts[i]);
        T_INT(x.list.len, 1);
        T_INT(x.list.items[0].rule, BH_ADVICE_TRUST);
        assert_non_null(x.list.items[0].patch);
        advise_free(&x);
    }
}

/* --- the concession --- */

static void separate_boxes_that_pass_files(void **state)
{
    (void)state;
    says(HEAD "topology: per-agent\nagents:\n  - {name: a, run: x, outputs: [o]}\n  - {name: b, inputs: [o], run: x}\n",
         "one-box shared-box: 2 agents in 2 boxes only pass files along: they are all trusted, hold no secret and "
         "need the same base, network, user and limits, so one box would do\n"
         "3:1 the document gives each agent a box: topology: per-agent\n"
         "6:24 'b' takes 'o' from 'a'\n"
         "--- p.yaml\n+++ p.yaml\n@@ -1,6 +1,6 @@\n version: 1\n name: t\n-topology: per-agent\n+topology: auto\n"
         " agents:\n   - {name: a, run: x, outputs: [o]}\n   - {name: b, inputs: [o], run: x}\n");
}

#define WALLS HEAD "topology: per-agent\n"
static const char *const good_walls[] = {
    WALLS "agents: [{name: a, run: x, outputs: [o]}, {name: b, run: x}]\n",
    WALLS "agents: [{name: a, untrusted: true, run: x, outputs: [o]}, {name: b, inputs: [o], run: x}]\n",
    WALLS SECRET "agents: [{name: a, secrets: [k], run: x, outputs: [o]}, {name: b, inputs: [o], run: x}]\n",
    WALLS "agents: [{name: a, user: root, run: x, outputs: [o]}, {name: b, inputs: [o], run: x}]\n",
    WALLS "agents: [{name: a, run: x, outputs: [{glob: '*.o'}]}, {name: b, inputs: ['*.o'], run: x}]\n",
    WALLS "agents: [{name: a, attempts: 3, run: x, outputs: [o]}, {name: b, inputs: [o], run: x}]\n",
    WALLS
    "agents: [{name: a, setup: npm i d@1.0.0, run: x, outputs: [o]}, {name: b, setup: npm i d@2.0.0, inputs: [o], "
    "run: x}]\n",
    HEAD "agents: [{name: a, run: x, outputs: [o]}, {name: b, inputs: [o], run: x}]\n",
    HEAD "agents: [{name: a, run: x}]\n",
    HEAD "agents: [{name: a, topology: per-agent, run: x, outputs: [o]}, {name: b, inputs: [o], run: x}]\n",
    HEAD "agents: [{name: a, run: x, box: p, outputs: [o]}, {name: b, box: q, inputs: [o], run: x}]\n"
         "boxes: {p: {}, q: {}}\n",
};

static void walls_with_a_reason_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(good_walls); i++)
        is_silent(good_walls[i]);
}

static void a_large_crew_is_not_talked_into_one_box(void **state)
{
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, WALLS "agents:\n  - {name: a0, run: x, outputs: [o0]}\n");
    for (int i = 1; i < 9; i++)
        bh_buf_addf(&text, "  - {name: a%d, inputs: [o%d], run: x, outputs: [o%d]}\n", i, i - 1, i);
    is_silent(text.data);
    bh_buf_fini(&text);
}

/* --- the list --- */

/* The second patch is made on the text that the first one leaves. */
static void patches_apply_in_turn(void **state)
{
    (void)state;
    struct advised x;
    advise(&x, HEAD SECRET "agents:\n  - {name: a, setup: npm i d@1.0.0, run: x}\n"
                           "  - {name: b, setup: npm i d@2.0.0, run: x}\n"
                           "  - {name: r, untrusted: true, secrets: [k], run: x, outputs: [o]}\n");
    T_INT(x.list.len, 1); /* a document that trust refuses has no boxes to look at */
    advise_free(&x);
    advise(&x, HEAD "agents:\n  - {name: a, setup: npm i d@1.0.0, run: x}\n"
                    "  - {name: b, setup: npm i d@2.0.0, run: x}\n"
                    "  - {name: r, untrusted: true, run: x, outputs: [o], files: {.netrc: ./n}}\n");
    T_INT(x.list.len, 2);
    T_INT(x.list.items[0].rule, BH_ADVICE_TRUST);
    T_INT(x.list.items[1].rule, BH_ADVICE_INSTALLS);
    assert_non_null(strstr(x.list.items[0].patch, "   - {name: b, setup"));
    assert_non_null(strstr(x.list.items[1].patch, "+  - {name: b, topology: per-agent, setup"));
    assert_null(strstr(x.list.items[1].patch, ".netrc: ./n"));
    advise_free(&x);
}

/* Proving a patch costs a plan: of a long list in a large document the first are patched, the others are put off. */
static void a_long_list_is_patched_in_parts(void **state)
{
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    struct advised x;
    bh_buf_adds(&text, HEAD SECRET "description: |\n");
    for (int i = 0; i < 10000; i++)
        bh_buf_adds(&text, "  A long story about what these agents are for, and why there are so many of them here.\n");
    bh_buf_adds(&text, "agents:\n");
    for (int i = 0; i < 12; i++)
        bh_buf_addf(&text, "  - {name: a%d, untrusted: true, secrets: [k], run: x, outputs: [o%d]}\n", i, i);
    advise(&x, text.data);
    T_INT(x.list.len, 12);
    assert_non_null(x.list.items[0].patch);
    assert_false(x.list.items[0].later);
    assert_true(x.list.items[11].later);
    assert_null(x.list.items[11].patch);
    advise_free(&x);
    bh_buf_fini(&text);
}

static void as_a_value(void **state)
{
    (void)state;
    struct advised x;
    advise(&x, WALLS "agents: [{name: a, run: x, outputs: [o]}, {name: b, inputs: [o], run: x}]\n");
    BH_CLEANUP_VAL struct bh_val *v = bh_advice_to_val(&x.list.items[0], "p.yaml");
    static const char *const keys[] = {"rule", "topology", "summary",  "action", "agents",
                                       "box",  "evidence", "saved_ms", "patch"};
    for (size_t i = 0; i < BH_ARRAY_LEN(keys); i++)
        assert_non_null(bh_val_get(v, keys[i]));
    T_STR(bh_val_str_of(v, "rule"), "one-box");
    const struct bh_val *e = bh_val_at(bh_val_get(v, "evidence"), 0);
    T_INT(bh_val_int_of(e, "line"), 3);
    T_STR(bh_val_str_of(e, "file"), "p.yaml");
    T_INT(bh_val_type(bh_val_get(e, "time")), BH_VAL_NULL);
    advise_free(&x);
}

/* --- silence --- */

static const char *const crews[] = {
    "01-crewai-marketing-strategy",
    "04-crewai-write-a-book",
    "05-crewai-self-evaluation-loop",
    "06-crewai-flow-router",
    "08-cagent-dev-team",
    "10-cagent-pr-reviewer",
    "13-maf-mathchat",
    "17-agentspec-mapnode",
    "18-agentspec-catchexception",
    "20-praison-robustness",
    "24-inspect-eval-set",
    "26-swebench-best-of-n",
};

static void the_public_crews_are_fine_as_they_are(void **state)
{
    (void)state;
    const char *source = getenv("BH_SOURCE");
    for (size_t i = 0; i < BH_ARRAY_LEN(crews); i++) {
        struct bh_buf text = BH_BUF_INIT;
        BH_CLEANUP_FREE char *path =
            bh_asprintf("%s/tests/unit/topologies/crews/%s.yaml", source ? source : ".", crews[i]);
        T_OK(bh_read_file(path, BH_PIPELINE_MAX_BYTES, &text, &err));
        is_silent(text.data);
        bh_buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_versions_in_one_box),
        cmocka_unit_test(the_setup_of_the_box_counts),
        cmocka_unit_test(a_box_of_its_own_is_like_the_shared_one),
        cmocka_unit_test(no_conflict_is_no_news),
        cmocka_unit_test(a_reader_that_holds_a_secret_is_split),
        cmocka_unit_test(a_shared_box_is_left_by_readers),
        cmocka_unit_test(a_power_that_takes_tainted_data_gets_a_gate),
        cmocka_unit_test(a_secret_of_the_defaults_is_taken_back),
        cmocka_unit_test(credentials_that_the_plan_cannot_see),
        cmocka_unit_test(what_only_looks_a_little_like_one),
        cmocka_unit_test(files_and_params_can_be_credentials),
        cmocka_unit_test(separate_boxes_that_pass_files),
        cmocka_unit_test(walls_with_a_reason_stay),
        cmocka_unit_test(a_large_crew_is_not_talked_into_one_box),
        cmocka_unit_test(patches_apply_in_turn),
        cmocka_unit_test(a_long_list_is_patched_in_parts),
        cmocka_unit_test(as_a_value),
        cmocka_unit_test(the_public_crews_are_fine_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
