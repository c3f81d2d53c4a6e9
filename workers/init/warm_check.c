/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fork of a warm process must be before it runs a line of an attempt, found out from outside, in /proc of the
 * box: the fork itself is not asked. It is the only other process, with the agent's ids, no capability in any set, no
 * new privileges, its filters loaded, in every namespace that we are in, with the streams that it was given and no
 * other descriptor, and no memory that it shares with anybody.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/units.h"
#include "workers/init/init.h"

#define FILE_MAX (4 << 20)

/* `dir` is that of the process in /proc: whoever gets its number later is not found there. */
static int read_proc(int dir, const char *name, struct bh_buf *out, struct bh_fail *fail)
{
    BH_CLEANUP_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || bh_read_all(fd, FILE_MAX, out, NULL) != 0)
        return bh_fail(fail, errno, "read /proc/%s of the fork", name);
    return 0;
}

/* --- what we are ourselves --- */

static const struct place {
    const char *theirs, *ours;
} places[BH_WARM_PLACES] = {
    {"ns/user", "ns/user"}, {"ns/mnt", "ns/mnt"}, {"ns/pid", "ns/pid"}, {"ns/pid_for_children", "ns/pid_for_children"},
    {"ns/net", "ns/net"},   {"ns/ipc", "ns/ipc"}, {"ns/uts", "ns/uts"}, {"ns/cgroup", "ns/cgroup"},
    {"root", "root"},       {"cwd", "root"},
};

int bh_warm_look_at_ourselves(struct bh_warm_ours *ours, struct bh_fail *fail)
{
    BH_CLEANUP_FD int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < BH_WARM_PLACES; i++) {
        if (fstatat(self, places[i].ours, &ours->places[i], 0) < 0)
            return bh_fail(fail, errno, "look at the own %s", places[i].ours);
    }
    if (read_proc(self, "status", &ours->status, fail) < 0 || read_proc(self, "cgroup", &ours->cgroup, fail) < 0)
        return -1;
    return 0;
}

/* --- which one --- */

/* The last number that was given away in this namespace: nobody has a greater one. What cannot be seen in /proc can
 * still be found by its number. */
int64_t bh_warm_last_number(const char *loadavg)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    int64_t last = -1;
    BH_CLEANUP_FD int fd = open(loadavg, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || bh_read_all(fd, 256, &text, NULL) != 0 || text.len == 0)
        return -1;
    text.data[strcspn(text.data, "\n")] = '\0';
    const char *at = strrchr(text.data, ' ');
    return at && bh_parse_int(at + 1, &last) == 0 ? last : -1;
}

static int find_only(pid_t *ret, struct bh_fail *fail)
{
    int64_t last = bh_warm_last_number("/proc/loadavg"), n = 0;
    if (last < 2 || last > 4096) /* in a namespace that a few processes have been in */
        return bh_fail(fail, EPROTO, "find the fork among %lld processes", (long long)last);
    for (pid_t pid = 2; pid <= (pid_t)last; pid++) {
        if (pid == getpid() || (kill(pid, 0) < 0 && errno == ESRCH))
            continue;
        *ret = pid;
        n++;
    }
    if (n != 1)
        return bh_fail(fail, n ? EEXIST : ESRCH, "fork the warm process once: %lld processes have come", (long long)n);
    return 0;
}

int bh_warm_find(pid_t *ret, struct bh_fail *fail)
{
    if (find_only(ret, fail) < 0)
        return -1;
    int pidfd = (int)syscall(SYS_pidfd_open, *ret, 0);
    return pidfd < 0 ? bh_fail(fail, errno, "hold the fork") : pidfd;
}

/* --- what it says in status --- */

static const char *field(const struct bh_buf *status, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = status->data; line && *line;) {
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1 + strspn(line + len + 1, " \t");
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return NULL;
}

static int check_number(const struct bh_buf *status, const char *name, int base, uint64_t wanted, struct bh_fail *fail)
{
    const char *text = field(status, name);
    char *end = NULL;
    uint64_t found = text ? strtoull(text, &end, base) : 0;
    if (!text || end == text || found != wanted)
        return bh_fail(fail, EPERM, "accept the fork: its %s is %.*s", name, text ? (int)strcspn(text, "\n") : 4,
                       text ? text : "none");
    return 0;
}

