/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launcher does first: finds a place for groups by making some, bounds the one over all boxes, and locks its
 * own. Where a place fails the next is tried, and the last reason is kept for people.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "workers/cgroup/priv.h"

#define NAMES_MAX 16   /* tries: a reclaimer may be holding what we have just made */
#define TOP_TRIES 16   /* somebody may remove the empty top while we go into it */
#define TOP_WEIGHT 50  /* half of the default 100 */
#define TOP_SHARES 512 /* half of the default 1024 */

static const char remedy_delegate[] =
    "run it as `systemd-run --user --scope -p Delegate=yes bulkhead run …`, or as root";
static const char remedy_alone[] =
    "start bulkhead alone in a delegated group: `systemd-run --user --scope -p Delegate=yes "
    "bulkhead run …`; a group that holds processes can divide no memory";
static const char remedy_mount[] = "mount a cgroup2 file system on /sys/fs/cgroup; in a container, a writable one";

static int no(struct bh_cgroup *cg, const char *remedy, const char *fmt, ...) BH_PRINTF(3, 4);
static int no(struct bh_cgroup *cg, const char *remedy, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(cg->found, sizeof(cg->found), fmt, ap) < 0)
        cg->found[0] = '\0';
    va_end(ap);
    (void)snprintf(cg->remedy, sizeof(cg->remedy), "%s", remedy);
    return -1;
}

static int let_go(int *fds)
{
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++)
        bh_close(BH_TAKE_FD(fds[i]));
    return -1;
}

/* --- the top: one group over all boxes --- */

static int64_t read_number(const char *path)
{
    char text[32] = "";
    int64_t n;
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return -1;
    text[strcspn(text, "\n")] = '\0';
    return bh_parse_int(text, &n) == 0 ? n : -1;
}

/* Half of what the kernel would give to everybody. */
static int64_t top_pids(void)
{
    int64_t pids = read_number("/proc/sys/kernel/pid_max"), threads = read_number("/proc/sys/kernel/threads-max");
    int64_t least = pids > 0 && (threads <= 0 || pids < threads) ? pids : threads;
    return least > 1 ? least / 2 : 16384;
}

static int64_t top_memory(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 ? (int64_t)((uint64_t)info.totalram * info.mem_unit / 10 * 9) : 0;
}

/*
 * Beside other groups: half of what one of them has. Where the host's processes stand in the place itself each of them
 * weighs as much as a whole group, and a group's weight is spread over the processors: then as much as one process on
 * each of them, or boxes would starve as soon as the host has something to do.
 */
static int64_t top_weight(bool v2, bool flat)
{
    int64_t weight = v2 ? TOP_WEIGHT : TOP_SHARES;
    if (flat)
        weight = 2 * weight * sysconf(_SC_NPROCESSORS_ONLN);
    return v2 && weight > 10000 ? 10000 : weight;
}

/* Bounds are a protection of the host, no promise to a box: where one cannot be set the others still are. */
static void bound_top(const struct bh_cgroup *cg, enum bh_cgroup_part part, int top, bool flat)
{
    bool v2 = cg->kind == BH_CGROUP_V2;
    int64_t memory = top_memory();
    if (part == BH_CGROUP_CPU)
        (void)bh_cgroup_write_number(top, ".", v2 ? "cpu.weight" : "cpu.shares", top_weight(v2, flat));
    if (part == BH_CGROUP_PIDS)
        (void)bh_cgroup_write_number(top, ".", "pids.max", top_pids());
    if (part == BH_CGROUP_MEMORY && !v2)
        (void)bh_cgroup_write_number(top, ".", "memory.use_hierarchy", 1); /* the default since 5.11 */
    if (part == BH_CGROUP_MEMORY && memory > 0)
        (void)bh_cgroup_write_number(top, ".", v2 ? "memory.max" : "memory.limit_in_bytes", memory);
}

static int make_top(int place)
{
    if (mkdirat(place, BH_CGROUP_TOP, 0755) < 0 && errno != EEXIST)
        return -1;
    return bh_cgroup_open_dir(place, BH_CGROUP_TOP);
}

/* --- our own group, locked --- */

