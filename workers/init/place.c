/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting files into the workspace. Others may be at work in it (a shared box, an earlier exec of this one): every name
 * is resolved one segment at a time, a symlink in the way is replaced, and a file appears whole by a rename.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "workers/init/init.h"

/* Of what is no directory only a symlink, where not everything has to go. */
static int unlink_obstacle(int dirfd, const char *name, bool everything)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if (S_ISLNK(st.st_mode) || (everything && !S_ISDIR(st.st_mode)))
        return unlinkat(dirfd, name, 0);
    errno = ENOTDIR;
    return -1;
}

static int open_dir(int dirfd, const char *name)
{
    return openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory `name` in dirfd, made where it is missing and where a symlink stands. */
static int open_or_make_dir(int dirfd, const char *name, const struct bh_place *p)
{
    int fd = open_dir(dirfd, name);
    if (fd >= 0)
        return fd;
    if (errno == ENOTDIR || errno == ELOOP) {
        if (unlink_obstacle(dirfd, name, p->replace) < 0)
            return -1;
    } else if (errno != ENOENT) {
        return -1;
    }
    if (mkdirat(dirfd, name, 0755) < 0 && errno != EEXIST)
        return -1;
    fd = open_dir(dirfd, name);
    if (fd >= 0 && fchown(fd, p->owner.uid, p->owner.gid) < 0) {
        bh_close(fd);
        return -1;
    }
    return fd;
}

/* The folder that `path` lies in, made as needed; *ret_name is the last segment. */
static int open_parent(const struct bh_place *p, const char *path, bool make, const char **ret_name)
{
    int fd = fcntl(p->workspace, F_DUPFD_CLOEXEC, 3);
    for (const char *slash; fd >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char segment[256];
        size_t len = (size_t)(slash - path);
        BH_CLEANUP_FD int above = fd;
        if (len >= sizeof(segment)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(segment, path, len);
        segment[len] = '\0';
        fd = make ? open_or_make_dir(above, segment, p) : open_dir(above, segment);
    }
    *ret_name = path;
    return fd;
}

static int send_all(int to, int from)
{
    for (;;) {
        ssize_t n = sendfile(to, from, NULL, 1 << 30);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -1;
    }
}

static int open_delivered(const struct bh_place *p, const char *from)
{
    struct stat st;
    BH_CLEANUP_FD int fd = bh_open_beneath(p->deliver, from, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    return BH_TAKE_FD(fd);
}

static int fill(const struct bh_place *p, int from, int dirfd, const char *name, mode_t mode)
{
    BH_CLEANUP_FD int to = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -1;
    if (send_all(to, from) == 0 && fchown(to, p->owner.uid, p->owner.gid) == 0 && fchmod(to, mode) == 0)
        return 0;
    int why = errno;
    (void)unlinkat(dirfd, name, 0);
    errno = why;
    return -1;
}

/*
 * What every agent has of its own lies over these names. Replacing the name beneath, from here, would take the mount
 * away from all who are at work in a shared box: nobody's files go there.
 */
int bh_place_file(const struct bh_place *p, const char *from, const char *to, bool exec, struct bh_fail *fail)
{
    if (bh_path_is_agents_own(to))
        return bh_fail(fail, EPERM, "copy %s: the name is bulkhead's own", to);
    return bh_place_copy(p, from, to, exec, fail);
}

/* A name that others in a shared box cannot take first. */
static int temporary_name(char *name, size_t size)
{
    unsigned long long salt;
    if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
        return -1;
    (void)snprintf(name, size, BH_TEMPORARY_PREFIX "%016llx", salt);
    return 0;
}

int bh_place_copy(const struct bh_place *p, const char *from, const char *to, bool exec, struct bh_fail *fail)
{
    char temporary[64];
    const char *name;
    if (!bh_path_is_clean(to))
        return bh_fail(fail, EINVAL, "copy %s", to);
    BH_CLEANUP_FD int source = open_delivered(p, from);
    if (source < 0)
        return bh_fail(fail, errno, "copy %s: open it", to);
    BH_CLEANUP_FD int dir = open_parent(p, to, true, &name);
    if (dir < 0)
        return bh_fail(fail, errno, "copy %s: make its folder", to);
    if (temporary_name(temporary, sizeof(temporary)) < 0 || fill(p, source, dir, temporary, exec ? 0755 : 0644) < 0)
        return bh_fail(fail, errno, "copy %s", to);
    if ((!p->replace || bh_rmtree_at(dir, name) == 0) && renameat(dir, temporary, dir, name) == 0)
        return 0;
    int why = errno;
    (void)unlinkat(dir, temporary, 0);
    return bh_fail(fail, why, "copy %s", to);
}

int bh_place_private(const struct bh_place *p, const char *from, int dir, const char *name, struct bh_fail *fail)
{
    BH_CLEANUP_FD int source = open_delivered(p, from);
    if (source < 0 || fill(p, source, dir, name, 0644) < 0)
        return bh_fail(fail, errno, "copy %s", name);
    return 0;
}

int bh_place_empty(const struct bh_place *p, const char *path, struct bh_fail *fail)
{
    const char *name;
    if (!bh_path_is_clean(path) || bh_path_is_agents_own(path))
        return bh_fail(fail, EINVAL, "empty %s", path);
    BH_CLEANUP_FD int dir = open_parent(p, path, false, &name);
    if (dir < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
        return bh_fail(fail, errno, "empty %s", path);
    if (dir >= 0 && bh_rmtree_at(dir, name) < 0)
        return bh_fail(fail, errno, "empty %s", path);
    return 0;
}

int bh_place_folder(const struct bh_place *p, const char *path, struct bh_fail *fail)
{
    const char *name;
    BH_CLEANUP_FD int dir = open_parent(p, path, true, &name);
    return dir < 0 ? bh_fail(fail, errno, "make the folder /workspace/%s", path) : 0;
}

static int make_file(int dirfd, const char *name)
{
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 && errno != EEXIST ? -1 : 0;
}

int bh_place_target(int workspace, const char *name, bool directory, struct bh_fail *fail)
{
    struct stat st;
    bool there = fstatat(workspace, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && S_ISLNK(st.st_mode)) {
        if (unlinkat(workspace, name, 0) < 0)
            return bh_fail(fail, errno, "replace the symlink /workspace/%s", name);
        there = false;
    }
    if (there && !S_ISDIR(st.st_mode) == directory)
        return bh_fail(fail, directory ? ENOTDIR : EISDIR, "use /workspace/%s", name);
    if (!there && (directory ? mkdirat(workspace, name, 0755) : make_file(workspace, name)) < 0 && errno != EEXIST)
        return bh_fail(fail, errno, "make /workspace/%s", name);
    return 0;
}
