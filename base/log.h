/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of our own processes (not of agents): an event name and key=value fields, one write() per
 * line to stderr or to a file. Libraries do not log, except at debug level. Saves and restores errno.
 *     bh_log(BH_LOG_INFO, "run.state", "run", id, "from", "queued", "to", "running", NULL);
 */
#pragma once

#include "base/compiler.h"

enum bh_log_level { BH_LOG_DEBUG, BH_LOG_INFO, BH_LOG_WARN, BH_LOG_ERROR, BH_LOG_OFF };

/* `fd` is borrowed for the life of the process; default stderr, level WARN (or
 * $BULKHEAD_LOG=debug|info|warn|error|off). */
void bh_log_setup(int fd, enum bh_log_level level);
enum bh_log_level bh_log_level_from_env(enum bh_log_level fallback);
/* Fields are pairs of const char *, ended by NULL. Values are escaped. */
void bh_log(enum bh_log_level level, const char *event, ...) __attribute__((sentinel));
