/* SPDX-License-Identifier: Apache-2.0 */
/* One group: made, limited, counted, frozen. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "workers/cgroup/priv.h"

#define PERIOD_US 100000
#define SOCKETS_SHARE 4       /* of the limit of memory, beside it */
#define QUOTA_LEAST_US 1000   /* the kernel's */
#define IDLE_BYTES (16 << 20) /* pages of files that a box has read first and others may have read since */
#define FREEZE_WAIT_MS 1000
#define FREEZE_ROUNDS 64

void bh_cgroup_describe(const struct bh_cgroup *cg, char *buf, size_t size)
{
    size_t len = (size_t)snprintf(buf, size, "%s", cg->found);
    const char *sep = " (";
    if (cg->kind == BH_CGROUP_NONE)
        return;
    for (size_t i = BH_CGROUP_MEMORY; i <= BH_CGROUP_PIDS && len < size; i++) {
        if (!(cg->can & BH_CGROUP_BIT(i)))
            continue;
        len += (size_t)snprintf(buf + len, size - len, "%s%s", sep, bh_cgroup_part_name((enum bh_cgroup_part)i));
        sep = ", ";
    }
    if (len < size)
        (void)snprintf(buf + len, size - len, ")");
}

/* --- made --- */

static void unmake(const struct bh_cgroup *cg, const char *group, int *fds, int n)
{
    int why = errno;
    for (int i = 0; i < n; i++)
        bh_close(fds[i]);
    (void)bh_cgroup_remove(cg, group);
    errno = why;
}

/* `tasks` of v1, written by the one thread that joins: then the kernel does not wait until no process is forking, which
 * takes it 15 ms where nobody has joined a group for a while. A process that joins by cgroup.procs waits. */
static int open_joining(int dirfd, const char *group, const char *file)
{
    char path[160];
    int n = snprintf(path, sizeof(path), "%s/%s", group, file);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return openat(dirfd, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
}

static int make_v1(const struct bh_cgroup *cg, const char *group, int *fds)
{
    int n = 0;
    for (size_t i = BH_CGROUP_MEMORY; i <= BH_CGROUP_PIDS; i++) {
        if (cg->dirs[i] < 0)
            continue;
        /* It is there already where two controllers share a hierarchy. */
        bool made = mkdirat(cg->dirs[i], group, 0755) == 0;
        if (!made && errno == EEXIST && n > 0)
            continue;
        fds[n] = made ? open_joining(cg->dirs[i], group, "tasks") : -1;
        if (fds[n] < 0) {
            unmake(cg, group, fds, n);
            return -1;
        }
        n++;
    }
    return n;
}

int bh_cgroup_make(const struct bh_cgroup *cg, const char *group, int fds[static BH_CGROUP_PARTS], bool *ret_into)
{
    *ret_into = cg->kind == BH_CGROUP_V2;
    if (cg->kind == BH_CGROUP_NONE)
        return 0;
    if (cg->kind == BH_CGROUP_V1)
        return make_v1(cg, group, fds);
    if (mkdirat(cg->dirs[0], group, 0755) < 0)
        return -1;
    fds[0] = bh_cgroup_open_dir(cg->dirs[0], group);
    if (fds[0] < 0) {
        unmake(cg, group, fds, 0);
        return -1;
    }
    return 1;
}

int bh_cgroup_make_exec(const struct bh_cgroup *cg, const char *group, int fds[static BH_CGROUP_PARTS])
{
    if (cg->kind == BH_CGROUP_NONE)
        return 0;
    if (cg->kind == BH_CGROUP_V1)
        return make_v1(cg, group, fds);
    if (mkdirat(cg->dirs[0], group, 0755) < 0)
        return -1;
    fds[0] = open_joining(cg->dirs[0], group, "cgroup.procs");
    if (fds[0] < 0) {
        unmake(cg, group, fds, 0);
        return -1;
    }
    return 1;
}

int bh_cgroup_open(const struct bh_cgroup *cg, const char *group, int fds[static BH_CGROUP_PARTS])
{
    const char *file = cg->kind == BH_CGROUP_V2 ? "cgroup.procs" : "tasks";
    size_t last = cg->kind == BH_CGROUP_V2 ? 1 : BH_CGROUP_PIDS + 1;
    int n = 0;
    for (size_t i = BH_CGROUP_MEMORY; i < last && cg->kind != BH_CGROUP_NONE; i++) {
        if (cg->dirs[i] < 0)
            continue;
        fds[n] = open_joining(cg->dirs[i], group, file);
        if (fds[n] < 0) {
            int why = errno;
            while (n > 0)
                bh_close(fds[--n]);
            errno = why;
            return -1;
        }
        n++;
    }
    return n;
}

int bh_cgroup_share(const struct bh_cgroup *cg, const char *group, pid_t init)
{
    char leaf[128];
    (void)snprintf(leaf, sizeof(leaf), "%s/init", group);
    if (cg->kind != BH_CGROUP_V2)
        return 0;
    if (mkdirat(cg->dirs[0], leaf, 0755) < 0 || bh_cgroup_write_number(cg->dirs[0], leaf, "cgroup.procs", init) < 0)
        return -1;
    for (size_t i = BH_CGROUP_MEMORY; i <= BH_CGROUP_PIDS; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "+%s", bh_cgroup_part_name((enum bh_cgroup_part)i));
        if (cg->can & BH_CGROUP_BIT(i) && bh_cgroup_write(cg->dirs[0], group, "cgroup.subtree_control", text) < 0)
            return -1;
    }
    return 0;
}

