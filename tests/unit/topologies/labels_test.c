/* SPDX-License-Identifier: Apache-2.0 */
/* Taint by plan: where it begins, how it flows, what clears it, and the path that is printed. */
#include "base/buf.h"
#include "base/mem.h"
#include "plan_support.h"

#define HEAD                   \
    "version: 1\nname: t\n"    \
    "secrets: {k: {env: K}}\n" \
    "sources: {bad.txt: {file: b, untrusted: true}, own.txt: {file: o}, mine.txt: {file: m, private: true}}\n"

/* "name=why;" of all tainted agents, in order. */
static char *tainted(const struct planned *x)
{
    struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < x->plan->n_agents; i++) {
        const struct bh_plan_agent *a = &x->plan->agents[i];
        assert_int_equal(a->label == BH_TAINTED, a->why != NULL);
        if (a->why)
            bh_buf_addf(&out, "%s=%s;", a->name, a->why);
    }
    return bh_buf_take(&out);
}

static const struct {
    const char *what, *yaml, *want;
} flows[] = {
    {"nothing", HEAD "agents: [{name: a, run: x, inputs: [own.txt], outputs: [o]}, {name: b, run: x, inputs: [o]}]\n",
     ""},
    {"an agent", HEAD "agents: [{name: a, run: x, untrusted: true, outputs: [o]}, {name: b, run: x, inputs: [o]}]\n",
     "a=untrusted: true;b=o ← a (untrusted: true);"},
    {"a source", HEAD "agents: [{name: a, run: x, inputs: [bad.txt], outputs: [o]}, {name: b, run: x, inputs: [o]}]\n",
     "a=bad.txt (untrusted source);b=o ← a ← bad.txt (untrusted source);"},
    {"a source by a glob", HEAD "agents: [{name: a, run: x, inputs: ['*.txt']}]\n", "a=bad.txt (untrusted source);"},
    {"a glob",
     HEAD "agents: [{name: a, run: x, untrusted: true, outputs: [o.md]}, {name: b, run: x, inputs: ['*.md']}]\n",
     "a=untrusted: true;b=*.md ← a (untrusted: true);"},
    {"an optional input",
     HEAD "agents: [{name: a, run: x, untrusted: true, outputs: [o]}, {name: b, run: x, inputs: [{name: o, optional: "
          "true}]}]\n",
     "a=untrusted: true;b=o ← a (untrusted: true);"},
    {"order alone", HEAD "agents: [{name: a, run: x, untrusted: true}, {name: b, run: x, needs: [a]}]\n",
     "a=untrusted: true;"},
    {"stages",
     HEAD "stages: [{name: s, agents: [{name: a, run: x, untrusted: true, outputs: [o]}]}, {name: t, agents: [{name: "
          "b, run: x}]}]\n",
     "a=untrusted: true;"},
    {"a chain",
     HEAD
     "agents: [{name: a, run: x, untrusted: true, outputs: [o1]}, {name: b, run: x, inputs: [o1], outputs: [o2]},\n"
     "  {name: c, run: x, inputs: [o2, own.txt], outputs: [o3]}, {name: d, run: x, inputs: [own.txt]}]\n",
     "a=untrusted: true;b=o1 ← a (untrusted: true);c=o2 ← b ← o1 ← a (untrusted: true);"},
    {"validate lets in, and the label stays",
     HEAD "agents: [{name: a, run: x, untrusted: true, outputs: [o]},\n"
          "  {name: b, run: x, inputs: [o], secrets: [k], accept: {o: {validate: {kind: json}}}, outputs: [p]},\n"
          "  {name: c, run: x, inputs: [p]}]\n",
     "a=untrusted: true;b=o ← a (untrusted: true);c=p ← b ← o ← a (untrusted: true);"},
    {"approve clears",
     HEAD "agents: [{name: a, run: x, untrusted: true, outputs: [o]},\n"
          "  {name: b, run: x, inputs: [o], secrets: [k], accept: {o: {approve: true}}, outputs: [p]},\n"
          "  {name: c, run: x, inputs: [p]}]\n",
     "a=untrusted: true;"},
    {"endorse clears",
     HEAD "agents: [{name: a, run: x, inputs: [bad.txt], secrets: [k],\n"
          "  accept: {bad.txt: {validate: {kind: text}, endorse: true}}}]\n",
     ""},
    {"accept of another artifact",
     HEAD "agents: [{name: a, run: x, untrusted: true, outputs: [o, p]}, {name: b, run: x, inputs: [o, p], accept: {o: "
          "{approve: true}}}]\n",
     "a=untrusted: true;b=p ← a (untrusted: true);"},
    {"a named box",
     HEAD "boxes: {lab: {}}\nagents: [{name: a, run: x, box: lab}, {name: b, run: x, box: lab, untrusted: true}, "
          "{name: c, run: x, inputs: [o]}, {name: d, run: x, box: lab, outputs: [o]}]\n",
     "a=shares a box with b (untrusted: true);b=untrusted: true;"
     "c=o ← d, which shares a box with b (untrusted: true);d=shares a box with b (untrusted: true);"},
    {"an item", HEAD "stages: [{name: s, for_each: {artifact: bad.txt, max: 2}, agents: [{name: a, run: x}]}]\n",
     "a=bad.txt (untrusted source);"},
    {"an item that an agent made",
     HEAD "stages: [{name: s, agents: [{name: a, run: x, untrusted: true, outputs: [l]}]}, {name: t, for_each: "
          "{artifact: l, max: 2}, agents: [{name: b, run: x}]}]\n",
     "a=untrusted: true;b=l ← a (untrusted: true);"},
    {"the round before",
     HEAD "stages: [{name: s, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [{name: a, run: x}, {name: b, "
          "run: x, inputs: [bad.txt], outputs: [v]}]}]\n",
     "a=the round before ← b ← bad.txt (untrusted source);b=bad.txt (untrusted source);"},
    {"a predicate is no data",
     HEAD "agents: [{name: a, run: x, untrusted: true, outputs: [o]}, {name: b, run: x, when: {artifact: o, is: y}}]\n",
     "a=untrusted: true;"},
};

