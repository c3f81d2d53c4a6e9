/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root in memory: what a box writes goes to a file system of its own whose size is the box's limit, so that the
 * kernel keeps it exactly. It covers the box's folder on disk at /home, with the same directories in it (box/folder.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

#define INODES_OF_OURS 64 /* until it is known what the overlays take */

static int fill(int fd)
{
    static const char *const dirs[] = {"work",     "upper",     "work/root", "upper/root",
                                       "work/usr", "upper/usr", "work/opt",  "upper/opt"};
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        if (mkdirat(fd, dirs[i], 0755) < 0)
            return -1;
    }
    return 0;
}

int bh_memory_mount(const struct bh_msg_limits *limits, struct bh_fail *fail)
{
    char size[32], inodes[40];
    (void)snprintf(size, sizeof(size), "size=%lld", (long long)limits->disk);
    (void)snprintf(inodes, sizeof(inodes), "nr_inodes=%lld", (long long)limits->inodes + INODES_OF_OURS);
    const char *const options[] = {"mode=0755", size, limits->inodes > 0 ? inodes : NULL, NULL};
    BH_CLEANUP_FD int fd = bh_mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, fail);
    if (fd < 0)
        return -1;
    if (fill(fd) < 0 || move_mount(fd, "", AT_FDCWD, "/home", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return bh_fail(fail, errno, "make the root in memory");
    int at = open("/home", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return at >= 0 ? at : bh_fail(fail, errno, "open the root in memory");
}

int bh_memory_limit(int fd, const struct bh_msg_limits *limits, struct bh_fail *fail)
{
    struct statvfs fs;
    char inodes[40];
    if (limits->inodes <= 0)
        return 0;
    if (fstatvfs(fd, &fs) < 0)
        return bh_fail(fail, errno, "look at the root in memory");
    long long ours = (long long)(fs.f_files - fs.f_ffree);
    (void)snprintf(inodes, sizeof(inodes), "nr_inodes=%lld", (long long)limits->inodes + ours);
    if (mount(NULL, "/home", NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, inodes) < 0)
        return bh_fail(fail, errno, "limit the inodes of the root in memory");
    return 0;
}
