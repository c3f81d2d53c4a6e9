/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns turns, counts and waits at a service. Assumes that every call that entered leaves. Must never let a box wait
 * behind another one's second call.
 */
#include "policies/broker/endpoint_gate.h"

/* What a 429 without a time asks for, doubled with each that follows; and the longest that any is believed. */
#define WAIT_FIRST BH_NS_PER_S
#define WAIT_MOST (INT64_C(300) * BH_NS_PER_S)
/* With so many unanswered at once a service has shown that it can take them. */
#define WINDOW_OPEN 256

void bh_gate_init(struct bh_gate *gate, int64_t max_parallel)
{
    *gate = (struct bh_gate){.max_parallel = max_parallel};
    bh_list_init(&gate->boxes);
    bh_list_init(&gate->sent);
}

void bh_gate_box_init(struct bh_gate_box *box)
{
    *box = (struct bh_gate_box){0};
    bh_list_init(&box->link);
    bh_list_init(&box->calls);
}

void bh_gate_enter(struct bh_gate *gate, struct bh_gate_box *box, struct bh_gate_call *call)
{
    BH_ASSERT(call->place == BH_GATE_OUTSIDE);
    bh_list_init(&call->link);
    if (bh_list_empty(&box->calls))
        bh_list_append(&gate->boxes, &box->link);
    bh_list_append(&box->calls, &call->link);
    call->box = box;
    call->place = BH_GATE_WAITS;
    gate->n_present += box->present++ == 0;
}

/* It counts no more among those that have no answer; twice is fine. */
static void discount(struct bh_gate *gate, struct bh_gate_call *call)
{
    if (bh_list_empty(&call->link))
        return;
    bh_list_remove(&call->link);
    gate->unanswered--;
}

static struct bh_gate_call *first_sent(const struct bh_gate *gate)
{
    return bh_list_empty(&gate->sent) ? NULL : BH_CONTAINER(gate->sent.next, struct bh_gate_call, link);
}

static void discount_late(struct bh_gate *gate, struct bh_mono now)
{
    struct bh_gate_call *call;
    while ((call = first_sent(gate)) && now.ns - call->sent.ns >= BH_GATE_PATIENCE_NS)
        discount(gate, call);
}

/* The first with less than its share, or else the first. */
static struct bh_gate_box *next_box(const struct bh_gate *gate)
{
    int64_t share = gate->max_parallel / gate->n_present;
    BH_LIST_FOREACH (it, next, &gate->boxes) {
        struct bh_gate_box *box = BH_CONTAINER(it, struct bh_gate_box, link);
        if (gate->max_parallel == 0 || box->in_flight == 0 || box->in_flight < share)
            return box;
    }
    return BH_CONTAINER(gate->boxes.next, struct bh_gate_box, link);
}

static bool is_open(const struct bh_gate *gate, struct bh_mono now)
{
    if (gate->max_parallel > 0 && gate->in_flight >= gate->max_parallel)
        return false;
    if (gate->window > 0 && gate->unanswered >= gate->window)
        return false;
    return now.ns >= gate->wait_until.ns;
}

struct bh_gate_call *bh_gate_next(struct bh_gate *gate, struct bh_mono now)
{
    discount_late(gate, now);
    if (bh_list_empty(&gate->boxes) || !is_open(gate, now))
        return NULL;
    struct bh_gate_box *box = next_box(gate);
    struct bh_gate_call *call = BH_CONTAINER(box->calls.next, struct bh_gate_call, link);
    bh_list_remove(&call->link);
    bh_list_remove(&box->link);
    if (!bh_list_empty(&box->calls))
        bh_list_append(&gate->boxes, &box->link);
    call->place = BH_GATE_SENT;
    call->sent = now;
    bh_list_append(&gate->sent, &call->link);
    box->in_flight++;
    gate->in_flight++;
    gate->unanswered++;
    return call;
}

int64_t bh_gate_wait_ns(const struct bh_gate *gate, struct bh_mono now)
{
    const struct bh_gate_call *first = first_sent(gate);
    if (bh_list_empty(&gate->boxes))
        return -1;
    if (now.ns < gate->wait_until.ns)
        return gate->wait_until.ns - now.ns;
    if (gate->window == 0 || gate->unanswered < gate->window || !first)
        return -1;
    int64_t left = first->sent.ns + BH_GATE_PATIENCE_NS - now.ns;
    return left > 0 ? left : 0;
}

/* Answers to what was sent before the first 429 came belong to the same wait. */
static void close_for(struct bh_gate *gate, int64_t retry_after_ns, struct bh_mono now)
{
    bool waits = now.ns < gate->wait_until.ns;
    int64_t wait = retry_after_ns >= 0 ? retry_after_ns
                   : waits             ? 0
                                       : WAIT_FIRST << (gate->refused < 8 ? gate->refused : 8);
    if (wait > WAIT_MOST)
        wait = WAIT_MOST;
    if (now.ns + wait > gate->wait_until.ns)
        gate->wait_until.ns = now.ns + wait;
    gate->refused += !waits;
    gate->window = 1;
}

void bh_gate_answered(struct bh_gate *gate, struct bh_gate_call *call, bool is_429, int64_t retry_after_ns,
                      struct bh_mono now)
{
    if (call->place != BH_GATE_SENT)
        return;
    call->place = BH_GATE_ANSWERED;
    discount(gate, call);
    if (is_429) {
        close_for(gate, retry_after_ns, now);
        return;
    }
    gate->refused = 0;
    if (gate->window > 0 && ++gate->window > WINDOW_OPEN)
        gate->window = 0;
}

bool bh_gate_is_in_the_way(const struct bh_gate *gate, const struct bh_gate_call *call)
{
    bool in = call->place == BH_GATE_SENT || call->place == BH_GATE_ANSWERED;
    if (!in || gate->max_parallel == 0 || gate->in_flight < gate->max_parallel || bh_list_empty(&gate->boxes))
        return false;
    return gate->boxes.next != &call->box->link || gate->boxes.prev != &call->box->link;
}

void bh_gate_leave(struct bh_gate *gate, struct bh_gate_call *call)
{
    if (call->place == BH_GATE_WAITS) {
        struct bh_gate_box *box = call->box;
        bh_list_remove(&call->link);
        if (bh_list_empty(&box->calls))
            bh_list_remove(&box->link);
    }
    if (call->place == BH_GATE_SENT)
        discount(gate, call);
    if (call->place == BH_GATE_SENT || call->place == BH_GATE_ANSWERED) {
        gate->in_flight--;
        call->box->in_flight--;
    }
    if (call->place != BH_GATE_OUTSIDE)
        gate->n_present -= --call->box->present == 0;
    call->place = BH_GATE_OUTSIDE;
}
