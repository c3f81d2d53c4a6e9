/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging a chain of overlay layers into one. Files are hard links, so the cost is that of the names. The rules are
 * those of overlayfs: the newest entry of a name wins; two directories merge unless the newer is opaque; a whiteout or
 * a file between two directories of one name cuts the merge, and the result must then hide the base's as well.
 *
 * The trees were written by agents: every step goes from a descriptor to a name in it, no symlink is followed, the
 * depth is bounded (ELOOP), and a directory that its owner closed to himself is opened up while it is read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/rootfs/layers.h"

#define OPAQUE "user.overlay.opaque"
#define SOURCES_MAX 64
#define DEPTH_MAX 400 /* three descriptors and half a kilobyte of stack a level, in a thread */

/* The directories of one name that show through each other, newest first. */
struct sources {
    int fds[SOURCES_MAX];
    mode_t modes[SOURCES_MAX];
    bool opened_up[SOURCES_MAX]; /* has other permissions than modes[] until it is closed */
    size_t n;
    unsigned depth;
    bool opaque; /* nothing below them shows */
    bool copies; /* files are copied, not linked */
};

static int merge(struct sources *from, int to);

static void close_sources(struct sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->opened_up[i])
            (void)fchmod(s->fds[i], s->modes[i]);
        bh_close(s->fds[i]);
    }
    s->n = 0;
}

static int open_dir(int dirfd, const char *name)
{
    return openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_opaque(int dir)
{
    char value = 0;
    return fgetxattr(dir, OPAQUE, &value, 1) == 1 && value == 'y';
}

/* Adds `name` of layer `dirfd`. 1: look further down; 0: what is below is hidden; -1: errno. */
static int add_source(struct sources *s, int dirfd, const char *name)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 1 : -1;
    if (!S_ISDIR(st.st_mode)) {
        s->opaque = true;
        return 0;
    }
    bool closed = (st.st_mode & S_IRWXU) != S_IRWXU && st.st_uid == geteuid();
    if (closed && fchmodat(dirfd, name, (st.st_mode & 07777) | S_IRWXU, 0) < 0) /* a directory, as was just seen */
        return -1;
    int fd = open_dir(dirfd, name);
    if (fd < 0)
        return -1;
    s->modes[s->n] = st.st_mode & 07777;
    s->opened_up[s->n] = closed;
    s->fds[s->n++] = fd;
    s->opaque = is_opaque(fd);
    return s->opaque ? 0 : 1;
}

static int copy_xattr(int from, int to, const char *name)
{
    char value[4096];
    ssize_t n = fgetxattr(from, name, value, sizeof(value));
    if (n < 0)
        return errno == ENODATA ? 0 : -1;
    return fsetxattr(to, name, value, (size_t)n, 0);
}

/* Attributes of a merged directory are those of the newest; only whether it is opaque is our own finding. */
static int copy_xattrs(int from, int to)
{
    char names[8192];
    ssize_t n = flistxattr(from, names, sizeof(names));
    if (n < 0)
        return errno == ENOTSUP ? 0 : -1;
    for (const char *name = names; name < names + n; name += strlen(name) + 1) {
        if (!bh_streq(name, OPAQUE) && copy_xattr(from, to, name) < 0)
            return -1;
    }
    return 0;
}

static int copy_attributes(int from, mode_t mode, int to)
{
    struct stat st;
    if (fstat(from, &st) < 0 || copy_xattrs(from, to) < 0)
        return -1;
    if (fchown(to, st.st_uid, st.st_gid) < 0 || fchmod(to, mode) < 0)
        return -1;
    return futimens(to, (const struct timespec[2]){st.st_atim, st.st_mtim});
}

static int merge_dir(const struct sources *above, size_t first, const char *name, int to)
{
    struct sources s = {.depth = above->depth + 1, .copies = above->copies};
    int rc = 1;
    if (s.depth > DEPTH_MAX) {
        errno = ELOOP;
        return -1;
    }
    for (size_t i = first; i < above->n && rc == 1; i++)
        rc = add_source(&s, above->fds[i], name);
    if (rc >= 0)
        rc = mkdirat(to, name, 0700);
    BH_CLEANUP_FD int dir = rc == 0 ? open_dir(to, name) : -1;
    if (dir < 0)
        rc = -1;
    else if ((rc = merge(&s, dir)) == 0)
        rc = copy_attributes(s.fds[0], s.modes[0], dir); /* last: making entries changes its time */
    int why = errno;
    close_sources(&s);
    errno = why;
    return rc;
}

/* A whiteout is a node that need not be shared: some file systems refuse links to it. */
static int take_entry(int from, const char *name, const struct stat *st, int to)
{
    if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0))
        return mknodat(to, name, S_IFCHR, makedev(0, 0));
    return linkat(from, name, to, name, 0);
}

/* --- copies, where a link would change what is said of the source --- */

static int copy_bytes(int from, int to)
{
    for (;;) {
        ssize_t n = sendfile(to, from, NULL, 1 << 30);
        if (n == 0 || (n < 0 && errno != EINTR))
            return (int)n;
    }
}

