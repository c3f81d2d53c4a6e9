/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clearing up after a dead owner of a run. The processes of its boxes die with it; this waits for those that are still
 * dying, and kills one that is not, but only where start and boot are the noted ones: a number that the kernel has
 * given to somebody else since is never touched.
 */
#include "workers/box/reclaim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "base/text.h"
#include "base/units.h"
#include "workers/box/box.h"
#include "workers/box/stand.h"
#include "workers/disk/count.h"
#include "workers/disk/quota.h"
#include "workers/rootfs/layers.h"

#define DEATH_TIMEOUT_MS 20000

static int open_dir(int dirfd, const char *name)
{
    return openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- processes --- */

static int end_process(int64_t pid, const char *start, const char *boot)
{
    BH_CLEANUP_FD int pidfd = bh_process_open(pid, start, boot);
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    int ready;
    if (pidfd < 0)
        return 0;
    /* EPERM: its ids are subordinate ones, lent to a process that is dead; it dies of that one's death. */
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 && errno != EPERM)
        return errno == ESRCH ? 0 : -1;
    do
        ready = poll(&polled, 1, DEATH_TIMEOUT_MS);
    while (ready < 0 && errno == EINTR);
    errno = ETIMEDOUT;
    return ready == 1 ? 0 : -1;
}

/* "PID START BOOT\n". One that is torn, or that an older bulkhead wrote, means nobody. */
static int end_noted(int box)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    char *rest = NULL;
    int64_t pid;
    BH_CLEANUP_FD int fd = openat(box, "pid", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || bh_read_all(fd, 128, &text, NULL) != 0 || text.len == 0 || text.data[text.len - 1] != '\n')
        return 0;
    text.data[text.len - 1] = '\0';
    const char *number = strtok_r(text.data, " ", &rest), *start = strtok_r(NULL, " ", &rest);
    const char *boot = strtok_r(NULL, " ", &rest);
    if (!boot || bh_parse_int(number, &pid) != 0 || pid <= 1)
        return 0;
    return end_process(pid, start, boot);
}

/* --- one thing --- */

int64_t bh_reclaim_bytes(int dirfd, const char *name)
{
    struct bh_disk_usage usage = {0};
    struct stat st;
    const struct bh_disk_bounds bounds = {0};
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    BH_CLEANUP_FD int dir = S_ISDIR(st.st_mode) ? open_dir(dirfd, name) : -1;
    if (dir >= 0)
        bh_disk_count(dir, &bounds, &usage);
    return usage.bytes + (int64_t)st.st_blocks * 512;
}

static int reclaim_by(int (*rm)(int dirfd, const char *name), const struct bh_reclaim *how, const char *kind,
                      const char *folder, int dirfd, const char *name)
{
    int64_t bytes = how->found ? bh_reclaim_bytes(dirfd, name) : 0;
    int why = !how->dry_run && rm(dirfd, name) < 0 ? errno : 0;
    if (how->found) {
        BH_CLEANUP_FREE char *path = folder[0] ? bh_path_join(folder, name) : bh_strdup(name);
        how->found(how->arg, &(struct bh_reclaimed){.kind = kind, .path = path, .bytes = bytes, .error = why});
    }
    errno = why;
    return why ? -1 : 0;
}

int bh_reclaim_one(const struct bh_reclaim *how, const char *kind, const char *folder, int dirfd, const char *name)
{
    return reclaim_by(bh_rmtree_at, how, kind, folder, dirfd, name);
}

int bh_reclaim_whole(const struct bh_reclaim *how, const char *kind, const char *folder, int dirfd, const char *name)
{
    return reclaim_by(bh_rmtree_whole_at, how, kind, folder, dirfd, name);
}

/* --- folders --- */

struct clearing {
    const struct bh_reclaim *how;
    const char *kind, *folder;
    struct bh_map *used; /* layers */
};

typedef int (*entry_fn)(int dirfd, const char *name, const struct clearing *c);

/* The names are collected first: entries are removed while we go. */
static int each_entry(int dirfd, entry_fn fn, const struct clearing *c)
{
    BH_CLEANUP_MAP struct bh_map *names = bh_map_new(NULL);
    int rc = 0, why = 0;
    DIR *dir = bh_dir_stream(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return -1;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
            (void)bh_map_put(names, e->d_name, NULL);
    }
    (void)closedir(dir);
    const char *name;
    void *unused;
    for (size_t it = 0; bh_map_next(names, &it, &name, &unused);) {
        if (fn(dirfd, name, c) < 0) {
            rc = -1;
            why = why ? why : errno;
        }
    }
    errno = why;
    return rc;
}

/* A kept box, or -1. What is on its way out has a name that begins with a dot, and may have lost anything by now. */
static int open_kept(int boxes, const char *name)
{
    struct stat st;
    BH_CLEANUP_FD int box = name[0] != '.' ? open_dir(boxes, name) : -1;
    bool kept = box >= 0 && fstatat(box, "work", &st, AT_SYMLINK_NOFOLLOW) < 0 &&
                fstatat(box, BH_BOX_UNDECIDED, &st, AT_SYMLINK_NOFOLLOW) < 0 && fstatat(box, "upper", &st, 0) == 0;
    return kept ? BH_TAKE_FD(box) : -1;
}

