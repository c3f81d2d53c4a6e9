/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy-and-hash of one output (output_job.h). An opened descriptor may be anything: what is no regular file, or too
 * large, is refused before a byte is read.
 */
#include "workers/output_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/mask.h"

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFLNK:
        return "a symlink";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "no regular file";
    }
}

/* Holes take no disk, but as long to read as anything else. */
static void beyond_room(struct bh_store_job *job, long long size)
{
    bh_verdict_failed(
        &job->verdict, BH_REASON_OUTPUT_INVALID,
        "output '%s' has %lld bytes, holes included: with it all outputs have more than the limit of disk "
        "allows, of which %lld are left",
        job->name, size, (long long)job->room);
}

static bool check(struct bh_store_job *job, const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) {
        bh_verdict_failed(&job->verdict, BH_REASON_OUTPUT_INVALID, "output '%s' is %s, not a file", job->name,
                          kind_of(st->st_mode));
        return false;
    }
    if (job->max_size >= 0 && st->st_size > job->max_size) {
        bh_verdict_failed(&job->verdict, BH_REASON_OUTPUT_INVALID,
                          "output '%s' has %lld bytes, more than its max_size of %lld", job->name,
                          (long long)st->st_size, (long long)job->max_size);
        return false;
    }
    if (job->room >= 0 && st->st_size > job->room) {
        beyond_room(job, (long long)st->st_size);
        return false;
    }
    job->size = st->st_size;
    return true;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           same_time(a->st_mtim, b->st_mtim) && same_time(a->st_ctim, b->st_ctim);
}

/*
 * The kernel lends a file to its readers only while nobody has it open for writing, or mapped so. Given back at once: a
 * writer that comes meanwhile waits for no more than that, and its signal is one that does nothing. Not ours to ask
 * where the file is neither our user's nor we are root.
 */
static bool is_held(int fd)
{
    (void)fcntl(fd, F_SETSIG, SIGURG);
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
        return fcntl(fd, F_SETLEASE, F_UNLCK) < 0;
    return errno == EAGAIN;
}

static void changed(struct bh_store_job *job)
{
    int64_t size;
    job->changed = true;
    job->has_later = lseek(job->fd, 0, SEEK_SET) == 0 && bh_digest_fd(job->fd, &job->later, &size, NULL) == 0;
    bh_verdict_failed(&job->verdict, BH_REASON_COLLISION,
                      "output '%s' changed while it was collected: another agent of the box writes to it", job->name);
}

static int64_t most(const struct bh_store_job *job)
{
    return job->room >= 0 && (job->max_size < 0 || job->room < job->max_size) ? job->room : job->max_size;
}

static void of_put_error(struct bh_store_job *job, int rc, const struct bh_err *err)
{
    bool grew = rc == -BH_E_TOO_LARGE;
    if (job->watch && (grew || rc == -BH_E_BUSY))
        changed(job);
    else if (grew && most(job) != job->max_size)
        beyond_room(job, (long long)job->room + 1);
    else if (!grew)
        bh_verdict_host(&job->verdict, "storing outputs", rc, err);
    else
        bh_verdict_failed(&job->verdict, BH_REASON_OUTPUT_INVALID, "output '%s' has more than its max_size of %lld",
                          job->name, (long long)job->max_size);
}

/*
 * What an agent publishes is kept for as long as the run and goes to others: a value of its secrets in it is a mistake
 * that is found while it can still be mended. False: the verdict says so.
 */
static bool holds_no_secret(struct bh_store_job *job)
{
    const char *secret = NULL;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    BH_CLEANUP_FREE char *masked = bh_mask_text(job->mask, job->name);
    if (masked) {
        bh_verdict_failed(&job->verdict, BH_REASON_OUTPUT_INVALID,
                          "the name of output '%s' holds the value of a secret", masked);
        return false;
    }
    if (!job->mask)
        return true;
    if (bh_mask_search(job->mask, job->fd, &secret) < 0) {
        int rc = bh_err_set(&err, BH_E_IO, errno, "cannot read output '%s'", job->name);
        bh_verdict_host(&job->verdict, "storing outputs", rc, err);
        return false;
    }
    if (secret)
        bh_verdict_failed(&job->verdict, BH_REASON_OUTPUT_INVALID, "output '%s' holds the value of the secret '%s'",
                          job->name, secret);
    return !secret;
}

static void put(struct bh_store_job *job)
{
    struct stat before, after;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (fstat(job->fd, &before) < 0) {
        int rc = bh_err_set(&err, BH_E_IO, errno, "cannot look at output '%s'", job->name);
        bh_verdict_host(&job->verdict, "storing outputs", rc, err);
        return;
    }
    if (!check(job, &before) || !holds_no_secret(job))
        return;
    job->held = job->watch && is_held(job->fd);
    int rc = bh_cas_put_fd(job->run->puts, job->fd, (before.st_mode & 0111) != 0, most(job), &job->object, &err);
    job->stored = rc == 0;
    if (rc != 0)
        of_put_error(job, rc, err);
    else if (job->watch && (fstat(job->fd, &after) < 0 || !same_file(&before, &after)))
        changed(job);
}

void bh_store_job_run(void *data)
{
    struct bh_store_job *job = data;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    bh_verdict_succeeded(&job->verdict);
    if (job->fd >= 0)
        put(job);
    if (!job->sync || job->verdict.outcome != BH_OUTCOME_SUCCEEDED)
        return;
    int rc = bh_cas_sync(job->run->puts, &err);
    if (rc != 0)
        bh_verdict_host(&job->verdict, "storing outputs", rc, err);
}

void bh_store_job_free(void *data)
{
    struct bh_store_job *job = data;
    bh_close(job->fd);
    bh_run_files_unref(job->run);
    bh_mask_unref(job->mask);
    bh_verdict_fini(&job->verdict);
    bh_free(job->name);
    bh_free(job);
}

struct bh_store_job *bh_store_job_new(struct bh_run_files *run, int fd, const char *name, int64_t max_size, bool watch,
                                      bool sync)
{
    struct bh_store_job *job = bh_alloc(sizeof(*job));
    *job = (struct bh_store_job){
        .run = bh_run_files_ref(run),
        .fd = fd,
        .name = bh_strdup(name),
        .max_size = max_size,
        .room = -1,
        .watch = watch,
        .sync = sync,
    };
    return job;
}

void bh_walk_job_run(void *data)
{
    struct bh_walk_job *job = data;
    bh_walk_folder(job->fd, &job->walk);
}

void bh_walk_job_free(void *data)
{
    struct bh_walk_job *job = data;
    bh_close(job->fd);
    bh_walk_fini(&job->walk);
    bh_free(job);
}

struct bh_walk_job *bh_walk_job_new(int fd)
{
    struct bh_walk_job *job = bh_alloc(sizeof(*job));
    job->fd = fd;
    return job;
}