static bool still_there(int top, const char *name, int fd)
{
    struct stat ours, now;
    return fstat(fd, &ours) == 0 && fstatat(top, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_dev == now.st_dev &&
           ours.st_ino == now.st_ino;
}

/* Nobody else may even open it: a lock can be taken by whoever can read. */
static int make_locked(int top, const char *name)
{
    if (mkdirat(top, name, 0700) < 0)
        return -1;
    BH_CLEANUP_FD int fd = bh_cgroup_open_dir(top, name);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || !still_there(top, name, fd)) {
        errno = EAGAIN; /* somebody has found it before it was locked, and clears it up */
        return -1;
    }
    return BH_TAKE_FD(fd);
}

/* Controllers that are mounted together share a directory, and then its lock. */
static int same_place(const struct bh_cgroup *cg, size_t part)
{
    struct stat mine, other;
    for (size_t i = 0; i < part; i++) {
        if (cg->tops[i] >= 0 && fstat(cg->tops[part], &mine) == 0 && fstat(cg->tops[i], &other) == 0 &&
            mine.st_dev == other.st_dev && mine.st_ino == other.st_ino)
            return cg->dirs[i];
    }
    return -1;
}

static int make_own_as(struct bh_cgroup *cg, const char *name)
{
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++) {
        if (cg->tops[i] < 0)
            continue;
        int same = same_place(cg, i);
        cg->dirs[i] = same >= 0 ? fcntl(same, F_DUPFD_CLOEXEC, 0) : make_locked(cg->tops[i], name);
        if (cg->dirs[i] >= 0)
            continue;
        int why = errno;
        for (size_t k = 0; k < i; k++) {
            if (cg->dirs[k] >= 0)
                (void)unlinkat(cg->tops[k], name, AT_REMOVEDIR);
        }
        (void)let_go(cg->dirs);
        errno = why;
        return -1;
    }
    return 0;
}

static int make_own(struct bh_cgroup *cg, const char *id)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        int n = snprintf(cg->name, sizeof(cg->name), i == 0 ? BH_CGROUP_OWNER "%s" : BH_CGROUP_OWNER "%s-%d", id, i);
        if (n < 0 || (size_t)n >= sizeof(cg->name)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (make_own_as(cg, cg->name) == 0)
            return 0;
        if (errno != EEXIST && errno != EAGAIN)
            return -1;
    }
    return -1;
}

/* --- v2 --- */

struct family {
    const pid_t *of;
    int place;
    bool flat; /* we are in the place itself */
    bool moved;
};

static int not_family(pid_t pid, void *arg)
{
    for (const pid_t *p = arg; *p; p++) {
        if (*p == pid)
            return 0;
    }
    return 1;
}

static int move(pid_t pid, void *arg)
{
    const struct family *f = arg;
    return bh_cgroup_write_number(f->place, BH_CGROUP_SELF, "cgroup.procs", pid) == 0 || errno == ESRCH ? 0 : -1;
}

/* A group cannot hand controllers on while processes are in it. Those of others are not ours to move. */
static int move_family(struct family *f)
{
    int others = bh_cgroup_each(f->place, ".", not_family, (void *)(uintptr_t)f->of);
    if (others != 0) {
        errno = others > 0 ? EBUSY : errno;
        return -1;
    }
    if (mkdirat(f->place, BH_CGROUP_SELF, 0755) < 0 && errno != EEXIST)
        return -1;
    f->moved = true;
    return bh_cgroup_each(f->place, ".", move, f);
}

static uint32_t controllers(int dir, const char *file)
{
    char text[256];
    uint32_t found = 0;
    if (bh_cgroup_read(dir, ".", file, text, sizeof(text)) < 0)
        return 0;
    for (size_t i = BH_CGROUP_MEMORY; i <= BH_CGROUP_PIDS; i++)
        found |= bh_cgroup_has_word(text, bh_cgroup_part_name((enum bh_cgroup_part)i)) ? BH_CGROUP_BIT(i) : 0;
    return found;
}

