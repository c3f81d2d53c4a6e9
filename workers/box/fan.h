/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who writes to one overlay, as the kernel has it (fanotify): each event carries the file, opened through the mount
 * that it was written through, and the mount says which exec that was. Needs CAP_SYS_ADMIN on the host.
 *
 * What the kernel does not tell: a store into a mapping (the end of the descriptor behind it is told, as "had it open
 * for writing"), a removal, a rename. A descriptor that one exec hands to another writes as the one that opened it.
 * Nothing of an event is believed but what the kernel fills in; names are compared, never shown.
 *
 * Calls take some microseconds for each event that waits. Not for threads.
 */
#pragma once

#include "workers/box/box.h"

struct bh_fan;

struct bh_fan *bh_fan_new(void);
void bh_fan_free(struct bh_fan *f); /* NULL is fine */

/* Watches the overlay that `rootfd` (O_PATH is enough) lies on. 0, or -1 with errno: EPERM, EXDEV: it is no overlay of
 * a box. What was recorded before stays. */
int bh_fan_start(struct bh_fan *f, int rootfd);
int bh_fan_fd(const struct bh_fan *f); /* readable when something was written; -1: it does not watch */
/* Lets go of the overlay at once, which cannot be unmounted before. */
void bh_fan_stop(struct bh_fan *f);

/* Takes at most `max` of the events that wait. False: none is left. */
bool bh_fan_take(struct bh_fan *f, size_t max);
/* Takes all that wait. What is recorded later has a greater number. */
uint64_t bh_fan_moment(struct bh_fan *f);
/* From now on, and for what was recorded and nobody's yet: what is written through this mount is of `tag`. */
void bh_fan_name(struct bh_fan *f, uint64_t mount, uint64_t tag);

/* Since a moment: who wrote to the file (bh_file_key; 0: none), or to what had the name, as the box sees it
 * ("/workspace/out/x"); tag 0: through a mount that nobody has named. Takes what waits before. */
void bh_fan_ask(struct bh_fan *f, uint64_t since, uint64_t file, const char *path, struct bh_box_writers *ret);
