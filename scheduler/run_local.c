/* SPDX-License-Identifier: Apache-2.0 */
/* The two entries, in which order each goes through what the run is made of: a new run, and one that is taken up. */
#include "scheduler/run_local.h"

#include "base/mem.h"
#include "scheduler/dispatch/lease_secrets.h"
#include "scheduler/dispatch/submission.h"
#include "scheduler/run_priv.h"
#include "scheduler/sweep.h"

/* --- a new run --- */

static struct bh_val *options_to_val(const struct bh_run_options *options)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_int(v, "max_parallel", options->max_parallel);
    bh_val_set_bool(v, "keep_going", options->keep_going);
    struct bh_val *only = bh_val_set(v, "only", bh_val_list());
    for (const char *const *name = options->only; name && *name; name++)
        bh_val_add(only, bh_val_str(*name));
    return v;
}

static int submit(struct bh_session *s, const struct bh_plan *plan, struct bh_val **ret, struct bh_errlist *errors)
{
    const struct bh_run_options *o = s->options;
    BH_CLEANUP_FREE char *dir = bh_home_path(o->home, "cas");
    BH_CLEANUP_FREE char *tmp = bh_home_run_path(o->home, s->id.s, "tmp");
    struct bh_cas *cas = NULL;
    struct bh_err *err = NULL;
    int rc = bh_cas_open(dir, tmp, &cas, &err);
    if (rc != 0)
        return bh_run_add_error(errors, rc, err);
    rc = bh_submission_make(plan, o->file, o->sources, o->n_sources, true, cas, ret, errors);
    if (rc == 0) {
        rc = bh_cas_sync(cas, &err);
        rc = bh_run_add_error(errors, rc, err);
    }
    bh_cas_close(cas);
    if (rc == 0)
        bh_val_set(*ret, "options", options_to_val(o));
    if (rc == 0)
        rc = bh_images_import(plan, o->file, &s->images, *ret, errors);
    bh_session_forget_images(s);
    return rc;
}

/* Takes pipeline and plan. */
static int run_planned(struct bh_session *s, struct bh_pipeline *pipeline, struct bh_plan *plan,
                       struct bh_run_outcome *ret, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    BH_CLEANUP_PIPELINE struct bh_pipeline *own_pipeline = pipeline;
    BH_CLEANUP_PLAN struct bh_plan *own_plan = plan;
    BH_CLEANUP_VAL struct bh_val *submission = NULL;
    int rc = bh_session_take(s, &err);
    if (rc != 0)
        return bh_run_add_error(errors, rc, err);
    rc = bh_session_prepare_images(s, plan, &err);
    if (rc == 0)
        rc = bh_session_open_boxes(s, &err);
    if (rc != 0)
        return bh_run_add_error(errors, rc, err);
    rc = bh_session_check_limits(s, plan, errors);
    if (rc == 0)
        rc = submit(s, plan, &submission, errors);
    if (rc == 0)
        rc = bh_lease_secrets_check(plan, s->options->file, submission, errors);
    if (rc == 0)
        rc = bh_run_follow_known_taint(s, own_pipeline, &own_plan, submission, errors);
    if (rc != 0)
        return rc;
    struct bh_live_run_new what = {
        .store = s->store,
        .run = s->id,
        .file = s->options->file,
        .pipeline = BH_TAKE(own_pipeline),
        .plan = BH_TAKE(own_plan),
        .text = s->options->text,
        .text_len = s->options->text_len,
        .submission = BH_TAKE(submission),
    };
    rc = bh_live_run_create(&what, &s->run, &err);
    if (rc == 0)
        rc = bh_session_drive(s, &err);
    if (rc == 0)
        rc = bh_session_finish(s, ret, &err);
    return bh_run_add_error(errors, rc, err);
}

