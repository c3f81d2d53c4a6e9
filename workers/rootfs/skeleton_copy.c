/* SPDX-License-Identifier: Apache-2.0 */
/* The host's /etc is believed: its administrator is ours. It may still hold odd things, and those are left out. */
#include "workers/rootfs/skeleton_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

void bh_fingerprint_add(struct bh_fingerprint *f, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++)
        f->hash = (f->hash ^ p[i]) * UINT64_C(0x100000001b3);
}

/* Names of a directory in a fixed order; NULL where it cannot be read. */
struct names {
    char **items;
    size_t n, cap;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        bh_free(names->items[i]);
    bh_free(names->items);
}

static int read_names(int fd, struct names *ret)
{
    DIR *dir = bh_dir_stream(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    *ret = (struct names){0};
    if (!dir)
        return -1;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
            *BH_PUSH(ret->items, ret->n, ret->cap) = bh_strdup(e->d_name);
    }
    (void)closedir(dir);
    if (ret->n > 0)
        qsort(ret->items, ret->n, sizeof(char *), by_name);
    return 0;
}

static void add_below(struct bh_fingerprint *f, int dirfd, const char *name, int depth);

static void add_one(struct bh_fingerprint *f, int dirfd, const char *name, bool deep, int depth)
{
    struct stat st;
    char target[PATH_MAX];
    bh_fingerprint_add(f, name, strlen(name) + 1);
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    bh_fingerprint_add(f, &st.st_mode, sizeof(st.st_mode));
    if (S_ISREG(st.st_mode)) {
        bh_fingerprint_add(f, &st.st_size, sizeof(st.st_size));
        bh_fingerprint_add(f, &st.st_mtim, sizeof(st.st_mtim));
    } else if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(dirfd, name, target, sizeof(target));
        bh_fingerprint_add(f, target, n > 0 ? (size_t)n : 0);
    } else if (S_ISDIR(st.st_mode) && deep && depth < BH_COPY_DEPTH_MAX) {
        add_below(f, dirfd, name, depth + 1);
    }
}

static void add_below(struct bh_fingerprint *f, int dirfd, const char *name, int depth)
{
    struct names names;
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || read_names(fd, &names) < 0)
        return;
    for (size_t i = 0; i < names.n; i++)
        add_one(f, fd, names.items[i], true, depth);
    names_fini(&names);
}

void bh_fingerprint_add_tree(struct bh_fingerprint *f, int dirfd, const char *name, bool deep)
{
    add_one(f, dirfd, name, deep, 0);
}

/* --- copying --- */

static int own(int dirfd, const char *name, const struct bh_copy_to *c)
{
    return c->chown ? fchownat(dirfd, name, c->root, c->root, AT_SYMLINK_NOFOLLOW) : 0;
}

static int copy_link(int from, const char *name, int to, const char *to_name, const struct bh_copy_to *c)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return 0;
    target[n] = '\0';
    return symlinkat(target, to, to_name) < 0 ? -1 : own(to, to_name, c);
}

static int copy_file(int from, const char *name, int to, const char *to_name, const struct stat *st,
                     struct bh_copy_to *c)
{
    if (st->st_size > BH_COPY_FILE_MAX || st->st_size > c->bytes_left)
        return 0;
    BH_CLEANUP_FD int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0)
        return 0;
    BH_CLEANUP_FD int out = openat(to, to_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return -1;
    ssize_t n;
    while ((n = sendfile(out, in, NULL, 1 << 20)) > 0)
        c->bytes_left -= n;
    if (n < 0 || fchmod(out, st->st_mode & 0111 ? 0755 : 0644) < 0)
        return -1;
    return own(to, to_name, c);
}

static int copy_at(int from, const char *name, int to, const char *to_name, struct bh_copy_to *c, int depth);

static int copy_dir(int from, const char *name, int to, const char *to_name, struct bh_copy_to *c, int depth)
{
    struct names names;
    BH_CLEANUP_FD int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0 || depth == BH_COPY_DEPTH_MAX || read_names(in, &names) < 0)
        return 0;
    int rc = mkdirat(to, to_name, 0700);
    BH_CLEANUP_FD int out = rc == 0 ? openat(to, to_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    rc = out < 0 ? -1 : fchmod(out, 0755);
    for (size_t i = 0; rc == 0 && i < names.n; i++)
        rc = copy_at(in, names.items[i], out, names.items[i], c, depth + 1);
    int why = errno;
    names_fini(&names);
    errno = why;
    return rc < 0 ? -1 : own(to, to_name, c);
}

static int copy_at(int from, const char *name, int to, const char *to_name, struct bh_copy_to *c, int depth)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return copy_link(from, name, to, to_name, c);
    if (S_ISREG(st.st_mode))
        return copy_file(from, name, to, to_name, &st, c);
    return S_ISDIR(st.st_mode) ? copy_dir(from, name, to, to_name, c, depth) : 0;
}

int bh_copy_tree(int from, const char *name, int to, const char *to_name, struct bh_copy_to *c)
{
    return copy_at(from, name, to, to_name, c, 0);
}

int bh_copy_parents(int to, const char *path, const struct bh_copy_to *c)
{
    for (const char *slash = path; slash;) {
        slash = strchr(slash, '/');
        BH_CLEANUP_FREE char *prefix = slash ? bh_strndup(path, (size_t)(slash - path)) : bh_strdup(path);
        if (mkdirat(to, prefix, 0755) < 0 && errno != EEXIST)
            return -1;
        if (fchmodat(to, prefix, 0755, 0) < 0 || own(to, prefix, c) < 0)
            return -1;
        slash = slash ? slash + 1 : NULL;
    }
    return 0;
}
