/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting content into the store: a temporary file, its digest, and the promise (struct bh_cas_pending) that cas_sync.c
 * keeps. Small files are read into memory, hashed, and written only where they are new; large ones are copied by the
 * kernel while a second thread hashes the copy (copy_hash.c). A file that changes meanwhile is refused. What fails
 * leaves no temporary file.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "artifact-bus/cas_priv.h"
#include "artifact-bus/copy_hash_priv.h"
#include "base/fd.h"
#include "base/mem.h"

enum {
    SMALL = 256 * 1024,          /* below this no thread pays */
    RESERVE = 256 * 1024 * 1024, /* of a file system's room, or a fiftieth of it where that is less */
};

/* --- temporary files --- */

struct tmp_file {
    struct bh_cas *cas;
    int fd;
    char name[BH_CAS_NAME_SIZE]; /* "" where there is none to remove */
};

static void tmp_file_fini(struct tmp_file *t)
{
    bh_close(t->fd);
    if (t->name[0])
        (void)unlinkat(t->cas->tmp, t->name, 0);
}
#define CLEANUP_TMP_FILE BH_CLEANUP(tmp_file_fini)

/* A name that exists is of a dead process that had our number. */
static int tmp_file_open(struct bh_cas *cas, struct tmp_file *t, struct bh_err **err)
{
    do {
        snprintf(t->name, sizeof(t->name), "object-%d-%u", (int)getpid(), cas->counter++);
        t->fd = openat(cas->tmp, t->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    } while (t->fd < 0 && errno == EEXIST);
    if (t->fd >= 0)
        return 0;
    int saved = errno;
    t->name[0] = '\0';
    return bh_err_set(err, BH_E_IO, saved, "cannot make a temporary file for the content store '%s'", cas->dir);
}

static void note_pending(struct bh_cas *cas, const char *object, const char *tmp, bool replace)
{
    struct bh_cas_pending *p = bh_alloc(sizeof(*p));
    p->tmp = bh_strdup(tmp);
    p->replace = replace;
    bh_map_put(cas->pending, object, p);
}

/* The finished temporary file becomes a pending object. */
static int tmp_file_adopt(struct tmp_file *t, const struct bh_digest *digest, bool executable, bool replace,
                          struct bh_err **err)
{
    char name[BH_CAS_NAME_SIZE];
    if (fchmod(t->fd, executable ? BH_CAS_EXEC_MODE : BH_CAS_PLAIN_MODE) != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot set the mode of a temporary file of the store '%s'",
                          t->cas->dir);
    note_pending(t->cas, bh_cas_object_name(digest, executable, name), t->name, replace);
    t->name[0] = '\0';
    return 0;
}

/* --- putting --- */

/* Whether the store has these bytes already; its name may still have to be made durable. */
static bool have_already(struct bh_cas *cas, const struct bh_object *object, bool *ret_broken)
{
    struct bh_cas_place there;
    bool found = bh_cas_find(cas, &object->digest, false, &there);
    *ret_broken = found && there.size != object->size;
    if (!found || *ret_broken)
        return false;
    char name[BH_CAS_NAME_SIZE];
    if (!there.pending && !bh_map_has(cas->pending, bh_cas_object_name(&object->digest, false, name)))
        note_pending(cas, name, NULL, false);
    return true;
}

/* The second inode, for content that is to be executed. */
int bh_cas_make_twin(struct bh_cas *cas, const struct bh_digest *digest, struct bh_err **err)
{
    struct bh_cas_place plain, twin;
    if (bh_cas_find(cas, digest, true, &twin))
        return 0;
    if (!bh_cas_find(cas, digest, false, &plain))
        return bh_cas_complain(err, BH_E_NOT_FOUND, 0, digest, "the content store does not have");
    BH_CLEANUP_FD int fd = -1;
    if (bh_cas_place_open(&plain, &fd) != 0)
        return bh_cas_complain(err, BH_E_IO, errno, digest, "cannot open the object");
    CLEANUP_TMP_FILE struct tmp_file t = {.cas = cas, .fd = -1};
    int rc = tmp_file_open(cas, &t, err);
    if (rc == 0)
        rc = bh_copy_file(fd, t.fd, plain.size, err);
    return rc == 0 ? tmp_file_adopt(&t, digest, true, false, err) : rc;
}

static int finish_put(struct bh_cas *cas, const struct bh_object *object, struct bh_object *ret, struct bh_err **err)
{
    int rc = object->executable ? bh_cas_make_twin(cas, &object->digest, err) : 0;
    if (rc == 0)
        *ret = *object;
    return rc;
}

static int put_small(struct bh_cas *cas, const void *data, struct bh_object *object, struct bh_err **err)
{
    bool broken;
    object->digest = bh_digest_of(data, (size_t)object->size);
    if (have_already(cas, object, &broken))
        return 0;
    CLEANUP_TMP_FILE struct tmp_file t = {.cas = cas, .fd = -1};
    int rc = tmp_file_open(cas, &t, err);
    if (rc != 0)
        return rc;
    if (bh_write_all(t.fd, data, (size_t)object->size) != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot write to the content store '%s'", cas->dir);
    return tmp_file_adopt(&t, &object->digest, false, broken, err);
}

int bh_cas_put_bytes(struct bh_cas *cas, const void *data, size_t len, struct bh_object *ret, struct bh_err **err)
{
    BH_ASSERT(cas && cas->magic == BH_CAS_MAGIC);
    struct bh_object object = {.size = (int64_t)len};
    int rc = put_small(cas, data, &object, err);
    return rc == 0 ? finish_put(cas, &object, ret, err) : rc;
}

static int changed(struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_BUSY, 0, "the file changed while it was copied");
    bh_err_hint(err, "let whoever writes it end first");
    return rc;
}

static int too_large(int64_t max_size, struct bh_err **err)
{
    return bh_err_set(err, BH_E_TOO_LARGE, 0, "the file has more than the allowed %lld bytes", (long long)max_size);
}

/* Up to SMALL + 1 bytes, so that one that is larger can be told. -1 with errno. */
static ssize_t read_small(struct bh_cas *cas, int fd)
{
    if (!cas->buffer)
        cas->buffer = bh_alloc(SMALL + 1);
    size_t len = 0;
    while (len < SMALL + 1) {
        ssize_t n = pread(fd, cas->buffer + len, SMALL + 1 - len, (off_t)len);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n == 0)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)len;
}

