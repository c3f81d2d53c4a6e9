/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom: inputs, needs, stages, cycles, the order. */
#include "base/buf.h"
#include "base/mem.h"
#include "plan_support.h"

#define AGENTS "version: 1\nname: t\nagents:\n"
#define STAGES "version: 1\nname: t\nstages:\n"

static void check_after(const struct planned *x, const char *agent, const char *want)
{
    char *after = plan_after(x, agent);
    if (strcmp(after, want) != 0)
        fail_msg("'%s' waits for '%s', not '%s'", agent, after, want);
    bh_free(after);
}

static void check_inputs(const struct planned *x, const char *agent, const char *want)
{
    char *inputs = plan_inputs(x, agent);
    if (strcmp(inputs, want) != 0)
        fail_msg("'%s' reads '%s', not '%s'", agent, inputs, want);
    bh_free(inputs);
}

static void check_order(const struct planned *x, const char *want)
{
    char *order = plan_order(x);
    T_STR(order, want);
    bh_free(order);
}

/* --- data flow --- */

static void test_data_flow(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x,
              AGENTS "  - {name: report, run: x, inputs: [scores.csv, {name: notes.md, optional: true}, 'extra/*']}\n"
                     "  - {name: model, run: x, inputs: [pages.jsonl, list.txt], outputs: [scores.csv]}\n"
                     "  - {name: fetch, run: x, outputs: [pages.jsonl]}\n"
                     "  - {name: notes, run: x, outputs: [notes.md]}\n"
                     "  - {name: more, run: x, outputs: [extra/a, extra/b, other/c]}\n"
                     "  - {name: last, run: x, needs: [report, fetch]}\n"
                     "sources: {list.txt: {file: l.txt}}\n");
    check_after(&x, "report", "model:data notes:optional more:optional");
    check_after(&x, "model", "fetch:data");
    check_after(&x, "fetch", "");
    check_after(&x, "last", "report:needs fetch:needs");
    check_order(&x, "fetch model notes more report last");
    const struct bh_plan_agent *report = plan_agent(&x, "report"), *model = plan_agent(&x, "model");
    T_INT(report->n_inputs, 3);
    T_INT(report->inputs[0].n_producers, 1);
    T_STR(x.plan->agents[report->inputs[0].producers[0]].name, "model");
    T_TRUE(report->inputs[1].optional && !report->inputs[0].optional);
    T_TRUE(report->inputs[2].is_glob);
    assert_null(report->inputs[2].path);
    T_INT(model->inputs[0].source, -1);
    T_INT(model->inputs[1].source, 0);
    T_INT(model->inputs[1].n_producers, 0);
    T_TRUE(!report->implicit_inputs);
    check_inputs(&x, "last", ""); /* nobody asked for anything */
    plan_free(&x);
}

static void test_strictest_edge_counts(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, AGENTS "  - {name: a, run: x, outputs: [p, q, r/s]}\n"
                         "  - {name: b, run: x, inputs: ['r/*', {name: q, optional: true}, p], needs: [a]}\n"
                         "  - {name: c, run: x, inputs: [{name: q, optional: true}], needs: [a]}\n"
                         "  - {name: d, run: x, inputs: ['r/*', {name: q, optional: true}]}\n");
    check_after(&x, "b", "a:needs"); /* that it is data too, the inputs tell */
    check_after(&x, "c", "a:needs");
    check_after(&x, "d", "a:optional");
    plan_free(&x);
}

static void test_handlers_wait_for_any_end(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, AGENTS "  - {name: a, run: x, outputs: [route.txt]}\n"
                         "  - {name: on-fail, run: x, needs: [a], when: failed}\n"
                         "  - {name: in-any-case, run: x, needs: [a], when: always}\n"
                         "  - {name: good, run: x, needs: [a], when: succeeded}\n"
                         "  - {name: routed, run: x, inputs: [], when: {artifact: route.txt, is: go}}\n");
    check_after(&x, "on-fail", "a:optional");
    check_after(&x, "in-any-case", "a:optional");
    check_after(&x, "good", "a:needs");
    check_after(&x, "routed", "a:optional");
    plan_free(&x);
}

