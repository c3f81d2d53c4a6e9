/* SPDX-License-Identifier: Apache-2.0 */
/* Timers that notice a suspended host (deadline.h). */
#include "workers/deadline.h"

#include <event2/event.h>

#include "base/mem.h"

#define LOOK_AGAIN_NS (10 * BH_NS_PER_S)

struct bh_deadline {
    struct event *event;
    struct bh_mono at;
    void (*fn)(void *arg);
    void *arg;
};

static void arm(struct bh_deadline *d)
{
    int64_t left = d->at.ns - bh_mono_now().ns;
    if (left > LOOK_AGAIN_NS)
        left = LOOK_AGAIN_NS;
    if (left < 0)
        left = 0;
    int64_t us = (left + 999) / 1000; /* rounded up: never early */
    struct timeval tv = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    BH_ASSERT(event_add(d->event, &tv) == 0);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct bh_deadline *d = arg;
    (void)fd;
    (void)what;
    if (bh_mono_now().ns < d->at.ns)
        arm(d);
    else
        d->fn(d->arg);
}

struct bh_deadline *bh_deadline_new(struct event_base *loop, void (*fn)(void *arg), void *arg)
{
    struct bh_deadline *d = bh_alloc(sizeof(*d));
    d->fn = fn;
    d->arg = arg;
    d->event = evtimer_new(loop, on_timer, d);
    BH_ASSERT(d->event);
    return d;
}

void bh_deadline_set(struct bh_deadline *d, int64_t ns)
{
    int64_t now = bh_mono_now().ns;
    if (ns < 0)
        ns = 0;
    d->at.ns = ns > INT64_MAX - now ? INT64_MAX : now + ns;
    arm(d);
}

void bh_deadline_clear(struct bh_deadline *d)
{
    (void)event_del(d->event);
}

void bh_deadline_free(struct bh_deadline *d)
{
    if (!d)
        return;
    event_free(d->event);
    bh_free(d);
}
