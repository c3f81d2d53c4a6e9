/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes between the outputs of an attempt and its end. Without a check only its score is read, in its own box, in
 * which nothing runs any more:
 *
 *   bh_x_judge: SCORING --on_score--> ENDED
 *
 * With one its box ends first, and its folder stays for as long as the check needs it:
 *
 *   bh_x_judge: LEAVING --on_left--> JUDGING --on_judged--> ENDED
 */
#include "base/mem.h"
#include "base/text.h"
#include "workers/execution_priv.h"

bool bh_x_is_judged(const struct bh_execution *e)
{
    return e->lease.check.n_argv > 0 || e->lease.check.score;
}

void bh_x_drop_check(struct bh_execution *e)
{
    bh_score_forget(BH_TAKE(e->scoring));
    bh_judge_free(BH_TAKE(e->judge));
}

static void end_with_score(struct bh_execution *e, struct bh_score *score, struct bh_verdict *verdict)
{
    e->score = *score;
    *score = (struct bh_score){0};
    if (e->score.problem && !e->note)
        e->note = bh_asprintf("no score: %s", e->score.problem);
    bh_x_end(e, verdict);
}

static void on_score(void *arg, struct bh_score *score)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    e->scoring = NULL;
    bh_verdict_succeeded(&verdict);
    end_with_score(e, score, &verdict);
}

static void on_judged(void *arg, struct bh_judge_end *end)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict = end->verdict;
    end->verdict = (struct bh_verdict){0};
    e->result.cpu_ms += end->cpu_ms;
    if (end->max_rss_bytes > e->result.max_rss_bytes)
        e->result.max_rss_bytes = end->max_rss_bytes;
    end_with_score(e, &end->score, &verdict);
}

static void on_left(void *arg, int code, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    if (code != 0) {
        bh_x_end_for_host(e, "ending the attempt's box for its check", code, err);
        return;
    }
    bh_x_enter(e, BH_X_JUDGING, NULL);
    const struct bh_judge_spec spec = {
        .host = e->host,
        .run = e->run,
        .lease = &e->lease,
        .capture = e->capture,
        .outputs = e->outputs,
        .n_outputs = e->n_outputs,
    };
    e->judge = bh_judge_start(&spec, on_judged, e);
}

void bh_x_judge(struct bh_execution *e)
{
    if (e->lease.check.n_argv == 0) {
        bh_x_enter(e, BH_X_SCORING, NULL);
        e->scoring = bh_score_read(e->box, e->lease.check.score, on_score, e);
        return;
    }
    bh_x_enter(e, BH_X_LEAVING, NULL);
    bh_x_leave_own(e, on_left);
}
