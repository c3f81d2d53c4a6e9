/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc as it is mounted for the caller; a process of another pid namespace is never found by it. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"

static ssize_t read_text(const char *path, char *text, size_t size)
{
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    return n;
}

void bh_process_die_with(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

int bh_process_start(pid_t pid, char start[static BH_PROCESS_START])
{
    char path[64], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (read_text(path, text, sizeof(text)) < 0)
        return -1;
    const char *at = strrchr(text, ')'); /* the name before it may hold blanks and brackets */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    size_t len = at ? strspn(at + 1, "0123456789") : 0;
    if (len == 0 || len >= BH_PROCESS_START) {
        errno = EIO;
        return -1;
    }
    memcpy(start, at + 1, len);
    start[len] = '\0';
    return 0;
}

void bh_process_boot(char boot[static BH_PROCESS_BOOT])
{
    ssize_t n = read_text("/proc/sys/kernel/random/boot_id", boot, BH_PROCESS_BOOT);
    boot[n > 0 ? strcspn(boot, "\n") : 0] = '\0';
    if (!boot[0])
        memcpy(boot, "-", 2);
}

/* The pidfd is opened first: if the start is the noted one after that, it is the process that is meant. */
int bh_process_open(int64_t pid, const char *start, const char *boot)
{
    char now[BH_PROCESS_BOOT], found[BH_PROCESS_START];
    bh_process_boot(now);
    if (pid <= 0 || pid > INT_MAX || bh_streq(now, "-") || !bh_streq(now, boot)) {
        errno = ESRCH;
        return -1;
    }
    BH_CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (pidfd < 0)
        return -1;
    if (bh_process_start((pid_t)pid, found) < 0 || !bh_streq(found, start)) {
        errno = ESRCH;
        return -1;
    }
    return BH_TAKE_FD(pidfd);
}
