/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share; nobody outside of this folder and its tests includes it. */
#pragma once

#include "base/buf.h"
#include "base/map.h"
#include "scheduler/store/db.h"
#include "scheduler/store/mark.h"
#include "scheduler/store/store.h"

#define BH_STORE_MAGIC 0x73746f72u

struct bh_store {
    unsigned magic;
    enum bh_store_mode mode;
    struct bh_home home; /* own descriptor and path */
    struct bh_db *db;
    struct bh_map *tails;  /* run id -> struct bh_tail: the runs that this process writes */
    struct bh_buf scratch; /* what is being hashed */
};

/* How far a run that this process writes has come. */
struct bh_tail {
    struct bh_head head;
    int mark_fd;
    unsigned unsynced; /* marks written since the last sync */
    bool failed;       /* a commit failed: what is durable and what is in memory may differ */
};

static inline void bh_store_check(const struct bh_store *s)
{
    BH_ASSERT(s && s->magic == BH_STORE_MAGIC);
}

/* The last event of the run in the database; ret->seq 0 where there is none. ret_known: whether the run is there. */
int bh_store_last(struct bh_store *s, const char *run, struct bh_head *ret, bool *ret_known,
                  struct bh_err **err) BH_MUST_CHECK;
/*
 * Compares the head mark with the database: STORE_CORRUPT naming run and sequence where the database has less than the
 * mark or something else. NOT_FOUND ("no run 'x'") where neither knows it.
 */
int bh_store_check_head(struct bh_store *s, const char *run, struct bh_err **err) BH_MUST_CHECK;
/*
 * STORE_CORRUPT where a run has a mark and the database does not know it, among the ids that begin with `prefix` and
 * sort after `after`; names the newest of them.
 */
int bh_store_check_lost(struct bh_store *s, const char *prefix, const char *after, struct bh_err **err) BH_MUST_CHECK;
/* The list of runs without regard to lost ones. */
int bh_store_read_runs(struct bh_store *s, struct bh_run_row **ret, size_t *ret_n, struct bh_err **err) BH_MUST_CHECK;
int bh_store_no_run(const char *text, struct bh_err **err);
