/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an execution: what is written down of it, and what of it is on the bus afterwards. An agent of one attempt
 * publishes with its end, and a collision makes a failure of it. Of several attempts each publishes under its number as
 * soon as it is not tried again, also one that its check refused; the one that is chosen gets the plain names with an
 * event of its own, in the same commit.
 */
#include "artifact-bus/provenance.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "scheduler/dispatch/live_run_priv.h"

/* Nobody counts calls where there is no endpoint to call. */
static struct bh_val *counted(const struct bh_lease *lease, int64_t n)
{
    return lease->n_endpoints > 0 ? bh_val_int(n) : bh_val_null();
}

static struct bh_val *usage_to_val(const struct bh_lease *lease, const struct bh_result *result)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_int(v, "cpu_ms", result->cpu_ms);
    bh_val_set_int(v, "max_rss_bytes", result->max_rss_bytes);
    bh_val_set(v, "disk_bytes", result->disk_bytes >= 0 ? bh_val_int(result->disk_bytes) : bh_val_null());
    bh_val_set_int(v, "box_ms", result->box_ms);
    bh_val_set(v, "requests", counted(lease, result->requests));
    bh_val_set(v, "tokens_in", counted(lease, result->tokens_in));
    bh_val_set(v, "tokens_out", counted(lease, result->tokens_out));
    return v;
}

static void set_snapshots(struct bh_val *v, const struct bh_lease *lease, const struct bh_result *result)
{
    if (result->snapshot)
        bh_val_set_str(v, "snapshot", result->snapshot);
    if (result->snapshot_reused)
        bh_val_set_bool(v, "snapshot_reused", true);
    if (lease->kind == BH_LEASE_RUN)
        return;
    bh_val_set_str(v, "snapshot_key", lease->snapshot_key);
    bh_val_set(v, "made_of", bh_provenance_of_state(lease));
    struct bh_val *list = bh_val_set(v, "snapshots", bh_val_list());
    for (size_t i = 0; i < result->n_snapshots; i++)
        bh_val_add(list, bh_val_str(result->snapshots[i]));
}

