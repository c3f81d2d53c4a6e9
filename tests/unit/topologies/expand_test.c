/* SPDX-License-Identifier: Apache-2.0 */
/* {{ }}: what may be named, what is put in, and what a plan checks again once it was. */
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "plan_support.h"
#include "topologies/expand.h"
#include "topologies/plan_priv.h"

/* --- bh_expand alone --- */

struct world {
    struct bh_map *params;
    struct bh_param_slot topic, empty, given_braces;
    struct bh_pair matrix[2];
    struct bh_arena *arena;
    struct bh_scope scope;
};

static void world_init(struct world *w)
{
    *w = (struct world){.params = bh_map_new(NULL), .arena = bh_arena_new()};
    w->topic.value = "sand boxes";
    w->given_braces.value = "{{item}}";
    bh_map_put(w->params, "topic", &w->topic);
    bh_map_put(w->params, "none", &w->empty);
    bh_map_put(w->params, "braces", &w->given_braces);
    w->matrix[0] = (struct bh_pair){.name = {.s = "model"}, .value = {.s = "opus"}};
    w->matrix[1] = (struct bh_pair){.name = {.s = "seed"}, .value = {.s = "7"}};
    w->scope = (struct bh_scope){.params = w->params, .matrix = w->matrix, .n_matrix = 2};
}

static void world_fini(struct world *w)
{
    bh_map_free(w->params);
    bh_arena_free(w->arena);
}

static const struct {
    const char *text, *keep, *sample, *glob;
    bool open;
} filled[] = {
    {"", "", "", "", false},
    {"plain", "plain", "plain", "plain", false},
    {"{{params.topic}}", "sand boxes", "sand boxes", "sand boxes", false},
    {"{{ params.topic }}", "sand boxes", "sand boxes", "sand boxes", false},
    {"a{{params.topic}}b{{matrix.seed}}c", "asand boxesb7c", "asand boxesb7c", "asand boxesb7c", false},
    {"{{matrix.model}}-{{matrix.model}}", "opus-opus", "opus-opus", "opus-opus", false},
    {"{{attempt}}", "1", "1", "1", false},
    {"n-{{item}}.md", "n-{{item}}.md", "n-0001.md", "n-*.md", true},
    {"{{ round }}", "{{ round }}", "1", "*", true},
    {"{{params.none}}/x", "{{params.none}}/x", "x/x", "*/x", true},
    {"{{matrix.seed}}{{item}}", "7{{item}}", "70001", "7*", true},
    {"{{params.braces}}", "{{item}}", "{{item}}", "{{item}}", false}, /* a value is never looked at again */
    {"} } }} {", "} } }} {", "} } }} {", "} } }} {", false},
};

static void test_filled(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.scope.has_item = w.scope.has_round = true;
    for (size_t i = 0; i < BH_ARRAY_LEN(filled); i++) {
        const char *out = NULL;
        bool open = !filled[i].open;
        T_OK(bh_expand(&w.scope, filled[i].text, BH_OPEN_KEEP, w.arena, &out, &open, &err));
        T_STR(out, filled[i].keep);
        T_INT(open, filled[i].open);
        T_OK(bh_expand(&w.scope, filled[i].text, BH_OPEN_SAMPLE, w.arena, &out, NULL, &err));
        T_STR(out, filled[i].sample);
        T_OK(bh_expand(&w.scope, filled[i].text, BH_OPEN_GLOB, w.arena, &out, NULL, &err));
        T_STR(out, filled[i].glob);
    }
    T_TRUE(w.topic.used && w.empty.used);
    world_fini(&w);
}

static void test_plain_text_is_not_copied(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    const char *text = "no holes", *out = NULL;
    T_OK(bh_expand(&w.scope, text, BH_OPEN_KEEP, w.arena, &out, NULL, &err));
    assert_ptr_equal(out, text);
    T_TRUE(!w.topic.used);
    world_fini(&w);
}

static void test_attempts_stay_open(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.scope.has_attempts = true;
    const char *out = NULL;
    bool open = false;
    T_OK(bh_expand(&w.scope, "s-{{attempt}}", BH_OPEN_KEEP, w.arena, &out, &open, &err));
    T_STR(out, "s-{{attempt}}");
    T_TRUE(open);
    w.scope.before_attempts = true; /* what is made once for all of them */
    T_ERR(bh_expand(&w.scope, "s-{{attempt}}", BH_OPEN_KEEP, w.arena, &out, &open, &err), BH_E_UNDEFINED,
          "all attempts start from the same state");
    world_fini(&w);
}

