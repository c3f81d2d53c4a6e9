/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes into log files. Only our ends of the pipes are non-blocking: the flag belongs to the open file, and an agent
 * whose writes failed with EAGAIN would lose output.
 */
#include "workers/capture.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/mask.h"

#define PER_TURN (64 * 1024)

struct bh_capture {
    unsigned refs;
    struct bh_arena *arena; /* of path and tags */
    const char *path;
    struct bh_log_tags tags;
    uint64_t limit;
    struct bh_log_writer *writer; /* NULL: nothing was printed yet, or the file could not be made */
    uint64_t unwritten;           /* bytes that came when it could not */
    char *why;                    /* of the first failure */
    struct bh_mask *mask;         /* NULL: there is nothing to hide */
    struct bh_mask_stream masks[2];
};

static void note_failure(struct bh_capture *c, struct bh_err *err)
{
    if (!c->why)
        c->why = bh_strdup(bh_err_message(err));
    bh_err_free(err);
}

struct bh_capture *bh_capture_new(const char *path, const struct bh_log_tags *tags, int64_t limit)
{
    struct bh_capture *c = bh_alloc(sizeof(*c));
    struct bh_arena *arena = bh_arena_new();
    c->refs = 1;
    c->arena = arena;
    c->path = bh_arena_strdup(arena, path);
    c->limit = (uint64_t)(limit > 0 ? limit : BH_CAPTURE_LIMIT);
    c->tags = (struct bh_log_tags){
        .run = bh_arena_strdup(arena, tags->run),
        .stage = bh_arena_strdup(arena, tags->stage),
        .agent = bh_arena_strdup(arena, tags->agent),
        .instance = bh_arena_strdup(arena, tags->instance),
        .box = bh_arena_strdup(arena, tags->box),
        .attempt = tags->attempt,
        .try_ = tags->try_,
        .tainted = tags->tainted,
    };
    return c;
}

/* Most agents print, many print nothing: the file is made with the first byte. Tried once. */
static bool has_writer(struct bh_capture *c)
{
    struct bh_err *err = NULL;
    if (!c->writer && !c->why && bh_log_writer_open(c->path, &c->tags, c->limit, &c->writer, &err) != 0)
        note_failure(c, err);
    return c->writer != NULL;
}

struct bh_capture *bh_capture_ref(struct bh_capture *c)
{
    c->refs++;
    return c;
}

void bh_capture_unref(struct bh_capture *c)
{
    if (!c || --c->refs > 0)
        return;
    bh_log_writer_close(c->writer);
    for (size_t i = 0; i < BH_ARRAY_LEN(c->masks); i++)
        bh_mask_stream_fini(&c->masks[i]);
    bh_mask_unref(c->mask);
    bh_arena_free(c->arena);
    bh_free(c->why);
    bh_free(c);
}

char *bh_capture_problem(const struct bh_capture *c)
{
    uint64_t lost = c->unwritten + (c->writer ? bh_log_writer_lost(c->writer) : 0);
    if (lost == 0)
        return NULL;
    return bh_asprintf("%llu byte%s of its output could not be logged: %s", (unsigned long long)lost,
                       lost == 1 ? "" : "s", c->why ? c->why : "the log is not writable");
}

uint64_t bh_capture_dropped(const struct bh_capture *c)
{
    return c->writer ? bh_log_writer_dropped(c->writer) : 0;
}

static void write_down(struct bh_capture *c, enum bh_stream stream, const char *data, size_t len)
{
    struct bh_err *err = NULL;
    if (len == 0)
        return;
    if (!has_writer(c))
        c->unwritten += len;
    else if (bh_log_writer_add(c->writer, stream, data, len, &err) != 0)
        note_failure(c, err);
}

static void write_masked(struct bh_capture *c, enum bh_stream stream, const char *data, size_t len, bool last)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_mask_push(&c->masks[stream], data, len, last, &out);
    write_down(c, stream, out.data, out.len);
}

/* What an earlier one holds back is let go first. */
static void drop_mask(struct bh_capture *c)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(c->masks) && c->mask; i++) {
        write_masked(c, (enum bh_stream)i, "", 0, true);
        bh_mask_stream_fini(&c->masks[i]);
    }
    bh_mask_unref(BH_TAKE(c->mask));
}

void bh_capture_mask(struct bh_capture *c, struct bh_mask *mask)
{
    drop_mask(c);
    c->mask = bh_mask_ref(mask);
    for (size_t i = 0; i < BH_ARRAY_LEN(c->masks); i++)
        c->masks[i].mask = mask;
}