static void test_families(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, AGENTS "  - {name: a, run: x, outputs: [{glob: 'parts/*.txt'}]}\n"
                         "  - {name: b, run: x, outputs: [{glob: '**/x.txt'}]}\n"
                         "  - {name: c, run: x, outputs: [{glob: 'logs/**'}]}\n"
                         "  - {name: one, run: x, inputs: [parts/x.txt]}\n"
                         "  - {name: two, run: x, inputs: [logs/a/b]}\n"
                         "  - {name: three, run: x, inputs: ['*/y.txt']}\n"
                         "  - {name: four, run: x, inputs: ['**']}\n");
    check_after(&x, "one", "a:data b:data");
    check_after(&x, "two", "c:data");
    check_after(&x, "three", "a:optional c:optional");
    check_after(&x, "four", "a:optional b:optional c:optional");
    plan_free(&x);
}

/* A declared name wins over a family that might make it. */
static void test_declared_before_family(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, AGENTS "  - {name: a, run: x, outputs: [{glob: '*'}]}\n"
                         "  - {name: b, run: x, outputs: [o.txt]}\n"
                         "  - {name: c, run: x, inputs: [o.txt]}\n"
                         "  - {name: d, run: x, inputs: [s.txt]}\n"
                         "sources: {s.txt: {file: s}}\n");
    check_after(&x, "c", "b:data");
    check_after(&x, "d", "");
    plan_free(&x);
}

static void test_glob_skips_oneself(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, AGENTS "  - {name: a, run: x, outputs: [a.md]}\n"
                         "  - {name: b, run: x, inputs: ['*.md'], outputs: [b.md]}\n");
    check_after(&x, "b", "a:optional");
    plan_free(&x);
}

static void test_glob_takes_sources(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, AGENTS "  - {name: a, run: x, inputs: ['data/*']}\n"
                         "sources: {other: {file: o}, data/one: {file: 1}, data/two: {file: 2}}\n");
    T_INT(plan_agent(&x, "a")->inputs[0].source, 1);
    T_STR(plan_warning(&x, BH_E_INVALID), "source 'other' is used by no agent");
    plan_free(&x);
}

/* --- stages --- */

static void test_stages(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, STAGES
              "  - {name: one, agents: [{name: a, run: x, outputs: [a.txt]}, {name: b, run: x, outputs: [b.txt]}]}\n"
              "  - {name: two, agents: [{name: c, run: x, outputs: [c.txt]}, {name: d, run: x, inputs: [a.txt], "
              "outputs: [{glob: 'd/*'}]}]}\n"
              "  - {name: three, agents: [{name: e, run: x}, {name: f, run: x, needs: [a]}, {name: g, run: x, inputs: "
              "[]}]}\n");
    check_after(&x, "a", "");
    check_after(&x, "c", "a:barrier b:barrier");
    check_after(&x, "d", "a:data");
    check_after(&x, "e", "c:barrier d:barrier"); /* a and b are behind c */
    check_after(&x, "f", "a:needs");
    check_after(&x, "g", "");
    check_inputs(&x, "a", "");
    check_inputs(&x, "c", "a.txt b.txt");
    check_inputs(&x, "d", "a.txt");
    check_inputs(&x, "e", "a.txt b.txt c.txt d/*");
    check_inputs(&x, "f", "");
    check_inputs(&x, "g", "");
    const struct bh_plan_agent *e = plan_agent(&x, "e");
    T_TRUE(e->implicit_inputs);
    for (size_t i = 0; i < e->n_inputs; i++)
        T_TRUE(e->inputs[i].optional && e->inputs[i].source == -1 && e->inputs[i].n_producers == 1);
    T_STR(e->inputs[0].path, "a.txt");
    T_TRUE(e->inputs[3].is_glob);
    assert_null(e->inputs[3].path);
    check_order(&x, "a b c d e f g");
    plan_free(&x);
}

