/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/disk/watch.h"

#include <event2/event.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "workers/disk/quota.h"
#include "workers/disk/watch_priv.h"

#define WEIGH_EVERY 2 /* ticks */

#define BOX(it) BH_CONTAINER(it, struct bh_disk_box, link)

/* --- what the host can do --- */

/* An overlay that is mounted by others than root keeps its marks in attributes of users, which a tmpfs has only since
 * Linux 6.6. A nameless file in memory lies on one. */
static bool memory_keeps_attributes(void)
{
    BH_CLEANUP_FD int fd = memfd_create("probe", MFD_CLOEXEC);
    return fd >= 0 && fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) == 0;
}

const struct bh_disk_host *bh_disk_watch_host(struct bh_disk_watch *w)
{
    if (!w->knows_host)
        w->host = (struct bh_disk_host){.memory = memory_keeps_attributes(), .quota = bh_disk_quota_works(w->path)};
    w->knows_host = true;
    return &w->host;
}

void bh_disk_space_read(const struct bh_disk_watch *w, struct bh_disk_space *ret)
{
    struct statvfs fs;
    *ret = (struct bh_disk_space){.total = 0};
    if (fstatvfs(w->home, &fs) < 0)
        return;
    *ret = (struct bh_disk_space){
        .total = (int64_t)(fs.f_blocks * fs.f_frsize),
        .free = (int64_t)(fs.f_bavail * fs.f_frsize),
        .inodes = (int64_t)fs.f_files,
        .free_inodes = (int64_t)fs.f_favail,
    };
}

