/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the engine share and nobody else sees. Who may write what:
 *   engine.c            status, stop, failure, workers, epoch; the handlers of events and the end of the run
 *   engine_nodes.c      node states, counters of unmet dependencies, open groups and stages, what is in the ready queue
 *   engine_attempts.c   attempt states, the list of live ones, how many run on a worker
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

/* Why nothing starts any more. While it is not NONE, no node is waiting or ready. */
enum bh_stop { BH_STOP_NONE, BH_STOP_BUDGET, BH_STOP_CANCEL, BH_STOP_DEADLINE };

enum bh_box_mode {
#define BH_BOX_STATE(name, text) BH_BOX_##name,
#include "scheduler/core/states.def"
};

struct bh_engine_node {
    struct bh_node pub;
    size_t unmet; /* of a waiting one: dependencies that have not ended, and one for its group */
    size_t live;  /* its live execution, or BH_NONE: set exactly while it is active */
    int tries;
    struct bh_retry_state retry;
    bool handled; /* its failure counts against no budget */
    uint64_t changed;
};

struct bh_engine_attempt {
    struct bh_attempt pub;
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
size_t bh_attempt_named(const struct bh_engine *e, const struct bh_event *ev);

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
