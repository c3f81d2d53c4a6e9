/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing a tree that somebody hostile may have made. Works by descriptors only and holds three of them
 * at most, however deep the tree is: names that are still to do are kept on the heap, one list per level,
 * and the way up is "..", believed only when it leads to the directory that we came from. Never follows a
 * symlink, never enters a mount (also not a bind mount of the same file system).
 */
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY)

struct place {
    dev_t dev;
    ino_t ino;
    uint64_t mount; /* 0: unknown */
};

/* A directory on the way down, and its subdirectories that were not empty. The last of them is being worked on. */
struct level {
    struct place place;
    char **names;
    size_t len, cap;
};

struct removal {
    struct level *levels;
    size_t len, cap;
    int fd;          /* of the deepest level */
    int first_errno; /* 0: nothing has failed */
};

static void failed(struct removal *rm, int why)
{
    if (!rm->first_errno)
        rm->first_errno = why;
}

static int identify(int fd, struct place *ret)
{
    struct stat st;
    struct statx stx;
    if (fstat(fd, &st) < 0)
        return -1;
    *ret = (struct place){.dev = st.st_dev, .ino = st.st_ino};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stx) == 0 && stx.stx_mask & STATX_MNT_ID)
        ret->mount = stx.stx_mnt_id;
    return 0;
}

static bool same_mount(const struct place *a, const struct place *b)
{
    return a->dev == b->dev && a->mount == b->mount;
}

/* By the new call, or through /proc. */
void bh_dir_open_up(int path_fd)
{
    char link[64];
    if (syscall(SYS_fchmodat2, path_fd, "", 0700, AT_EMPTY_PATH) == 0)
        return;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
    (void)chmod(link, 0700);
}

/*
 * Opens the directory `name`, which must lie on the mount of `above` (NULL: anywhere), and gives it the permissions
 * that are needed to empty it. -1 with errno; EXDEV for a mount.
 */
static int enter(int dirfd, const char *name, const struct place *above, struct place *ret)
{
    struct stat st;
    BH_CLEANUP_FD int path_fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (path_fd < 0 || identify(path_fd, ret) < 0 || fstat(path_fd, &st) < 0)
        return -1;
    if (above && !same_mount(above, ret)) {
        errno = EXDEV;
        return -1;
    }
    if ((st.st_mode & 0700) != 0700)
        bh_dir_open_up(path_fd);
    return openat(path_fd, ".", OPEN_FLAGS);
}

/* Removes one entry, unless it is a directory with something in it: that one is noted. */
static void remove_entry(struct removal *rm, struct level *level, const struct dirent *entry)
{
    if (entry->d_type != DT_DIR) {
        if (unlinkat(rm->fd, entry->d_name, 0) == 0 || errno == ENOENT)
            return;
        if (errno != EISDIR && errno != EPERM) {
            failed(rm, errno);
            return;
        }
    }
    int why = errno;
    if (unlinkat(rm->fd, entry->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return;
    if (errno == ENOTEMPTY || errno == EEXIST)
        *BH_PUSH(level->names, level->len, level->cap) = bh_strdup(entry->d_name);
    else
        failed(rm, errno == ENOTDIR && entry->d_type != DT_DIR ? why : errno);
}

/* Empties the deepest level but for its full subdirectories. */
static void sweep(struct removal *rm)
{
    struct level *level = &rm->levels[rm->len - 1];
    DIR *dir = bh_dir_stream(openat(rm->fd, ".", OPEN_FLAGS));
    if (!dir) {
        failed(rm, errno);
        return;
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_entry(rm, level, entry);
    }
    if (errno)
        failed(rm, errno);
    (void)closedir(dir);
}

static void push(struct removal *rm, int fd, struct place place)
{
    bh_close(rm->fd);
    rm->fd = fd;
    BH_PUSH(rm->levels, rm->len, rm->cap)->place = place;
    sweep(rm);
}

static void level_fini(struct level *level)
{
    for (size_t i = 0; i < level->len; i++)
        bh_free(level->names[i]);
    bh_free(level->names);
    *level = (struct level){0};
}

static void drop_name(struct level *level)
{
    bh_free(level->names[--level->len]);
}

/* Into the last noted subdirectory of the deepest level. */
static void down(struct removal *rm)
{
    struct level *level = &rm->levels[rm->len - 1];
    const char *name = level->names[level->len - 1];
    struct place place;
    int fd = enter(rm->fd, name, &level->place, &place);
    if (fd >= 0) {
        push(rm, fd, place);
        return;
    }
    if (errno != ENOENT)
        failed(rm, errno);
    drop_name(level);
}

/* Back to the level above, where the directory that we leave is removed. False: the way is lost. */
static bool up(struct removal *rm)
{
    struct level *above = &rm->levels[rm->len - 2];
    struct place place;
    int fd = openat(rm->fd, "..", OPEN_FLAGS);
    if (fd < 0) {
        failed(rm, errno);
        return false;
    }
    bh_close(rm->fd);
    rm->fd = fd;
    level_fini(&rm->levels[--rm->len]);
    if (identify(fd, &place) < 0 || !same_mount(&place, &above->place) || place.ino != above->place.ino) {
        failed(rm, ESTALE); /* the directory was moved while we were in it */
        return false;
    }
    if (unlinkat(fd, above->names[above->len - 1], AT_REMOVEDIR) < 0 && errno != ENOENT)
        failed(rm, errno);
    drop_name(above);
    return true;
}

/* Empties the directory `name`. */
static void empty(struct removal *rm, int dirfd, const char *name)
{
    struct place place;
    int fd = enter(dirfd, name, NULL, &place);
    if (fd < 0) {
        failed(rm, errno);
        return;
    }
    push(rm, fd, place);
    for (;;) {
        if (rm->levels[rm->len - 1].len > 0)
            down(rm);
        else if (rm->len == 1 || !up(rm))
            break;
    }
    bh_close(rm->fd);
    for (size_t i = 0; i < rm->len; i++)
        level_fini(&rm->levels[i]);
    bh_free(rm->levels);
}

int bh_rmtree_whole_at(int dirfd, const char *name)
{
    char hidden[NAME_MAX + 1];
    if (bh_starts_with(name, BH_TEMPORARY_PREFIX))
        return bh_rmtree_at(dirfd, name);
    if ((size_t)snprintf(hidden, sizeof(hidden), BH_TEMPORARY_PREFIX "%s", name) >= sizeof(hidden)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    /* One that another process did not get to the end of is in the way. */
    if (bh_rmtree_at(dirfd, hidden) < 0)
        return -1;
    if (renameat2(dirfd, name, dirfd, hidden, RENAME_NOREPLACE) < 0)
        return errno == ENOENT ? 0 : -1;
    return bh_rmtree_at(dirfd, hidden);
}

int bh_rmtree_at(int dirfd, const char *name)
{
    struct removal rm = {.fd = -1};
    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno == ENOTDIR)
        return unlinkat(dirfd, name, 0) == 0 || errno == ENOENT ? 0 : -1;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -1;
    empty(&rm, dirfd, name);
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        failed(&rm, errno);
    errno = rm.first_errno;
    return rm.first_errno ? -1 : 0;
}
