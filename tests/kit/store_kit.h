/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a store must do, whichever database is behind it: each backend's test runs the whole kit. The helpers below are
 * for tests that go further (tests/unit/scheduler, tests/fault).
 */
#pragma once

#include "base/home.h"
#include "base/id.h"
#include "scheduler/store/store.h"

struct store_kit_backend {
    const char *name;
    int (*open)(const struct bh_home *home, enum bh_store_mode mode, struct bh_store **ret, struct bh_err **err);
};
/* The number of failed tests. */
int store_kit_run(const struct store_kit_backend *backend);

/* A fresh state directory. */
struct kit_home {
    char *dir;
    struct bh_home home;
};
void kit_home_make(struct kit_home *h);
void kit_home_remove(struct kit_home *h);

/* The n-th of a fixed row of run ids, which sort by n. Good for n < 32^4. */
struct bh_run_id kit_run_id(unsigned n);
/* Commits `n` events of a form that kit_replay_count checks: kind "kit.<seq>", at = seq * 1000. */
int kit_commit_events(struct bh_store *s, const char *run, int64_t first_seq, size_t n, struct bh_err **err);
/* Replays; every event must be of that form. The number of events is set also where the answer is an error. */
int kit_replay(struct bh_store *s, const char *run, int64_t *ret_n, struct bh_err **err);
/* A run row with all fields set from the id and `status`. The texts are static or `run`'s. */
struct bh_run_row kit_run_row(const char *run, const char *status);
/* A batch of one run row, with one event where `seq` is not 0. */
int kit_commit_run(struct bh_store *s, const char *run, const char *status, struct bh_err **err);
/* What runs/RUN/head holds; the caller frees it. */
char *kit_mark_text(const struct bh_home *home, const char *run);
void kit_write_mark(const struct bh_home *home, const char *run, const char *text);
