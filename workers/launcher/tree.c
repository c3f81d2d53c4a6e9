/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root of our own, in a mount namespace of our own: the state directory, the allowed directories of the host, its
 * /proc and six device nodes, nothing else. Boxes are cloned from it, so the rest of the host is not a path that has to
 * be hidden from them but one that was never there, and the host's mount table does not slow a clone down.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/init/mounts.h"
#include "workers/launcher/launcher.h"

#define SHOWN (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* The allow-list. The short ones are symlinks into /usr on most hosts, and then no trees of their own. */
static const char *const names[BH_TREES_MAX] = {"usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const struct device {
    const char *name;
    unsigned minor, major;
} devices[] = {
    {"null", 3, 1}, {"zero", 5, 1}, {"full", 7, 1}, {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5},
};

static const char *const device_links[][2] = {
    {"/proc/self/fd", "fd"},       {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"},
    {"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"},
};

/* Detached copies of what goes in, taken while the host's tree is still the root. */
struct parts {
    int home, proc;
    int trees[BH_TREES_MAX];
    int devices[BH_ARRAY_LEN(devices)];
};

/* --- what is there --- */

static void find_trees(struct bh_launcher *l)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        char path[16];
        struct stat st;
        (void)snprintf(path, sizeof(path), "/%s", names[i]);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            l->trees[l->n_trees++] = (struct bh_host_tree){.name = names[i], .may_overlay = i < 2};
    }
}

/* "36 35 98:0 /root /mount/point options…"; octal escapes in the mount point are left alone: such a mount is not found
 * again by its name, and an overlay that meets it is refused by the kernel. */
static const char *mount_point_of(char *line)
{
    char *at = line;
    for (int i = 0; i < 4 && at; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    char *end = at ? strchr(at, ' ') : NULL;
    if (!end)
        return NULL;
    *end = '\0';
    return at;
}

static void note_submount(struct bh_launcher *l, const char *point)
{
    for (size_t i = 0; i < l->n_trees; i++) {
        struct bh_host_tree *t = &l->trees[i];
        size_t len = strlen(t->name);
        if (point[0] != '/' || strncmp(point + 1, t->name, len) != 0 || point[1 + len] != '/')
            continue;
        if (t->n_submounts < BH_SUBMOUNTS_MAX)
            t->submounts[t->n_submounts++] = bh_strdup(point + 1);
        else
            t->may_overlay = false; /* too many to carry over one by one: shown read-only, in one piece */
    }
}

static int find_submounts(struct bh_launcher *l)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || bh_read_all(fd, 16 << 20, &text, NULL) != 0)
        return bh_fail(&l->fail, fd < 0 ? errno : EIO, "read the mount table");
    for (char *line = text.data; line && *line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        const char *point = mount_point_of(line);
        if (point)
            note_submount(l, point);
        line = end ? end + 1 : NULL;
    }
    return 0;
}

/* --- taking copies --- */

static int take_trees(struct bh_launcher *l, struct parts *p)
{
    for (size_t i = 0; i < l->n_trees; i++) {
        char path[16];
        (void)snprintf(path, sizeof(path), "/%s", l->trees[i].name);
        p->trees[i] = bh_mount_clone(AT_FDCWD, path, true);
        if (p->trees[i] < 0 || bh_mount_restrict(p->trees[i], SHOWN, true) < 0)
            return bh_fail(&l->fail, errno, "copy the mount %s", path);
    }
    return 0;
}

static int take_devices(struct bh_launcher *l, struct parts *p)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(devices); i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/dev/%s", devices[i].name);
        p->devices[i] = bh_mount_clone(AT_FDCWD, path, false);
        if (p->devices[i] < 0)
            return bh_fail(&l->fail, errno, "copy %s", path);
    }
    return 0;
}

