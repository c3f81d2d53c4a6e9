/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that has become a fork server (docs/warm.md), from the side of its box's init. It is believed to be ready
 * when it is alone in its box, with one thread, and nothing in the box's root can be written any more: what it has
 * written is about to be frozen, and others will stand on it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

#define NUMBERS_MAX 100000

static struct bh_fail *why; /* shared with the children that look */

bool bh_warm_is_ready(const char *said, size_t len)
{
    static const char ready[] = "ready 1\n";
    return len == strlen(ready) && memcmp(said, ready, len) == 0;
}

const struct bh_fail *bh_warm_why(void)
{
    return why;
}

static size_t count_numbers(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] >= '1' && e->d_name[0] <= '9' && strspn(e->d_name, "0123456789") == strlen(e->d_name);
    if (dir)
        (void)closedir(dir);
    return n;
}

/* What is not dumpable is not seen in /proc, but has a number: the last one that was given away is the greatest. */
static size_t count_others(pid_t server)
{
    int64_t last = bh_warm_last_number(BH_AT_BOX "/proc/loadavg");
    size_t n = 0;
    for (pid_t pid = 2; pid <= (pid_t)last && pid <= NUMBERS_MAX; pid++)
        n += pid != server && pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH);
    return n;
}

static int check_alone(pid_t server)
{
    char path[64];
    (void)snprintf(path, sizeof(path), BH_AT_BOX "/proc/%d/task", (int)server);
    size_t threads = count_numbers(path);
    if (threads != 1)
        return bh_fail(why, threads ? EBUSY : ESRCH, "be a fork server: it has %zu threads, not one", threads);
    size_t n = count_others(server);
    if (n > 0)
        return bh_fail(why, EBUSY, "be a fork server: %zu other processes are left in its box", n);
    return 0;
}

static bool is_mount_of_its_own(const char *path)
{
    struct stat st, up;
    return stat(path, &st) == 0 && stat("/", &up) == 0 && S_ISDIR(st.st_mode) && st.st_dev != up.st_dev;
}

/* -1 with errno: EBUSY while somebody holds a file open for writing. */
static int seal(int narrow)
{
    static const char *const trees[] = {"/usr", "/opt"};
    if (setns(narrow, CLONE_NEWNS) < 0 || bh_mount_readonly(AT_FDCWD, "/", true) < 0)
        return -1;
    for (size_t i = 0; i < BH_ARRAY_LEN(trees); i++) {
        if (is_mount_of_its_own(trees[i]) && bh_mount_readonly(AT_FDCWD, trees[i], true) < 0)
            return -1;
    }
    return 0;
}

static int look_and_seal(int narrow, pid_t server)
{
    *why = (struct bh_fail){0};
    if (check_alone(server) < 0)
        return -1;
    if (seal(narrow) < 0)
        return bh_fail(why, errno,
                       errno == EBUSY ? "be a fork server: it has a file open for writing"
                                      : "make the box of a fork server read-only");
    return 0;
}

pid_t bh_warm_start_sealing(const struct bh_init *in, int narrow, pid_t server)
{
    if (!why) {
        void *p = mmap(NULL, sizeof(*why), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return -1;
        why = p;
    }
    if (narrow < 0 || in->shared || !(in->flags & BH_CREATE_WARM)) {
        errno = ENOTSUP; /* not the first command of a box that was made for it */
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(look_and_seal(narrow, server) < 0 ? 1 : 0);
    return pid;
}

int bh_warm_seal(int narrow)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(seal(narrow) < 0 ? errno : 0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}
