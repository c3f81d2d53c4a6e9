/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a fork of a warm process is alone with what it has: memory, descriptors and places of a process may be shared
 * with one that has stayed outside of its box (clone), where the init of that box sees nobody. The init of the server's
 * box sees all of them, whichever box they are in, and knows the fork's number there. It may compare whatever the
 * server or a fork of its has executed or cloned; whom it may not look at is ours.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/units.h"
#include "workers/init/init.h"

#define ONE_THREAD 3 /* links of the directory of a process's threads */

static int compare(pid_t a, pid_t b, int what)
{
    return (int)syscall(SYS_kcmp, a, b, what, 0, 0);
}

static bool share(pid_t a, pid_t b)
{
    static const int things[] = {KCMP_VM, KCMP_FILES, KCMP_FS};
    for (size_t i = 0; i < BH_ARRAY_LEN(things); i++) {
        if (compare(a, b, things[i]) == 0)
            return true;
    }
    return false;
}

static pid_t number_of(const struct dirent *e)
{
    int64_t n;
    return bh_parse_int(e->d_name, &n) == 0 && n > 0 && n <= INT32_MAX ? (pid_t)n : 0;
}

/* A first thread that has ended has nothing any more, whatever the others have. */
static bool shares_with_process(pid_t fork, pid_t other, const char *path)
{
    struct stat st;
    bool found = share(fork, other);
    if (found || stat(path, &st) < 0 || st.st_nlink == ONE_THREAD)
        return found;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        found = number_of(e) && share(fork, number_of(e));
    if (dir)
        (void)closedir(dir);
    return found;
}

/* Who is about to end has nothing any more, as others of the kind, and runs nothing. */
static bool has_memory(pid_t pid, const char *proc)
{
    char path[64], pages;
    (void)snprintf(path, sizeof(path), "%s/%d/statm", proc, (int)pid);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || read(fd, &pages, 1) != 1 || pages != '0';
}

int bh_warm_check_kin(pid_t fork, const char *proc, struct bh_fail *fail)
{
    pid_t other = 0;
    if (compare(fork, fork, KCMP_VM) != 0)
        return bh_fail(fail, errno, "compare the fork with other processes");
    DIR *dir = opendir(proc);
    if (!dir)
        return bh_fail(fail, errno, "look at the processes of a fork server's box");
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(dir));) {
        char path[64];
        other = number_of(e);
        (void)snprintf(path, sizeof(path), "%s/%d/task", proc, (int)other);
        found = other && other != fork && shares_with_process(fork, other, path);
    }
    (void)closedir(dir);
    found = found && has_memory(fork, proc);
    return found ? bh_fail(fail, EPERM,
                           "accept the fork: it shares memory, descriptors or places with process %d of "
                           "its server's box",
                           (int)other)
                 : 0;
}