static void test_flows(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(flows); i++) {
        struct planned x;
        plan_good(&x, flows[i].yaml);
        char *got = tainted(&x);
        if (strcmp(got, flows[i].want) != 0)
            fail_msg("%s:\n got  %s\n want %s", flows[i].what, got, flows[i].want);
        bh_free(got);
        plan_free(&x);
    }
}

static void test_long_path_is_cut(void **state)
{
    (void)state;
    struct bh_buf yaml = BH_BUF_INIT;
    bh_buf_adds(&yaml, "version: 1\nname: t\nagents:\n  - {name: a0, run: x, untrusted: true, outputs: [o0]}\n");
    for (int i = 1; i < 20; i++)
        bh_buf_addf(&yaml, "  - {name: a%d, run: x, inputs: [o%d], outputs: [o%d]}\n", i, i - 1, i);
    struct planned x;
    plan_good(&x, yaml.data);
    T_STR(plan_agent(&x, "a19")->why, "o18 ← a18 ← o17 ← a17 ← o16 ← a16 ← o15 ← a15 ← o14 ← a14 ← o13 ← a13 ← … ← a0 "
                                      "(untrusted: true)");
    plan_free(&x);
    bh_buf_fini(&yaml);
}

/* A tainted artifact reaches only those that name it. */
static void test_left_out(void **state)
{
    (void)state;
    struct planned x;
    plan_good(
        &x,
        "version: 1\nname: t\nstages:\n"
        "  - {name: one, agents: [{name: a, run: x, untrusted: true, outputs: [bad, {glob: 'bad-*'}]}, {name: b, run: "
        "x, outputs: [good]}]}\n"
        "  - {name: two, agents: [{name: c, run: x, outputs: [c]}, {name: d, run: x, inputs: [bad], outputs: [d]}]}\n"
        "  - {name: three, agents: [{name: e, run: x}, {name: f, run: x, inputs: [c, bad]}]}\n");
    char *inputs = plan_inputs(&x, "e"), *left_out = plan_left_out(&x, "e");
    T_STR(inputs, "good c");
    T_STR(left_out, "bad bad-* d");
    bh_free(inputs);
    bh_free(left_out);
    left_out = plan_left_out(&x, "c");
    T_STR(left_out, "bad bad-*");
    bh_free(left_out);
    T_INT(plan_agent(&x, "e")->label, BH_TRUSTED);
    T_INT(plan_agent(&x, "f")->label, BH_TAINTED);
    T_INT(plan_agent(&x, "f")->n_left_out, 0);
    plan_free(&x);
}

static void test_private_flows(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "topology: per-agent\nagents: [{name: a, run: x, inputs: [mine.txt], outputs: [o]}, {name: b, "
                       "run: x, inputs: [o]},\n"
                       "  {name: c, run: x, inputs: [own.txt]}]\n");
    T_TRUE(plan_box(&x, "a")->private_);
    T_TRUE(plan_box(&x, "b")->private_);
    T_TRUE(!plan_box(&x, "c")->private_);
    plan_free(&x);
    plan_good(
        &x, HEAD
        "boxes: {lab: {}}\nstages: [{name: s, repeat: {max: 2, until: {artifact: o, is: y}}, agents: [\n"
        "  {name: a, run: x, inputs: [mine.txt], outputs: [o], topology: per-agent}, {name: b, run: x, box: lab}]},\n"
        "  {name: t, agents: [{name: c, run: x, box: lab, outputs: [p]}, {name: d, run: x, inputs: [p], topology: "
        "per-agent}]}]\n");
    T_TRUE(plan_box(&x, "lab")->private_); /* the round before lies before b, and c shares its box */
    T_TRUE(plan_box(&x, "d")->private_);
    plan_free(&x);
}

static void test_steered_by(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "stages:\n"
                       "  - {name: s, agents: [{name: a, run: x, untrusted: true, outputs: [bad]}, {name: b, run: x, "
                       "outputs: [good]}]}\n"
                       "  - {name: t, when: {artifact: bad, is: y}, agents: [{name: c, run: x, when: {artifact: good, "
                       "is: y}}, {name: d, run: x, when: {artifact: bad.txt, is: y}}]}\n"
                       "  - {name: u, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [{name: e, run: x, "
                       "inputs: [bad], outputs: [v]}]}\n");
    const struct bh_plan_agent *c = plan_agent(&x, "c"), *d = plan_agent(&x, "d"), *e = plan_agent(&x, "e");
    T_INT(plan_agent(&x, "b")->n_steered_by, 0);
    T_INT(c->n_steered_by, 1);
    T_STR(c->steered_by[0], "bad");
    T_INT(d->n_steered_by, 2);
    T_STR(d->steered_by[0], "bad.txt");
    T_STR(d->steered_by[1], "bad");
    T_INT(e->n_steered_by, 1);
    T_STR(e->steered_by[0], "v");
    plan_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flows),         cmocka_unit_test(test_long_path_is_cut), cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_private_flows), cmocka_unit_test(test_steered_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
