/* SPDX-License-Identifier: Apache-2.0 */
/* Level-triggered; one buffer of the process is read into, so that a connection that flows needs none of its own. */
#include "policies/broker/egress_pipe.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

static void fail(struct bh_pipe *p)
{
    bool first = !p->failed;
    bh_pipe_stop(p);
    if (first)
        p->ops->failed(p->arg);
}

/* All is written: the source may go on, or its end is told. */
static void settle(struct bh_pipe *p)
{
    (void)event_del(p->writable);
    if (!p->ending) {
        if (!p->held && p->readable)
            (void)event_add(p->readable, NULL);
        return;
    }
    if (p->ended)
        return;
    p->ended = true;
    (void)shutdown(p->to, SHUT_WR);
    p->ops->ended(p->arg);
}

/* How much the socket took; -1 where it is gone. */
static ssize_t write_some(const struct bh_pipe *p, const char *data, size_t len)
{
    ssize_t n;
    do
        n = send(p->to, data, len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 && (errno == EAGAIN || errno == ENOBUFS) ? 0 : n;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct bh_pipe *p = arg;
    (void)fd;
    (void)what;
    ssize_t n = write_some(p, p->pending.data + p->sent, p->pending.len - p->sent);
    if (n < 0) {
        fail(p);
        return;
    }
    p->sent += (size_t)n;
    if (p->sent < p->pending.len)
        return;
    bh_buf_fini(&p->pending); /* an idle connection holds nothing */
    p->sent = 0;
    settle(p);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    static char room[BH_PIPE_READ];
    struct bh_pipe *p = arg;
    (void)what;
    ssize_t n = recv(fd, room, *p->at_once, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    p->from_failed = n < 0;
    if (n < 0)
        fail(p);
    else if (n > 0)
        p->ops->take(p->arg, room, (size_t)n);
    else if (!p->ops->ends || p->ops->ends(p->arg))
        bh_pipe_end(p);
}

void bh_pipe_init(struct bh_pipe *p, struct event_base *loop, int from, int to, const size_t *at_once,
                  const struct bh_pipe_ops *ops, void *arg)
{
    *p = (struct bh_pipe){
        .from = from, .to = to, .at_once = at_once, .pending = BH_BUF_INIT, .held = true, .ops = ops, .arg = arg};
    p->readable = from >= 0 ? event_new(loop, from, EV_READ | EV_PERSIST, on_readable, p) : NULL;
    p->writable = event_new(loop, to, EV_WRITE | EV_PERSIST, on_writable, p);
    BH_ASSERT(p->writable && (from < 0 || p->readable));
}

void bh_pipe_fini(struct bh_pipe *p)
{
    if (!p->writable)
        return;
    if (p->readable)
        event_free(p->readable);
    event_free(p->writable);
    bh_buf_fini(&p->pending);
    p->readable = p->writable = NULL;
}

void bh_pipe_read(struct bh_pipe *p)
{
    if (p->ending || p->failed)
        return;
    p->held = false;
    if (p->pending.len == 0)
        (void)event_add(p->readable, NULL);
}

void bh_pipe_hold(struct bh_pipe *p)
{
    p->held = true;
    if (p->readable)
        (void)event_del(p->readable);
}

void bh_pipe_put(struct bh_pipe *p, const void *data, size_t len)
{
    if (p->failed || len == 0)
        return;
    p->bytes += len;
    ssize_t n = p->pending.len > 0 ? 0 : write_some(p, data, len);
    if (n < 0) {
        fail(p);
        return;
    }
    if ((size_t)n == len)
        return;
    bh_buf_add(&p->pending, (const char *)data + n, len - (size_t)n);
    if (p->readable)
        (void)event_del(p->readable);
    (void)event_add(p->writable, NULL);
}

void bh_pipe_end(struct bh_pipe *p)
{
    if (p->ending || p->failed)
        return;
    p->ending = true;
    bh_pipe_hold(p);
    if (p->pending.len == 0)
        settle(p);
}

void bh_pipe_stop(struct bh_pipe *p)
{
    if (!p->writable)
        return;
    p->failed = true;
    bh_pipe_hold(p);
    (void)event_del(p->writable);
}
