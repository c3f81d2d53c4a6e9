/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker knows of the snapshot store (rootfs/snapshot.h): which snapshots it has looked at in which run, and
 * their digests. Looking, and putting one there, are jobs of the helper that an execution orders; reading all of one,
 * which takes as long as its bytes take, happens on a thread of its own, while attempts already run from it.
 */
#pragma once

#include "workers/box/box.h"
#include "workers/helper.h"
#include "workers/rootfs/snapshot.h"

struct event_base;
struct bh_snapshots;

/* Borrows all three. */
struct bh_snapshots *bh_snapshots_new(struct event_base *loop, struct bh_boxes *boxes, const char *home);
/* Stops what is being read. Nobody waits any more. */
void bh_snapshots_free(struct bh_snapshots *s);

/* The store, opened on first use: borrowed, or a negative code. */
int bh_snapshots_store(struct bh_snapshots *s, struct bh_err **err) BH_MUST_CHECK;
uint32_t bh_snapshots_owner(const struct bh_snapshots *s); /* whose files those of a box made now would be */

/* Whether each of these has been found good in this run before. Forgotten as soon as one of them is put aside. */
bool bh_snapshots_are_good(const struct bh_snapshots *s, const char *run, char *const *keys, size_t n);
void bh_snapshots_note_good(struct bh_snapshots *s, const char *run, char *const *keys, size_t n);

/* The digest of the newest of a stack; NULL where it has not been read. Borrowed until the next call. */
const char *bh_snapshots_digest(const struct bh_snapshots *s, const char *key);
void bh_snapshots_note_digest(struct bh_snapshots *s, const char *key, const char *digest);
/* What was known of it holds no more: another one has come in its place. */
void bh_snapshots_forget_digest(struct bh_snapshots *s, const char *key);
/* Reads it, unless it has been or is being read. */
void bh_snapshots_read(struct bh_snapshots *s, const char *key);

struct bh_snapshot_wait;
/* Calls fn when bh_snapshots_digest has an answer, or there will be none. Never from inside. Reads where nobody does.
 * NULL, and fn is not called, where nothing can be read. */
struct bh_snapshot_wait *bh_snapshots_wait(struct bh_snapshots *s, const char *key, void (*fn)(void *arg), void *arg);
void bh_snapshot_wait_forget(struct bh_snapshot_wait *w); /* NULL is fine; not after fn */

/* --- jobs --- */

/* All borrowed for the call that orders the job. */
struct bh_snapshot_order {
    struct bh_snapshot_spec spec;
    const char *run_dir, *box; /* of a put: runs/RUN, key of the dead box */
    bool warm; /* of a put: the box lives on and writes no more; a snapshot of the same key is not what it knows */
};
struct bh_snapshot_job;
/* `code` 0 with the snapshot (of a look at a stack: its digest alone), or negative with err. The job is gone. */
typedef void (*bh_snapshot_done_fn)(void *arg, int code, const struct bh_snapshot *snapshot, const struct bh_err *err);

/* Is there one under spec.key, on spec.below, that may be used? */
struct bh_snapshot_job *bh_snapshots_find(struct bh_snapshots *s, struct bh_helper *helper,
                                          const struct bh_snapshot_spec *spec, bh_snapshot_done_fn fn, void *arg);
/* The upper of boxes/BOX becomes one; what else is left of the box's folder is removed. */
struct bh_snapshot_job *bh_snapshots_put(struct bh_snapshots *s, struct bh_helper *helper,
                                         const struct bh_snapshot_order *order, bh_snapshot_done_fn fn, void *arg);
/* Are spec.key and what it stands on (spec.below) good? */
struct bh_snapshot_job *bh_snapshots_check(struct bh_snapshots *s, struct bh_helper *helper,
                                           const struct bh_snapshot_spec *spec, bh_snapshot_done_fn fn, void *arg);
void bh_snapshot_job_forget(struct bh_snapshot_job *job); /* fn is not called any more. NULL is fine */