/* Hands on what is there. Returns what the groups below `dir` have then; *why is the errno of what they do not. */
static uint32_t hand_on(int dir, struct family *f, int *why)
{
    uint32_t there = controllers(dir, "cgroup.controllers"), on = controllers(dir, "cgroup.subtree_control");
    for (size_t i = BH_CGROUP_MEMORY; i <= BH_CGROUP_PIDS; i++) {
        char text[16];
        if (!(there & ~on & BH_CGROUP_BIT(i)))
            continue;
        (void)snprintf(text, sizeof(text), "+%s", bh_cgroup_part_name((enum bh_cgroup_part)i));
        int rc = bh_cgroup_write(dir, ".", "cgroup.subtree_control", text);
        if (rc < 0 && errno == EBUSY && f && !f->moved && move_family(f) == 0)
            rc = bh_cgroup_write(dir, ".", "cgroup.subtree_control", text);
        if (rc < 0)
            *why = errno;
    }
    return controllers(dir, "cgroup.subtree_control");
}

/* By doing it: what a shell will be cloned with. */
static int try_clone(const struct bh_cgroup *cg)
{
    int fds[BH_CGROUP_PARTS];
    bool into;
    if (bh_cgroup_make(cg, "try", fds, &into) < 0)
        return -1;
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)(unsigned)fds[0]};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        _exit(0);
    int why = errno;
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    bh_close(fds[0]);
    (void)bh_cgroup_remove(cg, "try");
    errno = why;
    return pid > 0 ? 0 : -1;
}

static int begin_v2_in(struct bh_cgroup *cg, struct family *f, const char *id, int *why)
{
    cg->tops[0] = make_top(f->place);
    if (cg->tops[0] < 0)
        return -1;
    (void)hand_on(f->place, f, why);
    (void)hand_on(cg->tops[0], NULL, why);
    for (size_t i = BH_CGROUP_MEMORY; i <= BH_CGROUP_PIDS; i++)
        bound_top(cg, (enum bh_cgroup_part)i, cg->tops[0], f->flat && !f->moved);
    if (make_own(cg, id) < 0)
        return -1;
    cg->can = hand_on(cg->dirs[0], NULL, why);
    if (cg->can)
        return try_clone(cg);
    errno = *why ? *why : ENOENT;
    return -1;
}

/* "…/bulkhead-main" is where an earlier launcher has moved us to. */
static bool strip_self(char *path)
{
    size_t len = strlen(path), tail = strlen("/" BH_CGROUP_SELF);
    if (len <= tail || strcmp(path + len - tail, "/" BH_CGROUP_SELF) != 0)
        return false;
    path[len - tail] = '\0';
    return true;
}

static int begin_v2(struct bh_cgroup *cg, const char *place, bool own, const char *id, const pid_t *family)
{
    char path[4096];
    int why = 0, n = snprintf(path, sizeof(path), "%s", place);
    if (n < 0 || (size_t)n >= sizeof(path))
        return no(cg, remedy_mount, "the name of our own control group is too long");
    bool stripped = strip_self(path);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct family f = {.of = family, .place = fd, .flat = own && !stripped};
    cg->kind = BH_CGROUP_V2;
    for (int i = 0; fd >= 0 && i < TOP_TRIES; i++) {
        if (begin_v2_in(cg, &f, id, &why) == 0) {
            (void)no(cg, "", "cgroup v2 below '%s'", path);
            return 0;
        }
        why = errno;
        if (cg->dirs[0] >= 0)
            (void)unlinkat(cg->tops[0], cg->name, AT_REMOVEDIR);
        (void)let_go(cg->dirs);
        (void)let_go(cg->tops);
        (void)unlinkat(fd, BH_CGROUP_TOP, AT_REMOVEDIR); /* where it is empty */
        if (why != ENOENT && why != ENODEV)
            break;
    }
    why = fd >= 0 ? why : errno;
    if (why == EBUSY || why == EOPNOTSUPP)
        return no(cg, remedy_alone, "other processes than ours are in the control group '%s'", path);
    if (why == EACCES || why == EPERM)
        return no(cg, remedy_delegate, "the control group '%s' is not delegated to us", path);
    if (why == ENOENT)
        return no(cg, remedy_delegate, "the control group '%s' has none of the controllers memory, cpu, pids", path);
    return no(cg, remedy_mount, "cannot make a group below the control group '%s': %s", path, strerror(why));
}

