/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/box/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/rootfs/layers.h"

#define OVERLAYS_OWN "user.overlay.uuid"

static int open_dir(const char *run_dir, const char *name, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_path_join(run_dir, name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fd : bh_err_set(err, errno == ENOENT ? BH_E_NOT_FOUND : BH_E_IO, errno, "cannot open '%s'", path);
}

/* A directory whose inside is the box's. */
static int make_dir(int dirfd, const char *name, mode_t mode, const struct bh_box_owner *owner)
{
    if (mkdirat(dirfd, name, 0700) < 0 || fchmodat(dirfd, name, mode, 0) < 0)
        return -1;
    if (owner->mode != BH_IDS_RANGE)
        return 0;
    return fchownat(dirfd, name, owner->first_id, owner->first_id, AT_SYMLINK_NOFOLLOW);
}

static int fill(int box, const struct bh_box_owner *owner, bool writable_usr)
{
    static const char *const dirs[] = {"work", "upper", "work/root", "upper/root"};
    static const char *const trees[] = {"work/usr", "upper/usr", "work/opt", "upper/opt"};
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        if (make_dir(box, dirs[i], 0755, owner) < 0)
            return -1;
    }
    for (size_t i = 0; writable_usr && i < BH_ARRAY_LEN(trees); i++) {
        if (make_dir(box, trees[i], 0755, owner) < 0)
            return -1;
    }
    return mkdirat(box, "deliver", 0755) < 0 ? -1 : fchmodat(box, "deliver", 0755, 0); /* ours */
}

/* Root of a box must be able to go through, though not to list: the folders above are closed to it anyway. */
static int open_layers_to(const char *run_dir, const struct bh_box_owner *owner)
{
    BH_CLEANUP_FREE char *path = bh_path_join(run_dir, "layers");
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -1;
    return owner->mode == BH_IDS_RANGE ? chmod(path, 0711) : 0;
}

/*
 * The folders of boxes have nothing to do with each other, which ext4 wants to be told: it then spreads them over the
 * disk instead of searching one place for inodes, and that search is slow where many were just freed.
 */
static void spread(int boxes)
{
    int flags;
    if (ioctl(boxes, FS_IOC_GETFLAGS, &flags) < 0)
        return;
    flags |= FS_TOPDIR_FL;
    (void)ioctl(boxes, FS_IOC_SETFLAGS, &flags); /* a hint: other file systems do not know it */
}

static int make_boxes(const char *run_dir)
{
    BH_CLEANUP_FREE char *path = bh_path_join(run_dir, "boxes");
    struct stat st;
    if (lstat(path, &st) == 0 && st.st_nlink > 2) /* boxes have been made in it */
        return 0;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -1;
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        spread(fd);
    return fd >= 0 ? 0 : -1;
}

