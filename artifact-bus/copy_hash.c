/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy of large files: copy_file_range in pieces, writeback started at once, and one helper thread that reads the
 * pieces back from the page cache and hashes them, so that copy, hash and sync together cost the hash alone.
 *
 * The digest is of the copy, never of the source: whatever a writer does meanwhile, digest and stored bytes agree.
 * The helper thread touches nothing but its own struct, takes no signals, and is joined before the function returns.
 * posix_fallocate is not used on purpose: it made the copy four times slower on ext4.
 */
#include "artifact-bus/copy_hash_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"

enum { PIECE = 8 * 1024 * 1024, HASH_PIECE = 256 * 1024, READ_PIECE = 1024 * 1024 };

/* --- the copy --- */

enum way { COPY_RANGE, SENDFILE, READ_WRITE };

struct copier {
    int src, dst;
    enum way way;
    char *buffer; /* READ_WRITE alone */
};

/*
 * From an overlay to its upper file system copy_file_range says EXDEV and falls back to nothing; files of /proc and
 * some FUSE file systems know neither call.
 */
static bool next_way(struct copier *c, int64_t at)
{
    if (c->way == READ_WRITE)
        return false;
    c->way = c->way == COPY_RANGE ? SENDFILE : READ_WRITE;
    return c->way == READ_WRITE || lseek(c->dst, at, SEEK_SET) == at; /* sendfile writes at the offset of dst */
}

static ssize_t read_write(struct copier *c, int64_t at, size_t want)
{
    if (!c->buffer)
        c->buffer = bh_alloc(READ_PIECE);
    ssize_t n = pread(c->src, c->buffer, want < READ_PIECE ? want : READ_PIECE, at);
    for (ssize_t done = 0; done < n;) {
        ssize_t w = pwrite(c->dst, c->buffer + done, (size_t)(n - done), at + done);
        if (w < 0 && errno != EINTR)
            return -1;
        done += w > 0 ? w : 0;
    }
    return n;
}

static ssize_t one_call(struct copier *c, int64_t at, size_t want)
{
    off_t in = at, out = at;
    switch (c->way) {
    case COPY_RANGE:
        return copy_file_range(c->src, &in, c->dst, &out, want, 0);
    case SENDFILE:
        return sendfile(c->dst, c->src, &in, want);
    case READ_WRITE:
        break;
    }
    return read_write(c, at, want);
}

static bool is_refusal(int error)
{
    return error == EXDEV || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EBADF;
}

/* Bytes copied, 0 at the end of the source, -1 with errno. */
static ssize_t copy_piece(struct copier *c, int64_t at, size_t want, int64_t expected)
{
    for (;;) {
        ssize_t n = one_call(c, at, want);
        if (n > 0 || (n == 0 && (at >= expected && expected > 0)))
            return n;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && !is_refusal(errno))
            return -1;
        if (!next_way(c, at))
            return n;
    }
}

/*
 * Where the next data of the source begins, at or behind `at`; `end` where only a hole is left. A hole stays one in the
 * copy (a terabyte of nothing must not fill the disk) and reads as zeros there, so `dst` is made long enough first.
 */
static int skip_hole(struct copier *c, int64_t at, int64_t end, int64_t *ret)
{
    struct stat st;
    off_t data = lseek(c->src, at, SEEK_DATA);
    *ret = at; /* also where the file system knows no holes, or the file ends before it was said to */
    if (data < 0 && errno == ENXIO && fstat(c->src, &st) == 0)
        data = st.st_size;
    if (data > end)
        data = end;
    if (data <= at)
        return 0;
    *ret = data;
    return ftruncate(c->dst, data) < 0 || lseek(c->dst, data, SEEK_SET) < 0 ? -1 : 0;
}

static void copier_fini(struct copier *c)
{
    bh_free(c->buffer);
}

/* --- the hash behind it --- */

struct follower {
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t ready; /* bytes of the copy that may be read; under lock, as are the two below */
    bool complete;
    bool given_up;
    /* of the follower alone until it is joined */
    int fd;
    struct bh_hasher *hasher;
    int64_t hashed;
    int error; /* errno of a failed read */
};

static void hash_until(struct follower *f, char *piece, int64_t end)
{
    while (f->hashed < end && f->error == 0) {
        int64_t left = end - f->hashed;
        ssize_t n = pread(f->fd, piece, left < HASH_PIECE ? (size_t)left : HASH_PIECE, f->hashed);
        if (n > 0) {
            bh_hasher_add(f->hasher, piece, (size_t)n);
            f->hashed += n;
        } else if (n == 0 || errno != EINTR) {
            f->error = n == 0 ? EIO : errno; /* we wrote it, so it must be there */
        }
    }
}

