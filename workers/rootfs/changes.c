/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk. A place in a stack is a list of descriptors, one for each layer that has a directory there and is not
 * hidden by a whiteout, an opaque directory or a file above it: the rules of an overlay, by hand, because whoever looks
 * need not be able to mount anything.
 */
#include "workers/rootfs/changes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

#define DEPTH_MAX 128 /* each level holds a descriptor for each layer */
#define LINK_MAX_BYTES 4096

static const char *const trees[] = {"root", "usr", "opt"};
enum { N_TREES = 3 };

/* One directory of a stack; -1 where a layer has none or may not be seen. */
struct place {
    int *fds;
    const bool *own;
    size_t n;
};

struct bh_view {
    struct {
        int *fds;
        size_t cap;
    } of[N_TREES];
    bool *own;
    size_t n, own_cap;
};

/* --- stacks --- */

struct bh_view *bh_view_new(void)
{
    return bh_alloc(sizeof(struct bh_view));
}

void bh_view_free(struct bh_view *v)
{
    if (!v)
        return;
    for (size_t t = 0; t < N_TREES; t++) {
        for (size_t i = 0; i < v->n; i++)
            bh_close(v->of[t].fds[i]);
        bh_free(v->of[t].fds);
    }
    bh_free(v->own);
    bh_free(v);
}

static int open_dir(int dirfd, const char *path)
{
    return openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void add_layer(struct bh_view *v, const int fds[static N_TREES], bool own)
{
    for (size_t t = 0; t < N_TREES; t++) {
        v->of[t].fds = bh_grow(v->of[t].fds, v->n + 1, &v->of[t].cap, sizeof(int));
        v->of[t].fds[v->n] = fds[t];
    }
    v->own = bh_grow(v->own, v->n + 1, &v->own_cap, sizeof(bool));
    v->own[v->n++] = own;
}

int bh_view_add(struct bh_view *v, int dirfd, const char *path, bool own)
{
    int fds[N_TREES];
    BH_CLEANUP_FD int layer = open_dir(dirfd, path);
    if (layer < 0)
        return -1;
    for (size_t t = 0; t < N_TREES; t++)
        fds[t] = open_dir(layer, trees[t]);
    add_layer(v, fds, own);
    return 0;
}

int bh_view_add_tree(struct bh_view *v, const char *tree, int dirfd, const char *path)
{
    int fds[N_TREES], fd = open_dir(dirfd, path);
    if (fd < 0)
        return -1;
    for (size_t t = 0; t < N_TREES; t++)
        fds[t] = bh_streq(trees[t], tree) ? fd : -1;
    add_layer(v, fds, false);
    return 0;
}

/* --- the rules of an overlay --- */

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool is_opaque(int dir)
{
    char value[4];
    return fgetxattr(dir, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

/* What the stack shows under a name. */
static void look_up(const struct place *p, const char *name, struct bh_change_side *ret)
{
    *ret = (struct bh_change_side){.dir = -1, .name = name};
    for (size_t i = 0; i < p->n; i++) {
        if (p->fds[i] < 0 || fstatat(p->fds[i], name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        ret->there = !is_whiteout(&ret->st);
        ret->dir = p->fds[i];
        return;
    }
}

/* Directories of that name, down to the first thing that hides what is below it. */
static void descend(const struct place *p, const char *name, struct place *ret)
{
    *ret = (struct place){.fds = bh_calloc(p->n + 1, sizeof(int)), .own = p->own, .n = p->n};
    bool hidden = false;
    for (size_t i = 0; i < p->n; i++) {
        struct stat st;
        ret->fds[i] = -1;
        if (hidden || p->fds[i] < 0 || fstatat(p->fds[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode))
            ret->fds[i] = open_dir(p->fds[i], name);
        hidden = !S_ISDIR(st.st_mode) || (ret->fds[i] >= 0 && is_opaque(ret->fds[i]));
    }
}

static void leave(struct place *p)
{
    for (size_t i = 0; i < p->n; i++)
        bh_close(p->fds[i]);
    bh_free(p->fds);
}

static const struct place nowhere = {0};

static bool is_anywhere(const struct place *p)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->fds[i] >= 0)
            return true;
    }
    return false;
}

static bool all_own(const struct place *p)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->fds[i] >= 0 && !p->own[i])
            return false;
    }
    return true;
}

/* --- names --- */

static int add_names(int dirfd, struct bh_map *names)
{
    DIR *dir = bh_dir_stream(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return -1;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, "..") && !bh_map_has(names, e->d_name))
            (void)bh_map_put(names, e->d_name, NULL);
    }
    (void)closedir(dir);
    return 0;
}

/* An own directory that is opaque hides what another stack may still show. */
static bool some_opaque(const struct place *p)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->own[i] && p->fds[i] >= 0 && is_opaque(p->fds[i]))
            return true;
    }
    return false;
}

