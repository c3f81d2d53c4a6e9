/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths below a descriptor, and files that are read or replaced whole. Nothing here keeps state but the
 * knowledge that openat2 is missing. The fallback must refuse whatever openat2 refuses: it opens one
 * segment at a time without following, so a link that is swapped in meanwhile is refused as well.
 */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#define WALK_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static bool forced_fallback;
static bool openat2_missing;

void bh_path_force_fallback(bool on)
{
    __atomic_store_n(&forced_fallback, on, __ATOMIC_RELAXED);
}

/* The next segment of *p that is not "." (NULL at the end); moves *p behind it. */
static const char *next_segment(const char **p, size_t *ret_len)
{
    for (;;) {
        *p += strspn(*p, "/");
        if (!**p)
            return NULL;
        const char *segment = *p;
        *ret_len = strcspn(segment, "/");
        *p += *ret_len;
        if (*ret_len != 1 || *segment != '.')
            return segment;
    }
}

/* What is refused before the kernel is asked, the same for openat2 and the walk. */
static int check_name(const char *name)
{
    size_t len;
    errno = EINVAL;
    if (*name == '\0' || *name == '/')
        return -1;
    for (const char *p = name, *s; (s = next_segment(&p, &len)) != NULL;) {
        if (len == 2 && memcmp(s, "..", 2) == 0)
            return -1;
    }
    errno = ENAMETOOLONG;
    return strlen(name) < PATH_MAX ? 0 : -1;
}

static int try_openat2(int dirfd, const char *name, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? mode & 07777 : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
}

/* ENOTDIR because of a symlink is said as ELOOP, as openat2 does. Only the errno depends on this second look. */
static int open_dir_segment(int dirfd, const char *segment, int flags, mode_t mode)
{
    struct stat st;
    int fd = openat(dirfd, segment, flags, mode);
    if (fd < 0 && errno == ENOTDIR)
        errno = fstatat(dirfd, segment, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
    return fd;
}

/* O_PATH|O_NOFOLLOW opens a link itself, which only a caller who gave both flags wants. */
static int open_last(int dirfd, const char *segment, int flags, mode_t mode, bool must_be_directory)
{
    struct stat st;
    bool wants_link = (flags & O_PATH) && (flags & O_NOFOLLOW) && !must_be_directory;
    if (must_be_directory)
        flags |= O_DIRECTORY;
    if (flags & O_DIRECTORY && !wants_link)
        return open_dir_segment(dirfd, segment, flags | O_NOFOLLOW | O_CLOEXEC, mode & 07777);
    BH_CLEANUP_FD int fd = openat(dirfd, segment, flags | O_NOFOLLOW | O_CLOEXEC, mode & 07777);
    if (fd < 0 || !(flags & O_PATH) || wants_link)
        return BH_TAKE_FD(fd);
    if (fstat(fd, &st) < 0)
        return -1;
    if (S_ISLNK(st.st_mode)) {
        errno = ELOOP;
        return -1;
    }
    return BH_TAKE_FD(fd);
}

static bool ends_as_directory(const char *name)
{
    size_t n = strlen(name);
    return name[n - 1] == '/' || (n >= 2 && name[n - 1] == '.' && name[n - 2] == '/');
}

/*
 * Opens the folder that holds the last segment, whose name goes to `last` ("." for a name of nothing but dots). Makes
 * missing folders where `make` is given. *ret_owned is -1 where that folder is dirfd itself.
 */
static int walk(int dirfd, const char *name, const mode_t *make, char last[static NAME_MAX + 1], int *ret_owned)
{
    BH_CLEANUP_FD int owned = -1;
    size_t len = 1;
    const char *p = name, *segment = next_segment(&p, &len);
    for (segment = segment ? segment : "."; segment;) {
        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(last, segment, len);
        last[len] = '\0';
        segment = next_segment(&p, &len);
        if (!segment)
            break;
        int at = owned >= 0 ? owned : dirfd;
        if (make && mkdirat(at, last, *make) < 0 && errno != EEXIST)
            return -1;
        int next = open_dir_segment(at, last, WALK_FLAGS, 0);
        if (next < 0)
            return -1;
        bh_close(owned);
        owned = next;
    }
    *ret_owned = BH_TAKE_FD(owned);
    return 0;
}

static int open_by_walk(int dirfd, const char *name, int flags, mode_t mode)
{
    char last[NAME_MAX + 1];
    BH_CLEANUP_FD int owned = -1;
    if (walk(dirfd, name, NULL, last, &owned) < 0)
        return -1;
    bool must_be_directory = ends_as_directory(name);
    if (must_be_directory && flags & O_CREAT) {
        errno = EISDIR;
        return -1;
    }
    return open_last(owned >= 0 ? owned : dirfd, last, flags, mode, must_be_directory);
}

int bh_open_beneath(int dirfd, const char *name, int flags, mode_t mode)
{
    if (check_name(name) < 0)
        return -1;
    if (!__atomic_load_n(&forced_fallback, __ATOMIC_RELAXED) && !__atomic_load_n(&openat2_missing, __ATOMIC_RELAXED)) {
        int fd = try_openat2(dirfd, name, flags, mode);
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
            return fd;
        /* EPERM is what a filter says, or a true answer about this file, which the walk will give again. */
        if (errno == ENOSYS)
            __atomic_store_n(&openat2_missing, true, __ATOMIC_RELAXED);
    }
    return open_by_walk(dirfd, name, flags, mode);
}

int bh_mkdirat_p(int dirfd, const char *name, mode_t mode)
{
    char last[NAME_MAX + 1];
    BH_CLEANUP_FD int owned = -1;
    if (check_name(name) < 0 || walk(dirfd, name, &mode, last, &owned) < 0)
        return -1;
    int at = owned >= 0 ? owned : dirfd;
    if (mkdirat(at, last, mode) == 0)
        return 0;
    if (errno != EEXIST)
        return -1;
    BH_CLEANUP_FD int there = open_dir_segment(at, last, WALK_FLAGS, 0);
    return there < 0 ? -1 : 0;
}

static int make_one(const char *path, mode_t mode, struct bh_err **err)
{
    struct stat st;
    if (mkdir(path, mode) == 0)
        return 0;
    int why = errno;
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return 0;
        why = ENOTDIR;
    }
    return bh_err_set(err, BH_E_IO, why, "cannot make the folder '%s'", path);
}

