/* SPDX-License-Identifier: Apache-2.0 */
/* From memory to the store: the rows of what changed, in one transaction with the events that changed it. */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "scheduler/dispatch/attempts_detail.h"
#include "scheduler/dispatch/live_run_priv.h"
#include "scheduler/dispatch/run_rows.h"

void bh_live_run_mark(struct bh_dirty *d, size_t i)
{
    while (d->n_marked <= i)
        *BH_PUSH(d->marked, d->n_marked, d->cap) = false;
    if (d->marked[i])
        return;
    d->marked[i] = true;
    d->items = bh_realloc_array(d->items, d->len + 1, sizeof(*d->items));
    d->items[d->len++] = i;
}

void bh_live_run_unmark(struct bh_dirty *d)
{
    for (size_t i = 0; i < d->len; i++)
        d->marked[d->items[i]] = false;
    d->len = 0;
}

struct bh_val *bh_live_run_params(const struct bh_plan *plan)
{
    struct bh_val *v = bh_val_map();
    for (size_t i = 0; i < plan->n_params; i++)
        bh_val_set_str(v, plan->params[i].name, plan->params[i].value);
    return v;
}

struct rows {
    struct bh_agent_row *agents;
    struct bh_attempt_row *attempts;
    struct bh_artifact_row *artifacts;
    struct bh_attempt_scratch *scratch;
    char (*digests)[BH_DIGEST_TEXT];
    size_t n_artifacts, n_scratch;
};

static void rows_fini(struct rows *rows)
{
    for (size_t i = 0; i < rows->n_scratch; i++)
        bh_attempt_scratch_fini(&rows->scratch[i]);
    bh_free(rows->scratch);
    bh_free(rows->agents);
    bh_free(rows->attempts);
    bh_free(rows->artifacts);
    bh_free(rows->digests);
}

static struct rows rows_make(const struct bh_live_run *run)
{
    struct rows rows = {
        .agents = bh_calloc(run->nodes.len, sizeof(*rows.agents)),
        .attempts = bh_calloc(run->attempts.len, sizeof(*rows.attempts)),
        .n_artifacts = bh_registry_len(run->registry) - run->artifacts_stored,
        .n_scratch = run->attempts.len,
        .scratch = bh_calloc(run->attempts.len, sizeof(*rows.scratch)),
    };
    rows.artifacts = bh_calloc(rows.n_artifacts, sizeof(*rows.artifacts));
    rows.digests = bh_calloc(rows.n_artifacts, sizeof(*rows.digests));
    for (size_t i = 0; i < run->nodes.len; i++)
        rows.agents[i] = bh_row_of_node(run->id.s, run->plan, run->engine, run->nodes.items[i]);
    for (size_t i = 0; i < run->attempts.len; i++) {
        const struct bh_attempt *attempt = bh_engine_attempt(run->engine, run->attempts.items[i]);
        struct bh_attempt_facts facts = {.ended = bh_map_get(run->facts, attempt->instance.s)};
        rows.attempts[i] = bh_row_of_attempt(run->id.s, run->plan, attempt, &facts, &rows.scratch[i]);
    }
    for (size_t i = 0; i < rows.n_artifacts; i++)
        rows.artifacts[i] =
            bh_row_of_artifact(run->id.s, bh_registry_at(run->registry, run->artifacts_stored + i), rows.digests[i]);
    return rows;
}

char *bh_live_run_attempts_detail(const struct bh_live_run *run, size_t node, const struct bh_attempt **ret_blamed)
{
    return bh_attempts_detail(run->plan, run->engine, run->facts, node, ret_blamed);
}

/* The whole of what several executions came to, with the exit status of the one that is blamed. */
static struct bh_val *facts_of_attempts(const struct bh_live_run *run, size_t node)
{
    const struct bh_attempt *blamed;
    BH_CLEANUP_FREE char *detail = bh_attempts_detail(run->plan, run->engine, run->facts, node, &blamed);
    const struct bh_val *facts = blamed ? bh_map_get(run->facts, blamed->instance.s) : NULL;
    struct bh_val *v = facts ? bh_val_copy(facts) : bh_val_map();
    bh_val_set_str(v, "cause", blamed ? bh_val_str_of(facts, "detail") : NULL);
    if (blamed && blamed->kind != BH_EXECUTION_RUN)
        bh_val_set_int(v, "attempt", 0);
    else if (blamed && run->plan->agents[node].doc->attempts.count > 1)
        bh_val_set_int(v, "attempt", blamed->attempt);
    bh_val_set_str(v, "detail", detail);
    return v;
}

static const struct bh_val *facts_of_failed_node(const struct bh_live_run *run, struct bh_val **ret_own)
{
    size_t node = SIZE_MAX;
    (void)bh_engine_failure(run->engine, &node);
    if (node >= run->plan->n_agents)
        return bh_map_get(run->facts, BH_FACTS_OF_FREEZE);
    BH_CLEANUP_FREE char *refused = bh_live_run_gate_detail(run, node);
    if (refused) {
        *ret_own = bh_val_map();
        bh_val_set_str(*ret_own, "detail", refused);
        return *ret_own;
    }
    if (run->plan->agents[node].forks)
        return *ret_own = facts_of_attempts(run, node);
    for (size_t i = bh_engine_n_attempts(run->engine); i > 0; i--) {
        const struct bh_attempt *attempt = bh_engine_attempt(run->engine, i - 1);
        if (attempt->node == node)
            return bh_map_get(run->facts, attempt->instance.s);
    }
    return NULL;
}

