/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The snapshot store (snapshot.h). The manifest is written into the tree before the tree gets its name, so that a
 * snapshot without one was never whole.
 */
#include "workers/rootfs/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "base/text.h"
#include "workers/rootfs/layers.h"
#include "workers/rootfs/manifest.h"

#define TRIES 4

void bh_snapshot_fini(struct bh_snapshot *s)
{
    bh_free(s->key);
    bh_free(s->kind);
    bh_free(s->run);
    bh_free(s->agent);
    bh_free(s->base);
    bh_free(s->digest);
    for (size_t i = 0; i < s->n_stack; i++)
        bh_free(s->stack[i]);
    bh_free(s->stack);
    *s = (struct bh_snapshot){0};
}

int bh_snapshots_open(const char *home, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_path_join(home, BH_SNAPSHOTS);
    if (mkdir(path, 0711) < 0 && errno != EEXIST)
        return bh_err_set(err, BH_E_IO, errno, "cannot make '%s'", path);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0711) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", path);
    return BH_TAKE_FD(fd);
}

static int open_snapshot(int store, const char *key)
{
    if (!bh_path_is_clean(key) || strchr(key, '/')) {
        errno = EINVAL;
        return -1;
    }
    return openat(store, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- whether it may be used --- */

/* Twelve digits tell snapshots apart for people. */
static int is_bad(struct bh_err **err, const char *key, const char *why)
{
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "snapshot '%.12s' %s", key, why);
}

static int read_manifest(int dir, const char *key, struct bh_manifest *ret, struct bh_err **err)
{
    BH_CLEANUP_ERR struct bh_err *why = NULL;
    if (bh_manifest_read(dir, ret, &why) != 0)
        return is_bad(err, key, "has no manifest that can be read");
    if (!bh_streq(ret->s.key, key)) {
        bh_manifest_fini(ret);
        return is_bad(err, key, "has the manifest of another");
    }
    return 0;
}

static int check_seal(int dir, const struct bh_manifest *m, struct bh_err **err)
{
    struct bh_seal now;
    BH_CLEANUP_FREE char *text = NULL;
    BH_CLEANUP_ERR struct bh_err *why = NULL;
    if (bh_seal_tree(dir, &now, &why) != 0) {
        text = bh_asprintf("cannot be read any more (%s)", bh_err_message(why));
        return is_bad(err, m->s.key, text);
    }
    if (bh_digest_equal(&now.digest, &m->s.seal.digest))
        return 0;
    int64_t more = now.entries - m->s.seal.entries;
    if (more != 0)
        text = bh_asprintf("was changed on disk: it has %lld entries and had %lld", (long long)now.entries,
                           (long long)m->s.seal.entries);
    return is_bad(err, m->s.key, text ? text : "was changed on disk");
}

/* Of its content and of all that it stands on. */
static int digest_of(int store, int dir, const struct bh_manifest *m, const bool *stop, char **ret, struct bh_err **err)
{
    struct bh_digest content;
    char text[BH_DIGEST_TEXT];
    BH_CLEANUP_FREE char *below = NULL;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    int rc = m->s.n_stack > 1 ? bh_snapshot_read(store, m->s.stack[1], stop, &below, err) : 0;
    if (rc == 0)
        rc = bh_seal_content(dir, stop, &content, err);
    if (rc != 0)
        return rc;
    bh_buf_addf(&out, "bulkhead snapshot 1\n%s\n%s\n%s\n", m->s.base, below ? below : "-",
                bh_digest_format(&content, text));
    const struct bh_digest digest = bh_digest_of(out.data, out.len);
    *ret = bh_strdup(bh_digest_format(&digest, text));
    return 0;
}

/*
 * Nothing is synced when a snapshot is made. What the host had not written when it stopped may be missing without a
 * trace in what the file system says of it, so the first one who finds a snapshot after that reads it all.
 */
static int check_boot(int store, int dir, struct bh_manifest *m, struct bh_err **err)
{
    char boot[BH_PROCESS_BOOT];
    BH_CLEANUP_FREE char *now = NULL;
    bh_process_boot(boot);
    if (bh_streq(m->boot, boot))
        return 0;
    if (!m->s.digest)
        return is_bad(err, m->s.key, "was not finished when the host stopped");
    int rc = digest_of(store, dir, m, NULL, &now, err);
    if (rc != 0)
        return rc;
    if (!bh_streq(now, m->s.digest))
        return is_bad(err, m->s.key, "holds something else since the host stopped");
    memcpy(m->boot, boot, sizeof(m->boot));
    return bh_manifest_write(dir, m, err);
}

/* One, without what it stands on. */
static int verify_one(int store, const char *key, struct bh_manifest *ret, struct bh_err **err)
{
    BH_CLEANUP_FD int dir = open_snapshot(store, key);
    if (dir < 0 && errno == ENOENT)
        return bh_err_set(err, BH_E_NOT_FOUND, 0, "snapshot '%.12s' is gone", key);
    if (dir < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open snapshot '%.12s'", key);
    int rc = read_manifest(dir, key, ret, err);
    if (rc != 0)
        return rc;
    rc = check_seal(dir, ret, err);
    if (rc == 0)
        rc = check_boot(store, dir, ret, err);
    if (rc != 0)
        bh_manifest_fini(ret);
    return rc;
}

/* Each of `below` as the manifest of the one above notes them. */
static int verify_below(int store, const struct bh_manifest *top, struct bh_err **err)
{
    for (size_t i = 1; i < top->s.n_stack; i++) {
        struct bh_manifest m = {0};
        BH_CLEANUP_ERR struct bh_err *why = NULL;
        if (verify_one(store, top->s.stack[i], &m, &why) != 0)
            return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "snapshot '%.12s' cannot be used: %s", top->s.key,
                              bh_err_message(why));
        bool same = bh_digest_equal(&m.s.seal.digest, &top->below[i - 1].seal);
        bh_manifest_fini(&m);
        if (!same)
            return is_bad(err, top->s.key, "stands on one that was made anew since");
    }
    return 0;
}

static int check_recipe(const struct bh_manifest *m, const struct bh_snapshot_spec *spec, struct bh_err **err)
{
    if (m->owner != spec->owner || m->uid != geteuid())
        return is_bad(err, m->s.key, "was made by another user, or with other ids");
    bool same = m->n_below == spec->n_below;
    for (size_t i = 0; same && i < spec->n_below; i++)
        same = bh_streq(m->below[i].key, spec->below[i]);
    return same ? 0 : is_bad(err, m->s.key, "stands on something else");
}

int bh_snapshot_find(int store, const struct bh_snapshot_spec *spec, struct bh_snapshot *ret, struct bh_err **err)
{
    struct bh_manifest m = {0};
    int rc = verify_one(store, spec->key, &m, err);
    if (rc != 0)
        return rc;
    rc = check_recipe(&m, spec, err);
    if (rc == 0)
        rc = verify_below(store, &m, err);
    if (rc == 0)
        *ret = bh_manifest_take(&m);
    bh_manifest_fini(&m);
    return rc;
}

static int verify_stack(int store, const struct bh_manifest *top, const char *const *keys, size_t n,
                        struct bh_err **err)
{
    bool same = top->s.n_stack == n;
    for (size_t i = 0; same && i < n; i++)
        same = bh_streq(top->s.stack[i], keys[i]);
    if (!same)
        return is_bad(err, top->s.key, "stands on something else");
    return verify_below(store, top, err);
}

int bh_snapshots_verify(int store, const char *const *keys, size_t n, char **ret_digest, struct bh_err **err)
{
    struct bh_manifest top = {0};
    *ret_digest = NULL;
    if (n == 0)
        return 0;
    int rc = verify_one(store, keys[0], &top, err);
    if (rc != 0)
        return rc;
    rc = verify_stack(store, &top, keys, n, err);
    if (rc == 0)
        *ret_digest = BH_TAKE(top.s.digest);
    bh_manifest_fini(&top);
    return rc;
}

/* --- making one --- */

static int describe(int dir, int store, const struct bh_snapshot_spec *spec, struct bh_manifest *m, struct bh_err **err)
{
    size_t cap = 0, below_cap = 0;
    m->s.key = bh_strdup(spec->key);
    m->s.kind = bh_strdup(spec->kind);
    m->s.run = bh_strdup(spec->run);
    m->s.agent = bh_strdup(spec->agent);
    m->s.base = bh_strdup(spec->base);
    m->s.made = bh_wall_now();
    m->owner = spec->owner;
    m->uid = geteuid();
    bh_process_boot(m->boot);
    *BH_PUSH(m->s.stack, m->s.n_stack, cap) = bh_strdup(spec->key);
    for (size_t i = 0; i < spec->n_below; i++) {
        struct bh_manifest below = {0};
        BH_CLEANUP_FD int fd = open_snapshot(store, spec->below[i]);
        int rc = fd < 0 ? bh_err_set(err, BH_E_NOT_FOUND, 0, "snapshot '%.12s' is gone", spec->below[i])
                        : read_manifest(fd, spec->below[i], &below, err);
        if (rc != 0)
            return rc;
        *BH_PUSH(m->s.stack, m->s.n_stack, cap) = bh_strdup(spec->below[i]);
        *BH_PUSH(m->below, m->n_below, below_cap) =
            (struct bh_manifest_below){.key = bh_strdup(spec->below[i]), .seal = below.s.seal.digest};
        bh_manifest_fini(&below);
    }
    return bh_seal_tree(dir, &m->s.seal, err);
}

static int make_lock(int dir)
{
    int fd = openat(dir, "lock", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    bh_close(fd);
    return fd < 0 ? -1 : 0;
}

/* A tree that nobody wrote to is no part of it. */
static void drop_empty(int dir)
{
    static const char *const trees[] = {"usr", "opt", "workspace"};
    for (size_t i = 0; i < BH_ARRAY_LEN(trees); i++)
        (void)unlinkat(dir, trees[i], AT_REMOVEDIR);
}

static void odd_name(char *name, size_t size, const char *key)
{
    unsigned long long salt = 0;
    (void)!getrandom(&salt, sizeof(salt), 0);
    (void)snprintf(name, size, BH_SNAPSHOT_OLD "%.64s-%08llx", key, salt & 0xffffffffu);
}

/* Everything that it stands on, and it itself, in one that stands on the base. The sources stay as they are. */
static int squash(int dirfd, const char *upper, int store, const struct bh_snapshot_spec *spec, char **ret_name,
                  struct bh_err **err)
{
    char top[128], all[128];
    size_t cap = 0;
    struct bh_layer_chain chain = {0};
    odd_name(top, sizeof(top), spec->key);
    odd_name(all, sizeof(all), spec->key);
    if (renameat2(dirfd, upper, store, top, RENAME_NOREPLACE) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot move snapshot '%.12s'", spec->key);
    *BH_PUSH(chain.names, chain.n, cap) = bh_strdup(top);
    for (size_t i = 0; i < spec->n_below; i++)
        *BH_PUSH(chain.names, chain.n, cap) = bh_strdup(spec->below[i]);
    int rc = bh_layer_squash_copy(store, &chain, all, err);
    bh_layer_chain_fini(&chain);
    (void)bh_rmtree_at(store, top);
    if (rc == 0)
        *ret_name = bh_strdup(all);
    return rc;
}

/* 1: there is one of that name. */
static int put_in_place(int dirfd, const char *from, int store, const char *key, struct bh_err **err)
{
    if (renameat2(dirfd, from, store, key, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EEXIST ? 1 : bh_err_set(err, BH_E_IO, errno, "cannot put snapshot '%.12s' in place", key);
}

/* Gives the one that somebody else has made meanwhile, or puts it aside. 1: there is none any more. */
static int meet_other(int store, const struct bh_snapshot_spec *spec, struct bh_snapshot *ret, struct bh_err **err)
{
    BH_CLEANUP_ERR struct bh_err *why = NULL;
    int rc = bh_snapshot_find(store, spec, ret, &why);
    if (rc == 0)
        return 0;
    if (rc != -BH_E_STORE_CORRUPT && rc != -BH_E_NOT_FOUND) {
        *err = BH_TAKE(why);
        return rc;
    }
    rc = bh_snapshot_retire(store, spec->key, err);
    return rc == 0 ? 1 : rc;
}

static int put(int dirfd, const char *tree, int store, const struct bh_snapshot_spec *spec, struct bh_manifest *m,
               struct bh_err **err)
{
    BH_CLEANUP_FD int dir = openat(dirfd, tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open what is to become snapshot '%.12s'", spec->key);
    drop_empty(dir);
    int rc = describe(dir, store, spec, m, err);
    if (rc != 0)
        return rc;
    if (dirfd == store) { /* squashed */
        while (m->s.n_stack > 1)
            bh_free(m->s.stack[--m->s.n_stack]);
    }
    if (make_lock(dir) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot write into snapshot '%.12s'", spec->key);
    return bh_manifest_write(dir, m, err);
}

static int put_tree(int dirfd, const char *tree, int store, const struct bh_snapshot_spec *spec,
                    struct bh_snapshot *ret, struct bh_err **err)
{
    struct bh_manifest m = {0};
    int rc = put(dirfd, tree, store, spec, &m, err);
    for (int i = 0; rc == 0 && i < TRIES; i++) {
        rc = put_in_place(dirfd, tree, store, spec->key, err);
        if (rc == 0)
            *ret = bh_manifest_take(&m);
        if (rc <= 0)
            break;
        rc = meet_other(store, spec, ret, err);
        if (rc <= 0)
            break;
        rc = i + 1 < TRIES ? 0 : bh_err_set(err, BH_E_BUSY, 0, "snapshot '%.12s' is made by others", spec->key);
    }
    bh_manifest_fini(&m);
    return rc;
}

int bh_snapshot_put(int dirfd, const char *upper, int store, const struct bh_snapshot_spec *spec,
                    struct bh_snapshot *ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *all = NULL;
    if (spec->n_below + 1 <= BH_SNAPSHOTS_MAX)
        return put_tree(dirfd, upper, store, spec, ret, err);
    int rc = squash(dirfd, upper, store, spec, &all, err);
    if (rc == 0)
        rc = put_tree(store, all, store, spec, ret, err);
    if (all)
        (void)bh_rmtree_at(store, all); /* where another one was there */
    return rc;
}

/* --- reading it all --- */

int bh_snapshot_read(int store, const char *key, const bool *stop, char **ret_digest, struct bh_err **err)
{
    struct bh_manifest m = {0};
    BH_CLEANUP_FD int dir = open_snapshot(store, key);
    if (dir < 0)
        return bh_err_set(err, BH_E_NOT_FOUND, 0, "snapshot '%.12s' is gone", key);
    int rc = read_manifest(dir, key, &m, err);
    if (rc == 0 && !m.s.digest) {
        rc = digest_of(store, dir, &m, stop, &m.s.digest, err);
        if (rc == 0)
            rc = bh_manifest_write(dir, &m, err);
    }
    if (rc == 0)
        *ret_digest = BH_TAKE(m.s.digest);
    bh_manifest_fini(&m);
    return rc;
}

/* --- use and removal --- */

int bh_snapshot_use(int store, const char *key)
{
    BH_CLEANUP_FD int dir = open_snapshot(store, key);
    BH_CLEANUP_FD int fd = dir >= 0 ? openat(dir, "lock", O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
        return -1;
    (void)futimens(fd, NULL);
    return BH_TAKE_FD(fd);
}

/* 0: nobody uses it, and while the descriptor is open nobody will; 1: somebody does. One without a lock is no
 * snapshot, and nobody can use it. */
static int claim(int dir, int *ret_fd)
{
    *ret_fd = openat(dir, "lock", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd >= 0 && flock(*ret_fd, LOCK_EX | LOCK_NB) < 0 ? 1 : 0;
}

int bh_snapshot_retire(int store, const char *key, struct bh_err **err)
{
    char old[128];
    odd_name(old, sizeof(old), key);
    BH_CLEANUP_FD int dir = open_snapshot(store, key);
    if (renameat2(store, key, store, old, RENAME_NOREPLACE) < 0)
        return errno == ENOENT ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot put snapshot '%.12s' aside", key);
    BH_CLEANUP_FD int lock = -1;
    if (dir < 0 || claim(dir, &lock) == 0)
        (void)bh_rmtree_at(store, old); /* else whoever clears up removes it */
    return 0;
}