/* --- limited --- */

static int limit_memory(const struct bh_cgroup *cg, const char *group, int64_t bytes)
{
    int dir = bh_cgroup_dir(cg, BH_CGROUP_MEMORY);
    bool v2 = cg->kind == BH_CGROUP_V2;
    if (bh_cgroup_write_number(dir, group, v2 ? "memory.max" : "memory.limit_in_bytes", bytes) < 0)
        return -1;
    /* Memory is what was limited: none of it goes to disk instead. Both files are there only where the kernel counts
     * swap; v1 counts both together. */
    if (v2)
        (void)bh_cgroup_write(dir, group, "memory.swap.max", "0");
    else
        (void)bh_cgroup_write_number(dir, group, "memory.memsw.limit_in_bytes", bytes);
    /* v1 counts what waits in sockets apart, and not at all until it has a limit: a sender is slowed down by it. */
    if (!v2)
        (void)bh_cgroup_write_number(dir, group, "memory.kmem.tcp.limit_in_bytes", bytes / SOCKETS_SHARE);
    return 0;
}

static int limit_cpu(const struct bh_cgroup *cg, const char *group, int64_t thousandths)
{
    int dir = bh_cgroup_dir(cg, BH_CGROUP_CPU);
    int64_t quota = thousandths * (PERIOD_US / 1000);
    char text[64];
    if (quota < QUOTA_LEAST_US)
        quota = QUOTA_LEAST_US;
    (void)snprintf(text, sizeof(text), "%lld %d", (long long)quota, PERIOD_US);
    if (cg->kind == BH_CGROUP_V2)
        return bh_cgroup_write(dir, group, "cpu.max", text);
    return bh_cgroup_write_number(dir, group, "cpu.cfs_quota_us", quota); /* the period is that from the beginning */
}

void bh_cgroup_hurry(const struct bh_cgroup *cg, const char *group)
{
    int dir = bh_cgroup_can(cg, BH_CGROUP_CPU) ? bh_cgroup_dir(cg, BH_CGROUP_CPU) : -1;
    if (dir < 0)
        return;
    if (cg->kind == BH_CGROUP_V2)
        (void)bh_cgroup_write(dir, group, "cpu.max", "max");
    else
        (void)bh_cgroup_write(dir, group, "cpu.cfs_quota_us", "-1");
}

/* The kernel takes no larger number, and has no more ids; what is added for an init may go beyond it. */
static int limit_pids(const struct bh_cgroup *cg, const char *group, int64_t n)
{
    const int64_t most = 4 * 1024 * 1024;
    if (n > most)
        n = most;
    return bh_cgroup_write_number(bh_cgroup_dir(cg, BH_CGROUP_PIDS), group, "pids.max", n);
}