static int copy_file(int from, const char *name, const struct stat *st, int to)
{
    BH_CLEANUP_FD int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    BH_CLEANUP_FD int out = in >= 0 ? openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (out < 0 || copy_bytes(in, out) < 0)
        return -1;
    return copy_attributes(in, st->st_mode & 07777, out);
}

static int copy_symlink(int from, const char *name, int to)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return -1;
    target[n] = '\0';
    return symlinkat(target, to, name);
}

static int copy_node(const char *name, const struct stat *st, int to)
{
    if (mknodat(to, name, st->st_mode & (S_IFMT | 07777), st->st_rdev) < 0)
        return -1;
    return fchmodat(to, name, st->st_mode & 07777, 0);
}

static int copy_entry(int from, const char *name, const struct stat *st, int to)
{
    if (S_ISREG(st->st_mode))
        return copy_file(from, name, st, to);
    if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0))
        return take_entry(from, name, st, to);
    int rc = S_ISLNK(st->st_mode) ? copy_symlink(from, name, to) : copy_node(name, st, to);
    if (rc < 0 || fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    return utimensat(to, name, (const struct timespec[2]){st->st_atim, st->st_mtim}, AT_SYMLINK_NOFOLLOW);
}

/* --- the merge --- */

static int merge_entry(const struct sources *from, size_t i, const char *name, int to)
{
    struct stat st;
    if (fstatat(from->fds[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        return merge_dir(from, i, name, to);
    return (from->copies ? copy_entry : take_entry)(from->fds[i], name, &st, to);
}

/* All names of layer i that no newer one has. */
static int merge_layer(const struct sources *from, size_t i, struct bh_map *seen, int to)
{
    int rc = 0;
    DIR *dir = bh_dir_stream(open_dir(from->fds[i], "."));
    if (!dir)
        return -1;
    for (struct dirent *e; rc == 0 && (errno = 0, e = readdir(dir));) {
        if (bh_streq(e->d_name, ".") || bh_streq(e->d_name, ".."))
            continue;
        if (bh_map_put(seen, e->d_name, NULL))
            rc = merge_entry(from, i, e->d_name, to);
    }
    int why = errno;
    (void)closedir(dir);
    errno = why;
    return rc == 0 && why ? -1 : rc;
}

static int merge(struct sources *from, int to)
{
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    for (size_t i = 0; i < from->n; i++) {
        if (merge_layer(from, i, seen, to) < 0)
            return -1;
    }
    return from->opaque ? fsetxattr(to, OPAQUE, "y", 1, 0) : 0;
}

static int merge_tree(int layers, const struct bh_layer_chain *chain, const char *tree, bool copies, int to)
{
    struct sources tops = {.copies = copies};
    int rc = 0;
    bool any = false;
    for (size_t i = 0; i < chain->n && i < SOURCES_MAX && rc == 0; i++) {
        struct stat st;
        int fd = open_dir(layers, chain->names[i]);
        rc = fd < 0 ? -1 : 0;
        if (fd >= 0) {
            tops.fds[tops.n++] = fd;
            any = any || (fstatat(fd, tree, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode));
        }
    }
    if (rc == 0 && any)
        rc = merge_dir(&tops, 0, tree, to);
    int why = errno;
    close_sources(&tops);
    errno = why;
    return rc;
}

static int merge_trees(int layers, const struct bh_layer_chain *chain, const char *half, bool copies)
{
    static const char *const trees[] = {"root", "usr", "opt"};
    if (mkdirat(layers, half, 0755) < 0)
        return -1;
    BH_CLEANUP_FD int to = open_dir(layers, half);
    for (size_t i = 0; to >= 0 && i < BH_ARRAY_LEN(trees); i++) {
        if (merge_tree(layers, chain, trees[i], copies, to) < 0)
            return -1;
    }
    return to >= 0 && fchmod(to, 0755) == 0 ? syncfs(to) : -1;
}

static int squash(int layers, const struct bh_layer_chain *chain, const char *name, bool copies, struct bh_err **err)
{
    BH_CLEANUP_FREE char *half = bh_asprintf(BH_LAYER_HALF "%s", name);
    int rc = 0;
    if (merge_trees(layers, chain, half, copies) < 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot squash %zu layers into '%s'", chain->n, name);
    else if (renameat2(layers, half, layers, name, RENAME_NOREPLACE) < 0 || fsync(layers) < 0)
        rc = bh_err_set(err, errno == EEXIST ? BH_E_EXISTS : BH_E_IO, errno, "cannot put layer '%s' in place", name);
    if (rc != 0)
        (void)bh_rmtree_at(layers, half);
    return rc;
}

int bh_layer_squash(int layers, const struct bh_layer_chain *chain, const char *name, struct bh_err **err)
{
    return squash(layers, chain, name, false, err);
}

int bh_layer_squash_copy(int layers, const struct bh_layer_chain *chain, const char *name, struct bh_err **err)
{
    return squash(layers, chain, name, true, err);
}
