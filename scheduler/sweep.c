/* SPDX-License-Identifier: Apache-2.0 */
/* Removes by descriptor beneath the run's folder; never touches another run. */
#include "scheduler/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

void bh_sweep_ended_run(const struct bh_home *home, const char *run, bool succeeded)
{
    BH_CLEANUP_FREE char *path = bh_home_run_path(home, run, NULL);
    BH_CLEANUP_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    (void)bh_rmtree_at(dir, "tmp");
    bool kept_boxes = unlinkat(dir, "boxes", AT_REMOVEDIR) != 0 && errno == ENOTEMPTY;
    if (succeeded && !kept_boxes)
        (void)bh_rmtree_at(dir, "layers");
    else
        (void)unlinkat(dir, "layers", AT_REMOVEDIR);
}

void bh_sweep_unrecorded_run(const struct bh_home *home, const char *run)
{
    BH_CLEANUP_FREE char *path = bh_home_run_path(home, run, NULL);
    (void)bh_rmtree_at(AT_FDCWD, path);
}

#define ORPHAN_AGE_US (INT64_C(60) * 1000000)

/*
 * Who owns an orphan is asked by its lock; only a folder that has no file to lock yet may be about to get one, and is
 * left alone while it is young.
 */
static bool is_orphan(int runs, const char *name)
{
    struct stat st;
    BH_CLEANUP_FREE char *owner = bh_asprintf("%s/owner", name);
    BH_CLEANUP_FREE char *head = bh_asprintf("%s/head", name);
    if (!bh_run_id_valid(name) || faccessat(runs, head, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
        return false;
    if (faccessat(runs, owner, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    return fstatat(runs, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
           bh_wall_now().us - (int64_t)st.st_mtime * 1000000 > ORPHAN_AGE_US;
}

void bh_sweep_orphans(const struct bh_home *home)
{
    BH_CLEANUP_FREE char *path = bh_home_path(home, "runs");
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        BH_CLEANUP_FD int lock = -1;
        if (is_orphan(dirfd(dir), e->d_name) && bh_home_own_run(home, e->d_name, 0, &lock, NULL) == 0)
            (void)bh_rmtree_at(dirfd(dir), e->d_name);
    }
    closedir(dir);
}
