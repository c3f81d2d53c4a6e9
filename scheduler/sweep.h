/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing up below runs/: what an ended run need not keep, and folders of runs that never came into being. Best
 * effort: what cannot be removed stays. */
#pragma once

#include "base/home.h"
#include "scheduler/dispatch/live_run.h"
#include "workers/box/reclaim.h"

/* The caller owns the run. Temporary files and empty folders go; of a run that succeeded also its layers, unless a kept
 * box stands on them. */
void bh_sweep_ended_run(const struct bh_home *home, const char *run, bool succeeded);
/*
 * Folders of runs that a process began to make and died before it had recorded them: they hold no head mark and nobody
 * owns them. Cheap where there are none; another process at the same work is no harm.
 */
void bh_sweep_orphans(const struct bh_home *home, const struct bh_reclaim *how);
/* Bases that somebody began to make: whoever makes one holds a lock on its folder. */
void bh_sweep_half_bases(const struct bh_home *home, const struct bh_reclaim *how);
/*
 * What dead processes left, as far as finding it is cheap: at the start of each run. The rest is for its next owner and
 * for gc.
 */
void bh_sweep_at_start(const struct bh_home *home);
/* Names of the layers that the run's boxes were frozen into and that are there; an array to be freed, the names are
 * borrowed from the run. */
const char **bh_sweep_layers_in_use(const struct bh_home *home, const struct bh_live_run *run, size_t *ret_n);
/* The run was never recorded in the store: its folder goes. */
void bh_sweep_unrecorded_run(const struct bh_home *home, const char *run);
