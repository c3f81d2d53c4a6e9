/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar through libarchive, in two steps: one reader takes off the compression (gzip, zstd or none, found by its magic),
 * what it gives is hashed, and a second one reads that as tar. libarchive is content with an archive that ends early at
 * the border of an entry or has something behind its end; the digest and what is checked here are not.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/unpack/unpack.h"

#define CHUNK (256 * 1024)

struct reading {
    struct bh_putter *p;
    int stream;
    struct archive *plain; /* without the compression */
    struct archive *tar;
    struct bh_hasher *hasher;
    char *in, *out;     /* CHUNK bytes each */
    size_t in_len;      /* of the last chunk of the stream */
    int64_t in_total;   /* of the stream */
    int64_t out_before; /* bytes that the tar reader was given before the chunk in `out` */
    size_t out_len;
    bool failed; /* the stream could not be read */
};

/* --- the stream, as the first reader gets it --- */

static la_ssize_t read_stream(struct archive *a, void *arg, const void **ret)
{
    struct reading *r = arg;
    ssize_t n;
    do
        n = read(r->stream, r->in, CHUNK);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        archive_set_error(a, errno, "cannot read");
        return -1;
    }
    r->in_len = (size_t)n;
    r->in_total += n;
    *ret = r->in;
    return n;
}

static int open_plain(struct reading *r)
{
    struct archive_entry *entry;
    r->plain = archive_read_new();
    if (!r->plain || archive_read_support_filter_gzip(r->plain) < ARCHIVE_WARN ||
        archive_read_support_filter_zstd(r->plain) < ARCHIVE_WARN ||
        archive_read_support_format_raw(r->plain) != ARCHIVE_OK ||
        archive_read_support_format_empty(r->plain) != ARCHIVE_OK)
        return bh_put_host(r->p, "start libarchive");
    if (archive_read_open(r->plain, r, NULL, read_stream, NULL) != ARCHIVE_OK)
        return bh_put_bad(r->p, "it cannot be read: %s", archive_error_string(r->plain));
    int rc = archive_read_next_header(r->plain, &entry);
    if (rc == ARCHIVE_EOF)
        return bh_put_bad(r->p, "it is empty");
    return rc == ARCHIVE_OK ? 0 : bh_put_bad(r->p, "it cannot be read: %s", archive_error_string(r->plain));
}

/* The next chunk without compression: its length, 0 at the end, -1 with the fault. */
static la_ssize_t next_plain(struct reading *r)
{
    r->out_before += (int64_t)r->out_len;
    la_ssize_t n = archive_read_data(r->plain, r->out, CHUNK);
    r->out_len = n > 0 ? (size_t)n : 0;
    if (n < 0) {
        r->failed = true;
        r->p->now = NULL;
        return bh_put_bad(r->p, "it is truncated or damaged: %s", archive_error_string(r->plain));
    }
    bh_hasher_add(r->hasher, r->out, r->out_len);
    return n;
}

/* --- the tar --- */

static la_ssize_t read_plain(struct archive *a, void *arg, const void **ret)
{
    struct reading *r = arg;
    la_ssize_t n = next_plain(r);
    if (n < 0)
        archive_set_error(a, EIO, "cannot read");
    *ret = r->out;
    return n;
}

static int open_tar(struct reading *r)
{
    r->tar = archive_read_new();
    if (!r->tar || archive_read_support_format_tar(r->tar) != ARCHIVE_OK ||
        archive_read_support_format_empty(r->tar) != ARCHIVE_OK)
        return bh_put_host(r->p, "start libarchive");
    if (archive_read_open(r->tar, r, NULL, read_plain, NULL) != ARCHIVE_OK)
        return bh_put_bad(r->p, "it is no tar archive");
    return 0;
}

static int tar_fault(struct reading *r)
{
    const char *said = archive_error_string(r->tar);
    if (r->failed)
        return -1;
    if (r->p->entries == 0 && said && strstr(said, "nrecognized"))
        return bh_put_bad(r->p, "it is no tar archive");
    return bh_put_bad(r->p, "it is truncated or damaged: %s", said ? said : "no reason given");
}

