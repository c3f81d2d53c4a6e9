/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one log file, also while it grows and after its writer has died in the middle of a record: a last record that
 * is not whole, or a tail of zeros that a crash of the host left, is no line. Trusts nothing in the file: lengths are
 * bounded before anything is allocated.
 */
#include <fcntl.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workers/logs/log_format_priv.h"

#define CHUNK (64 * 1024)

struct bh_log_reader {
    int fd;
    char *path;
    struct bh_log_tags tags;
    off_t offset; /* in the file, of what is behind `buf` */
    struct bh_buf buf;
    size_t at; /* in buf: what is before it has been given out */
};

static const char *here(const struct bh_log_reader *r)
{
    return r->buf.data + r->at;
}

/* Reads until `want` bytes lie at here() or the file has no more. 1: they do, 0: they do not. */
static int fill(struct bh_log_reader *r, size_t want, struct bh_err **err)
{
    if (r->buf.len - r->at >= want)
        return 1;
    bh_buf_consume(&r->buf, r->at);
    r->at = 0;
    while (r->buf.len < want) {
        size_t ask = want - r->buf.len > CHUNK ? want - r->buf.len : CHUNK;
        char *room = bh_buf_reserve(&r->buf, ask);
        ssize_t n = pread(r->fd, room, ask, r->offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot read the log '%s'", r->path);
        if (n == 0)
            return 0;
        r->buf.len += (size_t)n;
        r->buf.data[r->buf.len] = '\0';
        r->offset += n;
    }
    return 1;
}

static int damaged(const struct bh_log_reader *r, struct bh_err **err)
{
    long long at = (long long)r->offset - (long long)(r->buf.len - r->at);
    int rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the log '%s' is damaged at byte %lld", r->path, at);
    bh_err_hint(err, "the lines before that byte can still be read");
    return rc;
}

static int read_head(struct bh_log_reader *r, struct bh_err **err)
{
    uint32_t len;
    int rc = fill(r, BH_LOG_HEAD_LEN, err);
    if (rc <= 0)
        return rc < 0 ? rc : -BH_E_AGAIN;
    if (!bh_log_head_decode(here(r), &len))
        return damaged(r, err);
    r->at += BH_LOG_HEAD_LEN;
    rc = fill(r, len, err);
    if (rc <= 0)
        return rc < 0 ? rc : -BH_E_AGAIN;
    if (!bh_log_tags_decode(here(r), len, &r->tags))
        return damaged(r, err);
    r->at += len;
    return 0;
}

int bh_log_reader_open(const char *path, struct bh_log_reader **ret, struct bh_err **err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return bh_err_set(err, errno == ENOENT ? BH_E_NOT_FOUND : BH_E_IO, errno, "cannot open the log '%s'", path);
    struct bh_log_reader *r = bh_alloc(sizeof(*r));
    r->fd = fd;
    r->path = bh_strdup(path);
    bh_buf_init(&r->buf);
    int rc = read_head(r, err);
    if (rc != 0) {
        bh_log_reader_close(r);
        return rc;
    }
    *ret = r;
    return 0;
}

const struct bh_log_tags *bh_log_reader_tags(const struct bh_log_reader *r)
{
    return &r->tags;
}

static bool all_zero(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i])
            return false;
    }
    return true;
}

int bh_log_reader_next(struct bh_log_reader *r, struct bh_log_line *ret, struct bh_err **err)
{
    struct bh_log_line line;
    int rc = fill(r, BH_LOG_RECORD_LEN, err);
    if (rc <= 0)
        return rc;
    if (!bh_log_record_decode(here(r), &line))
        return all_zero(here(r), BH_LOG_RECORD_LEN) ? 0 : damaged(r, err);
    rc = fill(r, BH_LOG_RECORD_LEN + line.len, err);
    if (rc <= 0)
        return rc;
    line.text = here(r) + BH_LOG_RECORD_LEN;
    r->at += BH_LOG_RECORD_LEN + line.len;
    *ret = line;
    return 1;
}

void bh_log_reader_close(struct bh_log_reader *r)
{
    if (!r)
        return;
    bh_close(r->fd);
    bh_buf_fini(&r->buf);
    bh_log_tags_fini(&r->tags);
    bh_free(r->path);
    bh_free(r);
}