/* How far to go next; -1 where there is nothing left to do. */
static int64_t wait_for_more(struct follower *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->ready == f->hashed && !f->complete && !f->given_up)
        pthread_cond_wait(&f->moved, &f->lock);
    int64_t end = f->given_up || f->ready == f->hashed ? -1 : f->ready;
    pthread_mutex_unlock(&f->lock);
    return end;
}

static void *follow(void *arg)
{
    struct follower *f = arg;
    char *piece = bh_alloc(HASH_PIECE);
    for (int64_t end; f->error == 0 && (end = wait_for_more(f)) >= 0;)
        hash_until(f, piece, end);
    bh_free(piece);
    return NULL;
}

/* Without a thread (a process limit, say) the hash is made at the end instead. */
static void follower_start(struct follower *f, int fd)
{
    *f = (struct follower){.fd = fd, .hasher = bh_hasher_new()};
    BH_ASSERT(pthread_mutex_init(&f->lock, NULL) == 0);
    BH_ASSERT(pthread_cond_init(&f->moved, NULL) == 0);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    f->running = pthread_create(&f->thread, NULL, follow, f) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void follower_advance(struct follower *f, int64_t ready, bool complete, bool given_up)
{
    pthread_mutex_lock(&f->lock);
    f->ready = ready;
    f->complete = complete;
    f->given_up = given_up;
    pthread_cond_signal(&f->moved);
    pthread_mutex_unlock(&f->lock);
}

/* Waits for the end of the hash. 0 or the errno of a failed read. */
static int follower_end(struct follower *f, int64_t size, bool given_up, struct bh_digest *ret)
{
    follower_advance(f, size, true, given_up);
    if (f->running)
        pthread_join(f->thread, NULL);
    else if (!given_up)
        (void)follow(f);
    if (!given_up && f->error == 0)
        *ret = bh_hasher_end(f->hasher);
    bh_hasher_free(f->hasher);
    pthread_cond_destroy(&f->moved);
    pthread_mutex_destroy(&f->lock);
    return f->error;
}

/* --- both --- */

static int copy_all(struct copier *c, int64_t expected, int64_t limit, struct follower *f, int64_t *ret_size,
                    struct bh_err **err)
{
    int64_t at = 0, end = expected < limit ? expected : limit;
    off_t offset = lseek(c->src, 0, SEEK_CUR); /* looking for holes moves it */
    while (at < limit) {
        if (skip_hole(c, at, end, &at) < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot copy the file");
        if (f)
            follower_advance(f, at, false, false);
        int64_t left = limit - at;
        if (left <= 0)
            break;
        ssize_t n = copy_piece(c, at, left < PIECE ? (size_t)left : PIECE, expected);
        if (n < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot copy the file");
        if (n == 0)
            break;
        (void)sync_file_range(c->dst, at, n, SYNC_FILE_RANGE_WRITE); /* only a head start; the sync is what counts */
        at += n;
        if (f)
            follower_advance(f, at, false, false);
    }
    (void)lseek(c->src, offset, SEEK_SET);
    *ret_size = at;
    return 0;
}

/* Whether the source goes on at `at`. */
static bool goes_on(int src, int64_t at)
{
    char byte;
    ssize_t n;
    do
        n = pread(src, &byte, 1, at);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

int bh_copy_hash(int src, int dst, int64_t expected, int64_t limit, struct bh_copied *ret, struct bh_err **err)
{
    struct copier c = {.src = src, .dst = dst};
    struct follower f;
    struct bh_copied copied = {0};
    follower_start(&f, dst);
    int rc = copy_all(&c, expected, limit, &f, &copied.size, err);
    copier_fini(&c);
    copied.more = rc == 0 && goes_on(src, copied.size);
    int error = follower_end(&f, copied.size, rc != 0, &copied.digest);
    if (rc != 0)
        return rc;
    if (error != 0)
        return bh_err_set(err, BH_E_IO, error, "cannot read the copy back to hash it");
    *ret = copied;
    return 0;
}

int bh_copy_file(int src, int dst, int64_t expected, struct bh_err **err)
{
    struct copier c = {.src = src, .dst = dst};
    int64_t size;
    int rc = copy_all(&c, expected, INT64_MAX, NULL, &size, err);
    copier_fini(&c);
    return rc;
}
