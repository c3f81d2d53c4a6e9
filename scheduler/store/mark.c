/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes head marks. Knows nothing of the database: comparing is for whoever has both. */
#include "scheduler/store/mark.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define SEQ_DIGITS 19 /* of INT64_MAX */
#define HEX_DIGITS 64
#define MARK_LEN (SEQ_DIGITS + 1 + HEX_DIGITS + 1)
#define MAX_TRIES 100

bool bh_mark_is_set(const struct bh_mark *mark)
{
    static const struct bh_digest none;
    return mark->found && !bh_digest_equal(&mark->head.chain, &none);
}

bool bh_mark_equal(const struct bh_mark *a, const struct bh_mark *b)
{
    return a->found == b->found &&
           (!a->found || (a->head.seq == b->head.seq && bh_digest_equal(&a->head.chain, &b->head.chain)));
}

static char *mark_name(const char *run)
{
    BH_ASSERT(bh_run_id_valid(run));
    return bh_asprintf("runs/%s/head", run);
}

/* --- text --- */

static void format(const struct bh_head *head, char out[static MARK_LEN + 1])
{
    char digest[BH_DIGEST_TEXT];
    const char *hex = strchr(bh_digest_format(&head->chain, digest), ':') + 1;
    int n = snprintf(out, MARK_LEN + 1, "%0*lld %s\n", SEQ_DIGITS, (long long)head->seq, hex);
    BH_ASSERT(n == MARK_LEN);
}

static bool parse(const char *text, struct bh_head *ret)
{
    int64_t seq = 0;
    for (int i = 0; i < SEQ_DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(seq, 10, &seq) ||
            __builtin_add_overflow(seq, text[i] - '0', &seq))
            return false;
    }
    if (text[SEQ_DIGITS] != ' ' || text[MARK_LEN - 1] != '\n')
        return false;
    char digest[BH_DIGEST_TEXT];
    (void)snprintf(digest, sizeof(digest), "sha256:%.*s", HEX_DIGITS, text + SEQ_DIGITS + 1);
    struct bh_digest chain;
    if (bh_digest_parse(digest, &chain) != 0)
        return false;
    *ret = (struct bh_head){.seq = seq, .chain = chain};
    return true;
}

/* --- reading --- */

/* A read beside a write may see some bytes of each: two equal reads in a row are one mark. -1 with errno. */
static ssize_t read_settled(int fd, char out[static MARK_LEN + 1])
{
    char last[MARK_LEN + 1];
    ssize_t len = pread(fd, out, MARK_LEN + 1, 0);
    for (int i = 0; len >= 0 && i < MAX_TRIES; i++) {
        ssize_t len_before = len;
        memcpy(last, out, sizeof(last));
        len = pread(fd, out, MARK_LEN + 1, 0);
        if (len == len_before && memcmp(last, out, (size_t)len) == 0)
            break;
    }
    return len;
}

int bh_mark_read(const struct bh_home *home, const char *run, struct bh_mark *ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *name = mark_name(run);
    BH_CLEANUP_FD int fd = bh_open_beneath(home->dirfd, name, O_RDONLY, 0);
    if (fd < 0 && errno == ENOENT) {
        *ret = (struct bh_mark){0};
        return 0;
    }
    char text[MARK_LEN + 1];
    ssize_t len = fd < 0 ? -1 : read_settled(fd, text);
    if (len < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot read the head mark '%s/%s'", home->path, name);
    struct bh_mark mark = {.found = len > 0};
    if (mark.found && (len != MARK_LEN || !parse(text, &mark.head)))
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0,
                          "the head mark of run '%s' is damaged: '%s/%s' does not hold a sequence and a digest", run,
                          home->path, name);
    *ret = mark;
    return 0;
}

/* --- writing --- */

int bh_mark_open(const struct bh_home *home, const char *run, int *ret_fd, struct bh_err **err)
{
    BH_CLEANUP_FREE char *name = mark_name(run);
    int fd = bh_open_beneath(home->dirfd, name, O_RDWR, 0);
    if (fd < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open the head mark '%s/%s'", home->path, name);
    *ret_fd = fd;
    return 0;
}

static int sync_folder(const struct bh_home *home, const char *name)
{
    BH_CLEANUP_FD int fd = bh_open_beneath(home->dirfd, name, O_RDONLY | O_DIRECTORY, 0);
    return fd < 0 ? -1 : fsync(fd);
}

/* -1 with errno. */
static int make_file(const struct bh_home *home, const char *folder, const char *name, int *ret_fd)
{
    if (bh_mkdirat_p(home->dirfd, folder, 0700) < 0)
        return -1;
    BH_CLEANUP_FD int fd = bh_open_beneath(home->dirfd, name, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return -1;
    char text[MARK_LEN + 1];
    format(&(struct bh_head){0}, text);
    ssize_t n = pwrite(fd, text, MARK_LEN, 0);
    if (n >= 0 && n != MARK_LEN)
        errno = ENOSPC;
    if (n != MARK_LEN || ftruncate(fd, MARK_LEN) < 0 || fsync(fd) < 0 || sync_folder(home, folder) < 0 ||
        sync_folder(home, "runs") < 0 || sync_folder(home, ".") < 0)
        return -1;
    *ret_fd = BH_TAKE_FD(fd);
    return 0;
}

int bh_mark_make(const struct bh_home *home, const char *run, int *ret_fd, struct bh_err **err)
{
    BH_CLEANUP_FREE char *name = mark_name(run);
    BH_CLEANUP_FREE char *folder = bh_path_dirname(name);
    if (make_file(home, folder, name, ret_fd) == 0)
        return 0;
    return bh_err_set(err, BH_E_IO, errno, "cannot make the head mark '%s/%s'", home->path, name);
}

int bh_mark_write(int fd, const struct bh_head *head, const char *run, struct bh_err **err)
{
    char text[MARK_LEN + 1];
    format(head, text);
    ssize_t n = pwrite(fd, text, MARK_LEN, 0);
    if (n == MARK_LEN)
        return 0;
    return bh_err_set(err, BH_E_IO, n < 0 ? errno : ENOSPC, "cannot write the head mark of run '%s'", run);
}

int bh_mark_sync(int fd, const char *run, struct bh_err **err)
{
    if (fdatasync(fd) == 0)
        return 0;
    return bh_err_set(err, BH_E_IO, errno, "cannot sync the head mark of run '%s'", run);
}

/* --- all runs --- */

static void close_dirp(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

int bh_mark_each_run(const struct bh_home *home, bh_mark_run_fn fn, void *arg, struct bh_err **err)
{
    BH_CLEANUP(close_dirp) DIR *dir = bh_dir_stream(bh_open_beneath(home->dirfd, "runs", O_RDONLY | O_DIRECTORY, 0));
    if (!dir && errno == ENOENT)
        return 0;
    if (!dir)
        return bh_err_set(err, BH_E_IO, errno, "cannot list '%s/runs'", home->path);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            break;
        int rc = bh_run_id_valid(entry->d_name) ? fn(arg, entry->d_name, err) : 0;
        if (rc)
            return rc;
    }
    return errno ? bh_err_set(err, BH_E_IO, errno, "cannot list '%s/runs'", home->path) : 0;
}