int bh_run_new(const struct bh_run_options *options, struct bh_run_outcome *ret, struct bh_errlist *errors)
{
    struct bh_pipeline *pipeline = NULL;
    struct bh_plan *plan = NULL;
    struct bh_session s;
    bh_session_init(&s, options, bh_run_id_new());
    int rc = bh_policy_load(NULL, &s.policy, errors);
    if (rc == 0)
        rc = bh_run_plan_document(options, &s.policy, &pipeline, &plan, errors);
    if (rc != 0) {
        bh_policy_fini(&s.policy);
        return rc;
    }
    rc = run_planned(&s, pipeline, plan, ret, errors);
    bool recorded = s.run != NULL;
    bh_session_fini(&s);
    if (!recorded)
        bh_sweep_unrecorded_run(options->home, s.id.s);
    return rc;
}

/* --- one that is taken up --- */

static int check_same_document(const struct bh_session *s, struct bh_err **err)
{
    const struct bh_run_options *o = s->options;
    const char *have = bh_live_run_document(s->run);
    if (!o->text || (strlen(have) == o->text_len && memcmp(have, o->text, o->text_len) == 0))
        return 0;
    int rc = bh_err_set(err, BH_E_USAGE, 0, "'%s' differs from the document of run '%s'", o->file, s->id.s);
    bh_err_hint(err, "leave the file out to go on with the run as it was submitted, or start a new run");
    return rc;
}

static int reclaim(const struct bh_session *s, struct bh_err **err)
{
    size_t n;
    BH_CLEANUP_FREE char *dir = bh_home_run_path(s->options->home, s->id.s, NULL);
    BH_CLEANUP_FREE const char **layers = bh_sweep_layers_in_use(s->options->home, s->run, &n);
    return bh_boxes_reclaim(dir, layers, n, err);
}

static int resume(struct bh_session *s, const char *run, struct bh_run_outcome *ret, struct bh_errlist *errors,
                  struct bh_err **err)
{
    int rc = bh_policy_load(NULL, &s->policy, errors);
    if (rc == 0)
        rc = bh_session_take(s, err);
    if (rc == 0)
        rc = bh_live_run_load(s->store, run, &s->run, err);
    if (rc == 0)
        rc = check_same_document(s, err);
    if (rc == 0)
        rc = reclaim(s, err);
    if (rc != 0)
        return rc;
    if (bh_engine_status(bh_live_run_engine(s->run)) == BH_RUN_SUCCEEDED) {
        *ret = (struct bh_run_outcome){.run = s->id, .status = BH_RUN_SUCCEEDED};
        bh_sweep_ended_run(s->options->home, s->id.s, true); /* its last owner may have died before it could */
        return 0;
    }
    const struct bh_plan *plan = bh_live_run_plan(s->run);
    rc = bh_policy_check(&s->policy, plan, errors);
    if (rc == 0)
        rc = bh_session_make_folders(s, err);
    if (rc == 0)
        rc = bh_session_prepare_images(s, plan, err);
    if (rc == 0)
        rc = bh_session_open_boxes(s, err);
    if (rc == 0)
        rc = bh_session_check_limits(s, plan, errors);
    if (rc == 0)
        rc = bh_images_restore(plan->pipeline->file, &s->images, bh_live_run_submission(s->run), err);
    bh_session_forget_images(s);
    if (rc == 0)
        rc = bh_session_drive(s, err);
    return rc == 0 ? bh_session_finish(s, ret, err) : rc;
}

int bh_run_resume(const struct bh_run_options *options, const char *run, struct bh_run_outcome *ret,
                  struct bh_errlist *errors)
{
    struct bh_session s;
    struct bh_run_id id = {0};
    struct bh_err *err = NULL;
    snprintf(id.s, sizeof(id.s), "%s", run);
    bh_session_init(&s, options, id);
    s.resumed = true;
    int rc = resume(&s, run, ret, errors, &err);
    bh_session_fini(&s);
    return bh_run_add_error(errors, rc, err);
}
