/* SPDX-License-Identifier: Apache-2.0 */
#include "trust_rows.h"

#include "base/buf.h"
#include "base/mem.h"
#include "policies/trust.h"
#include "topologies/plan.h"

static void add_errors(const struct bh_errlist *errors, struct bh_buf *out)
{
    for (size_t i = 0; i < errors->len; i++) {
        const char *detail = bh_err_get_detail(errors->items[i]);
        bh_buf_addf(out, "%s: %s%s%s\n", bh_code_info((int)bh_err_code(errors->items[i]))->text,
                    bh_err_message(errors->items[i]), detail ? " | " : "", detail ? detail : "");
        assert_int_not_equal(bh_err_line(errors->items[i]), 0);
    }
}

static void add_labels(const struct bh_plan *plan, struct bh_buf *out)
{
    for (size_t i = 0; i < plan->n_agents; i++) {
        const struct bh_plan_agent *a = &plan->agents[i];
        assert_int_equal(a->label == BH_TAINTED, a->why != NULL);
        if (a->why)
            bh_buf_addf(out, "%s=%s;", a->name, a->why);
        if (a->private_why)
            bh_buf_addf(out, "%s~%s;", a->name, a->private_why);
        assert_true(!a->private_why || plan->boxes[a->box].private_);
    }
}

static char *verdict(const char *yaml, const struct bh_policy *policy)
{
    struct bh_errlist errors = {0};
    BH_CLEANUP_PIPELINE struct bh_pipeline *pipeline = NULL;
    BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
    const struct bh_plan_options options = {.lint = true};
    struct bh_buf out = BH_BUF_INIT;
    int rc = bh_pipeline_load("p.yaml", yaml, strlen(yaml), &pipeline, &errors);
    if (rc == 0)
        rc = bh_plan_make(pipeline, &options, &plan, &errors);
    if (rc == 0)
        rc = bh_trust_check(plan, policy, &errors);
    assert_int_equal(rc == 0, errors.len == 0);
    if (rc != 0)
        add_errors(&errors, &out);
    else
        add_labels(plan, &out);
    bh_errlist_fini(&errors);
    return bh_buf_take(&out);
}

void trust_rows_check(const struct trust_row *rows, size_t n, const struct bh_policy *policy)
{
    size_t failed = 0;
    for (size_t i = 0; i < n; i++) {
        BH_CLEANUP_FREE char *yaml = bh_asprintf("version: 1\nname: t\n%s", rows[i].yaml);
        BH_CLEANUP_FREE char *got = verdict(yaml, policy);
        if (strcmp(got, rows[i].want) == 0)
            continue;
        print_error("%s:\n got  %s\n want %s\n%s\n", rows[i].what, got, rows[i].want, yaml);
        failed++;
    }
    if (failed > 0)
        fail_msg("%zu of %zu", failed, n);
}
