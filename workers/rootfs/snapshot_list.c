/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in the snapshot store, for whoever clears up in it (snapshot.h). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/rootfs/manifest.h"

void bh_snapshot_items_free(struct bh_snapshot_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bh_free(items[i].key);
        bh_free(items[i].kind);
        bh_free(items[i].run);
        bh_free(items[i].agent);
    }
    bh_free(items);
}

static int open_store(const char *home)
{
    BH_CLEANUP_FREE char *path = bh_path_join(home, BH_SNAPSHOTS);
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Whether somebody holds it; when it was used last. */
static void look_at_lock(int dir, struct bh_snapshot_item *item)
{
    struct stat st;
    BH_CLEANUP_FD int fd = openat(dir, "lock", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    item->used.us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    item->in_use = flock(fd, LOCK_EX | LOCK_NB) < 0;
}

static void describe(int store, const char *name, struct bh_snapshot_item *item)
{
    struct bh_manifest m = {0};
    BH_CLEANUP_FD int dir = openat(store, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    item->key = bh_strdup(name);
    if (dir < 0)
        return;
    look_at_lock(dir, item);
    if (bh_manifest_read(dir, &m, NULL) != 0)
        return;
    item->good = bh_streq(m.s.key, name);
    item->kind = BH_TAKE(m.s.kind);
    item->run = BH_TAKE(m.s.run);
    item->agent = BH_TAKE(m.s.agent);
    item->made = m.s.made;
    item->bytes = m.s.seal.bytes;
    bh_manifest_fini(&m);
}

int bh_snapshots_list(const char *home, struct bh_snapshot_item **ret, size_t *ret_n, struct bh_err **err)
{
    struct bh_snapshot_item *items = NULL;
    size_t n = 0, cap = 0;
    BH_CLEANUP_FD int store = open_store(home);
    DIR *d = bh_dir_stream(store >= 0 ? openat(store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
    *ret = NULL;
    *ret_n = 0;
    if (!d && errno == ENOENT)
        return 0;
    if (!d)
        return bh_err_set(err, BH_E_IO, errno, "cannot read '%s/" BH_SNAPSHOTS "'", home);
    for (struct dirent *e; (e = readdir(d));) {
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
            describe(store, e->d_name, BH_PUSH(items, n, cap));
    }
    (void)closedir(d);
    *ret = items;
    *ret_n = n;
    return 0;
}

int bh_snapshot_remove(const char *home, const char *key, struct bh_err **err)
{
    BH_CLEANUP_FREE char *old = bh_asprintf(BH_SNAPSHOT_OLD "%s", key);
    BH_CLEANUP_FD int store = open_store(home);
    if (strchr(key, '/') || store < 0)
        return bh_err_set(err, BH_E_NOT_FOUND, store < 0 ? errno : 0, "there is no snapshot '%.12s'", key);
    BH_CLEANUP_FD int dir = openat(store, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    BH_CLEANUP_FD int lock = dir >= 0 ? openat(dir, "lock", O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0)
        return bh_err_set(err, BH_E_BUSY, 0, "snapshot '%.12s' is in use", key);
    bool hidden = bh_starts_with(key, BH_SNAPSHOT_OLD);
    if (!hidden && renameat2(store, key, store, old, RENAME_NOREPLACE) < 0 && errno != ENOENT)
        return bh_err_set(err, BH_E_IO, errno, "cannot remove snapshot '%.12s'", key);
    if (bh_rmtree_at(store, hidden ? key : old) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot remove snapshot '%.12s'", key);
    return 0;
}
