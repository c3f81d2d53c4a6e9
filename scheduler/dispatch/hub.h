/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's end of the bus: who the workers are, what is queued for each, and the parked requests that carry it to
 * them (docs/protocol.md). Decides nothing about runs: what workers say is handed to the owner, who answers.
 */
#pragma once

#include "base/err.h"
#include "base/val.h"

struct event_base;
struct bh_hub;
struct bh_bus_request;

struct bh_hub_owner {
    void *arg;
    void (*worker_up)(void *arg, int worker, int slots);
    /* "state", "done", "frozen", "released". The owner takes the request and answers it (bh_bus_reply) when what it
     * says is durable. */
    void (*said)(void *arg, int worker, const char *kind, struct bh_bus_request *request);
    /* The loop turn's messages have all been handed over: time to commit. */
    void (*turn_over)(void *arg);
};

/* Borrows the loop. `token` is what a worker must show. */
int bh_hub_new(struct event_base *loop, const char *url, const char *token, struct bh_hub_owner owner,
               struct bh_hub **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_hub_free(struct bh_hub *hub);

/* Queues a message for the worker's `work` or `control` call; takes body. It is sent as soon as a call is parked. */
void bh_hub_send_work(struct bh_hub *hub, int worker, struct bh_val *body);
void bh_hub_send_control(struct bh_hub *hub, int worker, struct bh_val *body);
