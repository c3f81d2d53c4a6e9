/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making durable what is pending: first the bytes, then the names, then the folders that hold the names. The order is
 * what makes a name a promise.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "artifact-bus/cas_priv.h"
#include "base/fd.h"
#include "base/mem.h"

enum { FSYNC_MAX = 4 }; /* more files or folders than this are synced by one syncfs */

static int sync_failed(const struct bh_cas *cas, int saved_errno, struct bh_err **err)
{
    return bh_err_set(err, BH_E_IO, saved_errno, "cannot sync the content store '%s'", cas->dir);
}

static int fsync_at(int dirfd, const char *name)
{
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 ? fsync(fd) : -1;
}

/*
 * One syncfs for many, fsync for few: syncfs also writes out whatever the agents on this file system have dirtied,
 * which one small output should not wait for.
 */
static int sync_data(struct bh_cas *cas, struct bh_err **err)
{
    size_t it = 0, n = 0;
    const char *name;
    void *value;
    while (bh_map_next(cas->pending, &it, &name, &value))
        n += ((struct bh_cas_pending *)value)->tmp != NULL;
    if (n > FSYNC_MAX)
        return syncfs(cas->tmp) == 0 ? 0 : sync_failed(cas, errno, err);
    it = 0;
    while (bh_map_next(cas->pending, &it, &name, &value)) {
        const struct bh_cas_pending *p = value;
        if (p->tmp && fsync_at(cas->tmp, p->tmp) != 0)
            return sync_failed(cas, errno, err);
    }
    return 0;
}

static int rename_noreplace(int from_dir, const char *from, int to_dir, const char *to)
{
    if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL) /* a file system without the flag */
        return -1;
    return linkat(from_dir, from, to_dir, to, 0) == 0 ? unlinkat(from_dir, from, 0) : -1;
}

static int rename_once(struct bh_cas *cas, const struct bh_cas_pending *p, const char *name)
{
    if (p->replace)
        return renameat(cas->tmp, p->tmp, cas->objects, name);
    int rc = rename_noreplace(cas->tmp, p->tmp, cas->objects, name);
    return rc != 0 && errno == EEXIST ? unlinkat(cas->tmp, p->tmp, 0) : rc; /* another process was first */
}

static int give_name(struct bh_cas *cas, struct bh_cas_pending *p, const char *name, bool *ret_new_folder,
                     struct bh_err **err)
{
    int rc = rename_once(cas, p, name);
    if (rc != 0 && errno == ENOENT) {
        char folder[3] = {name[0], name[1], '\0'};
        if (mkdirat(cas->objects, folder, BH_CAS_DIR_MODE) != 0 && errno != EEXIST)
            return bh_err_set(err, BH_E_IO, errno, "cannot make a folder in the content store '%s'", cas->dir);
        *ret_new_folder = true;
        rc = rename_once(cas, p, name);
    }
    if (rc != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot add an object to the content store '%s'", cas->dir);
    bh_free(BH_TAKE(p->tmp));
    return 0;
}

/* Names of the folders that have to be synced, "" the one above them. */
static int give_names(struct bh_cas *cas, struct bh_map *folders, struct bh_err **err)
{
    size_t it = 0;
    const char *name;
    void *value;
    bool new_folder = false;
    while (bh_map_next(cas->pending, &it, &name, &value)) {
        struct bh_cas_pending *p = value;
        char folder[3] = {name[0], name[1], '\0'};
        int rc = p->tmp ? give_name(cas, p, name, &new_folder, err) : 0;
        if (rc != 0)
            return rc;
        bh_map_put(folders, folder, cas);
    }
    if (new_folder)
        bh_map_put(folders, ".", cas);
    return 0;
}

static int sync_folders(struct bh_cas *cas, const struct bh_map *folders, struct bh_err **err)
{
    size_t it = 0;
    const char *name;
    void *value;
    if (bh_map_len(folders) > FSYNC_MAX)
        return syncfs(cas->objects) == 0 ? 0 : sync_failed(cas, errno, err);
    while (bh_map_next(folders, &it, &name, &value)) {
        if (fsync_at(cas->objects, name) != 0)
            return sync_failed(cas, errno, err);
    }
    return 0;
}

/* After a failed sync the kernel may call the pages clean, so a second try would lie: nothing pending is kept. */
int bh_cas_sync(struct bh_cas *cas, struct bh_err **err)
{
    BH_ASSERT(cas && cas->magic == BH_CAS_MAGIC);
    if (bh_map_len(cas->pending) == 0)
        return 0;
    BH_CLEANUP_MAP struct bh_map *folders = bh_map_new(NULL);
    int rc = sync_data(cas, err);
    if (rc == 0)
        rc = give_names(cas, folders, err);
    if (rc == 0)
        rc = sync_folders(cas, folders, err);
    bh_cas_drop_pending(cas);
    return rc;
}
