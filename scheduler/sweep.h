/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing up below runs/: what an ended run need not keep, and folders of runs that never came into being. Best
 * effort: what cannot be removed stays. */
#pragma once

#include "base/home.h"

/* The caller owns the run. Temporary files and empty folders go; of a run that succeeded also its layers, unless a kept
 * box stands on them. */
void bh_sweep_ended_run(const struct bh_home *home, const char *run, bool succeeded);
/*
 * Folders of runs that a process began to make and died before it had recorded them: they hold no head mark and nobody
 * owns them. Cheap where there are none; another process at the same work is no harm.
 */
void bh_sweep_orphans(const struct bh_home *home);
/* The run was never recorded in the store: its folder goes. */
void bh_sweep_unrecorded_run(const struct bh_home *home, const char *run);