uint32_t bh_cgroup_limit(const struct bh_cgroup *cg, const char *group, const struct bh_cgroup_limits *limits)
{
    static int (*const set[])(const struct bh_cgroup *cg, const char *group, int64_t n) = {limit_memory, limit_cpu,
                                                                                           limit_pids};
    const int64_t wanted[] = {limits->memory, limits->cpus, limits->pids};
    uint32_t failed = 0;
    int why = 0;
    for (size_t i = BH_CGROUP_MEMORY; i <= BH_CGROUP_PIDS; i++) {
        if (wanted[i] == 0)
            continue;
        errno = ENOENT;
        if (bh_cgroup_can(cg, (enum bh_cgroup_part)i) && set[i](cg, group, wanted[i]) == 0)
            continue;
        failed |= BH_CGROUP_BIT(i);
        why = errno;
    }
    errno = why;
    return failed;
}

/* --- counted --- */

struct bh_cgroup_events bh_cgroup_events(const struct bh_cgroup *cg, const char *group)
{
    char text[1024];
    struct bh_cgroup_events e = {-1, -1};
    const char *memory = cg->kind == BH_CGROUP_V2 ? "memory.events" : "memory.oom_control";
    if (cg->kind == BH_CGROUP_NONE)
        return e;
    if (bh_cgroup_can(cg, BH_CGROUP_MEMORY) &&
        bh_cgroup_read(bh_cgroup_dir(cg, BH_CGROUP_MEMORY), group, memory, text, sizeof(text)) > 0)
        e.oom_kills = bh_cgroup_value(text, "oom_kill");
    if (bh_cgroup_can(cg, BH_CGROUP_PIDS) &&
        bh_cgroup_read(bh_cgroup_dir(cg, BH_CGROUP_PIDS), group, "pids.events", text, sizeof(text)) > 0)
        e.pids_hits = bh_cgroup_value(text, "max");
    return e;
}

bool bh_cgroup_is_idle(const struct bh_cgroup *cg, const char *group)
{
    const char *memory = cg->kind == BH_CGROUP_V2 ? "memory.current" : "memory.usage_in_bytes";
    if (!bh_cgroup_can(cg, BH_CGROUP_PIDS) ||
        bh_cgroup_read_number(bh_cgroup_dir(cg, BH_CGROUP_PIDS), group, "pids.current") != 0)
        return false;
    if (!bh_cgroup_can(cg, BH_CGROUP_MEMORY))
        return true;
    int64_t held = bh_cgroup_read_number(bh_cgroup_dir(cg, BH_CGROUP_MEMORY), group, memory);
    return held >= 0 && held <= IDLE_BYTES;
}

