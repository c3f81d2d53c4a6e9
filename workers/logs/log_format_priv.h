/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a log's files, shared by its writer and its reader.
 *
 *   head:   8 bytes of magic, u32 length of the tags, the tags (two i64, five texts of u16 length)
 *   block:  u8 mark, u8 flags, u16 zero, u32 length, i64 wall time in us, u64 sequence, u64 position; the bytes
 *
 * All numbers are little-endian. A block holds what came from one stream at one time: whole lines with their ends, or a
 * piece of a line that is too long or was never ended. Its sequence is that of its first line; its position counts the
 * bytes of output, of both streams, before it, kept or not: where it is not the end of the block before, something is
 * missing. Every file of a log begins with the same head. A block with BH_LOG_FLAG_END holds nothing and is the last of
 * its file: the next segment is there by then. Nothing in a block but its bytes comes from an agent, and a reader finds
 * the next block by length alone, so no text can look like a block.
 */
#pragma once

#include "workers/logs/log_file.h"

struct bh_buf;

#define BH_LOG_MAGIC "bhlog\x02\r\n"
#define BH_LOG_MAGIC_LEN 8
#define BH_LOG_HEAD_LEN (BH_LOG_MAGIC_LEN + 4)
#define BH_LOG_MAX_TAGS 65536
#define BH_LOG_BLOCK_LEN 32
#define BH_LOG_MARK 0x9e
#define BH_LOG_FLAG_STDERR 1u
#define BH_LOG_FLAG_END 2u

void bh_log_head_encode(struct bh_buf *out, const struct bh_log_tags *tags);
/*
 * Of the tags' length, from the first BH_LOG_HEAD_LEN bytes. False where they are no head of ours.
 */
bool bh_log_head_decode(const char *data, uint32_t *ret_len);
/* Tags with texts that the caller owns (bh_log_tags_fini). False where they are damaged. */
bool bh_log_tags_decode(const char *data, size_t len, struct bh_log_tags *ret);
void bh_log_tags_fini(struct bh_log_tags *tags);

struct bh_log_block {
    struct bh_wall time;
    enum bh_stream stream;
    bool end;
    uint64_t seq, pos;
    size_t len;
};
void bh_log_block_encode(char out[static BH_LOG_BLOCK_LEN], const struct bh_log_block *block);
/* False where the bytes are no block. */
bool bh_log_block_decode(const char *data, struct bh_log_block *ret);

/* The file of segment `number`; 0 is the head. The caller owns it. */
char *bh_log_segment_path(const char *path, uint64_t number);
/* The number in the name of a segment of the log called `base` ("INSTANCE.log"); 0 where it is none. */
uint64_t bh_log_segment_number(const char *name, const char *base);
