/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is at one service: at most `max_parallel` calls at once over the run, and all wait when it answered
 * 429. Boxes take turns, so that one with a hundred calls is no better off than one with a single call; within a box
 * the first comes first. After a wait one call goes first, and each answer that is no 429 lets one more go unanswered
 * at a time: the service is not overrun again by everybody at once. A call that has no answer for BH_GATE_PATIENCE_NS
 * no longer counts in this: no box keeps others waiting by a call that it does not finish. Nothing is ever sent twice.
 *
 * While others wait, a box has at most its share of `max_parallel`. Nobody who has more already loses it.
 *
 * Pure: times come from the caller. Structs are embedded; the caller owns them.
 */
#pragma once

#include "base/clock.h"
#include "base/list.h"

#define BH_GATE_PATIENCE_NS (5 * BH_NS_PER_S)

struct bh_gate {
    int64_t max_parallel;          /* 0: no limit */
    int64_t in_flight, unanswered; /* the latter: of `sent` */
    int64_t n_present;             /* boxes that wait or have a call in flight */
    struct bh_list sent;           /* without an answer, the first first, while it counts */
    int64_t window;                /* how many may be unanswered; 0: any number */
    unsigned refused;              /* 429s since the last other answer */
    struct bh_mono wait_until;
    struct bh_list boxes; /* those with calls that wait, in the order of their turns */
};
struct bh_gate_box {
    struct bh_list link, calls;
    int64_t in_flight, present; /* the latter: and those that wait */
};
struct bh_gate_call {
    struct bh_list link;
    struct bh_gate_box *box;
    struct bh_mono sent;
    enum bh_gate_place { BH_GATE_OUTSIDE, BH_GATE_WAITS, BH_GATE_SENT, BH_GATE_ANSWERED } place;
};

void bh_gate_init(struct bh_gate *gate, int64_t max_parallel);
void bh_gate_box_init(struct bh_gate_box *box);

void bh_gate_enter(struct bh_gate *gate, struct bh_gate_box *box, struct bh_gate_call *call);
/* The call that may be sent now, which is in flight from here on; NULL where none may. Called until it is NULL. */
struct bh_gate_call *bh_gate_next(struct bh_gate *gate, struct bh_mono now);
/* Nanoseconds until asking again makes sense while nothing else happens; -1 where only an ending can help. */
int64_t bh_gate_wait_ns(const struct bh_gate *gate, struct bh_mono now);
/* The head of the answer is there. `retry_after_ns`: what a 429 asks for, -1 where it names nothing. */
void bh_gate_answered(struct bh_gate *gate, struct bh_gate_call *call, bool is_429, int64_t retry_after_ns,
                      struct bh_mono now);
/* Whether it is in flight in a place that another box waits for. */
bool bh_gate_is_in_the_way(const struct bh_gate *gate, const struct bh_gate_call *call);
/* It is over, or given up, wherever it was; twice is fine. */
void bh_gate_leave(struct bh_gate *gate, struct bh_gate_call *call);
