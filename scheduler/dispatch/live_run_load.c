/* SPDX-License-Identifier: Apache-2.0 */
/* The birth of a live run: from a submission, or from the store by replaying its events. */
#include "artifact-bus/provenance.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/dispatch/event_codec.h"
#include "scheduler/dispatch/known_taint.h"
#include "scheduler/dispatch/live_run_priv.h"
#include "scheduler/dispatch/submission.h"

static void dirty_fini(struct bh_dirty *d)
{
    bh_free(d->items);
    bh_free(d->marked);
}

static void free_val(void *v)
{
    bh_val_free(v);
}

static void leave_out(struct bh_spec *spec, const struct bh_plan *plan, const struct bh_val *submission)
{
    BH_CLEANUP_FREE bool *wanted = bh_calloc(plan->n_agents + 1, sizeof(*wanted));
    bh_submission_wanted(plan, submission, wanted);
    for (size_t i = 0; i < plan->n_agents; i++)
        spec->nodes[i].left_out = !wanted[i];
}

static void apply_options(struct bh_spec *spec, const struct bh_plan *plan, const struct bh_val *submission)
{
    const struct bh_val *options = bh_val_get(submission, "options");
    int64_t parallel = bh_val_int_of(options, "max_parallel");
    if (parallel > 0)
        spec->max_parallel = parallel;
    spec->keep_going = bh_val_bool_of(options, "keep_going");
    leave_out(spec, plan, submission);
}

/* Takes pipeline, plan and submission. */
static struct bh_live_run *make(struct bh_store *store, struct bh_run_id id, struct bh_pipeline *pipeline,
                                struct bh_plan *plan, struct bh_val *submission)
{
    struct bh_live_run *run = bh_alloc(sizeof(*run));
    run->store = store;
    run->id = id;
    run->name = bh_strdup(pipeline->name.s);
    run->pipeline = pipeline;
    run->plan = plan;
    run->submission = submission;
    run->spec = bh_spec_from_plan(plan);
    apply_options(run->spec, plan, submission);
    run->engine = bh_engine_new(id, run->spec);
    run->registry = bh_registry_new();
    run->facts = bh_map_new(free_val);
    run->made = bh_calloc(plan->n_agents, sizeof(*run->made));
    run->gates = bh_calloc(run->spec->n_gates, sizeof(*run->gates));
    run->approvals = bh_map_new(free_val);
    return run;
}

void bh_live_run_free(struct bh_live_run *run)
{
    if (!run)
        return;
    for (size_t i = 0; i < run->n_pending; i++)
        bh_free(run->pending[i].payload);
    bh_free(run->pending);
    dirty_fini(&run->nodes);
    dirty_fini(&run->attempts);
    bh_effects_fini(&run->effects);
    bh_map_free(run->facts);
    for (size_t i = 0; run->gates && i < run->spec->n_gates; i++) {
        bh_val_free(run->gates[i].asked);
        bh_val_free(run->gates[i].decided);
        bh_map_free(run->gates[i].let_in);
    }
    bh_free(run->gates);
    bh_map_free(run->approvals);
    bh_free(run->made);
    bh_registry_free(run->registry);
    bh_engine_free(run->engine);
    bh_spec_free(run->spec);
    bh_plan_free(run->plan);
    bh_pipeline_free(run->pipeline);
    bh_val_free(run->submission);
    bh_free(run->name);
    bh_free(run->file);
    bh_free(run->limits);
    bh_val_free(run->ranges);
    bh_free(run->document);
    bh_free(run);
}

