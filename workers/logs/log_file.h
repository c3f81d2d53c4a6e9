/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that agents wrote: one append-only file per instance, runs/RUN/logs/INSTANCE.log. Binary safe; a torn last
 * record (crash) is ignored by readers. No agent decides anything in the format but the bytes of its lines.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"

enum bh_stream { BH_STREAM_STDOUT, BH_STREAM_STDERR };
const char *bh_stream_text(enum bh_stream s);

#define BH_LOG_MAX_LINE (1024 * 1024) /* bytes: a longer line is stored in pieces */

/* What is the same for every line of the file; written at its head. */
struct bh_log_tags {
    const char *run, *stage, *agent, *instance, *box;
    int64_t attempt, try_;
};

struct bh_log_writer;
/* Makes the file (0600) with its head: an existing one is -BH_E_EXISTS, since an instance id is never reused. */
int bh_log_writer_open(const char *path, const struct bh_log_tags *tags, struct bh_log_writer **ret,
                       struct bh_err **err) BH_MUST_CHECK;
/*
 * Takes raw bytes as they come from a pipe; splits them into lines. A line longer than 1 MiB is stored in pieces (eol
 * false but for the last). Buffered: what is not written yet is written by _flush (each loop turn) and _close.
 * -BH_E_DISK_FULL or IO: the bytes are dropped and counted, the caller goes on.
 */
int bh_log_writer_add(struct bh_log_writer *w, enum bh_stream stream, const void *data, size_t len,
                      struct bh_err **err) BH_MUST_CHECK;
/* The stream has ended: its last line, if it had no end, is stored with eol false. */
int bh_log_writer_eof(struct bh_log_writer *w, enum bh_stream stream, struct bh_err **err) BH_MUST_CHECK;
int bh_log_writer_flush(struct bh_log_writer *w, struct bh_err **err) BH_MUST_CHECK;
/* Bytes of lines that were dropped so far because they could not be written. */
uint64_t bh_log_writer_dropped(const struct bh_log_writer *w);
/* Writes what is buffered, a line without an end too. NULL is fine. */
void bh_log_writer_close(struct bh_log_writer *w);

struct bh_log_line {
    struct bh_wall time;
    enum bh_stream stream;
    uint64_t seq; /* within the instance, over both streams, from 1 */
    bool eol;
    const char *text; /* borrowed until the next read; not terminated */
    size_t len;
};
struct bh_log_reader;
/*
 * -BH_E_NOT_FOUND; -BH_E_AGAIN without a message where the head is not whole yet (the writer has only just made the
 * file, or died while it did); -BH_E_STORE_CORRUPT where it is no log of ours.
 */
int bh_log_reader_open(const char *path, struct bh_log_reader **ret, struct bh_err **err) BH_MUST_CHECK;
const struct bh_log_tags *bh_log_reader_tags(const struct bh_log_reader *r);
/*
 * 1: a line; 0: no whole line (yet: call again when the file has grown); negative: error, -BH_E_STORE_CORRUPT where
 * bytes in the middle are no record.
 */
int bh_log_reader_next(struct bh_log_reader *r, struct bh_log_line *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_log_reader_close(struct bh_log_reader *r); /* NULL is fine */
