/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of gc share: gc.c (what dead processes left), gc_runs.c (old runs), gc_shared.c (what no run names).
 */
#pragma once

#include "base/map.h"
#include "scheduler/gc.h"
#include "scheduler/store/store.h"

struct bh_gc_work {
    const struct bh_home *home;
    const struct bh_reclaim *how;
    const struct bh_gc_keep *keep;
    struct bh_gc_result *ret;
    struct bh_errlist *errors;
    struct bh_store *store; /* NULL: there is none, or none that can be read */
    const char *run;        /* in whose folder we are */
    struct bh_map *gone;    /* runs that went as a whole, or would */
};

/* Adds it, if there is one. */
void bh_gc_error(const struct bh_gc_work *g, struct bh_err *err);

/* Finishes what a dead gc began to remove, then removes the runs that need not be kept. */
void bh_gc_runs(struct bh_gc_work *g);
/* Snapshots, layers of images and objects of the content store that no run names any more. */
void bh_gc_shared(struct bh_gc_work *g);