int bh_box_folder_make(const char *run_dir, const char *key, const struct bh_box_owner *owner, bool writable_usr,
                       struct bh_err **err)
{
    if (make_boxes(run_dir) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot make '%s/boxes'", run_dir);
    if (open_layers_to(run_dir, owner) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot prepare '%s/layers'", run_dir);
    BH_CLEANUP_FD int boxes = open_dir(run_dir, "boxes", err);
    if (boxes < 0)
        return boxes;
    if (make_dir(boxes, key, 0700, owner) < 0)
        return bh_err_set(err, errno == EEXIST ? BH_E_EXISTS : BH_E_IO, errno, "cannot make the folder of box '%s'",
                          key);
    BH_CLEANUP_FD int box = openat(boxes, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (box >= 0 && fill(box, owner, writable_usr) == 0)
        return 0;
    int rc = bh_err_set(err, BH_E_IO, errno, "cannot make the folder of box '%s'", key);
    (void)bh_rmtree_at(boxes, key);
    return rc;
}

int bh_box_folder_rename(const char *run_dir, const char *key, const char *new_key)
{
    BH_CLEANUP_FREE char *from = bh_asprintf("%s/boxes/%s", run_dir, key);
    BH_CLEANUP_FREE char *to = bh_asprintf("%s/boxes/%s", run_dir, new_key);
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

int bh_box_folder_undecided(const char *run_dir, const char *key, bool undecided)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/boxes/%s/" BH_BOX_UNDECIDED, run_dir, key);
    if (!undecided)
        return unlink(path) < 0 && errno != ENOENT ? -1 : 0;
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : 0;
}

/* --- using a folder again --- */

/* A quota's, which sets a project. */
static int flags_of(int dir)
{
    int flags;
    return ioctl(dir, FS_IOC_GETFLAGS, &flags) == 0 ? flags & ~FS_PROJINHERIT_FL : 0;
}

static int clear_attributes(int dir)
{
    char names[4096];
    ssize_t n = flistxattr(dir, names, sizeof(names));
    if (n < 0 && errno != ENOTSUP)
        return -1;
    for (const char *name = names; name < names + n; name += strlen(name) + 1) {
        if (fremovexattr(dir, name) < 0)
            return -1;
    }
    return 0;
}

/* Removing while reading may skip names: until a pass finds none. */
static int remove_inside(int fd)
{
    int rc = 0;
    DIR *dir = bh_dir_stream(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return -1;
    for (bool found = true; found && rc == 0;) {
        found = false;
        rewinddir(dir);
        for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
            if (bh_streq(e->d_name, ".") || bh_streq(e->d_name, ".."))
                continue;
            found = true;
            rc = bh_rmtree_at(fd, e->d_name);
        }
    }
    (void)closedir(dir);
    return rc;
}

/* What an overlay makes is closed to everybody, its owner too. */
static int open_overlays(int dir, const char *name)
{
    BH_CLEANUP_FD int fd = bh_open_beneath(dir, name, O_PATH | O_DIRECTORY, 0);
    if (fd >= 0 && geteuid() != 0)
        bh_dir_open_up(fd);
    return BH_TAKE_FD(fd);
}

/*
 * What an overlay leaves in its work directory is always the same: WORK/work/incompat/volatile/dirty. Taken away by
 * name it costs a fifth of a walk; whatever else there may be is found by the walk that follows.
 */
static void remove_overlays_mark(int dir)
{
    BH_CLEANUP_FD int work = open_overlays(dir, "work");
    BH_CLEANUP_FD int incompat = work >= 0 ? open_overlays(work, "incompat") : -1;
    BH_CLEANUP_FD int mark = incompat >= 0 ? open_overlays(incompat, "volatile") : -1;
    if (mark < 0)
        return;
    if (unlinkat(mark, "dirty", 0) == 0 && unlinkat(incompat, "volatile", AT_REMOVEDIR) == 0 &&
        unlinkat(work, "incompat", AT_REMOVEDIR) == 0)
        (void)unlinkat(dir, "work", AT_REMOVEDIR);
}

/* But for the entry `but` (NULL: none). Mostly so, and without the buffers of a directory stream. */
static bool has_only(int dir, const char *but)
{
    _Alignas(struct dirent64) char entries[1024];
    ssize_t n;
    while ((n = getdents64(dir, entries, sizeof(entries))) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *e = (const struct dirent64 *)(const void *)(entries + at);
            bool expected = but && bh_streq(e->d_name, but);
            if (!expected && !bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
                return false;
            at += e->d_reclen;
        }
    }
    return n == 0;
}

/*
 * Only a directory that is as small as it was made, for those of ext4 never shrink, and with the flags of one that no
 * box has seen. Its times are set last.
 */
static int empty_dir(int box, const char *name, const struct bh_box_owner *owner)
{
    struct stat st;
    BH_CLEANUP_FD int dir = openat(box, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) < 0)
        return -1;
    if (st.st_size > st.st_blksize || (owner->mode == BH_IDS_RANGE && owner->first_id != st.st_uid) ||
        flags_of(dir) != flags_of(box)) {
        errno = EEXIST;
        return -1;
    }
    if (bh_starts_with(name, "work/"))
        remove_overlays_mark(dir);
    if (!has_only(dir, NULL) && remove_inside(dir) < 0)
        return -1;
    return fchmod(dir, 0755) < 0 || clear_attributes(dir) < 0 ? -1 : futimens(dir, NULL);
}

static int empty_pid(int box)
{
    BH_CLEANUP_FD int fd = openat(box, "pid", O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 && errno != ENOENT ? -1 : 0;
}

int bh_box_folder_empty(const char *run_dir, const char *key, const struct bh_box_owner *owner)
{
    const struct bh_box_owner ours = {.mode = BH_IDS_SINGLE};
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/boxes/%s", run_dir, key);
    BH_CLEANUP_FD int box = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (box < 0 || empty_pid(box) < 0)
        return -1;
    static const char *const dirs[] = {"work/root", "upper/root", "work/usr", "upper/usr", "work/opt", "upper/opt"};
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        if (empty_dir(box, dirs[i], owner) < 0 && !(i >= 2 && errno == ENOENT))
            return -1;
    }
    /* Of a box that had a workspace of its own. */
    if (bh_rmtree_at(box, "work/workspace") < 0 || bh_rmtree_at(box, "upper/workspace") < 0)
        return -1;
    return empty_dir(box, "deliver", &ours);
}

/* --- a root that nobody has written to --- */

/* The name that an overlay gives its upper is all that may be there. */
static bool has_own_attributes_only(int dir)
{
    char names[256];
    ssize_t n = flistxattr(dir, names, sizeof(names));
    if (n < 0 && errno != ENOTSUP)
        return false;
    return n <= 0 || ((size_t)n == sizeof(OVERLAYS_OWN) && memcmp(names, OVERLAYS_OWN, sizeof(OVERLAYS_OWN)) == 0);
}

/*
 * The time of the last change alone says that there was one, and nobody can set it; but some kernels count it in ticks,
 * and a box is quicker. So everything that a tick could hide is compared as well.
 */
static int take_stamp(int dir, struct bh_box_stamp *ret)
{
    struct statx st;
    struct fsxattr fx = {0};
    int flags = 0;
    if (statx(dir, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
        return -1;
    (void)ioctl(dir, FS_IOC_GETFLAGS, &flags); /* not every file system has them */
    (void)ioctl(dir, FS_IOC_FSGETXATTR, &fx);
    *ret = (struct bh_box_stamp){
        .taken = true,
        .parts = {st.stx_ctime.tv_sec,
                  st.stx_ctime.tv_nsec,
                  st.stx_mtime.tv_sec,
                  st.stx_mtime.tv_nsec,
                  st.stx_atime.tv_sec,
                  st.stx_atime.tv_nsec,
                  st.stx_btime.tv_sec,
                  st.stx_btime.tv_nsec,
                  st.stx_dev_major,
                  st.stx_dev_minor,
                  (int64_t)st.stx_ino,
                  (int64_t)st.stx_size,
                  st.stx_mode,
                  st.stx_uid,
                  st.stx_gid,
                  st.stx_nlink,
                  flags,
                  fx.fsx_xflags,
                  (int64_t)st.stx_attributes,
                  (int64_t)st.stx_blocks,
                  fx.fsx_projid,
                  fx.fsx_extsize,
                  fx.fsx_cowextsize},
    };
    return 0;
}

void bh_box_folder_stamp(const char *run_dir, const char *key, struct bh_box_stamp *ret)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/boxes/%s/upper/root", run_dir, key);
    BH_CLEANUP_FD int upper = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (upper < 0 || take_stamp(upper, ret) < 0)
        *ret = (struct bh_box_stamp){.taken = false};
}

/* What is in the upper or was left on the way there, and what the directory itself is. Our look at it changes nothing.
 */
static bool is_unwritten(int box, const struct bh_box_owner *owner, const struct bh_box_stamp *stamp)
{
    struct stat st;
    struct bh_box_stamp now;
    BH_CLEANUP_FD int upper = bh_open_beneath(box, "upper/root", O_RDONLY | O_DIRECTORY | O_NOATIME, 0);
    if (upper < 0 || fstat(upper, &st) < 0 || (st.st_mode & 07777) != 0755)
        return false;
    if (owner->mode == BH_IDS_RANGE && (st.st_uid != owner->first_id || st.st_gid != owner->first_id))
        return false;
    if (!stamp->taken || take_stamp(upper, &now) < 0 || memcmp(now.parts, stamp->parts, sizeof(now.parts)) != 0)
        return false;
    if (!has_only(upper, NULL) || !has_own_attributes_only(upper))
        return false;
    BH_CLEANUP_FD int path = open_overlays(box, "work/root/work");
    BH_CLEANUP_FD int work = path >= 0 ? openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return work >= 0 && has_only(work, "incompat");
}

bool bh_box_folder_unused(const char *run_dir, const char *key, const struct bh_box_owner *owner,
                          const struct bh_box_stamp *stamp)
{
    const struct bh_box_owner ours = {.mode = BH_IDS_SINGLE};
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/boxes/%s", run_dir, key);
    BH_CLEANUP_FD int box = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return box >= 0 && is_unwritten(box, owner, stamp) && empty_pid(box) == 0 && empty_dir(box, "deliver", &ours) == 0;
}

static int remove_parts(int boxes, const char *key)
{
    static const char *const parts[] = {"pid", "deliver", "work"}; /* work last: it is the mark of a live box */
    int rc = 0;
    BH_CLEANUP_FD int box = openat(boxes, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (box < 0)
        return errno == ENOENT ? 0 : -1;
    for (size_t i = 0; i < BH_ARRAY_LEN(parts) && rc == 0; i++)
        rc = bh_rmtree_at(box, parts[i]);
    return rc;
}

int bh_box_folder_remove(const char *run_dir, const char *key, bool keep, struct bh_err **err)
{
    BH_CLEANUP_FD int boxes = open_dir(run_dir, "boxes", err);
    if (boxes < 0)
        return boxes;
    if ((keep ? remove_parts(boxes, key) : bh_rmtree_whole_at(boxes, key)) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot remove the folder of box '%s'", key);
    return 0;
}

int bh_box_folder_freeze(const char *run_dir, const char *key, const char *layer, const char *below,
                         struct bh_err **err)
{
    BH_CLEANUP_FD int boxes = open_dir(run_dir, "boxes", err);
    if (boxes < 0)
        return boxes;
    BH_CLEANUP_FD int layers = open_dir(run_dir, "layers", err);
    if (layers < 0)
        return layers;
    BH_CLEANUP_FREE char *upper = bh_asprintf("%s/upper", key);
    int rc = bh_layer_freeze(boxes, upper, layers, layer, below, err);
    if (bh_rmtree_at(boxes, key) < 0 && rc == 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot remove the folder of box '%s'", key);
    return rc;
}
