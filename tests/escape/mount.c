/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts, roots and namespaces. Outside all of them run in a mount namespace of their own. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/escape/escape.h"

static bool new_tmpfs(void)
{
    return TRIED(mount("none", "/mnt", "tmpfs", 0, NULL));
}

static bool new_proc(void)
{
    return TRIED(mount("proc", "/mnt", "proc", 0, NULL));
}

static bool new_cgroup(void)
{
    return TRIED(mount("none", "/mnt", "cgroup2", 0, NULL)) || TRIED(mount("none", "/mnt", "cgroup", 0, "memory"));
}

static bool new_overlay(void)
{
    return TRIED(mount("overlay", "/mnt", "overlay", 0, "lowerdir=/usr:/opt"));
}

static bool bind(void)
{
    return TRIED(mount("/", "/mnt", NULL, MS_BIND | MS_REC, NULL));
}

static bool writable_usr(void)
{
    if (outside && mount("/usr", "/usr", NULL, MS_BIND, NULL) < 0)
        return tried(-1, "bind /usr");
    return TRIED(mount("none", "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
}

static bool uncovers_proc(void)
{
    if (outside && mount("none", "/proc/sys", "tmpfs", 0, NULL) < 0)
        return tried(-1, "cover /proc/sys");
    return TRIED(umount2("/proc/sys", MNT_DETACH));
}

static bool uncovers_usr(void)
{
    if (outside && mount("none", "/mnt", "tmpfs", 0, NULL) < 0)
        return tried(-1, "mount /mnt");
    return TRIED(umount2(outside ? "/mnt" : "/usr", MNT_DETACH));
}

static bool uncovers_inputs(void)
{
    if (outside && mount("none", "/mnt", "tmpfs", 0, NULL) < 0)
        return tried(-1, "mount /mnt");
    return TRIED(umount2(outside ? "/mnt" : "/workspace/in", MNT_DETACH));
}

static bool shares_mounts(void)
{
    return TRIED(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL));
}

static bool pivots(void)
{
    if (outside && (mount("none", "/mnt", "tmpfs", 0, NULL) < 0 || mkdir("/mnt/old", 0755) < 0))
        return tried(-1, "mount /mnt");
    return TRIED(syscall(SYS_pivot_root, outside ? "/mnt" : ".", outside ? "/mnt/old" : "."));
}

/* The old way out of a chroot. */
static bool leaves_by_chroot(void)
{
    (void)mkdir("hole", 0755);
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return TRIED(chroot("hole")) && TRIED(fchdir(here)) && TRIED(chroot("../../../.."));
}

static bool opens_file_system(void)
{
    return TRIED(syscall(SYS_fsopen, "tmpfs", 0));
}

static bool clones_tree(void)
{
    return TRIED(open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}

static bool moves_mount(void)
{
    if (outside && mount("none", "/mnt", "tmpfs", 0, NULL) < 0)
        return tried(-1, "mount /mnt");
    return TRIED(move_mount(AT_FDCWD, outside ? "/mnt" : "/tmp", AT_FDCWD, outside ? "/srv" : "/usr", 0));
}

static bool changes_attributes(void)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (outside && mount("none", "/mnt", "tmpfs", MS_NODEV, NULL) < 0)
        return tried(-1, "mount /mnt");
    return TRIED(mount_setattr(AT_FDCWD, outside ? "/mnt" : "/usr", 0, &attr, sizeof(attr)));
}

static bool new_user_namespace(void)
{
    return TRIED(unshare(CLONE_NEWUSER));
}

static bool new_mount_namespace(void)
{
    return TRIED(unshare(CLONE_NEWNS));
}

static bool new_network_namespace(void)
{
    return TRIED(unshare(CLONE_NEWNET));
}

static bool new_pid_namespace(void)
{
    return TRIED(unshare(CLONE_NEWPID));
}

static bool by_clone(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    return TRIED(pid);
}

static bool by_clone3(void)
{
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        _exit(0);
    return TRIED(pid);
}

/* cgroup v1: a program of ours is run by the host when a group is empty. */
static bool release_agent(void)
{
    return TRIED(mount("none", "/mnt", "cgroup", 0, "none,name=bh-escape")) && opens("/mnt/release_agent", O_WRONLY);
}

static bool moves_to_other_group(void)
{
    static const char *const places[] = {"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs",
                                         "/sys/fs/cgroup/unified/cgroup.procs"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (opens(places[i], O_WRONLY))
            return true;
    }
    return false;
}

static bool raises_own_limits(void)
{
    static const char *const places[] = {"/sys/fs/cgroup/cgroup.subtree_control", "/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/pids/tasks", "/sys/fs/cgroup/memory/tasks"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (opens(places[i], O_WRONLY))
            return true;
    }
    return false;
}

#define APART .apart = CLONE_NEWNS

const struct attempt attempts_mount[] = {
    {"mount-tmpfs", "mount a file system", new_tmpfs, APART},
    {"mount-proc", "mount a /proc without covers", new_proc, APART},
    {"mount-cgroup", "mount the tree of control groups", new_cgroup, APART},
    {"mount-overlay", "mount an overlay", new_overlay, APART},
    {"mount-bind", "show the root a second time", bind, APART},
    {"mount-shared", "have mounts leave the namespace", shares_mounts, APART},
    {"remount-usr", "make /usr writable", writable_usr, APART},
    {"umount-proc", "take the cover off /proc/sys", uncovers_proc, APART},
    {"umount-usr", "take /usr away", uncovers_usr, APART},
    {"umount-inputs", "take the inputs away", uncovers_inputs, APART},
    {"pivot-root", "change the root", pivots, APART},
    {"chroot", "leave by a second chroot", leaves_by_chroot, APART},
    {"fsopen", "mount by the newer calls", opens_file_system, APART},
    {"open-tree", "copy the tree of mounts", clones_tree, APART},
    {"move-mount", "move a mount", moves_mount, APART},
    {"mount-setattr", "make a mount writable, with devices", changes_attributes, APART},
    {"unshare-user", "be root of a user namespace", new_user_namespace},
    {"unshare-mount", "have mounts of one's own", new_mount_namespace},
    {"unshare-net", "have a network of one's own", new_network_namespace},
    {"unshare-pid", "have processes of one's own", new_pid_namespace},
    {"clone-user", "be root of a user namespace by clone", by_clone},
    {"clone3-user", "be root of a user namespace by clone3", by_clone3},
    {"release-agent", "have the host run a program for a control group", release_agent, APART,
     .may_lack = "control groups of version 1"},
    {"cgroup-move", "leave the own control group", moves_to_other_group, .may_lack = "control groups"},
    {"cgroup-limits", "change limits of a control group", raises_own_limits, .may_lack = "control groups"},
    {NULL},
};
