/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events are turned into traces as they are read: for an inode, and for the name that it had then, the mounts that it
 * was written through. Their number is bounded: where there are more, all are dropped and the record says that it is
 * not whole. Overflows of the kernel's queue (16,384 events) are the same.
 */
#include "workers/box/fan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "workers/box/mount_id.h"

#define OVERLAY_MAGIC 0x794c7630
#define WRITES (FAN_MODIFY | FAN_CLOSE_WRITE)
#define BATCH 32 /* events, each with a descriptor */
#define TRACES_MAX 16384
#define MARKS_MAX 32 /* writers of one file that are told apart */
#define NAMES_MAX 1024
#define MOMENT_MAX 16384
#define NAME_MAX_BYTES 512 /* of a longer one only the inode is kept */

struct mark {
    uint64_t mount, tag;
    uint64_t wrote, opened; /* the numbers of the last events, 0: none */
    struct bh_wall at;
};

struct trace {
    struct mark *marks;
    size_t n, cap;
};

struct name {
    uint64_t mount, tag;
};

struct bh_fan {
    int fd;
    uint64_t last;         /* number of the last event */
    uint64_t missed;       /* events up to this number may be missing */
    struct bh_map *traces; /* by "/path" and by "inode" */
    struct name *names;
    size_t n_names, cap_names;
};

static void free_trace(void *value)
{
    struct trace *t = value;
    bh_free(t->marks);
    bh_free(t);
}

struct bh_fan *bh_fan_new(void)
{
    struct bh_fan *f = bh_alloc(sizeof(*f));
    *f = (struct bh_fan){.fd = -1, .traces = bh_map_new(free_trace)};
    return f;
}

void bh_fan_stop(struct bh_fan *f)
{
    bh_close(BH_TAKE_FD(f->fd));
}

void bh_fan_free(struct bh_fan *f)
{
    if (!f)
        return;
    bh_fan_stop(f);
    bh_map_free(f->traces);
    bh_free(f->names);
    bh_free(f);
}

int bh_fan_fd(const struct bh_fan *f)
{
    return f->fd;
}

/* Whoever could make us watch another file system would have us open all files of the host that somebody writes. */
static bool is_of_a_box(int rootfd)
{
    struct statfs fs;
    struct stat ours, its;
    return fstatfs(rootfd, &fs) == 0 && fs.f_type == OVERLAY_MAGIC && stat("/", &ours) == 0 &&
           fstat(rootfd, &its) == 0 && ours.st_dev != its.st_dev;
}

int bh_fan_start(struct bh_fan *f, int rootfd)
{
    if (!is_of_a_box(rootfd)) {
        errno = EXDEV;
        return -1;
    }
    /* Non-blocking for the files, too: one of them may be a FIFO. */
    BH_CLEANUP_FD int fd =
        fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_LARGEFILE);
    if (fd < 0 || fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, WRITES, rootfd, ".") < 0)
        return -1;
    bh_fan_stop(f);
    f->fd = BH_TAKE_FD(fd);
    return 0;
}

/* --- names --- */

static uint64_t tag_of(const struct bh_fan *f, uint64_t mount)
{
    for (size_t i = f->n_names; i > 0; i--) { /* of a number that is used again the last one counts */
        if (f->names[i - 1].mount == mount)
            return f->names[i - 1].tag;
    }
    return 0;
}

void bh_fan_name(struct bh_fan *f, uint64_t mount, uint64_t tag)
{
    const char *key;
    void *value;
    if (mount == 0 || tag_of(f, mount) == tag)
        return;
    if (f->n_names == NAMES_MAX) /* of those that ended long ago nobody asks */
        memmove(f->names, f->names + 1, --f->n_names * sizeof(*f->names));
    *BH_PUSH(f->names, f->n_names, f->cap_names) = (struct name){mount, tag};
    for (size_t it = 0; bh_map_next(f->traces, &it, &key, &value);) {
        struct trace *t = value;
        for (size_t i = 0; i < t->n; i++) {
            if (t->marks[i].mount == mount && t->marks[i].tag == 0)
                t->marks[i].tag = tag;
        }
    }
}

/* --- events --- */

static void forget(struct bh_fan *f)
{
    bh_map_free(f->traces);
    f->traces = bh_map_new(free_trace);
    f->missed = f->last;
}

