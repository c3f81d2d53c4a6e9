/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_support.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

static void print_errors(const struct bh_errlist *errors)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < errors->len; i++)
        bh_err_format(errors->items[i], &text);
    print_error("%s", text.data);
}

void plan_make(struct planned *x, const char *yaml, const char *const *params)
{
    *x = (struct planned){0};
    if (bh_pipeline_load("p.yaml", yaml, strlen(yaml), &x->pipeline, &x->errors) < 0) {
        print_errors(&x->errors);
        fail_msg("the document does not load:\n%s", yaml);
    }
    struct bh_param_value given[16];
    struct bh_plan_options options = {.params = given, .lint = !params};
    for (; params && *params; params += 2)
        given[options.n_params++] = (struct bh_param_value){params[0], params[1]};
    x->rc = bh_plan_make(x->pipeline, &options, &x->plan, &x->errors);
    assert_int_equal(x->rc == 0, x->plan != NULL);
    assert_int_equal(x->rc == 0, x->errors.len == 0);
}

void plan_free(struct planned *x)
{
    bh_plan_free(x->plan);
    bh_pipeline_free(x->pipeline);
    bh_errlist_fini(&x->errors);
}

void plan_good(struct planned *x, const char *yaml)
{
    plan_make(x, yaml, NULL);
    if (x->plan)
        return;
    print_errors(&x->errors);
    fail_msg("no plan of:\n%s", yaml);
}

bool plan_has_agent(const struct planned *x, const char *name)
{
    for (size_t i = 0; i < x->plan->n_agents; i++) {
        if (strcmp(x->plan->agents[i].name, name) == 0)
            return true;
    }
    return false;
}

const struct bh_plan_agent *plan_agent(const struct planned *x, const char *name)
{
    for (size_t i = 0; i < x->plan->n_agents; i++) {
        if (strcmp(x->plan->agents[i].name, name) == 0)
            return &x->plan->agents[i];
    }
    fail_msg("the plan has no agent '%s'", name);
    return NULL;
}

const struct bh_plan_box *plan_box(const struct planned *x, const char *id)
{
    for (size_t i = 0; i < x->plan->n_boxes; i++) {
        if (strcmp(x->plan->boxes[i].id, id) == 0)
            return &x->plan->boxes[i];
    }
    fail_msg("the plan has no box '%s'", id);
    return NULL;
}

const char *plan_box_of(const struct planned *x, const char *agent)
{
    return x->plan->boxes[plan_agent(x, agent)->box].id;
}

static void add_word(struct bh_buf *out, const char *word)
{
    bh_buf_addf(out, "%s%s", out->len ? " " : "", word);
}

char *plan_after(const struct planned *x, const char *agent)
{
    static const char *const kinds[] = {"barrier", "needs", "data", "optional"};
    const struct bh_plan_agent *a = plan_agent(x, agent);
    struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < a->n_after; i++) {
        add_word(&out, x->plan->agents[a->after[i].agent].name);
        bh_buf_addf(&out, ":%s", kinds[a->after[i].kind]);
    }
    return bh_buf_take(&out);
}

char *plan_inputs(const struct planned *x, const char *agent)
{
    const struct bh_plan_agent *a = plan_agent(x, agent);
    struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < a->n_inputs; i++)
        add_word(&out, a->inputs[i].name);
    return bh_buf_take(&out);
}

char *plan_left_out(const struct planned *x, const char *agent)
{
    const struct bh_plan_agent *a = plan_agent(x, agent);
    struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < a->n_left_out; i++)
        add_word(&out, a->left_out[i]);
    return bh_buf_take(&out);
}

char *plan_boxes(const struct planned *x)
{
    struct bh_buf out = BH_BUF_INIT;
    for (size_t b = 0; b < x->plan->n_boxes; b++) {
        const struct bh_plan_box *box = &x->plan->boxes[b];
        bh_buf_addf(&out, "%s:", box->id);
        for (size_t i = 0; i < box->n_agents; i++)
            bh_buf_addf(&out, " %s", x->plan->agents[box->agents[i]].name);
        bh_buf_addc(&out, '\n');
    }
    return bh_buf_take(&out);
}

char *plan_order(const struct planned *x)
{
    struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < x->plan->n_agents; i++)
        add_word(&out, x->plan->agents[x->plan->order[i]].name);
    return bh_buf_take(&out);
}

void plan_must_fail(const struct bad_plan *b, const char *const *params)
{
    struct planned x;
    plan_make(&x, b->yaml, params);
    if (x.errors.len != 1) {
        print_errors(&x.errors);
        fail_msg("%zu errors instead of one (%s) of:\n%s", x.errors.len, b->message, b->yaml);
    }
    const struct bh_err *err = x.errors.items[0];
    if (strcmp(bh_err_message(err), b->message) != 0 || bh_err_code(err) != b->code) {
        print_errors(&x.errors);
        fail_msg("wanted (%s) '%s' of:\n%s", bh_code_info((int)b->code)->text, b->message, b->yaml);
    }
    assert_int_equal(x.rc, -(int)b->code);
    T_STR(bh_err_file(err), "p.yaml");
    if (bh_err_line(err) != b->line || bh_err_column(err) != b->column)
        fail_msg("at %d:%d, not %d:%d: %s", bh_err_line(err), bh_err_column(err), b->line, b->column, b->message);
    T_STR(bh_err_path(err), b->path);
    if (b->detail)
        T_STR(bh_err_get_detail(err), b->detail);
    if (b->hint)
        T_STR(bh_err_get_hint(err), b->hint);
    plan_free(&x);
}

const char *plan_warning(const struct planned *x, enum bh_code code)
{
    const char *message = NULL;
    for (size_t i = 0; i < x->plan->n_warnings; i++) {
        if (bh_err_code(x->plan->warnings[i]) != code)
            continue;
        assert_null(message);
        message = bh_err_message(x->plan->warnings[i]);
    }
    return message;
}
