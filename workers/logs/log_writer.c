/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From bytes as they come to blocks of whole lines. Owns, per stream, the line that has no end yet; what has one is
 * written at once, from where it lies.
 *
 * Never fails its caller for good: what cannot be written is lost and counted.
 */
#include <errno.h>

#include "base/buf.h"
#include "base/mem.h"
#include "workers/logs/log_segments_priv.h"

struct bh_log_writer {
    struct bh_log_segments *files;
    struct bh_buf begun[2]; /* per stream: no end yet; shorter than a block may be */
    uint64_t seq, pos;      /* of the next block */
    uint64_t lost;
};

int bh_log_writer_open(const char *path, const struct bh_log_tags *tags, uint64_t limit, struct bh_log_writer **ret,
                       struct bh_err **err)
{
    struct bh_log_segments *files = NULL;
    int rc = bh_log_segments_open(path, tags, limit, &files, err);
    if (rc != 0)
        return rc;
    struct bh_log_writer *w = bh_alloc(sizeof(*w));
    w->files = files;
    bh_buf_init(&w->begun[0]);
    bh_buf_init(&w->begun[1]);
    w->seq = 1;
    *ret = w;
    return 0;
}

/* In portions of a fixed length, which a compiler turns into vector instructions. */
static uint64_t count_ends(const char *data, size_t len)
{
    enum { PORTION = 128 };
    uint64_t n = 0;
    for (; len >= PORTION; data += PORTION, len -= PORTION) {
        unsigned char here = 0;
        for (int i = 0; i < PORTION; i++)
            here = (unsigned char)(here + (data[i] == '\n'));
        n += here;
    }
    for (size_t i = 0; i < len; i++)
        n += data[i] == '\n';
    return n;
}

static uint64_t count_lines(const char *data, size_t len)
{
    return len == 0 ? 1 : count_ends(data, len) + (data[len - 1] != '\n'); /* 0: what had begun ends here */
}

/* What had begun and `len` bytes behind it leave, as lines, in whatever way. */
static void count_off(struct bh_log_writer *w, enum bh_stream stream, const char *data, size_t len)
{
    w->seq += count_lines(data, len);
    w->pos += w->begun[stream].len + len;
    bh_buf_clear(&w->begun[stream]);
}

static int emit(struct bh_log_writer *w, enum bh_stream stream, const char *data, size_t len, struct bh_wall now,
                struct bh_err **err)
{
    struct bh_buf *begun = &w->begun[stream];
    const struct bh_log_block block = {
        .time = now, .stream = stream, .seq = w->seq, .pos = w->pos, .len = begun->len + len};
    const struct iovec parts[2] = {{begun->data, begun->len}, {(void *)(uintptr_t)data, len}};
    int rc = bh_log_segments_write(w->files, &block, parts, err);
    if (rc != 0)
        w->lost += block.len;
    count_off(w, stream, data, len);
    return rc;
}

/* Takes whole lines, a piece of one, or what has begun; gives how many bytes. */
static size_t take(struct bh_log_writer *w, enum bh_stream stream, const char *data, size_t len, struct bh_wall now,
                   int *ret_rc, struct bh_err **err)
{
    struct bh_buf *begun = &w->begun[stream];
    size_t room = bh_log_segments_max_block(w->files) - begun->len, look = len < room ? len : room;
    const char *last = memrchr(data, '\n', look);
    size_t took = last ? (size_t)(last - data) + 1 : look;
    *ret_rc = 0;
    if (last || look == room)
        *ret_rc = emit(w, stream, data, took, now, err);
    else
        bh_buf_add(begun, data, took);
    return took;
}

/* Where more comes at once than the limit, its front need not be written; cut behind a line's end if one is near. */
static size_t skip_hopeless(struct bh_log_writer *w, enum bh_stream stream, const char *data, size_t len)
{
    size_t skip = (size_t)bh_log_segments_hopeless(w->files, len);
    if (skip == 0)
        return 0;
    const char *end = memchr(data + skip - 1, '\n', bh_log_segments_max_block(w->files));
    if (end)
        skip = (size_t)(end - data) + 1;
    bh_log_segments_skip(w->files, w->begun[stream].len + skip);
    count_off(w, stream, data, skip);
    return skip;
}

int bh_log_writer_add(struct bh_log_writer *w, enum bh_stream stream, const void *data, size_t len, struct bh_err **err)
{
    struct bh_wall now = bh_wall_now();
    const char *at = data;
    int first = 0;
    while (len > 0) {
        int rc = 0;
        size_t took = skip_hopeless(w, stream, at, len);
        if (took == 0)
            took = take(w, stream, at, len, now, &rc, first ? NULL : err);
        if (first == 0)
            first = rc;
        at += took;
        len -= took;
    }
    return first;
}

int bh_log_writer_eof(struct bh_log_writer *w, enum bh_stream stream, struct bh_err **err)
{
    int rc = w->begun[stream].len > 0 ? emit(w, stream, "", 0, bh_wall_now(), err) : 0;
    bh_buf_fini(&w->begun[stream]);
    return rc;
}

uint64_t bh_log_writer_dropped(const struct bh_log_writer *w)
{
    return bh_log_segments_dropped(w->files);
}

uint64_t bh_log_writer_lost(const struct bh_log_writer *w)
{
    return w->lost;
}

void bh_log_writer_close(struct bh_log_writer *w)
{
    if (!w)
        return;
    int saved = errno;
    for (int stream = BH_STREAM_STDOUT; stream <= BH_STREAM_STDERR; stream++) {
        int rc = bh_log_writer_eof(w, (enum bh_stream)stream, NULL);
        (void)rc; /* nobody is left to be told */
    }
    bh_log_segments_close(w->files);
    bh_free(w);
    errno = saved;
}
