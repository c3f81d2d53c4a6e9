/* SPDX-License-Identifier: Apache-2.0 */
/* One line of a log on standard output, for people or as JSON. */
#pragma once

#include "workers/logs/log_file.h"

struct bh_log_printer;
struct bh_log_printer *bh_log_printer_new(bool json, bool prefix);
/* A gap without a prefix goes to standard error: what is on standard output is the agents' lines alone. */
void bh_log_print(struct bh_log_printer *p, const struct bh_log_tags *tags, const struct bh_log_line *line);
void bh_log_printer_free(struct bh_log_printer *p); /* NULL is fine */
