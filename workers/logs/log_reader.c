/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one log, file after file, also while it grows and loses its oldest segments, and after its writer has died in
 * the middle of a block: a last block that is not whole, or a tail of zeros that a crash of the host left, is no line.
 * Trusts nothing in the files: lengths are bounded before anything is allocated. Holds one block in memory.
 */
#include <dirent.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "workers/logs/log_format_priv.h"

enum { FIRST_READ = 4 * 1024, CHUNK = 64 * 1024 }; /* many logs are short, and a merge holds many of them open */

struct bh_log_reader {
    char *path;
    struct bh_log_tags tags;
    off_t first; /* where the blocks of every file begin */

    int fd; /* -1: parked */
    uint64_t number;
    off_t offset; /* in the file, of what is behind `buf` */
    struct bh_buf buf;
    size_t at; /* in buf: what is before it has been given out */

    struct bh_log_block block; /* the one that is being given out: so much of it is left, at `at` */
    size_t left;
    uint64_t seq, pos; /* of the next line, of the next block, if nothing is missing */
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
        size_t usual = r->offset == 0 ? FIRST_READ : CHUNK;
        size_t ask = want - r->buf.len > usual ? want - r->buf.len : usual;
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
    BH_CLEANUP_FREE char *file = bh_log_segment_path(r->path, r->number);
    long long at = (long long)r->offset - (long long)(r->buf.len - r->at);
    int rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the log '%s' is damaged at byte %lld", file, at);
    bh_err_hint(err, "the lines before that byte can still be read");
    return rc;
}

static int open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static int cannot_open(const char *path, int saved_errno, struct bh_err **err)
{
    enum bh_code code = saved_errno == ENOENT ? BH_E_NOT_FOUND : BH_E_IO;
    return bh_err_set(err, code, saved_errno, "cannot open the log '%s'", path);
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
    r->first = BH_LOG_HEAD_LEN + (off_t)len;
    return 0;
}

int bh_log_reader_open(const char *path, struct bh_log_reader **ret, struct bh_err **err)
{
    int fd = open_file(path);
    if (fd < 0)
        return cannot_open(path, errno, err);
    struct bh_log_reader *r = bh_alloc(sizeof(*r));
    r->fd = fd;
    r->path = bh_strdup(path);
    r->seq = 1;
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

/* --- from file to file --- */

/* The oldest segment behind the present one that is there; 0 where there is none. */
static int find_segment(const struct bh_log_reader *r, uint64_t *ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(r->path);
    const char *slash = strrchr(r->path, '/'), *base = slash ? slash + 1 : r->path;
    DIR *dir = opendir(folder);
    *ret = 0;
    if (!dir)
        return bh_err_set(err, BH_E_IO, errno, "cannot read the logs in '%s'", folder);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        uint64_t n = bh_log_segment_number(e->d_name, base);
        if (n > r->number && (*ret == 0 || n < *ret))
            *ret = n;
    }
    closedir(dir);
    return 0;
}

static void enter_file(struct bh_log_reader *r, int fd, uint64_t number)
{
    bh_close(r->fd);
    r->fd = fd;
    r->number = number;
    r->offset = r->first; /* its head is that of the first file, byte by byte */
    bh_buf_clear(&r->buf);
    r->at = 0;
}

/*
 * To the segment behind this one or, where the writer has removed that by now, to the oldest that it left. 1: there;
 * 0: none.
 */
static int go_on(struct bh_log_reader *r, struct bh_err **err)
{
    uint64_t number = r->number + 1;
    for (;;) {
        BH_CLEANUP_FREE char *path = bh_log_segment_path(r->path, number);
        int fd = open_file(path);
        if (fd >= 0) {
            enter_file(r, fd, number);
            return 1;
        }
        if (errno != ENOENT)
            return cannot_open(path, errno, err);
        int rc = find_segment(r, &number, err);
        if (rc != 0 || number == 0)
            return rc;
    }
}

