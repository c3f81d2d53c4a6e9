/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes what dead processes left in a state directory and on the host: boxes, temporary files and half-made layers of
 * runs that nobody owns, folders of runs that never came into being, half-made bases, control groups. What a run needs
 * to be resumed or looked at stays: kept boxes, layers in use, logs, artifacts. Harmless beside live runs: it takes
 * nothing that is locked, and holds a run's lock while it clears up in it.
 */
#pragma once

#include "base/err.h"
#include "base/home.h"
#include "workers/box/reclaim.h"

struct bh_gc_result {
    size_t in_use;      /* runs that somebody owns: not looked at */
    size_t bases;       /* kept: made once, shared by all runs */
    int64_t base_bytes; /* what they take */
};

/*
 * `how` hears of each thing; paths are relative to the home, those of control groups absolute. What went wrong is added
 * to `errors`; it goes on past it.
 */
void bh_gc(const struct bh_home *home, const struct bh_reclaim *how, struct bh_gc_result *ret,
           struct bh_errlist *errors);