/* The agents of a stage may all have inputs: then who waits for it waits for those before it too. */
static void test_barrier_covers_what_nobody_waited_for(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, STAGES "  - {name: one, agents: [{name: a, run: x, outputs: [a.txt]}, {name: slow, run: x}]}\n"
                         "  - {name: two, agents: [{name: b, run: x, inputs: [a.txt], outputs: [b.txt]}]}\n"
                         "  - {name: three, agents: [{name: c, run: x, inputs: [b.txt]}]}\n"
                         "  - {name: four, agents: [{name: d, run: x}]}\n"
                         "  - {name: five, agents: [{name: e, run: x}]}\n");
    check_after(&x, "d", "a:barrier slow:barrier b:barrier c:barrier");
    check_after(&x, "e", "d:barrier");
    plan_free(&x);
}

static void test_stage_mates_share_arrays(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, STAGES "  - {name: one, agents: [{name: a, run: x, outputs: [a.txt]}]}\n"
                         "  - {name: two, agents: [{name: b, run: x}, {name: c, run: x}]}\n");
    assert_ptr_equal(plan_agent(&x, "b")->after, plan_agent(&x, "c")->after);
    assert_ptr_equal(plan_agent(&x, "b")->inputs, plan_agent(&x, "c")->inputs);
    plan_free(&x);
}

static void test_inside_a_stage(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, STAGES "  - name: one\n"
                         "    agents: [{name: a, run: x, inputs: [b.txt]}, {name: b, run: x, outputs: [b.txt]}]\n"
                         "  - name: two\n"
                         "    agents: [{name: c, run: x, when: {artifact: d.txt, is: y}}, {name: d, run: x, inputs: "
                         "[], outputs: [d.txt]}]\n");
    check_after(&x, "a", "b:data");
    check_after(&x, "c", "a:barrier b:barrier d:optional");
    check_order(&x, "b a d c");
    plan_free(&x);
}

static void test_stage_predicates(void **state)
{
    (void)state;
    struct planned x;
    plan_good(
        &x, STAGES
        "  - {name: one, agents: [{name: a, run: x, outputs: [list.txt, go.txt]}, {name: z, run: x}]}\n"
        "  - {name: two, for_each: {artifact: list.txt, max: 5}, when: {artifact: go.txt, is: y}, agents: [\n"
        "      {name: b, run: x, inputs: [], outputs: ['o-{{item}}']}, {name: c, run: x, outputs: ['p-{{item}}']}]}\n"
        "  - {name: three, agents: [{name: d, run: x}, {name: e, run: x, inputs: [o-0001, 'p-*']}]}\n");
    check_after(&x, "b", "a:optional");
    check_after(&x, "c", "a:barrier z:barrier");
    check_after(&x, "e", "b:data c:optional");
    check_inputs(&x, "d", "list.txt go.txt o-* p-*");
    plan_free(&x);
}

/* A glob of an earlier stage does not reach into later ones where it finds something before. */
static void test_glob_and_later_stages(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, STAGES
              "  - {name: one, agents: [{name: a, run: x, outputs: [a.md]}, {name: b, run: x, inputs: ['*.md']}]}\n"
              "  - {name: two, agents: [{name: c, run: x, outputs: [c.md]}]}\n");
    check_after(&x, "b", "a:optional");
    plan_free(&x);
}

