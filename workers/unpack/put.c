/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry at a time into the folder. Names are bytes that an enemy chose: each is cleaned here, its folder is opened
 * beneath the root through no symlink, and what is made is made by its last segment in that folder, new. So nothing is
 * ever written through something that the archive made before.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/unpack/unpack.h"

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define AUFS ".wh..wh." /* what aufs kept for itself */
#define PATH_BYTES 4000
#define ID_MAX_INSIDE (BH_RANGE_COUNT - 1)
#define ID_NOBODY 65534
#define BLOCK 4096

void bh_putter_init(struct bh_putter *p, int root, enum bh_unpack_kind kind, bool ids, int64_t max_entries,
                    int64_t max_bytes)
{
    *p = (struct bh_putter){.root = root,
                            .kind = kind,
                            .ids = ids && kind != BH_UNPACK_FILES,
                            .max_entries = max_entries,
                            .max_bytes = max_bytes,
                            .parent = -1};
}

static void forget_parent(struct bh_putter *p)
{
    bh_close(p->parent);
    p->parent = -1;
    bh_free(BH_TAKE(p->parent_path));
}

void bh_putter_fini(struct bh_putter *p)
{
    forget_parent(p);
    for (size_t i = 0; i < p->n_times; i++)
        bh_free(p->times[i].path);
    bh_free(p->times);
    p->times = NULL;
    p->n_times = 0;
}

/* --- faults --- */

static int fault(struct bh_putter *p, enum bh_unpack_blame blame, int error)
{
    if (p->fault.blame != BH_UNPACK_DONE)
        return 0;
    p->fault.blame = blame;
    p->fault.error = error;
    if (p->now)
        (void)snprintf(p->fault.entry, sizeof(p->fault.entry), "%s", p->now);
    return 1;
}

int bh_put_bad(struct bh_putter *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (fault(p, BH_UNPACK_BAD_ARCHIVE, 0))
        (void)vsnprintf(p->fault.why, sizeof(p->fault.why), fmt, ap);
    va_end(ap);
    return -1;
}

int bh_put_host(struct bh_putter *p, const char *what)
{
    int why = errno;
    if (fault(p, BH_UNPACK_HOST, why ? why : EIO))
        (void)snprintf(p->fault.why, sizeof(p->fault.why), "%s", what);
    return -1;
}

/* --- names --- */

/* Segments without "." and empty ones; "" is the root itself. */
static int clean(struct bh_putter *p, const char *path, struct bh_buf *out)
{
    if (path[0] == '\0')
        return bh_put_bad(p, "it has no name");
    if (path[0] == '/' && path[1] != '\0')
        return bh_put_bad(p, "its path is absolute");
    for (const char *s = path; *s;) {
        size_t n = strcspn(s, "/");
        if (n == 2 && memcmp(s, "..", 2) == 0)
            return bh_put_bad(p, "its path has '..' in it");
        if (n > NAME_MAX)
            return bh_put_bad(p, "a name in its path is longer than %d bytes", NAME_MAX);
        if (n > 0 && !(n == 1 && *s == '.')) {
            if (out->len > 0)
                bh_buf_addc(out, '/');
            bh_buf_add(out, s, n);
        }
        s += n;
        s += *s == '/';
    }
    return out->len <= PATH_BYTES ? 0 : bh_put_bad(p, "its path is longer than %d bytes", PATH_BYTES);
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int set_opaque(struct bh_putter *p, int parent, const char *name)
{
    BH_CLEANUP_FD int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fsetxattr(dir, "user.overlay.opaque", "y", 1, 0) < 0)
        return bh_put_host(p, "mark a directory as opaque");
    return 0;
}

