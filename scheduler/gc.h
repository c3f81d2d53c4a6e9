/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes what dead processes left in a state directory and on the host: boxes, temporary files and half-made layers of
 * runs that nobody owns, folders of runs that never came into being, half-made bases, control groups, forks of boxes.
 * With that, what no run names any more: snapshots, layers of images, objects of the content store. And, where somebody
 * asks for it, old runs as a whole. What a run that stays needs to be resumed or looked at stays: kept boxes and what
 * they stand on, layers in use, logs, artifacts. Harmless beside live runs: it takes nothing that is locked, holds a
 * run's lock while it clears up in it, and leaves what runs share alone while one is alive.
 */
#pragma once

#include "base/err.h"
#include "base/home.h"
#include "workers/box/reclaim.h"

/* Which runs go as a whole: those that have ended, and are old by every rule that is given. */
struct bh_gc_keep {
    bool some;             /* there is a rule; else all stay */
    int64_t older_than_ns; /* ended longer ago than this; -1: whenever */
    int64_t last;          /* not among so many of the newest; 0: whichever */
    bool failed;           /* leave those that failed or were cancelled */
};

struct bh_gc_result {
    size_t in_use;      /* runs that somebody owns: not looked at */
    size_t runs;        /* that were removed as a whole, or would be */
    size_t in_shells;   /* runs that would have gone, but somebody is in a box of theirs */
    bool shared_in_use; /* what runs share was not looked at: some run is alive */
    size_t bases;       /* kept: made once, shared by all runs */
    int64_t base_bytes; /* what they take */
};

/*
 * `how` hears of each thing; paths are relative to the home, those of control groups absolute. What went wrong is added
 * to `errors`; it goes on past it.
 */
void bh_gc(const struct bh_home *home, const struct bh_reclaim *how, const struct bh_gc_keep *keep,
           struct bh_gc_result *ret, struct bh_errlist *errors);
