/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a document as a person would make them, in every way in which people write YAML. */
#include "topologies/editor.h"

#include "base/buf.h"
#include "base/mem.h"
#include "tests/support/t.h"

#define HEAD "version: 1\nname: t\n"

struct edited {
    struct bh_pipeline *pipeline;
    struct bh_editor ed;
};

static void edit_open(struct edited *x, const char *text)
{
    struct bh_errlist errors = {0};
    if (bh_pipeline_load("p.yaml", text, strlen(text), &x->pipeline, &errors) != 0)
        fail_msg("%s\ndoes not load: %s", text, bh_err_message(errors.items[0]));
    bh_editor_init(&x->ed, text, strlen(text), x->pipeline->root);
}

static void edit_close(struct edited *x)
{
    bh_editor_fini(&x->ed);
    bh_pipeline_free(x->pipeline);
}

static void check_result(struct edited *x, const char *want)
{
    struct bh_buf out = BH_BUF_INIT;
    assert_true(bh_editor_result(&x->ed, &out));
    T_STR(out.data, want);
    bh_buf_fini(&out);
}

/* Of agent 'a': key set to value (NULL: taken away); `want` NULL: it cannot be done. */
static const struct {
    const char *text, *key, *value, *want;
} cases[] = {
    /* added behind the name */
    {HEAD "agents:\n  - name: a # me\n    run: x\n", "topology", "per-agent",
     HEAD "agents:\n  - name: a # me\n    topology: per-agent\n    run: x\n"},
    {HEAD "agents:\n- run: x\n  name: 'a'\n", "topology", "auto",
     HEAD "agents:\n- run: x\n  name: 'a'\n  topology: auto\n"},
    {HEAD "agents:\n- run: x\n  name: a", "topology", "auto", HEAD "agents:\n- run: x\n  name: a\n  topology: auto"},
    {HEAD "agents: [{name: \"a\", run: x}]\n", "timeout", "1m", HEAD "agents: [{name: \"a\", timeout: 1m, run: x}]\n"},
    {HEAD "agents: [{run: x, name: a}]\n", "timeout", "1m", HEAD "agents: [{run: x, name: a, timeout: 1m}]\n"},
    {"version: 1\r\nname: t\r\nagents:\r\n  - name: a\r\n    run: x\r\n", "topology", "auto",
     "version: 1\r\nname: t\r\nagents:\r\n  - name: a\r\n    topology: auto\r\n    run: x\r\n"},
    {"\xEF\xBB\xBFname: t\nversion: 1\ndescription: \xC3\xBC\nagents: [{run: \"\xE2\x82\xAC\", name: a}]\n", "topology",
     "auto",
     "\xEF\xBB\xBFname: t\nversion: 1\ndescription: \xC3\xBC\nagents: [{run: \"\xE2\x82\xAC\", name: a, topology: "
     "auto}]\n"},
    {HEAD "stages:\n  - name: s\n    agents:\n      - name: a\n        run: |\n          x\n", "topology", "auto",
     HEAD "stages:\n  - name: s\n    agents:\n      - name: a\n        topology: auto\n        run: |\n          x\n"},
    /* replaced */
    {HEAD "agents: [{name: a, topology: shared-box, run: x}]\n", "topology", "auto",
     HEAD "agents: [{name: a, topology: auto, run: x}]\n"},
    {HEAD "agents:\n  - name: a\n    topology: 'shared-box'  # why\n    run: x\n", "topology", "auto",
     HEAD "agents:\n  - name: a\n    topology: auto  # why\n    run: x\n"},
    {HEAD "agents: [{name: a, env: {A: '}', B: \"]\"}, run: x}]\n", "env", "{C: d}",
     HEAD "agents: [{name: a, env: {C: d}, run: x}]\n"},
    {HEAD "agents:\n  - name: a\n    outputs:\n      - x\n    run: x\n", "outputs", "[z]", NULL},
    {HEAD "agents:\n  - name: a\n    run: |\n      x\n", "run", "y", NULL},
    /* taken away */
    {HEAD "agents:\n  - name: a\n    box: b # gone\n    run: x\nboxes: {b: {}}\n", "box", NULL,
     HEAD "agents:\n  - name: a\n    run: x\nboxes: {b: {}}\n"},
    {HEAD "agents:\n  - box: b\n    name: a\n    run: x\nboxes: {b: {}}\n", "box", NULL,
     HEAD "agents:\n  - name: a\n    run: x\nboxes: {b: {}}\n"},
    {HEAD "agents:\n  - name: a\n    outputs:\n    - x\n\n    # of y\n    - y\n    run: x\n", "outputs", NULL,
     HEAD "agents:\n  - name: a\n    run: x\n"},
    {HEAD "agents:\n  - name: a\n    run: x\n    env:\n      X: |\n        # not a comment\n\n        y\n\nboxes: {}\n",
     "env", NULL, HEAD "agents:\n  - name: a\n    run: x\n\nboxes: {}\n"},
    {HEAD "agents: [{name: a, outputs: [x, y], run: x}]\n", "outputs", NULL, HEAD "agents: [{name: a, run: x}]\n"},
    {HEAD "agents: [{name: a, run: x, env: {X: \"}\"}}]\n", "env", NULL, HEAD "agents: [{name: a, run: x}]\n"},
    {HEAD "agents:\n  - {name: a, run: x,\n     env: {A: b # it's {\n       , C: d}}\n", "env", NULL,
     HEAD "agents:\n  - {name: a, run: x}\n"},
    {HEAD "agents: [{name: a, run: x}]\n", "box", NULL, HEAD "agents: [{name: a, run: x}]\n"},
};