static const struct {
    const char *text;
    enum bh_code code;
    const char *message, *hint;
} refused[] = {
    {"{{params.topik}}", BH_E_UNDEFINED, "parameter 'topik' is undefined", "did you mean '{{params.topic}}'?"},
    {"{{params.zebra}}", BH_E_UNDEFINED, "parameter 'zebra' is undefined", "declare it under 'params'"},
    {"{{matrix.modell}}", BH_E_UNDEFINED, "matrix value 'modell' is undefined", "did you mean '{{matrix.model}}'?"},
    {"{{matrix.zebra}}", BH_E_UNDEFINED, "matrix value 'zebra' is undefined", NULL},
    {"{{item}}", BH_E_UNDEFINED, "'{{item}}' is undefined here: the stage has no 'for_each'", NULL},
    {"{{round}}", BH_E_UNDEFINED, "'{{round}}' is undefined here: the stage has no 'repeat'", NULL},
    {"{{topic}}", BH_E_UNDEFINED, "'{{topic}}' is undefined",
     "{{ }} holds params.NAME, matrix.NAME, item, round or attempt"},
    {"{{}}", BH_E_UNDEFINED, "'{{}}' is undefined", "{{ }} holds params.NAME, matrix.NAME, item, round or attempt"},
    {"{{.Name}}", BH_E_UNDEFINED, "'{{.Name}}' is undefined", NULL},
    {"{{mcp_config}}", BH_E_UNDEFINED, "'{{mcp_config}}' is undefined", NULL},
    {"{{secrets.key}}", BH_E_UNDEFINED, "secret 'key' is not put into text",
     "list it under 'secrets' of the agent and read its variable, or use an endpoint"},
    {"x {{params.topic", BH_E_SYNTAX, "'{{' is never closed by '}}'", NULL},
};

static void test_refused(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    for (size_t i = 0; i < BH_ARRAY_LEN(refused); i++) {
        struct bh_err *err = NULL;
        const char *out = "untouched";
        bool open = true;
        T_INT(bh_expand(&w.scope, refused[i].text, BH_OPEN_KEEP, w.arena, &out, &open, &err), -(int)refused[i].code);
        T_STR(bh_err_message(err), refused[i].message);
        if (refused[i].hint)
            T_STR(bh_err_get_hint(err), refused[i].hint);
        T_STR(out, "untouched");
        T_TRUE(open);
        bh_err_free(err);
    }
    world_fini(&w);
}

static void test_no_matrix_hint(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.scope.n_matrix = 0;
    struct bh_err *err = NULL;
    const char *out;
    T_INT(bh_expand(&w.scope, "{{matrix.x}}", BH_OPEN_KEEP, w.arena, &out, NULL, &err), -BH_E_UNDEFINED);
    T_STR(bh_err_get_hint(err), "the agent has no 'matrix'");
    bh_err_free(err);
    world_fini(&w);
}

static void test_size_limits(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    char *big = bh_alloc(100001);
    memset(big, 'x', 100000);
    w.topic.value = big;
    struct bh_buf text = BH_BUF_INIT;
    for (int i = 0; i < 45; i++)
        bh_buf_adds(&text, "{{params.topic}}");
    const char *out;
    T_ERR(bh_expand(&w.scope, text.data, BH_OPEN_KEEP, w.arena, &out, NULL, &err), BH_E_TOO_LARGE,
          "larger than 4194304 bytes");
    size_t budget = 150000;
    w.scope.budget = &budget;
    T_OK(bh_expand(&w.scope, "{{params.topic}}", BH_OPEN_KEEP, w.arena, &out, NULL, &err));
    T_INT(budget, 50000);
    T_ERR(bh_expand(&w.scope, "{{params.topic}}", BH_OPEN_KEEP, w.arena, &out, NULL, &err), BH_E_TOO_LARGE,
          "the document is too large once its {{ }} are put in");
    bh_buf_fini(&text);
    bh_free(big);
    world_fini(&w);
}

/* --- what a plan makes of it --- */

