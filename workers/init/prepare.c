/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts of a shell. Starts in a copy of the launcher's tree (launcher/tree.c), ends in a root of its own that
 * holds nothing of the host but the device nodes and, later, what the launcher hands over as detached mounts.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

#define PLAIN (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static int mount_at(const char *type, const char *const *options, uint64_t attrs, const char *path,
                    struct bh_fail *fail)
{
    BH_CLEANUP_FD int fd = bh_mount_new(type, options, attrs, fail);
    if (fd < 0)
        return -1;
    if (move_mount(fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return bh_fail(fail, errno, "attach %s", path);
    return 0;
}

/* A copy of the launcher's stage: directories to mount on, read-only, the same in all boxes. */
static int enter_own_root(struct bh_fail *fail)
{
    BH_CLEANUP_FD int root = bh_mount_clone(AT_FDCWD, "/stage", false);
    if (root < 0 || move_mount(root, "", AT_FDCWD, "/stage", MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(root) < 0)
        return bh_fail(fail, errno, "enter the stage");
    return 0;
}

static int make_devices(int nodes, struct bh_fail *fail)
{
    static const char *const shm[] = {"size=256m", "nr_inodes=16384", "mode=1777", NULL};
    static const char *const pts[] = {"mode=0620", "ptmxmode=0666", "max=256", NULL};
    if (move_mount(nodes, "", AT_FDCWD, "dev", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return bh_fail(fail, errno, "attach /dev");
    if (mount_at("tmpfs", shm, PLAIN, "dev/shm", fail) < 0)
        return -1;
    return mount_at("devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "dev/pts", fail);
}

int bh_shell_prepare(const struct bh_init_setup *setup, struct bh_fail *fail)
{
    BH_CLEANUP_FD int nodes = bh_mount_clone(AT_FDCWD, "/dev", true);
    if (nodes < 0)
        return bh_fail(fail, errno, "copy /dev");
    if (enter_own_root(fail) < 0 || make_devices(nodes, fail) < 0)
        return -1;
    /* While the launcher's proc is still in sight: the kernel shows a new one only to who can see one already. */
    if (bh_proc_mount(setup, AT_FDCWD, "proc", fail) < 0)
        return -1;
    return bh_mount_enter() < 0 ? bh_fail(fail, errno, "enter the own root") : 0;
}