/* --- v1 --- */

static int top_at(const char *path)
{
    BH_CLEANUP_FD int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return fd >= 0 ? make_top(fd) : -1;
}

static int begin_v1_in(struct bh_cgroup *cg, const struct bh_cgroup_places *places, const char *id)
{
    cg->kind = BH_CGROUP_V1;
    cg->can = 0;
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++) {
        const struct bh_cgroup_place *p = &places->v1[i];
        cg->tops[i] = top_at(p->mount);
        if (cg->tops[i] < 0 && p->own && strcmp(p->own, p->mount) != 0)
            cg->tops[i] = top_at(p->own);
        if (cg->tops[i] < 0)
            continue;
        cg->can |= BH_CGROUP_BIT(i);
        bound_top(cg, (enum bh_cgroup_part)i, cg->tops[i], p->own && strcmp(p->own, p->mount) == 0);
    }
    if (!(cg->can & BH_CGROUP_LIMITS)) {
        errno = EACCES;
        return -1;
    }
    return make_own(cg, id);
}

static int begin_v1(struct bh_cgroup *cg, const struct bh_cgroup_places *places, const char *id)
{
    for (int i = 0; i < TOP_TRIES; i++) {
        if (begin_v1_in(cg, places, id) == 0) {
            (void)snprintf(cg->found, sizeof(cg->found), "cgroup v1");
            return 0;
        }
        int why = errno;
        (void)let_go(cg->tops);
        errno = why;
        if (why != ENOENT && why != ENODEV)
            break;
    }
    return -1;
}

/* --- which --- */

static bool v1_is_there(const struct bh_cgroup_places *places)
{
    return places->v1[BH_CGROUP_MEMORY].mount || places->v1[BH_CGROUP_CPU].mount || places->v1[BH_CGROUP_PIDS].mount;
}

/* A v2 mount beside v1 has what is left over, often nothing. */
static bool v2_has_some(const char *mount)
{
    BH_CLEANUP_FD int fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && controllers(fd, "cgroup.controllers") != 0;
}

static int begin_any(struct bh_cgroup *cg, const struct bh_cgroup_places *places, const char *id, const pid_t *family)
{
    const struct bh_cgroup_place *v2 = &places->v2;
    bool root = geteuid() == 0, some = v2->mount && v2_has_some(v2->mount);
    if (!v2->mount && !v1_is_there(places))
        return no(cg, remedy_mount, "no control groups are mounted");
    if (some && v2->own && begin_v2(cg, v2->own, true, id, family) == 0)
        return 0;
    if (some && root && (!v2->own || strcmp(v2->own, v2->mount) != 0) &&
        begin_v2(cg, v2->mount, false, id, family) == 0)
        return 0;
    if (v1_is_there(places) && begin_v1(cg, places, id) == 0)
        return 0;
    if (cg->found[0]) /* what v2 said */
        return -1;
    if (v1_is_there(places))
        return no(cg, "run as root", "the control groups (v1) of memory, cpu and pids may not be written");
    return no(cg, remedy_mount, "the control groups at '%s' have none of the controllers memory, cpu, pids", v2->mount);
}

void bh_cgroup_begin(struct bh_cgroup *cg, const char *id, const pid_t *family, bool off)
{
    struct bh_cgroup_places places = {0};
    int rc = -1;
    *cg = (struct bh_cgroup){.tops = {-1, -1, -1, -1}, .dirs = {-1, -1, -1, -1}};
    if (off)
        (void)no(cg, "unset BULKHEAD_CGROUP", "no control groups are used: BULKHEAD_CGROUP is off");
    else if (bh_cgroup_places_read(&places) < 0)
        (void)no(cg, remedy_mount, "cannot read which control groups there are: %s", strerror(errno));
    else
        rc = begin_any(cg, &places, id, family);
    bh_cgroup_places_fini(&places);
    if (rc == 0)
        return;
    (void)let_go(cg->dirs);
    (void)let_go(cg->tops);
    cg->kind = BH_CGROUP_NONE;
    cg->can = 0;
    cg->name[0] = '\0';
}
