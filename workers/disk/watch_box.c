/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one box under watch writes.
 *
 *   looked at --over--> paused --counted again--> stopped
 *                          +------not over------> goes on
 */
#include <event2/event.h>
#include <fcntl.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/units.h"
#include "workers/disk/processes.h"
#include "workers/disk/quota.h"
#include "workers/disk/watch_priv.h"

#define AT_ONCE_ENTRIES 256 /* names that are looked at on the loop's thread: a fraction of a millisecond */

/* --- what the kernel counts --- */

static int read_memory(const struct bh_disk_box *b, struct bh_disk_usage *ret, const char **ret_met)
{
    struct statvfs fs;
    if (fstatvfs(b->memory_fd, &fs) < 0)
        return -1;
    *ret = (struct bh_disk_usage){.bytes = (int64_t)((fs.f_blocks - fs.f_bfree) * fs.f_frsize),
                                  .inodes = (int64_t)(fs.f_files - fs.f_ffree)};
    if (b->limits.bytes > 0 && fs.f_bfree == 0)
        *ret_met = "disk";
    else if (b->limits.inodes > 0 && fs.f_ffree == 0)
        *ret_met = "inodes";
    return 0;
}

/* A write that is refused may leave a few blocks free: those that it would have needed for its own bookkeeping. */
static int read_quota(const struct bh_disk_box *b, struct bh_disk_usage *ret, const char **ret_met)
{
    const int64_t slack = 32768;
    struct bh_disk_limits l;
    BH_CLEANUP_FD int fd = open(b->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || bh_disk_quota_read(fd, b->project, ret, &l) < 0)
        return -1;
    if (l.bytes > 0 && ret->bytes + slack > l.bytes)
        *ret_met = "disk";
    else if (l.inodes > 0 && ret->inodes >= l.inodes)
        *ret_met = "inodes";
    return 0;
}

/* The first one stays: what is met later may follow from it. */
static void meet(struct bh_disk_box *b, const char *limit)
{
    if (!b->met)
        b->met = limit;
}

/* False where nobody but a walk can tell. */
static bool ask_kernel(struct bh_disk_box *b)
{
    struct bh_disk_usage usage;
    const char *met = NULL;
    int rc = b->by == BH_BY_TMPFS   ? read_memory(b, &usage, &met)
             : b->by == BH_BY_QUOTA ? read_quota(b, &usage, &met)
                                    : -1;
    if (rc < 0)
        return b->by == BH_BY_TMPFS || b->by == BH_BY_QUOTA;
    usage.bytes -= b->base.bytes;
    usage.inodes -= b->base.inodes;
    b->pace.usage = usage;
    b->known = true;
    meet(b, met);
    return true;
}

/* --- walks --- */

struct walk {
    char *folder;
    int init;
    struct bh_disk_bounds bounds;
    struct bh_disk_space space; /* from before */
    struct bh_mono started, ended;
    struct bh_disk_usage usage;
    int64_t written;
    bool in_memory; /* the file system is */
    bool frozen;    /* nothing moves in the box meanwhile */
    atomic_bool given_up;
};

static int open_upper(const char *folder)
{
    BH_CLEANUP_FD int dir = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir >= 0 ? bh_open_beneath(dir, "upper", O_RDONLY | O_DIRECTORY, 0) : -1;
}

/* upper/ and the trees in it are ours, not the agent's. */
static void count_upper(const char *folder, const struct bh_disk_bounds *bounds, struct bh_disk_usage *usage)
{
    static const char *const trees[] = {"root", "usr", "opt"};
    BH_CLEANUP_FD int upper = open_upper(folder);
    for (size_t i = 0; upper >= 0 && i < BH_ARRAY_LEN(trees) && !usage->cut; i++) {
        BH_CLEANUP_FD int tree = bh_open_beneath(upper, trees[i], O_RDONLY | O_DIRECTORY, 0);
        if (tree >= 0)
            bh_disk_count(tree, bounds, usage);
    }
}

