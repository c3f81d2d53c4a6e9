/* SPDX-License-Identifier: Apache-2.0 */
/* One walk in order of names, and two ways to write an entry down (seal.h). */
#include "workers/rootfs/seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

#define DEPTH_MAX 400 /* one descriptor a level */
#define PIECE ((size_t)256 << 10)

struct walk {
    struct bh_hasher *hasher;
    char *piece; /* content is read into it; NULL: it is not read */
    const bool *stop;
    struct bh_buf path;
    unsigned depth;
    struct bh_seal seal;
};

static int dir_of(struct walk *w, int dir);

/* --- an entry --- */

static void add_number(struct walk *w, int64_t n)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    bh_hasher_add(w->hasher, bytes, sizeof(bytes));
}

/* With its length, so that no two lists of texts are the same bytes. */
static void add_bytes(struct walk *w, const void *data, size_t len)
{
    add_number(w, (int64_t)len);
    bh_hasher_add(w->hasher, data, len);
}

static int add_link(struct walk *w, int dir, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof(target));
    if (n >= 0)
        add_bytes(w, target, (size_t)n);
    return n < 0 ? -1 : 0;
}

/* The length comes last: it is known then. A file that is closed to us counts as it is. */
static int add_file(struct walk *w, int dir, const char *name)
{
    int64_t size = 0;
    BH_CLEANUP_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? 0 : -1;
    for (ssize_t n; (n = read(fd, w->piece, PIECE)) != 0;) {
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0)
            bh_hasher_add(w->hasher, w->piece, (size_t)n);
        size += n > 0 ? n : 0;
    }
    add_number(w, size);
    return 0;
}

static void add_metadata(struct walk *w, const struct stat *st)
{
    add_number(w, st->st_uid);
    add_number(w, st->st_gid);
    add_number(w, (int64_t)st->st_ino);
    add_number(w, st->st_mtim.tv_sec);
    add_number(w, st->st_mtim.tv_nsec);
    add_number(w, st->st_ctim.tv_sec);
    add_number(w, st->st_ctim.tv_nsec);
}

/* What an overlay reads of a directory: whether it hides what is below. */
static void add_opaque(struct walk *w, int fd)
{
    char value = 0;
    add_number(w, fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1 && value == 'y');
}

static int add_inside(struct walk *w, int dir, const char *name)
{
    BH_CLEANUP_FD int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? 0 : -1;
    if (w->depth == DEPTH_MAX) {
        errno = ELOOP;
        return -1;
    }
    add_opaque(w, fd);
    w->depth++;
    int rc = dir_of(w, fd);
    w->depth--;
    return rc;
}

static int add_entry(struct walk *w, int dir, const char *name)
{
    struct stat st;
    if (w->stop && __atomic_load_n(w->stop, __ATOMIC_RELAXED)) {
        errno = ECANCELED;
        return -1;
    }
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    bool file = S_ISREG(st.st_mode);
    add_bytes(w, w->path.data, w->path.len);
    add_number(w, st.st_mode);
    add_number(w, file ? st.st_size : 0);
    add_number(w, S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? (int64_t)st.st_rdev : 0);
    w->seal.entries++;
    w->seal.bytes += file ? st.st_size : 0;
    if (!w->piece)
        add_metadata(w, &st);
    if (S_ISLNK(st.st_mode) && add_link(w, dir, name) < 0)
        return -1;
    if (file && w->piece && add_file(w, dir, name) < 0)
        return -1;
    return S_ISDIR(st.st_mode) ? add_inside(w, dir, name) : 0;
}

/* --- a directory --- */

struct names {
    char **items;
    size_t n, cap;
};

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        bh_free(names->items[i]);
    bh_free(names->items);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(int dir, struct names *ret)
{
    DIR *d = bh_dir_stream(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!d)
        return -1;
    for (struct dirent *e; (errno = 0, e = readdir(d));) {
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
            *BH_PUSH(ret->items, ret->n, ret->cap) = bh_strdup(e->d_name);
    }
    int why = errno;
    (void)closedir(d);
    errno = why;
    if (ret->n > 1)
        qsort(ret->items, ret->n, sizeof(*ret->items), by_bytes);
    return why ? -1 : 0;
}

static int named_entry(struct walk *w, int dir, const char *name)
{
    size_t len = w->path.len;
    bh_buf_addf(&w->path, "/%s", name);
    int rc = add_entry(w, dir, name);
    if (rc == 0) {
        w->path.len = len;
        w->path.data[len] = '\0';
    }
    return rc; /* on failure the path says where */
}

static int dir_of(struct walk *w, int dir)
{
    struct names names = {0};
    int rc = read_names(dir, &names);
    for (size_t i = 0; i < names.n && rc == 0; i++)
        rc = named_entry(w, dir, names.items[i]);
    int why = errno;
    names_fini(&names);
    errno = why;
    return rc;
}

/* --- the trees --- */

static int walk_trees(struct walk *w, int dir)
{
    static const char *const trees[] = {"root", "usr", "opt"};
    for (size_t i = 0; i < BH_ARRAY_LEN(trees); i++) {
        struct stat st;
        if (fstatat(dir, trees[i], &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno != ENOENT)
                return -1;
        } else if (named_entry(w, dir, trees[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int walk(struct walk *w, int dir, struct bh_err **err)
{
    w->hasher = bh_hasher_new();
    w->path = BH_BUF_INIT;
    int rc = 0;
    if (walk_trees(w, dir) < 0) {
        BH_CLEANUP_BUF struct bh_buf where = BH_BUF_INIT;
        int why = errno;
        bh_escape_terminal(&where, w->path.data, w->path.len);
        rc = bh_err_set(err, why == ECANCELED ? BH_E_INTERRUPTED : BH_E_IO, why, "cannot read '%s'", where.data);
    }
    w->seal.digest = bh_hasher_end(w->hasher);
    bh_hasher_free(w->hasher);
    bh_buf_fini(&w->path);
    return rc;
}

int bh_seal_tree(int dir, struct bh_seal *ret, struct bh_err **err)
{
    struct walk w = {0};
    int rc = walk(&w, dir, err);
    *ret = w.seal;
    return rc;
}

int bh_seal_content(int dir, const bool *stop, struct bh_digest *ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *piece = bh_alloc(PIECE);
    struct walk w = {.piece = piece, .stop = stop};
    int rc = walk(&w, dir, err);
    *ret = w.seal.digest;
    return rc;
}
