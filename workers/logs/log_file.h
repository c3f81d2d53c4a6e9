/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that agents wrote: one log per instance, runs/RUN/logs/INSTANCE.log. Binary safe; a torn last block (crash)
 * is ignored by readers. No agent decides anything in the format but the bytes of its lines.
 *
 * A log has a limit, counted in bytes of output over both streams (line ends are bytes too). Up to the limit all is
 * kept. Beyond it the head (a little less than half of the limit) and the tail (at least three eighths of it) are kept,
 * and what lay between is gone: the reader gives one gap for it, with the exact number of bytes and lines. On disk the
 * head is INSTANCE.log and the tail a few segments INSTANCE.log.1, .2 …, of which the oldest is removed for each new
 * one, so a log takes no more of the disk than its limit and the heads of its blocks, and none of it lies in memory.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"

enum bh_stream { BH_STREAM_STDOUT, BH_STREAM_STDERR };
const char *bh_stream_text(enum bh_stream s);

/*
 * Bytes, with its end: a longer line is stored in pieces. Where the limit is below 16 MiB it is a sixteenth of that.
 */
#define BH_LOG_MAX_LINE (1024 * 1024)

/* What is the same for every line of the log; written at its head. */
struct bh_log_tags {
    const char *run, *stage, *agent, *instance, *box;
    int64_t attempt, try_;
    bool tainted; /* its lines may be others' text */
};

struct bh_log_writer;
/*
 * Makes the file (0600) with its head: an existing one is -BH_E_EXISTS, since an instance id is never reused. `limit`
 * 0: none.
 */
int bh_log_writer_open(const char *path, const struct bh_log_tags *tags, uint64_t limit, struct bh_log_writer **ret,
                       struct bh_err **err) BH_MUST_CHECK;
/*
 * Takes raw bytes as they come from a pipe; splits them into lines and writes all whole ones at once. A line that has
 * no end yet is held back. A line longer than BH_LOG_MAX_LINE is stored in pieces (eol false but for the last).
 * -BH_E_DISK_FULL or IO: the bytes are lost and counted, the caller goes on.
 */
int bh_log_writer_add(struct bh_log_writer *w, enum bh_stream stream, const void *data, size_t len,
                      struct bh_err **err) BH_MUST_CHECK;
/* The stream has ended: its last line, if it had no end, is stored with eol false. */
int bh_log_writer_eof(struct bh_log_writer *w, enum bh_stream stream, struct bh_err **err) BH_MUST_CHECK;
/* Bytes so far that are gone because they lay beyond the limit, and because they could not be written. */
uint64_t bh_log_writer_dropped(const struct bh_log_writer *w);
uint64_t bh_log_writer_lost(const struct bh_log_writer *w);
/* Writes what is held back. NULL is fine. */
void bh_log_writer_close(struct bh_log_writer *w);

struct bh_log_line {
    struct bh_wall time;
    enum bh_stream stream;
    uint64_t seq; /* within the instance, over both streams, from 1 */
    bool eol;
    const char *text; /* borrowed until the next read; not terminated */
    size_t len;
    /*
     * Where true this is no line but what is missing before the next one, of both streams: `seq` is that of the first
     * line missing, the time that of the line behind it, the text empty.
     */
    bool gap;
    uint64_t missing_bytes, missing_lines;
};
char *bh_log_gap_text(const struct bh_log_line *gap); /* "120 bytes of output (3 lines) are missing here"; owned */
struct bh_log_reader;
/*
 * -BH_E_NOT_FOUND; -BH_E_AGAIN without a message where the head is not whole yet (the writer has only just made the
 * file, or died while it did); -BH_E_STORE_CORRUPT where it is no log of ours.
 */
int bh_log_reader_open(const char *path, struct bh_log_reader **ret, struct bh_err **err) BH_MUST_CHECK;
const struct bh_log_tags *bh_log_reader_tags(const struct bh_log_reader *r);
/*
 * 1: a line or a gap; 0: no whole line (yet: call again when the log has grown); negative: error, -BH_E_STORE_CORRUPT
 * where bytes in the middle are no block. A reader that follows gets what the writer removes behind its back if it is
 * fast enough, else a gap.
 */
int bh_log_reader_next(struct bh_log_reader *r, struct bh_log_line *ret, struct bh_err **err) BH_MUST_CHECK;
/* Lets go of descriptor and buffer until the next read, which goes on where this reader is. */
void bh_log_reader_park(struct bh_log_reader *r);
void bh_log_reader_rewind(struct bh_log_reader *r); /* the next read gives the first line again; parks */
void bh_log_reader_close(struct bh_log_reader *r);  /* NULL is fine */