static int check_ids(const struct bh_buf *status, const char *name, unsigned wanted, struct bh_fail *fail)
{
    unsigned id[4];
    const char *text = field(status, name);
    int n = text ? sscanf(text, "%u %u %u %u", &id[0], &id[1], &id[2], &id[3]) : 0;
    for (int i = 0; i < 4; i++) {
        if (n != 4 || id[i] != wanted)
            return bh_fail(fail, EPERM, "accept the fork: its %s is not %u", name, wanted);
    }
    return 0;
}

static int check_status(int dir, const struct bh_warm_wanted *w, struct bh_fail *fail)
{
    static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    const struct bh_buf *ours = &w->ours->status;
    BH_CLEANUP_BUF struct bh_buf theirs = BH_BUF_INIT;
    if (read_proc(dir, "status", &theirs, fail) < 0)
        return -1;
    if (check_ids(&theirs, "Uid", w->uid, fail) < 0 || check_ids(&theirs, "Gid", w->gid, fail) < 0)
        return -1;
    /* None, or where they cannot be dropped those of who runs us; root of a box may have the agent's (become.c). */
    const char *groups = field(&theirs, "Groups"), *own = field(ours, "Groups");
    if (!groups || !own || (w->uid != 0 && strncmp(groups, own, strcspn(groups, "\n") + 1) != 0))
        return bh_fail(fail, EPERM, "accept the fork: it is in groups");
    for (size_t i = 0; i < BH_ARRAY_LEN(sets); i++) {
        if (check_number(&theirs, sets[i], 16, 0, fail) < 0)
            return -1;
    }
    const char *filters = field(ours, "Seccomp_filters");
    int64_t have = filters ? strtoll(filters, NULL, 10) : 0;
    if (filters && check_number(&theirs, "Seccomp_filters", 10, (uint64_t)(have + w->filters), fail) < 0)
        return -1;
    if (check_number(&theirs, "Seccomp", 10, 2, fail) < 0 || check_number(&theirs, "NoNewPrivs", 10, 1, fail) < 0)
        return -1;
    return check_number(&theirs, "Threads", 10, 1, fail) < 0 ? -1 : check_number(&theirs, "TracerPid", 10, 0, fail);
}

/* --- where it is --- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int check_places(int dir, const struct bh_warm_ours *ours, struct bh_fail *fail)
{
    struct stat theirs;
    for (size_t i = 0; i < BH_WARM_PLACES; i++) {
        if (fstatat(dir, places[i].theirs, &theirs, 0) < 0)
            return bh_fail(fail, errno, "look at the %s of the fork", places[i].theirs);
        if (!same_file(&theirs, &ours->places[i]))
            return bh_fail(fail, EPERM, "accept the fork: it is not in this box's %s", places[i].theirs);
    }
    BH_CLEANUP_BUF struct bh_buf groups = BH_BUF_INIT;
    if (read_proc(dir, "cgroup", &groups, fail) < 0)
        return -1;
    if (groups.len != ours->cgroup.len || memcmp(groups.data, ours->cgroup.data, groups.len) != 0)
        return bh_fail(fail, EPERM, "accept the fork: it is not in this box's control groups");
    return 0;
}

/* --- what it holds --- */

static int check_descriptor(int dir, const char *name, const struct bh_warm_wanted *w, int *others,
                            struct bh_fail *fail)
{
    struct stat theirs, given;
    int64_t fd;
    if (bh_parse_int(name, &fd) != 0)
        return 0; /* "." and ".." */
    if (fstatat(dir, name, &theirs, 0) < 0)
        return bh_fail(fail, errno, "look at the descriptors of the fork");
    if (fd <= 2) {
        if (fstat(w->stdio[fd], &given) < 0 || !same_file(&theirs, &given))
            return bh_fail(fail, EPERM, "accept the fork: its descriptor %d is another", (int)fd);
        return 0;
    }
    if (!S_ISSOCK(theirs.st_mode) || theirs.st_ino != w->reply || ++*others > 1)
        return bh_fail(fail, EPERM, "accept the fork: it holds descriptor %d", (int)fd);
    return 0;
}

