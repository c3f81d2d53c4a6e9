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

void bh_live_run_remember(struct bh_live_run *run, const struct bh_event *event, const struct bh_val *payload)
{
    if (event->kind == BH_EV_ENDED)
        bh_map_put(run->facts, event->instance.s, bh_val_copy(payload));
    if (event->kind == BH_EV_START || event->kind == BH_EV_OWNER) {
        bh_free(run->limits);
        run->limits = bh_strdup(bh_val_str_of(payload, "limits"));
        run->run_dirty = true;
    }
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

bool bh_live_run_apply(struct bh_live_run *run, const struct bh_event *event, struct bh_val *extra)
{
    BH_CLEANUP_VAL struct bh_val *payload = bh_event_to_val(event);
    merge(payload, extra);
    struct bh_wall now = bh_wall_now();
    struct bh_effects effects = {0};
    if (!bh_engine_step(run->engine, event, now, &effects)) {
        bh_effects_fini(&effects);
        return false;
    }
    struct bh_pending_event *p = BH_PUSH(run->pending, run->n_pending, run->cap_pending);
    *p = (struct bh_pending_event){.kind = event->kind, .at = now, .payload = bh_live_run_json(payload)};
    bh_live_run_remember(run, event, payload);
    bh_live_run_absorb(run, &effects, now);
    return true;
}

static struct bh_val *usage_to_val(const struct bh_result *result)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_int(v, "cpu_ms", result->cpu_ms);
    bh_val_set_int(v, "max_rss_bytes", result->max_rss_bytes);
    bh_val_set(v, "disk_bytes", result->disk_bytes >= 0 ? bh_val_int(result->disk_bytes) : bh_val_null());
    bh_val_set_int(v, "box_ms", result->box_ms);
    bh_val_set(v, "requests", bh_val_null());
    bh_val_set(v, "tokens_in", bh_val_null());
    bh_val_set(v, "tokens_out", bh_val_null());
    return v;
}

static struct bh_val *facts_of_result(const struct bh_result *result)
{
    struct bh_val *v = bh_val_map();
    if (result->exit_code >= 0)
        bh_val_set_int(v, "exit_code", result->exit_code);
    if (result->signal > 0)
        bh_val_set_int(v, "signal", result->signal);
    if (result->detail)
        bh_val_set_str(v, "detail", result->detail);
    bh_val_set_int(v, "started", result->started.us);
    bh_val_set_int(v, "ended", result->ended.us);
    if (result->kept_box)
        bh_val_set_str(v, "kept_box", result->kept_box);
    if (result->limits)
        bh_val_set_str(v, "limits", result->limits);
    if (result->output_dropped > 0)
        bh_val_set_int(v, "output_dropped", result->output_dropped);
    if (result->evidence)
        bh_val_set_str(v, "evidence", result->evidence);
    bh_val_set(v, "usage", usage_to_val(result));
    return v;
}

static enum bh_attempt_state state_of(enum bh_outcome outcome)
{
    switch (outcome) {
    case BH_OUTCOME_SUCCEEDED:
        return BH_ATTEMPT_SUCCEEDED;
    case BH_OUTCOME_FAILED:
        return BH_ATTEMPT_FAILED;
    case BH_OUTCOME_CANCELLED:
        return BH_ATTEMPT_CANCELLED;
    case BH_OUTCOME_LOST:
        return BH_ATTEMPT_LOST;
    }
    return BH_ATTEMPT_FAILED;
}

struct outputs { /* of one success, on their way to the bus */
    struct bh_artifact *items;
    char **provenance;
    size_t n;
};

static void outputs_fini(struct outputs *o)
{
    for (size_t i = 0; i < o->n; i++)
        bh_free(o->provenance[i]);
    bh_free(o->provenance);
    bh_free(o->items);
}

