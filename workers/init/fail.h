/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher and bulkhead-init say when a step of making a box fails: which step, and the errno. They have no
 * use for chains of errors; the worker words it for people.
 */
#pragma once

#include "workers/box/proto.h"

struct bh_fail {
    int error;
    char step[BH_STEP_MAX];
};

/* Sets it and returns -1. `error` is an errno; 0 becomes EIO, so that a failure is never taken for success. */
int bh_fail(struct bh_fail *f, int error, const char *fmt, ...) BH_PRINTF(3, 4);
