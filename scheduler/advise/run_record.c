/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the reading of rows and events for advice. Events that it does not know, or whose execution has no row, are
 * passed over. */
#include "scheduler/advise/run_record.h"

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

struct reading {
    struct bh_run_record *record;
    struct bh_map *index; /* instance → index of its row, plus 1 */
};

static struct bh_execution_span *span_of(struct reading *r, const struct bh_val *payload, size_t *ret_i)
{
    const char *instance = bh_val_str_of(payload, "instance");
    size_t i = instance ? (uintptr_t)bh_map_get(r->index, instance) : 0;
    if (i == 0)
        return NULL;
    *ret_i = i - 1;
    return &r->record->spans[i - 1];
}

static void note_state(struct reading *r, struct bh_wall at, const struct bh_val *payload)
{
    size_t i;
    const char *state = bh_val_str_of(payload, "state");
    struct bh_execution_span *span = span_of(r, payload, &i);
    if (span && bh_streq(state, "setup") && !span->setup.us)
        span->setup = at;
    if (span && bh_streq(state, "running") && !span->running.us)
        span->running = at;
}

static void note_frozen(struct reading *r, struct bh_wall at, const struct bh_val *payload)
{
    struct bh_run_record *record = r->record;
    const char *layer = bh_val_str_of(payload, "layer");
    if (layer && *layer)
        *BH_PUSH(record->freezes, record->n_freezes, record->cap_freezes) =
            (struct bh_freeze){(size_t)bh_val_int_of(payload, "box"), bh_strdup(layer), at};
}

/* A new owner: what was alive until then went down with the old one, and its row ends where the new one began. */
static void note_owner(struct reading *r, struct bh_wall at)
{
    for (size_t i = 0; i < r->record->n_attempts; i++) {
        const struct bh_attempt_row *row = &r->record->attempts[i];
        if (row->ended.us == at.us && bh_streq(row->status, "lost"))
            r->record->spans[i].died_with_bulkhead = true;
    }
}

static int on_event(void *arg, int64_t seq, struct bh_wall at, const char *kind, const char *payload,
                    struct bh_err **err)
{
    struct reading *r = arg;
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    (void)seq;
    (void)err;
    if (bh_streq(kind, "run.owner")) {
        note_owner(r, at);
        return 0;
    }
    bool state = bh_streq(kind, "attempt.state");
    if ((!state && !bh_streq(kind, "box.frozen")) || bh_json_parse(payload, strlen(payload), &v, NULL) != 0)
        return 0;
    if (state)
        note_state(r, at, v);
    else
        note_frozen(r, at, v);
    return 0;
}

int bh_run_record_read(struct bh_store *store, const struct bh_run_row *run, struct bh_run_record *ret,
                       struct bh_err **err)
{
    *ret = (struct bh_run_record){.run = run};
    int rc = bh_store_list_attempts(store, run->run, &ret->attempts, &ret->n_attempts, err);
    struct reading r = {.record = ret, .index = bh_map_new(NULL)};
    ret->spans = bh_calloc(ret->n_attempts + 1, sizeof(*ret->spans));
    for (size_t i = 0; i < ret->n_attempts; i++)
        bh_map_put(r.index, ret->attempts[i].instance, (void *)(uintptr_t)(i + 1));
    if (rc == 0)
        rc = bh_store_replay(store, run->run, on_event, &r, err);
    bh_map_free(r.index);
    return rc;
}

void bh_run_record_fini(struct bh_run_record *r)
{
    for (size_t i = 0; i < r->n_freezes; i++)
        bh_free(r->freezes[i].layer);
    bh_free(r->freezes);
    bh_free(r->spans);
    bh_attempt_rows_free(r->attempts, r->n_attempts);
    *r = (struct bh_run_record){0};
}

int64_t bh_span_end(const struct bh_attempt_row *row)
{
    return row->ended.us ? row->ended.us : INT64_MAX;
}

bool bh_spans_overlap(const struct bh_attempt_row *a, const struct bh_attempt_row *b)
{
    return a->started.us && b->started.us && a->started.us < bh_span_end(b) && b->started.us < bh_span_end(a);
}

bool bh_attempt_ended_badly(const struct bh_attempt_row *row)
{
    return bh_streq(row->status, "failed") || bh_streq(row->status, "lost");
}
