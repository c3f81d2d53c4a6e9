/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run state machine, pure: `step(run, event, now) -> effects`. No I/O, no clock, no randomness. The events are the
 * log: whoever drives the engine makes an event durable and only then carries out the effects of its step; replaying
 * the same events with the same times gives the same state and the same effects, instance ids included (a counter of
 * the run).
 *
 *   attempt: queued → leased → booting → setup → running → checking → collecting → succeeded | failed | cancelled |
 * lost node:    waiting → ready → active → done | failed | skipped | cancelled run:     queued → running → succeeded |
 * failed | cancelled
 *
 * Fencing: what comes from a worker carries (instance, epoch); an event that does not name a live execution with its
 * epoch changes nothing.
 */
#pragma once

#include "base/clock.h"
#include "base/id.h"
#include "policies/reasons.h"
#include "scheduler/core/spec.h"

enum bh_run_status { BH_RUN_QUEUED, BH_RUN_RUNNING, BH_RUN_PAUSED, BH_RUN_SUCCEEDED, BH_RUN_FAILED, BH_RUN_CANCELLED };
enum bh_node_state {
    BH_NODE_WAITING,
    BH_NODE_READY,
    BH_NODE_ACTIVE,
    BH_NODE_DONE,
    BH_NODE_FAILED,
    BH_NODE_SKIPPED,
    BH_NODE_CANCELLED
};
enum bh_attempt_state {
    BH_ATTEMPT_QUEUED,
    BH_ATTEMPT_LEASED,
    BH_ATTEMPT_BOOTING,
    BH_ATTEMPT_SETUP,
    BH_ATTEMPT_RUNNING,
    BH_ATTEMPT_CHECKING,
    BH_ATTEMPT_COLLECTING,
    BH_ATTEMPT_SUCCEEDED,
    BH_ATTEMPT_FAILED,
    BH_ATTEMPT_CANCELLED,
    BH_ATTEMPT_LOST,
};
const char *bh_run_status_text(enum bh_run_status s);
const char *bh_node_state_text(enum bh_node_state s);
const char *bh_attempt_state_text(enum bh_attempt_state s);
int bh_attempt_state_parse(const char *text); /* -1 where unknown */

enum bh_event_kind {
    BH_EV_START, /* the first event of a run */
    BH_EV_OWNER, /* an engine process took the run up (again): every live execution is lost together with bulkhead; the
                    epoch rises */
    BH_EV_RETRY_FAILED,  /* a person resumed: failed, skipped and cancelled nodes wait again */
    BH_EV_WORKER_UP,     /* worker, slots */
    BH_EV_WORKER_LOST,   /* worker: its executions are lost */
    BH_EV_STATE,         /* instance, epoch, state: booting … collecting */
    BH_EV_ENDED,         /* instance, epoch, state (one of the four ends), reason, phase */
    BH_EV_FROZEN,        /* box, layer */
    BH_EV_FREEZE_FAILED, /* box */
    BH_EV_CANCEL,        /* somebody asked: nothing starts, live executions are cancelled */
    BH_EV_DEADLINE,      /* the run's deadline has passed */
};
const char *bh_event_kind_text(enum bh_event_kind k); /* "attempt.ended": also the kind in the store */
int bh_event_kind_parse(const char *text);            /* -1 where unknown */

struct bh_event {
    enum bh_event_kind kind;
    int worker; /* index given by whoever drives; 0 is the embedded one */
    int slots;
    struct bh_instance_id instance;
    int64_t epoch;
    enum bh_attempt_state state;
    enum bh_reason reason;
    enum bh_phase phase;
    size_t box;
    char layer[64]; /* name of the frozen layer */
};

enum bh_effect_kind {
    BH_EFFECT_LEASE,    /* node, attempt, try, instance, epoch, worker: carry it out */
    BH_EFFECT_KILL,     /* instance, epoch: SIGTERM, grace, SIGKILL; ends with BH_EV_ENDED cancelled */
    BH_EFFECT_FREEZE,   /* box, layer: turn the quiet box into that layer; ends with BH_EV_FROZEN or _FREEZE_FAILED */
    BH_EFFECT_DEADLINE, /* at: raise BH_EV_DEADLINE then */
    BH_EFFECT_ENDED,    /* the run has ended: status */
};
struct bh_effect {
    enum bh_effect_kind kind;
    size_t node, box;
    int attempt, try_, worker;
    struct bh_instance_id instance;
    int64_t epoch;
    char layer[64];
    struct bh_wall at;
    enum bh_run_status status;
};
struct bh_effects { /* zero-initialise; emptied by bh_engine_step, freed by bh_effects_fini */
    struct bh_effect *items;
    size_t len, cap;
};
void bh_effects_fini(struct bh_effects *e);

struct bh_attempt {
    size_t node;
    int attempt, try_; /* both from 1 */
    struct bh_instance_id instance;
    int64_t epoch;
    int worker;
    enum bh_attempt_state state;
    enum bh_reason reason;
    enum bh_phase phase;
    struct bh_wall created, started, ended; /* us 0: not yet */
    bool died_with_bulkhead;
};

struct bh_node {
    enum bh_node_state state;
    enum bh_reason reason; /* of a failed one */
    enum bh_phase phase;
    size_t blamed; /* of a skipped one: the node because of which; SIZE_MAX where none */
};

struct bh_layer_name {
    char s[64];
};
struct bh_box_state {
    bool freezing; /* between BH_EFFECT_FREEZE and its answer: nothing is leased into it */
    bool dirty;    /* somebody succeeded in it since it was last frozen */
    struct bh_layer_name
        layer; /* the newest frozen state, "" where there is none; it names its own lowers (workers/rootfs/layers.h) */
};

struct bh_engine;
/* Borrows spec, which must outlive it. */
struct bh_engine *bh_engine_new(struct bh_run_id run, const struct bh_spec *spec);
void bh_engine_free(struct bh_engine *e);

/* Applies one event. `effects` is emptied first. An event that is stale or that the state forbids changes nothing and
 * gives `false`. */
bool bh_engine_step(struct bh_engine *e, const struct bh_event *event, struct bh_wall now, struct bh_effects *effects);

enum bh_run_status bh_engine_status(const struct bh_engine *e);
int64_t bh_engine_epoch(const struct bh_engine *e);
const struct bh_node *bh_engine_node(const struct bh_engine *e, size_t node);
size_t bh_engine_n_attempts(const struct bh_engine *e);
const struct bh_attempt *bh_engine_attempt(const struct bh_engine *e, size_t i); /* in order of creation */
const struct bh_attempt *bh_engine_find(const struct bh_engine *e,
                                        struct bh_instance_id instance); /* NULL where unknown */
const struct bh_box_state *bh_engine_box(const struct bh_engine *e, size_t box);
/* The first reason that made the run fail, for the exit status; BH_REASON_NONE where it has not failed. ret_node may be
 * NULL. */
enum bh_reason bh_engine_failure(const struct bh_engine *e, size_t *ret_node);

/* What changed in the last step, for projections: indices, each once. Valid until the next step. */
struct bh_changes {
    const size_t *nodes, *attempts, *boxes;
    size_t n_nodes, n_attempts, n_boxes;
    bool run;
};
struct bh_changes bh_engine_changes(const struct bh_engine *e);