/* A parked reader's segment may be gone, with the rest of its block; the head never is. */
static int unpark(struct bh_log_reader *r, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_log_segment_path(r->path, r->number);
    r->fd = open_file(path);
    if (r->fd >= 0)
        return 1;
    if (errno != ENOENT || r->number == 0)
        return cannot_open(path, errno, err);
    r->pos -= r->left;
    r->left = 0;
    return go_on(r, err);
}

/* What is not given out yet is read again: a writer that fails cuts a block off, and writes another in its place. */
static void forget_unread(struct bh_log_reader *r)
{
    r->offset -= (off_t)(r->buf.len - r->at);
    bh_buf_fini(&r->buf);
    r->at = 0;
}

void bh_log_reader_park(struct bh_log_reader *r)
{
    forget_unread(r);
    bh_close(BH_TAKE_FD(r->fd));
}

void bh_log_reader_rewind(struct bh_log_reader *r)
{
    bh_log_reader_park(r);
    r->number = 0;
    r->offset = r->first;
    r->left = 0;
    r->seq = 1;
    r->pos = 0;
}

/* --- lines --- */

static bool all_zero(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i])
            return false;
    }
    return true;
}

/* 1: a block lies whole at here(), behind its head; 0: none does yet. */
static int next_block(struct bh_log_reader *r, struct bh_log_block *ret, struct bh_err **err)
{
    for (;;) {
        int rc = fill(r, BH_LOG_BLOCK_LEN, err);
        if (rc <= 0)
            return rc;
        if (!bh_log_block_decode(here(r), ret))
            return all_zero(here(r), BH_LOG_BLOCK_LEN) ? 0 : damaged(r, err);
        if (!ret->end)
            break;
        rc = go_on(r, err);
        if (rc <= 0)
            return rc;
    }
    if (ret->pos < r->pos || ret->seq < r->seq)
        return damaged(r, err);
    return fill(r, BH_LOG_BLOCK_LEN + ret->len, err);
}

static struct bh_log_line gap_before(struct bh_log_reader *r, const struct bh_log_block *block)
{
    const struct bh_log_line line = {.time = block->time,
                                     .stream = block->stream,
                                     .seq = r->seq,
                                     .text = "",
                                     .gap = true,
                                     .missing_bytes = block->pos - r->pos,
                                     .missing_lines = block->seq - r->seq};
    r->pos = block->pos;
    r->seq = block->seq;
    return line;
}

static struct bh_log_line line_of_block(struct bh_log_reader *r)
{
    const char *text = here(r), *end = memchr(text, '\n', r->left);
    size_t len = end ? (size_t)(end - text) : r->left, took = len + (end != NULL);
    const struct bh_log_line line = {.time = r->block.time,
                                     .stream = r->block.stream,
                                     .seq = r->seq++,
                                     .eol = end != NULL,
                                     .text = text,
                                     .len = len};
    r->at += took;
    r->left -= took;
    return line;
}

/* Where a block is whole it becomes the one that is given out, unless something is missing before it. */
static int enter_block(struct bh_log_reader *r, struct bh_log_line *ret, struct bh_err **err)
{
    struct bh_log_block block;
    int rc = next_block(r, &block, err);
    if (rc <= 0)
        return rc;
    ret->gap = block.pos > r->pos;
    if (ret->gap) {
        *ret = gap_before(r, &block);
        return 1;
    }
    r->block = block;
    r->left = block.len;
    r->pos += block.len;
    r->at += BH_LOG_BLOCK_LEN;
    return 1;
}

int bh_log_reader_next(struct bh_log_reader *r, struct bh_log_line *ret, struct bh_err **err)
{
    int rc = r->fd < 0 ? unpark(r, err) : 1;
    ret->gap = false;
    if (rc == 1)
        rc = r->left == 0 ? enter_block(r, ret, err) : fill(r, r->left, err);
    if (rc == 1 && !ret->gap)
        *ret = line_of_block(r);
    if (rc == 0)
        forget_unread(r);
    return rc;
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