static void test_attempts_and_rounds_by_number(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, AGENTS "  - {name: fix, run: x, attempts: {count: 3, select: all}, outputs: [p.diff]}\n"
                         "  - {name: judge, run: x, inputs: ['p.diff@*', p.diff@2], outputs: [p.diff]}\n"
                         "  - {name: use, run: x, inputs: [p.diff]}\n");
    check_after(&x, "judge", "fix:data");
    check_after(&x, "use", "judge:data");
    plan_free(&x);
    plan_good(
        &x, STAGES
        "  - {name: talk, repeat: {max: 3, until: {artifact: v, is: y}}, agents: [{name: a, run: x, outputs: [v]}]}\n"
        "  - {name: end, agents: [{name: b, run: x, inputs: [v@r1, v]}]}\n");
    check_after(&x, "b", "a:data");
    plan_free(&x);
}

/* --- errors --- */

static const struct bad_plan bad[] = {
    /* cycles */
    {AGENTS "  - {name: a, run: x, inputs: [o], outputs: [o]}\n", BH_E_CYCLE, 4, 32, "agents[0].inputs[0]",
     "agent 'a' waits for itself: a → a", "'a' reads its own output 'o'", NULL},
    {AGENTS "  - {name: a, run: x, needs: [a]}\n", BH_E_CYCLE, 4, 31, "agents[0].needs[0]",
     "agent 'a' waits for itself: a → a", "'a' needs 'a'", NULL},
    {AGENTS "  - {name: a, run: x, inputs: [y], outputs: [x]}\n"
            "  - {name: b, run: x, inputs: [x], outputs: [y]}\n",
     BH_E_CYCLE, 4, 12, "agents[0]", "agents wait for each other: a → b → a",
     "'b' reads 'x' of 'a'; 'a' reads 'y' of 'b'", "one of them has to start without the other's output"},
    {AGENTS "  - {name: start, run: x}\n"
            "  - {name: c, run: x, needs: [start], inputs: [b.txt], outputs: [c.txt]}\n"
            "  - {name: a, run: x, inputs: ['c.*'], outputs: [a.txt]}\n"
            "  - {name: b, run: x, needs: [a], outputs: [b.txt]}\n"
            "  - {name: end, run: x, needs: [c]}\n",
     BH_E_CYCLE, 5, 12, "agents[1]", "agents wait for each other: c → a → b → c",
     "'a' reads 'c.*' of 'c'; 'b' needs 'a'; 'c' reads 'b.txt' of 'b'", NULL},
    {AGENTS "  - {name: a, run: x, when: {artifact: b.txt, is: y}, outputs: [a.txt]}\n"
            "  - {name: b, run: x, inputs: [a.txt], outputs: [b.txt]}\n",
     BH_E_CYCLE, 4, 12, "agents[0]", "agents wait for each other: a → b → a",
     "'b' reads 'a.txt' of 'a'; 'a' depends on 'b.txt' of 'b'", NULL},
    {STAGES "  - name: s\n    agents: [{name: a, run: x, inputs: ['*.md'], outputs: [a.md]}, {name: b, run: x, inputs: "
            "['*.md'], outputs: [b.md]}]\n"
            "  - {name: t, agents: [{name: c, run: x}]}\n",
     BH_E_CYCLE, 5, 21, "stages[0].agents[0]", "agents wait for each other: a → b → a", NULL, NULL},
    /* forward references */
    {STAGES "  - {name: one, agents: [{name: a, run: x, inputs: [b.txt]}]}\n"
            "  - {name: two, agents: [{name: b, run: x, outputs: [b.txt]}]}\n",
     BH_E_UNBOUND_INPUT, 4, 53, "stages[0].agents[0].inputs[0]",
     "input 'b.txt' of agent 'a' is made by agent 'b' of the later stage 'two'", NULL,
     "put 'b' into an earlier stage or 'a' into a later one"},
    {STAGES "  - {name: one, agents: [{name: a, run: x, inputs: [{name: b.txt, optional: true}]}]}\n"
            "  - {name: two, agents: [{name: b, run: x, outputs: [b.txt]}]}\n",
     BH_E_UNBOUND_INPUT, 4, 60, "stages[0].agents[0].inputs[0]",
     "input 'b.txt' of agent 'a' is made by agent 'b' of the later stage 'two'", NULL, NULL},
    {STAGES "  - {name: one, agents: [{name: a, run: x, inputs: ['*.txt']}]}\n"
            "  - {name: two, agents: [{name: b, run: x, outputs: [b.txt]}]}\n",
     BH_E_UNBOUND_INPUT, 4, 53, "stages[0].agents[0].inputs[0]",
     "input '*.txt' of agent 'a' is made by agent 'b' of the later stage 'two'", NULL, NULL},
    {STAGES "  - {name: one, agents: [{name: a, run: x, needs: [b]}]}\n"
            "  - {name: two, agents: [{name: b, run: x}]}\n",
     BH_E_UNDEFINED, 4, 52, "stages[0].agents[0].needs[0]", "agent 'a' needs agent 'b' of the later stage 'two'", NULL,
     NULL},
    {STAGES "  - {name: one, for_each: {artifact: b.txt, max: 2}, agents: [{name: a, run: x}]}\n"
            "  - {name: two, agents: [{name: b, run: x, outputs: [b.txt]}]}\n",
     BH_E_UNBOUND_INPUT, 4, 38, "stages[0].for_each.artifact",
     "input 'b.txt' of agent 'a' is made by agent 'b' of the later stage 'two'", NULL, NULL},
    /* nobody */
    {AGENTS "  - {name: a, run: x, inputs: [page.jsonl]}\n"
            "  - {name: b, run: x, outputs: [pages.jsonl]}\n",
     BH_E_UNBOUND_INPUT, 4, 32, "agents[0].inputs[0]", "nobody makes input 'page.jsonl' of agent 'a'", NULL,
     "did you mean 'pages.jsonl'?"},
    {AGENTS "  - {name: a, run: x, inputs: [lst.txt]}\nsources: {list.txt: {file: l}}\n", BH_E_UNBOUND_INPUT, 4, 32,
     "agents[0].inputs[0]", "nobody makes input 'lst.txt' of agent 'a'", NULL, "did you mean 'list.txt'?"},
    {AGENTS "  - {name: a, run: x, inputs: [zzz]}\n", BH_E_UNBOUND_INPUT, 4, 32, "agents[0].inputs[0]",
     "nobody makes input 'zzz' of agent 'a'", NULL, "declare it under 'outputs' of an agent or under 'sources'"},
    {AGENTS "  - {name: a, run: x, inputs: ['*.csv']}\n  - {name: b, run: x, outputs: [o.txt]}\n", BH_E_UNBOUND_INPUT,
     4, 32, "agents[0].inputs[0]", "nobody makes input '*.csv' of agent 'a'", NULL, NULL},
    {AGENTS "  - {name: a, run: x, inputs: ['*.md'], outputs: [a.md]}\n", BH_E_UNBOUND_INPUT, 4, 32,
     "agents[0].inputs[0]", "nobody makes input '*.md' of agent 'a'", NULL, NULL},
    {STAGES "  - {name: s, for_each: {artifact: nope, max: 2}, agents: [{name: a, run: x}]}\n", BH_E_UNBOUND_INPUT, 4,
     36, "stages[0].for_each.artifact", "nobody makes input 'nope' of agent 'a'", NULL, NULL},
    {AGENTS "  - {name: a, run: x, inputs: [o.txt]}\n"
            "  - {name: b, run: x, attempts: {count: 2, select: all}, outputs: [o.txt]}\n",
     BH_E_UNBOUND_INPUT, 4, 32, "agents[0].inputs[0]", "nobody makes input 'o.txt' of agent 'a'", NULL,
     "no attempt has the plain name: 'o.txt@1' is that of attempt 1, 'o.txt@*' are those of all that passed"},
    {AGENTS "  - {name: a, run: x, inputs: [o.txt@5]}\n  - {name: b, run: x, attempts: 2, outputs: [o.txt]}\n",
     BH_E_UNBOUND_INPUT, 4, 32, "agents[0].inputs[0]", "input 'o.txt@5' of agent 'a': agent 'b' has no attempt 5", NULL,
     "its attempts are numbered from 1 to 2"},
    {AGENTS "  - {name: a, run: x, inputs: [o.txt@0]}\n  - {name: b, run: x, attempts: 2, outputs: [{glob: 'o*'}]}\n",
     BH_E_UNBOUND_INPUT, 4, 32, "agents[0].inputs[0]", "input 'o.txt@0' of agent 'a': agent 'b' has no attempt 0", NULL,
     NULL},
    {AGENTS "  - {name: a, run: x, inputs: [o@99999999999999999999]}\n"
            "  - {name: b, run: x, attempts: {count: 1, select: all}, outputs: [o]}\n",
     BH_E_UNBOUND_INPUT, 4, 32, "agents[0].inputs[0]",
     "input 'o@99999999999999999999' of agent 'a': agent 'b' has no attempt 99999999999999999999", NULL,
     "its only attempt is number 1"},
    {AGENTS "  - {name: a, run: x, inputs: [o.txt@2]}\n  - {name: b, run: x, outputs: [o.txt]}\n", BH_E_UNBOUND_INPUT,
     4, 32, "agents[0].inputs[0]", "nobody makes input 'o.txt@2' of agent 'a'", NULL, NULL},
    /* two inputs at one place, seen once {{ }} are filled */
    {AGENTS "  - {name: a, run: x, inputs: [{name: p, path: d/f}, {name: q, path: '{{params.d}}'}]}\n"
            "  - {name: b, run: x, outputs: [p, q]}\nparams: {d: {type: string, default: d}}\n",
     BH_E_BAD_VALUE, 4, 61, "agents[0].inputs[1]",
     "input 'q' of agent 'a' lies at 'in/d', where agents[0].inputs[0] puts 'in/d/f'", NULL, NULL},
    {AGENTS
     "  - {name: a, run: x, inputs: [p, {name: q, path: '{{params.d}}'}]}\n  - {name: b, run: x, outputs: [p, q]}\n"
     "params: {d: {type: string, default: p}}\n",
     BH_E_BAD_VALUE, 4, 42, "agents[0].inputs[1]",
     "input 'q' of agent 'a' lies at 'in/p', where agents[0].inputs[0] puts 'in/p'", NULL, NULL},
    /* names of agents */
    {AGENTS "  - {name: a, run: x, needs: [last]}\nfinally: [{name: last, run: x}]\n", BH_E_UNDEFINED, 4, 31,
     "agents[0].needs[0]", "agent 'a' needs 'last', which no agent is called", NULL, NULL},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        plan_must_fail(&bad[i], NULL);
}

