/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/gc_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/dispatch/live_run.h"
#include "scheduler/shell/fork.h"
#include "scheduler/store/store.h"
#include "scheduler/sweep.h"
#include "workers/cgroup/cgroup.h"

/* A file of that prefix is in the hands of its writer for milliseconds. */
#define TEMPORARY_AGE_US (INT64_C(60) * 1000000)

void bh_gc_error(const struct bh_gc_work *g, struct bh_err *err)
{
    if (err)
        bh_errlist_add(g->errors, err);
}

/* --- runs --- */

/* Below a run's folder: the path is told from the home. */
static void found_in_run(void *arg, const struct bh_reclaimed *what)
{
    const struct bh_gc_work *g = arg;
    BH_CLEANUP_FREE char *path = bh_asprintf("runs/%s/%s", g->run, what->path);
    struct bh_reclaimed whole = *what;
    whole.path = path;
    if (g->how->found)
        g->how->found(g->how->arg, &whole);
}

static bool has_layers(const struct bh_gc_work *g)
{
    BH_CLEANUP_FREE char *path = bh_home_run_path(g->home, g->run, "layers");
    struct stat st;
    return stat(path, &st) == 0 && st.st_nlink > 2;
}

/* A run that succeeded needs its layers for kept boxes alone, whatever of them; any other may be resumed. */
static int clear_run(struct bh_gc_work *g, bool succeeded, struct bh_err **err)
{
    const struct bh_reclaim how = {.dry_run = g->how->dry_run, .found = found_in_run, .arg = g};
    BH_CLEANUP_FREE char *dir = bh_home_run_path(g->home, g->run, NULL);
    BH_CLEANUP_FREE const char **layers = NULL;
    struct bh_live_run *run = NULL;
    size_t n = 0;
    if (succeeded && !bh_boxes_some_kept(dir)) {
        layers = bh_calloc(1, sizeof(*layers));
    } else if (!succeeded && has_layers(g)) {
        int rc = bh_live_run_load(g->store, g->run, &run, err);
        if (rc != 0)
            return rc;
        layers = bh_sweep_layers_in_use(g->home, run, &n);
    }
    int rc = bh_boxes_reclaim_how(dir, layers, n, &how, err);
    bh_live_run_free(run);
    return rc;
}

static void remove_empty(const struct bh_gc_work *g)
{
    static const char *const names[] = {"tmp", "boxes", "layers"};
    BH_CLEANUP_FREE char *rel = bh_path_join("runs", g->run);
    BH_CLEANUP_FD int dir = bh_home_open_folder(g->home, rel);
    for (size_t i = 0; dir >= 0 && i < BH_ARRAY_LEN(names); i++)
        (void)unlinkat(dir, names[i], AT_REMOVEDIR);
}

/* Its owner died between the head mark and the first commit. One that the store has lost is another error. */
static void remove_unborn(const struct bh_gc_work *g)
{
    BH_CLEANUP_FD int runs = bh_home_open_folder(g->home, "runs");
    if (runs >= 0)
        (void)bh_reclaim_one(g->how, "run", "runs", runs, g->run);
}

/* The lock is held: what the store says of the run now is so until we let it go. */
static void look_at_run(struct bh_gc_work *g)
{
    struct bh_run_row row = {0};
    struct bh_err *err = NULL;
    int rc = bh_store_get_run(g->store, g->run, &row, &err);
    if (rc == -BH_E_NOT_FOUND) {
        bh_err_free(err);
        remove_unborn(g);
        return;
    }
    if (rc == 0)
        rc = clear_run(g, bh_streq(row.status, "succeeded"), &err);
    if (rc == 0 && !g->how->dry_run)
        remove_empty(g);
    bh_run_row_fini(&row);
    bh_gc_error(g, err);
}

static void clear_runs(struct bh_gc_work *g)
{
    BH_CLEANUP_MAP struct bh_map *names = bh_map_new(NULL);
    DIR *dir = bh_home_list(g->home, "runs");
    const char *name;
    void *unused;
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (bh_run_id_valid(e->d_name))
            (void)bh_map_put(names, e->d_name, NULL);
    }
    (void)closedir(dir);
    for (size_t it = 0; bh_map_next(names, &it, &name, &unused);) {
        BH_CLEANUP_FD int lock = -1;
        g->run = name;
        if (bh_map_has(g->gone, name))
            continue;
        if (bh_home_hold_run(g->home, name, &lock) == 1)
            look_at_run(g);
        else
            g->ret->in_use += bh_home_run_is_owned(g->home, name);
    }
}

static void open_store(struct bh_gc_work *g)
{
    struct bh_err *err = NULL;
    int rc = bh_store_open(g->home, BH_STORE_READ, &g->store, &err);
    if (rc == -BH_E_NOT_FOUND)
        bh_err_free(BH_TAKE(err)); /* nothing was ever recorded */
    bh_gc_error(g, err);
}

/* --- the rest of the home --- */

static void clear_temporary(const struct bh_gc_work *g)
{
    DIR *dir = bh_dir_stream(openat(g->home->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat st;
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (bh_starts_with(e->d_name, BH_TEMPORARY_PREFIX) &&
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            bh_wall_now().us - (int64_t)st.st_mtime * 1000000 > TEMPORARY_AGE_US)
            (void)bh_reclaim_one(g->how, "temporary", "", dirfd(dir), e->d_name);
    }
    (void)closedir(dir);
}

static void count_in(const struct bh_gc_work *g, const char *folder)
{
    DIR *dir = bh_home_list(g->home, folder);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.' || bh_streq(e->d_name, "images"))
            continue;
        g->ret->bases++;
        g->ret->base_bytes += bh_reclaim_bytes(dirfd(dir), e->d_name);
    }
    (void)closedir(dir);
}

/* Of images each layer counts. */
static void count_bases(const struct bh_gc_work *g)
{
    count_in(g, "bases");
    count_in(g, "bases/images");
}

/* --- the host --- */

static void found_group(void *arg, const char *path, int error)
{
    const struct bh_gc_work *g = arg;
    const struct bh_reclaimed what = {.kind = "control group", .path = path, .error = error};
    if (g->how->found)
        g->how->found(g->how->arg, &what);
}

void bh_gc(const struct bh_home *home, const struct bh_reclaim *how, const struct bh_gc_keep *keep,
           struct bh_gc_result *ret, struct bh_errlist *errors)
{
    BH_CLEANUP_MAP struct bh_map *gone = bh_map_new(NULL);
    struct bh_gc_work g = {.home = home, .how = how, .keep = keep, .ret = ret, .errors = errors, .gone = gone};
    const struct bh_cgroup_reclaim_how groups = {.dry_run = how->dry_run, .found = found_group, .arg = &g};
    *ret = (struct bh_gc_result){0};
    (void)bh_cgroup_reclaim_how(&groups, NULL);
    bh_sweep_orphans(home, how);
    bh_sweep_half_bases(home, how);
    bh_shells_sweep(home, how);
    clear_temporary(&g);
    open_store(&g);
    if (g.store) {
        bh_gc_runs(&g);
        clear_runs(&g);
        bh_gc_shared(&g);
    }
    bh_store_close(g.store);
    count_bases(&g);
}