static const char all_keys[] =
    "version: 1\n"
    "name: t\n"
    "params:\n"
    "  who: {type: string}\n"
    "  n: {type: int, default: 3}\n"
    "  on: {type: bool, default: true}\n"
    "sources:\n"
    "  in-ada.txt: {file: ./x}\n"
    "agents:\n"
    "  - name: a\n"
    "    run: [echo, '{{params.who}} {{params.n}}', '$HOME', '{{attempt}}']\n"
    "    setup: echo \"$BULKHEAD_PARAM_WHO\"\n"
    "    prompt: 'Dear {{params.who}}'\n"
    "    inputs: ['in-{{params.who}}.txt', {name: in-bob.txt, path: '{{params.n}}/x', optional: true}]\n"
    "    outputs: ['out-{{params.n}}.txt', {name: b, path: '/workspace/d/{{params.who}}'}, {glob: "
    "'g/{{params.n}}-*'}]\n"
    "    files: {'{{params.who}}.py': './agents/{{params.n}}.py', plain: ./p}\n"
    "    env: {WHO: '{{params.who}}', ON: '{{params.on}}', PLAIN: x}\n";

static void test_all_keys(void **state)
{
    (void)state;
    struct planned x;
    static const char *const params[] = {"who", "ada", "n", "5", NULL};
    plan_make(&x, all_keys, params);
    T_INT(x.rc, 0);
    const struct bh_plan_agent *a = plan_agent(&x, "a");
    T_INT(a->n_run, 4);
    T_STR(a->run[1], "ada 5");
    T_STR(a->run[2], "$HOME");
    T_STR(a->run[3], "1");
    T_INT(a->n_setup, 3);
    T_STR(a->setup[0], "/bin/sh");
    T_STR(a->setup[1], "-ceu");
    T_STR(a->setup[2], "echo \"$BULKHEAD_PARAM_WHO\"");
    T_STR(a->prompt, "Dear ada");
    assert_null(a->prompt_file);
    T_STR(a->inputs[0].name, "in-ada.txt");
    T_STR(a->inputs[0].path, "in-ada.txt");
    T_INT(a->inputs[0].source, 0);
    T_STR(a->inputs[1].path, "5/x");
    T_TRUE(a->inputs[1].optional);
    T_STR(a->outputs[0].name, "out-5.txt");
    T_STR(a->outputs[0].path, "out/out-5.txt");
    T_INT(a->outputs[0].max_files, -1);
    T_STR(a->outputs[1].path, "d/ada");
    assert_null(a->outputs[2].name);
    T_STR(a->outputs[2].glob, "g/5-*");
    T_STR(a->outputs[2].path, "out");
    T_INT(a->outputs[2].max_files, 1000);
    T_STR(a->files[0].name.s, "ada.py");
    T_STR(a->files[0].value.s, "./agents/5.py");
    T_STR(a->files[1].name.s, "plain");
    T_STR(a->env[0].value.s, "ada");
    T_STR(a->env[1].value.s, "true");
    T_STR(a->env[2].value.s, "x");
    T_INT(x.plan->n_params, 3);
    T_STR(x.plan->params[0].name, "who");
    T_STR(x.plan->params[1].value, "5");
    T_STR(x.plan->params[2].value, "true");
    plan_free(&x);
}

static void test_values_are_not_shell_nor_holes(void **state)
{
    (void)state;
    static const char yaml[] = "version: 1\nname: t\nparams: {p: {type: string}}\n"
                               "agents: [{name: a, run: [echo, '{{params.p}}'], env: {P: '{{params.p}}'}}]\n";
    static const char *const values[] = {"$(rm -rf /)", "'; x \"",  "a\nb", "{{params.p}}",
                                         "-rf",         "{{item}}", "1e3",  "no",
                                         "12:30",       "",         "08",   "99999999999999999999"};
    for (size_t i = 0; i < BH_ARRAY_LEN(values); i++) {
        struct planned x;
        const char *params[] = {"p", values[i], NULL};
        plan_make(&x, yaml, params);
        T_INT(x.rc, 0);
        T_STR(plan_agent(&x, "a")->run[1], values[i]);
        T_STR(plan_agent(&x, "a")->env[0].value.s, values[i]);
        plan_free(&x);
    }
}

#define HEAD "version: 1\nname: t\nparams: {p: {type: string}}\nagents:\n"
#define P(value) ((const char *const[]){"p", value, NULL})