/* Each knot is named once, and everything else that is wrong is said too. */
static void test_all_errors_at_once(void **state)
{
    (void)state;
    struct planned x;
    plan_make(&x,
              AGENTS "  - {name: a, run: x, inputs: [b], outputs: [a]}\n"
                     "  - {name: b, run: x, inputs: [a], outputs: [b]}\n"
                     "  - {name: c, run: x, inputs: [d], outputs: [c]}\n"
                     "  - {name: d, run: x, inputs: [c, nope], outputs: [d]}\n"
                     "  - {name: e, run: [x, '{{params.q}}'], outputs: [A]}\n",
              NULL);
    static const struct {
        int line;
        enum bh_code code;
        const char *message;
    } want[] = {
        {4, BH_E_CYCLE, "agents wait for each other: a → b → a"},
        {6, BH_E_CYCLE, "agents wait for each other: c → d → c"},
        {7, BH_E_UNBOUND_INPUT, "nobody makes input 'nope' of agent 'd'"},
        {8, BH_E_UNDEFINED, "parameter 'q' is undefined"},
        {8, BH_E_COLLISION, "output 'a' of agent 'a' and output 'A' of agent 'e' differ only by case"},
    };
    T_INT(x.errors.len, BH_ARRAY_LEN(want));
    for (size_t i = 0; i < BH_ARRAY_LEN(want); i++) {
        T_STR(bh_err_message(x.errors.items[i]), want[i].message);
        T_INT(bh_err_code(x.errors.items[i]), want[i].code);
        T_INT(bh_err_line(x.errors.items[i]), want[i].line);
    }
    T_INT(x.rc, -BH_E_CYCLE);
    plan_free(&x);
}

