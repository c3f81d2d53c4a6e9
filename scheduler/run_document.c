/* SPDX-License-Identifier: Apache-2.0 */
/* From the text of a new run to a plan that may run: what is wrong is said before anything is made. */
#include "scheduler/run_priv.h"

#include "base/mem.h"
#include "base/text.h"
#include "policies/trust.h"
#include "scheduler/dispatch/known_taint.h"
#include "scheduler/dispatch/submission.h"

int bh_run_add_error(struct bh_errlist *errors, int rc, struct bh_err *err)
{
    if (err)
        bh_errlist_add(errors, err);
    return rc;
}

static int check_only(const struct bh_run_options *o, const struct bh_plan *plan, struct bh_errlist *errors)
{
    BH_CLEANUP_FREE const char **names = bh_calloc(plan->n_agents + 1, sizeof(*names));
    int rc = 0;
    for (size_t i = 0; i < plan->n_agents; i++)
        names[i] = plan->agents[i].name;
    for (const char *const *name = o->only; name && *name; name++) {
        bool found = false;
        for (size_t i = 0; i < plan->n_agents; i++)
            found = found || bh_streq(names[i], *name);
        if (found)
            continue;
        struct bh_err *err = NULL;
        const char *near = bh_nearest(*name, names, plan->n_agents);
        rc = bh_err_set(&err, BH_E_USAGE, 0, "the pipeline has no agent '%s'", *name);
        if (near)
            bh_err_hint(&err, "did you mean '%s'?", near);
        bh_errlist_add(errors, err);
    }
    return rc;
}

/* After all that may be wrong with the document itself. */
static int check_grant(const struct bh_run_options *o, const struct bh_plan *plan, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    if (plan->n_asks == 0)
        return 0;
    int rc = o->grant ? o->grant(o->grant_arg, plan, &err)
                      : bh_err_set(&err, BH_E_POLICY, 0, "the pipeline asks for '%s'", plan->asks[0].s);
    if (err)
        bh_err_at(&err, plan->pipeline->file, plan->asks[0].pos.line, plan->asks[0].pos.column, NULL);
    return bh_run_add_error(errors, rc, err);
}

int bh_run_plan_document(const struct bh_run_options *o, const struct bh_policy *policy,
                         struct bh_pipeline **ret_pipeline, struct bh_plan **ret_plan, struct bh_errlist *errors)
{
    BH_CLEANUP_PIPELINE struct bh_pipeline *pipeline = NULL;
    BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
    struct bh_plan_options options = {.params = o->params, .n_params = o->n_params};
    int rc = bh_pipeline_load(o->file, o->text, o->text_len, &pipeline, errors);
    if (rc == 0)
        rc = bh_plan_make(pipeline, &options, &plan, errors);
    if (rc == 0)
        rc = bh_trust_check(plan, policy, errors);
    if (rc == 0)
        rc = bh_plan_check_supported(plan, errors);
    if (rc == 0)
        rc = check_only(o, plan, errors);
    if (rc == 0)
        rc = bh_policy_check(policy, plan, errors);
    if (rc == 0)
        rc = check_grant(o, plan, errors);
    if (rc == 0)
        rc = bh_submission_make(plan, o->file, o->sources, o->n_sources, true, NULL, NULL, errors);
    if (rc == 0) {
        *ret_pipeline = BH_TAKE(pipeline);
        *ret_plan = BH_TAKE(plan);
    }
    return rc;
}

int bh_run_follow_known_taint(const struct bh_session *s, const struct bh_pipeline *pipeline, struct bh_plan **plan,
                              struct bh_val *submission, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    bool any = false;
    int rc = bh_known_taint_find(s->store, submission, &any, &err);
    if (rc != 0 || !any)
        return bh_run_add_error(errors, rc, err);
    struct bh_plan_options options = {.params = s->options->params, .n_params = s->options->n_params};
    BH_CLEANUP_PLAN struct bh_plan *again = NULL;
    bh_known_taint_options(submission, &options);
    rc = bh_plan_make(pipeline, &options, &again, errors);
    if (rc == 0)
        rc = bh_trust_check(again, &s->policy, errors);
    bh_known_taint_options_fini(&options);
    if (rc != 0) {
        bh_known_taint_tell(submission, errors);
        return rc;
    }
    bh_plan_free(*plan);
    *plan = BH_TAKE(again);
    return 0;
}
