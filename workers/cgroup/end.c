/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of groups: what is in them is killed, then they are removed, those below first. Also for groups of launchers
 * that are dead, which is known by their lock alone. A process is killed only while it is in the group: a number that
 * the kernel has given to somebody else meanwhile is not.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "workers/cgroup/priv.h"

/* --- killing --- */

static int is_it(pid_t pid, void *arg)
{
    return pid == *(const pid_t *)arg ? 1 : 0;
}

struct target {
    int dirfd;
    const char *group;
};

static int kill_one(pid_t pid, void *arg)
{
    const struct target *t = arg;
    BH_CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0 && bh_cgroup_each(t->dirfd, t->group, is_it, &pid) == 1)
        (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    return 0;
}

/* v2 kills all at once and cannot be outrun; with v1 it is the caller who comes again. */
static void kill_group(int dirfd, const char *group, void *arg)
{
    (void)arg;
    if (bh_cgroup_write(dirfd, group, "cgroup.kill", "1") == 0)
        return;
    struct target t = {dirfd, group};
    (void)bh_cgroup_each(dirfd, group, kill_one, &t);
    /* Frozen by v1 it dies when it is thawed. */
    (void)bh_cgroup_write(dirfd, group, "freezer.state", "THAWED");
    (void)bh_cgroup_write(dirfd, group, "cgroup.freeze", "0");
}

void bh_cgroup_kill_in(int dirfd, const char *group)
{
    bh_cgroup_walk(dirfd, group, kill_group, NULL);
}

void bh_cgroup_kill(const struct bh_cgroup *cg, const char *group)
{
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++) {
        if (cg->dirs[i] >= 0)
            bh_cgroup_kill_in(cg->dirs[i], group);
    }
}

/* --- removing --- */

int bh_cgroup_remove(const struct bh_cgroup *cg, const char *group)
{
    int why = 0;
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++) {
        if (cg->dirs[i] >= 0 && bh_cgroup_rmdir(cg->dirs[i], group) < 0)
            why = errno;
    }
    errno = why;
    return why ? -1 : 0;
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int bh_cgroup_clear(int dirfd, const char *group, int64_t wait_ms)
{
    int64_t end = now_ms() + wait_ms;
    while (bh_cgroup_rmdir(dirfd, group) < 0) {
        if (errno != EBUSY || now_ms() >= end)
            return -1;
        bh_cgroup_kill_in(dirfd, group);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return 0;
}

static void remove_empty_top(int top)
{
    BH_CLEANUP_FD int place = openat(top, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place >= 0)
        (void)unlinkat(place, BH_CGROUP_TOP, AT_REMOVEDIR);
}

void bh_cgroup_end(struct bh_cgroup *cg)
{
    /* The freezer is the last part, and first: what it holds dies when it is thawed. */
    for (size_t i = BH_CGROUP_PARTS; i-- > 0 && cg->kind != BH_CGROUP_NONE;) {
        if (cg->tops[i] < 0)
            continue;
        (void)bh_cgroup_clear(cg->tops[i], cg->name, BH_CGROUP_WAIT_MS);
        remove_empty_top(cg->tops[i]);
    }
    bh_cgroup_close(cg);
}

/* --- of the worker --- */

void bh_cgroup_close(struct bh_cgroup *cg)
{
    for (size_t i = 0; i < BH_CGROUP_PARTS && cg->kind != BH_CGROUP_NONE; i++) {
        bh_close(BH_TAKE_FD(cg->dirs[i]));
        bh_close(BH_TAKE_FD(cg->tops[i]));
    }
    cg->kind = BH_CGROUP_NONE;
}

size_t bh_cgroup_tops(const struct bh_cgroup *cg, int ret[static BH_CGROUP_PARTS])
{
    size_t n = 0;
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++) {
        if (cg->kind != BH_CGROUP_NONE && cg->tops[i] >= 0)
            ret[n++] = cg->tops[i];
    }
    return n;
}

