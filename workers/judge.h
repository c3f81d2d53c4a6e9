/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of an attempt, in a box of its own that is made when the attempt's is dead: no process, no descriptor, no
 * mount, no temporary file and no environment of the attempt is in it. What is depends on the check's `box`:
 *
 *   fresh   the state before `run`, and the declared outputs, as they were stored, read-only in /workspace/in
 *   same    the state before `run`, but /workspace as the attempt left it (with the inputs in /workspace/in)
 *
 * So the programs that the check runs, its HOME and /tmp are never the attempt's. The check's `files` are copied in now
 * and replace what stands in their way, whatever it is; of the places below /workspace where tools look for
 * configuration by themselves (init/shadows.c) those on the way to them and at the top are put back as they were before
 * `run`. The score file is removed before and read after. PATH is ours, whatever the document says.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "workers/capture.h"
#include "workers/execution.h"
#include "workers/score.h"
#include "workers/verdict.h"

struct bh_judge_spec { /* all borrowed until the judge is freed */
    const struct bh_execution_host *host;
    struct bh_run_files *run;
    const struct bh_lease *lease;
    struct bh_capture *capture;
    const struct bh_result_output *outputs; /* what was collected */
    size_t n_outputs;
};

struct bh_judge_end {
    struct bh_verdict verdict; /* may be taken from */
    struct bh_score score;     /* where the lease wants one and the check passed; may be taken from */
    int64_t cpu_ms, max_rss_bytes;
};

struct bh_judge;
/* The judge may be freed inside. */
typedef void (*bh_judge_fn)(void *arg, struct bh_judge_end *end);

/* Never calls fn from inside. The attempt's box is dead, and for `same` its folder kept. */
struct bh_judge *bh_judge_start(const struct bh_judge_spec *spec, bh_judge_fn fn, void *arg);
/* Somebody asks that it end: fn comes as always, cancelled. */
void bh_judge_stop(struct bh_judge *j);
/* Kills what still runs; fn is not called any more. NULL is fine. */
void bh_judge_free(struct bh_judge *j);
