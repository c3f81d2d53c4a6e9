/* SPDX-License-Identifier: Apache-2.0 */
/* One line of a log on standard output, for people or as JSON. */
#pragma once

#include "base/clock.h"
#include "workers/logs/log_file.h"

struct bh_log_style {
    bool json, prefix, colour;
    char today[BH_WALL_TEXT]; /* the date is said of lines of other days only */
};
/* A gap without a prefix goes to standard error: what is on standard output is the agents' lines alone. */
void bh_log_print(const struct bh_log_style *style, const struct bh_log_tags *tags, const struct bh_log_line *line);
