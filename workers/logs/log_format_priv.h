/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a log file, shared by its writer and its reader.
 *
 *   head:    8 bytes of magic, u32 length of the tags, the tags (two i64, five texts of u16 length)
 *   record:  u8 mark, u8 flags, u16 zero, u32 length of the text, i64 wall time in us, u64 sequence; the text
 *
 * All numbers are little-endian. Nothing in a record but its text comes from an agent, and a reader finds the next
 * record by length alone, so no text can look like a record.
 */
#pragma once

#include "workers/logs/log_file.h"

struct bh_buf;

#define BH_LOG_MAGIC "bhlog\x01\r\n"
#define BH_LOG_MAGIC_LEN 8
#define BH_LOG_HEAD_LEN (BH_LOG_MAGIC_LEN + 4)
#define BH_LOG_MAX_TAGS 65536
#define BH_LOG_RECORD_LEN 24
#define BH_LOG_MARK 0x9e
#define BH_LOG_FLAG_STDERR 1u
#define BH_LOG_FLAG_EOL 2u

void bh_log_head_encode(struct bh_buf *out, const struct bh_log_tags *tags);
/*
 * Of the tags' length, from the first BH_LOG_HEAD_LEN bytes. False where they are no head of ours.
 */
bool bh_log_head_decode(const char *data, uint32_t *ret_len);
/* Tags with texts that the caller owns (bh_log_tags_fini). False where they are damaged. */
bool bh_log_tags_decode(const char *data, size_t len, struct bh_log_tags *ret);
void bh_log_tags_fini(struct bh_log_tags *tags);

/* `line` without its text. */
void bh_log_record_encode(struct bh_buf *out, const struct bh_log_line *line);
/* Fills all of `ret` but its text. False where the bytes are no record. */
bool bh_log_record_decode(const char *data, struct bh_log_line *ret);