static struct bh_val *facts_of_result(const struct bh_lease *lease, const struct bh_result *result)
{
    struct bh_val *v = bh_val_map();
    set_snapshots(v, lease, result);
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
    bh_val_set(v, "usage", usage_to_val(lease, result));
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

struct outputs { /* of one execution, or of the one that was chosen, on their way to the bus */
    struct bh_artifact *items;
    char **names, **provenance;
    size_t n;
};

static void outputs_fini(struct outputs *o)
{
    for (size_t i = 0; i < o->n; i++)
        bh_free(o->provenance[i]);
    for (size_t i = 0; i < o->n; i++)
        bh_free(o->names[i]);
    bh_free(o->names);
    bh_free(o->provenance);
    bh_free(o->items);
}

static struct outputs outputs_new(size_t n)
{
    return (struct outputs){.items = bh_calloc(n, sizeof(struct bh_artifact)),
                            .names = bh_calloc(n, sizeof(char *)),
                            .provenance = bh_calloc(n, sizeof(char *)),
                            .n = n};
}

static struct outputs outputs_of(const struct bh_live_run *run, size_t node, const struct bh_lease *lease,
                                 const struct bh_result *result, bool numbered)
{
    const struct bh_plan_agent *agent = &run->plan->agents[node];
    const struct bh_val *setup = bh_val_get(run->made[node].setup, "made_of"),
                        *prepare = bh_val_get(run->made[node].prepare, "made_of");
    struct outputs o = outputs_new(result->n_outputs);
    bool tainted = agent->label == BH_TAINTED;
    for (size_t i = 0; i < o.n; i++) {
        const struct bh_result_output *out = &result->outputs[i];
        BH_CLEANUP_VAL struct bh_val *record = bh_provenance_of_output(lease, result, out, tainted, agent->why);
        o.names[i] = numbered ? bh_asprintf("%s@%d", out->name, lease->attempt) : bh_strdup(out->name);
        bh_val_set_str(record, "name", o.names[i]);
        bh_val_set_str(record, "private", agent->private_why);
        bh_provenance_add_state(record, setup, prepare);
        o.provenance[i] = bh_live_run_json(record);
        o.items[i] = (struct bh_artifact){
            .name = o.names[i],
            .object = out->object,
            .agent = agent->name,
            .attempt = lease->attempt,
            .instance = result->instance.s,
            .tainted = tainted,
            .private_ = agent->private_why != NULL,
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
    bh_val_set_bool(v, "private", a->private_);
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

/* All outputs or none. NONE, or why not; `facts` says between whom. */
static enum bh_reason publish(struct bh_live_run *run, const struct outputs *o, struct bh_val *facts)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int rc = bh_registry_publish(run->registry, o->items, o->n, &err);
    if (rc != 0) {
        BH_CLEANUP_FREE char *detail = refusal(run, o, rc, bh_err_message(err));
        bh_val_set_str(facts, "detail", detail);
        return rc == -BH_E_COLLISION ? BH_REASON_COLLISION : BH_REASON_OUTPUT_INVALID;
    }
    struct bh_val *list = bh_val_set(facts, "artifacts", bh_val_list());
    for (size_t i = 0; i < o->n; i++)
        bh_val_add(list, artifact_to_val(&o->items[i]));
    return BH_REASON_NONE;
}

/* What it made cannot stand on the bus: the execution has failed. */
static void refuse(struct bh_event *event, enum bh_reason reason)
{
    if (reason == BH_REASON_NONE)
        return;
    event->state = BH_ATTEMPT_FAILED;
    event->reason = reason;
}

/* Names that exclude each other among the outputs of one attempt. */
static enum bh_reason check_among(struct bh_live_run *run, const struct outputs *o, struct bh_val *facts)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int rc = bh_registry_check(run->registry, o->items, o->n, &err);
    if (rc == 0)
        return BH_REASON_NONE;
    bh_val_set_str(facts, "detail", bh_err_message(err));
    return rc == -BH_E_COLLISION ? BH_REASON_COLLISION : BH_REASON_OUTPUT_INVALID;
}

/* --- those of several attempts --- */

struct numbered {
    struct bh_live_run *run;
    struct bh_instance_id instance;
    const struct outputs *outputs;
};

/* The attempt is what it is; only one that is not tried again stands on the bus. */
static void publish_numbered(void *arg, struct bh_val *payload)
{
    const struct numbered *n = arg;
    if (n->outputs->n > 0 && bh_engine_is_final(n->run->engine, n->instance))
        (void)publish(n->run, n->outputs, payload);
}

static void add_chosen(struct outputs *o, const struct bh_artifact *numbered)
{
    BH_CLEANUP_VAL struct bh_val *record = NULL;
    size_t plain = (size_t)(strrchr(numbered->name, '@') - numbered->name);
    o->names[o->n] = bh_strndup(numbered->name, plain);
    if (bh_json_parse(numbered->provenance, strlen(numbered->provenance), &record, NULL) == 0)
        bh_val_set_str(record, "name", o->names[o->n]);
    o->provenance[o->n] = record ? bh_live_run_json(record) : bh_strdup(numbered->provenance);
    o->items[o->n] = *numbered;
    o->items[o->n].name = o->names[o->n];
    o->items[o->n].provenance = o->provenance[o->n];
    o->items[o->n].selected = true;
    o->n++;
}

static void publish_one(struct bh_live_run *run, const struct bh_effect *effect)
{
    struct outputs o = outputs_new(bh_registry_len(run->registry));
    o.n = 0;
    for (size_t i = 0; i < bh_registry_len(run->registry); i++) {
        const struct bh_artifact *a = bh_registry_at(run->registry, i);
        if (strcmp(a->instance, effect->instance.s) == 0 && strchr(a->name, '@'))
            add_chosen(&o, a);
    }
    struct bh_event event = {.kind = BH_EV_PUBLISHED, .instance = effect->instance, .epoch = effect->epoch};
    struct bh_val *facts = bh_val_map();
    event.reason = publish(run, &o, facts);
    (void)bh_live_run_apply(run, &event, facts);
    outputs_fini(&o);
}

void bh_live_run_publish_chosen(struct bh_live_run *run, size_t first)
{
    size_t end = run->effects.len; /* what publishing brings about is looked at there */
    for (size_t i = first; i < end; i++) {
        struct bh_effect effect = run->effects.items[i];
        if (effect.kind == BH_EFFECT_PUBLISH)
            publish_one(run, &effect);
    }
}

/* --- the end --- */

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
        .has_score = result->has_score,
        .score = result->score,
    };
    const struct bh_plan_agent *agent = &run->plan->agents[attempt->node];
    bool succeeded = event.state == BH_ATTEMPT_SUCCEEDED;
    bool numbered = agent->forks && (bh_agent_numbered(agent->doc) || !succeeded);
    struct bh_val *facts = facts_of_result(lease, result);
    struct outputs o = outputs_of(run, attempt->node, lease, result, numbered);
    if (succeeded && !numbered)
        refuse(&event, publish(run, &o, facts));
    else if (succeeded)
        refuse(&event, check_among(run, &o, facts));
    struct numbered later = {.run = run, .instance = event.instance, .outputs = &o};
    struct bh_live_run_after after = {.arg = &later, .fn = publish_numbered};
    bool meant = bh_live_run_step(run, &event, facts, numbered ? &after : NULL);
    outputs_fini(&o);
    return meant;
}
