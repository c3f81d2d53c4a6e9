/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State first, then the store, then the world. What was applied and is not yet durable is kept in `pending` (events),
 * in the dirty lists (rows) and in `effects`; bh_live_run_commit empties the first two, and only what was committed is
 * ever handed out.
 */
#include "artifact-bus/provenance.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "scheduler/dispatch/event_codec.h"
#include "scheduler/dispatch/live_run_priv.h"

char *bh_live_run_json(const struct bh_val *v)
{
    struct bh_buf json = BH_BUF_INIT;
    bh_json_format(v, &json);
    return bh_buf_take(&json);
}

/* What attempts start from, as it was made last: borrowed from `facts`, where nothing is replaced. */
static void remember_made(struct bh_live_run *run, const struct bh_event *event)
{
    const struct bh_attempt *a = bh_engine_find(run->engine, event->instance);
    const struct bh_val *facts = bh_map_get(run->facts, event->instance.s);
    if (event->state != BH_ATTEMPT_SUCCEEDED || a->kind == BH_EXECUTION_RUN)
        return;
    if (a->kind == BH_EXECUTION_SETUP)
        run->made[a->node].setup = facts;
    else
        run->made[a->node].prepare = facts;
}

void bh_live_run_remember(struct bh_live_run *run, const struct bh_event *event, const struct bh_val *payload)
{
    if (event->kind == BH_EV_ENDED) {
        bh_map_put(run->facts, event->instance.s, bh_val_copy(payload));
        remember_made(run, event);
    }
    if (event->kind == BH_EV_PUBLISHED) {
        BH_CLEANUP_FREE char *key = bh_asprintf(BH_FACTS_OF_CHOICE "%s", event->instance.s);
        bh_map_put(run->facts, key, bh_val_copy(payload));
    }
    if (event->kind == BH_EV_START || event->kind == BH_EV_OWNER) {
        bh_free(run->limits);
        run->limits = bh_strdup(bh_val_str_of(payload, "limits"));
        bh_val_free(run->ranges);
        run->ranges = bh_val_copy(bh_val_get(payload, "ranges"));
        run->run_dirty = true;
    }
    if (event->kind == BH_EV_GATE_ASKED || event->kind == BH_EV_GATE_DECIDED || event->kind == BH_EV_GATE_EXPIRED)
        bh_live_run_remember_gate(run, event, payload);
    if (event->kind == BH_EV_FREEZE_FAILED && event->reason != BH_REASON_NONE)
        bh_map_put(run->facts, BH_FACTS_OF_FREEZE, bh_val_copy(payload));
}

/* Folds the step's changes and effects into what is pending. */
void bh_live_run_absorb(struct bh_live_run *run, struct bh_effects *effects, struct bh_wall now)
{
    struct bh_changes c = bh_engine_changes(run->engine);
    for (size_t i = 0; i < c.n_nodes; i++)
        bh_live_run_mark(&run->nodes, c.nodes[i]);
    for (size_t i = 0; i < c.n_attempts; i++)
        bh_live_run_mark(&run->attempts, c.attempts[i]);
    run->run_dirty = run->run_dirty || c.run;
    enum bh_run_status status = bh_engine_status(run->engine);
    if (status == BH_RUN_RUNNING && run->started.us == 0)
        run->started = now;
    bool over = status == BH_RUN_SUCCEEDED || status == BH_RUN_FAILED || status == BH_RUN_CANCELLED;
    if (c.run)
        run->ended = over ? now : (struct bh_wall){0};
    for (size_t i = 0; i < effects->len; i++)
        *BH_PUSH(run->effects.items, run->effects.len, run->effects.cap) = effects->items[i];
    bh_effects_fini(effects);
}

static void merge(struct bh_val *into, struct bh_val *extra)
{
    for (size_t i = 0; i < bh_val_len(extra); i++)
        bh_val_set(into, bh_val_key_at(extra, i), bh_val_copy(bh_val_at(extra, i)));
    bh_val_free(extra);
}

bool bh_live_run_step(struct bh_live_run *run, const struct bh_event *event, struct bh_val *extra,
                      const struct bh_live_run_after *after)
{
    BH_CLEANUP_VAL struct bh_val *payload = bh_event_to_val(event);
    merge(payload, extra);
    struct bh_wall now = bh_wall_now();
    struct bh_effects effects = {0};
    if (!bh_engine_step(run->engine, event, now, &effects)) {
        bh_effects_fini(&effects);
        return false;
    }
    if (after)
        after->fn(after->arg, payload);
    size_t first = run->effects.len;
    struct bh_pending_event *p = BH_PUSH(run->pending, run->n_pending, run->cap_pending);
    *p = (struct bh_pending_event){.kind = event->kind, .at = now, .payload = bh_live_run_json(payload)};
    bh_live_run_remember(run, event, payload);
    bh_live_run_absorb(run, &effects, now);
    bh_live_run_publish_chosen(run, first);
    return true;
}

bool bh_live_run_apply(struct bh_live_run *run, const struct bh_event *event, struct bh_val *extra)
{
    return bh_live_run_step(run, event, extra, NULL);
}

/* --- reading --- */

const char *bh_live_run_id(const struct bh_live_run *run)
{
    return run->id.s;
}

const struct bh_plan *bh_live_run_plan(const struct bh_live_run *run)
{
    return run->plan;
}

const struct bh_engine *bh_live_run_engine(const struct bh_live_run *run)
{
    return run->engine;
}

const struct bh_registry *bh_live_run_registry(const struct bh_live_run *run)
{
    return run->registry;
}

const struct bh_val *bh_live_run_submission(const struct bh_live_run *run)
{
    return run->submission;
}

const char *bh_live_run_file(const struct bh_live_run *run)
{
    return run->file;
}

const char *bh_live_run_limits(const struct bh_live_run *run)
{
    return run->limits;
}

const struct bh_val *bh_live_run_ranges(const struct bh_live_run *run, const char *agent)
{
    return bh_val_get(run->ranges, agent);
}

const struct bh_val *bh_live_run_setup_of(const struct bh_live_run *run, size_t node)
{
    return run->made[node].setup;
}

const struct bh_val *bh_live_run_prepared_of(const struct bh_live_run *run, size_t node)
{
    return run->made[node].prepare;
}

const char *bh_live_run_document(const struct bh_live_run *run)
{
    return run->document;
}

void bh_live_run_watch(struct bh_live_run *run, struct bh_live_run_watch watch)
{
    run->watch = watch;
}

const char *bh_live_run_detail(const struct bh_live_run *run, struct bh_instance_id instance)
{
    return bh_val_str_of(bh_map_get(run->facts, instance.s), "detail");
}