/* Sources are on the bus from the start; they come from the submission, not from an event. */
static int publish_sources(struct bh_live_run *run, struct bh_err **err)
{
    for (size_t i = 0; i < run->pipeline->n_sources; i++) {
        const struct bh_source *source = &run->pipeline->sources[i];
        const struct bh_val *entry = bh_submission_source(run->submission, source->name.s);
        struct bh_object object;
        if (!entry)
            continue;
        if (!bh_submission_object(entry, &object))
            return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the source '%s' of run '%s' is unreadable", source->name.s,
                              run->id.s);
        bool tainted = source->untrusted || bh_known_taint_source(run->submission, source->name.s);
        BH_CLEANUP_VAL struct bh_val *record =
            bh_provenance_of_source(source->name.s, &object, bh_val_str_of(entry, "path"), tainted);
        BH_CLEANUP_BUF struct bh_buf json = BH_BUF_INIT;
        bh_json_format(record, &json);
        struct bh_artifact artifact = {
            .name = source->name.s,
            .object = object,
            .agent = "",
            .instance = "",
            .tainted = tainted,
            .private_ = source->private_,
            .published = run->created,
            .provenance = json.data,
        };
        int rc = bh_registry_publish(run->registry, &artifact, 1, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Whoever reads the run later may stand in another folder. */
static char *absolute(const char *file)
{
    BH_CLEANUP_FREE char *here = realpath(".", NULL);
    while (bh_starts_with(file, "./"))
        file += 2;
    return here ? bh_path_join(here, file) : bh_strdup(file);
}

int bh_live_run_create(const struct bh_live_run_new *what, struct bh_live_run **ret, struct bh_err **err)
{
    struct bh_live_run *run = make(what->store, what->run, what->pipeline, what->plan, what->submission);
    run->file = absolute(what->file);
    run->document = bh_strndup(what->text, what->text_len);
    run->created = bh_wall_now();
    int rc = publish_sources(run, err);
    if (rc == 0)
        rc = bh_live_run_commit_new(run, err);
    if (rc != 0)
        bh_live_run_free(run);
    else
        *ret = run;
    return rc;
}

static int read_artifact(const struct bh_live_run *run, const struct bh_attempt *attempt, const struct bh_val *entry,
                         bool selected, struct bh_artifact *ret, struct bh_err **err)
{
    *ret = (struct bh_artifact){
        .name = bh_val_str_of(entry, "name"),
        .agent = run->plan->agents[attempt->node].name,
        .attempt = attempt->attempt,
        .instance = attempt->instance.s,
        .tainted = bh_val_bool_of(entry, "tainted"),
        .private_ = bh_val_bool_of(entry, "private"),
        .selected = selected,
        .published = {bh_val_int_of(entry, "published")},
        .provenance = bh_val_str_of(entry, "provenance"),
    };
    if (!ret->name || !ret->provenance || !bh_submission_object(entry, &ret->object))
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "an output of '%s' is unreadable", attempt->instance.s);
    return 0;
}

/* The outputs that an event published, put on the bus again: all of them at once, as they were. */
static int replay_artifacts(struct bh_live_run *run, const struct bh_event *event, const struct bh_val *payload,
                            struct bh_err **err)
{
    const struct bh_val *list = bh_val_get(payload, "artifacts");
    const struct bh_attempt *attempt = bh_engine_find(run->engine, event->instance);
    size_t n = attempt ? bh_val_len(list) : 0;
    BH_CLEANUP_FREE struct bh_artifact *items = bh_calloc(n, sizeof(*items));
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_artifact(run, attempt, bh_val_at(list, i), event->kind == BH_EV_PUBLISHED, &items[i], err);
    return rc == 0 && n > 0 ? bh_registry_publish(run->registry, items, n, err) : rc;
}

static int replay_event(void *arg, int64_t seq, struct bh_wall at, const char *kind, const char *payload_text,
                        struct bh_err **err)
{
    struct bh_live_run *run = arg;
    BH_CLEANUP_VAL struct bh_val *payload = NULL;
    struct bh_event event;
    int rc = bh_json_parse(payload_text, strlen(payload_text), &payload, err);
    if (rc == 0)
        rc = bh_event_from_val(kind, payload, &event, err);
    if (rc != 0)
        return bh_err_wrap(err, rc, "event %lld of run '%s'", (long long)seq, run->id.s);
    struct bh_effects effects = {0};
    if (bh_engine_step(run->engine, &event, at, &effects)) {
        bh_live_run_remember(run, &event, payload);
        bh_live_run_absorb(run, &effects, at);
        rc = replay_artifacts(run, &event, payload, err);
    }
    bh_effects_fini(&effects);
    return rc;
}

static int load_plan(const struct bh_run_row *row, const struct bh_val *submission, struct bh_pipeline **ret_pipeline,
                     struct bh_plan **ret_plan, struct bh_err **err)
{
    struct bh_errlist errors = {0};
    BH_CLEANUP_PIPELINE struct bh_pipeline *pipeline = NULL;
    BH_CLEANUP_VAL struct bh_val *params = NULL;
    int rc = bh_json_parse(row->params, strlen(row->params), &params, err);
    if (rc != 0)
        return rc;
    size_t n = bh_val_len(params);
    BH_CLEANUP_FREE struct bh_param_value *values = bh_calloc(n, sizeof(*values));
    for (size_t i = 0; i < n; i++)
        values[i] = (struct bh_param_value){bh_val_key_at(params, i), bh_val_get_str(bh_val_at(params, i))};
    struct bh_plan_options options = {.params = values, .n_params = n};
    bh_known_taint_options(submission, &options);
    rc = bh_pipeline_load(row->file, row->document, strlen(row->document), &pipeline, &errors);
    if (rc == 0)
        rc = bh_plan_make(pipeline, &options, ret_plan, &errors);
    if (rc != 0) {
        rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the document of the run cannot be planned any more: %s",
                        errors.len > 0 ? bh_err_message(errors.items[0]) : "unknown error");
    } else {
        *ret_pipeline = BH_TAKE(pipeline);
    }
    bh_known_taint_options_fini(&options);
    bh_errlist_fini(&errors);
    return rc;
}

