/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of the limit L: the head takes at most L/2; a segment is full from L/16 on; no block is longer than
 * L/16. Before a block is written the oldest closed segments go until it fits, so what is kept never exceeds L and
 * nothing goes before L is reached. A segment is shorter than L/8, so after one went the tail has at least
 * L - L/16 - L/8 - L/2 and the block to come: more than three eighths of L, a rounding aside.
 *
 * L counts payload, and a block has a head: many short ones would take many times L. So the files are bounded too, by
 * the same shares of a second budget D = max(2L, 64 KiB) that counts all there is in them: the head takes at most D/2,
 * a segment is full from D/16 on, the oldest closed ones go until the next block fits into D. Blocks of 32 bytes and
 * more never meet it. What is dropped is counted in payload whichever of the two was met.
 *
 * Each file ends with a whole block as far as this process can help it: after a failed write it is cut back to one,
 * and where even that fails nothing more is written.
 */
#include "workers/logs/log_segments_priv.h"

#include <fcntl.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#define PARTS 16       /* of the limit */
#define MAX_CLOSED 32u /* closed segments at once: each has a sixteenth of the one budget or of the other */
#define LEAST_DISK (64 * 1024)

struct closed {
    uint64_t number, bytes, disk;
};

struct bh_log_segments {
    char *path;
    struct bh_buf head; /* of every file */
    uint64_t limit;     /* 0: none */
    uint64_t disk_limit;
    size_t max_block;

    int fd; /* of the file that grows, */
    uint64_t number, bytes;
    off_t end;   /* behind its last whole block */
    bool broken; /* it may end with half a block that could not be cut off */

    struct closed closed[MAX_CLOSED]; /* a ring, the oldest at `oldest` */
    unsigned oldest, n_closed;
    uint64_t kept, dropped;
    uint64_t disk; /* length of all files */
};

static int make_file(const struct bh_log_segments *s, const char *path, int *ret, struct bh_err **err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return bh_err_set(err, errno == EEXIST ? BH_E_EXISTS : BH_E_IO, errno, "cannot make the log '%s'", path);
    if (bh_write_all(fd, s->head.data, s->head.len) < 0) {
        int rc = bh_err_set(err, BH_E_IO, errno, "cannot write the log '%s'", path);
        bh_close(fd);
        return rc;
    }
    *ret = fd;
    return 0;
}

static size_t max_block(uint64_t limit)
{
    uint64_t part = limit / PARTS;
    if (limit == 0 || part > BH_LOG_MAX_LINE)
        return BH_LOG_MAX_LINE;
    return part == 0 ? 1 : (size_t)part;
}

static uint64_t disk_limit(uint64_t limit)
{
    if (limit > UINT64_MAX / 4)
        return UINT64_MAX / 2;
    return limit < LEAST_DISK / 2 ? LEAST_DISK : 2 * limit;
}