static int check_descriptors(int dir, const struct bh_warm_wanted *w, struct bh_fail *fail)
{
    int rc = 0, others = 0;
    DIR *list = bh_dir_stream(openat(dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!list)
        return bh_fail(fail, errno, "look at the descriptors of the fork");
    for (struct dirent *e; rc == 0 && (e = readdir(list));)
        rc = check_descriptor(dirfd(list), e->d_name, w, &others, fail);
    (void)closedir(list);
    return rc;
}

/* linux/fs.h since 6.11: the next mapping that is shared, without the text of all the others. */
struct query {
    uint64_t size, flags, address, start, end, vma_flags, page_size, offset, inode;
    uint32_t major, minor, name_size, id_size;
    uint64_t name, id;
};
#define QUERY _IOWR('f', 17, struct query)
#define QUERY_NEXT_SHARED (0x08 | 0x10)

static bool shares_any(const struct bh_buf *maps)
{
    for (const char *line = maps->data; line && *line;) {
        const char *rights = strchr(line, ' ');
        if (rights && strlen(rights) > 4 && rights[4] == 's')
            return true;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return false;
}

/* 1: yes; 0: no; -1 with fail. */
static int find_shared(int dir, struct bh_fail *fail)
{
    struct query q = {.size = sizeof(q), .flags = QUERY_NEXT_SHARED};
    BH_CLEANUP_FD int fd = openat(dir, "maps", O_RDONLY | O_CLOEXEC);
    BH_CLEANUP_BUF struct bh_buf maps = BH_BUF_INIT;
    if (fd < 0)
        return bh_fail(fail, errno, "look at the memory of the fork");
    if (ioctl(fd, QUERY, &q) == 0)
        return 1;
    if (errno == ENOENT)
        return 0;
    if (bh_read_all(fd, FILE_MAX, &maps, NULL) != 0 || maps.len == 0)
        return bh_fail(fail, EIO, "look at the memory of the fork");
    return shares_any(&maps);
}

/* Shared, and may be made writable if it is not: flags of a mapping in smaps, "VmFlags: rd sh mr mw …". One that stands
 * on a file which was open for reading only has no `sh`. */
static bool may_share(const char *line)
{
    static const char name[] = "VmFlags:";
    return strncmp(line, name, strlen(name)) == 0 && strstr(line, " sh ") && strstr(line, " mw ");
}

/* What can be written and is shared would join it to its server, and by that to the other forks. The flags are only
 * asked for where a mapping is shared at all: the kernel goes through all pages for them. */
static int check_memory(int dir, struct bh_fail *fail)
{
    static char buffer[4 * BUFSIZ];
    char line[512]; /* longer ones are names of files, which do not begin so */
    bool found = false;
    int any = find_shared(dir, fail);
    if (any <= 0)
        return any;
    int fd = openat(dir, "smaps", O_RDONLY | O_CLOEXEC);
    FILE *flags = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!flags) {
        bh_close(fd);
        return bh_fail(fail, errno, "look at the memory of the fork");
    }
    (void)setvbuf(flags, buffer, _IOFBF, sizeof(buffer));
    size_t seen = 0;
    while (!found && fgets(line, sizeof(line), flags)) {
        seen += strncmp(line, "VmFlags:", 8) == 0;
        found = may_share(line);
    }
    bool failed = ferror(flags) || seen == 0;
    (void)fclose(flags);
    if (failed)
        return bh_fail(fail, EIO, "look at the memory of the fork");
    return found ? bh_fail(fail, EPERM, "accept the fork: it shares memory with its server") : 0;
}

static bool lives(int pidfd)
{
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    return poll(&polled, 1, 0) == 0;
}

int bh_warm_check(pid_t pid, int pidfd, const struct bh_warm_wanted *w, struct bh_fail *fail)
{
    char path[32];
    pid_t only = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    BH_CLEANUP_FD int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return bh_fail(fail, errno, "look at the status of the fork");
    if (check_status(dir, w, fail) < 0 || check_places(dir, w->ours, fail) < 0 || check_descriptors(dir, w, fail) < 0 ||
        check_memory(dir, fail) < 0)
        return -1;
    /* Whoever it has made before it had given up everything is seen now; whoever it makes later has no more than it. */
    if (find_only(&only, fail) < 0)
        return -1;
    if (only != pid || !lives(pidfd)) /* else the number could be another's by now */
        return bh_fail(fail, ESRCH, "hold the fork: it has ended");
    return 0;
}
