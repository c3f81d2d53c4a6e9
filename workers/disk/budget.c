/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/disk/budget.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/units.h"
#include "workers/disk/count.h"
#include "workers/helper.h"

#define LEAST_PAUSE_NS (2 * BH_NS_PER_S)
#define PAUSE_FACTOR 10 /* a tenth of the time at most is spent on counting */

struct bh_disk_budget {
    char *home, *who;
    int64_t limit, held;
    struct bh_helper *helper;
    struct bh_job *job; /* a count that is under way */
    atomic_bool given_up;
    struct event *timer; /* of the next one */
};

struct count {
    char *home;
    const atomic_bool *given_up;
    int64_t bytes, took_ns;
    bool done;
};

static void run_count(void *data)
{
    struct count *c = data;
    struct bh_disk_usage usage = {0};
    const struct bh_disk_bounds bounds = {.given_up = c->given_up};
    struct bh_mono began = bh_mono_now();
    BH_CLEANUP_FD int dir = open(c->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    bh_disk_count(dir, &bounds, &usage);
    c->bytes = usage.bytes;
    c->took_ns = bh_mono_now().ns - began.ns;
    c->done = !usage.cut;
}

/* A box that is asked for gets an answer from the last one: so they follow each other, and not the boxes. */
static void take(struct bh_disk_budget *b, const struct count *c)
{
    int64_t pause = c->took_ns * PAUSE_FACTOR;
    if (c->done)
        b->held = c->bytes;
    if (pause < LEAST_PAUSE_NS)
        pause = LEAST_PAUSE_NS;
    const struct timeval after = {.tv_sec = pause / BH_NS_PER_S, .tv_usec = pause % BH_NS_PER_S / 1000};
    BH_ASSERT(evtimer_add(b->timer, &after) == 0);
}

static void on_counted(void *owner, void *data)
{
    struct bh_disk_budget *b = owner;
    b->job = NULL;
    take(b, data);
}

static void dispose(void *data)
{
    struct count *c = data;
    bh_free(c->home);
    bh_free(c);
}

static const struct bh_job_ops ops = {run_count, on_counted, dispose};

static struct count *new_count(const struct bh_disk_budget *b)
{
    struct count *c = bh_alloc(sizeof(*c));
    *c = (struct count){.home = bh_strdup(b->home), .given_up = &b->given_up};
    return c;
}

static void on_time(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    struct bh_disk_budget *b = arg;
    if (!b->job)
        b->job = bh_helper_submit(b->helper, &ops, b, new_count(b));
}

int bh_disk_budget_new(struct event_base *loop, const char *home, int64_t limit, const char *who,
                       struct bh_disk_budget **ret, struct bh_err **err)
{
    struct bh_disk_budget *b = bh_alloc(sizeof(*b));
    b->home = bh_strdup(home);
    b->who = bh_strdup(who);
    b->limit = limit;
    b->timer = evtimer_new(loop, on_time, b);
    BH_ASSERT(b->timer);
    int rc = bh_helper_new(loop, &b->helper, err);
    if (rc != 0) {
        bh_disk_budget_free(b);
        return rc;
    }
    struct count *first = new_count(b);
    run_count(first);
    take(b, first);
    dispose(first);
    *ret = b;
    return 0;
}

void bh_disk_budget_free(struct bh_disk_budget *b)
{
    if (!b)
        return;
    atomic_store(&b->given_up, true);
    bh_helper_free(b->helper);
    event_free(b->timer);
    bh_free(b->home);
    bh_free(b->who);
    bh_free(b);
}

int64_t bh_disk_budget_held(const struct bh_disk_budget *b)
{
    return b->held;
}

int bh_disk_budget_room(const struct bh_disk_budget *b, struct bh_err **err)
{
    char held[BH_UNIT_TEXT], limit[BH_UNIT_TEXT];
    if (b->held <= b->limit)
        return 0;
    int rc = bh_err_set(err, BH_E_DISK_FULL, 0, "the state directory '%s' holds %s, and its disk budget is %s (%s)",
                        b->home, bh_format_size(b->held, held), bh_format_size(b->limit, limit), b->who);
    bh_err_hint(err, "make room: 'bulkhead gc --dry-run --keep-last N' or '--older-than 30d' says what would go; or "
                     "raise the budget");
    return rc;
}
