/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs share and no run names any more. Whether one is named is read off the records as they stand: every row of
 * 64 hex digits in the documents, submissions, events and rows of a run that is there, in what its kept boxes and
 * layers stand on, and in the manifests of snapshots that stay, counts. Too much may count, never too little.
 *
 * Nothing is touched while some run is alive, since that may just have found, and rely on, what no record names yet;
 * and none can begin to while this holds the content store, which every run opens before it uses anything shared.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "artifact-bus/cas.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/gc_priv.h"
#include "workers/box/stand.h"
#include "workers/rootfs/snapshot.h"

enum { HEX = 64, FILE_MAX = 1 << 20 };

struct shared {
    struct bh_gc_work *g;
    struct bh_map *named; /* digests */
    struct bh_map *runs;  /* that are there */
};

/* --- what is named --- */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static void add_text(struct bh_map *named, const char *text)
{
    size_t run = 0;
    for (const char *p = text; p && *p; p++) {
        run = is_hex(*p) ? run + 1 : 0;
        if (run != HEX || is_hex(p[1]))
            continue;
        BH_CLEANUP_FREE char *hex = bh_strndup(p + 1 - HEX, HEX);
        if (!bh_map_has(named, hex))
            (void)bh_map_put(named, hex, NULL);
    }
}

static int add_event(void *arg, int64_t seq BH_UNUSED, struct bh_wall at BH_UNUSED, const char *kind BH_UNUSED,
                     const char *payload, struct bh_err **err BH_UNUSED)
{
    add_text(arg, payload);
    return 0;
}

static void add_file(struct bh_map *named, int dirfd, const char *name)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && bh_read_all(fd, FILE_MAX, &text, NULL) == 0)
        add_text(named, text.data);
}

/* Of every box or layer of the run: what its record names. */
static void add_stands(const struct shared *s, const char *run, const char *folder)
{
    BH_CLEANUP_FREE char *rel = bh_asprintf("runs/%s/%s", run, folder);
    DIR *dir = bh_home_list(s->g->home, rel);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        BH_CLEANUP_FREE char *name = bh_path_join(e->d_name, BH_BOX_STAND);
        add_file(s->named, dirfd(dir), name);
    }
    (void)closedir(dir);
}

static int add_run(const struct shared *s, const char *run, struct bh_err **err)
{
    struct bh_run_row row = {0};
    struct bh_artifact_row *artifacts = NULL;
    size_t n = 0;
    int rc = bh_store_get_run(s->g->store, run, &row, err);
    if (rc == 0)
        rc = bh_store_list_artifacts(s->g->store, run, &artifacts, &n, err);
    if (rc == 0)
        rc = bh_store_replay(s->g->store, run, add_event, s->named, err);
    if (rc == 0) {
        add_text(s->named, row.document);
        add_text(s->named, row.submission);
        for (size_t i = 0; i < n; i++) {
            add_text(s->named, artifacts[i].digest);
            add_text(s->named, artifacts[i].provenance);
        }
        add_stands(s, run, "boxes");
        add_stands(s, run, "layers");
        (void)bh_map_put(s->runs, run, NULL);
    }
    bh_artifact_rows_free(artifacts, n);
    bh_run_row_fini(&row);
    return rc;
}