static void trace(struct bh_fan *f, const char *key, uint64_t mount, uint64_t mask)
{
    struct trace *t = bh_map_get(f->traces, key);
    uint64_t tag = tag_of(f, mount);
    struct mark *m = NULL;
    if (!t) {
        t = bh_alloc(sizeof(*t));
        *t = (struct trace){0};
        bh_map_put(f->traces, key, t);
    }
    for (size_t i = 0; i < t->n && !m; i++) {
        if (t->marks[i].mount == mount && t->marks[i].tag == tag)
            m = &t->marks[i];
    }
    if (!m && t->n >= MARKS_MAX) {
        f->missed = f->last;
        return;
    }
    if (!m) {
        m = BH_PUSH(t->marks, t->n, t->cap);
        *m = (struct mark){.mount = mount, .tag = tag};
    }
    if (mask & FAN_MODIFY)
        m->wrote = f->last;
    if (mask & FAN_CLOSE_WRITE)
        m->opened = f->last;
    m->at = bh_wall_now();
}

/* Not to be opened again: a FIFO that we open has a reader for a moment. */
static void ignore(const struct bh_fan *f, int fd)
{
    (void)fanotify_mark(f->fd, FAN_MARK_ADD | FAN_MARK_IGNORED_MASK | FAN_MARK_IGNORED_SURV_MODIFY, WRITES, fd, NULL);
}

static void on_event(struct bh_fan *f, const struct fanotify_event_metadata *e)
{
    char link[40], key[NAME_MAX_BYTES];
    struct statx sx;
    f->last++;
    if (e->vers != FANOTIFY_METADATA_VERSION || e->mask & FAN_Q_OVERFLOW || e->fd < 0) {
        f->missed = f->last;
        return;
    }
    uint64_t mount = bh_mount_id(e->fd, "", BH_FILE_KEY_MASK | STATX_TYPE, &sx);
    if (mount == 0) {
        f->missed = f->last;
        return;
    }
    if (!S_ISREG(sx.stx_mode)) {
        ignore(f, e->fd);
        return;
    }
    if (bh_map_len(f->traces) >= TRACES_MAX)
        forget(f);
    (void)snprintf(key, sizeof(key), "%llu", (unsigned long long)bh_file_key(&sx));
    trace(f, key, mount, e->mask);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", e->fd);
    ssize_t n = readlink(link, key, sizeof(key) - 1);
    if (n > 0 && n < (ssize_t)sizeof(key) - 1 && key[0] == '/') {
        key[n] = '\0';
        trace(f, key, mount, e->mask);
    }
}

/* -1: none waits. */
static int take_batch(struct bh_fan *f)
{
    struct fanotify_event_metadata buf[BATCH];
    int taken = 0;
    ssize_t n = f->fd >= 0 ? read(f->fd, buf, sizeof(buf)) : -1;
    if (n < 0 && f->fd >= 0 && errno != EAGAIN && errno != EINTR) {
        f->missed = ++f->last; /* one that could not be opened is gone; those behind it are not */
        return 1;
    }
    if (n <= 0)
        return -1;
    size_t left = (size_t)n;
    for (const struct fanotify_event_metadata *e = buf; FAN_EVENT_OK(e, left); e = FAN_EVENT_NEXT(e, left)) {
        on_event(f, e);
        bh_close(e->fd);
        taken++;
    }
    return taken;
}

bool bh_fan_take(struct bh_fan *f, size_t max)
{
    for (size_t taken = 0; taken < max;) {
        int n = take_batch(f);
        if (n < 0)
            return false;
        taken += (size_t)n;
    }
    return true;
}

uint64_t bh_fan_moment(struct bh_fan *f)
{
    if (bh_fan_take(f, MOMENT_MAX)) /* somebody writes faster than we read */
        f->missed = f->last;
    return f->last;
}

/* --- questions --- */

static void add_writer(struct bh_box_writers *ret, const struct mark *m, uint64_t since)
{
    if (m->wrote <= since && m->opened <= since)
        return;
    bool wrote = m->wrote > since;
    for (size_t i = 0; i < ret->n; i++) {
        struct bh_box_writer *w = &ret->of[i];
        if (w->tag != m->tag)
            continue;
        w->wrote = w->wrote || wrote;
        if (m->at.us > w->at.us)
            w->at = m->at;
        return;
    }
    if (ret->n < BH_BOX_WRITERS_MAX)
        ret->of[ret->n++] = (struct bh_box_writer){m->tag, wrote, m->at};
    else
        ret->whole = false;
}

static void add_writers(const struct bh_fan *f, const char *key, uint64_t since, struct bh_box_writers *ret)
{
    const struct trace *t = bh_map_get(f->traces, key);
    for (size_t i = 0; t && i < t->n; i++)
        add_writer(ret, &t->marks[i], since);
}

void bh_fan_ask(struct bh_fan *f, uint64_t since, uint64_t file, const char *path, struct bh_box_writers *ret)
{
    char key[24];
    (void)bh_fan_moment(f);
    *ret = (struct bh_box_writers){.whole = f->missed <= since};
    (void)snprintf(key, sizeof(key), "%llu", (unsigned long long)file);
    if (file != 0)
        add_writers(f, key, since, ret);
    if (path)
        add_writers(f, path, since, ret);
}
