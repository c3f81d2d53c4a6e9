/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory and who owns a run in it. Makes the folders, checks the version, and holds the
 * lock of a run. May assume that the home is on a file system with flock. Must never trust a folder of
 * the home that belongs to somebody else when it writes, and never blocks longer than it was told.
 */
#include "base/home.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/units.h"

#define HOME_VERSION 1
#define RETRY_NS (2 * BH_NS_PER_MS)
/* bh_home_run_is_owned holds a shared lock for microseconds; this much patience keeps it from being taken for an owner.
 */
#define PATIENCE_NS (20 * BH_NS_PER_MS)

static const char *const subfolders[] = {"store", "cas", "bases", "runs"};

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static char *choose(const char *path)
{
    const char *state = env("XDG_STATE_HOME");
    if (path && *path)
        return bh_strdup(path);
    if (env("BULKHEAD_HOME"))
        return bh_strdup(env("BULKHEAD_HOME"));
    if (state && *state == '/') /* the XDG specification: a relative one is to be ignored */
        return bh_path_join(state, "bulkhead");
    return env("HOME") ? bh_path_join(env("HOME"), ".local/state/bulkhead") : NULL;
}

int bh_home_find(const char *path, char **ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *chosen = choose(path);
    if (!chosen) {
        int r = bh_err_set(err, BH_E_NOT_FOUND, 0,
                           "no state directory: none of '--home', 'BULKHEAD_HOME' and 'HOME' is set");
        bh_err_hint(err, "give one with --home DIR");
        return r;
    }
    if (*chosen == '/') {
        *ret = BH_TAKE(chosen);
        return 0;
    }
    char *cwd = getcwd(NULL, 0);
    if (!cwd)
        return bh_err_set(err, BH_E_IO, errno, "cannot find the current folder, to which '%s' is relative", chosen);
    *ret = bh_path_join(cwd, chosen);
    bh_free(cwd);
    return 0;
}

static int fail(struct bh_err **err, int why, const char *path)
{
    int r = bh_err_set(err, BH_E_IO, why, "cannot use the state directory '%s'", path);
    switch (r) {
    case -BH_E_DISK_FULL:
        return r;
    case -BH_E_PERMISSION:
        bh_err_hint(err, "make it writable, or name another with --home DIR or $BULKHEAD_HOME");
        return r;
    default:
        if (access("/proc/self", F_OK) < 0)
            bh_err_hint(err, "there is no /proc here, without which nothing works: mount one");
        else
            bh_err_hint(err, "name another with --home DIR or $BULKHEAD_HOME");
        return r;
    }
}

static int not_found(struct bh_err **err, const char *path)
{
    int r = bh_err_set(err, BH_E_NOT_FOUND, 0, "no state directory at '%s'", path);
    bh_err_hint(err, "'bulkhead run' makes it; name another with --home DIR or $BULKHEAD_HOME");
    return r;
}

static int open_directory(const char *path, bool create, int *ret_fd, struct bh_err **err)
{
    struct bh_err *why = NULL;
    int r = create ? bh_mkdir_p(path, 0700, &why) : 0;
    if (r < 0) {
        BH_CLEANUP_ERR struct bh_err *inner = why;
        r = fail(err, bh_err_errno(inner), path);
        bh_err_detail(err, "%s", bh_err_message(inner));
        return r;
    }
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd >= 0)
        return 0;
    return errno == ENOENT ? not_found(err, path) : fail(err, errno, path);
}

static int parse_version(const char *path, struct bh_buf *text, struct bh_err **err)
{
    int64_t version;
    while (text->len > 0 && text->data[text->len - 1] == '\n')
        text->data[--text->len] = '\0';
    if (bh_parse_int(text->data, &version) < 0 || version < 1)
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "'%s/version' holds no version number", path);
    if (version > HOME_VERSION)
        return bh_err_set(
            err, BH_E_STORE_VERSION, 0,
            "the state directory '%s' was made by a newer bulkhead: it has version %lld, and this one knows %d", path,
            (long long)version, HOME_VERSION);
    return 0;
}

/* Two processes that write it at once write the same. */
static int write_version(const char *path, struct bh_err **err)
{
    BH_CLEANUP_FREE char *file = bh_path_join(path, "version");
    struct bh_err *why = NULL;
    char text[16];
    int n = snprintf(text, sizeof(text), "%d\n", HOME_VERSION);
    if (bh_write_file_atomic(file, text, (size_t)n, 0600, &why) == 0)
        return 0;
    BH_CLEANUP_ERR struct bh_err *inner = why;
    return fail(err, bh_err_errno(inner), path);
}

