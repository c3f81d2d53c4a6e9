/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of a matrix: which there are, in which order, and what they are called. */
#include "base/buf.h"
#include "base/mem.h"
#include "plan_support.h"

#define AGENT(matrix) \
    "version: 1\nname: t\nagents:\n  - {name: m, run: [x], matrix: " matrix ", outputs: [{glob: '*'}]}\n"

static const struct {
    const char *yaml, *names;
} good[] = {
    {AGENT("{x: [a, b]}"), "m-a m-b"},
    {AGENT("{x: [a, b], y: [1, 2, 3]}"), "m-a-1 m-a-2 m-a-3 m-b-1 m-b-2 m-b-3"},
    {AGENT("{x: [a, b], y: [1, 2], exclude: [{x: a, y: 2}]}"), "m-a-1 m-b-1 m-b-2"},
    {AGENT("{x: [a, b], y: [1, 2], exclude: [{x: a}]}"), "m-b-1 m-b-2"},
    {AGENT("{x: [a], y: [1, 2], include: [{x: z, y: 9}]}"), "m-a-1 m-a-2 m-z-9"},
    {AGENT("{x: [a], include: [{x: b, extra: q}]}"), "m-a m-b-q"},
    {AGENT("{include: [{x: b}, {x: c}]}"), "m-b m-c"},
    {AGENT("{x: [a, b], exclude: [{x: a}], include: [{x: a}]}"), "m-b m-a"}, /* what is included stays */
    {AGENT("{x: ['GPT-4 Turbo', claude_3.5, \"\xc3\x84\xc3\xb6\", '']}"), "m-gpt-4-turbo m-claude_3-5 m--- m-"},
    {AGENT("{x: [no, 1e3, 08, 12:30, 20200219]}"), "m-no m-1e3 m-08 m-12-30 m-20200219"},
};

static void test_cells(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++) {
        struct planned x;
        plan_good(&x, good[i].yaml);
        char *names = plan_order(&x);
        T_STR(names, good[i].names);
        bh_free(names);
        plan_free(&x);
    }
}

static const struct bad_plan bad[] = {
    {AGENT("{x: [a b, a-b]}"), BH_E_BAD_NAME, 4, 12, "agents[0].name",
     "two cells of the matrix of agent 'm' get the same name 'm-a-b'", NULL, NULL},
    {AGENT("{x: [A, a]}"), BH_E_BAD_NAME, 4, 12, "agents[0].name",
     "two cells of the matrix of agent 'm' get the same name 'm-a'", NULL, NULL},
    {AGENT("{x: [a], include: [{x: a}]}"), BH_E_BAD_NAME, 4, 12, "agents[0].name",
     "two cells of the matrix of agent 'm' get the same name 'm-a'", NULL, NULL},
    {AGENT("{x: [a], exclude: [{x: a}]}"), BH_E_BAD_VALUE, 4, 33, "agents[0].matrix",
     "the matrix of agent 'm' leaves no cell", NULL, NULL},
    {AGENT("{x: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]}"), BH_E_BAD_NAME, 4, 12,
     "agents[0].name",
     "agent name 'm-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' is longer than 63 characters", NULL,
     NULL},
    {"version: 1\nname: t\nagents:\n"
     "  - {name: m, run: [x], matrix: {x: [a]}}\n"
     "  - {name: m-a, run: [x]}\n",
     BH_E_BAD_NAME, 5, 12, "agents[1].name", "two agents get the same name 'm-a'", NULL, NULL},
};

static void test_bad_cells(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        plan_must_fail(&bad[i], NULL);
}

