/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of an execution: looked for when everything else is ready for `run`, in no other phase, and let go of as
 * soon as the command has them. What stays until the end is what they are masked by.
 */
#include "base/mem.h"
#include "workers/execution_priv.h"
#include "workers/mask.h"

/* A box in which nothing ran has nothing to show. */
static void end_without(struct bh_execution *e, int code, const struct bh_err *err)
{
    bool ran = e->lease.n_setup > 0 || e->lease.n_prepare > 0;
    if (!ran && e->lease.keep == BH_LEASE_KEEP_ON_FAILURE)
        e->lease.keep = BH_LEASE_KEEP_NEVER;
    bh_x_end_for_host(e, "getting its secrets", code, err);
}

static void on_found(void *arg, struct bh_secrets *found, int code, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    e->finding = NULL;
    if (!found) {
        end_without(e, code, err);
        return;
    }
    e->secrets = found;
    bh_mask_unref(e->mask);
    e->mask = bh_secrets_mask(found);
    bh_capture_mask(e->capture, e->mask);
    bh_x_start_run(e, e->empty_first);
}

bool bh_x_find_secrets(struct bh_execution *e, const char *const *empty)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    struct bh_verdict verdict;
    if (e->lease.n_secrets == 0 || e->secrets)
        return false;
    bh_x_enter(e, BH_X_SECRETS, NULL);
    e->empty_first = empty;
    int rc = bh_secrets_find(e->host->secrets, &e->lease, on_found, e, &e->finding, &err);
    if (rc == -BH_E_POLICY) {
        bh_verdict_failed(&verdict, BH_REASON_POLICY, "%s", bh_err_message(err));
        bh_x_end(e, &verdict);
    } else if (rc != 0) {
        end_without(e, rc, err);
    }
    return true;
}

const char *const *bh_x_secrets_env(const struct bh_execution *e, const char *const *env)
{
    return e->secrets ? bh_secrets_env(e->secrets, e->arena, env) : env;
}

void bh_x_forget_secrets(struct bh_execution *e)
{
    bh_secrets_give_up(BH_TAKE(e->finding));
    bh_secrets_free(BH_TAKE(e->secrets));
}

static void mask_one(const struct bh_execution *e, char **text)
{
    char *masked = bh_mask_text(e->mask, *text);
    if (!masked)
        return;
    bh_free(*text);
    *text = masked;
}

void bh_x_mask_result(const struct bh_execution *e, struct bh_result *r)
{
    mask_one(e, &r->detail);
    mask_one(e, &r->evidence);
}

void bh_x_drop_secrets(struct bh_execution *e)
{
    bh_x_forget_secrets(e);
    bh_mask_unref(BH_TAKE(e->mask));
}