static int check_version(int dirfd, const char *path, bool create, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = bh_open_beneath(dirfd, "version", O_RDONLY, 0);
    if (fd < 0 && errno == ENOENT)
        return create ? write_version(path, err) : not_found(err, path);
    if (fd < 0)
        return fail(err, errno, path);
    int r = bh_read_all(fd, 64, &text, NULL);
    if (r == -BH_E_TOO_LARGE)
        bh_buf_clear(&text); /* no number has 64 digits */
    else if (r < 0)
        return bh_err_set(err, BH_E_IO, 0, "cannot read '%s/version'", path);
    return parse_version(path, &text, err);
}

static int not_yours(const char *path, const char *name, uid_t owner, struct bh_err **err)
{
    int r = bh_err_set(err, BH_E_PERMISSION, 0, "'%s/%s' belongs to user %u, not to you", path, name, owner);
    bh_err_hint(err, "name a state directory of your own with --home DIR or $BULKHEAD_HOME");
    return r;
}

static int make_subfolder(int dirfd, const char *path, const char *name, struct bh_err **err)
{
    struct stat st;
    if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
        return fail(err, errno, path);
    BH_CLEANUP_FD int fd = bh_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return bh_err_wrap(err, fail(err, errno, path), "opening '%s'", name);
    if (st.st_uid != geteuid())
        return not_yours(path, name, st.st_uid, err);
    if (st.st_mode & 077 && fchmod(fd, 0700) < 0)
        return fail(err, errno, path);
    return 0;
}

int bh_home_open(const char *path, bool create, struct bh_home *ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *chosen = NULL;
    BH_CLEANUP_FD int fd = -1;
    int r = bh_home_find(path, &chosen, err);
    if (r == 0)
        r = open_directory(chosen, create, &fd, err);
    if (r == 0)
        r = check_version(fd, chosen, create, err);
    for (size_t i = 0; r == 0 && create && i < BH_ARRAY_LEN(subfolders); i++)
        r = make_subfolder(fd, chosen, subfolders[i], err);
    if (r < 0)
        return r;
    *ret = (struct bh_home){.path = BH_TAKE(chosen), .dirfd = BH_TAKE_FD(fd)};
    return 0;
}

void bh_home_close(struct bh_home *home)
{
    bh_free(home->path);
    bh_close(home->dirfd);
    *home = (struct bh_home){.dirfd = -1};
}

static int check_own(const struct bh_home *home, const char *name, struct bh_err **err)
{
    struct stat st;
    BH_CLEANUP_FD int fd = bh_home_open_folder(home, name);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
        int r = bh_err_set(err, BH_E_PERMISSION, 0, "'%s/%s' is no folder but a link or a file", home->path, name);
        bh_err_hint(err, "name a state directory of your own with --home DIR or $BULKHEAD_HOME");
        return r;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return bh_err_wrap(err, fail(err, errno, home->path), "opening '%s'", name);
    return st.st_uid == geteuid() ? 0 : not_yours(home->path, name, st.st_uid, err);
}

int bh_home_check_own(const struct bh_home *home, struct bh_err **err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < BH_ARRAY_LEN(subfolders); i++)
        r = check_own(home, subfolders[i], err);
    return r;
}

int bh_home_open_folder(const struct bh_home *home, const char *rel)
{
    return bh_open_beneath(home->dirfd, rel, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

DIR *bh_home_list(const struct bh_home *home, const char *rel)
{
    return bh_dir_stream(bh_home_open_folder(home, rel));
}

char *bh_home_path(const struct bh_home *home, const char *rel)
{
    return bh_path_join(home->path, rel);
}

char *bh_home_run_path(const struct bh_home *home, const char *run, const char *rel)
{
    return bh_asprintf("%s/runs/%s%s%s", home->path, run, rel ? "/" : "", rel ? rel : "");
}

/* In clock ticks since boot, the 22nd field of /proc/PID/stat; 0 where there is none, or only a dead one. */
static unsigned long long start_time(long pid)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    if (bh_read_file(path, 4096, &text, NULL) < 0)
        return 0;
    const char *p = strrchr(text.data, ')'); /* the name may hold blanks and brackets */
    if (p && (strncmp(p, ") Z", 3) == 0 || strncmp(p, ") X", 3) == 0))
        return 0;
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

static int busy(int fd, const char *run, struct bh_err **err)
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? strcspn(text, " \n") : 0] = '\0';
    if (!*text)
        return bh_err_set(err, BH_E_BUSY, 0, "another process owns the run '%s'", run);
    return bh_err_set(err, BH_E_BUSY, 0, "another process, %s, owns the run '%s'", text, run);
}

