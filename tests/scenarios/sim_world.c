/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on a virtual clock, and workers that are nothing but rules for making them. A message may be slow, may come
 * twice, may overtake another, and outlives the worker that sent it and the engine process that it was meant for.
 */
#include <string.h>

#include "base/mem.h"
#include "tests/scenarios/sim.h"

static bool sooner(const struct sim_msg *a, const struct sim_msg *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void swap(struct sim_msg *a, struct sim_msg *b)
{
    struct sim_msg t = *a;
    *a = *b;
    *b = t;
}

static void push(struct sim_world *w, const struct sim_msg *msg)
{
    *BH_PUSH(w->heap, w->len, w->cap) = *msg;
    for (size_t i = w->len - 1; i > 0 && sooner(&w->heap[i], &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&w->heap[i], &w->heap[(i - 1) / 2]);
}

void sim_send(struct sim_world *w, int64_t at, struct sim_msg msg)
{
    msg.at = at;
    msg.seq = ++w->seq;
    push(w, &msg);
}

bool sim_receive(struct sim_world *w, struct sim_msg *ret)
{
    if (w->len == 0)
        return false;
    *ret = w->heap[0];
    w->heap[0] = w->heap[--w->len];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t c = 2 * i + 1; c < w->len && c <= 2 * i + 2; c++) {
            if (sooner(&w->heap[c], &w->heap[least]))
                least = c;
        }
        if (least == i)
            return true;
        swap(&w->heap[i], &w->heap[least]);
        i = least;
    }
}

static int64_t some_time(struct sim_world *w)
{
    return 1 + (int64_t)sim_below(&w->rng, (unsigned)w->temper.slowest);
}

/* An event under way; perhaps twice. */
static void send_event(struct sim_world *w, int64_t at, const struct bh_event *ev)
{
    sim_send(w, at, (struct sim_msg){.kind = SIM_EVENT, .ev = *ev});
    if (sim_chance(&w->rng, w->temper.duplicate))
        sim_send(w, at + some_time(w), (struct sim_msg){.kind = SIM_EVENT, .ev = *ev});
}

static void outcome(struct sim_world *w, struct bh_event *ev)
{
    static const enum bh_reason reasons[] = {BH_REASON_EXIT, BH_REASON_EXIT,      BH_REASON_SIGNAL,
                                             BH_REASON_OOM,  BH_REASON_TIMEOUT,   BH_REASON_OUTPUT_MISSING,
                                             BH_REASON_HOST, BH_REASON_COLLISION, BH_REASON_NONE};
    ev->kind = BH_EV_ENDED;
    ev->state = BH_ATTEMPT_SUCCEEDED;
    ev->has_score = sim_chance(&w->rng, 80);
    ev->score = sim_below(&w->rng, 5);
    if (sim_chance(&w->rng, w->temper.lost)) {
        ev->state = sim_chance(&w->rng, 50) ? BH_ATTEMPT_LOST : BH_ATTEMPT_CANCELLED;
    } else if (sim_chance(&w->rng, w->temper.fail)) {
        ev->state = BH_ATTEMPT_FAILED;
        ev->reason = reasons[sim_below(&w->rng, BH_ARRAY_LEN(reasons))];
        ev->phase = ev->reason == BH_REASON_TIMEOUT ? BH_PHASE_RUN : BH_PHASE_NONE;
    }
}

static void carry_out_lease(struct sim_world *w, const struct bh_effect *f, int64_t now)
{
    struct bh_event ev = {.kind = BH_EV_STATE, .instance = f->instance, .epoch = f->epoch};
    int64_t t = now;
    for (int s = BH_ATTEMPT_BOOTING; s <= BH_ATTEMPT_COLLECTING; s++) {
        ev.state = (enum bh_attempt_state)s;
        t += some_time(w) / 4;
        if (sim_chance(&w->rng, 60)) /* the way is as long as the work: the next may overtake it */
            send_event(w, t + some_time(w), &ev);
    }
    outcome(w, &ev);
    send_event(w, t + some_time(w), &ev);
}

static void carry_out_kill(struct sim_world *w, const struct bh_effect *f, int64_t now)
{
    send_event(w, now + some_time(w) * (sim_chance(&w->rng, w->temper.killed_late) ? 8 : 1),
               &(struct bh_event){
                   .kind = BH_EV_ENDED, .instance = f->instance, .epoch = f->epoch, .state = BH_ATTEMPT_CANCELLED});
}

static void carry_out_freeze(struct sim_world *w, const struct bh_effect *f, int64_t now)
{
    bool fails = sim_chance(&w->rng, w->temper.freeze_fails);
    struct bh_event ev = {.kind = fails ? BH_EV_FREEZE_FAILED : BH_EV_FROZEN, .box = f->box};
    memcpy(ev.layer, f->layer, sizeof(ev.layer));
    send_event(w, now + some_time(w), &ev);
}

