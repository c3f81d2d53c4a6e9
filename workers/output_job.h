/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data and functions for the two jobs of collecting on the helper thread: taking one opened output into the content
 * store, and walking an output folder. Both only read what an agent wrote, and believe nothing of it.
 */
#pragma once

#include "workers/helper.h"
#include "workers/run_files.h"
#include "workers/verdict.h"
#include "workers/walk.h"

struct bh_mask;
struct bh_store_job {
    struct bh_run_files *run; /* counted */
    int fd;                   /* owned; -1: only sync */
    char *name;               /* of the output, for the verdict */
    int64_t max_size;         /* -1: none */
    int64_t room;             /* for this output, of what all of an execution may have; -1: no bound */
    struct bh_mask *mask;     /* counted; NULL: nothing is looked for in it */
    bool watch;               /* others may be writing: a change while it is copied is a collision */
    bool sync;                /* afterwards, make all that was stored durable */
    bool stored;              /* `object` is what was copied, whatever the verdict */
    bool changed;             /* it did; the verdict says so */
    bool held;                /* watch: somebody has it open for writing, or mapped so */
    bool has_later;           /* changed: `later` is the digest of what was there then */
    struct bh_digest later;
    struct bh_verdict verdict;
    struct bh_object object; /* where the verdict is good, */
    int64_t size;            /* and its bytes, holes too */
};
/* Takes fd. `done` is called on the loop with the job, which is freed after it. */
struct bh_store_job *bh_store_job_new(struct bh_run_files *run, int fd, const char *name, int64_t max_size, bool watch,
                                      bool sync);
void bh_store_job_run(void *data);
void bh_store_job_free(void *data);

struct bh_walk_job {
    int fd; /* owned */
    struct bh_walk walk;
};
struct bh_walk_job *bh_walk_job_new(int fd); /* takes fd */
void bh_walk_job_run(void *data);
void bh_walk_job_free(void *data);
