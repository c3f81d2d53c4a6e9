/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run state machine, pure: `step(run, event, now) -> effects`. No I/O, no clock, no randomness. The events are the
 * log: whoever drives the engine makes an event durable and only then carries out the effects of its step; replaying
 * the same events with the same times over the same spec gives the same state and the same effects, instance ids
 * included (a counter of the run).
 *
 *   attempt: queued → leased → booting → setup → running → checking → collecting
 *            → succeeded | failed | cancelled | lost
 *   node:    waiting → ready → active → done | failed | skipped | cancelled
 *   run:     queued → running → succeeded | failed | cancelled
 *
 * States and moves are tables (states.def), events too (events.def); each machine's diagram opens the file that owns it
 * (engine.c, engine_nodes.c, engine_attempts.c, engine_boxes.c, engine_gates.c).
 *
 * A node of several executions (spec forks) makes a setup and a preparation once, then its attempts run at once; which
 * of them becomes its result policies/select decides. Attempt 0 are the setup and the preparation.
 *
 * A node may wait for gates: questions to a person, one of its own and one of its stage. Who is refused fails.
 *
 * Fencing: what comes from a worker carries (instance, epoch); an event that does not name a live execution with its
 * epoch changes nothing.
 *
 * What makes a run end as it does:
 *   - a failed node counts as a failure unless somebody handles it: `continue_on_failure`, or a dependent that takes it
 *     as OPTIONAL. More than `failures_allowed` of them fail the run: nothing new starts (no retry either; `keep_going`
 *     lifts this), what runs finishes (a node of several executions with all of them), what never started is `skipped`;
 *   - who REQUIREs a node that did not succeed is `skipped` at once, and so on; that alone fails no run;
 *   - CANCEL, DEADLINE: what never started is `cancelled`, what runs is killed; the run ends `cancelled`, or `failed`
 * by `timeout`. Of the two the first counts. An execution that still succeeds is done all the same.
 *
 * Shared boxes are frozen at stage ends (without stages: after successes) when nobody runs in them, else at the next
 * quiet moment. A run that succeeds, is cancelled or runs out of time ends without a last freeze; one that fails by its
 * agents freezes first, so that a person who resumes it finds what those who succeeded left behind.
 */
#pragma once

#include "base/clock.h"
#include "base/id.h"
#include "policies/reasons.h"
#include "scheduler/core/spec.h"

enum bh_run_status {
#define BH_RUN_STATE(name, text) BH_RUN_##name,
#include "scheduler/core/states.def"
};
enum bh_node_state {
#define BH_NODE_STATE(name, text) BH_NODE_##name,
#include "scheduler/core/states.def"
};
enum bh_attempt_state {
#define BH_ATTEMPT_STATE(name, text) BH_ATTEMPT_##name,
#include "scheduler/core/states.def"
};
/* Any value is accepted; an unknown one gives "". */
const char *bh_run_status_text(enum bh_run_status s);
const char *bh_node_state_text(enum bh_node_state s);
const char *bh_attempt_state_text(enum bh_attempt_state s);
int bh_attempt_state_parse(const char *text); /* -1 where unknown */

/*
 *   START          the first event of a run
 *   OWNER          an engine process took the run up (again): every live execution is lost together with bulkhead, all
 *                  workers are forgotten (WORKER_UP follows), the epoch rises
 *   RETRY_FAILED   a person resumed: failed, skipped and cancelled nodes wait again, retries and the failure budget
 *                  count anew, the deadline begins anew. After a restart it comes behind OWNER, and where OWNER ended
 *                  the run (it was being cancelled), RETRY_FAILED takes it up again: carry the effects of both out
 *                  together and look at bh_engine_status(). A run that has succeeded stays so
 *   WORKER_UP      worker, slots; again with other slots: it has that many now
 *   WORKER_LOST    worker: its executions are lost, its shared boxes fall back to their last layer
 *   STATE          instance, epoch, state: booting … collecting; backward moves change nothing
 *   ENDED          instance, epoch, state (one of the four ends), reason, phase. `cancelled` that nobody asked for
 *                  counts as lost
 *   PUBLISHED      instance: the outputs of the chosen attempt have the plain names now; with a reason: they could not
 *                  have them, and the node fails by it
 *   FROZEN         box, layer: as in the effect
 *   FREEZE_FAILED  box, layer (may be ""), reason: the box is gone. With a reason the run fails by it, for what agents
 *                  left there is lost; without one the box had been lost before, and the run goes on from its newest
 *                  layer
 *   GATE_ASKED     gate: its question is on record; from now on it can expire
 *   GATE_DECIDED   gate, approved: who waits for it may start, or fails by `policy`
 *   GATE_EXPIRED   gate: nobody decided in time; who waits for it fails by `timeout(gate)`
 *   CANCEL         somebody asked: nothing starts, live executions are killed. Idempotent
 *   DEADLINE       the run's deadline has passed
 */
enum bh_event_kind {
#define BH_EVENT(name, text, handler, statuses) BH_EV_##name,
#include "scheduler/core/events.def"
#undef BH_EVENT
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
    bool has_score; /* ENDED */
    double score;
    size_t box;
    char layer[64]; /* name of the frozen layer */
    size_t gate;
    bool approved; /* GATE_DECIDED */
};

