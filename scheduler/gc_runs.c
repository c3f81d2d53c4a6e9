/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Old runs, removed as a whole. A run goes in three steps, so that at any moment it is there or it is not: its folder
 * gets another name (nobody finds it any more), its records are forgotten in one transaction, its folder is removed.
 * Whoever dies in between leaves a folder of that other name, and the next gc goes on with it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/gc_priv.h"

#define GONE ".gone-"

static bool has_ended(const struct bh_run_row *row)
{
    return row->ended.us != 0 && (bh_streq(row->status, "succeeded") || bh_streq(row->status, "failed") ||
                                  bh_streq(row->status, "cancelled"));
}

/* `position` counts from the newest. One that was interrupted waits to be resumed and is never old. */
static bool may_go(const struct bh_gc_keep *keep, const struct bh_run_row *row, size_t position, struct bh_wall now)
{
    if (!has_ended(row) || (keep->failed && !bh_streq(row->status, "succeeded")))
        return false;
    if (keep->last > 0 && position < (uint64_t)keep->last)
        return false;
    return keep->older_than_ns < 0 || now.us - row->ended.us > keep->older_than_ns / 1000;
}

/* Its records, then its folder, which has the other name. */
static void finish(struct bh_gc_work *g, struct bh_store *w, int runs, const char *gone)
{
    struct bh_err *err = NULL;
    const char *run = gone + strlen(GONE);
    int rc = bh_store_forget(w, run, &err);
    if (rc == 0 && bh_rmtree_at(runs, gone) < 0)
        rc = bh_err_set(&err, BH_E_IO, errno, "cannot remove '%s/runs/%s'", g->home->path, gone);
    bh_gc_error(g, err);
}

static void tell(const struct bh_gc_work *g, const char *run, int64_t bytes, int error)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("runs/%s", run);
    if (g->how->found)
        g->how->found(g->how->arg, &(struct bh_reclaimed){.kind = "run", .path = path, .bytes = bytes, .error = error});
}

/* Nobody owns it, and nobody is in a box of it: then nobody will be until it has its other name. */
static bool take(struct bh_gc_work *g, int runs, const char *run, int *ret_owner, int *ret_folder)
{
    if (bh_home_hold_run(g->home, run, ret_owner) != 1)
        return false;
    *ret_folder = openat(runs, run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret_folder < 0)
        return false;
    if (flock(*ret_folder, LOCK_EX | LOCK_NB) == 0)
        return true;
    g->ret->in_shells++;
    return false;
}

static void remove_run(struct bh_gc_work *g, struct bh_store *w, int runs, const char *run)
{
    BH_CLEANUP_FD int owner = -1;
    BH_CLEANUP_FD int folder = -1;
    BH_CLEANUP_FREE char *gone = bh_asprintf(GONE "%s", run);
    if (!take(g, runs, run, &owner, &folder))
        return;
    int64_t bytes = g->how->found ? bh_reclaim_bytes(runs, run) : 0;
    int why = !g->how->dry_run && renameat2(runs, run, runs, gone, RENAME_NOREPLACE) < 0 ? errno : 0;
    tell(g, run, bytes, why);
    if (why)
        return;
    g->ret->runs++;
    (void)bh_map_put(g->gone, run, NULL);
    if (!g->how->dry_run)
        finish(g, w, runs, gone);
}

static void go_on(struct bh_gc_work *g, struct bh_store *w, int runs)
{
    BH_CLEANUP_MAP struct bh_map *names = bh_map_new(NULL);
    DIR *dir = bh_home_list(g->home, "runs");
    const char *name;
    void *unused;
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        if (bh_starts_with(e->d_name, GONE) && bh_run_id_valid(e->d_name + strlen(GONE)))
            (void)bh_map_put(names, e->d_name, NULL);
    }
    (void)closedir(dir);
    for (size_t it = 0; bh_map_next(names, &it, &name, &unused);) {
        (void)bh_map_put(g->gone, name + strlen(GONE), NULL);
        tell(g, name + strlen(GONE), g->how->found ? bh_reclaim_bytes(runs, name) : 0, 0);
        if (!g->how->dry_run)
            finish(g, w, runs, name);
    }
}

static int remove_old(struct bh_gc_work *g, struct bh_store *w, int runs, struct bh_err **err)
{
    struct bh_run_row *rows = NULL;
    size_t n = 0;
    struct bh_wall now = bh_wall_now();
    int rc = g->keep && g->keep->some ? bh_store_list_runs(g->store, &rows, &n, err) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (may_go(g->keep, &rows[i], i, now))
            remove_run(g, w, runs, rows[i].run);
    }
    bh_run_rows_free(rows, n);
    return rc;
}

void bh_gc_runs(struct bh_gc_work *g)
{
    struct bh_store *w = NULL;
    struct bh_err *err = NULL;
    BH_CLEANUP_FD int runs = bh_home_open_folder(g->home, "runs");
    if (runs < 0)
        return;
    int rc = g->how->dry_run ? 0 : bh_store_open(g->home, BH_STORE_WRITE, &w, &err);
    if (rc == 0) {
        go_on(g, w, runs);
        rc = remove_old(g, w, runs, &err);
    }
    bh_store_close(w);
    bh_gc_error(g, err);
}