static void one_key_of_an_agent(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct edited x;
        edit_open(&x, cases[i].text);
        const struct bh_node *a = bh_editor_agent(&x.ed, "a");
        assert_non_null(a);
        bool done = cases[i].value ? bh_editor_set(&x.ed, a, cases[i].key, cases[i].value)
                                   : bh_editor_remove(&x.ed, a, cases[i].key);
        if (done != (cases[i].want != NULL))
            fail_msg("%s\nwas %schanged", cases[i].text, done ? "" : "not ");
        if (done)
            check_result(&x, cases[i].want);
        edit_close(&x);
    }
}

static void several_keys_at_one_place(void **state)
{
    (void)state;
    struct edited x;
    edit_open(&x, HEAD "agents:\n  - name: a\n    box: b\n    run: x\n  - {name: c, run: x}\nboxes: {b: {}}\n");
    const struct bh_node *a = bh_editor_agent(&x.ed, "a"), *c = bh_editor_agent(&x.ed, "c");
    assert_true(bh_editor_remove(&x.ed, a, "box"));
    assert_true(bh_editor_set(&x.ed, c, "timeout", "1m"));
    assert_true(bh_editor_set(&x.ed, a, "topology", "per-agent"));
    assert_true(bh_editor_set(&x.ed, a, "timeout", "2m"));
    check_result(&x, HEAD "agents:\n  - name: a\n    topology: per-agent\n    timeout: 2m\n    run: x\n"
                          "  - {name: c, timeout: 1m, run: x}\nboxes: {b: {}}\n");
    edit_close(&x);
}

static void changes_that_meet_are_refused(void **state)
{
    (void)state;
    struct edited x;
    struct bh_buf out = BH_BUF_INIT;
    edit_open(&x, HEAD "agents: [{name: a, topology: auto, run: x}]\n");
    const struct bh_node *a = bh_editor_agent(&x.ed, "a");
    assert_true(bh_editor_remove(&x.ed, a, "topology"));
    assert_true(bh_editor_set(&x.ed, a, "topology", "per-agent"));
    assert_false(bh_editor_result(&x.ed, &out));
    bh_buf_fini(&out);
    edit_close(&x);
}

static const char *const added[] = {"name", "b", "run", "[y]", NULL};

static const struct {
    const char *text, *want;
} adds[] = {
    {HEAD "agents:\n  - name: a\n    run: |\n      x\n\n  - {name: c, run: x}\n",
     HEAD "agents:\n  - name: a\n    run: |\n      x\n  - name: b\n    run: [y]\n\n  - {name: c, run: x}\n"},
    {HEAD "agents:\n- {name: a,\n   run: x}\n", HEAD "agents:\n- {name: a,\n   run: x}\n- name: b\n  run: [y]\n"},
    {HEAD "agents: [{name: a, run: x}, {name: c, run: x}]\n",
     HEAD "agents: [{name: a, run: x}, {name: b, run: [y]}, {name: c, run: x}]\n"},
    {HEAD "agents:\n- {name: a, run: x}", NULL},
};

static void agents_are_put_behind_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(adds); i++) {
        struct edited x;
        edit_open(&x, adds[i].text);
        bool done = bh_editor_add_agent(&x.ed, bh_editor_agent(&x.ed, "a"), added);
        assert_int_equal(done, adds[i].want != NULL);
        if (done)
            check_result(&x, adds[i].want);
        edit_close(&x);
    }
}

/* What is written elsewhere is not changed there: it may mean others too. */
static void an_alias_is_left_alone(void **state)
{
    (void)state;
    struct edited x;
    edit_open(&x, HEAD "x-base: &b crew\nagents:\n  - {name: a, box: *b, run: x}\nboxes: {crew: {}}\n");
    const struct bh_node *a = bh_editor_agent(&x.ed, "a");
    struct bh_buf text = BH_BUF_INIT;
    assert_false(bh_editor_set(&x.ed, a, "box", "other") && x.ed.n_edits == 1 && x.ed.edits[0].at > 70);
    bh_buf_fini(&text);
    edit_close(&x);
}

static void agents_by_name(void **state)
{
    (void)state;
    struct edited x;
    edit_open(&x, HEAD "stages: [{name: s, agents: [{name: a, run: x}]}, {name: u, agents: [{name: b, run: x}]}]\n"
                       "finally: [{name: f, run: x}]\n");
    assert_non_null(bh_editor_agent(&x.ed, "b"));
    assert_non_null(bh_editor_agent(&x.ed, "f"));
    assert_null(bh_editor_agent(&x.ed, "s"));
    struct bh_buf text = BH_BUF_INIT;
    assert_true(bh_editor_value_text(&x.ed, bh_node_get(bh_editor_agent(&x.ed, "f"), "run"), &text));
    T_STR(text.data, "x");
    bh_buf_fini(&text);
    edit_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_of_an_agent),           cmocka_unit_test(several_keys_at_one_place),
        cmocka_unit_test(changes_that_meet_are_refused), cmocka_unit_test(agents_are_put_behind_others),
        cmocka_unit_test(an_alias_is_left_alone),        cmocka_unit_test(agents_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
