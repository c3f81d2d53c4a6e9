/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: the engine, its log in memory, and workers that exist only as messages on a virtual clock. Everything
 * that is random comes from one seed. What its files share.
 */
#pragma once

#include "tests/scenarios/replay.h"

#define SIM_MAX_WORKERS 3

/* --- sim_rng.c --- */
struct sim_rng {
    uint64_t state;
};
uint64_t sim_next(struct sim_rng *r);
unsigned sim_below(struct sim_rng *r, unsigned n); /* 0 … n - 1 */
bool sim_chance(struct sim_rng *r, unsigned percent);

/* --- sim_spec.c: a random run --- */
struct bh_spec *sim_spec(struct sim_rng *r);

/* --- sim_world.c: what is under way --- */
enum sim_msg_kind {
    SIM_EVENT,      /* an event for the engine */
    SIM_WORKER_UP,  /* worker: comes up, unless it is */
    SIM_WORKER_DIE, /* worker: goes, unless it has; WORKER_LOST follows */
    SIM_TIMER,      /* the deadline's timer; counts only while it is the newest */
};
struct sim_msg {
    int64_t at;
    uint64_t seq;
    enum sim_msg_kind kind;
    int worker;
    uint64_t timer;
    struct bh_event ev;
};
struct sim_temper { /* what this seed's world is like, in percent */
    unsigned fail, lost, duplicate, freeze_fails, crash, store_error, killed_late;
    int64_t slowest; /* of a message, in µs */
};
struct sim_world {
    struct sim_rng rng;
    struct sim_temper temper;
    struct sim_msg *heap;
    size_t len, cap;
    uint64_t seq, timer;
    bool up[SIM_MAX_WORKERS];
    int n_workers, deaths_left;
};
void sim_world_init(struct sim_world *w, uint64_t seed);
void sim_world_fini(struct sim_world *w);
void sim_send(struct sim_world *w, int64_t at, struct sim_msg msg);
bool sim_receive(struct sim_world *w, struct sim_msg *ret);
/* What a worker makes of an effect: messages, later. */
void sim_carry_out(struct sim_world *w, const struct bh_effect *f, int64_t now);
void sim_workers_come(struct sim_world *w, int64_t now);

/* --- sim_check.c: what must hold, by a book of its own --- */
enum { SIM_ONCE = 2 }; /* units before the attempts: setup, preparation */
struct sim_unit_book {
    bool passed, has_score;
    double score;
    int order, starts;
};
struct sim_node_book {
    struct sim_unit_book *units; /* of a node of several executions; else NULL */
    size_t n_live, publishing;   /* publishing: an attempt, or SIZE_MAX */
    int passes;
    bool may_redo, published, refused, begun;
    bool done, handled;
    int successes, starts;
    size_t live;          /* attempt, or SIZE_MAX */
    unsigned host, other; /* bad ends that count, since a person resumed last */
    uint64_t digest;
};
struct sim_attempt_book {
    bool live, kill_asked;
    uint64_t digest;
};
struct sim_box_book {
    int home;
    bool due;
    char pending[64]; /* the layer that was asked for last */
    uint64_t digest;
};
struct sim_book {
    const struct bh_spec *spec;
    struct sim_node_book *nodes;
    struct sim_box_book *boxes;
    struct sim_attempt_book *attempts;
    size_t n_attempts, cap_attempts;
    enum bh_run_status status;
    int64_t epoch;
    uint64_t run_digest;
    int slots[SIM_MAX_WORKERS]; /* 0: down */
    bool cancelled, timed_out, started, over_budget;
    char (*layers)[64];
    size_t n_layers, cap_layers;
    char error[256]; /* the first invariant that broke; "" */
};
void sim_book_init(struct sim_book *b, const struct bh_spec *spec, const struct bh_engine *e);
void sim_book_fini(struct sim_book *b);
/* sim_forks.c */
void sim_forks_init(struct sim_book *b);
void sim_forks_fini(struct sim_book *b);
void sim_fork_ended(struct sim_book *b, const struct bh_engine *e, size_t attempt, const struct bh_event *ev);
void sim_forks_event(struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev);
void sim_fork_leased(struct sim_book *b, const struct bh_engine *e, const struct bh_effect *f);
void sim_fork_publishes(struct sim_book *b, const struct bh_engine *e, const struct bh_effect *f);
void sim_fork_check(struct sim_book *b, const struct bh_engine *e, size_t i);
bool sim_fork_is_held(const struct sim_book *b, const struct bh_engine *e, size_t node);
bool sim_fork_could_start(const struct sim_book *b, const struct bh_engine *e, size_t node);
/* Before the step: whether the event must mean something; -1: not for the book to say. */
int sim_foresee(const struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev);
/* After the step. False, with an error, where something does not hold. */
bool sim_check(struct sim_book *b, const struct bh_engine *e, const struct bh_event *ev, int foreseen, bool meant,
               const struct bh_effects *fx);