/*
 * Refuses before it begins what would leave the disk full for everybody else. Holes count for nothing, they stay holes.
 */
static int check_room(const struct bh_cas *cas, const struct stat *st, struct bh_err **err)
{
    struct statvfs fs;
    if (fstatvfs(cas->tmp, &fs) != 0)
        return 0; /* the write itself will say what is wrong */
    int64_t unit = (int64_t)fs.f_frsize, room = (int64_t)fs.f_bavail * unit, all = (int64_t)fs.f_blocks * unit;
    int64_t reserve = all / 50 < RESERVE ? all / 50 : RESERVE, need = (int64_t)st->st_blocks * 512;
    if (need + reserve <= room)
        return 0;
    return bh_err_set(err, BH_E_IO, ENOSPC, "no room for %lld bytes in the content store '%s', which has %lld left",
                      (long long)need, cas->dir, (long long)room);
}

static int put_large(struct bh_cas *cas, int fd, const struct stat *st, int64_t max_size, struct bh_object *object,
                     struct bh_err **err)
{
    CLEANUP_TMP_FILE struct tmp_file t = {.cas = cas, .fd = -1};
    struct bh_copied copied;
    int64_t limit = st->st_size > 0 ? st->st_size : max_size >= 0 ? max_size : INT64_MAX;
    int rc = check_room(cas, st, err);
    if (rc == 0)
        rc = tmp_file_open(cas, &t, err);
    if (rc == 0)
        rc = bh_copy_hash(fd, t.fd, st->st_size, limit, &copied, err);
    if (rc != 0)
        return rc;
    if (st->st_size > 0 && (copied.more || copied.size != st->st_size))
        return changed(err);
    if (copied.more)
        return too_large(max_size, err);
    bool broken;
    object->size = copied.size;
    object->digest = copied.digest;
    return have_already(cas, object, &broken) ? 0 : tmp_file_adopt(&t, &object->digest, false, broken, err);
}

/* Files of /proc and their like say length 0 and are read until they end. */
static int put_by_size(struct bh_cas *cas, int fd, const struct stat *st, int64_t max_size, struct bh_object *object,
                       struct bh_err **err)
{
    if (st->st_size >= SMALL)
        return put_large(cas, fd, st, max_size, object, err);
    ssize_t n = read_small(cas, fd);
    if (n < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot read the file");
    if (st->st_size > 0 && n != st->st_size)
        return changed(err);
    if (n > SMALL)
        return put_large(cas, fd, st, max_size, object, err);
    if (max_size >= 0 && n > max_size)
        return too_large(max_size, err);
    object->size = n;
    return put_small(cas, cas->buffer, object, err);
}

static bool same_state(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int bh_cas_put_fd(struct bh_cas *cas, int fd, bool executable, int64_t max_size, struct bh_object *ret,
                  struct bh_err **err)
{
    BH_ASSERT(cas && cas->magic == BH_CAS_MAGIC);
    struct stat before, after;
    struct bh_object object = {.executable = executable};
    if (fstat(fd, &before) != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot look at the file");
    if (!S_ISREG(before.st_mode))
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "it is no regular file");
    if (max_size >= 0 && before.st_size > max_size)
        return too_large(max_size, err);
    int rc = put_by_size(cas, fd, &before, max_size, &object, err);
    if (rc != 0)
        return rc;
    if (before.st_size > 0 && (fstat(fd, &after) != 0 || !same_state(&before, &after)))
        return changed(err);
    return finish_put(cas, &object, ret, err);
}
