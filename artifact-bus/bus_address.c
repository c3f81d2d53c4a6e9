/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the bus. `inproc` is an abstract socket whose name holds our process id, and whose other end must be our
 * process (transport.c checks), so that one path of code serves both kinds. That a path has one server is settled by a
 * lock and not by trying to connect, which the server there would notice.
 */
#include "artifact-bus/bus_address_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

enum { NAME_MAX_BYTES = 64 };

const char *bh_bus_ipc_path(const char *url)
{
    return bh_starts_with(url, "ipc://") ? url + strlen("ipc://") : NULL;
}

static const char *inproc_name(const char *url)
{
    return bh_starts_with(url, "inproc://") ? url + strlen("inproc://") : NULL;
}

static int check_path(const char *path, struct bh_err **err)
{
    size_t room = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    if (*path == '/' && strlen(path) <= room)
        return 0;
    if (*path != '/')
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the socket path '%s' is not absolute", path);
    int rc = bh_err_set(err, BH_E_BAD_VALUE, 0, "the socket path '%s' is longer than the %zu bytes of the kernel", path,
                        room);
    bh_err_hint(err, "use a --home with a shorter path");
    return rc;
}

int bh_bus_url_check(const char *url, struct bh_err **err)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *path = bh_bus_ipc_path(url), *name = inproc_name(url);
    if (path)
        return check_path(path, err);
    if (!name)
        return bh_err_set(err, BH_E_NOT_SUPPORTED, 0, "the bus address '%s' is neither inproc:// nor ipc://", url);
    if (*name == '\0' || strlen(name) > NAME_MAX_BYTES || name[strspn(name, set)] != '\0')
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "'%s' is no name of up to %d letters, digits, '.', '_' and '-'", url,
                          NAME_MAX_BYTES);
    return 0;
}

char *bh_bus_stream_url(const char *url)
{
    const char *name = inproc_name(url);
    return name ? bh_asprintf("abstract://bulkhead-%d-%s", (int)getpid(), name) : bh_strdup(url);
}

static int check_folder(const char *path, struct bh_err **err)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(path);
    struct stat st;
    if (stat(folder, &st) != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot look at the folder '%s' of the bus socket", folder);
    if ((st.st_mode & 077) == 0)
        return 0;
    int rc = bh_err_set(err, BH_E_PERMISSION, 0, "the folder '%s' of the bus socket is open to other users (mode %o)",
                        folder, (unsigned)st.st_mode & 07777u);
    bh_err_hint(err, "make it mode 0700");
    return rc;
}

static bool is_named(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Who leaves removes the lock's file, so a lock that was got may be on a file that has no name any more. */
static int take_lock(struct bh_bus_path *p, const char *path, struct bh_err **err)
{
    p->lock_name = bh_asprintf("%s.lock", path);
    do {
        bh_close(p->lock_fd);
        p->lock_fd = open(p->lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (p->lock_fd < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot make the lock '%s'", p->lock_name);
        if (flock(p->lock_fd, LOCK_EX | LOCK_NB) != 0) {
            bh_close(BH_TAKE_FD(p->lock_fd));
            return bh_err_set(err, BH_E_BUSY, 0, "another process listens at '%s'", path);
        }
    } while (!is_named(p->lock_fd, p->lock_name));
    return 0;
}

int bh_bus_path_take(struct bh_bus_path *p, const char *path, struct bh_err **err)
{
    *p = (struct bh_bus_path){.lock_fd = -1};
    int rc = check_folder(path, err);
    if (rc == 0)
        rc = take_lock(p, path, err);
    if (rc != 0)
        return rc;
    if (unlink(path) != 0 && errno != ENOENT)
        return bh_err_set(err, BH_E_IO, errno, "cannot remove the old socket '%s'", path);
    return 0;
}

void bh_bus_path_leave(struct bh_bus_path *p)
{
    if (p->lock_fd >= 0)
        (void)unlink(p->lock_name);
    bh_close(BH_TAKE_FD(p->lock_fd));
    bh_free(BH_TAKE(p->lock_name));
}
