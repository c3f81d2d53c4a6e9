/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A moment on the monotonic clock at which something is due. The loop's own timers stand still while the host is
 * suspended, so long ones are looked at every few seconds.
 */
#pragma once

#include "base/clock.h"

struct event_base;
struct bh_deadline;

struct bh_deadline *bh_deadline_new(struct event_base *loop, void (*fn)(void *arg), void *arg);
/* From now; replaces what was set. Less than 0 counts as 0. Never called from inside. */
void bh_deadline_set(struct bh_deadline *d, int64_t ns);
void bh_deadline_clear(struct bh_deadline *d);
void bh_deadline_free(struct bh_deadline *d); /* NULL is fine; may be called inside fn */