/* --- frozen --- */

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int freeze_v2(const struct bh_cgroup *cg, const char *group, bool on)
{
    char path[160], text[256] = "";
    int64_t end = now_ms() + FREEZE_WAIT_MS;
    if (bh_cgroup_write(cg->dirs[0], group, "cgroup.freeze", on ? "1" : "0") < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/cgroup.events", group);
    BH_CLEANUP_FD int fd = openat(cg->dirs[0], path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    while (fd >= 0) {
        /* The read arms the poll. */
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        int64_t left = end - now_ms();
        if (n > 0 && bh_cgroup_value(text, "frozen") == (on ? 1 : 0))
            return 0;
        if (n <= 0 || left <= 0)
            break;
        struct pollfd polled = {.fd = fd, .events = POLLPRI};
        (void)poll(&polled, 1, (int)left);
    }
    errno = fd < 0 ? errno : ETIMEDOUT;
    return -1;
}

struct gather {
    const struct bh_cgroup *cg;
    const char *group;
    int moved;
};

static bool is_in_freezer(const char *text, const struct gather *g)
{
    return bh_cgroup_says(text, true, g->cg->name, g->group);
}

static bool is_of_box(const char *text, const struct gather *g)
{
    return bh_cgroup_says(text, false, g->cg->name, g->group);
}

/* What /proc says of whoever has the number now. */
static bool read_anew(pid_t pid, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    BH_CLEANUP_FD int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return proc >= 0 && bh_cgroup_read(proc, ".", "cgroup", text, size) > 0;
}

/* Where a stranger was before nobody can say any more; nobody freezes the group above all of ours for a box. */
void bh_cgroup_put_back(const struct bh_cgroup *cg, const char *group, pid_t pid)
{
    const struct gather g = {.cg = cg, .group = group};
    char text[4096];
    if (read_anew(pid, text, sizeof(text)) && is_in_freezer(text, &g) && !is_of_box(text, &g))
        (void)bh_cgroup_write_number(cg->dirs[BH_CGROUP_FREEZER], "../..", "cgroup.procs", pid);
}

/*
 * A number that was read from a list may be another's by now. The open folder of /proc is bound to one process: that it
 * is the box's is asked of it, and if it still lives after the write, the number was its all the time.
 */
static int gather_one(pid_t pid, void *arg)
{
    struct gather *g = arg;
    char path[64], text[4096];
    (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    BH_CLEANUP_FD int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0 || bh_cgroup_read(proc, ".", "cgroup", text, sizeof(text)) <= 0)
        return 0;
    if (is_in_freezer(text, g) || !is_of_box(text, g))
        return 0;
    if (bh_cgroup_write_number(g->cg->dirs[BH_CGROUP_FREEZER], g->group, "cgroup.procs", pid) != 0)
        return 0;
    g->moved++;
    if (bh_cgroup_read(proc, ".", "cgroup", text, sizeof(text)) <= 0)
        bh_cgroup_put_back(g->cg, g->group, pid);
    return 0;
}

int bh_cgroup_gather(const struct bh_cgroup *cg, const char *group, pid_t pid)
{
    struct gather g = {.cg = cg, .group = group};
    (void)gather_one(pid, &g);
    return g.moved;
}

static void gather_group(int dirfd, const char *group, void *arg)
{
    (void)bh_cgroup_each(dirfd, group, gather_one, arg);
}

/* Children are born where their parent is, so a round in which nobody was outside is the last one. */
static int join_freezer(const struct bh_cgroup *cg, const char *group)
{
    int from = cg->dirs[BH_CGROUP_PIDS] >= 0     ? cg->dirs[BH_CGROUP_PIDS]
               : cg->dirs[BH_CGROUP_MEMORY] >= 0 ? cg->dirs[BH_CGROUP_MEMORY]
                                                 : cg->dirs[BH_CGROUP_CPU];
    if (mkdirat(cg->dirs[BH_CGROUP_FREEZER], group, 0755) < 0 && errno != EEXIST)
        return -1;
    for (int i = 0; i < FREEZE_ROUNDS; i++) {
        struct gather g = {cg, group, 0};
        bh_cgroup_walk(from, group, gather_group, &g);
        if (g.moved == 0)
            return 0;
    }
    errno = ETIMEDOUT;
    return -1;
}

static void short_wait(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

static int freeze_v1(const struct bh_cgroup *cg, const char *group, bool on)
{
    char text[32];
    int dir = cg->dirs[BH_CGROUP_FREEZER];
    int64_t end = now_ms() + FREEZE_WAIT_MS;
    if (dir < 0) {
        errno = ENOTSUP;
        return -1;
    }
    if (!on)
        return bh_cgroup_write(dir, group, "freezer.state", "THAWED") == 0 || errno == ENOENT ? 0 : -1;
    if (join_freezer(cg, group) < 0 || bh_cgroup_write(dir, group, "freezer.state", "FROZEN") < 0)
        return -1;
    /* FREEZING until all have stopped; reading it is what looks again. */
    while (bh_cgroup_read(dir, group, "freezer.state", text, sizeof(text)) > 0) {
        if (strcmp(text, "FROZEN\n") == 0)
            return 0;
        if (now_ms() >= end)
            break;
        short_wait();
    }
    (void)bh_cgroup_write(dir, group, "freezer.state", "THAWED");
    errno = ETIMEDOUT;
    return -1;
}

int bh_cgroup_freeze(const struct bh_cgroup *cg, const char *group, bool on)
{
    if (cg->kind == BH_CGROUP_V2)
        return freeze_v2(cg, group, on);
    if (cg->kind == BH_CGROUP_V1)
        return freeze_v1(cg, group, on);
    errno = ENOTSUP;
    return -1;
}
