/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of a run on stderr: on a terminal one block that is redrawn (stages, agents, elapsed), elsewhere one
 * plain line per change. Implements struct bh_run_watch.
 */
#pragma once

#include "scheduler/run_local.h"

struct bh_progress;
/* quiet: prints nothing but still keeps the run id. */
struct bh_progress *bh_progress_new(bool quiet);
void bh_progress_free(struct bh_progress *p);
struct bh_run_watch bh_progress_watch(struct bh_progress *p);
/* How many agents of an ended run failed, were skipped or cancelled; not those that --only left out. */
size_t bh_progress_unfinished(const struct bh_progress *p);
size_t bh_progress_agents(const struct bh_progress *p);
const char *bh_progress_run(const struct bh_progress *p); /* NULL until the run exists */