/* Something was closed to us: upper/ itself is ours, so what lies above the trees is counted, too. */
static void count_closed(struct walk *w)
{
    struct bh_disk_usage usage;
    BH_CLEANUP_FD int upper = open_upper(w->folder);
    if (upper >= 0 && bh_disk_count_as_owner(upper, &w->bounds, &usage) == 0)
        w->usage = usage;
}

static void run_walk(void *data)
{
    struct walk *w = data;
    struct bh_disk_processes processes = {0};
    w->started = bh_mono_now();
    count_upper(w->folder, &w->bounds, &w->usage);
    if (w->usage.hidden > 0 && !w->usage.cut)
        count_closed(w);
    if (!w->usage.cut && w->init > 0) {
        bh_disk_processes_find(w->init, &processes);
        bh_disk_count_open(&processes, &w->bounds, &w->usage);
        w->written = bh_disk_processes_written(&processes, w->in_memory);
        bh_disk_processes_fini(&processes);
    }
    w->ended = bh_mono_now();
}

static void dispose_walk(void *data)
{
    struct walk *w = data;
    bh_free(w->folder);
    bh_free(w);
}

static void say_over(const struct bh_disk_box *b, const struct bh_disk_usage *usage, const char *what)
{
    char held[BH_UNIT_TEXT], limit[BH_UNIT_TEXT], note[200];
    const char *least = usage->cut ? "at least " : "";
    if (what[0] == 'd')
        (void)snprintf(note, sizeof(note), "the box held %s%s on disk, and its limit is %s", least,
                       bh_format_size(usage->bytes, held), bh_format_size(b->limits.bytes, limit));
    else
        (void)snprintf(note, sizeof(note), "the box held %s%lld files, and its limit is %lld", least,
                       (long long)usage->inodes, (long long)b->limits.inodes);
    b->events->full(b->arg, note);
}

void bh_disk_box_stop(struct bh_disk_box *b, const char *note)
{
    meet(b, "disk");
    b->watch->stopped_some = true;
    b->events->full(b->arg, note);
}

/* Of a count during which things were moved about nothing follows: not that it is too much, nor that it is not. */
static void count_again(struct bh_disk_box *b)
{
    b->must = true;
    if (b->paused)
        return;
    b->paused = true;
    if (!b->halted)
        b->events->pause(b->arg, true);
}

/* The box may be gone when this returns. */
static void judge(struct bh_disk_box *b, const struct bh_disk_usage *usage, bool frozen)
{
    const char *over = bh_disk_over(usage, &b->limits);
    if (!frozen && b->running > 0 && (over || usage->moved > 0 || b->unjudged)) {
        count_again(b);
        return;
    }
    if (!over && b->paused) {
        b->paused = false;
        if (!b->halted)
            b->events->pause(b->arg, false);
    } else if (over && b->running > 0) {
        b->paused = b->halted = false;
        b->unjudged = false;
        meet(b, over);
        b->watch->stopped_some = true;
        say_over(b, usage, over);
        return;
    }
    b->unjudged = false;
}

static void walk_done(void *owner, void *data)
{
    struct bh_disk_box *b = owner;
    const struct walk *w = data;
    b->walk = NULL;
    b->given_up = NULL;
    b->known = true;
    bh_disk_pace_walked(&b->pace, &b->limits, &w->usage, &w->space, w->started, w->ended);
    b->written = w->written;
    judge(b, &w->usage, w->frozen);
}

static const struct bh_job_ops walk_ops = {run_walk, walk_done, dispose_walk};

void bh_disk_box_walk(struct bh_disk_box *b)
{
    struct bh_helper *helper = bh_disk_watch_helper(b->watch, &b->watch->walker);
    if (!helper || b->walk)
        return;
    struct walk *w = bh_alloc(sizeof(*w));
    w->folder = bh_strdup(b->folder);
    w->init = b->init;
    w->bounds = (struct bh_disk_bounds){.bytes = b->limits.bytes, .inodes = b->limits.inodes, .given_up = &w->given_up};
    bh_disk_space_read(b->watch, &w->space);
    w->in_memory = bh_disk_is_in_memory(b->watch);
    w->frozen = b->paused || b->halted;
    b->must = false;
    b->given_up = &w->given_up;
    b->walk = bh_helper_submit(helper, &walk_ops, b, w);
}

