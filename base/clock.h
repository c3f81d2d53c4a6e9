/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time in two types that cannot be mixed: monotonic (deadlines, durations; CLOCK_BOOTTIME, so that
 * a suspended host counts) and wall (what people read). Nothing else in the project calls
 * clock_gettime.
 */
#pragma once

#include "base/compiler.h"

struct bh_mono {
    int64_t ns;
};
struct bh_wall {
    int64_t us; /* since 1970-01-01 UTC */
};

#define BH_NS_PER_MS INT64_C(1000000)
#define BH_NS_PER_S INT64_C(1000000000)

struct bh_mono bh_mono_now(void);
struct bh_wall bh_wall_now(void);

/* "2026-11-29T13:33:43.000123Z" needs this much room, NUL included. */
#define BH_WALL_TEXT 32
char *bh_wall_format(struct bh_wall t, char buf[static BH_WALL_TEXT]);
/* RFC 3339 with any offset, or (relative_to_now) a duration before now such as "10m". -BH_E_BAD_VALUE without a
 * message. */
int bh_wall_parse(const char *text, struct bh_wall now, struct bh_wall *ret) BH_MUST_CHECK;
