/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/rootfs/usr_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/rootfs/base_stage.h"
#include "workers/rootfs/skeleton_priv.h"

#define FORMAT 1
#define DEPTH_MAX 64 /* two descriptors a level */
#define DEPTH_KEY 2

static const char *const trees[] = {"usr", "opt"};

static DIR *open_dir(int at, const char *name)
{
    return bh_dir_stream(openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

static bool is_dir(int at, const struct dirent *e, struct stat *st)
{
    if (bh_streq(e->d_name, ".") || bh_streq(e->d_name, "..") || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
        return false;
    return fstatat(at, e->d_name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st->st_mode);
}

/* The order of a directory stays while it does not change, and when it does the key may. */
static void add_key(struct bh_fingerprint *f, int at, const char *name, int depth)
{
    struct stat st;
    DIR *dir = open_dir(at, name);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!is_dir(dirfd(dir), e, &st))
            continue;
        bh_fingerprint_add(f, e->d_name, strlen(e->d_name) + 1);
        bh_fingerprint_add(f, &st.st_mode, sizeof(st.st_mode));
        bh_fingerprint_add(f, &st.st_mtim, sizeof(st.st_mtim));
        if (depth < DEPTH_KEY)
            add_key(f, dirfd(dir), e->d_name, depth + 1);
    }
    (void)closedir(dir);
}

static int own(int at, const char *name, const struct bh_box_owner *owner)
{
    if (owner->mode != BH_IDS_RANGE)
        return 0;
    return fchownat(at, name, owner->first_id, owner->first_id, AT_SYMLINK_NOFOLLOW);
}

/* What we cannot read stays the host's: an overlay could not show what is in it. */
static int copy_dirs(int from, int to, const char *name, const struct stat *st, const struct bh_box_owner *owner,
                     int depth)
{
    int rc = 0;
    DIR *dir = depth < DEPTH_MAX ? open_dir(from, name) : NULL;
    if (!dir)
        return 0;
    BH_CLEANUP_FD int inside = -1;
    if (mkdirat(to, name, 0700) < 0 || own(to, name, owner) < 0 ||
        fchmodat(to, name, (st->st_mode & 0777) | 0700, 0) < 0)
        rc = -1;
    else
        inside = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (struct dirent *e; rc == 0 && inside >= 0 && (e = readdir(dir));) {
        struct stat below;
        if (is_dir(dirfd(dir), e, &below) && below.st_dev == st->st_dev)
            rc = copy_dirs(dirfd(dir), inside, e->d_name, &below, owner, depth + 1);
    }
    int why = errno;
    (void)closedir(dir);
    errno = why;
    return inside < 0 ? -1 : rc;
}

static int fill(int host, int to, const struct bh_box_owner *owner)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(trees); i++) {
        struct stat st;
        bool there = fstatat(host, trees[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
        if (there ? copy_dirs(host, to, trees[i], &st, owner, 0) < 0
                  : mkdirat(to, trees[i], 0755) < 0 || own(to, trees[i], owner) < 0)
            return -1;
    }
    return fchmod(to, 0755);
}

static int make(int bases, int host, const char *name, const struct bh_box_owner *owner, struct bh_err **err)
{
    BH_CLEANUP_FREE char *staged = NULL;
    BH_CLEANUP_FD int to = bh_base_stage(bases, name, &staged);
    int rc = 0;
    if (to < 0 || fill(host, to, owner) < 0 || syncfs(to) < 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot make the base '%s'", name);
    else if (renameat2(bases, staged, bases, name, RENAME_NOREPLACE) < 0 && errno != EEXIST)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot put the base '%s' in place", name);
    if (staged)
        (void)bh_rmtree_at(bases, staged);
    return rc;
}

int bh_usr_dirs_ensure_from(const char *host_root, const char *home, const struct bh_box_owner *owner, char **ret_name,
                            struct bh_err **err)
{
    struct bh_fingerprint f = BH_FINGERPRINT_INIT;
    const uint32_t facts[] = {FORMAT, owner->mode, owner->first_id};
    BH_CLEANUP_FREE char *path = bh_path_join(home, "bases");
    BH_CLEANUP_FD int bases = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BH_CLEANUP_FD int host = open(host_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (bases < 0 || host < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", bases < 0 ? path : host_root);
    bh_fingerprint_add(&f, facts, sizeof(facts));
    for (size_t i = 0; i < BH_ARRAY_LEN(trees); i++)
        add_key(&f, host, trees[i], 1);
    BH_CLEANUP_FREE char *name = bh_asprintf("usrdirs-%016llx", (unsigned long long)f.hash);
    int rc = faccessat(bases, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : make(bases, host, name, owner, err);
    if (rc == 0)
        *ret_name = BH_TAKE(name);
    return rc;
}

int bh_usr_dirs_ensure(const char *home, const struct bh_box_owner *owner, char **ret_name, struct bh_err **err)
{
    return bh_usr_dirs_ensure_from("/", home, owner, ret_name, err);
}