static int load_submission(const struct bh_run_row *row, struct bh_val **ret, struct bh_err **err)
{
    if (!row->submission || !row->document || !row->params)
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "run '%s' has no document", row->run);
    return bh_json_parse(row->submission, strlen(row->submission), ret, err);
}

static int load_row(struct bh_store *store, const struct bh_run_row *row, struct bh_live_run **ret, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *submission = NULL;
    struct bh_pipeline *pipeline = NULL;
    struct bh_plan *plan = NULL;
    int rc = load_submission(row, &submission, err);
    if (rc == 0)
        rc = load_plan(row, submission, &pipeline, &plan, err);
    if (rc != 0)
        return rc;
    struct bh_run_id id;
    snprintf(id.s, sizeof(id.s), "%s", row->run);
    struct bh_live_run *run = make(store, id, pipeline, plan, BH_TAKE(submission));
    run->file = bh_strdup(row->file);
    run->document = bh_strdup(row->document);
    run->created = row->created;
    rc = publish_sources(run, err);
    if (rc == 0)
        rc = bh_store_replay(store, row->run, replay_event, run, err);
    if (rc != 0) {
        bh_live_run_free(run);
        return rc;
    }
    /* What the log held is durable already, and its effects were the dead owner's to carry out. */
    run->effects.len = 0;
    run->run_dirty = false;
    run->artifacts_stored = bh_registry_len(run->registry);
    bh_live_run_unmark(&run->nodes);
    bh_live_run_unmark(&run->attempts);
    *ret = run;
    return 0;
}

int bh_live_run_load(struct bh_store *store, const char *id, struct bh_live_run **ret, struct bh_err **err)
{
    struct bh_run_row row = {0};
    int rc = bh_store_get_run(store, id, &row, err);
    if (rc == 0)
        rc = load_row(store, &row, ret, err);
    bh_run_row_fini(&row);
    return rc;
}