static int take_parts(struct bh_launcher *l, int home, struct parts *p)
{
    p->home = bh_mount_clone(home, "", true);
    if (p->home < 0 || bh_mount_restrict(p->home, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, true) < 0)
        return bh_fail(&l->fail, errno, "copy the mount of the state directory");
    p->proc = bh_mount_clone(AT_FDCWD, "/proc", true);
    if (p->proc < 0)
        return bh_fail(&l->fail, errno, "copy the mount /proc");
    return take_trees(l, p) < 0 ? -1 : take_devices(l, p);
}

/* --- putting them together; the current directory is the new root --- */

static int put(int mount_fd, const char *name, bool directory)
{
    if (directory ? mkdir(name, 0755) < 0 : mknod(name, S_IFREG | 0644, 0) < 0)
        return -1;
    return move_mount(mount_fd, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH);
}

static int put_device(const struct bh_launcher *l, const struct device *d, int copy)
{
    char path[32];
    (void)snprintf(path, sizeof(path), "dev/%s", d->name);
    /* Root of the host makes nodes; a mount for each of them is what everybody else can do. */
    if (l->mode != BH_IDS_RANGE || mknod(path, S_IFCHR | 0666, makedev(d->major, d->minor)) < 0)
        return put(copy, path, false);
    return chmod(path, 0666) < 0 ? -1 : lchown(path, l->first_id, l->first_id);
}

static int fill_devices(const struct bh_launcher *l, const struct parts *p)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(devices); i++) {
        if (put_device(l, &devices[i], p->devices[i]) < 0)
            return -1;
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(device_links); i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "dev/%s", device_links[i][1]);
        if (symlink(device_links[i][0], path) < 0)
            return -1;
    }
    return mkdir("dev/shm", 01777) < 0 || mkdir("dev/pts", 0755) < 0 ? -1 : 0;
}

static int make_devices(struct bh_launcher *l, const struct parts *p)
{
    static const char *const options[] = {"size=64k", "mode=0755", NULL};
    BH_CLEANUP_FD int fd = bh_mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &l->fail);
    if (fd < 0)
        return -1;
    if (put(fd, "dev", true) < 0 || fill_devices(l, p) < 0 || bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, true) < 0)
        return bh_fail(&l->fail, errno, "make /dev");
    return 0;
}

/* The root of every box's init (init/init.h names the directories): all mount points, nothing to write. */
static int make_stage(struct bh_launcher *l)
{
    static const char *const dirs[] = {"stage/box",  "stage/deliver", "stage/empty", "stage/make",     "stage/dev",
                                       "stage/proc", "stage/home",    "stage/base",  "stage/layers",   "stage/usr",
                                       "stage/opt",  "stage/dirs",    "stage/past",  "stage/snapshots"};
    static const char *const options[] = {"size=64k", "mode=0755", NULL};
    const uint64_t plain = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    BH_CLEANUP_FD int fd = bh_mount_new("tmpfs", options, plain, &l->fail);
    if (fd < 0)
        return -1;
    if (put(fd, "stage", true) < 0)
        return bh_fail(&l->fail, errno, "attach the stage");
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        if (mkdir(dirs[i], 0755) < 0)
            return bh_fail(&l->fail, errno, "make %s", dirs[i]);
    }
    if (mknod("stage/nothing", S_IFREG | 0444, 0) < 0)
        return bh_fail(&l->fail, errno, "make stage/nothing");
    return bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, false) < 0 ? bh_fail(&l->fail, errno, "seal the stage") : 0;
}

static int show_submount(const char *path)
{
    char place[512];
    (void)snprintf(place, sizeof(place), "shown/%s", path);
    BH_CLEANUP_FD int fd = bh_mount_clone(AT_FDCWD, path, true);
    return fd < 0 ? -1 : move_mount(fd, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH);
}

/*
 * A bind shares more than bytes: through it a box could talk to daemons of the host that listen on sockets or FIFOs
 * below /usr or /opt, lock its files and watch what it runs. An overlay of lower directories alone has inodes of its
 * own. One serves all boxes of this launcher: what it costs once it would cost each of them, and what is left is a lock
 * or a watch between boxes. The kernel makes none over mounts that came from another user namespace (locked ones below
 * /usr); such a tree stays a bind.
 */
