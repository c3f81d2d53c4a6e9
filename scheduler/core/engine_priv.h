/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the engine share and nobody else sees. Who may write what:
 *   engine.c            status, stop, failure, workers, epoch; the handlers of events and the end of the run
 *   engine_nodes.c      node states, counters of unmet dependencies, open groups and stages, what is in the ready queue
 *   engine_attempts.c   attempt states, the list of live ones, how many run on a worker
 *   engine_forks.c      the units of nodes of several executions, which setups are being made
 *   engine_gates.c      gate states, what of them is to be asked
 *   engine_boxes.c      box states, how many run in a box, the ready queue's holds
 */
#pragma once

#include "base/list.h"
#include "base/mem.h"
#include "policies/failure_budget.h"
#include "policies/retry.h"
#include "scheduler/core/engine.h"
#include "scheduler/core/graph_priv.h"
#include "scheduler/core/ready_priv.h"

#define BH_ENGINE_MAX_WORKERS 4096
#define BH_ENGINE_MAX_INSTANCES 999999 /* what an instance id can count */
#define BH_NONE SIZE_MAX

/* Why nothing starts any more. While it is not NONE, no node is waiting or ready; BUDGET: but those of several
 * executions that have begun. */
enum bh_stop { BH_STOP_NONE, BH_STOP_BUDGET, BH_STOP_CANCEL, BH_STOP_DEADLINE };

enum bh_box_mode {
#define BH_BOX_STATE(name, text) BH_BOX_##name,
#include "scheduler/core/states.def"
};

/* One execution of a node of several, with its tries. */
enum bh_unit_state { BH_UNIT_READY, BH_UNIT_LIVE, BH_UNIT_PASSED, BH_UNIT_FAILED, BH_UNIT_STOPPED };
struct bh_engine_unit {
    enum bh_unit_state state;
    size_t execution; /* the newest: index into attempts */
    int tries;
    struct bh_retry_state retry;
    enum bh_reason reason;
    enum bh_phase phase;
    bool has_score;
    double score;
    uint64_t passed_as;
};
struct bh_engine_forks {
    struct bh_engine_unit *units;   /* setup, preparation (n_once), then the attempts */
    size_t n_units, n_once, n_live; /* all of them */
    size_t n_open, n_passed;        /* attempts: ready or live, passed */
    size_t next;                    /* no attempt before it is ready */
    uint64_t passes;                /* counts them */
    bool queued;                    /* in the ready queue */
    bool stopping;                  /* the choice is made */
    bool refused;                   /* its choice could not be published */
    bool begun;                     /* something of it was leased since it was opened last */
    bool cut_off;        /* something of it was lost when nothing could be tried again: no more of it starts */
    size_t publishing;   /* the unit whose outputs are being published, or BH_NONE */
    struct bh_list wait; /* in a setup's waiters or nowhere */
    size_t node;         /* set while it waits there */
};
struct bh_engine_setup {
    bool busy; /* somebody makes it */
    struct bh_list waiters;
};
struct bh_node_failure {
    enum bh_reason reason;
    enum bh_phase phase;
};

struct bh_engine_node {
    struct bh_node pub;
    size_t unmet; /* of a waiting one: dependencies that have not ended, and one for its group */
    size_t live;  /* its live execution, or BH_NONE: set exactly while it is active; not where it has forks */
    struct bh_engine_forks *forks;
    int tries;
    struct bh_retry_state retry;
    bool handled;  /* its failure counts against no budget */
    bool reopened; /* for the length of one call */
    uint64_t changed;
};

struct bh_engine_attempt {
    struct bh_attempt pub;
    size_t unit; /* of its node's forks */
    bool kill_asked;
    size_t prev, next; /* among the live ones, in order of creation */
    uint64_t changed;
};

struct bh_engine_box {
    struct bh_box_state pub; /* its freezing and dirty follow from mode */
    enum bh_box_mode mode;
    struct bh_list link; /* in engine.dirty, engine.due or nowhere */
    struct bh_list wait; /* in engine.slot_waiters or nowhere */
    size_t running;
    int home;                                             /* shared: the worker it lives on, -1 where none */
    char pending[sizeof(((struct bh_layer_name *)0)->s)]; /* while freezing: the layer asked for */
    uint64_t changed;
};

struct bh_engine_gate {
    struct bh_gate pub;
    size_t unmet; /* of a stage: nodes in `after` that have not ended */
    bool due;     /* in engine.due_gates */
};

