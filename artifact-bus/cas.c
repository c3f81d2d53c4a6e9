/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content store on disk.
 *
 * What is put lies in a temporary file and is `pending` until bh_cas_sync: only there are bytes made durable, then
 * given their names, then the names made durable, in this order. So a name that exists, after a power cut too, has its
 * bytes; and whoever dies before the sync leaves nothing but temporary files. Pending objects can be opened and linked
 * by this process at once. A name is never replaced, except one whose object has the wrong length and is broken anyway.
 *
 * Any number of processes may work on one store: names are taken by renameat2(RENAME_NOREPLACE), and who comes second
 * drops his copy.
 */
#include "artifact-bus/cas.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "artifact-bus/copy_hash_priv.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"

#define CAS_MAGIC 0x43415331u

enum {
    SMALL = 256 * 1024, /* below this no thread pays */
    FSYNC_MAX = 4,      /* more files or folders than this are synced by one syncfs */
    NAME_SIZE = 72,     /* "ab/REST.x" and "object-PID-N" */
    DIR_MODE = 0700,
    PLAIN_MODE = 0444,
    EXEC_MODE = 0555,
    LINK_DIR_MODE = 0755,
    RESERVE = 256 * 1024 * 1024, /* of a file system's room, or a fiftieth of it where that is less */
};

struct pending {
    char *tmp;    /* name in the temporary folder; NULL: the object was there, only its name may not be durable */
    bool replace; /* what has the name is broken */
};

struct bh_cas {
    uint32_t magic;
    char *dir;
    int objects, tmp;       /* folders */
    struct bh_map *pending; /* object name → struct pending */
    unsigned counter;
    char *buffer; /* SMALL bytes, made when first needed */
};

/* --- opening --- */

static void free_pending(void *p)
{
    struct pending *pending = p;
    bh_free(pending->tmp);
    bh_free(pending);
}

static int open_folder(const char *path, int *ret_fd, struct bh_err **err)
{
    int rc = bh_mkdir_p(path, DIR_MODE, err);
    if (rc != 0)
        return rc;
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd >= 0 ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot open the folder '%s'", path);
}

static int check_same_fs(const struct bh_cas *cas, const char *tmp_dir, struct bh_err **err)
{
    struct stat a, b;
    if (fstat(cas->objects, &a) != 0 || fstat(cas->tmp, &b) != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot look at the folders of the content store '%s'", cas->dir);
    if (a.st_dev == b.st_dev)
        return 0;
    int rc = bh_err_set(err, BH_E_HOST, 0, "the temporary folder '%s' is on another file system than the store '%s'",
                        tmp_dir, cas->dir);
    bh_err_hint(err, "keep all of the state directory on one file system");
    return rc;
}

static int open_folders(struct bh_cas *cas, const char *tmp_dir, struct bh_err **err)
{
    BH_CLEANUP_FREE char *objects = bh_path_join(cas->dir, "sha256");
    int rc = open_folder(objects, &cas->objects, err);
    if (rc == 0)
        rc = open_folder(tmp_dir, &cas->tmp, err);
    return rc == 0 ? check_same_fs(cas, tmp_dir, err) : rc;
}

int bh_cas_open(const char *dir, const char *tmp_dir, struct bh_cas **ret, struct bh_err **err)
{
    struct bh_cas *cas = bh_alloc(sizeof(*cas));
    cas->magic = CAS_MAGIC;
    cas->dir = bh_strdup(dir);
    cas->objects = cas->tmp = -1;
    cas->pending = bh_map_new(free_pending);
    int rc = open_folders(cas, tmp_dir, err);
    if (rc != 0)
        bh_cas_close(cas);
    else
        *ret = cas;
    return rc;
}

/* Forgets what is pending; nothing of it is kept. */
static void drop_pending(struct bh_cas *cas)
{
    size_t it = 0;
    void *value;
    const char *name;
    while (bh_map_next(cas->pending, &it, &name, &value)) {
        struct pending *p = value;
        if (p->tmp)
            (void)unlinkat(cas->tmp, p->tmp, 0);
    }
    bh_map_free(cas->pending);
    cas->pending = bh_map_new(free_pending);
}

void bh_cas_close(struct bh_cas *cas)
{
    if (!cas)
        return;
    BH_ASSERT(cas->magic == CAS_MAGIC);
    int saved = errno;
    cas->magic = 0;
    drop_pending(cas);
    bh_map_free(cas->pending);
    bh_close(cas->objects);
    bh_close(cas->tmp);
    bh_free(cas->buffer);
    bh_free(cas->dir);
    bh_free(cas);
    errno = saved;
}

/* --- names --- */

static const char *object_name(const struct bh_digest *digest, bool executable, char buf[static NAME_SIZE])
{
    char text[BH_DIGEST_TEXT];
    const char *hex = bh_digest_format(digest, text) + strlen("sha256:");
    snprintf(buf, NAME_SIZE, "%.2s/%s%s", hex, hex + 2, executable ? ".x" : "");
    return buf;
}

static int set_about(struct bh_err **err, enum bh_code code, int saved_errno, const struct bh_digest *digest,
                     const char *what)
{
    char text[BH_DIGEST_TEXT];
    return bh_err_set(err, code, saved_errno, "%s '%s'", what, bh_digest_format(digest, text));
}

/* Where an object can be reached now. False where the store does not have it. */
struct place {
    int dirfd;
    char name[NAME_SIZE];
    int64_t size;
    bool pending;
};

static bool find_at(int dirfd, const char *name, struct place *ret)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return false;
    *ret = (struct place){.dirfd = dirfd, .size = st.st_size};
    snprintf(ret->name, sizeof(ret->name), "%s", name);
    return true;
}

