/* SPDX-License-Identifier: Apache-2.0 */
/* Collisions that the document alone shows: names of artifacts, paths and files in one box. */
#include "base/buf.h"
#include "base/mem.h"
#include "plan_support.h"

#define HEAD "version: 1\nname: t\nagents:\n"

static const struct bad_plan bad[] = {
    /* names */
    {HEAD "  - {name: writer, run: x, outputs: [output.json]}\n"
          "  - {name: editor, run: x, outputs: [output.json]}\n",
     BH_E_COLLISION, 5, 38, "agents[1].outputs[0]",
     "agents 'writer' and 'editor' both declare the output 'output.json'",
     "output 'output.json' of agent 'writer' stands at p.yaml:4:38, output 'output.json' of agent 'editor' at "
     "p.yaml:5:38",
     "give one of the two another name"},
    {HEAD "  - {name: a, run: x, outputs: [Report.md]}\n"
          "  - {name: b, run: x, outputs: [{name: report.md}]}\n",
     BH_E_COLLISION, 5, 40, "agents[1].outputs[0]",
     "output 'Report.md' of agent 'a' and output 'report.md' of agent 'b' differ only by case", NULL, NULL},
    {HEAD "  - {name: a, run: x, outputs: [data]}\n"
          "  - {name: b, run: x, outputs: [data/x.csv]}\n",
     BH_E_COLLISION, 5, 33, "agents[1].outputs[0]",
     "output 'data' of agent 'a' is a folder of output 'data/x.csv' of agent 'b'", NULL, NULL},
    {HEAD "  - {name: a, run: x, outputs: [data/x.csv]}\n"
          "  - {name: b, run: x, outputs: [data]}\n",
     BH_E_COLLISION, 5, 33, "agents[1].outputs[0]",
     "output 'data' of agent 'b' is a folder of output 'data/x.csv' of agent 'a'", NULL, NULL},
    {HEAD "  - {name: a, run: x, outputs: [o.txt, o.txt]}\n", BH_E_BAD_VALUE, 4, 40, "agents[0].outputs[1]",
     "agent 'a' declares the output 'o.txt' twice", NULL, NULL},
    {HEAD "  - {name: a, run: x, outputs: [o, o/p]}\n", BH_E_COLLISION, 4, 36, "agents[0].outputs[1]",
     "output 'o' of agent 'a' is a folder of output 'o/p' of agent 'a'", NULL, NULL},
    /* sources */
    {HEAD "  - {name: a, run: x, inputs: [s.txt]}\n"
          "  - {name: b, run: x, outputs: [s.txt]}\n"
          "sources: {s.txt: {file: s}}\n",
     BH_E_COLLISION, 5, 33, "agents[1].outputs[0]", "output 's.txt' of agent 'b' has the name of a source",
     "source 's.txt' stands at p.yaml:6:11, output 's.txt' of agent 'b' at p.yaml:5:33", NULL},
    {HEAD "  - {name: a, run: x, inputs: [s], outputs: [s/t]}\nsources: {s: {file: s}}\n", BH_E_COLLISION, 4, 46,
     "agents[0].outputs[0]", "source 's' is a folder of output 's/t' of agent 'a'", NULL, NULL},
    {HEAD "  - {name: a, run: x, inputs: [s, S]}\nsources: {s: {file: s}, S: {file: t}}\n", BH_E_COLLISION, 5, 25,
     "sources.S", "source 's' and source 'S' differ only by case", NULL, NULL},
    /* cells, items, finally */
    {HEAD "  - {name: m, run: x, matrix: {k: [a, b, c]}, outputs: [o.txt]}\n", BH_E_COLLISION, 4, 57,
     "agents[0].outputs[0]", "agents 'm-a' and 'm-b' both declare the output 'o.txt'", NULL,
     "put a value of the matrix into the name, like {{matrix.k}}"},
    {"version: 1\nname: t\nsources: {l: {file: l}}\nstages:\n"
     "  - {name: s, for_each: {artifact: l, max: 3}, agents: [{name: a, run: x, outputs: [o.txt]}]}\n",
     BH_E_COLLISION, 5, 85, "stages[0].agents[0].outputs[0]",
     "every item of agent 'a' declares the same output 'o.txt'", NULL, "put {{item}} into the name"},
    {HEAD "  - {name: a, run: x, outputs: [o.txt]}\nfinally: [{name: z, run: x, outputs: [o.txt]}]\n", BH_E_COLLISION,
     5, 39, "finally[0].outputs[0]", "agents 'a' and 'z' both declare the output 'o.txt'", NULL, NULL},
    /* one path in one box */
    {HEAD "  - {name: a, run: x, outputs: [{name: p, path: r.txt}]}\n"
          "  - {name: b, run: x, outputs: [{name: q, path: /workspace/r.txt}]}\n",
     BH_E_COLLISION, 5, 40, "agents[1].outputs[0]",
     "agents 'a' and 'b' share box 'crew' and both write their output at 'r.txt'",
     "'p' stands at p.yaml:4:40, 'q' at p.yaml:5:40",
     "give one of them another path, or a box of its own (topology: per-agent)"},
    {HEAD "  - {name: a, run: x, outputs: [{name: p, path: r.txt}, {name: q, path: r.txt}]}\n", BH_E_BAD_VALUE, 4, 64,
     "agents[0].outputs[1]", "outputs 'p' and 'q' of agent 'a' have the same path 'r.txt'", NULL, NULL},
    /* one file in one box */
    {HEAD "  - {name: a, run: x, files: {f.py: ./one.py}}\n"
          "  - {name: b, run: x, files: {f.py: ./two.py}}\n",
     BH_E_COLLISION, 5, 31, "agents[1].files",
     "agent 'a' and agent 'b' put different files at 'f.py' of the shared box 'crew'",
     "'./one.py' stands at p.yaml:4:37, './two.py' at p.yaml:5:37",
     "give one of them another path in the box, or the agent a box of its own"},
    {HEAD "  - {name: b, box: lab, run: x, files: {f.py: ./two.py}}\n"
          "boxes: {lab: {files: {f.py: ./one.py}}}\n",
     BH_E_COLLISION, 4, 41, "agents[0].files",
     "'boxes.lab' and agent 'b' put different files at 'f.py' of the shared box 'lab'", NULL, NULL},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        plan_must_fail(&bad[i], NULL);
}