/* What cannot be read might name anything: then nothing goes. */
static int add_runs(const struct shared *s, struct bh_err **err)
{
    struct bh_run_row *rows = NULL;
    size_t n = 0;
    int rc = bh_store_list_runs(s->g->store, &rows, &n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = bh_map_has(s->g->gone, rows[i].run) ? 0 : add_run(s, rows[i].run, err);
    bh_run_rows_free(rows, n);
    return rc;
}

/* --- what goes --- */

static void tell(const struct shared *s, const char *kind, const char *path, int64_t bytes, int error)
{
    const struct bh_reclaim *how = s->g->how;
    if (how->found)
        how->found(how->arg, &(struct bh_reclaimed){.kind = kind, .path = path, .bytes = bytes, .error = error});
}

static bool is_wanted_object(void *arg, const char *hex)
{
    const struct shared *s = arg;
    return bh_map_has(s->named, hex);
}

static void found_object(void *arg, const char *path, int64_t bytes, int error)
{
    BH_CLEANUP_FREE char *below = bh_path_join("cas", path);
    tell(arg, "object", below, bytes, error);
}

static int sweep_objects(struct shared *s, struct bh_err **err)
{
    BH_CLEANUP_FREE char *cas = bh_home_path(s->g->home, "cas");
    const struct bh_cas_sweep how = {s->g->how->dry_run, is_wanted_object, found_object, s};
    return bh_cas_sweep(cas, &how, err);
}

/* A snapshot stays with its run, by its name, and below one that stays. */
static bool stays(const struct shared *s, const struct bh_snapshot_item *item)
{
    return item->in_use || bh_map_has(s->named, item->key) ||
           (item->good && item->run && bh_map_has(s->runs, item->run));
}

/* Manifests of those that stay name those that they stand on: until nothing is added. */
static void name_stacks(const struct shared *s, const struct bh_snapshot_item *items, size_t n)
{
    size_t before;
    BH_CLEANUP_FD int store = bh_home_open_folder(s->g->home, BH_SNAPSHOTS);
    do {
        before = bh_map_len(s->named);
        for (size_t i = 0; store >= 0 && i < n; i++) {
            BH_CLEANUP_FREE char *manifest = bh_path_join(items[i].key, "manifest");
            if (stays(s, &items[i]))
                add_file(s->named, store, manifest);
        }
    } while (bh_map_len(s->named) > before);
}

static int sweep_snapshots(const struct shared *s, struct bh_err **err)
{
    struct bh_snapshot_item *items = NULL;
    size_t n = 0;
    int rc = bh_snapshots_list(s->g->home->path, &items, &n, err);
    if (rc != 0)
        return rc;
    name_stacks(s, items, n);
    for (size_t i = 0; i < n; i++) {
        BH_CLEANUP_ERR struct bh_err *why = NULL;
        BH_CLEANUP_FREE char *path = bh_path_join(BH_SNAPSHOTS, items[i].key);
        if (stays(s, &items[i]))
            continue;
        int gone = s->g->how->dry_run ? 0 : bh_snapshot_remove(s->g->home->path, items[i].key, &why);
        if (gone != -BH_E_BUSY)
            tell(s, "snapshot", path, items[i].bytes, gone == 0 ? 0 : bh_err_errno(why) ? bh_err_errno(why) : EIO);
    }
    bh_snapshot_items_free(items, n);
    return 0;
}

/* "range-<digest>", "range-tree-<digest>": the digest is what counts. Or what a removal did not get to the end of. */
static bool is_wanted_layer(const struct shared *s, const char *name)
{
    size_t len = strlen(name);
    if (bh_starts_with(name, BH_TEMPORARY_PREFIX))
        return false;
    return len < HEX || name[0] == '.' || bh_map_has(s->named, name + len - HEX);
}

static void sweep_images(const struct shared *s)
{
    BH_CLEANUP_MAP struct bh_map *names = bh_map_new(NULL);
    DIR *dir = bh_home_list(s->g->home, "bases/images");
    const char *name;
    void *unused;
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!is_wanted_layer(s, e->d_name))
            (void)bh_map_put(names, e->d_name, NULL);
    }
    for (size_t it = 0; bh_map_next(names, &it, &name, &unused);)
        (void)bh_reclaim_whole(s->g->how, "image layer", "bases/images", dirfd(dir), name);
    (void)closedir(dir);
}

/* --- the whole --- */

static bool some_run_lives(const struct bh_home *home)
{
    bool found = false;
    DIR *dir = bh_home_list(home, "runs");
    if (!dir)
        return false;
    for (struct dirent *e; !found && (e = readdir(dir));)
        found = bh_run_id_valid(e->d_name) && bh_home_run_is_owned(home, e->d_name);
    (void)closedir(dir);
    return found;
}

void bh_gc_shared(struct bh_gc_work *g)
{
    struct bh_err *err = NULL;
    BH_CLEANUP_FREE char *cas = bh_home_path(g->home, "cas");
    BH_CLEANUP_FD int held = bh_cas_hold(cas);
    bool busy = held < 0 && errno == EWOULDBLOCK;
    if (busy || some_run_lives(g->home)) {
        g->ret->shared_in_use = true;
        return;
    }
    struct shared s = {.g = g, .named = bh_map_new(NULL), .runs = bh_map_new(NULL)};
    int rc = add_runs(&s, &err);
    if (rc == 0)
        rc = sweep_snapshots(&s, &err);
    if (rc == 0)
        sweep_images(&s);
    if (rc == 0)
        rc = sweep_objects(&s, &err);
    bh_map_free(s.named);
    bh_map_free(s.runs);
    bh_gc_error(g, err);
}
