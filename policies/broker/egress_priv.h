/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress broker's parts: the process, a way out of a box, a connection. A way out is one listening socket of a
 * box's network namespace, so that who speaks is known by where the connection came in.
 *
 * A connection's life:
 *   HEAD ── bh_conn_asked ──► LOOKUP ──► CONNECT ──► NOTE ── egress_flow.c ──► FLOW ──► gone
 *     └──────────── refused ─────┴──────────┴─────────┴── bh_conn_refuse ──► LINGER ──► gone
 * In NOTE not a byte goes anywhere until the worker has it in the audit log.
 * What is gone stays in `dead` until the loop's turn is over, so that nothing is freed under a callback of its own.
 */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "policies/broker/control.h"
#include "policies/broker/egress_head.h"
#include "policies/broker/egress_lookup.h"
#include "policies/broker/egress_pipe.h"
#include "policies/broker/egress_socks.h"
#include "policies/broker/rate.h"

struct bh_egress {
    struct event_base *loop;
    struct bh_control *control;
    struct bh_lookups *lookups;
    struct bh_list exits, dead;
    struct event *reaper, *again;
    size_t n_conns, max_conns;
    size_t at_once, head_max; /* bytes that one connection may make us hold; the less the more there are */
    bool paused;              /* nobody is accepted */
    int status;
};

struct bh_egress_limits {
    int64_t connections; /* of one box at once */
    int64_t rate;        /* of new ones in a second, and twice as many at a stroke */
    int64_t head_ms, connect_ms, idle_ms, total_ms;
};

struct bh_egress_exit {
    struct bh_list link, conns;
    struct bh_egress *e;
    int64_t id;
    bool notes;       /* the worker writes down what is let through before it is used */
    int64_t n_opened; /* the number of the last one */
    char *agent, *phase;
    struct bh_egress_policy policy;
    struct bh_egress_limits limits;
    int listener;
    struct event *acceptable, *later; /* the latter while it has to wait */
    size_t n_conns;
    struct bh_rate arrivals;
};

struct bh_egress_conn {
    struct bh_list link;
    struct bh_egress_exit *exit;
    enum {
        BH_CONN_HEAD,
        BH_CONN_LOOKUP,
        BH_CONN_CONNECT,
        BH_CONN_NOTE,
        BH_CONN_FLOW,
        BH_CONN_LINGER,
        BH_CONN_DEAD
    } state;
    enum { BH_SPEAKS_HTTP, BH_SPEAKS_CONNECT, BH_SPEAKS_SOCKS4, BH_SPEAKS_SOCKS5 } speaks;
    bool over;      /* one more than the box may have */
    bool greeted;   /* SOCKS 5 */
    bool let;       /* let through; what becomes of it is told at its end */
    int64_t number; /* of those that the worker was told of when they were open; 0: it was not */
    int client, upstream;
    struct event *readable, *connected, *timer;
    struct bh_mono began, last; /* a byte in any direction */
    struct bh_buf in;           /* what the client has sent and nobody has used */
    size_t looked;              /* of it, for the end of the head */
    struct bh_egress_request request;
    enum bh_egress_reason reason;
    struct bh_lookup *lookup;
    unsigned char addresses[BH_LOOKUP_MAX][BH_ADDRESS_LEN];
    int n_addresses, next_address;
    struct bh_buf answer_head; /* of upstream, as far as it is there; plain HTTP alone */
    bool answer_begun;
    size_t drained;
    struct bh_pipe up, down;
};

/* egress.c */
void bh_egress_count(struct bh_egress *e, int change);
void bh_egress_decision(const struct bh_egress_conn *c, enum bh_egress_reason reason);
/* It is connected, and to be noted before it is used. */
void bh_egress_opened(const struct bh_egress_conn *c);

/* egress_conn.c. Takes `client`. */
void bh_conn_begin(struct bh_egress_exit *x, int client);
/* The client has asked for c->request: decides, and goes on or refuses. */
void bh_conn_asked(struct bh_egress_conn *c);
/* Its upstream is there: it is used as soon as it may be. */
void bh_conn_connected(struct bh_egress_conn *c);
/* The worker has written it down, or could not. */
void bh_conn_noted(struct bh_egress_conn *c, bool ok);
/* It comes to nothing: says so to the worker and to the client. */
void bh_conn_refuse(struct bh_egress_conn *c, enum bh_egress_reason reason);
/* At once, without a word to the client. What was let through is told to have ended by `reason`. */
void bh_conn_end(struct bh_egress_conn *c, enum bh_egress_reason reason);
void bh_conn_time(struct bh_egress_conn *c, int64_t ms);
void bh_conn_free(struct bh_egress_conn *c);

/* egress_head_io.c: reads from the client until it has asked. */
void bh_conn_listen(struct bh_egress_conn *c);

/* egress_connect.c: to one of c->addresses. */
void bh_conn_connect(struct bh_egress_conn *c);
/* Whether the host itself has the address: then the kernel would speak from it. */
bool bh_address_is_own(const unsigned char address[static BH_ADDRESS_LEN]);

/* egress_flow.c: both are connected. */
void bh_conn_flow(struct bh_egress_conn *c);
/* The answer to the client is `text`, and then nothing. */
void bh_conn_linger(struct bh_egress_conn *c, const void *text, size_t len);

/* egress_reply.c: what the client is told where it came to nothing. */
void bh_egress_reply(const struct bh_egress_conn *c, enum bh_egress_reason reason, struct bh_buf *out);