int bh_log_segments_open(const char *path, const struct bh_log_tags *tags, uint64_t limit, struct bh_log_segments **ret,
                         struct bh_err **err)
{
    struct bh_log_segments *s = bh_alloc(sizeof(*s));
    s->path = bh_strdup(path);
    bh_buf_init(&s->head);
    bh_log_head_encode(&s->head, tags);
    s->limit = limit;
    s->disk_limit = disk_limit(limit);
    s->max_block = max_block(limit);
    s->fd = -1;
    s->end = (off_t)s->head.len;
    s->disk = s->head.len;
    int rc = make_file(s, path, &s->fd, err);
    if (rc != 0) {
        bh_log_segments_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

size_t bh_log_segments_max_block(const struct bh_log_segments *s)
{
    return s->max_block;
}

uint64_t bh_log_segments_dropped(const struct bh_log_segments *s)
{
    return s->dropped;
}

uint64_t bh_log_segments_hopeless(const struct bh_log_segments *s, uint64_t ahead)
{
    if (s->limit == 0 || s->number == 0 || ahead <= s->limit + s->max_block)
        return 0;
    return ahead - s->limit - s->max_block;
}

void bh_log_segments_skip(struct bh_log_segments *s, uint64_t bytes)
{
    s->dropped += bytes;
}

/* --- writing --- */

static int cut_back(struct bh_log_segments *s, int saved_errno, struct bh_err **err)
{
    if (!s->broken && ftruncate(s->fd, s->end) < 0)
        s->broken = true;
    return bh_err_set(err, BH_E_IO, saved_errno, "cannot write the log '%s'", s->path);
}

static void advance(struct iovec *iov, size_t n, size_t done)
{
    for (size_t i = 0; i < n; i++) {
        size_t part = done < iov[i].iov_len ? done : iov[i].iov_len;
        iov[i].iov_base = (char *)iov[i].iov_base + part;
        iov[i].iov_len -= part;
        done -= part;
    }
}

static int append(struct bh_log_segments *s, const struct bh_log_block *block, const struct iovec *parts,
                  struct bh_err **err)
{
    char head[BH_LOG_BLOCK_LEN];
    struct iovec iov[3] = {{head, sizeof(head)}, parts[0], parts[1]};
    size_t total = sizeof(head) + block->len;
    if (s->broken)
        return cut_back(s, EIO, err);
    bh_log_block_encode(head, block);
    for (size_t done = 0; done < total;) {
        ssize_t n = pwritev(s->fd, iov, 3, s->end + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cut_back(s, errno, err);
        done += (size_t)n;
        advance(iov, 3, (size_t)n);
    }
    s->end += (off_t)total;
    s->disk += total;
    return 0;
}

/* --- the tail --- */

static void drop_oldest(struct bh_log_segments *s)
{
    const struct closed *c = &s->closed[s->oldest];
    BH_CLEANUP_FREE char *path = bh_log_segment_path(s->path, c->number);
    (void)unlink(path);
    s->kept -= c->bytes;
    s->disk -= c->disk;
    s->dropped += c->bytes;
    s->oldest = (s->oldest + 1) % MAX_CLOSED;
    s->n_closed--;
}

static void switch_to(struct bh_log_segments *s, int fd)
{
    if (s->number > 0) {
        if (s->n_closed == MAX_CLOSED)
            drop_oldest(s);
        s->closed[(s->oldest + s->n_closed++) % MAX_CLOSED] =
            (struct closed){.number = s->number, .bytes = s->bytes, .disk = (uint64_t)s->end};
    }
    bh_close(s->fd);
    s->fd = fd;
    s->number++;
    s->bytes = 0;
    s->end = (off_t)s->head.len;
    s->disk += s->head.len;
}

/* The next file is there before the end of the last is written: a reader that sees the end may look for it. */
static int begin_segment(struct bh_log_segments *s, struct bh_err **err)
{
    static const struct bh_log_block end = {.end = true};
    static const struct iovec nothing[2];
    BH_CLEANUP_FREE char *path = bh_log_segment_path(s->path, s->number + 1);
    int fd, rc = make_file(s, path, &fd, err);
    if (rc != 0) {
        if (rc != -BH_E_EXISTS)
            (void)unlink(path);
        return rc;
    }
    rc = append(s, &end, nothing, err);
    if (rc != 0) {
        bh_close(fd);
        (void)unlink(path);
        return rc;
    }
    switch_to(s, fd);
    return 0;
}

static bool is_full(const struct bh_log_segments *s, size_t len)
{
    if (s->limit == 0)
        return false;
    uint64_t size = (uint64_t)s->end;
    if (s->number == 0)
        return s->bytes + len > s->limit / 2 || size + BH_LOG_BLOCK_LEN + len > s->disk_limit / 2;
    return (s->bytes >= s->limit / PARTS || size >= s->disk_limit / PARTS) && s->bytes > 0;
}

static bool fits(const struct bh_log_segments *s, size_t len)
{
    return s->limit == 0 || (s->kept + len <= s->limit && s->disk + BH_LOG_BLOCK_LEN + len <= s->disk_limit);
}

int bh_log_segments_write(struct bh_log_segments *s, const struct bh_log_block *block, const struct iovec parts[2],
                          struct bh_err **err)
{
    int rc = is_full(s, block->len) ? begin_segment(s, err) : 0;
    while (rc == 0 && s->n_closed > 0 && !fits(s, block->len))
        drop_oldest(s);
    if (rc == 0)
        rc = append(s, block, parts, err);
    if (rc != 0)
        return rc;
    s->bytes += block->len;
    s->kept += block->len;
    return 0;
}

void bh_log_segments_close(struct bh_log_segments *s)
{
    if (!s)
        return;
    bh_close(s->fd);
    bh_buf_fini(&s->head);
    bh_free(s->path);
    bh_free(s);
}