static int show_tree(struct bh_launcher *l, struct bh_host_tree *t)
{
    char at[32], options[64];
    (void)snprintf(at, sizeof(at), "shown/%s", t->name);
    (void)snprintf(options, sizeof(options), "lowerdir=%s:stage/empty", t->name);
    if (mkdir(at, 0755) < 0)
        return bh_fail(&l->fail, errno, "make /%s", at);
    t->shown = bh_mount_overlay(at, options, true) == 0;
    for (size_t i = 0; t->shown && i < t->n_submounts; i++) {
        if (show_submount(t->submounts[i]) < 0)
            return bh_fail(&l->fail, errno, "attach /shown/%s", t->submounts[i]);
    }
    return 0;
}

static int show_trees(struct bh_launcher *l)
{
    if (mkdir("shown", 0755) < 0)
        return bh_fail(&l->fail, errno, "make /shown");
    for (size_t i = 0; i < l->n_trees; i++) {
        if (show_tree(l, &l->trees[i]) < 0)
            return -1;
    }
    return 0;
}

/* "/lib64" and the like as the host has them: bulkhead-unpack, which starts in this tree, finds its libraries by them.
 */
static int put_links(void)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        char path[16], target[PATH_MAX];
        (void)snprintf(path, sizeof(path), "/%s", names[i]);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (symlink(target, names[i]) < 0)
            return -1;
    }
    return 0;
}

static int fill_root(struct bh_launcher *l, const struct parts *p)
{
    if (put(p->home, "home", true) < 0 || put(p->proc, "proc", true) < 0)
        return bh_fail(&l->fail, errno, "make a root of our own");
    for (size_t i = 0; i < l->n_trees; i++) {
        if (put(p->trees[i], l->trees[i].name, true) < 0)
            return bh_fail(&l->fail, errno, "attach /%s", l->trees[i].name);
    }
    if (put_links() < 0)
        return bh_fail(&l->fail, errno, "link the libraries");
    return make_stage(l) < 0 || show_trees(l) < 0 ? -1 : make_devices(l, p);
}

/* It is mounted over the state directory for the moment: a directory that is sure to be there and ours. */
static int build(struct bh_launcher *l, int home, const struct parts *p)
{
    static const char *const options[] = {"size=1m", "mode=0755", NULL};
    BH_CLEANUP_FD int root =
        bh_mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, &l->fail);
    if (root < 0)
        return -1;
    if (move_mount(root, "", home, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 || fchdir(root) < 0)
        return bh_fail(&l->fail, errno, "attach a root of our own");
    if (fill_root(l, p) < 0)
        return -1;
    return bh_mount_enter() < 0 ? bh_fail(&l->fail, errno, "enter a root of our own") : 0;
}

static void close_parts(struct parts *p)
{
    bh_close(p->home);
    bh_close(p->proc);
    for (size_t i = 0; i < BH_ARRAY_LEN(p->trees); i++)
        bh_close(p->trees[i]);
    for (size_t i = 0; i < BH_ARRAY_LEN(p->devices); i++)
        bh_close(p->devices[i]);
}

int bh_tree_enter(struct bh_launcher *l, const char *path)
{
    struct parts parts;
    memset(&parts, -1, sizeof(parts)); /* every descriptor -1 */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return bh_fail(&l->fail, errno, "make mounts private");
    BH_CLEANUP_FD int home = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (home < 0)
        return bh_fail(&l->fail, errno, "open the state directory");
    find_trees(l);
    int rc = find_submounts(l);
    if (rc == 0)
        rc = take_parts(l, home, &parts);
    if (rc == 0)
        rc = build(l, home, &parts);
    close_parts(&parts);
    if (rc < 0)
        return -1;
    bh_close(l->home);
    l->in_tree = true;
    l->home = open("/home", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return l->home < 0 ? bh_fail(&l->fail, errno, "open the state directory") : 0;
}