static struct outputs outputs_of(const struct bh_plan_agent *agent, const struct bh_lease *lease,
                                 const struct bh_result *result)
{
    struct outputs o = {.n = result->n_outputs};
    o.items = bh_calloc(o.n, sizeof(*o.items));
    o.provenance = bh_calloc(o.n, sizeof(*o.provenance));
    bool tainted = agent->label == BH_TAINTED;
    for (size_t i = 0; i < o.n; i++) {
        const struct bh_result_output *out = &result->outputs[i];
        BH_CLEANUP_VAL struct bh_val *record = bh_provenance_of_output(lease, result, out, tainted, agent->why);
        o.provenance[i] = bh_live_run_json(record);
        o.items[i] = (struct bh_artifact){
            .name = out->name,
            .object = out->object,
            .agent = agent->name,
            .attempt = lease->attempt,
            .instance = result->instance.s,
            .tainted = tainted,
            .published = result->ended,
            .provenance = o.provenance[i],
        };
    }
    return o;
}

static struct bh_val *artifact_to_val(const struct bh_artifact *a)
{
    char digest[BH_DIGEST_TEXT];
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "name", a->name);
    bh_val_set_str(v, "digest", bh_digest_format(&a->object.digest, digest));
    bh_val_set_int(v, "size", a->object.size);
    bh_val_set_bool(v, "executable", a->object.executable);
    bh_val_set_bool(v, "tainted", a->tainted);
    bh_val_set_int(v, "published", a->published.us);
    bh_val_set_str(v, "provenance", a->provenance);
    return v;
}

enum { SHORT_DIGEST = sizeof("sha256:") - 1 + 12 };

/* One line: what clashes between whom, and the beginnings of the digests by which to tell the two apart. */
static char *refusal(const struct bh_live_run *run, const struct outputs *o, int code, const char *message)
{
    char ours[BH_DIGEST_TEXT], theirs[BH_DIGEST_TEXT];
    for (size_t i = 0; code == -BH_E_COLLISION && i < o->n; i++) {
        const struct bh_artifact *other = bh_registry_get(run->registry, o->items[i].name);
        if (bh_registry_check(run->registry, &o->items[i], 1, NULL) == 0)
            continue;
        if (!other) /* a folder of the other, or its name in another case */
            break;
        bh_digest_format(&o->items[i].object.digest, ours);
        bh_digest_format(&other->object.digest, theirs);
        return bh_asprintf("%s: %.*s and %.*s", message, SHORT_DIGEST, ours, SHORT_DIGEST, theirs);
    }
    return bh_strdup(message);
}

/* Publishes all outputs or none; a collision turns the event into a failure and `facts` says between whom. */
static void publish(struct bh_live_run *run, const struct outputs *o, struct bh_event *event, struct bh_val *facts)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int rc = bh_registry_publish(run->registry, o->items, o->n, &err);
    if (rc != 0) {
        event->state = BH_ATTEMPT_FAILED;
        event->reason = rc == -BH_E_COLLISION ? BH_REASON_COLLISION : BH_REASON_OUTPUT_INVALID;
        BH_CLEANUP_FREE char *detail = refusal(run, o, rc, bh_err_message(err));
        bh_val_set_str(facts, "detail", detail);
        return;
    }
    struct bh_val *list = bh_val_set(facts, "artifacts", bh_val_list());
    for (size_t i = 0; i < o->n; i++)
        bh_val_add(list, artifact_to_val(&o->items[i]));
}

bool bh_live_run_end(struct bh_live_run *run, const struct bh_lease *lease, const struct bh_result *result)
{
    const struct bh_attempt *attempt = bh_engine_find(run->engine, result->instance);
    bool live = attempt && attempt->epoch == result->epoch && attempt->state < BH_ATTEMPT_SUCCEEDED;
    if (!live)
        return false;
    struct bh_event event = {
        .kind = BH_EV_ENDED,
        .instance = result->instance,
        .epoch = result->epoch,
        .state = state_of(result->outcome),
        .reason = result->reason ? bh_reason_parse(result->reason) : BH_REASON_NONE,
        .phase = result->reason ? bh_phase_parse(result->reason) : BH_PHASE_NONE,
    };
    struct bh_val *facts = facts_of_result(result);
    if (event.state == BH_ATTEMPT_SUCCEEDED) {
        struct outputs o = outputs_of(&run->plan->agents[attempt->node], lease, result);
        publish(run, &o, &event, facts);
        outputs_fini(&o);
    }
    return bh_live_run_apply(run, &event, facts);
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

const char *bh_live_run_limits(const struct bh_live_run *run)
{
    return run->limits;
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
