/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what is closed even to its owner. An ordinary user's agent has the user's own id outside, so it can take all
 * rights from a folder and still write to what it has open there. Root of a user namespace of our own may read whatever
 * belongs to us; a thread cannot enter one, a child can.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process.h"
#include "workers/disk/count.h"

static int write_file(const char *path, const char *text)
{
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

static int become_root_of_our_own(void)
{
    char users[32], groups[32];
    (void)snprintf(users, sizeof(users), "0 %u 1\n", (unsigned)geteuid());
    (void)snprintf(groups, sizeof(groups), "0 %u 1\n", (unsigned)getegid());
    return unshare(CLONE_NEWUSER) < 0 || write_file("/proc/self/setgroups", "deny") < 0 ||
                   write_file("/proc/self/uid_map", users) < 0 || write_file("/proc/self/gid_map", groups) < 0
               ? -1
               : 0;
}

/* A copy of the worker: it must neither outlive it nor keep its sockets open. */
static BH_NORETURN void child(pid_t parent, int dirfd, int result, const struct bh_disk_bounds *bounds)
{
    struct bh_disk_usage usage = {0};
    bh_process_die_with(parent);
    if (dup2(dirfd, 0) < 0 || dup2(result, 1) < 0 || close_range(2, ~0U, 0) < 0 || become_root_of_our_own() < 0)
        _exit(1);
    bh_disk_count(0, bounds, &usage);
    _exit(write(1, &usage, sizeof(usage)) == (ssize_t)sizeof(usage) ? 0 : 1);
}

int bh_disk_count_as_owner(int dirfd, const struct bh_disk_bounds *bounds, struct bh_disk_usage *usage)
{
    struct bh_disk_usage found;
    int fds[2];
    if (geteuid() == 0 || pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    pid_t us = getpid(), pid = fork();
    if (pid == 0)
        child(us, dirfd, fds[1], bounds);
    bh_close(fds[1]);
    BH_CLEANUP_FD int result = fds[0];
    bool good = pid > 0 && read(result, &found, sizeof(found)) == (ssize_t)sizeof(found);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    if (!good)
        return -1;
    *usage = found;
    return 0;
}