static const char *const good[] = {
    /* two globs may meet: that is seen at publish */
    "version: 1\nname: t\ntopology: per-agent\nagents:\n"
    "  - {name: a, run: x, outputs: [{glob: '*.json'}]}\n"
    "  - {name: b, run: x, outputs: [{glob: 'output.*'}, output.json]}\n",
    /* the same path in boxes apart */
    "version: 1\nname: t\ntopology: per-agent\nagents:\n"
    "  - {name: a, run: x, outputs: [{name: p, path: r}], files: {f: ./1}}\n"
    "  - {name: b, run: x, outputs: [{name: q, path: r}], files: {f: ./2}}\n",
    /* the same file, written in two ways */
    HEAD "  - {name: a, run: x, files: {f: ./1}}\n  - {name: b, run: x, files: {f: 1}}\n",
    /* a value of each matrix keeps them apart */
    HEAD "  - {name: m, run: [x], matrix: {k: [a, b], l: [1, 2]}, outputs: ['{{matrix.k}}{{matrix.l}}/o']}\n",
    /* all attempts have numbers: the plain name stays free */
    HEAD
    "  - {name: a, run: x, attempts: {count: 2, select: all}, outputs: [o]}\n  - {name: b, run: x, outputs: [o]}\n",
    /* a folder and a file in it, of one agent */
    HEAD "  - {name: a, run: x, outputs: [{name: p, path: d, kind: dir}, {name: q, path: d/q}]}\n",
    /* names that only look alike */
    HEAD "  - {name: a, run: x, outputs: [data.csv, data_csv, dat/a]}\n  - {name: b, run: x, outputs: [data, dat-a]}\n",
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++) {
        struct planned x;
        plan_good(&x, good[i]);
        plan_free(&x);
    }
}

/* Every pair is told, so that one look mends them all; cells of one matrix share their place and are told once. */
static void test_all_of_them(void **state)
{
    (void)state;
    struct planned x;
    plan_make(&x,
              HEAD "  - {name: a, run: x, outputs: [one, two]}\n"
                   "  - {name: b, run: x, outputs: [one, TWO]}\n"
                   "  - {name: c, run: x, outputs: [one/x]}\n"
                   "  - {name: m, run: x, matrix: {k: [1, 2, 3, 4]}, outputs: [three]}\n",
              NULL);
    T_INT(x.rc, -BH_E_COLLISION);
    T_INT(x.errors.len, 4);
    static const int lines[] = {5, 5, 6, 7};
    for (size_t i = 0; i < BH_ARRAY_LEN(lines); i++) {
        T_INT(bh_err_code(x.errors.items[i]), BH_E_COLLISION);
        T_INT(bh_err_line(x.errors.items[i]), lines[i]);
    }
    plan_free(&x);
}

/* invalid before collision before trust */
static void test_which_code_wins(void **state)
{
    (void)state;
    static const struct {
        const char *agents;
        enum bh_code code;
    } docs[] = {
        {"  - {name: a, run: x, outputs: [o]}\n  - {name: b, run: x, outputs: [o], inputs: [nope]}\n",
         BH_E_UNBOUND_INPUT},
        {"  - {name: a, run: x, outputs: [o], untrusted: true, secrets: [k]}\n  - {name: b, run: x, outputs: [o]}\n",
         BH_E_COLLISION},
        {"  - {name: a, run: x, outputs: [o], untrusted: true, secrets: [k]}\n", BH_E_TRUST},
        {"  - {name: a, run: x, untrusted: true, secrets: [k], needs: [a]}\n", BH_E_CYCLE},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(docs); i++) {
        struct planned x;
        BH_CLEANUP_FREE char *yaml = bh_asprintf("%s%ssecrets: {k: {env: K}}\n", HEAD, docs[i].agents);
        plan_make(&x, yaml, NULL);
        T_INT(x.rc, -(int)docs[i].code);
        plan_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_all_of_them),
        cmocka_unit_test(test_which_code_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
