/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the endpoint broker: an endpoint (one box, one service) has connections, a connection has at most one
 * call at a time, a call has at most one transfer to the service.
 *
 *   endpoint.c       control messages, listening, deadlines, budgets
 *   endpoint_slow.c  services whose secrets have to be waited for
 *   endpoint_conn.c  a connection of a box: heads, bodies, what is written back
 *   endpoint_count.c what a limit on tokens needs beside counting
 *   endpoint_call.c  a call: whether it may be, its turn, the transfer, the reply, the report
 *
 * Freed are connections and calls from the loop's events alone, never from inside a callback of a transfer.
 */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "policies/broker/endpoint_gate.h"
#include "policies/broker/endpoint_rules.h"
#include "policies/broker/endpoint_service.h"
#include "policies/broker/endpoint_transfer.h"
#include "policies/broker/endpoint_usage.h"
#include "policies/broker/http.h"
#include "policies/broker/rate.h"
#include "policies/needles.h"

struct bh_control;
struct bh_val;
struct event;
struct event_base;

enum {
    BH_CONNS_MAX = 1000,            /* of one box to one endpoint; more wait to be accepted */
    BH_CONN_IN_MAX = 65 * 1024,     /* more than a head: what a box sent and nobody took yet */
    BH_CONNS_FEW = 128,             /* of a box with more connections than this … */
    BH_CONN_IN_CROWDED = 16 * 1024, /* … each may keep this much waiting */
    BH_CONN_IN_LEAST = 4 * 1024,    /* … and, where its box has used up its share of all, a call that goes on */
    BH_CONN_SKIP_MAX = 16 << 20,    /* of a body that nobody wants, before the connection is closed instead */
    BH_REFUSALS = 100,              /* of one box in a second; then it is read from no more */
    BH_TOLD = 10,                   /* of them, one by one; the others are told in sum */
    BH_ARRIVALS = 500,              /* of new connections */
    BH_HEAD_S = 30,                 /* for a head that has begun */
    BH_KEEP_ALIVE_S = 120,          /* for the next one */
    BH_SKIP_S = 10,                 /* for what a box still sends when all is said */
    BH_IN_THE_WAY_S = 5,            /* that a box lets a call stand in a place that others wait for, and … */
    BH_LEAST_RATE = 64 * 1024,      /* … a second more for so many bytes that it moved */
    BH_STALL_S = 300,               /* a box that takes nothing, or gives nothing of its body */
    BH_IDLE_S = 900,                /* a service that says nothing */
    BH_TOTAL_S = 4 * 3600,          /* a call */
    BH_COUNTED_AT_ONCE = 4,         /* calls of an execution that has a limit on tokens */
    BH_READ_ON_S = 120,             /* a reply that is only counted, for its box has left; and … */
    BH_READ_ON_MAX = 8 << 20,       /* … bytes of it */
};

/* What all endpoints of one execution have used. */
struct bh_budget {
    int refs;
    int64_t max_requests, max_tokens; /* 0: no limit */
    int64_t requests, tokens;
    bool told;
    int64_t in_flight;      /* calls */
    struct bh_list waiting; /* struct bh_call: as many as may be are in flight */
};

struct bh_endpoints {
    struct event_base *loop;
    struct bh_control *control;
    struct bh_transfers *transfers;
    struct event *sweep;
    struct event *turn;   /* of the connections that have a request waiting: one each, then everybody else's */
    struct bh_list turns; /* struct bh_conn */
    struct bh_list endpoints;
    size_t n_endpoints, n_conns, max_conns;
    size_t bytes;            /* that boxes sent, or were sent, and that wait here */
    struct bh_map *services; /* key → struct bh_shared_service */
    struct bh_map *budgets;  /* instance → struct bh_budget */
    struct bh_list slow;     /* services that are being made */
    int give_up;             /* an eventfd that tells them to stop */
};

/* A service with the clock that lets calls in when a wait is over. */
struct bh_shared_service {
    struct bh_service *service;
    struct event *wake;
};

struct bh_endpoint_of {  /* one box */
    struct bh_list link; /* of endpoints */
    struct bh_endpoints *owner;
    int64_t id;
    char *instance;
    struct bh_shared_service *shared;
    struct bh_budget *budget;
    int listener;
    struct event *acceptable;
    struct event *later; /* while it is held */
    size_t bytes;        /* its part of them */
    bool hungry;         /* connections of it are not read from, for it has too much of them */
    bool held;           /* it has asked for too much: nothing new of it is begun */
    bool full;           /* nothing is accepted for now */
    struct bh_rate refusals, told, arrivals;
    int64_t untold; /* refusals that were only counted */
    size_t waiting; /* messages about it that the worker has not taken yet */
    bool closing;
    struct bh_gate_box turn;
    struct bh_list conns;
    size_t n_conns;
    struct bh_list read_on; /* struct bh_call: whose box has left */
    int64_t idle_s, total_s;
    int64_t requests, tokens_in, tokens_out;
};

enum bh_conn_state {
    BH_CONN_HEAD,   /* the next request is read */
    BH_CONN_CALL,   /* it is carried out */
    BH_CONN_SKIP,   /* the reply is there, the rest of the body is thrown away */
    BH_CONN_LINGER, /* what was said last has to arrive: read on until the box closes */
};

struct bh_conn {
    struct bh_list link; /* of its endpoint */
    struct bh_list turn; /* among those that have a request waiting */
    struct bh_endpoint_of *endpoint;
    int fd;
    enum bh_conn_state state;
    struct event *readable, *writable;
    struct bh_buf in, out;
    size_t bytes; /* of both, as they were counted last */
    struct bh_http_request req;
    /* the body of this request */
    int64_t body_left; /* BH_HTTP_LENGTH */
    struct bh_http_chunks chunks;
    bool body_over, body_bad, waits_for_body;
    int64_t skipped;
    bool broken, close_when_sent;
    struct bh_mono deadline; /* of what the box has to do next */
    struct bh_call *call;
};