static bool find(const struct bh_cas *cas, const struct bh_digest *digest, bool executable, struct place *ret)
{
    BH_ASSERT(cas && cas->magic == CAS_MAGIC);
    char name[NAME_SIZE];
    const struct pending *p = bh_map_get(cas->pending, object_name(digest, executable, name));
    if (p && p->tmp && find_at(cas->tmp, p->tmp, ret)) {
        ret->pending = true;
        return true;
    }
    return find_at(cas->objects, name, ret);
}

/* --- temporary files --- */

struct tmp_file {
    struct bh_cas *cas;
    int fd;
    char name[NAME_SIZE]; /* "" where there is none to remove */
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
    struct pending *p = bh_alloc(sizeof(*p));
    p->tmp = bh_strdup(tmp);
    p->replace = replace;
    bh_map_put(cas->pending, object, p);
}

/* The finished temporary file becomes a pending object. */
static int tmp_file_adopt(struct tmp_file *t, const struct bh_digest *digest, bool executable, bool replace,
                          struct bh_err **err)
{
    char name[NAME_SIZE];
    if (fchmod(t->fd, executable ? EXEC_MODE : PLAIN_MODE) != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot set the mode of a temporary file of the store '%s'",
                          t->cas->dir);
    note_pending(t->cas, object_name(digest, executable, name), t->name, replace);
    t->name[0] = '\0';
    return 0;
}

/* --- putting --- */

/* Whether the store has these bytes already; its name may still have to be made durable. */
static bool have_already(struct bh_cas *cas, const struct bh_object *object, bool *ret_broken)
{
    struct place there;
    bool found = find(cas, &object->digest, false, &there);
    *ret_broken = found && there.size != object->size;
    if (!found || *ret_broken)
        return false;
    char name[NAME_SIZE];
    if (!there.pending && !bh_map_has(cas->pending, object_name(&object->digest, false, name)))
        note_pending(cas, name, NULL, false);
    return true;
}

