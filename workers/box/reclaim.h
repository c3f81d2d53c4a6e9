/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a dead owner of a run left behind, found and removed thing by thing; box.h has the call for whoever only wants
 * it gone. The caller holds the run's lock.
 */
#pragma once

#include "base/err.h"

struct bh_reclaimed {
    const char *kind; /* "box", "layer", "temporary", … */
    const char *path; /* relative to the folder that was asked about */
    int64_t bytes;    /* blocks that it takes or took */
    int error;        /* errno of why it is still there, else 0 */
};
struct bh_reclaim {
    bool dry_run; /* nothing is touched */
    void (*found)(void *arg, const struct bh_reclaimed *what);
    void *arg; /* found NULL: nothing is measured either */
};

/* As bh_boxes_reclaim. keep_layers NULL: all layers stay. It goes on past what it cannot remove. */
int bh_boxes_reclaim_how(const char *run_dir, const char *const *keep_layers, size_t n, const struct bh_reclaim *how,
                         struct bh_err **err) BH_MUST_CHECK;
/* Whether a box of the run was kept. */
bool bh_boxes_some_kept(const char *run_dir);

/* Removes one entry and what is below it, and says so. `folder`: its place for the path that is told, "" for none. 0,
 * or -1 with errno. */
int bh_reclaim_one(const struct bh_reclaim *how, const char *kind, const char *folder, int dirfd, const char *name);
/* The same by bh_rmtree_whole_at, for what is used as soon as it has its name; whoever clears `folder` next removes
 * what begins with BH_TEMPORARY_PREFIX in it. */
int bh_reclaim_whole(const struct bh_reclaim *how, const char *kind, const char *folder, int dirfd, const char *name);
/* Blocks that an entry and what is below it take, as far as we may look. */
int64_t bh_reclaim_bytes(int dirfd, const char *name);
