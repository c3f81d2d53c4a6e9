/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store knows of a run, put together for the rules: rows, and from the events when each execution entered its
 * phases, when shared boxes were frozen, and who died only because bulkhead did.
 */
#pragma once

#include "scheduler/store/store.h"

struct bh_plan;

struct bh_execution_span { /* of one execution; us 0: it was not seen in that phase */
    struct bh_wall setup, running;
    bool died_with_bulkhead;
};
struct bh_freeze {
    size_t box; /* index into the plan's boxes */
    char *layer;
    struct bh_wall at;
};

struct bh_run_record {
    const struct bh_run_row *run;
    struct bh_attempt_row *attempts; /* by agent, attempt, try */
    size_t n_attempts;
    struct bh_execution_span *spans; /* parallel to attempts */
    struct bh_freeze *freezes;       /* in order */
    size_t n_freezes, cap_freezes;
};

/* Borrows `run`. Errors are those of the store. */
int bh_run_record_read(struct bh_store *store, const struct bh_run_row *run, struct bh_run_record *ret,
                       struct bh_err **err) BH_MUST_CHECK;
void bh_run_record_fini(struct bh_run_record *r);

/* Until when it ran; a live one: now is not known, so the end of time. */
int64_t bh_span_end(const struct bh_attempt_row *row);
/* Whether the two were there at the same time. */
bool bh_spans_overlap(const struct bh_attempt_row *a, const struct bh_attempt_row *b);
/* Whether it ended as nobody wants it: failed, or lost. */
bool bh_attempt_ended_badly(const struct bh_attempt_row *row);