static const struct {
    struct bad_plan bad;
    const char *p;
} spoiled[] = {
    {{HEAD "  - {name: a, run: x, outputs: ['o-{{params.p}}']}\n", BH_E_BAD_NAME, 5, 33, "agents[0].outputs[0]",
      "'o-/../x' is not a name of an artifact: it has '..' as a segment", NULL, NULL},
     "/../x"},
    {{HEAD "  - {name: a, run: x, outputs: ['o-{{params.p}}']}\n", BH_E_BAD_NAME, 5, 33, "agents[0].outputs[0]",
      "'o-a b' is not a name of an artifact: it holds a character other than letters, digits, . _ + = -", NULL, NULL},
     "a b"},
    {{HEAD "  - {name: a, run: x, outputs: [{glob: '*-{{params.p}}'}]}\n", BH_E_BAD_NAME, 5, 40, "agents[0].outputs[0]",
      "'*-{{item}}' is not a name of an artifact: it holds a character other than letters, digits, . _ + = - * ?", NULL,
      NULL},
     "{{item}}"},
    {{HEAD "  - {name: a, run: x, outputs: [{name: o, path: 'd/{{params.p}}'}]}\n", BH_E_BAD_VALUE, 5, 49,
      "agents[0].outputs[0]", "the path 'd/../../etc' is not one below its folder", NULL, NULL},
     "../../etc"},
    {{HEAD "  - {name: a, run: x, files: {f: 'agents/{{params.p}}'}}\n", BH_E_BAD_VALUE, 5, 34, "agents[0].files.f",
      "the path 'agents/../../secret' leads out of the folder of this file", NULL, NULL},
     "../../secret"},
    {{HEAD "  - {name: a, run: x, files: {f: '{{params.p}}'}}\n", BH_E_BAD_VALUE, 5, 34, "agents[0].files.f",
      "the path '/etc/passwd' leads out of the folder of this file", NULL, NULL},
     "/etc/passwd"},
    {{HEAD "  - {name: a, run: x, files: {'{{params.p}}': f}}\n", BH_E_BAD_VALUE, 5, 31, "agents[0].files.{{params.p}}",
      "the path '../f' is not one below its folder", NULL, NULL},
     "../f"},
    {{HEAD "  - {name: a, run: x, prompt: {file: 'p/{{params.p}}'}}\n", BH_E_BAD_VALUE, 5, 38, "agents[0].prompt.file",
      "the path 'p/../../q' leads out of the folder of this file", NULL, NULL},
     "../../q"},
};

static void test_spoiled_by_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(spoiled); i++) {
        plan_must_fail(&spoiled[i].bad, P(spoiled[i].p));
    }
}

static void test_good_host_paths(void **state)
{
    (void)state;
    struct planned x;
    plan_make(&x, HEAD "  - {name: a, run: x, files: {f: 'a/{{params.p}}'}}\n", P("../b"));
    T_INT(x.rc, 0); /* stays beneath the folder */
    T_STR(plan_agent(&x, "a")->files[0].value.s, "a/../b");
    plan_free(&x);
}

static void test_large_env(void **state)
{
    (void)state;
    char *value = bh_alloc(128 * 1024);
    memset(value, 'v', 128 * 1024 - 2);
    static const struct bad_plan bad = {
        HEAD "  - {name: a, run: x, env: {E: '{{params.p}}xxx'}}\n", BH_E_BAD_VALUE, 5,   32, "agents[0].env.E",
        "the value of variable 'E' is larger than 128 KiB",          NULL,           NULL};
    plan_must_fail(&bad, P(value));
    bh_free(value);
}

/* --- parameters --- */

#define PARAMS                                                     \
    "version: 1\nname: t\n"                                        \
    "params:\n"                                                    \
    "  topic: {type: string}\n"                                    \
    "  n: {type: int, default: 1, min: 1, max: 10}\n"              \
    "  mode: {type: string, default: fast, enum: [fast, slow]}\n"  \
    "  id: {type: string, default: ab1, pattern: '[a-z]+[0-9]'}\n" \
    "agents: [{name: a, run: [echo, '{{params.topic}}{{params.n}}{{params.mode}}{{params.id}}']}]\n"