static void test_long_cycle_is_cut(void **state)
{
    (void)state;
    struct bh_buf yaml = BH_BUF_INIT;
    bh_buf_adds(&yaml, AGENTS);
    for (int i = 0; i < 500; i++)
        bh_buf_addf(&yaml, "  - {name: a%d, run: x, inputs: [o%d], outputs: [o%d]}\n", i, (i + 499) % 500, i);
    const struct bad_plan cycle = {
        yaml.data,
        BH_E_CYCLE,
        4,
        12,
        "agents[0]",
        "agents wait for each other: a0 → a1 → a2 → a3 → a4 → a5 → a6 → a7 → a8 → a9 → a10 → "
        "a11 → … (487 more) → a499 → a0",
        NULL,
        NULL};
    plan_must_fail(&cycle, NULL);
    bh_buf_fini(&yaml);
}

static void test_optional_nobody_is_a_warning(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, AGENTS "  - {name: a, run: x, inputs: [{name: score.csv, optional: true}]}\n"
                         "  - {name: b, run: x, outputs: [scores.csv]}\n");
    T_STR(plan_warning(&x, BH_E_UNBOUND_INPUT), "nobody makes the optional input 'score.csv' of agent 'a'");
    T_STR(bh_err_get_hint(x.plan->warnings[0]), "did you mean 'scores.csv'?");
    T_INT(bh_err_line(x.plan->warnings[0]), 4);
    T_INT(plan_agent(&x, "a")->inputs[0].n_producers, 0);
    plan_free(&x);
}

