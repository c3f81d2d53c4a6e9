/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counting walker (count.h). It goes down by descriptors and holds at most OPEN_MAX of them: above that, the way up
 * is "..", believed only when it leads to the directory that we came from.
 */
#include "workers/disk/count.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define LEVELS_OPEN 64
#define FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

/* --- inodes --- */

static size_t slot_of(const struct bh_disk_seen *seen, uint64_t inode)
{
    size_t at = (size_t)(inode * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (seen->cap - 1);
    while (seen->slots[at] != 0 && seen->slots[at] != inode)
        at = (at + 1) & (seen->cap - 1);
    return at;
}

static void grow(struct bh_disk_seen *seen)
{
    struct bh_disk_seen bigger = {.len = seen->len, .cap = seen->cap ? seen->cap * 4 : 64};
    bigger.slots = bh_calloc(bigger.cap, sizeof(*bigger.slots));
    for (size_t i = 0; i < seen->cap; i++) {
        if (seen->slots[i] != 0)
            bigger.slots[slot_of(&bigger, seen->slots[i])] = seen->slots[i];
    }
    bh_free(seen->slots);
    *seen = bigger;
}

bool bh_disk_seen_add(struct bh_disk_seen *seen, uint64_t inode)
{
    if (inode == 0) /* no file has it */
        return false;
    if (seen->len * 2 >= seen->cap)
        grow(seen);
    size_t at = slot_of(seen, inode);
    if (seen->slots[at] == inode)
        return false;
    seen->slots[at] = inode;
    seen->len++;
    return true;
}

void bh_disk_seen_fini(struct bh_disk_seen *seen)
{
    bh_free(seen->slots);
    *seen = (struct bh_disk_seen){0};
}

/* --- the walk --- */

/* A directory on the way down, and its subdirectories that are still to be read. */
struct level {
    int fd; /* -1: closed for the moment */
    dev_t dev;
    ino_t ino;
    char **names;
    size_t len, cap;
};

struct walk {
    struct level *levels;
    size_t len, cap;
    struct bh_disk_seen seen;
    const struct bh_disk_bounds *bounds;
    struct bh_disk_usage *usage;
    int64_t entries;
};

static bool enough(const struct walk *w)
{
    const struct bh_disk_bounds *b = w->bounds;
    return (b->bytes > 0 && w->usage->bytes > b->bytes) || (b->inodes > 0 && w->usage->inodes > b->inodes) ||
           (b->entries > 0 && w->entries >= b->entries) || (b->given_up && atomic_load(b->given_up));
}

static void add_name(struct level *level, const char *name)
{
    *BH_PUSH(level->names, level->len, level->cap) = bh_strdup(name);
}

/* Names that vanish while we look are no longer there to be counted; folders may be elsewhere by now. */
static void count_entry(struct walk *w, struct level *level, const char *name, bool may_be_folder)
{
    struct stat st;
    w->entries++;
    if (fstatat(level->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        w->usage->hidden += errno != ENOENT;
        w->usage->moved += may_be_folder && errno == ENOENT;
        return;
    }
    if (st.st_dev != level->dev || !bh_disk_seen_add(&w->seen, st.st_ino))
        return;
    w->usage->inodes++;
    w->usage->bytes += (int64_t)st.st_blocks * 512;
    if (S_ISREG(st.st_mode) && st.st_size > w->usage->largest)
        w->usage->largest = st.st_size;
    if (S_ISDIR(st.st_mode))
        add_name(level, name);
}

static void read_level(struct walk *w, struct level *level)
{
    char bytes[32768] __attribute__((aligned(8)));
    ssize_t n;
    (void)fcntl(level->fd, F_SETFL, O_NOATIME); /* counting leaves no trace, where the folder is ours */
    while ((n = getdents64(level->fd, bytes, sizeof(bytes))) > 0) {
        const struct dirent64 *entry;
        for (ssize_t at = 0; at < n; at += entry->d_reclen) {
            entry = (const void *)(bytes + at);
            const char *name = entry->d_name;
            if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])))
                continue;
            count_entry(w, level, name, entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
            if (enough(w))
                return;
        }
    }
    w->usage->hidden += n < 0 && errno != ENOENT;
}

/* Takes fd. Descriptors of the levels far above are let go, the top one's never. */
static void push(struct walk *w, int fd, const struct stat *st)
{
    struct level *level = BH_PUSH(w->levels, w->len, w->cap);
    *level = (struct level){.fd = fd, .dev = st->st_dev, .ino = st->st_ino};
    if (w->len > LEVELS_OPEN + 1)
        bh_close(BH_TAKE_FD(w->levels[w->len - 1 - LEVELS_OPEN].fd));
    read_level(w, &w->levels[w->len - 1]);
}

static void descend(struct walk *w)
{
    struct level *level = &w->levels[w->len - 1];
    char *name = level->names[--level->len];
    struct stat st;
    int fd = bh_open_beneath(level->fd, name, FLAGS, 0);
    bool gone = fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
    bh_free(name);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == level->dev) {
        push(w, fd, &st);
        return;
    }
    w->usage->hidden += !gone;
    w->usage->moved += gone;
    bh_close(fd);
}

/* The level above `below` again, where it still is what it was. */
static int reopen(const struct level *level, int below)
{
    struct stat st;
    BH_CLEANUP_FD int fd = openat(below, "..", FLAGS);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != level->dev || st.st_ino != level->ino)
        return -1;
    return BH_TAKE_FD(fd);
}

static void pop(struct walk *w)
{
    struct level *level = &w->levels[--w->len];
    for (size_t i = 0; i < level->len; i++)
        bh_free(level->names[i]);
    bh_free(level->names);
    struct level *above = w->len > 0 ? level - 1 : NULL;
    if (above && above->fd < 0 && level->fd >= 0)
        above->fd = reopen(above, level->fd);
    if (above && above->fd < 0) { /* moved away under our feet */
        w->usage->hidden += above->len > 0;
        w->usage->moved += above->len > 0;
        while (above->len > 0)
            bh_free(above->names[--above->len]);
    }
    bh_close(level->fd);
}

void bh_disk_count(int dirfd, const struct bh_disk_bounds *bounds, struct bh_disk_usage *usage)
{
    struct walk w = {.bounds = bounds, .usage = usage};
    struct stat st;
    int fd = bh_open_beneath(dirfd, ".", FLAGS, 0);
    if (fd >= 0 && fstat(fd, &st) == 0)
        push(&w, fd, &st);
    else
        bh_close(fd);
    usage->hidden += fd < 0;
    while (w.len > 0) {
        if (enough(&w))
            usage->cut = true;
        if (!usage->cut && w.levels[w.len - 1].len > 0)
            descend(&w);
        else
            pop(&w);
    }
    bh_free(w.levels);
    bh_disk_seen_fini(&w.seen);
}
