/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who writes in a shared box of the ns backend: its root is watched from the moment when a second exec runs in it until
 * none does, where we may (root of the host). An exec is known by the root mount of its mount namespace: looked up in
 * /proc as soon as the box's init has said its number, else what the exec's PID 1 said of itself at the end.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "workers/box/fan.h"
#include "workers/box/mount_id.h"
#include "workers/box/ns_priv.h"
#include "workers/disk/processes.h"

#define EXEC(it) BH_CONTAINER(it, struct bh_exec, link)
#define A_TURN 256    /* events: some milliseconds */
#define IN_INIT "box" /* the root of the agents, below that of their init */

/* --- whose mount it is --- */

static int open_at_process(int pid, const char *path)
{
    char proc[48];
    (void)snprintf(proc, sizeof(proc), "/proc/%d/root", pid);
    BH_CLEANUP_FD int root = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root >= 0 && *path ? openat(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : BH_TAKE_FD(root);
}

/* An exec that is being made still has its init's root, in its own namespace; afterwards the box is its root. */
static uint64_t mount_of(const struct bh_box *box, int pid)
{
    static const char *const places[] = {IN_INIT, ""};
    for (size_t i = 0; i < BH_ARRAY_LEN(places); i++) {
        struct statx sx;
        BH_CLEANUP_FD int fd = open_at_process(pid, places[i]);
        uint64_t mount = fd >= 0 ? bh_mount_id(fd, "", STATX_BASIC_STATS, &sx) : 0;
        if (mount != 0 && sx.stx_dev_major == box->root_major && sx.stx_dev_minor == box->root_minor)
            return mount;
    }
    return 0;
}

/* By /proc, as long as it lives. */
static void name_exec(struct bh_exec *exec)
{
    struct bh_box *box = exec->box;
    if (exec->named || exec->inside == 0 || !box->fan || box->dead)
        return;
    int pid = bh_disk_process_of_exec(box->pid, exec->inside);
    uint64_t mount = pid > 0 ? mount_of(box, pid) : 0;
    /* The same number may be another's by now; then it is not below our init. */
    if (mount == 0 || bh_disk_process_of_exec(box->pid, exec->inside) != pid)
        return;
    exec->named = true;
    bh_fan_name(box->fan, mount, exec->tag);
}

/* Where the numbers of mounts are used again each must be known before its exec can be gone; else there is time. */
static bool can_wait(const struct bh_box *box)
{
    return box->lasting_mounts;
}

/* --- the watch --- */

static void on_written(evutil_socket_t fd, short what, void *arg)
{
    const struct bh_box *box = arg;
    (void)fd;
    (void)what;
    (void)bh_fan_take(box->fan, A_TURN);
}

static int open_root(struct bh_box *box)
{
    struct statx sx;
    BH_CLEANUP_FD int root = open_at_process(box->pid, IN_INIT);
    if (root < 0 || bh_mount_id(root, "", STATX_BASIC_STATS, &sx) == 0)
        return -1;
    box->root_major = sx.stx_dev_major;
    box->root_minor = sx.stx_dev_minor;
    box->lasting_mounts = sx.stx_mask & STATX_MNT_ID_UNIQUE;
    return BH_TAKE_FD(root);
}

static int begin(struct bh_box *box)
{
    BH_CLEANUP_FD int root = open_root(box);
    if (root < 0)
        return -1;
    if (!box->fan)
        box->fan = bh_fan_new();
    if (bh_fan_start(box->fan, root) < 0)
        return -1;
    box->fan_event = event_new(box->ns->loop, bh_fan_fd(box->fan), EV_READ | EV_PERSIST, on_written, box);
    BH_ASSERT(box->fan_event && event_add(box->fan_event, NULL) == 0);
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        if (!can_wait(box))
            name_exec(EXEC(it));
    }
    return 0;
}

static void end(struct bh_box *box)
{
    if (!box->fan_event)
        return;
    event_free(BH_TAKE(box->fan_event));
    (void)bh_fan_moment(box->fan);
    bh_fan_stop(box->fan);
}

void bh_ns_watch_exec(struct bh_exec *exec)
{
    struct bh_box *box = exec->box;
    bool several = !bh_list_empty(&box->execs) && box->execs.next->next != &box->execs;
    if (!box->shared || !several || box->fan_event || box->ns->unwatched || box->state != BOX_ALIVE)
        return;
    if (begin(box) == 0)
        return;
    if (errno == EPERM || errno == EINVAL || errno == ENOSYS) /* it will not be otherwise for the next box */
        box->ns->unwatched = true;
    bh_log(BH_LOG_DEBUG, "box.unwatched", "error", strerror(errno), NULL);
}

void bh_ns_watch_started(struct bh_exec *exec)
{
    if (!can_wait(exec->box))
        name_exec(exec);
}

void bh_ns_watch_killed(struct bh_exec *exec)
{
    name_exec(exec); /* it will have no time to say itself */
}

void bh_ns_watch_ended(struct bh_exec *exec, uint64_t mount)
{
    struct bh_box *box = exec->box;
    if (box->fan && !exec->named && mount != 0) {
        exec->named = true;
        bh_fan_name(box->fan, mount, exec->tag);
    }
    bool alone = box->execs.next == &exec->link && exec->link.next == &box->execs;
    if (alone)
        end(box);
}

void bh_ns_watch_stop(struct bh_box *box)
{
    end(box);
}

void bh_ns_watch_fini(struct bh_box *box)
{
    end(box);
    bh_fan_free(BH_TAKE(box->fan));
}

/* --- what the worker asks --- */

uint64_t bh_ns_moment(struct bh_box *box)
{
    return box->fan ? bh_fan_moment(box->fan) : 0;
}

static bool some_unknown(const struct bh_box_writers *w)
{
    for (size_t i = 0; i < w->n; i++) {
        if (w->of[i].tag == 0)
            return true;
    }
    return false;
}

bool bh_ns_writers(struct bh_box *box, uint64_t since, uint64_t file, const char *path, struct bh_box_writers *ret)
{
    *ret = (struct bh_box_writers){.n = 0};
    if (!box->fan)
        return false;
    bh_fan_ask(box->fan, since, file, path, ret);
    if (some_unknown(ret)) {
        BH_LIST_FOREACH (it, tmp, &box->execs)
            name_exec(EXEC(it));
        bh_fan_ask(box->fan, since, file, path, ret);
    }
    return true;
}