static int reclaim_box(int boxes, const char *name, const struct clearing *c)
{
    BH_CLEANUP_FD int kept = open_kept(boxes, name);
    if (kept >= 0)
        return 0;
    BH_CLEANUP_FD int box = open_dir(boxes, name);
    if (box >= 0 && !c->how->dry_run) {
        if (end_noted(box) < 0)
            return -1;
        bh_disk_quota_forget(box);
    }
    return bh_reclaim_whole(c->how, c->kind, c->folder, boxes, name);
}

static int remove_entry(int dirfd, const char *name, const struct clearing *c)
{
    return bh_reclaim_one(c->how, c->kind, c->folder, dirfd, name);
}

static int remove_temporary(int dirfd, const char *name, const struct clearing *c)
{
    return bh_starts_with(name, BH_TEMPORARY_PREFIX) ? remove_entry(dirfd, name, c) : 0;
}

static int remove_unused_layer(int layers, const char *name, const struct clearing *c)
{
    return bh_map_has(c->used, name) ? 0 : bh_reclaim_whole(c->how, c->kind, c->folder, layers, name);
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

/* What kept boxes stand on. A layer that is gone is no reason to keep the others less. */
static void kept_layers(int run, struct bh_map *used)
{
    DIR *dir = bh_dir_stream(open_dir(run, "boxes"));
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        struct bh_box_stand stand = {0};
        BH_CLEANUP_FD int box = open_kept(dirfd(dir), e->d_name);
        if (box < 0 || bh_box_stand_read(box, &stand, NULL) != 0)
            continue;
        for (size_t i = 0; i < stand.n_layers; i++)
            (void)bh_map_put(used, stand.layers[i], NULL);
        bh_box_stand_fini(&stand);
    }
    (void)closedir(dir);
}

static int reclaim_layers(int run, const char *const *keep, size_t n, const struct bh_reclaim *how, struct bh_err **err)
{
    BH_CLEANUP_MAP struct bh_map *used = bh_map_new(NULL);
    const struct clearing c = {.how = how, .kind = "layer", .folder = "layers", .used = used};
    BH_CLEANUP_FD int layers = open_dir(run, "layers");
    if (layers < 0)
        return errno == ENOENT && n == 0 ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot open the layers");
    int rc = used_layers(layers, keep, n, used, err);
    kept_layers(run, used);
    if (rc == 0 && each_entry(layers, remove_unused_layer, &c) < 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot remove a layer");
    return rc;
}

static int clear(int run, const char *name, entry_fn fn, const char *kind, const struct bh_reclaim *how,
                 struct bh_err **err)
{
    const struct clearing c = {.how = how, .kind = kind, .folder = name[0] == '.' ? "" : name};
    BH_CLEANUP_FD int dir = open_dir(run, name);
    if (dir < 0 && errno == ENOENT)
        return 0;
    if (dir < 0 || each_entry(dir, fn, &c) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot clear '%s'", name);
    return 0;
}

int bh_boxes_reclaim_how(const char *run_dir, const char *const *keep_layers, size_t n, const struct bh_reclaim *how,
                         struct bh_err **err)
{
    BH_CLEANUP_FD int run = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", run_dir);
    int rc = clear(run, "boxes", reclaim_box, "box", how, err);
    int more = clear(run, "tmp", remove_entry, "temporary", how, rc == 0 ? err : NULL);
    rc = rc == 0 ? more : rc;
    more = clear(run, ".", remove_temporary, "temporary", how, rc == 0 ? err : NULL);
    rc = rc == 0 ? more : rc;
    more = keep_layers ? reclaim_layers(run, keep_layers, n, how, rc == 0 ? err : NULL) : 0;
    rc = rc == 0 ? more : rc;
    return rc == 0 ? 0 : bh_err_wrap(err, rc, "clearing up '%s'", run_dir);
}

int bh_boxes_reclaim(const char *run_dir, const char *const *keep_layers, size_t n, struct bh_err **err)
{
    static const char *const none[1] = {NULL};
    const struct bh_reclaim how = {0};
    return bh_boxes_reclaim_how(run_dir, keep_layers ? keep_layers : none, n, &how, err);
}

bool bh_boxes_some_kept(const char *run_dir)
{
    BH_CLEANUP_FREE char *path = bh_path_join(run_dir, "boxes");
    DIR *dir = opendir(path);
    bool found = false;
    if (!dir)
        return false;
    for (struct dirent *e; !found && (e = readdir(dir));) {
        BH_CLEANUP_FD int box = open_kept(dirfd(dir), e->d_name);
        found = box >= 0;
    }
    (void)closedir(dir);
    return found;
}
