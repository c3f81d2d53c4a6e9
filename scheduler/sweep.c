/* SPDX-License-Identifier: Apache-2.0 */
/* Removes by descriptor beneath the run's folder; never touches another run. */
#include "scheduler/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/cgroup/cgroup.h"

void bh_sweep_ended_run(const struct bh_home *home, const char *run, bool succeeded)
{
    BH_CLEANUP_FREE char *rel = bh_path_join("runs", run);
    BH_CLEANUP_FD int dir = bh_home_open_folder(home, rel);
    if (dir < 0)
        return;
    (void)bh_rmtree_at(dir, "tmp");
    bool kept_boxes = unlinkat(dir, "boxes", AT_REMOVEDIR) != 0 && errno == ENOTEMPTY;
    if (succeeded && !kept_boxes)
        (void)bh_rmtree_whole_at(dir, "layers"); /* one without what it stands on could not be read */
    else
        (void)unlinkat(dir, "layers", AT_REMOVEDIR);
}

void bh_sweep_unrecorded_run(const struct bh_home *home, const char *run)
{
    BH_CLEANUP_FD int runs = bh_home_open_folder(home, "runs");
    if (runs >= 0)
        (void)bh_rmtree_at(runs, run);
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

void bh_sweep_orphans(const struct bh_home *home, const struct bh_reclaim *how)
{
    DIR *dir = bh_home_list(home, "runs");
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        BH_CLEANUP_FD int lock = -1;
        if (!is_orphan(dirfd(dir), e->d_name))
            continue;
        bool free_to_take = how->dry_run ? !bh_home_run_is_owned(home, e->d_name)
                                         : bh_home_own_run(home, e->d_name, 0, &lock, NULL) == 0;
        if (free_to_take)
            (void)bh_reclaim_one(how, "run", "runs", dirfd(dir), e->d_name);
    }
    (void)closedir(dir);
}

/* Who makes one locks it first, and looks whether it still has a name then. */
void bh_sweep_half_bases(const struct bh_home *home, const struct bh_reclaim *how)
{
    DIR *dir = bh_home_list(home, "bases");
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (!bh_starts_with(e->d_name, BH_TEMPORARY_PREFIX))
            continue;
        BH_CLEANUP_FD int lock = openat(dirfd(dir), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
            (void)bh_reclaim_one(how, "base", "bases", dirfd(dir), e->d_name);
    }
    (void)closedir(dir);
}

void bh_sweep_at_start(const struct bh_home *home)
{
    const struct bh_reclaim how = {0};
    bh_sweep_orphans(home, &how);
    bh_sweep_half_bases(home, &how);
    (void)bh_cgroup_reclaim(NULL);
}

/* Of a run that succeeded the layers may be gone already. */
const char **bh_sweep_layers_in_use(const struct bh_home *home, const struct bh_live_run *run, size_t *ret_n)
{
    size_t n_boxes = bh_live_run_plan(run)->n_boxes, n = 0;
    const char **names = bh_calloc(n_boxes + 1, sizeof(*names));
    for (size_t i = 0; i < n_boxes; i++) {
        const char *name = bh_engine_box(bh_live_run_engine(run), i)->layer.s;
        BH_CLEANUP_FREE char *rel = bh_path_join("layers", name);
        BH_CLEANUP_FREE char *path = bh_home_run_path(home, bh_live_run_id(run), rel);
        if (name[0] && access(path, F_OK) == 0)
            names[n++] = name;
    }
    *ret_n = n;
    return names;
}
