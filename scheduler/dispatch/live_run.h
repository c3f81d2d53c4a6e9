/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run in the hands of an engine process: document, plan, engine, what is on its bus, and what of it is not yet
 * durable.
 *
 * The order that everything rests on: bh_live_run_apply changes the state in memory and remembers event, rows and
 * effects; bh_live_run_commit makes all of it durable in one transaction; only then may the caller take the effects and
 * carry them out, or answer whoever sent the event.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "artifact-bus/registry.h"
#include "scheduler/core/engine.h"
#include "scheduler/store/store.h"
#include "topologies/plan.h"

struct bh_live_run;

struct bh_live_run_new {
    struct bh_store *store; /* borrowed */
    struct bh_run_id run;
    const char *file;
    struct bh_pipeline *pipeline; /* taken, also on failure */
    struct bh_plan *plan;         /* taken, also on failure */
    const char *text;             /* the document */
    size_t text_len;
    struct bh_val *submission; /* taken, also on failure */
};
/* Makes the run durable in status queued. */
int bh_live_run_create(const struct bh_live_run_new *what, struct bh_live_run **ret, struct bh_err **err) BH_MUST_CHECK;
/* Takes a run up from the store: document, plan and state as they were after its last event. Nothing is written. */
int bh_live_run_load(struct bh_store *store, const char *run, struct bh_live_run **ret,
                     struct bh_err **err) BH_MUST_CHECK;
void bh_live_run_free(struct bh_live_run *run);

const char *bh_live_run_id(const struct bh_live_run *run);
const struct bh_plan *bh_live_run_plan(const struct bh_live_run *run);
const struct bh_engine *bh_live_run_engine(const struct bh_live_run *run);
const struct bh_registry *bh_live_run_registry(const struct bh_live_run *run);
const struct bh_val *bh_live_run_submission(const struct bh_live_run *run);
/* The facts of what attempts of the node start from, as it was made last: {"snapshot_key","snapshots":[],…}; NULL: not
 * made. */
const struct bh_val *bh_live_run_setup_of(const struct bh_live_run *run, size_t node);
const struct bh_val *bh_live_run_prepared_of(const struct bh_live_run *run, size_t node);
const char *bh_live_run_file(const struct bh_live_run *run);     /* of the document, absolute */
const char *bh_live_run_document(const struct bh_live_run *run); /* the text as submitted */
/* "best-effort: memory cpus": limits that are not enforced, with the site's leave; NULL: all are. From the event of the
 * present owner. */
const char *bh_live_run_limits(const struct bh_live_run *run);
/* Address ranges that the site permits an agent beyond public ones: a list of texts, or NULL. From the same event. */
const struct bh_val *bh_live_run_ranges(const struct bh_live_run *run, const char *agent);

/* Gates (indices of the spec). */
const struct bh_spec *bh_live_run_spec(const struct bh_live_run *run);
/* The payload of the newest event by which the gate was asked, or decided or expired; borrowed, NULL: none. */
const struct bh_val *bh_live_run_question(const struct bh_live_run *run, size_t gate);
const struct bh_val *bh_live_run_decision(const struct bh_live_run *run, size_t gate);
/* Who has approved an artifact in this run: {"name" of the gate,"by","at","reason"}; borrowed, NULL: nobody. */
const struct bh_val *bh_live_run_approval(const struct bh_live_run *run, const char *name, const char *digest);
/* Of a node that failed at a gate: why, in a sentence; else NULL. The caller owns it. */
char *bh_live_run_gate_detail(const struct bh_live_run *run, size_t node);
/* Adds {"gate","how","by","at","reason"} for each gate that the artifact has passed on its way to the node. */
void bh_live_run_add_passes(const struct bh_live_run *run, size_t node, const struct bh_artifact *artifact,
                            struct bh_val *list);

/*
 * Applies an event; false where the engine ignored it (stale): then nothing is remembered. `extra` (a map, taken, may
 * be NULL) is merged into the payload.
 */
bool bh_live_run_apply(struct bh_live_run *run, const struct bh_event *event, struct bh_val *extra);
/*
 * An execution has ended, as the worker says it. A success publishes its outputs on the run's bus; a collision makes a
 * failure of it. False where it is stale.
 */
bool bh_live_run_end(struct bh_live_run *run, const struct bh_lease *lease, const struct bh_result *result);
/* After a failure the run must not go on in this process. */
int bh_live_run_commit(struct bh_live_run *run, struct bh_err **err) BH_MUST_CHECK;
bool bh_live_run_pending(const struct bh_live_run *run); /* something is not yet durable */

/* The effects of everything committed so far, in order; the caller owns the array (bh_effects_fini). */
struct bh_effects bh_live_run_take_effects(struct bh_live_run *run);

/* Called at each change, after the commit that made it durable, in order. */
struct bh_live_run_watch {
    void *arg;
    void (*node)(void *arg, size_t node);
    void (*attempt)(void *arg, size_t attempt);
};
void bh_live_run_watch(struct bh_live_run *run, struct bh_live_run_watch watch);
/* Of a node of several executions that has failed: why, in a sentence, and the execution that it ends with, or NULL.
 * The caller owns the text. */
char *bh_live_run_attempts_detail(const struct bh_live_run *run, size_t node, const struct bh_attempt **ret_blamed);
/* What is known of an ended execution for people: borrowed or NULL. */
const char *bh_live_run_detail(const struct bh_live_run *run, struct bh_instance_id instance);
