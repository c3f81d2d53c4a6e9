/* SPDX-License-Identifier: Apache-2.0 */
/* Counts how the attempts of an agent ended. Only the newest try of each counts; text of agents is not looked at. */
#include "scheduler/dispatch/attempts_detail.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "scheduler/dispatch/live_run_priv.h"

struct tally {
    const struct bh_attempt **newest; /* by number of the attempt; NULL: never started */
    const struct bh_attempt *once;    /* the newest setup or preparation that failed for good */
    int64_t passed;
};

static struct tally tally_of(const struct bh_plan *plan, const struct bh_engine *engine, size_t node)
{
    size_t n = (size_t)plan->agents[node].doc->attempts.count;
    struct tally t = {.newest = bh_calloc(n + 1, sizeof(*t.newest))};
    for (size_t i = 0; i < bh_engine_n_attempts(engine); i++) {
        const struct bh_attempt *a = bh_engine_attempt(engine, i);
        if (a->node != node)
            continue;
        if (a->kind == BH_EXECUTION_RUN)
            t.newest[a->attempt] = a;
        else
            t.once = a->state == BH_ATTEMPT_SUCCEEDED ? NULL : a;
    }
    for (size_t k = 1; k <= n; k++)
        t.passed += t.newest[k] && t.newest[k]->state == BH_ATTEMPT_SUCCEEDED;
    return t;
}

/* "3 by check, 2 by timeout(run)", in the order in which they first come. */
static void add_reasons(const struct tally *t, size_t n, struct bh_buf *out)
{
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    const char *between = " (";
    for (size_t i = 1; i <= n; i++) {
        const struct bh_attempt *a = t->newest[i];
        if (!a || a->reason == BH_REASON_NONE || !bh_map_put(seen, bh_reason_text(a->reason, a->phase), seen))
            continue;
        size_t alike = 0;
        for (size_t k = i; k <= n; k++)
            alike += t->newest[k] && t->newest[k]->reason == a->reason && t->newest[k]->phase == a->phase;
        bh_buf_addf(out, "%s%zu by %s", between, alike, bh_reason_text(a->reason, a->phase));
        between = ", ";
    }
    if (*between == ',')
        bh_buf_addc(out, ')');
}

static const char *detail_of(const struct bh_map *facts, const struct bh_attempt *a)
{
    return bh_val_str_of(bh_map_get(facts, a->instance.s), "detail");
}

static const struct bh_attempt *first_failed(const struct tally *t, size_t n)
{
    for (size_t i = 1; i <= n; i++) {
        if (t->newest[i] && t->newest[i]->state != BH_ATTEMPT_SUCCEEDED && t->newest[i]->state != BH_ATTEMPT_CANCELLED)
            return t->newest[i];
    }
    return NULL;
}

/* What came of publishing the choice, where that is what failed. */
static const char *refused(const struct bh_map *facts, const struct tally *t, size_t n)
{
    for (size_t i = 1; i <= n; i++) {
        if (!t->newest[i])
            continue;
        BH_CLEANUP_FREE char *key = bh_asprintf(BH_FACTS_OF_CHOICE "%s", t->newest[i]->instance.s);
        const char *detail = bh_val_str_of(bh_map_get(facts, key), "detail");
        if (detail)
            return detail;
    }
    return NULL;
}

static void add_counts(const struct bh_attempts *doc, const struct tally *t, struct bh_buf *out)
{
    int64_t n = doc->count;
    if (t->passed == 0)
        bh_buf_addf(out, n == 1 ? "the attempt did not pass" : "none of %" PRId64 " attempts passed", n);
    else if (t->passed < doc->min_success)
        bh_buf_addf(out, "%" PRId64 " of %" PRId64 " attempts passed, %" PRId64 " had to", t->passed, n,
                    doc->min_success);
    else if (t->passed == 1)
        bh_buf_addf(out, "the attempt that passed left no one finite decimal in '%s'",
                    doc->score.s ? doc->score.s : "");
    else
        bh_buf_addf(out, "none of the %" PRId64 " attempts that passed left one finite decimal in '%s'", t->passed,
                    doc->score.s ? doc->score.s : "");
}

/* Enough have passed, and none of them has what it would be chosen by: those that failed are not to blame. */
static bool lacks_score(const struct bh_attempts *doc, const struct tally *t)
{
    return !t->once && t->passed > 0 && t->passed >= doc->min_success;
}

char *bh_attempts_detail(const struct bh_plan *plan, const struct bh_engine *engine, const struct bh_map *facts,
                         size_t node, const struct bh_attempt **ret_blamed)
{
    const struct bh_attempts *doc = &plan->agents[node].doc->attempts;
    size_t n = (size_t)doc->count;
    struct tally t = tally_of(plan, engine, node);
    struct bh_buf out = BH_BUF_INIT;
    const struct bh_attempt *blamed = t.once ? t.once : first_failed(&t, n);
    const char *choice = refused(facts, &t, n);
    blamed = lacks_score(doc, &t) ? NULL : blamed;
    const char *detail = blamed ? detail_of(facts, blamed) : NULL;
    if (bh_engine_node(engine, node)->reason == BH_REASON_COLLISION && choice) {
        bh_buf_adds(&out, choice);
        blamed = NULL;
    } else if (t.once && detail && plan->agents[node].topology != BH_TOPOLOGY_PER_ATTEMPT) {
        bh_buf_adds(&out, detail);
    } else if (t.once) {
        bh_buf_addf(&out, "its %s failed, so no attempt could start from it%s%s",
                    t.once->kind == BH_EXECUTION_SETUP ? "setup" : "preparation", detail ? ": " : "",
                    detail ? detail : "");
    } else if (n == 1 && blamed && detail) {
        bh_buf_adds(&out, detail);
    } else {
        add_counts(doc, &t, &out);
        if (n > 1)
            add_reasons(&t, n, &out);
        if (blamed && detail)
            bh_buf_addf(&out, "; attempt %d: %s", blamed->attempt, detail);
    }
    bh_free(t.newest);
    *ret_blamed = blamed;
    return bh_buf_take(&out);
}