int bh_mkdir_p(const char *path, mode_t mode, struct bh_err **err)
{
    BH_CLEANUP_FREE char *copy = bh_strdup(path);
    if (!*path)
        return bh_err_set(err, BH_E_IO, ENOENT, "cannot make the folder ''");
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        int r = make_one(copy, mode, err);
        if (r < 0)
            return r;
        *p = '/';
    }
    return make_one(path, mode, err);
}

static int write_and_sync(int fd, const void *data, size_t len, mode_t mode)
{
    if (fchmod(fd, mode) < 0 || bh_write_all(fd, data, len) < 0)
        return -1;
    return fsync(fd);
}

/* A file system that cannot sync a folder says EINVAL; it keeps the rename as well as it can. */
static int sync_folder(const char *folder)
{
    BH_CLEANUP_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    return fsync(fd) < 0 && errno != EINVAL ? -1 : 0;
}

/* A nameless file gets the name that it is meant for at once; only to replace another one it needs a name before. */
static int give_name(int fd, const char *path, const char *temporary)
{
    char self[64];
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    if (errno != EEXIST || linkat(AT_FDCWD, self, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) < 0)
        return -1;
    return rename(temporary, path);
}

/* Nameless while it is written, where the file system can: whoever is killed meanwhile leaves nothing. */
static int replace(const char *folder, const char *temporary, const char *path, const void *data, size_t len,
                   mode_t mode)
{
    BH_CLEANUP_FD int fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    bool nameless = fd >= 0;
    if (!nameless)
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write_and_sync(fd, data, len, mode) < 0)
        return -1;
    return nameless ? give_name(fd, path, temporary) : rename(temporary, path);
}

int bh_write_file_atomic(const char *path, const void *data, size_t len, mode_t mode, struct bh_err **err)
{
    uint64_t unique;
    BH_ASSERT(getrandom(&unique, sizeof(unique), 0) == (ssize_t)sizeof(unique));
    BH_CLEANUP_FREE char *folder = bh_path_dirname(path);
    BH_CLEANUP_FREE char *temporary =
        bh_asprintf("%s/%s%016llx", folder, BH_TEMPORARY_PREFIX, (unsigned long long)unique);
    if (replace(folder, temporary, path, data, len, mode) < 0) {
        int why = errno;
        (void)unlink(temporary);
        return bh_err_set(err, BH_E_IO, why, "cannot write '%s'", path);
    }
    if (sync_folder(folder) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot sync the folder '%s'", folder);
    return 0;
}

int bh_read_file(const char *path, size_t max, struct bh_buf *out, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) {
        int r = bh_err_set(err, BH_E_NOT_FOUND, errno, "cannot read '%s'", path);
        bh_err_hint(err, "check the name of the file");
        return r;
    }
    if (fd < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot read '%s'", path);
    int r = bh_read_all(fd, max, out, err);
    return r < 0 ? bh_err_wrap(err, r, "reading '%s'", path) : 0;
}

char *bh_path_join(const char *a, const char *b)
{
    if (*b == '/' || !*a)
        return bh_strdup(b);
    if (!*b)
        return bh_strdup(a);
    return bh_asprintf("%s%s%s", a, a[strlen(a) - 1] == '/' ? "" : "/", b);
}

char *bh_path_dirname(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    return len ? bh_strndup(path, len) : bh_strdup(".");
}

bool bh_path_is_clean(const char *name)
{
    for (const char *p = name;; p++) {
        size_t len = strcspn(p, "/");
        if (len == 0 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += len;
        if (!*p)
            return true;
    }
}

bool bh_path_escapes(const char *path, size_t len)
{
    int depth = 0;
    for (const char *s = path, *end = path + len; s < end && depth >= 0;) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        size_t n = slash ? (size_t)(slash - s) : (size_t)(end - s);
        if (n == 2 && memcmp(s, "..", 2) == 0)
            depth--;
        else if (n > 0 && !(n == 1 && *s == '.'))
            depth++;
        s += n + 1;
    }
    return depth < 0;
}

bool bh_path_is_agents_own(const char *path)
{
    static const char *const names[] = {"in", "prompt.md", "params.json", "needs.json"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        size_t n = strlen(names[i]);
        if (strncmp(path, names[i], n) == 0 && (path[n] == '\0' || path[n] == '/'))
            return true;
    }
    return false;
}
