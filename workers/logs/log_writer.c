/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one log file. Owns the descriptor and what is not written yet: per stream the line that has no end yet, and
 * whole records. The file always ends with a whole record as far as this process can help it: after a failed write it
 * is cut back to one, and where even that fails nothing more is written.
 *
 * Never fails its caller for good: what cannot be written is dropped and counted.
 */
#include <fcntl.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workers/logs/log_format_priv.h"

#define FLUSH_AT (256 * 1024)

struct bh_log_writer {
    int fd;
    char *path;
    struct bh_buf line[2]; /* per stream: begun, no end yet */
    struct bh_buf out;     /* whole records */
    uint64_t seq;
    off_t end; /* of the file, behind its last whole record */
    uint64_t dropped;
    bool broken; /* the file may end with half a record that could not be cut off */
};

int bh_log_writer_open(const char *path, const struct bh_log_tags *tags, struct bh_log_writer **ret,
                       struct bh_err **err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return bh_err_set(err, errno == EEXIST ? BH_E_EXISTS : BH_E_IO, errno, "cannot make the log '%s'", path);
    BH_CLEANUP_BUF struct bh_buf head = BH_BUF_INIT;
    bh_log_head_encode(&head, tags);
    if (bh_write_all(fd, head.data, head.len) < 0) {
        int rc = bh_err_set(err, BH_E_IO, errno, "cannot write the log '%s'", path);
        bh_close(fd);
        return rc;
    }
    struct bh_log_writer *w = bh_alloc(sizeof(*w));
    w->fd = fd;
    w->path = bh_strdup(path);
    bh_buf_init(&w->line[0]);
    bh_buf_init(&w->line[1]);
    bh_buf_init(&w->out);
    w->end = (off_t)head.len;
    *ret = w;
    return 0;
}

/* How many bytes of records lie whole within the first `written` bytes of `out`; counts the texts behind them. */
static size_t whole_records(const struct bh_buf *out, size_t written, uint64_t *ret_lost)
{
    size_t whole = 0;
    *ret_lost = 0;
    for (size_t at = 0; at < out->len;) {
        struct bh_log_line line;
        BH_ASSERT(bh_log_record_decode(out->data + at, &line));
        at += BH_LOG_RECORD_LEN + line.len;
        if (at <= written)
            whole = at;
        else
            *ret_lost += line.len;
    }
    return whole;
}

static int drop_unwritten(struct bh_log_writer *w, size_t written, int saved_errno, struct bh_err **err)
{
    uint64_t lost;
    w->end += (off_t)whole_records(&w->out, written, &lost);
    w->dropped += lost;
    bh_buf_clear(&w->out);
    if (!w->broken && ftruncate(w->fd, w->end) < 0)
        w->broken = true;
    return bh_err_set(err, BH_E_IO, saved_errno, "cannot write the log '%s'", w->path);
}

int bh_log_writer_flush(struct bh_log_writer *w, struct bh_err **err)
{
    size_t done = 0;
    if (w->broken && w->out.len > 0)
        return drop_unwritten(w, 0, EIO, err);
    while (done < w->out.len) {
        ssize_t n = pwrite(w->fd, w->out.data + done, w->out.len - done, w->end + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return drop_unwritten(w, done, errno, err);
        done += (size_t)n;
    }
    w->end += (off_t)done;
    bh_buf_clear(&w->out);
    return 0;
}

static int emit(struct bh_log_writer *w, enum bh_stream stream, bool eol, const char *data, size_t len,
                struct bh_wall now, struct bh_err **err)
{
    struct bh_buf *begun = &w->line[stream];
    struct bh_log_line line = {.time = now, .stream = stream, .seq = ++w->seq, .eol = eol, .len = begun->len + len};
    bh_log_record_encode(&w->out, &line);
    bh_buf_add(&w->out, begun->data, begun->len);
    bh_buf_add(&w->out, data, len);
    bh_buf_clear(begun);
    return w->out.len >= FLUSH_AT ? bh_log_writer_flush(w, err) : 0;
}

/* Takes the first line, or piece of one, from the bytes; gives how many it took. */
static size_t take_piece(struct bh_log_writer *w, enum bh_stream stream, const char *data, size_t len,
                         struct bh_wall now, int *ret_rc, struct bh_err **err)
{
    struct bh_buf *begun = &w->line[stream];
    size_t room = BH_LOG_MAX_LINE - begun->len;
    size_t look = len < room ? len : room;
    const char *end = memchr(data, '\n', look);
    *ret_rc = 0;
    if (end) {
        *ret_rc = emit(w, stream, true, data, (size_t)(end - data), now, err);
        return (size_t)(end - data) + 1;
    }
    if (look == room && look < len && data[look] == '\n') { /* exactly the longest line */
        *ret_rc = emit(w, stream, true, data, look, now, err);
        return look + 1;
    }
    if (look == room && look < len) {
        *ret_rc = emit(w, stream, false, data, look, now, err);
        return look;
    }
    bh_buf_add(begun, data, look);
    return look;
}

int bh_log_writer_add(struct bh_log_writer *w, enum bh_stream stream, const void *data, size_t len, struct bh_err **err)
{
    struct bh_wall now = bh_wall_now();
    const char *at = data;
    int first = 0;
    while (len > 0) {
        int rc;
        size_t took = take_piece(w, stream, at, len, now, &rc, first ? NULL : err);
        if (rc != 0 && first == 0)
            first = rc;
        at += took;
        len -= took;
    }
    return first;
}

int bh_log_writer_eof(struct bh_log_writer *w, enum bh_stream stream, struct bh_err **err)
{
    if (w->line[stream].len == 0)
        return 0;
    return emit(w, stream, false, "", 0, bh_wall_now(), err);
}

uint64_t bh_log_writer_dropped(const struct bh_log_writer *w)
{
    return w->dropped;
}

void bh_log_writer_close(struct bh_log_writer *w)
{
    if (!w)
        return;
    int saved = errno;
    for (int stream = BH_STREAM_STDOUT; stream <= BH_STREAM_STDERR; stream++) {
        int rc = bh_log_writer_eof(w, (enum bh_stream)stream, NULL);
        if (rc == 0)
            rc = bh_log_writer_flush(w, NULL);
        (void)rc; /* nobody is left to be told */
    }
    bh_close(w->fd);
    bh_buf_fini(&w->line[0]);
    bh_buf_fini(&w->line[1]);
    bh_buf_fini(&w->out);
    bh_free(w->path);
    bh_free(w);
    errno = saved;
}
