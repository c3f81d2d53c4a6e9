/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways out of a box: for one execution the sockets that listen in its box, each handed to the broker that accepts
 * from it. One is the proxy, whose rules change with the phase; each endpoint has one of its own. An execution that may
 * reach nothing has none of this, and nothing is made.
 *
 * In a phase that has the host's network there are no sockets, and nothing is decided for it: it is written down that
 * it begins, before it does.
 *
 * A box has its sockets to itself; in a shared box each execution has its own, and what one agent there may reach all
 * of them may.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "base/mem.h"
#include "workers/box/box.h"
#include "workers/brokers.h"

struct bh_helper;
struct bh_ways;

/* Phases as bits. */
#define BH_WAYS(phase) (1u << (phase))

/* Whether one of these phases has the host's network, and so the box has to be made for it. */
bool bh_ways_on_host(const struct bh_lease *lease, unsigned phases);

/* Whether there is anything to be reached in one of these phases. */
bool bh_ways_needed(const struct bh_lease *lease, unsigned phases);

struct bh_ways_host { /* the same for all of a worker */
    struct event_base *loop;
    struct bh_brokers *brokers;
    struct bh_helper *audit; /* does nothing else: connections wait for what it writes */
    const char *home;
};

struct bh_ways_spec {
    const struct bh_ways_host *host;
    const struct bh_lease *lease;
    struct bh_box *box;
    unsigned phases; /* that are to come in this box */
    /* It cannot go on: a limit of calls was met (`budget`), or a broker has ended. `why` is borrowed. At most once. */
    void (*broken)(void *arg, bool budget, const char *why);
    void *arg;
};

/* All of it is borrowed until the ways are freed. */
struct bh_ways *bh_ways_new(const struct bh_ways_spec *spec);

/*
 * The phase begins: when `ready` is called with 0, all that was open under the rules of another one is cut, and what
 * this one may reach can be reached; that it has the host's network is in the audit log. Never called from inside; not
 * called any more after bh_ways_stop or free.
 */
typedef void (*bh_ways_ready_fn)(void *arg, int code, const struct bh_err *err);
void bh_ways_enter(struct bh_ways *w, enum bh_net_phase phase, bh_ways_ready_fn ready, void *arg);

/* `env` and what programs find the ways by in the phase that was entered; what it has already stays. */
const char *const *bh_ways_env(const struct bh_ways *w, struct bh_arena *arena, const char *const *env);

/* Nobody needs them any more. May be repeated. */
void bh_ways_stop(struct bh_ways *w);
/* Stops. `gone` is called from the loop when every decision has come and is on the disk, or is not waited for any
 * longer; not after free. */
void bh_ways_close(struct bh_ways *w, void (*gone)(void *arg), void *arg);

struct bh_ways_usage {
    int64_t requests, tokens_in, tokens_out;
};
struct bh_ways_usage bh_ways_usage(const struct bh_ways *w); /* whole once closed */
char *bh_ways_text(const struct bh_ways *w);                 /* as bh_decisions_text */
void bh_ways_free(struct bh_ways *w);                        /* NULL is fine */
