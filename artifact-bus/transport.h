/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and replies between worker and engine. Each end is read through one pollable descriptor and driven by the
 * thread that owns all state: connecting, deadlines and replies go on while it calls bh_bus_*_next whenever the
 * descriptor is readable. The library's own threads only queue and write an eventfd. Nothing may fork after the first
 * call here (transport.c, the only user of nng, says why).
 *
 * At most once: nothing is ever sent again. Retry and de-duplication are the callers' (instance, epoch).
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"

struct bh_val;

/* --- server (engine) --- */
struct bh_bus_server;
/*
 * `url`: "inproc://NAME" or "ipc://PATH" (the folder must be 0700; the socket is made 0600, and PATH.lock beside it). A
 * socket left by a dead server is replaced. BUSY: somebody listens there; PERMISSION: the folder is open to others;
 * BAD_VALUE: PATH is longer than 107 bytes.
 */
int bh_bus_server_new(const char *url, struct bh_bus_server **ret, struct bh_err **err) BH_MUST_CHECK;
/* Open requests are dropped and may not be used any more. Replies that the peer has not read may be lost. */
void bh_bus_server_free(struct bh_bus_server *s);
int bh_bus_server_fd(const struct bh_bus_server *s); /* readable while a request waits */

struct bh_bus_request; /* open until it is answered: keeping one is how a long poll waits */
/* The next decoded request, or NULL. Bodies that do not decode are answered with an error and never seen here. Does not
 * block. */
struct bh_bus_request *bh_bus_server_next(struct bh_bus_server *s);
const struct bh_val *bh_bus_request_body(const struct bh_bus_request *r);
uint32_t bh_bus_request_peer(const struct bh_bus_request *r); /* the connection it came over; never used again */
/* Answers and frees the request; takes body. One that cannot be encoded is answered with an error. Does not block. */
void bh_bus_reply(struct bh_bus_request *r, struct bh_val *body);
void bh_bus_request_drop(struct bh_bus_request *r); /* frees it without an answer */

/* --- client (worker) --- */
struct bh_bus_client;
/* Connects by itself, now and whenever the connection is lost: a server that is not there is no error here. */
int bh_bus_client_new(const char *url, struct bh_bus_client **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_bus_client_free(struct bh_bus_client *c);    /* outstanding calls end with nothing */
int bh_bus_client_fd(const struct bh_bus_client *c); /* readable while an answer waits */

/*
 * Sends; takes body, on failure too (TOO_LARGE, AGAIN, NOMEM: no answer will come). Else exactly one answer comes, with
 * the same `id`, at the latest after timeout_ns (> 0). Does not block.
 */
int bh_bus_call(struct bh_bus_client *c, uint64_t id, struct bh_val *body, int64_t timeout_ns,
                struct bh_err **err) BH_MUST_CHECK;
struct bh_bus_answer {
    uint64_t id;
    int code;            /* 0, -BH_E_UNREACHABLE (timeout, peer gone), -BH_E_PROTOCOL */
    struct bh_val *body; /* NULL unless code is 0; the caller owns it */
};
/* False where none waits. Does not block. */
bool bh_bus_client_next(struct bh_bus_client *c, struct bh_bus_answer *ret);