static int open_place(const struct place *p, int *ret_fd)
{
    *ret_fd = openat(p->dirfd, p->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return *ret_fd >= 0 ? 0 : -1;
}

/* The second inode, for content that is to be executed. */
static int make_twin(struct bh_cas *cas, const struct bh_digest *digest, struct bh_err **err)
{
    struct place plain, twin;
    if (find(cas, digest, true, &twin))
        return 0;
    if (!find(cas, digest, false, &plain))
        return set_about(err, BH_E_NOT_FOUND, 0, digest, "the content store does not have");
    BH_CLEANUP_FD int fd = -1;
    if (open_place(&plain, &fd) != 0)
        return set_about(err, BH_E_IO, errno, digest, "cannot open the object");
    CLEANUP_TMP_FILE struct tmp_file t = {.cas = cas, .fd = -1};
    int rc = tmp_file_open(cas, &t, err);
    if (rc == 0)
        rc = bh_copy_file(fd, t.fd, plain.size, err);
    return rc == 0 ? tmp_file_adopt(&t, digest, true, false, err) : rc;
}

static int finish_put(struct bh_cas *cas, const struct bh_object *object, struct bh_object *ret, struct bh_err **err)
{
    int rc = object->executable ? make_twin(cas, &object->digest, err) : 0;
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
    BH_ASSERT(cas && cas->magic == CAS_MAGIC);
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
    BH_ASSERT(cas && cas->magic == CAS_MAGIC);
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

/* --- making durable --- */

static int sync_failed(const struct bh_cas *cas, int saved_errno, struct bh_err **err)
{
    return bh_err_set(err, BH_E_IO, saved_errno, "cannot sync the content store '%s'", cas->dir);
}

static int fsync_at(int dirfd, const char *name)
{
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 ? fsync(fd) : -1;
}

/*
 * One syncfs for many, fsync for few: syncfs also writes out whatever the agents on this file system have dirtied,
 * which one small output should not wait for.
 */
static int sync_data(struct bh_cas *cas, struct bh_err **err)
{
    size_t it = 0, n = 0;
    const char *name;
    void *value;
    while (bh_map_next(cas->pending, &it, &name, &value))
        n += ((struct pending *)value)->tmp != NULL;
    if (n > FSYNC_MAX)
        return syncfs(cas->tmp) == 0 ? 0 : sync_failed(cas, errno, err);
    it = 0;
    while (bh_map_next(cas->pending, &it, &name, &value)) {
        const struct pending *p = value;
        if (p->tmp && fsync_at(cas->tmp, p->tmp) != 0)
            return sync_failed(cas, errno, err);
    }
    return 0;
}

static int rename_noreplace(int from_dir, const char *from, int to_dir, const char *to)
{
    if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL) /* a file system without the flag */
        return -1;
    return linkat(from_dir, from, to_dir, to, 0) == 0 ? unlinkat(from_dir, from, 0) : -1;
}

static int rename_once(struct bh_cas *cas, const struct pending *p, const char *name)
{
    if (p->replace)
        return renameat(cas->tmp, p->tmp, cas->objects, name);
    int rc = rename_noreplace(cas->tmp, p->tmp, cas->objects, name);
    return rc != 0 && errno == EEXIST ? unlinkat(cas->tmp, p->tmp, 0) : rc; /* another process was first */
}

static int give_name(struct bh_cas *cas, struct pending *p, const char *name, bool *ret_new_folder, struct bh_err **err)
{
    int rc = rename_once(cas, p, name);
    if (rc != 0 && errno == ENOENT) {
        char folder[3] = {name[0], name[1], '\0'};
        if (mkdirat(cas->objects, folder, DIR_MODE) != 0 && errno != EEXIST)
            return bh_err_set(err, BH_E_IO, errno, "cannot make a folder in the content store '%s'", cas->dir);
        *ret_new_folder = true;
        rc = rename_once(cas, p, name);
    }
    if (rc != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot add an object to the content store '%s'", cas->dir);
    bh_free(BH_TAKE(p->tmp));
    return 0;
}

/* Names of the folders that have to be synced, "" the one above them. */
static int give_names(struct bh_cas *cas, struct bh_map *folders, struct bh_err **err)
{
    size_t it = 0;
    const char *name;
    void *value;
    bool new_folder = false;
    while (bh_map_next(cas->pending, &it, &name, &value)) {
        struct pending *p = value;
        char folder[3] = {name[0], name[1], '\0'};
        int rc = p->tmp ? give_name(cas, p, name, &new_folder, err) : 0;
        if (rc != 0)
            return rc;
        bh_map_put(folders, folder, cas);
    }
    if (new_folder)
        bh_map_put(folders, ".", cas);
    return 0;
}

static int sync_folders(struct bh_cas *cas, const struct bh_map *folders, struct bh_err **err)
{
    size_t it = 0;
    const char *name;
    void *value;
    if (bh_map_len(folders) > FSYNC_MAX)
        return syncfs(cas->objects) == 0 ? 0 : sync_failed(cas, errno, err);
    while (bh_map_next(folders, &it, &name, &value)) {
        if (fsync_at(cas->objects, name) != 0)
            return sync_failed(cas, errno, err);
    }
    return 0;
}

/* After a failed sync the kernel may call the pages clean, so a second try would lie: nothing pending is kept. */
int bh_cas_sync(struct bh_cas *cas, struct bh_err **err)
{
    BH_ASSERT(cas && cas->magic == CAS_MAGIC);
    if (bh_map_len(cas->pending) == 0)
        return 0;
    BH_CLEANUP_MAP struct bh_map *folders = bh_map_new(NULL);
    int rc = sync_data(cas, err);
    if (rc == 0)
        rc = give_names(cas, folders, err);
    if (rc == 0)
        rc = sync_folders(cas, folders, err);
    drop_pending(cas);
    return rc;
}

/* --- reading --- */

int bh_cas_open_object(struct bh_cas *cas, const struct bh_digest *digest, int *ret_fd, struct bh_err **err)
{
    struct place p;
    int fd;
    if (!find(cas, digest, false, &p))
        return set_about(err, BH_E_NOT_FOUND, 0, digest, "the content store does not have");
    if (open_place(&p, &fd) != 0)
        return set_about(err, BH_E_IO, errno, digest, "cannot open the object");
    *ret_fd = fd;
    return 0;
}

bool bh_cas_has(struct bh_cas *cas, const struct bh_digest *digest)
{
    struct place p;
    return find(cas, digest, false, &p);
}

static int verify_place(const struct place *p, const struct bh_digest *digest, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = -1;
    struct bh_digest found;
    if (open_place(p, &fd) != 0)
        return set_about(err, BH_E_IO, errno, digest, "cannot open the object");
    int rc = bh_digest_fd(fd, &found, NULL, err);
    if (rc != 0 || bh_digest_equal(&found, digest))
        return rc;
    char want[BH_DIGEST_TEXT], got[BH_DIGEST_TEXT];
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the object '%s' holds other bytes, whose digest is %s",
                      bh_digest_format(digest, want), bh_digest_format(&found, got));
}

int bh_cas_verify(struct bh_cas *cas, const struct bh_digest *digest, struct bh_err **err)
{
    struct place p;
    if (!find(cas, digest, false, &p))
        return set_about(err, BH_E_NOT_FOUND, 0, digest, "the content store does not have");
    int rc = verify_place(&p, digest, err);
    return rc == 0 && find(cas, digest, true, &p) ? verify_place(&p, digest, err) : rc;
}

/* --- delivering --- */

static int link_failed(const char *name, int saved_errno, struct bh_err **err)
{
    return bh_err_set(err, saved_errno == EEXIST ? BH_E_EXISTS : BH_E_IO, saved_errno, "cannot deliver '%s'", name);
}

/*
 * Where the host refuses the link: the object belongs to another user (protected_hardlinks), has as many links as the
 * file system counts, or the target is another file system.
 */
static int copy_out(const struct place *p, int parent, const char *base, bool executable, const char *name,
                    struct bh_err **err)
{
    BH_CLEANUP_FD int from = -1;
    if (open_place(p, &from) != 0)
        return link_failed(name, errno, err);
    BH_CLEANUP_FD int to = openat(parent, base, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0)
        return link_failed(name, errno, err);
    int rc = bh_copy_file(from, to, p->size, err);
    if (rc == 0 && fchmod(to, executable ? EXEC_MODE : PLAIN_MODE) != 0)
        rc = link_failed(name, errno, err);
    if (rc != 0)
        (void)unlinkat(parent, base, 0);
    return rc;
}

static int open_parent(int dirfd, const char *name, int *ret_fd)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(name);
    if (strcmp(folder, ".") != 0 && bh_mkdirat_p(dirfd, folder, LINK_DIR_MODE) != 0)
        return -1;
    *ret_fd = bh_open_beneath(dirfd, folder, O_PATH | O_DIRECTORY, 0);
    return *ret_fd >= 0 ? 0 : -1;
}

int bh_cas_link(struct bh_cas *cas, const struct bh_digest *digest, bool executable, int dirfd, const char *name,
                struct bh_err **err)
{
    struct place p;
    BH_CLEANUP_FD int parent = -1;
    int rc = executable ? make_twin(cas, digest, err) : 0;
    if (rc != 0)
        return rc;
    if (!find(cas, digest, executable, &p))
        return set_about(err, BH_E_NOT_FOUND, 0, digest, "the content store does not have");
    if (!bh_path_is_clean(name))
        return bh_err_set(err, BH_E_BAD_NAME, 0, "cannot deliver '%s': the name leaves its folder", name);
    if (open_parent(dirfd, name, &parent) != 0)
        return link_failed(name, errno, err);
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    if (linkat(p.dirfd, p.name, parent, base, 0) == 0)
        return 0;
    if (errno == EMLINK || errno == EPERM || errno == EXDEV)
        return copy_out(&p, parent, base, executable, name, err);
    return link_failed(name, errno, err);
}