/* Nobody is charged for what goes there. */
bool bh_disk_is_in_memory(const struct bh_disk_watch *w)
{
    struct statfs fs;
    return fstatfs(w->home, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

int bh_disk_watch_room(const struct bh_disk_watch *w, struct bh_err **err)
{
    struct bh_disk_space space;
    char left[BH_UNIT_TEXT], wanted[BH_UNIT_TEXT];
    bh_disk_space_read(w, &space);
    if (!bh_disk_is_low(&space))
        return 0;
    int rc = bh_err_set(err, BH_E_DISK_FULL, 0, "the disk of '%s' is nearly full", w->path);
    if (space.free < bh_disk_reserve(&space))
        bh_err_detail(err, "%s are free, and no box is made with less than %s", bh_format_size(space.free, left),
                      bh_format_size(bh_disk_reserve(&space), wanted));
    else
        bh_err_detail(err, "%lld inodes are free, and no box is made with less than %lld", (long long)space.free_inodes,
                      (long long)bh_disk_reserve_inodes(&space));
    bh_err_hint(err, "free space there, or give --home a folder on another disk");
    return rc;
}

/* --- the host's reserve --- */

static void judge_from_now(struct bh_disk_watch *w)
{
    w->reserve = JUDGING;
    w->stopped_some = false;
    BH_LIST_FOREACH (it, tmp, &w->boxes) {
        struct bh_disk_box *b = BOX(it);
        if (b->running == 0 || b->by == BH_BY_TMPFS)
            continue;
        b->unjudged = b->must = b->by != BH_BY_QUOTA;
        b->halted = true;
        b->events->pause(b->arg, true);
    }
}

static void go_on(struct bh_disk_watch *w)
{
    BH_LIST_FOREACH (it, tmp, &w->boxes) {
        struct bh_disk_box *b = BOX(it);
        b->unjudged = false;
        if (!b->halted)
            continue;
        b->halted = false;
        if (!b->paused)
            b->events->pause(b->arg, false);
    }
}

static bool some_unjudged(const struct bh_disk_watch *w)
{
    BH_LIST_FOREACH (it, tmp, &w->boxes) {
        if (BOX(it)->unjudged)
            return true;
    }
    return false;
}

static void write_note(const struct bh_disk_box *b, const struct bh_disk_space *space, char *note, size_t size)
{
    char left[BH_UNIT_TEXT], held[BH_UNIT_TEXT], wrote[BH_UNIT_TEXT];
    if (space->free < bh_disk_reserve(space))
        (void)snprintf(note, size,
                       "the host's disk is nearly full (%s are free), and of all boxes this one took most: it held %s, "
                       "and what runs in it wrote %s",
                       bh_format_size(space->free, left), bh_format_size(b->pace.usage.bytes, held),
                       bh_format_size(b->written, wrote));
    else
        (void)snprintf(note, size,
                       "the host's disk has hardly an inode left (%lld), and of all boxes this one held most (%lld)",
                       (long long)space->free_inodes, (long long)b->pace.usage.inodes);
}

/* Nobody is over a limit of its own. */
static void stop_the_largest(struct bh_disk_watch *w, const struct bh_disk_space *space)
{
    struct bh_disk_holder *holders = NULL;
    size_t n = 0, cap = 0;
    char note[240];
    BH_LIST_FOREACH (it, tmp, &w->boxes) {
        const struct bh_disk_box *b = BOX(it);
        struct bh_disk_holder *h = BH_PUSH(holders, n, cap);
        *h = (struct bh_disk_holder){.limits = b->limits};
        if (b->by == BH_BY_TMPFS) /* holds nothing there */
            continue;
        h->usage = b->pace.usage;
        h->written = b->written;
        h->running = b->running > 0;
    }
    int found = bh_disk_scapegoat(holders, n, space, &w->began);
    BH_LIST_FOREACH (it, tmp, &w->boxes) {
        if (found-- != 0)
            continue;
        write_note(BOX(it), space, note, sizeof(note));
        bh_disk_box_stop(BOX(it), note);
        break;
    }
    bh_free(holders);
}

static void guard_reserve(struct bh_disk_watch *w, const struct bh_disk_space *space)
{
    char left[BH_UNIT_TEXT], inodes[32];
    if (!bh_disk_is_low(space)) {
        if (w->reserve == JUDGING)
            go_on(w);
        w->reserve = PLENTY;
        return;
    }
    if (w->reserve == PLENTY) {
        (void)snprintf(inodes, sizeof(inodes), "%lld", (long long)space->free_inodes);
        bh_log(BH_LOG_WARN, "disk.low", "free", bh_format_size(space->free, left), "inodes", inodes, NULL);
    }
    if (w->reserve == PLENTY || (w->reserve == JUDGED && bh_disk_is_worse(space, &w->mark))) {
        judge_from_now(w);
        return; /* those that must be looked at are so below */
    }
    if (w->reserve != JUDGING || some_unjudged(w))
        return;
    if (!w->stopped_some)
        stop_the_largest(w, space);
    go_on(w);
    w->reserve = JUDGED;
    w->mark = *space;
}

/* A disk can be filled in less than a tick; the nearer that is, the shorter they are. */
static void set_pace(struct bh_disk_watch *w, const struct bh_disk_space *space)
{
    bool hurried = bh_disk_is_tight(space);
    const struct timeval period = {.tv_usec = hurried ? BH_DISK_HURRIED_US : BH_DISK_TICK_US};
    if (hurried != w->hurried)
        (void)event_add(w->tick, &period);
    w->hurried = hurried;
}

/* --- the tick --- */

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct bh_disk_watch *w = arg;
    struct bh_disk_space space;
    (void)fd;
    (void)what;
    w->ticks++;
    bh_disk_space_read(w, &space);
    guard_reserve(w, &space);
    BH_LIST_FOREACH (it, tmp, &w->boxes) {
        if (BOX(it)->running == 0)
            continue;
        bh_disk_box_tick(BOX(it), &space);
        if (w->ticks % WEIGH_EVERY == 0)
            bh_disk_scale_weigh(BOX(it)->scale);
    }
    if (w->ticks % WEIGH_EVERY == 0)
        bh_disk_scales_weigh(w);
    set_pace(w, &space);
    if (w->running == 0) {
        (void)event_del(w->tick);
        w->hurried = false;
    }
}

static void free_parts(struct bh_disk_watch *w)
{
    if (w->tick)
        event_free(w->tick);
    bh_helper_free(w->walker);
    bh_helper_free(w->weigher);
    bh_close(w->home);
    bh_free(w->path);
    bh_free(w);
}

struct bh_helper *bh_disk_watch_helper(struct bh_disk_watch *w, struct bh_helper **which)
{
    struct bh_err *err = NULL;
    if (!*which && bh_helper_new(w->loop, which, &err) != 0) {
        bh_log(BH_LOG_ERROR, "disk.helper", "error", bh_err_message(err), NULL);
        bh_err_free(err);
    }
    return *which;
}

int bh_disk_watch_new(struct event_base *loop, const char *home, struct bh_disk_watch **ret, struct bh_err **err)
{
    struct bh_disk_watch *w = bh_alloc(sizeof(*w));
    *w = (struct bh_disk_watch){.loop = loop, .path = bh_strdup(home)};
    bh_list_init(&w->boxes);
    bh_list_init(&w->scales);
    w->home = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    w->tick = event_new(loop, -1, EV_PERSIST, on_tick, w);
    if (w->home < 0 || !w->tick) {
        int rc = bh_err_set(err, BH_E_IO, w->home < 0 ? errno : 0, "cannot watch the disk of '%s'", home);
        free_parts(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void bh_disk_watch_free(struct bh_disk_watch *w)
{
    if (!w)
        return;
    BH_ASSERT(bh_list_empty(&w->boxes) && bh_list_empty(&w->scales));
    free_parts(w);
}