struct bh_engine_worker {
    bool up;
    int slots, active;
};

struct bh_index_list {
    size_t *items;
    size_t len, cap;
};

struct bh_engine {
    unsigned magic;
    struct bh_run_id run;
    const struct bh_spec *spec;
    enum bh_run_status status;
    enum bh_stop stop;
    int64_t epoch;
    struct bh_wall deadline_at;
    struct {
        enum bh_reason reason;
        size_t node;
    } failure;
    size_t failures; /* unhandled ones */

    struct bh_engine_node *nodes;
    size_t n_in[BH_NODE_CANCELLED + 1]; /* nodes by state */
    struct bh_graph graph;
    size_t *group_open, *stage_open; /* by group, by stage: nodes that have not ended */
    size_t *work;                    /* a stack with room for all nodes */
    struct bh_ready ready;

    struct bh_engine_attempt *attempts;
    size_t n_attempts, cap_attempts, max_attempts;
    size_t live_first, live_last, n_live;

    struct bh_engine_box *boxes;
    struct bh_list dirty, due, slot_waiters;
    size_t n_freezing;
    unsigned n_layers; /* names given out */

    struct bh_engine_gate *gates;
    struct bh_index_list due_gates; /* those that may have to be asked at the end of this step */

    struct bh_engine_setup *setups;

    struct bh_engine_worker *workers;
    size_t n_workers, cap_workers;
    int64_t slots;   /* of the workers that are up */
    bool slot_freed; /* since slot_waiters were last let go: not every step comes to leasing */

    uint64_t step;
    struct bh_index_list changed_nodes, changed_attempts, changed_boxes;
    bool changed_run;
};

/* states.c */
bool bh_run_may_move(enum bh_run_status from, enum bh_run_status to);
bool bh_node_may_move(enum bh_node_state from, enum bh_node_state to);
bool bh_attempt_may_move(enum bh_attempt_state from, enum bh_attempt_state to);
bool bh_box_may_move(enum bh_box_mode from, enum bh_box_mode to);

/* effects.c: all of them emptied, one added (zeroed), what changed in this step, each once. */
struct bh_effect *bh_effects_add(struct bh_effects *fx, enum bh_effect_kind kind);
void bh_changed_node(struct bh_engine *e, size_t node);
void bh_changed_attempt(struct bh_engine *e, size_t attempt);
void bh_changed_box(struct bh_engine *e, size_t box);
void bh_changes_clear(struct bh_engine *e);

/* engine_nodes.c */
void bh_nodes_init(struct bh_engine *e);
void bh_nodes_fini(struct bh_engine *e);
void bh_node_set_state(struct bh_engine *e, size_t node, enum bh_node_state to);
/* The first time: whoever waits for nothing is ready. */
void bh_nodes_start(struct bh_engine *e);
void bh_node_done(struct bh_engine *e, size_t node);
void bh_node_fail(struct bh_engine *e, size_t node, enum bh_reason reason, enum bh_phase phase);
void bh_node_cancel(struct bh_engine *e, size_t node);
void bh_node_leave_out(struct bh_engine *e, size_t node, size_t blamed); /* it is skipped, with attempts unstarted */
size_t bh_node_unmet(const struct bh_engine *e, size_t node);            /* dependencies that have not ended */
bool bh_node_has_ended(const struct bh_engine *e, size_t node);
void bh_node_met_one(struct bh_engine *e, size_t node); /* of what it waits for, where it waits */
void bh_node_all_met(struct bh_engine *e,
                     size_t node);                    /* one that waits: it is ready, or its own gate is to be asked */
void bh_node_again(struct bh_engine *e, size_t node); /* its execution ended badly and is tried again */
/* Nothing starts any more: what never did is cancelled, or skipped because of `blamed`. */
void bh_nodes_close_cancelled(struct bh_engine *e);
void bh_nodes_close_skipped(struct bh_engine *e, size_t blamed);
void bh_nodes_reopen(struct bh_engine *e);

/* engine_attempts.c */
size_t bh_attempt_lease(struct bh_engine *e, size_t node, int worker, struct bh_wall now);
bool bh_attempt_progress(struct bh_engine *e, size_t attempt, enum bh_attempt_state to, struct bh_wall now);
void bh_attempt_end(struct bh_engine *e, size_t attempt, enum bh_attempt_state to, enum bh_reason reason,
                    enum bh_phase phase, struct bh_wall now);
