/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes between the command of `run` and the gates of its outputs: the box is quiet first, then what was declared
 * is collected from it. A bad end of either is the verdict.
 */
#include "base/mem.h"
#include "workers/execution_priv.h"
#include "workers/witness.h"

static void *open_output(void *ctx, const char *root, const char *path, bh_box_opened_fn fn, void *arg)
{
    struct bh_execution *e = bh_x_check(ctx);
    return bh_box_call_open(e->box, root, path, fn, arg);
}

static void forget_opening(void *opening)
{
    bh_box_call_forget(opening);
}

/* A bad end of the collecting is the verdict. */
static void on_collected(void *arg, struct bh_verdict *verdict)
{
    struct bh_execution *e = bh_x_check(arg);
    bool good = verdict->outcome == BH_OUTCOME_SUCCEEDED;
    if (!good) {
        bh_x_end(e, verdict);
        return;
    }
    bh_collect_take(e->collect, &e->outputs, &e->n_outputs);
    bh_verdict_fini(verdict);
    bh_collect_free(BH_TAKE(e->collect));
    bh_x_prove_outputs(e);
}

static void on_closed(void *arg, int code, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    e->closing = NULL;
    if (code != 0 && bh_errno_is_loss(bh_err_errno(err))) {
        bh_verdict_lost(&verdict, "collecting");
        bh_x_end(e, &verdict);
        return;
    }
    if (code != 0) {
        bh_x_end_for_host(e, "closing the box for its outputs", code, err);
        return;
    }
    bh_x_enter(e, BH_X_COLLECTING, NULL);
    if (e->lease.n_outputs == 0) {
        bh_x_judge(e);
        return;
    }
    const struct bh_collect_spec spec = {
        .helper = e->host->helper,
        .run = e->run,
        .lease = &e->lease,
        .source = {.ctx = e, .open = open_output, .forget = forget_opening},
        .judge = e->witness ? bh_witness_judge : NULL,
        .judge_ctx = e->witness,
        .mask = e->mask,
    };
    e->collect = bh_collect_start(&spec, on_collected, e);
}

void bh_x_close(struct bh_execution *e)
{
    bh_x_enter(e, BH_X_CLOSING, e->lease.check.n_argv > 0 ? "checking" : "collecting");
    e->closing = bh_box_call_barrier(e->box, on_closed, e);
}

void bh_x_collected(struct bh_execution *e)
{
    struct bh_verdict verdict;
    if (bh_x_is_judged(e)) {
        bh_x_judge(e);
        return;
    }
    bh_verdict_succeeded(&verdict);
    bh_x_end(e, &verdict);
}