static int open_owner(const struct bh_home *home, const char *run, int *ret_fd, struct bh_err **err)
{
    BH_CLEANUP_FREE char *folder = bh_asprintf("runs/%s", run);
    BH_CLEANUP_FREE char *owner = bh_path_join(folder, "owner");
    if (bh_mkdirat_p(home->dirfd, folder, 0700) == 0)
        *ret_fd = bh_open_beneath(home->dirfd, owner, O_RDWR | O_CREAT, 0600);
    if (*ret_fd < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot make '%s/%s'", home->path, owner);
    return 0;
}

/* 1: locked. 0: somebody else has it. */
static int lock_once(int fd, const char *run, struct bh_err **err)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 1;
    if (errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    return bh_err_set(err, BH_E_IO, errno, "cannot lock the run '%s'", run);
}

/*
 * Whether the process that took the lock lives. When it does not, what still holds the lock is what it left behind, and
 * that is about to go.
 */
static bool owner_lives(int fd)
{
    char text[64] = "", *end;
    if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
        return false;
    long pid = strtol(text, &end, 10);
    unsigned long long start = strtoull(end, NULL, 10);
    return pid > 0 && start > 0 && start_time(pid) == start;
}

static int lock_until(int fd, const char *run, struct bh_mono deadline, struct bh_err **err)
{
    struct bh_mono patience = {.ns = bh_mono_now().ns + PATIENCE_NS};
    for (;;) {
        int r = lock_once(fd, run, err);
        if (r != 0)
            return r < 0 ? r : 0;
        int64_t now = bh_mono_now().ns, left = deadline.ns - now;
        if (now >= patience.ns && owner_lives(fd))
            return busy(fd, run, err);
        if (left <= 0)
            return busy(fd, run, err);
        struct timespec pause = {.tv_nsec = left < RETRY_NS ? left : RETRY_NS};
        (void)ppoll(NULL, 0, &pause, NULL);
    }
}

/* A folder that was cleared away between our open and our lock leaves us with the lock of a file without a name. */
static bool still_named(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static int say_owner(int fd, const char *run, struct bh_err **err)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%d %llu\n", (int)getpid(), start_time((long)getpid()));
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return bh_err_set(err, BH_E_IO, errno, "cannot write the owner of the run '%s'", run);
    return 0;
}

int bh_home_own_run(const struct bh_home *home, const char *run, int64_t wait_ns, int *ret_fd, struct bh_err **err)
{
    struct bh_mono deadline = {.ns = bh_mono_now().ns + (wait_ns > PATIENCE_NS ? wait_ns : PATIENCE_NS)};
    if (!bh_path_is_clean(run) || strchr(run, '/'))
        return bh_err_set(err, BH_E_USAGE, 0, "'%s' is no run id", run);
    for (;;) {
        BH_CLEANUP_FD int fd = -1;
        int r = open_owner(home, run, &fd, err);
        if (r == 0)
            r = lock_until(fd, run, deadline, err);
        if (r < 0)
            return r;
        if (!still_named(fd))
            continue;
        r = say_owner(fd, run, err);
        if (r == 0)
            *ret_fd = BH_TAKE_FD(fd);
        return r;
    }
}

int bh_home_hold_run(const struct bh_home *home, const char *run, int *ret_fd)
{
    BH_CLEANUP_FREE char *owner = bh_asprintf("runs/%s/owner", run);
    BH_CLEANUP_FD int fd = bh_open_beneath(home->dirfd, owner, O_RDONLY, 0);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EINVAL ? 0 : -1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? 0 : -1;
    if (!still_named(fd))
        return 0;
    *ret_fd = BH_TAKE_FD(fd);
    return 1;
}

bool bh_home_run_is_owned(const struct bh_home *home, const char *run)
{
    BH_CLEANUP_FREE char *owner = bh_asprintf("runs/%s/owner", run);
    BH_CLEANUP_FD int fd = bh_open_beneath(home->dirfd, owner, O_RDONLY, 0);
    if (fd < 0) /* a file that we may not look at: whoever asks must leave the run alone */
        return errno != ENOENT && errno != ENOTDIR && errno != EINVAL;
    return flock(fd, LOCK_SH | LOCK_NB) < 0;
}