/* A directory that an entry lies in and that the archive has not named (yet). */
static int make_parent(struct bh_putter *p, int at, const char *name)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISDIR(st.st_mode))
            return 0;
        if (S_ISLNK(st.st_mode))
            return bh_put_bad(p, "it would be written through '%s', which is a symbolic link", name);
        if (!is_whiteout(&st))
            return bh_put_bad(p, "it lies in '%s', which is no directory", name);
        if (unlinkat(at, name, 0) < 0 || mkdirat(at, name, 0755) < 0)
            return bh_put_host(p, "make a directory");
        return set_opaque(p, at, name);
    }
    if (mkdirat(at, name, 0755) < 0)
        return bh_put_host(p, "make a directory");
    return ++p->entries <= p->max_entries
               ? 0
               : bh_put_bad(p, "there are more than %lld entries", (long long)p->max_entries);
}

/* Segment by segment: for what is not there yet, and to say what stands in the way. */
static int walk_parent(struct bh_putter *p, const char *path)
{
    int fd = fcntl(p->root, F_DUPFD_CLOEXEC, 3);
    for (const char *s = path; *s && fd >= 0;) {
        size_t n = strcspn(s, "/");
        BH_CLEANUP_FREE char *name = bh_strndup(s, n);
        int next = make_parent(p, fd, name) == 0 ? bh_open_beneath(fd, name, O_PATH | O_DIRECTORY, 0) : -1;
        bh_close(fd);
        fd = next;
        s += n;
        s += *s == '/';
    }
    return fd >= 0 ? fd : bh_put_host(p, "open a directory");
}

/* The folder of a clean path, made where it is missing; *ret_name is the last segment. Borrowed until the next call. */
static int open_parent(struct bh_putter *p, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    BH_CLEANUP_FREE char *folder = slash ? bh_strndup(path, (size_t)(slash - path)) : bh_strdup("");
    if (p->parent >= 0 && bh_streq(p->parent_path, folder))
        return p->parent;
    forget_parent(p);
    int fd = bh_open_beneath(p->root, *folder ? folder : ".", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        fd = walk_parent(p, folder);
    if (fd < 0)
        return -1;
    p->parent = fd;
    p->parent_path = BH_TAKE(folder);
    return fd;
}

/* --- what an entry has besides its content --- */

static int owner_of(struct bh_putter *p, int64_t id, const char *what, uid_t *ret)
{
    *ret = 0;
    if (id >= 0 && id <= ID_MAX_INSIDE)
        *ret = (uid_t)id;
    else if (p->kind == BH_UNPACK_TREE) /* a directory of this host, which has ids that boxes have not */
        *ret = ID_NOBODY;
    else
        return bh_put_bad(p, "it belongs to %s %lld, and a box has none above %u", what, (long long)id,
                          (unsigned)ID_MAX_INSIDE);
    return 0;
}

/* Set-user-id bits mean nothing in a box (no_new_privs, nosuid) and have no business on the host's disk. */
static mode_t mode_of(const struct bh_putter *p, const struct bh_put_entry *e)
{
    if (p->kind == BH_UNPACK_FILES)
        return e->type == BH_PUT_DIR ? 0755 : 0644;
    return e->mode & (e->type == BH_PUT_DIR ? 03777 : 01777);
}

static int set_owner(struct bh_putter *p, int parent, const char *name, const struct bh_put_entry *e)
{
    uid_t uid, gid;
    if (!p->ids)
        return 0;
    if (owner_of(p, e->uid, "user", &uid) < 0 || owner_of(p, e->gid, "group", &gid) < 0)
        return -1;
    if (uid == 0 && gid == 0) /* as it is made; of what was there before by another owner's hand */
        return fchownat(parent, name, 0, 0, AT_SYMLINK_NOFOLLOW) < 0 ? bh_put_host(p, "set an owner") : 0;
    return fchownat(parent, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ? bh_put_host(p, "set an owner") : 0;
}

static int set_time(struct bh_putter *p, int parent, const char *name, int64_t sec, int32_t nsec)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = sec, .tv_nsec = nsec}};
    /* A time that the file system cannot hold is no reason to refuse an image. */
    if (utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0 && errno != EINVAL && errno != EOVERFLOW)
        return bh_put_host(p, "set a time");
    return 0;
}

