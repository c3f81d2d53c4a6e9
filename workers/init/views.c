/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box sees of the host's size, where it was asked to be smaller: programs that size themselves by what they find
 * in /proc/meminfo and /sys/devices/system/cpu would otherwise size themselves by the host. Small files in memory,
 * read-only; a box that asked for nothing has none of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

#define ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define CPUS_MAX 8192

static int new_memory(struct bh_fail *fail)
{
    static const char *const options[] = {"mode=0755", "size=1m", NULL};
    return bh_mount_new("tmpfs", options, ATTRS, fail);
}

static int put(int dirfd, const char *path, const char *text)
{
    BH_CLEANUP_FD int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

/* --- processors --- */

static bool read_cpus(cpu_set_t **ret, size_t *ret_size)
{
    *ret = CPU_ALLOC(CPUS_MAX);
    *ret_size = CPU_ALLOC_SIZE(CPUS_MAX);
    return *ret && sched_getaffinity(0, *ret_size, *ret) == 0;
}

/* "0-3,8" and a folder for each, as the kernel has them. */
static int put_cpus(int fd, struct bh_buf *list)
{
    cpu_set_t *set;
    size_t size;
    int rc = read_cpus(&set, &size) ? 0 : -1, first = -1;
    for (int cpu = 0; rc == 0 && cpu <= CPUS_MAX; cpu++) {
        bool in = cpu < CPUS_MAX && CPU_ISSET_S(cpu, size, set);
        char name[32];
        if (in && first < 0)
            first = cpu;
        if (!in && first >= 0) {
            bh_buf_addf(list, first == cpu - 1 ? "%s%d" : "%s%d-%d", list->len ? "," : "", first, cpu - 1);
            first = -1;
        }
        (void)snprintf(name, sizeof(name), "devices/system/cpu/cpu%d", cpu);
        rc = in ? mkdirat(fd, name, 0755) : 0;
    }
    CPU_FREE(set);
    bh_buf_addc(list, '\n');
    return rc;
}

int bh_view_cpus(const struct bh_init *in, struct bh_fail *fail)
{
    BH_CLEANUP_BUF struct bh_buf list = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = new_memory(fail);
    if (fd < 0)
        return -1;
    if (mkdirat(fd, "devices", 0755) < 0 || mkdirat(fd, "devices/system", 0755) < 0 ||
        mkdirat(fd, "devices/system/cpu", 0755) < 0 || put_cpus(fd, &list) < 0 ||
        put(fd, "devices/system/cpu/online", list.data) < 0 || put(fd, "devices/system/cpu/possible", list.data) < 0 ||
        put(fd, "devices/system/cpu/present", list.data) < 0)
        return bh_fail(fail, errno, "make a view of the processors");
    if (mkdirat(in->box, "sys", 0555) < 0 && errno != EEXIST)
        return bh_fail(fail, errno, "make /sys");
    if (bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, false) < 0 || bh_mount_attach(fd, in->box, "sys") < 0)
        return bh_fail(fail, errno, "attach /sys");
    return 0;
}

/* --- memory --- */

int bh_view_memory(const struct bh_msg_limits *limits, int dirfd, const char *path, struct bh_fail *fail)
{
    char text[512];
    long long kib = (long long)(limits->memory / 1024);
    if (!(limits->asked & BH_LIMITS_MEMORY) || limits->memory <= 0)
        return 0;
    BH_CLEANUP_FD int fd = new_memory(fail);
    if (fd < 0)
        return -1;
    (void)snprintf(text, sizeof(text),
                   "MemTotal:       %8lld kB\nMemFree:        %8lld kB\nMemAvailable:   %8lld kB\n"
                   "Buffers:        %8d kB\nCached:         %8d kB\nSwapCached:     %8d kB\n"
                   "SwapTotal:      %8d kB\nSwapFree:       %8d kB\n",
                   kib, kib, kib, 0, 0, 0, 0, 0);
    if (put(fd, "meminfo", text) < 0 || bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, false) < 0)
        return bh_fail(fail, errno, "make a view of the memory");
    /* Older kernels copy only what is attached. It stays there, below what else is made in that place: nobody sees it,
     * and to unmount it would cost more than all of this. */
    if (move_mount(fd, "", AT_FDCWD, BH_AT_MAKE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return bh_fail(fail, errno, "attach a view of the memory");
    BH_CLEANUP_FD int file = bh_mount_clone(AT_FDCWD, BH_AT_MAKE "/meminfo", false);
    if (file < 0 || bh_mount_attach(file, dirfd, path) < 0)
        return bh_fail(fail, errno, "attach /proc/meminfo");
    return 0;
}