static void test_too_many_edges(void **state)
{
    (void)state;
    struct bh_buf yaml = BH_BUF_INIT;
    bh_buf_adds(&yaml, STAGES "  - name: one\n    agents:\n");
    for (int i = 0; i < 2500; i++)
        bh_buf_addf(&yaml, "      - {name: a%d, run: x, outputs: [a%d]}\n", i, i);
    bh_buf_adds(&yaml, "  - name: two\n    agents:\n");
    for (int i = 0; i < 2500; i++)
        bh_buf_addf(&yaml, "      - {name: b%d, run: x, inputs: ['a*']}\n", i);
    struct planned x;
    plan_make(&x, yaml.data, NULL);
    T_INT(x.rc, -BH_E_TOO_LARGE);
    T_INT(x.errors.len, 1);
    T_STR(bh_err_message(x.errors.items[0]), "the plan has more than 5000000 edges");
    plan_free(&x);
    bh_buf_fini(&yaml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_flow),
        cmocka_unit_test(test_strictest_edge_counts),
        cmocka_unit_test(test_handlers_wait_for_any_end),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_declared_before_family),
        cmocka_unit_test(test_glob_skips_oneself),
        cmocka_unit_test(test_glob_takes_sources),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_barrier_covers_what_nobody_waited_for),
        cmocka_unit_test(test_stage_mates_share_arrays),
        cmocka_unit_test(test_inside_a_stage),
        cmocka_unit_test(test_stage_predicates),
        cmocka_unit_test(test_glob_and_later_stages),
        cmocka_unit_test(test_attempts_and_rounds_by_number),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_all_errors_at_once),
        cmocka_unit_test(test_long_cycle_is_cut),
        cmocka_unit_test(test_optional_nobody_is_a_warning),
        cmocka_unit_test(test_too_many_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