static enum bh_put_type type_of(struct archive_entry *entry)
{
    if (archive_entry_hardlink(entry))
        return BH_PUT_HARDLINK;
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return BH_PUT_FILE;
    case AE_IFDIR:
        return BH_PUT_DIR;
    case AE_IFLNK:
        return BH_PUT_SYMLINK;
    case AE_IFIFO:
        return BH_PUT_FIFO;
    default:
        return BH_PUT_DEVICE;
    }
}

static int copy_data(struct reading *r, int fd)
{
    for (;;) {
        const void *data;
        size_t len;
        la_int64_t offset;
        int rc = archive_read_data_block(r->tar, &data, &len, &offset);
        if (rc == ARCHIVE_EOF)
            return 0;
        if (rc < ARCHIVE_WARN)
            return tar_fault(r);
        if (bh_put_data(r->p, fd, offset, data, len) < 0)
            return -1;
    }
}

static int put_entry(struct reading *r, struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    const struct bh_put_entry e = {
        .path = path ? path : "",
        .type = type_of(entry),
        .mode = archive_entry_mode(entry) & 07777,
        .uid = archive_entry_uid(entry),
        .gid = archive_entry_gid(entry),
        .sec = archive_entry_mtime(entry),
        .nsec = (int32_t)archive_entry_mtime_nsec(entry),
        .link = archive_entry_hardlink(entry) ? archive_entry_hardlink(entry) : archive_entry_symlink(entry),
        .size = archive_entry_size(entry),
    };
    int fd;
    if (bh_put_begin(r->p, &e, &fd) < 0)
        return -1;
    if (fd >= 0 && copy_data(r, fd) < 0) {
        bh_close(fd);
        return -1;
    }
    return bh_put_end(r->p, &e, fd);
}

static int put_all(struct reading *r)
{
    for (;;) {
        struct archive_entry *entry;
        r->p->now = NULL; /* its name goes with the entry */
        int rc = archive_read_next_header(r->tar, &entry);
        if (rc == ARCHIVE_EOF)
            return r->failed ? -1 : 0;
        if (rc < ARCHIVE_WARN)
            return tar_fault(r);
        if (put_entry(r, entry) < 0)
            return -1;
    }
}

/* --- what is behind the end --- */

static bool all_zero(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i])
            return false;
    }
    return true;
}

/* Padding is zeros. All of it is part of what is hashed. */
static int drain_plain(struct reading *r)
{
    int64_t used = archive_filter_bytes(r->tar, -1) - r->out_before;
    size_t from = used <= 0 ? 0 : (size_t)used > r->out_len ? r->out_len : (size_t)used;
    r->p->now = NULL;
    for (;;) {
        if (!all_zero(r->out + from, r->out_len - from))
            return bh_put_bad(r->p, "there is something else behind its end");
        from = 0;
        la_ssize_t n = next_plain(r);
        if (n <= 0)
            return (int)n;
    }
}

/* Behind the end of the compressed data. */
static int drain_stream(struct reading *r)
{
    int64_t left = r->in_total - archive_filter_bytes(r->plain, -1);
    if (left > 0 && (left > (int64_t)r->in_len || !all_zero(r->in + r->in_len - left, (size_t)left)))
        return bh_put_bad(r->p, "there is something else behind its end");
    for (;;) {
        ssize_t n = read(r->stream, r->in, CHUNK);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return bh_put_host(r->p, "read the archive");
        if (n > 0 && !all_zero(r->in, (size_t)n))
            return bh_put_bad(r->p, "there is something else behind its end");
    }
}

static int read_all(struct reading *r, struct bh_digest *ret)
{
    if (open_plain(r) < 0 || open_tar(r) < 0 || put_all(r) < 0 || drain_plain(r) < 0 || drain_stream(r) < 0)
        return -1;
    *ret = bh_hasher_end(r->hasher);
    return bh_put_finish(r->p);
}

int bh_unpack_tar(struct bh_putter *p, int stream, struct bh_digest *ret_digest)
{
    struct reading r = {.p = p, .stream = stream, .in = bh_alloc(CHUNK), .out = bh_alloc(CHUNK)};
    r.hasher = bh_hasher_new();
    int rc = read_all(&r, ret_digest);
    if (r.tar)
        (void)archive_read_free(r.tar);
    if (r.plain)
        (void)archive_read_free(r.plain);
    bh_hasher_free(r.hasher);
    bh_free(r.in);
    bh_free(r.out);
    return rc;
}
