/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/rootfs/image_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

#define DEPTH_MAX 200 /* a descriptor a level */
#define CHUNK (256 * 1024)
#define PATH_BYTES 4000

struct walk {
    const char *shown;
    bh_tree_send_fn *send;
    void *arg;
    struct bh_hasher *hasher;
    struct bh_map *links; /* "dev:ino" of files with several names → the first one's path */
    size_t entries;
    bool stopped; /* whoever takes the stream wants no more */
    struct bh_err **err;
};

/* Never through a symlink, and an error of its own where another file system is mounted. */
static int open_at(int dirfd, const char *name, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    return (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
}

static int fail(struct walk *w, enum bh_code code, int error, const char *path, const char *what)
{
    BH_CLEANUP_BUF struct bh_buf name = BH_BUF_INIT;
    bh_escape_terminal(&name, path, strlen(path));
    int rc = bh_err_set(w->err, code, error, "'%s' in '%s' %s", name.data, w->shown, what);
    if (error == EACCES || error == EPERM)
        bh_err_hint(w->err, "who runs bulkhead must be able to read all of it: chmod or chown it, or copy the folder");
    else if (bh_starts_with(what, "is a device"))
        bh_err_hint(w->err, "remove it: a box has devices of its own in /dev");
    else if (bh_starts_with(what, "was changed"))
        bh_err_hint(w->err, "let nothing write there while a run starts");
    else if (code == BH_E_TOO_LARGE)
        bh_err_hint(w->err, "name a smaller folder: all that is in it is copied once");
    return rc;
}

static int send(struct walk *w, const void *data, size_t len)
{
    if (!w->send || w->send(w->arg, data, len) == 0)
        return 0;
    w->stopped = true;
    return -BH_E_IO;
}

/* All that an entry is but its content goes into the key, and which file it is and when it was last changed: another
 * directory never has the same key, nor this one after a change, though it be made to look the same. */
static int send_head(struct walk *w, enum bh_tree_type type, const struct stat *st, const char *path, const char *link)
{
    struct bh_tree_head head = {
        .type = type,
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .size = type == BH_TREE_FILE ? st->st_size : 0,
        .sec = st->st_mtim.tv_sec,
        .nsec = (int32_t)st->st_mtim.tv_nsec,
        .path_len = (uint32_t)strlen(path),
        .link_len = (uint32_t)strlen(link),
    };
    /* Names, sizes and times can be set to anything; these cannot, but by whoever may write the host's disk itself. */
    const uint64_t identity[] = {st->st_dev, st->st_ino, (uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec};
    bh_hasher_add(w->hasher, identity, sizeof(identity));
    bh_hasher_add(w->hasher, &head, sizeof(head));
    bh_hasher_add(w->hasher, path, head.path_len);
    bh_hasher_add(w->hasher, link, head.link_len);
    int rc = send(w, &head, sizeof(head));
    if (rc == 0)
        rc = send(w, path, head.path_len);
    return rc == 0 ? send(w, link, head.link_len) : rc;
}

static int send_content(struct walk *w, int fd, int64_t size, const char *path)
{
    BH_CLEANUP_FREE char *chunk = bh_alloc(CHUNK);
    for (int64_t left = size; left > 0;) {
        ssize_t n = read(fd, chunk, left < CHUNK ? (size_t)left : CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(w, BH_E_IO, errno, path, "cannot be read");
        if (n == 0)
            return fail(w, BH_E_INVALID, 0, path, "was changed while it was read");
        int rc = send(w, chunk, (size_t)n);
        if (rc != 0)
            return rc;
        left -= n;
    }
    return 0;
}

/* The path of the same file under an earlier name, or NULL. */
static const char *earlier_name(struct walk *w, const struct stat *st, const char *path)
{
    char key[64];
    if (st->st_nlink < 2)
        return NULL;
    (void)snprintf(key, sizeof(key), "%llu:%llu", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
    const char *first = bh_map_get(w->links, key);
    if (!first)
        bh_map_put(w->links, key, bh_strdup(path));
    return first;
}

static int walk_file(struct walk *w, int dirfd, const char *name, const char *path)
{
    struct stat st;
    BH_CLEANUP_FD int fd = open_at(dirfd, name, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail(w, BH_E_IO, errno, path, "cannot be opened");
    if (!S_ISREG(st.st_mode))
        return fail(w, BH_E_INVALID, 0, path, "was changed while it was read");
    const char *first = earlier_name(w, &st, path);
    if (first)
        return send_head(w, BH_TREE_HARDLINK, &st, path, first);
    int rc = send_head(w, BH_TREE_FILE, &st, path, "");
    return rc == 0 && w->send ? send_content(w, fd, st.st_size, path) : rc;
}

static int walk_link(struct walk *w, int dirfd, const char *name, const struct stat *st, const char *path)
{
    char target[4096];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    if (n < 0)
        return fail(w, BH_E_IO, errno, path, "cannot be read");
    target[n] = '\0';
    return send_head(w, BH_TREE_SYMLINK, st, path, target);
}

static int walk_inside(struct walk *w, int fd, const char *path, int depth);

/* Where another file system is mounted the directory is taken and what is in it is not. */
static int walk_dir(struct walk *w, int dirfd, const char *name, const struct stat *st, const char *path, int depth)
{
    int rc = send_head(w, BH_TREE_DIR, st, path, "");
    if (rc != 0)
        return rc;
    if (depth >= DEPTH_MAX)
        return fail(w, BH_E_TOO_LARGE, 0, path, "lies too deep");
    BH_CLEANUP_FD int fd = open_at(dirfd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0 && errno == EXDEV)
        return 0;
    if (fd < 0)
        return fail(w, BH_E_IO, errno, path, "cannot be opened");
    return walk_inside(w, fd, path, depth + 1);
}

static int walk_entry(struct walk *w, int dirfd, const char *name, const char *path, int depth)
{
    struct stat st;
    if (++w->entries > BH_TREE_MAX_ENTRIES)
        return bh_err_set(w->err, BH_E_TOO_LARGE, 0, "'%s' holds more than %d entries", w->shown, BH_TREE_MAX_ENTRIES);
    if (strlen(path) > PATH_BYTES)
        return fail(w, BH_E_TOO_LARGE, 0, path, "has too long a path");
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(w, BH_E_IO, errno, path, "cannot be looked at");
    if (S_ISDIR(st.st_mode))
        return walk_dir(w, dirfd, name, &st, path, depth);
    if (S_ISREG(st.st_mode))
        return walk_file(w, dirfd, name, path);
    if (S_ISLNK(st.st_mode))
        return walk_link(w, dirfd, name, &st, path);
    if (S_ISFIFO(st.st_mode))
        return send_head(w, BH_TREE_FIFO, &st, path, "");
    /* A socket is nothing without who listens on it, and in /dev boxes have devices of their own. */
    if (S_ISSOCK(st.st_mode) || bh_starts_with(path, "dev/"))
        return 0;
    return fail(w, BH_E_INVALID, 0, path, "is a device node");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(int fd, char ***ret, size_t *ret_n)
{
    size_t cap = 0;
    DIR *dir = bh_dir_stream(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return -1;
    for (struct dirent *e; *ret_n <= BH_TREE_MAX_ENTRIES && (e = readdir(dir));) {
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
            *BH_PUSH(*ret, *ret_n, cap) = bh_strdup(e->d_name);
    }
    (void)closedir(dir);
    if (*ret_n > 0)
        qsort(*ret, *ret_n, sizeof(char *), by_name);
    return 0;
}

static int walk_inside(struct walk *w, int fd, const char *path, int depth)
{
    char **names = NULL;
    size_t n = 0;
    int rc = read_names(fd, &names, &n) == 0 ? 0 : fail(w, BH_E_IO, errno, path, "cannot be listed");
    for (size_t i = 0; i < n; i++) {
        BH_CLEANUP_FREE char *below = *path ? bh_asprintf("%s/%s", path, names[i]) : bh_strdup(names[i]);
        if (rc == 0)
            rc = walk_entry(w, fd, names[i], below, depth);
        bh_free(names[i]);
    }
    bh_free(names);
    return rc;
}

int bh_tree_read(int dirfd, const char *shown, bh_tree_send_fn *send_fn, void *arg, struct bh_digest *ret_key,
                 struct bh_err **err)
{
    static const struct bh_tree_head end = {.type = BH_TREE_END};
    struct stat st;
    struct walk w = {.shown = shown, .send = send_fn, .arg = arg, .err = err};
    w.hasher = bh_hasher_new();
    w.links = bh_map_new(bh_free);
    int rc = send(&w, BH_TREE_MAGIC, sizeof(BH_TREE_MAGIC));
    bh_hasher_add(w.hasher, BH_TREE_MAGIC, sizeof(BH_TREE_MAGIC));
    if (rc == 0 && fstat(dirfd, &st) < 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot look at '%s'", shown);
    if (rc == 0)
        rc = send_head(&w, BH_TREE_DIR, &st, ".", "");
    if (rc == 0)
        rc = walk_inside(&w, dirfd, "", 0);
    if (rc == 0)
        rc = send(&w, &end, sizeof(end));
    *ret_key = bh_hasher_end(w.hasher);
    bh_hasher_free(w.hasher);
    bh_map_free(w.links);
    return w.stopped ? 0 : rc; /* why it wants no more whoever takes it says */
}
