/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the entries of an output folder a declared glob takes, and the words for a folder where something is
 * missing. Pure.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "workers/verdict.h"
#include "workers/walk.h"

struct bh_map;
struct bh_buf;

/*
 * Calls `take` with each matched name that is not in `taken`, and adds it there. Returns false, with a verdict, where a
 * match cannot be published: a folder, anything else that is no file, a name outside the grammar, too many. A folder
 * whose contents the glob matches too is only a way to them. No match at all is the caller's to judge (*ret_n 0).
 */
bool bh_output_glob(const struct bh_lease_output *output, const struct bh_walk *walk, struct bh_map *taken,
                    void (*take)(void *arg, const char *name), void *arg, size_t *ret_n, struct bh_verdict *ret);

/* "/workspace/out holds: a, b and 3 more", "/workspace/out is empty", "… cannot be read: permission denied". */
void bh_output_describe(const char *folder, const struct bh_walk *walk, struct bh_buf *out);
/* A name that an agent chose, for people: escaped and not longer than a line. */
void bh_output_escape(struct bh_buf *out, const char *name);
