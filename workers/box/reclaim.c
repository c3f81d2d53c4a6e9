/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clearing up after a dead owner of a run. The processes of its boxes die with it; this waits for those that are still
 * dying, and kills one that is not, but only where its start time is the noted one: a number that the kernel has given
 * to somebody else since is never touched.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "workers/box/box.h"
#include "workers/rootfs/layers.h"

#define DEATH_TIMEOUT_MS 20000

static int open_dir(int dirfd, const char *name)
{
    return openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- processes --- */

static bool same_start(int64_t pid, const char *start)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FREE char *path = bh_asprintf("/proc/%lld/stat", (long long)pid);
    if (bh_read_file(path, 4096, &text, NULL) != 0)
        return false;
    const char *at = strrchr(text.data, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    size_t len = strlen(start);
    return at && strncmp(at + 1, start, len) == 0 && at[1 + len] == ' ';
}

/* The pidfd is opened first: if the start time is the noted one after that, it is the process that we mean. */
static int end_process(int64_t pid, const char *start)
{
    BH_CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    int ready;
    if (pidfd < 0 || !same_start(pid, start))
        return 0;
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0)
        return errno == ESRCH ? 0 : -1;
    do
        ready = poll(&polled, 1, DEATH_TIMEOUT_MS);
    while (ready < 0 && errno == EINTR);
    errno = ETIMEDOUT;
    return ready == 1 ? 0 : -1;
}

static int end_noted(int box)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    int64_t pid;
    BH_CLEANUP_FD int fd = openat(box, "pid", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || bh_read_all(fd, 64, &text, NULL) != 0)
        return 0;
    char *space = strchr(text.data, ' '), *end = strchr(text.data, '\n');
    if (!space || !end || end < space)
        return 0; /* torn: its writer died before the box began */
    *space = *end = '\0';
    if (bh_parse_int(text.data, &pid) != 0 || pid <= 1 || !space[1])
        return 0;
    return end_process(pid, space + 1);
}

/* --- folders --- */

typedef int (*entry_fn)(int dirfd, const char *name, void *arg);

/* The names are collected first: entries are removed while we go. */
static int each_entry(int dirfd, entry_fn fn, void *arg)
{
    BH_CLEANUP_MAP struct bh_map *names = bh_map_new(NULL);
    int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0, why = 0;
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir) {
        bh_close(copy);
        return -1;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
            (void)bh_map_put(names, e->d_name, NULL);
    }
    (void)closedir(dir);
    const char *name;
    void *unused;
    for (size_t it = 0; bh_map_next(names, &it, &name, &unused);) {
        if (fn(dirfd, name, arg) < 0) {
            rc = -1;
            why = why ? why : errno;
        }
    }
    errno = why;
    return rc;
}

static int reclaim_box(int boxes, const char *name, void *arg)
{
    struct stat st;
    (void)arg;
    BH_CLEANUP_FD int box = open_dir(boxes, name);
    if (box >= 0 && fstatat(box, "work", &st, AT_SYMLINK_NOFOLLOW) < 0 && fstatat(box, "upper", &st, 0) == 0)
        return 0; /* kept */
    if (box >= 0 && end_noted(box) < 0)
        return -1;
    return bh_rmtree_at(boxes, name);
}

static int remove_entry(int dirfd, const char *name, void *arg)
{
    (void)arg;
    return bh_rmtree_at(dirfd, name);
}

static int remove_unused_layer(int layers, const char *name, void *arg)
{
    return bh_map_has(arg, name) ? 0 : bh_rmtree_at(layers, name);
}

/* Layers in use, and all that they stand on. */
static int used_layers(int layers, const char *const *keep, size_t n, struct bh_map *used, struct bh_err **err)
{
    for (size_t i = 0; i < n; i++) {
        struct bh_layer_chain chain = {0};
        int rc = bh_layer_chain_read(layers, keep[i], &chain, err);
        if (rc != 0)
            return rc;
        for (size_t k = 0; k < chain.n; k++)
            (void)bh_map_put(used, chain.names[k], NULL);
        bh_layer_chain_fini(&chain);
    }
    return 0;
}

static int reclaim_layers(int run, const char *const *keep, size_t n, struct bh_err **err)
{
    BH_CLEANUP_MAP struct bh_map *used = bh_map_new(NULL);
    BH_CLEANUP_FD int layers = open_dir(run, "layers");
    if (layers < 0)
        return errno == ENOENT && n == 0 ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot open the layers");
    int rc = used_layers(layers, keep, n, used, err);
    if (rc == 0 && each_entry(layers, remove_unused_layer, used) < 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot remove a layer");
    return rc;
}

static int clear(int run, const char *name, entry_fn fn, struct bh_err **err)
{
    BH_CLEANUP_FD int dir = open_dir(run, name);
    if (dir < 0 && errno == ENOENT)
        return 0;
    if (dir < 0 || each_entry(dir, fn, NULL) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot clear '%s'", name);
    return 0;
}

int bh_boxes_reclaim(const char *run_dir, const char *const *keep_layers, size_t n, struct bh_err **err)
{
    BH_CLEANUP_FD int run = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", run_dir);
    int rc = clear(run, "boxes", reclaim_box, err);
    if (rc == 0)
        rc = clear(run, "tmp", remove_entry, err);
    if (rc == 0)
        rc = reclaim_layers(run, keep_layers, n, err);
    return rc == 0 ? 0 : bh_err_wrap(err, rc, "clearing up '%s'", run_dir);
}