/* v2 has one top; v1 one for each part that there is. */
int bh_cgroup_attach(struct bh_cgroup *cg, const int *tops, size_t n)
{
    size_t used = 0;
    int why = EPROTO;
    memset(cg->tops, 0xff, sizeof(cg->tops));
    memset(cg->dirs, 0xff, sizeof(cg->dirs));
    for (size_t i = 0; i < BH_CGROUP_PARTS && used < n; i++) {
        bool there = cg->kind == BH_CGROUP_V2 ? i == 0 : bh_cgroup_can(cg, (enum bh_cgroup_part)i);
        if (!there)
            continue;
        cg->tops[i] = tops[used++];
        cg->dirs[i] = bh_cgroup_open_dir(cg->tops[i], cg->name);
        if (cg->dirs[i] < 0)
            why = errno;
    }
    for (size_t i = used; i < n; i++)
        bh_close(tops[i]);
    bool whole = used == n;
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++)
        whole = whole && (cg->tops[i] < 0) == (cg->dirs[i] < 0);
    if (whole && (n > 0 || cg->kind == BH_CGROUP_NONE))
        return 0;
    bh_cgroup_close(cg);
    cg->can = 0;
    errno = why;
    return -1;
}

/* --- of dead launchers --- */

struct counts {
    size_t removed, left;
    const struct bh_cgroup_reclaim_how *how;
};

static void reclaim_owner(int top, const char *place, const char *name, struct counts *c)
{
    char path[4096];
    BH_CLEANUP_FD int fd = bh_cgroup_open_dir(top, name);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return; /* not ours, or its launcher lives */
    int why = !c->how->dry_run && bh_cgroup_clear(top, name, BH_CGROUP_WAIT_MS) < 0 ? errno : 0;
    c->removed += why == 0;
    c->left += why != 0;
    int n = snprintf(path, sizeof(path), "%s/%s", place, name);
    if (c->how->found && n > 0 && (size_t)n < sizeof(path))
        c->how->found(c->how->arg, path, why);
}

static void reclaim_in(const char *place, struct counts *c)
{
    char path[4096];
    int n = place ? snprintf(path, sizeof(path), "%s/" BH_CGROUP_TOP, place) : -1;
    if (n < 0 || (size_t)n >= sizeof(path))
        return;
    BH_CLEANUP_FD int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = bh_dir_stream(top >= 0 ? openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_type == DT_DIR && bh_starts_with(e->d_name, BH_CGROUP_OWNER))
            reclaim_owner(top, path, e->d_name, c);
    }
    (void)closedir(dir);
    if (!c->how->dry_run)
        remove_empty_top(top);
}

static void reclaim_place(const struct bh_cgroup_place *p, struct counts *c)
{
    reclaim_in(p->mount, c);
    if (p->own && !bh_streq(p->own, p->mount))
        reclaim_in(p->own, c);
    if (p->own && bh_ends_with(p->own, "/" BH_CGROUP_SELF)) {
        p->own[strlen(p->own) - strlen("/" BH_CGROUP_SELF)] = '\0';
        reclaim_in(p->own, c);
    }
}

size_t bh_cgroup_reclaim(size_t *ret_left)
{
    static const struct bh_cgroup_reclaim_how silent = {0};
    return bh_cgroup_reclaim_how(&silent, ret_left);
}

size_t bh_cgroup_reclaim_how(const struct bh_cgroup_reclaim_how *how, size_t *ret_left)
{
    struct bh_cgroup_places places;
    struct counts c = {.how = how};
    if (bh_cgroup_places_read(&places) == 0) {
        reclaim_place(&places.v2, &c);
        for (size_t i = BH_CGROUP_PARTS; i-- > 0;) /* the freezer first, as above */
            reclaim_place(&places.v1[i], &c);
    }
    bh_cgroup_places_fini(&places);
    if (ret_left)
        *ret_left = c.left;
    return c.removed;
}