static const struct {
    const char *params[9];
    enum bh_code code;
    int line;
    const char *path, *message, *hint;
} bad_params[] = {
    {{NULL},
     BH_E_UNDEFINED,
     4,
     "params.topic",
     "the param 'topic' has no value and no default",
     "give it with -p topic=VALUE"},
    {{"topic", "t", "topik", "x"},
     BH_E_UNDEFINED,
     0,
     "params",
     "the document has no param 'topik'",
     "did you mean 'topic'?"},
    {{"topic", "t", "zzzzz", "x"}, BH_E_UNDEFINED, 0, "params", "the document has no param 'zzzzz'", NULL},
    {{"topic", "t", "n", "x"}, BH_E_BAD_VALUE, 5, "params.n", "the param 'n' takes an integer, not 'x'", NULL},
    {{"topic", "t", "n", "11"}, BH_E_BAD_VALUE, 5, "params.n", "the param 'n' is at most 10, not 11", NULL},
    {{"topic", "t", "n", "0"}, BH_E_BAD_VALUE, 5, "params.n", "the param 'n' is at least 1, not 0", NULL},
    {{"topic", "t", "mode", "Fast"},
     BH_E_BAD_VALUE,
     6,
     "params.mode",
     "the param 'mode' does not allow 'Fast': it is not in its enum",
     NULL},
    {{"topic", "t", "id", "ab1;"},
     BH_E_BAD_VALUE,
     7,
     "params.id",
     "the param 'id' does not allow 'ab1;': its pattern is [a-z]+[0-9]",
     NULL},
    {{"topic", "\xff"}, BH_E_BAD_VALUE, 4, "params.topic", "the value of the param 'topic' is no UTF-8", NULL},
};

static void test_bad_params(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad_params); i++) {
        const struct bad_plan bad = {PARAMS,
                                     bad_params[i].code,
                                     bad_params[i].line,
                                     bad_params[i].line ? 3 : 0,
                                     bad_params[i].path,
                                     bad_params[i].message,
                                     NULL,
                                     bad_params[i].hint};
        plan_must_fail(&bad, bad_params[i].params);
    }
}

static void test_last_param_counts(void **state)
{
    (void)state;
    struct planned x;
    static const char *const params[] = {"topic", "t", "n", "99", "n", "7", NULL};
    plan_make(&x, PARAMS, params);
    T_INT(x.rc, 0);
    T_STR(plan_agent(&x, "a")->run[1], "t7fastab1");
    plan_free(&x);
}

static void test_no_params_hint(void **state)
{
    (void)state;
    static const struct bad_plan bad = {"version: 1\nname: t\nagents: [{name: a, run: x}]\n",
                                        BH_E_UNDEFINED,
                                        0,
                                        0,
                                        "params",
                                        "the document has no param 'p'",
                                        NULL,
                                        "it declares no 'params'"};
    plan_must_fail(&bad, P("x"));
}

static void test_lint_keeps_what_has_no_value(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, PARAMS);
    T_STR(plan_agent(&x, "a")->run[1], "{{params.topic}}1fastab1");
    T_INT(x.plan->n_params, 3);
    plan_free(&x);
}

static void test_lint_binds_open_names(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, "version: 1\nname: t\nparams: {p: {type: string}}\nagents:\n"
                  "  - {name: a, run: x, outputs: ['o-{{params.p}}.md']}\n"
                  "  - {name: b, run: x, inputs: ['o-{{params.p}}.md']}\n"
                  "  - {name: c, run: x, inputs: ['o-*.md']}\n"
                  "  - {name: d, run: x, inputs: ['o-one.md']}\n");
    static const char *const readers[] = {"b", "c", "d"};
    for (size_t i = 0; i < BH_ARRAY_LEN(readers); i++) {
        char *after = plan_after(&x, readers[i]);
        T_STR(after, i == 1 ? "a:optional" : "a:data");
        bh_free(after);
    }
    plan_free(&x);
}

/* Errors in every cell are told once. */
static void test_errors_once_per_place(void **state)
{
    (void)state;
    static const struct bad_plan bad = {
        "version: 1\nname: t\nagents:\n"
        "  - {name: a, matrix: {x: [1, 2, 3]}, run: [echo, '{{params.nope}}'], outputs: ['{{matrix.x}}.md']}\n",
        BH_E_UNDEFINED,
        4,
        51,
        "agents[0].run[1]",
        "parameter 'nope' is undefined",
        NULL,
        "declare it under 'params'"};
    plan_must_fail(&bad, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filled),
        cmocka_unit_test(test_plain_text_is_not_copied),
        cmocka_unit_test(test_attempts_stay_open),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_matrix_hint),
        cmocka_unit_test(test_size_limits),
        cmocka_unit_test(test_all_keys),
        cmocka_unit_test(test_values_are_not_shell_nor_holes),
        cmocka_unit_test(test_spoiled_by_values),
        cmocka_unit_test(test_good_host_paths),
        cmocka_unit_test(test_large_env),
        cmocka_unit_test(test_bad_params),
        cmocka_unit_test(test_last_param_counts),
        cmocka_unit_test(test_no_params_hint),
        cmocka_unit_test(test_lint_keeps_what_has_no_value),
        cmocka_unit_test(test_lint_binds_open_names),
        cmocka_unit_test(test_errors_once_per_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
