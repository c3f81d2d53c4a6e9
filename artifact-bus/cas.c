/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content store on disk: opening it, the names of objects, reading them.
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
#include <sys/file.h>
#include <sys/stat.h>

#include "artifact-bus/cas_priv.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

/* --- opening --- */

static void free_pending(void *p)
{
    struct bh_cas_pending *pending = p;
    bh_free(pending->tmp);
    bh_free(pending);
}

static int open_folder(const char *path, int *ret_fd, struct bh_err **err)
{
    int rc = bh_mkdir_p(path, BH_CAS_DIR_MODE, err);
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
    if (rc == 0) /* against cas_sweep.c; a file system that cannot lock has nobody to be kept out either */
        (void)flock(cas->objects, LOCK_SH);
    if (rc == 0)
        rc = open_folder(tmp_dir, &cas->tmp, err);
    return rc == 0 ? check_same_fs(cas, tmp_dir, err) : rc;
}

int bh_cas_open(const char *dir, const char *tmp_dir, struct bh_cas **ret, struct bh_err **err)
{
    struct bh_cas *cas = bh_alloc(sizeof(*cas));
    cas->magic = BH_CAS_MAGIC;
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

void bh_cas_drop_pending(struct bh_cas *cas)
{
    size_t it = 0;
    void *value;
    const char *name;
    while (bh_map_next(cas->pending, &it, &name, &value)) {
        struct bh_cas_pending *p = value;
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
    BH_ASSERT(cas->magic == BH_CAS_MAGIC);
    int saved = errno;
    cas->magic = 0;
    bh_cas_drop_pending(cas);
    bh_map_free(cas->pending);
    bh_close(cas->objects);
    bh_close(cas->tmp);
    bh_free(cas->buffer);
    bh_free(cas->dir);
    bh_free(cas);
    errno = saved;
}

/* --- names --- */

const char *bh_cas_object_name(const struct bh_digest *digest, bool executable, char buf[static BH_CAS_NAME_SIZE])
{
    char text[BH_DIGEST_TEXT];
    const char *hex = bh_digest_format(digest, text) + strlen("sha256:");
    snprintf(buf, BH_CAS_NAME_SIZE, "%.2s/%s%s", hex, hex + 2, executable ? ".x" : "");
    return buf;
}

int bh_cas_complain(struct bh_err **err, enum bh_code code, int saved_errno, const struct bh_digest *digest,
                    const char *what)
{
    char text[BH_DIGEST_TEXT];
    return bh_err_set(err, code, saved_errno, "%s '%s'", what, bh_digest_format(digest, text));
}

static bool find_at(int dirfd, const char *name, struct bh_cas_place *ret)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return false;
    *ret = (struct bh_cas_place){.dirfd = dirfd, .size = st.st_size};
    snprintf(ret->name, sizeof(ret->name), "%s", name);
    return true;
}

bool bh_cas_find(const struct bh_cas *cas, const struct bh_digest *digest, bool executable, struct bh_cas_place *ret)
{
    BH_ASSERT(cas && cas->magic == BH_CAS_MAGIC);
    char name[BH_CAS_NAME_SIZE];
    const struct bh_cas_pending *p = bh_map_get(cas->pending, bh_cas_object_name(digest, executable, name));
    if (p && p->tmp && find_at(cas->tmp, p->tmp, ret)) {
        ret->pending = true;
        return true;
    }
    return find_at(cas->objects, name, ret);
}

/* --- reading --- */

int bh_cas_place_open(const struct bh_cas_place *p, int *ret_fd)
{
    *ret_fd = openat(p->dirfd, p->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return *ret_fd >= 0 ? 0 : -1;
}

int bh_cas_open_object(struct bh_cas *cas, const struct bh_digest *digest, int *ret_fd, struct bh_err **err)
{
    struct bh_cas_place p;
    int fd;
    if (!bh_cas_find(cas, digest, false, &p))
        return bh_cas_complain(err, BH_E_NOT_FOUND, 0, digest, "the content store does not have");
    if (bh_cas_place_open(&p, &fd) != 0)
        return bh_cas_complain(err, BH_E_IO, errno, digest, "cannot open the object");
    *ret_fd = fd;
    return 0;
}

bool bh_cas_has(struct bh_cas *cas, const struct bh_digest *digest)
{
    struct bh_cas_place p;
    return bh_cas_find(cas, digest, false, &p);
}

static int verify_place(const struct bh_cas_place *p, const struct bh_digest *digest, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = -1;
    struct bh_digest found;
    if (bh_cas_place_open(p, &fd) != 0)
        return bh_cas_complain(err, BH_E_IO, errno, digest, "cannot open the object");
    int rc = bh_digest_fd(fd, &found, NULL, err);
    if (rc != 0 || bh_digest_equal(&found, digest))
        return rc;
    char want[BH_DIGEST_TEXT], got[BH_DIGEST_TEXT];
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the object '%s' holds other bytes, whose digest is %s",
                      bh_digest_format(digest, want), bh_digest_format(&found, got));
}

int bh_cas_verify(struct bh_cas *cas, const struct bh_digest *digest, struct bh_err **err)
{
    struct bh_cas_place p;
    if (!bh_cas_find(cas, digest, false, &p))
        return bh_cas_complain(err, BH_E_NOT_FOUND, 0, digest, "the content store does not have");
    int rc = verify_place(&p, digest, err);
    return rc == 0 && bh_cas_find(cas, digest, true, &p) ? verify_place(&p, digest, err) : rc;
}