void bh_disk_box_tick(struct bh_disk_box *b, const struct bh_disk_space *space)
{
    if (ask_kernel(b))
        return;
    if (!b->walk && (b->must || bh_disk_pace_due(&b->pace, &b->limits, space, bh_mono_now())))
        bh_disk_box_walk(b);
}

/* --- life --- */

struct bh_disk_box *bh_disk_box_new(struct bh_disk_watch *w, const struct bh_disk_box_spec *spec,
                                    const struct bh_disk_events *events, void *arg)
{
    struct bh_disk_box *b = bh_alloc(sizeof(*b));
    struct bh_disk_space space;
    *b = (struct bh_disk_box){
        .watch = w,
        .folder = bh_strdup(spec->folder),
        .by = spec->by,
        .limits = spec->limits,
        .init = spec->init,
        .memory_fd = spec->memory_fd,
        .project = spec->project,
        .events = events,
        .arg = arg,
    };
    bool first = bh_list_empty(&w->boxes);
    bh_list_init(&b->link);
    bh_list_append(&w->boxes, &b->link);
    if (spec->memory > 0)
        b->scale = bh_disk_scale_make(w, b->init, 0, spec->memory, events->out_of_memory, arg);
    bh_disk_space_read(w, &space);
    if (first)
        w->began = space;
    bh_disk_pace_begin(&b->pace, &space, bh_mono_now());
    if (ask_kernel(b)) {
        b->base = b->pace.usage;
        b->pace.usage = (struct bh_disk_usage){0};
    }
    b->met = NULL;
    return b;
}

void bh_disk_box_free(struct bh_disk_box *b)
{
    if (!b)
        return;
    if (b->given_up)
        atomic_store(b->given_up, true);
    bh_job_forget(b->walk);
    bh_disk_scale_free(b->scale);
    b->watch->running -= b->running;
    bh_list_remove(&b->link);
    bh_close(b->memory_fd);
    bh_free(b->folder);
    bh_free(b);
}

void bh_disk_box_begin(struct bh_disk_box *b)
{
    const struct timeval period = {.tv_usec = BH_DISK_TICK_US};
    if (b->running == 0) {
        b->met = NULL;
        b->must = bh_disk_over(&b->pace.usage, &b->limits) != NULL;
    }
    b->running++;
    b->watch->running++;
    if (!evtimer_pending(b->watch->tick, NULL))
        (void)event_add(b->watch->tick, &period);
}

/* A count that was stopped says only how little there can be. */
static void look_at_once(struct bh_disk_box *b)
{
    const struct bh_disk_bounds bounds = {.entries = AT_ONCE_ENTRIES};
    struct bh_disk_usage usage = {0};
    if (ask_kernel(b))
        return;
    count_upper(b->folder, &bounds, &usage);
    if (usage.cut && usage.bytes < b->pace.usage.bytes)
        return;
    b->pace.usage = usage;
    b->known = true;
    meet(b, bh_disk_over(&usage, &b->limits));
    /* A single file cannot pass RLIMIT_FSIZE, and who ignores its signal gets EFBIG. */
    if (b->by == BH_BY_WATCHDOG && b->limits.bytes > 0 && usage.largest >= b->limits.bytes)
        meet(b, "disk");
}

const char *bh_disk_box_end(struct bh_disk_box *b)
{
    look_at_once(b);
    b->running--;
    b->watch->running--;
    if (b->running == 0)
        b->paused = b->unjudged = false; /* and halted, until the others are judged */
    return b->met;
}

int64_t bh_disk_box_bytes(const struct bh_disk_box *b)
{
    return b->known ? b->pace.usage.bytes : -1;
}