/* --- kinds of entries --- */

/* Whatever the archive put there before gives way. A whiteout that did leaves its mark to the caller. */
static int clear(struct bh_putter *p, int parent, const char *name, bool *ret_was_whiteout)
{
    struct stat st;
    *ret_was_whiteout = false;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : bh_put_host(p, "look at an entry");
    *ret_was_whiteout = is_whiteout(&st);
    if (!S_ISDIR(st.st_mode))
        return unlinkat(parent, name, 0) < 0 ? bh_put_host(p, "replace an entry") : 0;
    return bh_rmtree_at(parent, name) < 0 ? bh_put_host(p, "replace a directory") : 0;
}

static int put_dir(struct bh_putter *p, int parent, const char *name, const char *path, const struct bh_put_entry *e)
{
    struct stat st;
    bool opaque = false;
    bool there = fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    if (!there && (clear(p, parent, name, &opaque) < 0 || mkdirat(parent, name, 0700) < 0))
        return bh_put_host(p, "make a directory");
    if (opaque && set_opaque(p, parent, name) < 0)
        return -1;
    if (set_owner(p, parent, name, e) < 0)
        return -1;
    if (fchmodat(parent, name, mode_of(p, e), 0) < 0)
        return bh_put_host(p, "set a mode");
    if (p->kind != BH_UNPACK_FILES)
        *BH_PUSH(p->times, p->n_times, p->times_cap) =
            (struct bh_dir_time){.path = bh_strdup(path), .sec = e->sec, .nsec = e->nsec};
    return 0;
}

/* The root's own entry. */
static int put_root(struct bh_putter *p, const struct bh_put_entry *e)
{
    if (e->type != BH_PUT_DIR)
        return bh_put_bad(p, "it would stand in the place of the root directory");
    if (p->kind == BH_UNPACK_FILES)
        return 0;
    if (set_owner(p, p->root, ".", e) < 0)
        return -1;
    return fchmodat(p->root, ".", mode_of(p, e), 0) < 0 ? bh_put_host(p, "set a mode") : 0;
}

static int put_file(struct bh_putter *p, int parent, const char *name, int *ret_fd)
{
    bool ignored;
    if (clear(p, parent, name, &ignored) < 0)
        return -1;
    *ret_fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *ret_fd >= 0 ? 0 : bh_put_host(p, "make a file");
}

static int put_symlink(struct bh_putter *p, int parent, const char *name, const struct bh_put_entry *e)
{
    bool ignored;
    if (!e->link || !e->link[0] || strlen(e->link) >= PATH_MAX)
        return bh_put_bad(p, "it is a symbolic link to %s",
                          e->link && e->link[0] ? "a path that is too long" : "nothing");
    if (clear(p, parent, name, &ignored) < 0)
        return -1;
    if (symlinkat(e->link, parent, name) < 0)
        return bh_put_host(p, "make a symbolic link");
    return set_owner(p, parent, name, e) < 0 ? -1 : set_time(p, parent, name, e->sec, e->nsec);
}