static int names_of(const struct place *p, bool all, struct bh_map *names)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->fds[i] >= 0 && (all || p->own[i]) && add_names(p->fds[i], names) < 0)
            return -1;
    }
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char **sorted(const struct bh_map *names)
{
    const char **list = bh_calloc(bh_map_len(names) + 1, sizeof(*list));
    size_t n = 0;
    void *unused;
    for (size_t it = 0; bh_map_next(names, &it, &list[n], &unused);)
        n++;
    qsort(list, n, sizeof(*list), by_bytes);
    list[n] = NULL;
    return list;
}

/* --- comparing --- */

int bh_change_open(const struct bh_change_side *side)
{
    struct stat st;
    BH_CLEANUP_FD int fd = openat(side->dir, side->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    return BH_TAKE_FD(fd);
}

char *bh_change_link(const struct bh_change_side *side)
{
    char target[LINK_MAX_BYTES];
    ssize_t n = readlinkat(side->dir, side->name, target, sizeof(target));
    return n < 0 ? NULL : bh_strndup(target, (size_t)n);
}

static bool same_bytes(const struct bh_change_side *a, const struct bh_change_side *b)
{
    static char one[64 << 10], other[64 << 10];
    BH_CLEANUP_FD int x = bh_change_open(a);
    BH_CLEANUP_FD int y = bh_change_open(b);
    if (x < 0 || y < 0)
        return false;
    for (;;) {
        ssize_t n = read(x, one, sizeof(one)), have = 0;
        while (n > 0 && have < n) {
            ssize_t m = read(y, other + have, (size_t)(n - have));
            if (m <= 0)
                return false;
            have += m;
        }
        if (n <= 0)
            return n == 0 && read(y, other, 1) == 0;
        if (memcmp(one, other, (size_t)n) != 0)
            return false;
    }
}

static bool same_link(const struct bh_change_side *a, const struct bh_change_side *b)
{
    BH_CLEANUP_FREE char *one = bh_change_link(a);
    BH_CLEANUP_FREE char *other = bh_change_link(b);
    return one && bh_streq(one, other);
}

/* Owners are left out: they have another number in every layer. */
static bool same(const struct bh_change_side *a, const struct bh_change_side *b)
{
    if (a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino)
        return true;
    if ((a->st.st_mode & S_IFMT) != (b->st.st_mode & S_IFMT))
        return false;
    if (S_ISLNK(a->st.st_mode))
        return same_link(a, b);
    if ((a->st.st_mode & 07777) != (b->st.st_mode & 07777))
        return false;
    return !S_ISREG(a->st.st_mode) || (a->st.st_size == b->st.st_size && same_bytes(a, b));
}

/* --- the walk --- */

struct walk {
    bh_change_fn *fn;
    void *arg;
    struct bh_buf path;
    size_t depth, told;
    int error;
};

/* What bulkhead puts there: places to mount on, and what each agent is given as its own. */
static bool is_ours(const char *path, const struct bh_change_side *side)
{
    static const char *const mounts[] = {"/proc", "/dev", "/sys"};
    for (size_t i = 0; i < BH_ARRAY_LEN(mounts); i++) {
        if (bh_streq(path, mounts[i]))
            return S_ISDIR(side->st.st_mode);
    }
    if (bh_streq(path, "/workspace/in"))
        return S_ISDIR(side->st.st_mode);
    return bh_starts_with(path, "/workspace/") && bh_path_is_agents_own(path + strlen("/workspace/")) &&
           S_ISREG(side->st.st_mode);
}

static int tell(struct walk *w, enum bh_change_kind kind, const struct bh_change_side *before,
                const struct bh_change_side *after)
{
    const struct bh_change change = {.kind = kind, .path = w->path.data, .before = *before, .after = *after};
    w->told++;
    return w->fn(w->arg, &change);
}

static int walk_dir(struct walk *w, const struct place *a, const struct place *b);

/* A directory that only one side has: file by file where it is its own, as one where it is what both started from. */
static int one_sided(struct walk *w, enum bh_change_kind kind, const struct place *in,
                     const struct bh_change_side *before, const struct bh_change_side *after)
{
    bool added = kind == BH_CHANGE_ADDED;
    size_t told = w->told;
    int rc = 0;
    if (all_own(in))
        rc = walk_dir(w, added ? &nowhere : in, added ? in : &nowhere);
    if (rc != 0 || w->told > told)
        return rc;
    bh_buf_addc(&w->path, '/');
    return tell(w, kind, before, after);
}

/* The path itself, as that of a directory. */
static int tell_dir(struct walk *w, const struct bh_change_side *before, const struct bh_change_side *after)
{
    size_t len = w->path.len;
    bh_buf_addc(&w->path, '/');
    int rc = tell(w, BH_CHANGE_CHANGED, before, after);
    w->path.len = len;
    w->path.data[len] = '\0';
    return rc;
}

/* Something else has become a directory. */
static int became_dir(struct walk *w, const struct place *in, const struct bh_change_side *before,
                      const struct bh_change_side *after)
{
    int rc = tell_dir(w, before, after);
    return rc == 0 && all_own(in) ? walk_dir(w, &nowhere, in) : rc;
}

static int both_dirs(struct walk *w, const struct place *a, const struct place *b, const struct bh_change_side *before,
                     const struct bh_change_side *after)
{
    bool modes = (before->st.st_mode & 07777) != (after->st.st_mode & 07777);
    int rc = modes ? tell_dir(w, before, after) : 0;
    return rc == 0 ? walk_dir(w, a, b) : rc;
}

/* Whoever nests deeper must not keep the rest from being seen. */
static int tell_unread(struct walk *w, const struct bh_change_side *before, const struct bh_change_side *after)
{
    const enum bh_change_kind kind = !before->there ? BH_CHANGE_ADDED
                                     : after->there ? BH_CHANGE_CHANGED
                                                    : BH_CHANGE_REMOVED;
    bh_buf_addc(&w->path, '/');
    w->told++;
    return w->fn(w->arg, &(const struct bh_change){kind, w->path.data, *before, *after, .unread = true});
}

static int compare_dirs(struct walk *w, const struct place *a, const struct place *b,
                        const struct bh_change_side *before, const struct bh_change_side *after)
{
    bool was = before->there && S_ISDIR(before->st.st_mode), is = after->there && S_ISDIR(after->st.st_mode);
    struct place in_a = {0}, in_b = {0};
    int rc;
    if (w->depth >= DEPTH_MAX)
        return tell_unread(w, before, after);
    if (was)
        descend(a, before->name, &in_a);
    if (is)
        descend(b, after->name, &in_b);
    if (was && is)
        rc = both_dirs(w, &in_a, &in_b, before, after);
    else if (was && after->there) /* what it held is gone with it */
        rc = tell(w, BH_CHANGE_CHANGED, before, after);
    else if (was)
        rc = one_sided(w, BH_CHANGE_REMOVED, &in_a, before, after);
    else if (before->there)
        rc = became_dir(w, &in_b, before, after);
    else
        rc = one_sided(w, BH_CHANGE_ADDED, &in_b, before, after);
    leave(&in_a);
    leave(&in_b);
    return rc;
}

static int compare_name(struct walk *w, const struct place *a, const struct place *b, const char *name)
{
    struct bh_change_side before, after;
    look_up(a, name, &before);
    look_up(b, name, &after);
    if (!before.there && !after.there)
        return 0;
    if (is_ours(w->path.data, after.there ? &after : &before))
        return 0;
    bool dir = (before.there && S_ISDIR(before.st.st_mode)) || (after.there && S_ISDIR(after.st.st_mode));
    if (dir)
        return compare_dirs(w, a, b, &before, &after);
    if (!before.there)
        return tell(w, BH_CHANGE_ADDED, &before, &after);
    if (!after.there)
        return tell(w, BH_CHANGE_REMOVED, &before, &after);
    return same(&before, &after) ? 0 : tell(w, BH_CHANGE_CHANGED, &before, &after);
}

/* -1: w->error is an errno; else what fn said. */
static int walk_dir(struct walk *w, const struct place *a, const struct place *b)
{
    BH_CLEANUP_MAP struct bh_map *names = bh_map_new(NULL);
    bool all = some_opaque(a) || some_opaque(b);
    if (!is_anywhere(a) && !is_anywhere(b))
        return 0;
    if (names_of(a, all, names) < 0 || names_of(b, all, names) < 0) {
        w->error = errno;
        return -1;
    }
    w->depth++;
    BH_CLEANUP_FREE const char **list = sorted(names);
    size_t len = w->path.len;
    int rc = 0;
    for (size_t i = 0; list[i] && rc == 0; i++) {
        bh_buf_addf(&w->path, "/%s", list[i]);
        rc = compare_name(w, a, b, list[i]);
        w->path.len = len;
        w->path.data[len] = '\0';
    }
    w->depth--;
    return rc;
}

int bh_changes_walk(const struct bh_view *before, const struct bh_view *after, bh_change_fn *fn, void *arg,
                    struct bh_err **err)
{
    struct walk w = {.fn = fn, .arg = arg, .path = BH_BUF_INIT};
    int rc = 0;
    for (size_t t = 0; t < N_TREES && rc == 0; t++) {
        const struct place a = {before->of[t].fds, before->own, before->n};
        const struct place b = {after->of[t].fds, after->own, after->n};
        bh_buf_clear(&w.path);
        if (t > 0)
            bh_buf_addf(&w.path, "/%s", trees[t]);
        rc = walk_dir(&w, &a, &b);
    }
    bh_buf_fini(&w.path);
    if (w.error)
        return bh_err_set(err, BH_E_IO, w.error, "cannot read what the box holds");
    return rc;
}
