/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much the whole state directory may hold: logs, stored objects, bases, snapshots, layers, boxes. It is a guard
 * against filling a disk by and by: whoever is at work goes on, but no new box is made beyond it. Counted once before
 * anything starts, and from then on again and again by a thread of its own (at most a tenth of its time), so what it
 * knows is some seconds old; against what is faster stands the reserve (watch.h).
 */
#pragma once

#include "base/err.h"

struct event_base;
struct bh_disk_budget;

/* `limit` > 0 bytes; `who` says where it is from, for messages ("BULKHEAD_DISK_BUDGET"). Counts: blocks on the disk. */
int bh_disk_budget_new(struct event_base *loop, const char *home, int64_t limit, const char *who,
                       struct bh_disk_budget **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_disk_budget_free(struct bh_disk_budget *b); /* NULL is fine */
/* DISK_FULL where more is held, as far as is known. */
int bh_disk_budget_room(const struct bh_disk_budget *b, struct bh_err **err) BH_MUST_CHECK;
int64_t bh_disk_budget_held(const struct bh_disk_budget *b);
