/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The logs of one run merged in order of time. Holds one block of each log that is being read; of those that are yet to
 * come, and of those that are read to their present end, neither descriptor nor block.
 */
#pragma once

#include "workers/logs/log_file.h"

struct bh_log_merge;
typedef bool (*bh_log_wanted_fn)(void *arg, const struct bh_log_tags *tags);

/* Of the logs in the folder `dir` whose tags are wanted. */
struct bh_log_merge *bh_log_merge_new(const char *dir, bh_log_wanted_fn wanted, void *arg);
/* Looks for logs, and at each log for what it has got since it was read to its end. A missing folder has none. */
int bh_log_merge_look(struct bh_log_merge *m, struct bh_err **err) BH_MUST_CHECK;
/* The same for the one file of this name, which is new or has grown. */
int bh_log_merge_touch(struct bh_log_merge *m, const char *name, struct bh_err **err) BH_MUST_CHECK;
/* 1: the oldest line (or gap) of all, until the next call; its tags stay. 0: all is read to its present end. */
int bh_log_merge_next(struct bh_log_merge *m, struct bh_log_line *ret, const struct bh_log_tags **ret_tags,
                      struct bh_err **err) BH_MUST_CHECK;
void bh_log_merge_free(struct bh_log_merge *m); /* NULL is fine */