struct bh_call {
    struct bh_conn *conn; /* NULL: it has left, and the reply is read on for its count */
    struct bh_list link;  /* of the budget's calls that wait, or of its endpoint's that are read on */
    bool in_flight;       /* for the budget */
    char *method;         /* of one that is read on */
    struct event *too_long;
    int64_t unseen; /* bytes of the reply that no box took */
    struct bh_endpoint_of *endpoint;
    struct bh_gate_call turn;
    struct bh_endpoint_target target;
    struct bh_transfer *transfer;
    char *url;
    char **headers;
    size_t n_headers;
    struct bh_sieve sieve;
    struct bh_usage usage;
    int64_t status, up, down, tokens_in, tokens_out;
    struct bh_mono began, heard; /* heard: when the service last said something, or took something */
    bool wants_body, paused;     /* the transfer waits for the box */
    struct bh_mono stands;       /* since when */
    int64_t stood_ns;            /* in all, before that */
    bool head_sent, chunked, no_body, close_after;
    const char *reason; /* why it ended early; NULL */
    const char *leaked; /* the secret that its reply held; NULL */
};

/* endpoint.c */
void bh_endpoint_report(struct bh_endpoint_of *e, const struct bh_http_request *req, const struct bh_call *call,
                        const char *path, long status, const char *reason);
/* True where one more request is within the limits: it is counted then. */
bool bh_endpoint_spend_request(struct bh_endpoint_of *e);
void bh_endpoint_spend_tokens(struct bh_endpoint_of *e, int64_t in, int64_t out);
void bh_endpoint_let_in(struct bh_shared_service *shared); /* whoever's turn it is */
void bh_endpoint_let_in_soon(struct bh_shared_service *shared);
void bh_endpoint_conn_gone(struct bh_endpoint_of *e);
/* The worker has to catch up with it first, or it asks too often for what it may not. bh_conn_wake comes afterwards. */
bool bh_endpoint_is_busy(struct bh_endpoint_of *e);
/* Whether all boxes have too much waiting here, and this one more than its share. */
bool bh_endpoint_is_short(const struct bh_endpoint_of *e);
void bh_endpoint_count_bytes(struct bh_endpoint_of *e, size_t before, size_t now);
void bh_endpoint_take_turn(struct bh_conn *c); /* bh_conn_turn comes, when others have had theirs */

void bh_endpoint_add_service(struct bh_endpoints *all, struct bh_service *service); /* takes it */
/* Whose service is there, or can be made at once. Says "ready" or "failed". */
void bh_endpoint_open(struct bh_endpoints *all, const struct bh_val *msg, int *fd);
void bh_endpoint_say_failed(struct bh_endpoints *all, int64_t id, const struct bh_err *err);

/* endpoint_slow.c */
/* Opens it when its secrets are there, which are waited for in a thread. Boxes of one service wait together. */
void bh_endpoint_open_slowly(struct bh_endpoints *all, const struct bh_val *msg, int *fd);
/* True where an endpoint of that id still waited: it is no more. */
bool bh_endpoint_slow_forget(struct bh_endpoints *all, int64_t id);
void bh_endpoint_slow_end(struct bh_endpoints *all); /* of all; waits until their threads have stopped */

/* endpoint_conn.c */
void bh_conn_new(struct bh_endpoint_of *e, int fd); /* takes it */
void bh_conn_close(struct bh_conn *c);              /* with its call */
void bh_conn_watch(struct bh_conn *c);              /* its endpoint may be short no more */
void bh_conn_wake(struct bh_conn *c);               /* its endpoint is busy no more */
void bh_conn_turn(struct bh_conn *c);               /* its next request, if there is one */
void bh_conn_send(struct bh_conn *c, const void *data, size_t len);
void bh_conn_send_chunk(struct bh_conn *c, const void *data, size_t len); /* as a chunk of HTTP/1.1 */
/* The next bytes of the body: 0 at its end, -1 where none are there yet, -2 where they are no body. */
ssize_t bh_conn_take_body(struct bh_conn *c, char *room, size_t size);
/* The call is over and freed. `keep`: the reply was whole. */
void bh_conn_call_over(struct bh_conn *c, bool keep);
bool bh_conn_is_late(const struct bh_conn *c, struct bh_mono now);

/* endpoint_call.c */
void bh_call_begin(struct bh_conn *c);    /* its request is read */
void bh_call_send(struct bh_call *call);  /* it is its turn */
void bh_call_go_on(struct bh_call *call); /* the box gave, or took, something; not from inside a transfer */
/* Without a reply. Frees it, or has it read on without its connection. */
void bh_call_abandon(struct bh_call *call, const char *reason);
/* Its box lets it stand, and another box waits for its place. */
bool bh_call_is_in_the_way(const struct bh_call *call, struct bh_mono now);
void bh_call_give_up(struct bh_call *call); /* for that */
/* Past its time: it is answered or cut, and over. */
void bh_call_time_out(struct bh_call *call);
bool bh_call_is_late(const struct bh_call *call, struct bh_mono now);

/* endpoint_count.c */
/* False where it waits until another call of its execution is over; else it is at the gate. */
bool bh_call_enter(struct bh_call *call);
void bh_call_leave(struct bh_call *call); /* wherever it was */
/* Whether the rest of its reply may say what it cost, and somebody has to know. */
bool bh_call_is_counted(const struct bh_call *call);
/* True where it goes on without its connection, until its end or a bound. */
bool bh_call_read_on(struct bh_call *call);
void bh_call_read_no_more(struct bh_endpoint_of *e);