bool bh_attempt_is_end(enum bh_attempt_state s);
/* The live execution that an event of a worker names with its epoch, or BH_NONE. */
size_t bh_attempt_place(const struct bh_engine *e, const struct bh_instance_id *instance); /* BH_NONE where unknown */
void bh_attempt_kill(struct bh_engine *e, size_t attempt, struct bh_effects *fx);          /* unless it was asked to */
size_t bh_attempt_named(const struct bh_engine *e, const struct bh_event *ev);

/* engine_forks.c */
void bh_forks_init(struct bh_engine *e);
void bh_forks_fini(struct bh_engine *e);
/* The unit that would start now, or BH_NONE. */
size_t bh_fork_next(struct bh_engine *e, size_t node);
/* True where its setup is being made by another: then it is held until that has ended. */
bool bh_fork_must_wait(struct bh_engine *e, size_t node);
void bh_fork_leased(struct bh_engine *e, size_t node, size_t attempt);
void bh_fork_give_up(struct bh_engine *e, size_t node); /* what has not started never will */
void bh_fork_requeue(struct bh_engine *e, size_t node);
void bh_fork_passed(struct bh_engine *e, size_t attempt, bool has_score, double score);
void bh_fork_ended_badly(struct bh_engine *e, size_t attempt, bool free_of_charge, enum bh_reason reason);
/* After an end. False where the node fails, by *ret. */
bool bh_fork_settle(struct bh_engine *e, size_t node, struct bh_effects *fx, struct bh_node_failure *ret);
void bh_fork_publish(struct bh_engine *e, size_t node, struct bh_effects *fx);
bool bh_fork_published(struct bh_engine *e, const struct bh_event *ev, size_t *ret_node);
void bh_forks_new_owner(struct bh_engine *e, struct bh_effects *fx);
void bh_fork_unqueue_all(struct bh_engine *e); /* the ready queue was emptied */
bool bh_fork_has_begun(const struct bh_engine *e, size_t node);
void bh_fork_forgive(struct bh_engine *e, size_t node);
/* Its node is opened again; `all`: also those who passed, for what they started from may be another now. */
void bh_fork_reopen(struct bh_engine *e, size_t node, bool all);

/* engine_gates.c */
void bh_gates_init(struct bh_engine *e);
void bh_gates_fini(struct bh_engine *e);
void bh_gates_count(struct bh_engine *e); /* what gates of stages wait for: from scratch */
void bh_gates_start(struct bh_engine *e);
bool bh_gate_is_open(const struct bh_engine *e, size_t gate); /* 1 + its index; 0: there is none, so yes */
/* It may have to be asked: bh_gates_ask looks at the end of the step. */
void bh_gate_due(struct bh_engine *e, size_t gate);
void bh_gates_ask(struct bh_engine *e, struct bh_effects *fx);
/* Somebody who had passed it (1 + its index; 0: none) waits for it again: it was shut since, and perhaps refused. */
void bh_gate_await(struct bh_engine *e, size_t gate);
void bh_gates_node_ended(struct bh_engine *e, size_t node);
void bh_gates_new_owner(struct bh_engine *e);
void bh_gates_reopen(struct bh_engine *e);
/* False where nobody waits for the answer. */
bool bh_gate_asked(struct bh_engine *e, size_t gate, struct bh_wall now, struct bh_effects *fx);
bool bh_gate_open(struct bh_engine *e, size_t gate);
bool bh_gate_refuse(struct bh_engine *e, size_t gate); /* who waits for it is to be failed by who calls */

/* engine_boxes.c */
void bh_boxes_init(struct bh_engine *e);
void bh_boxes_fini(struct bh_engine *e);
void bh_box_enter(struct bh_engine *e, size_t box, int worker);
void bh_box_leave(struct bh_engine *e, size_t box);
void bh_box_succeeded(struct bh_engine *e, size_t box);
void bh_boxes_stage_ended(struct bh_engine *e);
void bh_boxes_freeze_due(struct bh_engine *e, struct bh_effects *fx);
bool bh_box_frozen(struct bh_engine *e, size_t box, const char *layer);
bool bh_box_freeze_failed(struct bh_engine *e, size_t box, const char *layer);
void bh_boxes_worker_lost(struct bh_engine *e, int worker);
void bh_boxes_forget_workers(struct bh_engine *e);
/* The worker that an execution in this box goes to now, or -1: then the box is held until a slot is free. */
int bh_box_pick_worker(struct bh_engine *e, size_t box);
void bh_boxes_slot_freed(struct bh_engine *e);