static void test_cell_parts(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, "version: 1\nname: t\nagents:\n"
                  "  - name: m\n"
                  "    matrix: {model: [Sonnet, opus], seed: [1]}\n"
                  "    run: [ask, --model, '{{matrix.model}}', '--seed={{matrix.seed}}']\n"
                  "    env: {M: '{{matrix.model}}'}\n"
                  "    prompt: {file: './{{matrix.seed}}.md'}\n"
                  "    outputs: ['o-{{matrix.seed}}-{{matrix.model}}.txt']\n");
    const struct bh_plan_agent *a = plan_agent(&x, "m-sonnet-1");
    T_STR(a->run[2], "Sonnet"); /* the value as it stands; only the name is tamed */
    T_STR(a->run[3], "--seed=1");
    T_STR(a->env[0].value.s, "Sonnet");
    T_STR(a->prompt_file, "./1.md");
    T_STR(a->outputs[0].name, "o-1-Sonnet.txt");
    T_INT(a->n_matrix, 2);
    T_STR(a->matrix[0].name.s, "model");
    T_STR(a->matrix[0].value.s, "Sonnet");
    T_STR(plan_agent(&x, "m-opus-1")->outputs[0].name, "o-1-opus.txt");
    plan_free(&x);
}

static void test_needs_all_cells(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, "version: 1\nname: t\nagents:\n"
                  "  - {name: m, run: [x], matrix: {x: [a, b]}}\n"
                  "  - {name: judge, run: [x], needs: [m]}\n");
    char *after = plan_after(&x, "judge");
    T_STR(after, "m-a:needs m-b:needs");
    bh_free(after);
    plan_free(&x);
}

static void test_included_cell_without_a_value(void **state)
{
    (void)state;
    static const struct bad_plan missing = {"version: 1\nname: t\nagents:\n  - {name: m, run: [x, '{{matrix.y}}'], "
                                            "matrix: {x: [a], y: [1], include: [{x: b}]}}\n",
                                            BH_E_UNDEFINED,
                                            4,
                                            24,
                                            "agents[0].run[1]",
                                            "matrix value 'y' is undefined",
                                            NULL,
                                            NULL};
    plan_must_fail(&missing, NULL);
}

static char *long_list(int n)
{
    struct bh_buf out = BH_BUF_INIT;
    for (int i = 0; i < n; i++)
        bh_buf_addf(&out, "%s%d", i ? "," : "", i);
    return bh_buf_take(&out);
}

static void test_too_many_cells(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *list = long_list(400);
    BH_CLEANUP_FREE char *yaml =
        bh_asprintf("version: 1\nname: t\nagents:\n  - {name: m, run: [x], matrix: {x: [%s], y: [%s], z: [%s]}}\n",
                    list, list, list);
    const struct bad_plan too_many = {
        yaml, BH_E_TOO_LARGE, 4, 33, "agents[0].matrix", "the matrix of agent 'm' has more than 100000 cells", NULL,
        NULL};
    plan_must_fail(&too_many, NULL);
}

static void test_too_many_agents_together(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *x = long_list(400), *y = long_list(250);
    BH_CLEANUP_FREE char *yaml = bh_asprintf("version: 1\nname: t\nagents:\n  - {name: m, run: [x]}\n"
                                             "  - {name: n, run: [x], matrix: {x: [%s], y: [%s]}}\n",
                                             x, y);
    const struct bad_plan too_many = {
        yaml, BH_E_TOO_LARGE, 5, 12, "agents[1]", "the plan has more than 100000 agents", NULL, NULL};
    plan_must_fail(&too_many, NULL);
}

static void test_too_much_to_exclude(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *list = long_list(300);
    struct bh_buf exclude = BH_BUF_INIT;
    for (int i = 0; i < 3000; i++)
        bh_buf_addf(&exclude, "%s{x: q%d}", i ? "," : "", i);
    BH_CLEANUP_FREE char *yaml = bh_asprintf(
        "version: 1\nname: t\nagents:\n  - {name: m, run: [x], matrix: {x: [%s], y: [%s], exclude: [%s]}}\n", list,
        list, exclude.data);
    struct planned x;
    plan_make(&x, yaml, NULL);
    T_INT(x.rc, -BH_E_TOO_LARGE);
    T_STR(bh_err_message(x.errors.items[0]), "the plan has more than 100000000 comparisons to make");
    plan_free(&x);
    bh_buf_fini(&exclude);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_bad_cells),
        cmocka_unit_test(test_cell_parts),
        cmocka_unit_test(test_needs_all_cells),
        cmocka_unit_test(test_included_cell_without_a_value),
        cmocka_unit_test(test_too_many_cells),
        cmocka_unit_test(test_too_many_agents_together),
        cmocka_unit_test(test_too_much_to_exclude),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