enum bh_effect_kind {
    BH_EFFECT_LEASE,   /* execution, node, box, attempt, try, instance, epoch, worker: carry it out */
    BH_EFFECT_KILL,    /* the same of a live one: SIGTERM, grace, SIGKILL; ends with BH_EV_ENDED cancelled */
    BH_EFFECT_FREEZE,  /* box, layer, worker: turn the quiet box into that layer (a name never used before in this run);
                          ends with BH_EV_FROZEN or _FREEZE_FAILED */
    BH_EFFECT_PUBLISH, /* node, attempt, instance: give the outputs of this attempt the plain names; ends with
                          BH_EV_PUBLISHED */
    BH_EFFECT_ASK,     /* gate: put its question; answered by BH_EV_GATE_ASKED, or at once by BH_EV_GATE_DECIDED */
    BH_EFFECT_EXPIRY,  /* gate, at: raise BH_EV_GATE_EXPIRED then, unless it was decided */
    BH_EFFECT_DEADLINE, /* at: raise BH_EV_DEADLINE then; a later one replaces it */
    BH_EFFECT_ENDED,    /* the run has ended: status. Once per ending, the last effect of its step */
};
/* What an execution is for: the attempt itself, or what attempts start from. */
enum bh_execution { BH_EXECUTION_RUN, BH_EXECUTION_SETUP, BH_EXECUTION_PREPARE };

struct bh_effect {
    enum bh_effect_kind kind;
    enum bh_execution execution;
    size_t node, box, gate;
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
    enum bh_execution kind;
    int attempt, try_; /* both from 1; attempt 0: a setup or preparation */
    struct bh_instance_id instance;
    int64_t epoch;
    int worker;
    enum bh_attempt_state state;
    enum bh_reason reason;
    enum bh_phase phase;
    struct bh_wall created, started, ended; /* us 0: not yet; started: the first state behind leased */
    bool died_with_bulkhead;                /* lost by OWNER: counts against nothing */
    bool selected;                          /* it is, or is among, what its node gives on */
};

struct bh_node {
    enum bh_node_state state;
    /* Of a failed one: why. Of a skipped one: INPUT_SKIPPED where something it requires did not succeed, NONE where the
     * failure budget kept it from starting. */
    enum bh_reason reason;
    enum bh_phase phase;
    size_t
        blamed; /* of a skipped one: the failed node at the root of it; SIZE_MAX: it was left out; others: SIZE_MAX */
};

struct bh_layer_name {
    char s[64];
};
struct bh_box_state {
    bool freezing; /* between BH_EFFECT_FREEZE and its answer: nothing is leased into it */
    bool dirty;    /* shared ones: somebody succeeded in it since it was last frozen */
    /* The newest frozen state, "" where there is none; it names its own lowers (workers/rootfs/layers.h). */
    struct bh_layer_name layer;
};

struct bh_gate {
    enum bh_gate_state { BH_GATE_SHUT, BH_GATE_ASKED, BH_GATE_OPEN, BH_GATE_REFUSED } state;
    struct bh_wall expires; /* of one that is asked; us 0: its question is not on record yet */
};

struct bh_engine;
/* Borrows spec, which must outlive it, must not change, and must be free of cycles. */
struct bh_engine *bh_engine_new(struct bh_run_id run, const struct bh_spec *spec);
void bh_engine_free(struct bh_engine *e);

/* Applies one event. `effects` is emptied first. An event that is stale or that the state forbids changes nothing and
 * gives `false`. */
bool bh_engine_step(struct bh_engine *e, const struct bh_event *event, struct bh_wall now, struct bh_effects *effects);

/* What these point to is valid until the next step. An index out of range is a programmer's error. */
enum bh_run_status bh_engine_status(const struct bh_engine *e);
int64_t bh_engine_epoch(const struct bh_engine *e); /* from 1 */
const struct bh_node *bh_engine_node(const struct bh_engine *e, size_t node);
size_t bh_engine_n_attempts(const struct bh_engine *e);
const struct bh_attempt *bh_engine_attempt(const struct bh_engine *e, size_t i); /* in order of creation */
const struct bh_attempt *bh_engine_find(const struct bh_engine *e,
                                        struct bh_instance_id instance); /* NULL where unknown */
/* Of a node of several executions: whether this attempt has ended and is not tried again. */
bool bh_engine_is_final(const struct bh_engine *e, struct bh_instance_id instance);
const struct bh_box_state *bh_engine_box(const struct bh_engine *e, size_t box);
const struct bh_gate *bh_engine_gate(const struct bh_engine *e, size_t gate);
/*
 * What made the run fail, for the exit status: the failure by which the budget was first exceeded, or TIMEOUT
 * (*ret_node SIZE_MAX) for the deadline; known as soon as the run is bound to fail. BH_REASON_NONE where it has not
 * failed. ret_node may be NULL.
 */
enum bh_reason bh_engine_failure(const struct bh_engine *e, size_t *ret_node);

/* What changed in the last step, for projections: indices, each once. Valid until the next step. */
struct bh_changes {
    const size_t *nodes, *attempts, *boxes;
    size_t n_nodes, n_attempts, n_boxes;
    bool run; /* its status, epoch or failure */
};
struct bh_changes bh_engine_changes(const struct bh_engine *e);
