/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/disk/policy.h"

#define MIB (INT64_C(1) << 20)

#define PERIOD_MIN_NS (2 * BH_NS_PER_S)
#define PERIOD_MAX_NS (60 * BH_NS_PER_S)
#define PERIOD_SHARE 20   /* a walk that nothing calls for takes at most this part of the time */
#define GROWTH_SHARE 3    /* one that growth calls for */
#define BYTES_FLOOR 65536 /* less growth than this is not worth a walk, however little is left */
#define INODES_FLOOR 16

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

enum bh_enforcer bh_disk_means(const struct bh_limits *limits, bool disposable, const struct bh_disk_host *host)
{
    int64_t bytes = limits->of[BH_LIMIT_DISK], inodes = limits->of[BH_LIMIT_INODES];
    bool asked = limits->asked & (1u << BH_LIMIT_DISK);
    if (bytes <= 0 && inodes <= 0)
        return BH_BY_NOTHING;
    if (host->quota)
        return BH_BY_QUOTA;
    /* Memory that the box has to share with its processes: only what leaves them half of it. */
    if (host->memory && disposable && asked && bytes > 0 && bytes <= BH_DISK_MEMORY_MAX &&
        bytes <= limits->of[BH_LIMIT_MEMORY] / 2)
        return BH_BY_TMPFS;
    return BH_BY_WATCHDOG;
}

int64_t bh_disk_reserve(const struct bh_disk_space *space)
{
    int64_t share = least(most(space->total / 50, 256 * MIB), 2048 * MIB);
    return least(share, space->total / 20);
}

int64_t bh_disk_reserve_inodes(const struct bh_disk_space *space)
{
    return space->inodes / 50;
}

bool bh_disk_is_low(const struct bh_disk_space *space)
{
    return space->free < bh_disk_reserve(space) ||
           (space->inodes > 0 && space->free_inodes < bh_disk_reserve_inodes(space));
}

bool bh_disk_is_tight(const struct bh_disk_space *space)
{
    return space->free < 4 * bh_disk_reserve(space) ||
           (space->inodes > 0 && space->free_inodes < 4 * bh_disk_reserve_inodes(space));
}

const char *bh_disk_over(const struct bh_disk_usage *usage, const struct bh_disk_limits *limits)
{
    if (limits->bytes > 0 && usage->bytes > limits->bytes)
        return "disk";
    if (limits->inodes > 0 && usage->inodes > limits->inodes)
        return "inodes";
    return NULL;
}

void bh_disk_pace_begin(struct bh_disk_pace *pace, const struct bh_disk_space *space, struct bh_mono now)
{
    *pace = (struct bh_disk_pace){.space = *space, .ended = now, .period_ns = PERIOD_MIN_NS};
}

/* Of one resource: whether what was taken from the file system since could be half of what was missing. */
static bool half_gone(int64_t limit, int64_t held, int64_t free_then, int64_t free_now, int64_t floor)
{
    return limit > 0 && free_then - free_now >= most((limit - held) / 2, floor);
}

static bool same_space(const struct bh_disk_space *a, const struct bh_disk_space *b)
{
    return a->free == b->free && a->free_inodes == b->free_inodes;
}

bool bh_disk_pace_due(const struct bh_disk_pace *pace, const struct bh_disk_limits *limits,
                      const struct bh_disk_space *space, struct bh_mono now)
{
    int64_t since = now.ns - pace->ended.ns;
    if (half_gone(limits->bytes, pace->usage.bytes, pace->space.free, space->free, BYTES_FLOOR) ||
        half_gone(limits->inodes, pace->usage.inodes, pace->space.free_inodes, space->free_inodes, INODES_FLOOR))
        return since >= GROWTH_SHARE * pace->took_ns;
    bool limited = limits->bytes > 0 || limits->inodes > 0;
    return limited && since >= pace->period_ns && !same_space(space, &pace->space);
}

/* A box that does not change is looked at less and less often. */
static int64_t next_period(const struct bh_disk_pace *pace, const struct bh_disk_limits *limits,
                           const struct bh_disk_usage *usage)
{
    int64_t bytes = usage->bytes - pace->usage.bytes, inodes = usage->inodes - pace->usage.inodes;
    bool grew = (limits->bytes > 0 && bytes > (limits->bytes - usage->bytes) / 16) ||
                (limits->inodes > 0 && inodes > (limits->inodes - usage->inodes) / 16);
    return grew ? PERIOD_MIN_NS : least(pace->period_ns * 2, PERIOD_MAX_NS);
}

void bh_disk_pace_walked(struct bh_disk_pace *pace, const struct bh_disk_limits *limits,
                         const struct bh_disk_usage *usage, const struct bh_disk_space *space, struct bh_mono started,
                         struct bh_mono now)
{
    int64_t took = now.ns - started.ns;
    int64_t period = most(next_period(pace, limits, usage), PERIOD_SHARE * took);
    *pace = (struct bh_disk_pace){.usage = *usage, .space = *space, .ended = now, .took_ns = took, .period_ns = period};
}

static int64_t held_by(const struct bh_disk_holder *h, bool bytes)
{
    return bytes ? h->usage.bytes : h->usage.inodes;
}

/* A file system may be made larger or smaller meanwhile. */
static int64_t taken(const struct bh_disk_space *space, bool bytes)
{
    return bytes ? space->total - space->free : space->inodes - space->free_inodes;
}

static int largest_holder(const struct bh_disk_holder *holders, size_t n, bool bytes, int64_t worth)
{
    int found = -1;
    for (size_t i = 0; i < n; i++) {
        if (!holders[i].running || held_by(&holders[i], bytes) < worth)
            continue;
        worth = held_by(&holders[i], bytes) + 1;
        found = (int)i;
    }
    return found;
}

/* What a box wrote and does not hold it may have overwritten or removed: only where that explains most of it. */
static int largest_writer(const struct bh_disk_holder *holders, size_t n, int64_t worth)
{
    int found = -1;
    for (size_t i = 0; i < n; i++) {
        int64_t lost = holders[i].written - holders[i].usage.bytes;
        if (!holders[i].running || lost < worth)
            continue;
        worth = lost + 1;
        found = (int)i;
    }
    return found;
}

int bh_disk_scapegoat(const struct bh_disk_holder *holders, size_t n, const struct bh_disk_space *space,
                      const struct bh_disk_space *began)
{
    bool bytes = space->free < bh_disk_reserve(space);
    int64_t worth = bytes ? bh_disk_reserve(space) / 16 : bh_disk_reserve_inodes(space) / 16;
    int64_t unknown = taken(space, bytes) - taken(began, bytes);
    for (size_t i = 0; i < n; i++)
        unknown -= held_by(&holders[i], bytes);
    int found = largest_holder(holders, n, bytes, worth);
    if (found >= 0 && unknown < held_by(&holders[found], bytes))
        return found;
    return bytes && unknown >= worth ? largest_writer(holders, n, most(worth, unknown / 2)) : -1;
}

bool bh_disk_is_worse(const struct bh_disk_space *space, const struct bh_disk_space *mark)
{
    return space->free < mark->free - bh_disk_reserve(space) / 8 ||
           (space->inodes > 0 && space->free_inodes < mark->free_inodes - bh_disk_reserve_inodes(space) / 8);
}
