/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a live run, shared by the files live_run*.c and nobody else. */
#pragma once

#include "base/map.h"
#include "scheduler/dispatch/live_run.h"

struct bh_pending_event {
    enum bh_event_kind kind;
    struct bh_wall at;
    char *payload;
};

struct bh_dirty { /* indices, each once */
    size_t *items;
    size_t len, cap;
    bool *marked;
    size_t n_marked;
};

/* The key in `facts` of the last freeze that failed; no instance has that id. */
#define BH_FACTS_OF_FREEZE "freeze"
/* Before the instance of an attempt that was chosen: what came of publishing it. */
#define BH_FACTS_OF_CHOICE "choice:"

struct bh_live_run {
    struct bh_store *store;
    struct bh_run_id id;
    char *name, *file, *document;
    struct bh_val *ranges; /* by agent, as its present owner began */
    char *limits;          /* as its present owner began with them: bh_run_row.limits */
    struct bh_wall created, started, ended;
    struct bh_pipeline *pipeline;
    struct bh_plan *plan;
    struct bh_spec *spec;
    struct bh_engine *engine;
    struct bh_registry *registry;
    struct bh_val *submission;
    struct bh_map *facts; /* instance → payload of its end */
    struct bh_made {      /* by node: what its attempts start from, as it was made last; borrowed from facts */
        const struct bh_val *setup, *prepare;
    } * made;
    struct bh_gate_facts { /* by gate: payloads of its newest events, owned */
        struct bh_val *asked, *decided;
        struct bh_map *let_in; /* digests and names of what the decision let pass; NULL: nothing */
    } * gates;
    struct bh_map *approvals; /* digest and name of an artifact → who let it pass */
    struct bh_pending_event *pending;
    size_t n_pending, cap_pending;
    struct bh_dirty nodes, attempts;
    bool run_dirty;
    size_t artifacts_stored;   /* how many of the registry are durable */
    struct bh_effects effects; /* of everything applied */
    size_t effects_durable;    /* how many of them may be carried out */
    struct bh_live_run_watch watch;
};

/* live_run.c */
/* What is done between the step and the moment its payload is written down; it may add to the payload. */
struct bh_live_run_after {
    void (*fn)(void *arg, struct bh_val *payload);
    void *arg;
};
/* bh_live_run_apply; `after` may be NULL. */
bool bh_live_run_step(struct bh_live_run *run, const struct bh_event *event, struct bh_val *extra,
                      const struct bh_live_run_after *after);
void bh_live_run_remember(struct bh_live_run *run, const struct bh_event *event, const struct bh_val *payload);
void bh_live_run_absorb(struct bh_live_run *run, struct bh_effects *effects, struct bh_wall now);
char *bh_live_run_json(const struct bh_val *v); /* the caller owns it */

/* live_run_gates.c: an event about a gate. */
void bh_live_run_remember_gate(struct bh_live_run *run, const struct bh_event *event, const struct bh_val *payload);

/* live_run_end.c: carries out the PUBLISH among the effects from the first on. */
void bh_live_run_publish_chosen(struct bh_live_run *run, size_t first);

/* live_run_commit.c */
struct bh_val *bh_live_run_params(const struct bh_plan *plan);
void bh_live_run_mark(struct bh_dirty *d, size_t i);
void bh_live_run_unmark(struct bh_dirty *d); /* all of them */
/* Makes the run itself durable: its row, its agents, its sources. */
int bh_live_run_commit_new(struct bh_live_run *run, struct bh_err **err) BH_MUST_CHECK;
