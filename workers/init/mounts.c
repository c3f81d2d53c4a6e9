/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/init/mounts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"

int bh_mount_clone(int dirfd, const char *path, bool recursive)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
    return open_tree(dirfd, path, flags | (recursive ? AT_RECURSIVE : 0));
}

static int set_attrs(int dirfd, const char *path, struct mount_attr *attr, bool recursive)
{
    unsigned flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | (recursive ? AT_RECURSIVE : 0);
    return mount_setattr(dirfd, path, flags, attr, sizeof(*attr));
}

int bh_mount_restrict(int fd, uint64_t attrs, bool recursive)
{
    struct mount_attr attr = {.attr_set = attrs};
    return set_attrs(fd, "", &attr, recursive);
}

int bh_mount_idmap(int fd, int userns_fd)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd};
    return set_attrs(fd, "", &attr, false);
}

int bh_mount_readonly(int dirfd, const char *path, bool on)
{
    struct mount_attr attr = {0};
    if (on)
        attr.attr_set = MOUNT_ATTR_RDONLY;
    else
        attr.attr_clr = MOUNT_ATTR_RDONLY;
    return set_attrs(dirfd, path, &attr, false);
}

static int attach(int from_fd, const char *from, unsigned flags, int dirfd, const char *path)
{
    BH_CLEANUP_FD int target = bh_open_beneath(dirfd, path, O_PATH, 0);
    if (target < 0)
        return -1;
    return move_mount(from_fd, from, target, "", flags | MOVE_MOUNT_T_EMPTY_PATH);
}

int bh_mount_attach(int mount_fd, int dirfd, const char *path)
{
    return attach(mount_fd, "", MOVE_MOUNT_F_EMPTY_PATH, dirfd, path);
}

int bh_mount_move(const char *from, int dirfd, const char *path)
{
    return attach(AT_FDCWD, from, 0, dirfd, path);
}

int bh_mount_overlay(const char *at, const char *options, bool readonly)
{
    return mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV | MS_NODIRATIME | (readonly ? MS_RDONLY : 0), options);
}

static int configure(int fs, const char *option)
{
    char key[32];
    const char *eq = strchr(option, '=');
    if (!eq)
        return fsconfig(fs, FSCONFIG_SET_FLAG, option, NULL, 0);
    size_t len = (size_t)(eq - option);
    if (len >= sizeof(key)) {
        errno = EINVAL;
        return -1;
    }
    memcpy(key, option, len);
    key[len] = '\0';
    return fsconfig(fs, FSCONFIG_SET_STRING, key, eq + 1, 0);
}

/* The kernel keeps its reason in the context; one message is enough. */
static int fail_new(int fs, const char *type, int error, struct bh_fail *fail)
{
    char said[96];
    ssize_t n = fs >= 0 ? read(fs, said, sizeof(said) - 1) : -1;
    if (n <= 2)
        return bh_fail(fail, error, "mount %s", type);
    said[n] = '\0';
    return bh_fail(fail, error, "mount %s (%s)", type, said + 2);
}

int bh_mount_new(const char *type, const char *const *options, uint64_t attrs, struct bh_fail *fail)
{
    BH_CLEANUP_FD int fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return fail_new(-1, type, errno, fail);
    (void)fsconfig(fs, FSCONFIG_SET_STRING, "source", type, 0); /* what `df` and mountinfo show */
    for (; *options; options++) {
        if (configure(fs, *options) < 0)
            return fail_new(fs, type, errno, fail);
    }
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return fail_new(fs, type, errno, fail);
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attrs);
    return fd >= 0 ? fd : fail_new(fs, type, errno, fail);
}

int bh_mount_enter(void)
{
    /* Both names are the same directory: the old root ends up mounted over the new one and is what "." then is. */
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        return -1;
    return chdir("/");
}