/* What a hard link may point to: something of this very archive that is there already and is no directory. */
static int open_link_target(struct bh_putter *p, const char *link, const char **ret_name)
{
    BH_CLEANUP_BUF struct bh_buf path = BH_BUF_INIT;
    struct stat st;
    if (!link || clean(p, link, &path) < 0)
        return -1;
    const char *slash = strrchr(path.data, '/');
    BH_CLEANUP_FREE char *folder = slash ? bh_strndup(path.data, (size_t)(slash - path.data)) : bh_strdup(".");
    *ret_name = link + strlen(link);
    while (*ret_name > link && (*ret_name)[-1] != '/')
        (*ret_name)--;
    int fd = bh_open_beneath(p->root, folder, O_PATH | O_DIRECTORY, 0);
    if (fd < 0 && errno == ELOOP)
        return bh_put_bad(p, "it is a hard link to '%s', which is reached through a symbolic link", link);
    if (fd >= 0 && fstatat(fd, *ret_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) && !is_whiteout(&st))
        return fd;
    bool directory = fd >= 0 && fstatat(fd, *ret_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    bh_close(fd);
    if (directory)
        return bh_put_bad(p, "it is a hard link to the directory '%s'", link);
    return bh_put_bad(p,
                      "it is a hard link to '%s', which this layer does not hold (a file of a lower layer cannot be "
                      "linked to)",
                      link);
}

static int put_hardlink(struct bh_putter *p, int parent, const char *name, const struct bh_put_entry *e)
{
    const char *target_name;
    struct stat a, b;
    bool ignored;
    BH_CLEANUP_FD int target = open_link_target(p, e->link, &target_name);
    if (target < 0)
        return -1;
    if (fstatat(target, target_name, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
        fstatat(parent, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
        return 0; /* to itself, or said twice */
    if (clear(p, parent, name, &ignored) < 0)
        return -1;
    return linkat(target, target_name, parent, name, 0) < 0 ? bh_put_host(p, "make a hard link") : 0;
}

static int put_fifo(struct bh_putter *p, int parent, const char *name, const struct bh_put_entry *e)
{
    bool ignored;
    if (clear(p, parent, name, &ignored) < 0)
        return -1;
    if (mkfifoat(parent, name, 0600) < 0)
        return bh_put_host(p, "make a FIFO");
    if (set_owner(p, parent, name, e) < 0)
        return -1;
    if (fchmodat(parent, name, mode_of(p, e), 0) < 0)
        return bh_put_host(p, "set a mode");
    return set_time(p, parent, name, e->sec, e->nsec);
}

/* In /dev nobody ever sees one: a box has devices of its own there. */
static int put_device(struct bh_putter *p, const char *path)
{
    return bh_starts_with(path, "dev/") ? 0 : bh_put_bad(p, "it is a device node");
}

/* --- whiteouts --- */

static int put_whiteout(struct bh_putter *p, int parent, const char *name)
{
    struct stat st;
    if (bh_streq(name, OPAQUE))
        return set_opaque(p, parent, ".");
    if (bh_starts_with(name, AUFS))
        return 0;
    name += strlen(WHITEOUT);
    if (name[0] == '\0' || bh_streq(name, ".") || bh_streq(name, ".."))
        return bh_put_bad(p, "it is a whiteout of nothing");
    /* It is about the layers below; what this one has by that name stays. */
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISDIR(st.st_mode) ? set_opaque(p, parent, name) : 0;
    return mknodat(parent, name, S_IFCHR, makedev(0, 0)) < 0 ? bh_put_host(p, "make a whiteout") : 0;
}

/* --- the calls --- */

static int put_at(struct bh_putter *p, const struct bh_put_entry *e, const char *path, int *ret_fd)
{
    const char *name;
    if (e->type == BH_PUT_DEVICE)
        return put_device(p, path);
    int parent = open_parent(p, path, &name);
    if (parent < 0)
        return -1;
    if (p->kind == BH_UNPACK_LAYER && bh_starts_with(name, WHITEOUT))
        return put_whiteout(p, parent, name);
    switch (e->type) {
    case BH_PUT_FILE:
        return put_file(p, parent, name, ret_fd);
    case BH_PUT_DIR:
        return put_dir(p, parent, name, path, e);
    case BH_PUT_SYMLINK:
        return put_symlink(p, parent, name, e);
    case BH_PUT_HARDLINK:
        return put_hardlink(p, parent, name, e);
    default:
        return p->kind == BH_UNPACK_FILES ? 0 : put_fifo(p, parent, name, e);
    }
}

int bh_put_begin(struct bh_putter *p, const struct bh_put_entry *e, int *ret_fd)
{
    BH_CLEANUP_BUF struct bh_buf path = BH_BUF_INIT;
    *ret_fd = -1;
    p->now = e->path;
    if (++p->entries > p->max_entries)
        return bh_put_bad(p, "there are more than %lld entries", (long long)p->max_entries);
    if (bh_put_room(p) < 0 || clean(p, e->path, &path) < 0)
        return -1;
    return path.len == 0 ? put_root(p, e) : put_at(p, e, path.data, ret_fd);
}

static bool all_zero(const char *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

/* Up to the next border of a block of the file. */
static size_t block_at(int64_t offset, size_t len)
{
    size_t n = (size_t)(BLOCK - offset % BLOCK);
    return n < len ? n : len;
}

/* How much from here on is alike: whole blocks of zeros, or none that is one. */
static size_t alike(const char *at, int64_t offset, size_t len, bool *ret_hole)
{
    size_t n = block_at(offset, len);
    *ret_hole = n == BLOCK && all_zero(at, n);
    while (n < len) {
        size_t next = block_at(offset + (int64_t)n, len - n);
        if ((next == BLOCK && all_zero(at + n, next)) != *ret_hole)
            break;
        n += next;
    }
    return n;
}

/* Blocks of zeros stay holes, which the file is new enough to have everywhere; a hole at its end bh_put_end makes. */
int bh_put_data(struct bh_putter *p, int fd, int64_t offset, const void *data, size_t len)
{
    const char *at = data;
    p->bytes += (int64_t)len;
    if (p->bytes > p->max_bytes)
        return bh_put_bad(p, "there are more than %lld bytes", (long long)p->max_bytes);
    if (bh_put_room(p) < 0)
        return -1;
    while (len > 0) {
        bool hole;
        size_t part = alike(at, offset, len, &hole);
        ssize_t n = hole ? (ssize_t)part : pwrite(fd, at, part, offset);
        if (n < 0 && errno != EINTR)
            return bh_put_host(p, "write a file");
        if (n > 0) {
            at += n;
            offset += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* The owner first: a change of it clears bits of the mode. */
static int end_file(struct bh_putter *p, const struct bh_put_entry *e, int fd)
{
    uid_t uid = 0, gid = 0;
    struct stat st;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = e->sec, .tv_nsec = e->nsec}};
    if (e->size > p->max_bytes)
        return bh_put_bad(p, "it has more than %lld bytes", (long long)p->max_bytes);
    if (fstat(fd, &st) < 0 || (st.st_size < e->size && ftruncate(fd, e->size) < 0)) /* a hole at its end */
        return bh_put_host(p, "write a file");
    if (p->ids && (owner_of(p, e->uid, "user", &uid) < 0 || owner_of(p, e->gid, "group", &gid) < 0))
        return -1;
    if ((uid != 0 || gid != 0) && fchown(fd, uid, gid) < 0)
        return bh_put_host(p, "set an owner");
    if (fchmod(fd, mode_of(p, e)) < 0)
        return bh_put_host(p, "set a mode");
    if (futimens(fd, times) < 0 && errno != EINVAL && errno != EOVERFLOW)
        return bh_put_host(p, "set a time");
    return 0;
}

int bh_put_end(struct bh_putter *p, const struct bh_put_entry *e, int fd)
{
    if (fd < 0)
        return 0;
    int rc = end_file(p, e, fd);
    bh_close(fd);
    return rc;
}

/* Directories may have gone since, or be something else. */
int bh_put_finish(struct bh_putter *p)
{
    p->now = NULL;
    for (size_t i = p->n_times; i > 0; i--) {
        const struct bh_dir_time *t = &p->times[i - 1];
        BH_CLEANUP_FD int dir = bh_open_beneath(p->root, t->path, O_RDONLY | O_DIRECTORY, 0);
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = t->sec, .tv_nsec = t->nsec}};
        if (dir >= 0 && futimens(dir, times) < 0 && errno != EINVAL && errno != EOVERFLOW)
            return bh_put_host(p, "set a time");
    }
    return 0;
}
