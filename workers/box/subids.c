/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/box/subids.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "base/text.h"
#include "workers/box/proto.h"

#define FILE_MAX (4 << 20)

/* "name:first:count"; a name or a number. */
uint32_t bh_subids_find(const char *text, const char *name, uint32_t uid)
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%u", uid);
    for (const char *line = text; line && *line;) {
        char who[64];
        unsigned first, count;
        if (sscanf(line, "%63[^:\n]:%u:%u", who, &first, &count) == 3 && count >= BH_RANGE_COUNT &&
            first >= BH_RANGE_COUNT && (bh_streq(who, number) || (name && bh_streq(who, name))))
            return first;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return 0;
}

static uint32_t find_in(const char *file)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    const struct passwd *account = getpwuid(getuid());
    if (bh_read_file(file, FILE_MAX, &text, NULL) != 0)
        return 0;
    return bh_subids_find(text.data, account ? account->pw_name : NULL, getuid());
}

/* In a user namespace of its own, until it is killed. */
static pid_t start_holder(void)
{
    int ready[2];
    char c;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return -1;
    pid_t us = getpid(), pid = fork();
    if (pid == 0) {
        bh_close(ready[0]);
        bh_process_die_with(us);
        if (unshare(CLONE_NEWUSER) < 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    bh_close(ready[1]);
    bool there = pid > 0 && read(ready[0], &c, 1) == 1;
    bh_close(ready[0]);
    if (pid > 0 && !there)
        (void)waitpid(pid, NULL, 0);
    return there ? pid : -1;
}

/* newuidmap PID 0 ME 1 1 FIRST 65536 */
static bool map(const char *program, pid_t pid, uint32_t me, uint32_t first)
{
    char target[16], own[16], start[16], count[16];
    (void)snprintf(target, sizeof(target), "%d", (int)pid);
    (void)snprintf(own, sizeof(own), "%u", me);
    (void)snprintf(start, sizeof(start), "%u", first);
    (void)snprintf(count, sizeof(count), "%u", BH_RANGE_COUNT);
    char *argv[] = {
        (char *)(uintptr_t)program, target, (char[]){"0"}, own, (char[]){"1"}, (char[]){"1"}, start, count, NULL};
    char *envp[] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    bool good = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0) == 0 &&
                posix_spawn_file_actions_adddup2(&actions, 0, 1) == 0 &&
                posix_spawn_file_actions_adddup2(&actions, 0, 2) == 0 &&
                posix_spawn(&child, program, &actions, NULL, argv, envp) == 0 && waitpid(child, &status, 0) == child;
    (void)posix_spawn_file_actions_destroy(&actions);
    return good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool enter(pid_t holder)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)holder);
    BH_CLEANUP_FD int ns = open(path, O_RDONLY | O_CLOEXEC);
    if (ns < 0 || setns(ns, CLONE_NEWUSER) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return false;
    return prctl(PR_SET_DUMPABLE, 1) == 0; /* as before the change of credentials */
}

bool bh_subids_enter(void)
{
    const char *wanted = getenv("BULKHEAD_SUBIDS");
    if (geteuid() == 0 || geteuid() != getuid() || (wanted && bh_streq(wanted, "off")))
        return false;
    uint32_t uids = find_in("/etc/subuid"), gids = find_in("/etc/subgid");
    if (!uids || !gids || access("/usr/bin/newuidmap", X_OK) < 0 || access("/usr/bin/newgidmap", X_OK) < 0)
        return false;
    pid_t holder = start_holder();
    if (holder < 0)
        return false;
    bool entered = map("/usr/bin/newuidmap", holder, getuid(), uids) &&
                   map("/usr/bin/newgidmap", holder, getgid(), gids) && enter(holder);
    (void)kill(holder, SIGKILL);
    (void)waitpid(holder, NULL, 0);
    return entered;
}
