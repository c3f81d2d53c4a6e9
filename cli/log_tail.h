/* SPDX-License-Identifier: Apache-2.0 */
/* The last lines that one execution wrote. */
#pragma once

#include "cli/common.h"

/* Adds the last `max` lines of the instance, both streams in order, each escaped and behind `lead`. Gives how many; 0
 * where there is no log. */
size_t bh_log_tail(const struct bh_cli_run *run, const char *instance, size_t max, const char *lead,
                   struct bh_buf *out);
