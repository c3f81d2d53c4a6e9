/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an earlier try left where this one's outputs will be. A repeated try finds a shared box as it is, but must not
 * publish what another try wrote: the declared paths, and for a glob every file that it matches now.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "workers/box/box.h"
#include "workers/helper.h"

struct bh_leftovers;
/* `paths`: relative to /workspace, NULL-terminated, borrowed. The object may be freed inside. */
typedef void (*bh_leftovers_fn)(void *arg, const char *const *paths);

/* Never calls fn from inside. Borrows the lease until it is freed. */
struct bh_leftovers *bh_leftovers_find(struct bh_box *box, struct bh_helper *helper, const struct bh_lease *lease,
                                       bh_leftovers_fn fn, void *arg);
void bh_leftovers_free(struct bh_leftovers *l); /* NULL is fine; at any time */
