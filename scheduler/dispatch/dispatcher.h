/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives one live run over the bus: what workers say becomes events, what is durable becomes answers and effects,
 * effects become messages. One thread, on the loop it is given; blocks only in the store's commit.
 */
#pragma once

#include "scheduler/dispatch/live_run.h"

struct event_base;
struct bh_dispatcher;

struct bh_dispatcher_owner {
    void *arg;
    const struct bh_home *home; /* borrowed; where people's decisions about gates are found; NULL: nowhere */
    /* A gate's question is on record, was decided or has expired. May be NULL. */
    void (*gate)(void *arg, size_t gate);
    /* The run has ended and its boxes are released. */
    void (*ended)(void *arg, enum bh_run_status status);
    /* The store refused: the run must not go on in this process. `err` is taken. */
    void (*failed)(void *arg, struct bh_err *err);
};

/* Borrows loop and run. Opens the bus at `url`. */
int bh_dispatcher_new(struct event_base *loop, struct bh_live_run *run, const char *url, const char *token,
                      struct bh_dispatcher_owner owner, struct bh_dispatcher **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_dispatcher_free(struct bh_dispatcher *d);

/* Feeds an event of the owner's (CANCEL …) with `extra` (taken, may be NULL) and carries out
 * what follows. */
void bh_dispatcher_feed(struct bh_dispatcher *d, const struct bh_event *event, struct bh_val *extra);
/* Feeds several as one: they are durable together, and only what holds after the last of them is carried out. Each has
 * `extra` (taken, may be NULL). */
void bh_dispatcher_begin(struct bh_dispatcher *d, const enum bh_event_kind *kinds, size_t n, struct bh_val *extra);
/* The workers are gone: whatever still lives ends as cancelled. The run's end is durable on return. */
int bh_dispatcher_abandon(struct bh_dispatcher *d, struct bh_err **err) BH_MUST_CHECK;
