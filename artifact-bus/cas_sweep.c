/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody wants leaves the store. It may assume that the caller holds it; it touches nothing but objects. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "artifact-bus/cas_priv.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

enum { FOLDER_LEN = 2, REST_LEN = 62 };

static int open_objects(const char *dir)
{
    BH_CLEANUP_FREE char *path = bh_path_join(dir, "sha256");
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int bh_cas_hold(const char *dir)
{
    BH_CLEANUP_FD int fd = open_objects(dir);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -1;
    return BH_TAKE_FD(fd);
}

static bool is_hex(const char *s, size_t len)
{
    return strspn(s, "0123456789abcdef") == len;
}

/* "ab", "REST" or "REST.x"; false: it is no object. */
static bool hex_of(const char *folder, const char *name, char hex[static FOLDER_LEN + REST_LEN + 1])
{
    size_t len = strcspn(name, ".");
    if (len != REST_LEN || (name[len] && !bh_streq(name + len, ".x")))
        return false;
    (void)snprintf(hex, FOLDER_LEN + REST_LEN + 1, "%s%.*s", folder, REST_LEN, name);
    return is_hex(hex, FOLDER_LEN + REST_LEN);
}

static void look_at(int dir, const char *folder, const char *name, const struct bh_cas_sweep *how)
{
    char hex[FOLDER_LEN + REST_LEN + 1];
    struct stat st;
    if (!hex_of(folder, name, hex) || how->wanted(how->arg, hex) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode))
        return;
    int why = !how->dry_run && unlinkat(dir, name, 0) < 0 ? errno : 0;
    BH_CLEANUP_FREE char *path = bh_asprintf("sha256/%s/%s", folder, name);
    if (how->found) /* blocks that another name still holds stay */
        how->found(how->arg, path, st.st_nlink > 1 ? 0 : (int64_t)st.st_blocks * 512, why);
}

/* Entries may go while they are read: a folder of the store holds few, and what is skipped goes the next time. */
static int each(int objects, const char *folder, const struct bh_cas_sweep *how)
{
    DIR *dir = bh_dir_stream(openat(objects, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!dir)
        return -1;
    for (struct dirent *e; (e = readdir(dir));)
        look_at(dirfd(dir), folder, e->d_name, how);
    (void)closedir(dir);
    return 0;
}

int bh_cas_sweep(const char *dir, const struct bh_cas_sweep *how, struct bh_err **err)
{
    int rc = 0;
    DIR *objects = bh_dir_stream(open_objects(dir));
    if (!objects && errno == ENOENT)
        return 0;
    if (!objects)
        return bh_err_set(err, BH_E_IO, errno, "cannot list the content store '%s'", dir);
    for (struct dirent *e; rc == 0 && (e = readdir(objects));) {
        if (strlen(e->d_name) != FOLDER_LEN || !is_hex(e->d_name, FOLDER_LEN))
            continue;
        if (each(dirfd(objects), e->d_name, how) < 0)
            rc = bh_err_set(err, BH_E_IO, errno, "cannot list '%s' of the content store '%s'", e->d_name, dir);
        else if (!how->dry_run)
            (void)unlinkat(dirfd(objects), e->d_name, AT_REMOVEDIR);
    }
    (void)closedir(objects);
    return rc;
}