/* The question is put on record by the engine process; a person answers soon, late, twice, or not at all. */
static void carry_out_ask(struct sim_world *w, const struct bh_effect *f, int64_t now)
{
    struct bh_event ev = {
        .kind = BH_EV_GATE_DECIDED, .gate = f->gate, .approved = !sim_chance(&w->rng, w->temper.fail)};
    if (sim_chance(&w->rng, 90))
        send_event(w, now, &(struct bh_event){.kind = BH_EV_GATE_ASKED, .gate = f->gate});
    else
        ev.approved = true; /* decided before: nobody is asked */
    if (!sim_chance(&w->rng, w->temper.lost) || ev.approved)
        send_event(w, now + some_time(w), &ev);
}

/* A worker that is down does nothing with what it is sent: that it is lost is already under way. */
void sim_carry_out(struct sim_world *w, const struct bh_effect *f, int64_t now)
{
    switch (f->kind) {
    case BH_EFFECT_LEASE:
        if (w->up[f->worker])
            carry_out_lease(w, f, now);
        return;
    case BH_EFFECT_KILL:
        if (w->up[f->worker])
            carry_out_kill(w, f, now);
        return;
    case BH_EFFECT_FREEZE:
        if (w->up[f->worker])
            carry_out_freeze(w, f, now);
        return;
    case BH_EFFECT_PUBLISH: /* done by the engine process itself, at once or never */
        send_event(w, now,
                   &(struct bh_event){.kind = BH_EV_PUBLISHED,
                                      .instance = f->instance,
                                      .epoch = f->epoch,
                                      .reason = sim_chance(&w->rng, w->temper.fail / 4) ? BH_REASON_COLLISION
                                                                                        : BH_REASON_NONE});
        return;
    case BH_EFFECT_ASK:
        carry_out_ask(w, f, now);
        return;
    case BH_EFFECT_EXPIRY:
        sim_send(w, f->at.us, (struct sim_msg){.kind = SIM_EVENT, .ev = {.kind = BH_EV_GATE_EXPIRED, .gate = f->gate}});
        return;
    case BH_EFFECT_DEADLINE:
        sim_send(w, f->at.us, (struct sim_msg){.kind = SIM_TIMER, .timer = ++w->timer});
        return;
    case BH_EFFECT_ENDED:
        return;
    }
}

/*
 * A new engine process: what the old one knew of workers and timers is gone, what workers have sent is not. They come
 * (again) one by one; some will go.
 */
void sim_workers_come(struct sim_world *w, int64_t now)
{
    size_t n = 0;
    struct sim_msg *old = w->heap;
    size_t n_old = w->len;
    w->heap = NULL;
    w->len = w->cap = 0;
    w->timer++;
    for (size_t i = 0; i < n_old; i++) {
        enum bh_event_kind k = old[i].ev.kind;
        bool of_gate = k == BH_EV_GATE_ASKED || k == BH_EV_GATE_DECIDED || k == BH_EV_GATE_EXPIRED;
        bool from_worker = old[i].kind == SIM_EVENT && k != BH_EV_WORKER_UP && k != BH_EV_WORKER_LOST &&
                           k != BH_EV_PUBLISHED && !of_gate;
        if (from_worker)
            push(w, &old[i]);
    }
    bh_free(old);
    for (n = 0; n < (size_t)w->n_workers; n++) {
        w->up[n] = false;
        sim_send(w, now + some_time(w), (struct sim_msg){.kind = SIM_WORKER_UP, .worker = (int)n});
    }
    if (w->deaths_left > 0 && sim_chance(&w->rng, 50))
        sim_send(w, now + 3 * some_time(w),
                 (struct sim_msg){.kind = SIM_WORKER_DIE, .worker = (int)sim_below(&w->rng, (unsigned)w->n_workers)});
}

void sim_world_init(struct sim_world *w, uint64_t seed)
{
    static const unsigned rates[] = {0, 0, 5, 20, 50};
    *w = (struct sim_world){.rng = {.state = seed * 2 + 1}};
    struct sim_rng *r = &w->rng;
    w->temper = (struct sim_temper){.fail = rates[sim_below(r, 5)],
                                    .lost = rates[sim_below(r, 4)],
                                    .duplicate = rates[sim_below(r, 5)],
                                    .freeze_fails = rates[sim_below(r, 4)],
                                    .crash = sim_chance(r, 50) ? 1 + sim_below(r, 8) : 0,
                                    .store_error = sim_chance(r, 10) ? 2 : 0,
                                    .killed_late = rates[sim_below(r, 5)],
                                    .slowest = sim_chance(r, 50) ? 1000 : 20000};
    w->n_workers = 1 + (int)sim_below(r, SIM_MAX_WORKERS);
    w->deaths_left = sim_chance(r, 50) ? (int)sim_below(r, 4) : 0;
}

void sim_world_fini(struct sim_world *w)
{
    bh_free(w->heap);
}
