/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what a limit on tokens needs beside counting, for what a reply cost is known at its end: few calls of one
 * execution at once, and replies whose box has left are read on, unseen, for their count. Assumes that endpoint_call.c
 * asks at each beginning and end. Must never do either where there is no such limit: reading on costs whoever pays.
 */
#include <event2/event.h>

#include "base/mem.h"
#include "policies/broker/endpoint_priv.h"

/* --- few at once --- */

static void go_in(struct bh_call *call)
{
    call->endpoint->budget->in_flight++;
    call->in_flight = true;
    bh_gate_enter(&call->endpoint->shared->service->gate, &call->endpoint->turn, &call->turn);
}

bool bh_call_enter(struct bh_call *call)
{
    struct bh_budget *b = call->endpoint->budget;
    if (b->max_tokens > 0 && b->in_flight >= BH_COUNTED_AT_ONCE) {
        bh_list_append(&b->waiting, &call->link);
        return false;
    }
    go_in(call);
    return true;
}

void bh_call_leave(struct bh_call *call)
{
    struct bh_budget *b = call->endpoint->budget;
    bh_list_remove(&call->link);
    if (!call->in_flight)
        return;
    call->in_flight = false;
    b->in_flight--;
    BH_LIST_FOREACH (it, next, &b->waiting) {
        struct bh_call *waits = BH_CONTAINER(it, struct bh_call, link);
        if (waits->endpoint->closing)
            continue;
        bh_list_remove(&waits->link);
        go_in(waits);
        bh_endpoint_let_in_soon(waits->endpoint->shared);
        return;
    }
}

/* --- to the end --- */

bool bh_call_is_counted(const struct bh_call *call)
{
    const struct bh_budget *b = call->endpoint->budget;
    return b->max_tokens > 0 && !b->told && (call->status == 0 || call->usage.form != BH_USAGE_NONE);
}

static void on_too_long(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bh_call_abandon(arg, "gone");
}

bool bh_call_read_on(struct bh_call *call)
{
    const struct timeval most = {.tv_sec = BH_READ_ON_S};
    struct bh_conn *c = call->conn;
    struct bh_endpoint_of *e = call->endpoint;
    if (!c || e->closing || !call->transfer || !c->body_over || !bh_call_is_counted(call))
        return false;
    call->too_long = event_new(e->owner->loop, -1, 0, on_too_long, call);
    if (!call->too_long || event_add(call->too_long, &most) < 0)
        return false;
    call->method = bh_strdup(c->req.method);
    call->conn = NULL;
    bh_list_append(&e->read_on, &call->link);
    if (call->paused) {
        call->paused = false;
        bh_transfer_go_on(call->transfer);
    }
    return true;
}

void bh_call_read_no_more(struct bh_endpoint_of *e)
{
    BH_LIST_FOREACH (it, next, &e->read_on)
        bh_call_abandon(BH_CONTAINER(it, struct bh_call, link), "gone");
}