static void capture_add(struct bh_capture *c, enum bh_stream stream, const char *data, size_t len)
{
    if (c->mask)
        write_masked(c, stream, data, len, false);
    else
        write_down(c, stream, data, len);
}

static void capture_eof(struct bh_capture *c, enum bh_stream stream)
{
    struct bh_err *err = NULL;
    if (c->mask)
        write_masked(c, stream, "", 0, true);
    if (c->writer && bh_log_writer_eof(c->writer, stream, &err) != 0)
        note_failure(c, err);
}

/* --- pipes --- */

struct stream {
    struct bh_pipes *pipes;
    enum bh_stream stream;
    int read_fd, write_fd;
    struct event *event;
};

struct bh_pipes {
    struct bh_capture *capture;
    struct stream streams[2];
};

/* One buffer for the whole thread: what is read is handed on before anything else is read. */
static char read_buffer[PER_TURN];

/* At most `max` bytes, by one read. What read() gave, with EAGAIN told as 0 (no end of file: we hold the other end). */
static ssize_t read_some(struct stream *s, size_t max)
{
    ssize_t n;
    do
        n = read(s->read_fd, read_buffer, max < PER_TURN ? max : PER_TURN);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        capture_add(s->pipes->capture, s->stream, read_buffer, (size_t)n);
    return n < 0 ? 0 : n;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    (void)fd;
    (void)what;
    (void)read_some(s, PER_TURN);
}

static int open_stream(struct event_base *loop, struct stream *s, struct bh_err **err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot make a pipe");
    s->read_fd = fds[0];
    s->write_fd = fds[1];
    if (bh_fd_set_nonblock(s->read_fd, true) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot set up a pipe");
    s->event = event_new(loop, s->read_fd, EV_READ | EV_PERSIST, on_readable, s);
    if (!s->event || event_add(s->event, NULL) < 0)
        return bh_err_set(err, BH_E_HOST, 0, "the event loop takes no more descriptors");
    return 0;
}

int bh_pipes_new(struct event_base *loop, struct bh_capture *capture, struct bh_pipes **ret, struct bh_err **err)
{
    struct bh_pipes *p = bh_alloc(sizeof(*p));
    p->capture = bh_capture_ref(capture);
    p->streams[0] = (struct stream){.pipes = p, .stream = BH_STREAM_STDOUT, .read_fd = -1, .write_fd = -1};
    p->streams[1] = (struct stream){.pipes = p, .stream = BH_STREAM_STDERR, .read_fd = -1, .write_fd = -1};
    int rc = open_stream(loop, &p->streams[0], err);
    if (rc == 0)
        rc = open_stream(loop, &p->streams[1], err);
    if (rc != 0) {
        bh_pipes_free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

int bh_pipes_stdout(const struct bh_pipes *p)
{
    return p->streams[0].write_fd;
}

int bh_pipes_stderr(const struct bh_pipes *p)
{
    return p->streams[1].write_fd;
}

/* All that was written before the command ended is in the pipe by now; what others add later is not its own. */
static void drain(struct stream *s)
{
    int waiting = 0;
    if (ioctl(s->read_fd, FIONREAD, &waiting) < 0)
        return;
    for (size_t left = (size_t)waiting; left > 0;) {
        ssize_t n = read_some(s, left);
        if (n <= 0)
            break;
        left -= (size_t)n;
    }
}

static void stop_reading(struct stream *s)
{
    if (s->event)
        event_free(s->event);
    s->event = NULL;
    bh_close(BH_TAKE_FD(s->read_fd));
}

static void close_stream(struct stream *s)
{
    stop_reading(s);
    bh_close(BH_TAKE_FD(s->write_fd));
}

void bh_pipes_end(struct bh_pipes *p)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(p->streams); i++) {
        drain(&p->streams[i]);
        capture_eof(p->capture, p->streams[i].stream);
        close_stream(&p->streams[i]);
    }
}

void bh_pipes_abandon(struct bh_pipes *p)
{
    stop_reading(&p->streams[0]);
    stop_reading(&p->streams[1]);
    bh_capture_unref(BH_TAKE(p->capture));
}

void bh_pipes_free(struct bh_pipes *p)
{
    if (!p)
        return;
    close_stream(&p->streams[0]);
    close_stream(&p->streams[1]);
    bh_capture_unref(p->capture);
    bh_free(p);
}
