/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of one log as its writer sees them: the head, then segments of the tail, of which the oldest goes when the
 * limit is reached. Knows blocks, not lines.
 */
#pragma once

#include <sys/uio.h>

#include "workers/logs/log_format_priv.h"

struct bh_log_segments;
int bh_log_segments_open(const char *path, const struct bh_log_tags *tags, uint64_t limit, struct bh_log_segments **ret,
                         struct bh_err **err) BH_MUST_CHECK;
/* The longest block that it takes, so that a head and a tail fit into the limit however it is. */
size_t bh_log_segments_max_block(const struct bh_log_segments *s);
/*
 * Of `ahead` bytes that are about to be written, how many at the front will not be kept whatever comes: they need not
 * be written, but counted (bh_log_segments_skip).
 */
uint64_t bh_log_segments_hopeless(const struct bh_log_segments *s, uint64_t ahead);
void bh_log_segments_skip(struct bh_log_segments *s, uint64_t bytes);
/*
 * Writes a block whole or not at all; its bytes are those of two parts. On failure nothing of it is in the file.
 */
int bh_log_segments_write(struct bh_log_segments *s, const struct bh_log_block *block, const struct iovec parts[2],
                          struct bh_err **err) BH_MUST_CHECK;
uint64_t bh_log_segments_dropped(const struct bh_log_segments *s); /* bytes beyond the limit */
void bh_log_segments_close(struct bh_log_segments *s);             /* NULL is fine */
