/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head mark of a run: the file runs/RUN/head, which says how far the run had come and lies outside the database,
 * so that a database that forgot its tail is noticed.
 *
 * It is made, synced with its folders and empty of meaning ("0" and 64 zeros) before the first commit of the run, and
 * written in place after each commit: it may be behind the database and never ahead. Its 85 bytes keep their length and
 * lie in one disk sector, so a kill leaves the old or the new mark. Writing it does not sync it; whoever holds it does
 * so now and then (store.c). docs/adr/0001 says what that catches and what it does not.
 */
#pragma once

#include "base/home.h"
#include "scheduler/store/chain.h"

struct bh_mark {
    bool found;          /* there is a file and it is not empty */
    struct bh_head head; /* chain all zero: made, but nothing was committed yet */
};

/* Whether the mark says that the run was recorded. */
bool bh_mark_is_set(const struct bh_mark *mark);
bool bh_mark_equal(const struct bh_mark *a, const struct bh_mark *b);

/* Safe while a writer is at it. Error: STORE_CORRUPT where the file is no mark; IO. `run` must be a valid id. */
int bh_mark_read(const struct bh_home *home, const char *run, struct bh_mark *ret, struct bh_err **err) BH_MUST_CHECK;
/* Opens the mark of an existing run for writing. */
int bh_mark_open(const struct bh_home *home, const char *run, int *ret_fd, struct bh_err **err) BH_MUST_CHECK;
/* Makes an unset mark, durable on return with its folders; an existing one is overwritten. */
int bh_mark_make(const struct bh_home *home, const char *run, int *ret_fd, struct bh_err **err) BH_MUST_CHECK;
int bh_mark_write(int fd, const struct bh_head *head, const char *run, struct bh_err **err) BH_MUST_CHECK;
int bh_mark_sync(int fd, const char *run, struct bh_err **err) BH_MUST_CHECK;

/* Calls `fn` for each run folder in no order until it gives non-zero, and returns that. */
typedef int (*bh_mark_run_fn)(void *arg, const char *run, struct bh_err **err);
int bh_mark_each_run(const struct bh_home *home, bh_mark_run_fn fn, void *arg, struct bh_err **err) BH_MUST_CHECK;