static char *failure_text(const struct bh_live_run *run)
{
    BH_CLEANUP_VAL struct bh_val *own = NULL;
    BH_CLEANUP_VAL struct bh_val *failure = bh_failure_of_run(run->plan, run->engine, facts_of_failed_node(run, &own));
    return failure ? bh_live_run_json(failure) : NULL;
}

static void tell_watch(struct bh_live_run *run)
{
    for (size_t i = 0; i < run->attempts.len && run->watch.attempt; i++)
        run->watch.attempt(run->watch.arg, run->attempts.items[i]);
    for (size_t i = 0; i < run->nodes.len && run->watch.node; i++)
        run->watch.node(run->watch.arg, run->nodes.items[i]);
}

static void committed(struct bh_live_run *run)
{
    for (size_t i = 0; i < run->n_pending; i++)
        bh_free(run->pending[i].payload);
    run->n_pending = 0;
    run->artifacts_stored = bh_registry_len(run->registry);
    run->effects_durable = run->effects.len;
    run->run_dirty = false;
    tell_watch(run);
    bh_live_run_unmark(&run->nodes);
    bh_live_run_unmark(&run->attempts);
}

static int commit_batch(struct bh_live_run *run, const struct bh_store_event *events, const struct rows *rows,
                        struct bh_err **err)
{
    BH_CLEANUP_FREE char *failure = run->run_dirty ? failure_text(run) : NULL;
    struct bh_run_row row = {
        .run = run->id.s,
        .name = run->name,
        .status = (char *)(uintptr_t)bh_run_status_text(bh_engine_status(run->engine)),
        .file = run->file,
        .created = run->created,
        .started = run->started,
        .ended = run->ended,
        .failure = failure,
        .limits = run->limits,
    };
    BH_CLEANUP_VAL struct bh_val *params = bh_live_run_params(run->plan);
    BH_CLEANUP_FREE char *params_text = run->run_dirty ? bh_live_run_json(params) : NULL;
    row.params = params_text;
    struct bh_store_batch batch = {
        .run = run->id.s,
        .events = events,
        .n_events = run->n_pending,
        .run_row = run->run_dirty ? &row : NULL,
        .agents = rows->agents,
        .n_agents = run->nodes.len,
        .attempts = rows->attempts,
        .n_attempts = run->attempts.len,
        .artifacts = rows->artifacts,
        .n_artifacts = rows->n_artifacts,
    };
    return bh_store_commit(run->store, &batch, err);
}

int bh_live_run_commit(struct bh_live_run *run, struct bh_err **err)
{
    if (!bh_live_run_pending(run))
        return 0;
    struct rows rows = rows_make(run);
    BH_CLEANUP_FREE struct bh_store_event *events = bh_calloc(run->n_pending, sizeof(*events));
    for (size_t i = 0; i < run->n_pending; i++)
        events[i] = (struct bh_store_event){.kind = bh_event_kind_text(run->pending[i].kind),
                                            .at = run->pending[i].at,
                                            .payload = run->pending[i].payload};
    int rc = commit_batch(run, events, &rows, err);
    rows_fini(&rows);
    if (rc == 0)
        committed(run);
    return rc;
}

bool bh_live_run_pending(const struct bh_live_run *run)
{
    return run->n_pending > 0;
}

struct bh_effects bh_live_run_take_effects(struct bh_live_run *run)
{
    struct bh_effects out = {0};
    for (size_t i = 0; i < run->effects_durable; i++)
        *BH_PUSH(out.items, out.len, out.cap) = run->effects.items[i];
    size_t rest = run->effects.len - run->effects_durable;
    if (rest > 0)
        memmove(run->effects.items, run->effects.items + run->effects_durable, rest * sizeof(*run->effects.items));
    run->effects.len = rest;
    run->effects_durable = 0;
    return out;
}

int bh_live_run_commit_new(struct bh_live_run *run, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *params = bh_live_run_params(run->plan);
    BH_CLEANUP_FREE char *params_text = bh_live_run_json(params);
    BH_CLEANUP_FREE char *submission_text = bh_live_run_json(run->submission);
    struct bh_run_row row = {
        .run = run->id.s,
        .name = run->name,
        .status = (char *)(uintptr_t)bh_run_status_text(BH_RUN_QUEUED),
        .file = run->file,
        .created = run->created,
        .params = params_text,
        .document = run->document,
        .submission = submission_text,
    };
    size_t n = run->plan->n_agents;
    BH_CLEANUP_FREE struct bh_agent_row *agents = bh_calloc(n, sizeof(*agents));
    for (size_t i = 0; i < n; i++)
        agents[i] = bh_row_of_node(run->id.s, run->plan, run->engine, i);
    struct rows rows = rows_make(run);
    struct bh_store_batch batch = {
        .run = run->id.s,
        .run_row = &row,
        .agents = agents,
        .n_agents = n,
        .artifacts = rows.artifacts,
        .n_artifacts = rows.n_artifacts,
    };
    int rc = bh_store_commit(run->store, &batch, err);
    rows_fini(&rows);
    if (rc == 0)
        run->artifacts_stored = bh_registry_len(run->registry);
    return rc;
}
