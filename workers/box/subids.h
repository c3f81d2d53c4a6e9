/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subordinate ids for an ordinary user: where /etc/subuid and /etc/subgid give one 65536 of each, and newuidmap and
 * newgidmap are there to hand them out, the calling process enters a user namespace of its own in which it is root and
 * has them as 1 to 65536. What it starts then makes boxes of a range, as root of the host does. It costs a few
 * milliseconds once, not for each box.
 */
#pragma once

#include "base/compiler.h"

/*
 * Before any thread is started. False where there is nothing to enter, or it cannot be: then nothing has changed.
 * $BULKHEAD_SUBIDS=off: never.
 */
bool bh_subids_enter(void);
/* For tests: the first of 65536 ids that `text` (of /etc/subuid) gives to this user; 0: none. */
uint32_t bh_subids_find(const char *text, const char *name, uint32_t uid);
