/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides are connected: bytes flow. A tunnel carries them as they are. Of plain HTTP exactly one request goes up,
 * the one that was decided about, and its answer comes down; the client is told that the connection ends with it.
 */
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "policies/broker/egress_priv.h"

enum { LINGER_MS = 2000, DRAIN_MAX = 1 << 20 };

/* --- lingering: the client reads our last words before a reset could take them away --- */

static void on_drained(evutil_socket_t fd, short what, void *arg)
{
    char room[8192];
    struct bh_egress_conn *c = arg;
    (void)what;
    ssize_t n = recv(fd, room, sizeof(room), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->drained += n > 0 ? (size_t)n : 0;
    if (n <= 0)
        bh_conn_end(c, c->reason);
    else if (c->drained > DRAIN_MAX)
        (void)event_del(c->readable);
}

static void drain(struct bh_egress_conn *c)
{
    c->state = BH_CONN_LINGER;
    if (c->readable)
        event_free(c->readable);
    c->readable = event_new(c->exit->e->loop, c->client, EV_READ | EV_PERSIST, on_drained, c);
    BH_ASSERT(c->readable);
    (void)event_add(c->readable, NULL);
    bh_conn_time(c, LINGER_MS);
}

static void on_last_words(void *arg)
{
    (void)arg; /* its own end, or the time, comes next */
}

static void on_lost(void *arg)
{
    struct bh_egress_conn *c = arg;
    bh_conn_end(c, c->reason);
}

static const struct bh_pipe_ops last_words = {.ended = on_last_words, .failed = on_lost};

void bh_conn_linger(struct bh_egress_conn *c, const void *text, size_t len)
{
    bh_pipe_fini(&c->up);
    bh_pipe_fini(&c->down);
    bh_pipe_init(&c->down, c->exit->e->loop, -1, c->client, NULL, &last_words, c);
    bh_buf_fini(&c->in);
    drain(c);
    bh_pipe_put(&c->down, text, len);
    bh_pipe_end(&c->down);
}

/* --- flowing --- */

static void take_up(void *arg, const char *data, size_t len)
{
    struct bh_egress_conn *c = arg;
    c->last = bh_mono_now();
    if (c->speaks != BH_SPEAKS_HTTP) {
        bh_pipe_put(&c->up, data, len);
        return;
    }
    bh_pipe_put(&c->up, data, bh_egress_body_take(&c->request.body, data, len));
    if (c->state == BH_CONN_FLOW && c->request.body.bad)
        bh_conn_end(c, BH_EGRESS_RESET);
    else if (bh_egress_body_is_over(&c->request.body))
        bh_pipe_hold(&c->up); /* another request would be another decision */
}

/* Heads of answers until the final one, then the rest as it is. */
static void take_answer(struct bh_egress_conn *c, const char *data, size_t len)
{
    size_t from = c->answer_head.len, end;
    bh_buf_add(&c->answer_head, data, len);
    while ((end = bh_egress_head_end(c->answer_head.data, c->answer_head.len, from)) > 0) {
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        enum bh_egress_answer answer =
            end > BH_HTTP_HEAD_MAX ? BH_ANSWER_BAD : bh_egress_answer_read(c->answer_head.data, end, &out);
        if (answer == BH_ANSWER_BAD)
            break;
        bh_pipe_put(&c->down, out.data, out.len);
        bh_buf_consume(&c->answer_head, end);
        from = 0;
        if (answer == BH_ANSWER_INTERIM)
            continue;
        c->answer_begun = true;
        bh_pipe_put(&c->down, c->answer_head.data, c->answer_head.len);
        bh_buf_fini(&c->answer_head);
        return;
    }
    if (end > 0 || c->answer_head.len > BH_HTTP_HEAD_MAX)
        bh_conn_refuse(c, BH_EGRESS_BAD_ANSWER);
}

static void take_down(void *arg, const char *data, size_t len)
{
    struct bh_egress_conn *c = arg;
    c->last = bh_mono_now();
    if (c->speaks == BH_SPEAKS_HTTP && !c->answer_begun)
        take_answer(c, data, len);
    else
        bh_pipe_put(&c->down, data, len);
}

/* Upstream ended without an answer: the client gets one of ours. */
static bool on_down_ends(void *arg)
{
    struct bh_egress_conn *c = arg;
    if (c->speaks != BH_SPEAKS_HTTP || c->answer_begun)
        return true;
    bh_conn_refuse(c, BH_EGRESS_BAD_ANSWER);
    return false;
}

static void on_ended(void *arg)
{
    struct bh_egress_conn *c = arg;
    if (c->up.ended && c->down.ended) {
        bh_conn_end(c, c->reason);
    } else if (c->down.ended && (c->speaks == BH_SPEAKS_HTTP || c->up.failed)) {
        bh_egress_decision(c, c->reason);
        c->let = false;
        bh_pipe_stop(&c->up);
        drain(c);
    }
}

/* Upstream may have said something before it stopped listening. */
static void on_up_failed(void *arg)
{
    struct bh_egress_conn *c = arg;
    if (c->up.from_failed || c->down.ended || c->down.failed)
        bh_conn_end(c, BH_EGRESS_RESET);
}

static void on_down_failed(void *arg)
{
    struct bh_egress_conn *c = arg;
    if (c->speaks == BH_SPEAKS_HTTP && !c->answer_begun && c->down.from_failed)
        bh_conn_refuse(c, BH_EGRESS_BAD_ANSWER);
    else
        bh_conn_end(c, BH_EGRESS_RESET);
}

static const struct bh_pipe_ops up_ops = {.take = take_up, .ended = on_ended, .failed = on_up_failed};
static const struct bh_pipe_ops down_ops = {
    .take = take_down, .ends = on_down_ends, .ended = on_ended, .failed = on_down_failed};

static void greet(struct bh_egress_conn *c)
{
    static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    unsigned char socks[BH_SOCKS_ANSWER_MAX];
    if (c->speaks == BH_SPEAKS_CONNECT)
        bh_pipe_put(&c->down, established, sizeof(established) - 1);
    else if (c->speaks != BH_SPEAKS_HTTP)
        bh_pipe_put(&c->down, socks, bh_egress_socks_answer(c->speaks == BH_SPEAKS_SOCKS5, c->reason, socks));
    c->down.bytes = 0; /* ours, not the upstream's */
}

void bh_conn_flow(struct bh_egress_conn *c)
{
    struct event_base *loop = c->exit->e->loop;
    c->state = BH_CONN_FLOW;
    c->last = bh_mono_now();
    bh_conn_time(c, 0);
    bh_pipe_init(&c->up, loop, c->client, c->upstream, &c->exit->e->at_once, &up_ops, c);
    bh_pipe_init(&c->down, loop, c->upstream, c->client, &c->exit->e->at_once, &down_ops, c);
    greet(c);
    bh_pipe_put(&c->up, c->request.head.data, c->request.head.len);
    bh_buf_fini(&c->request.head);
    bh_pipe_read(&c->up);
    bh_pipe_read(&c->down);
    if (c->state == BH_CONN_FLOW && (c->in.len > 0 || c->speaks == BH_SPEAKS_HTTP))
        take_up(c, c->in.data, c->in.len);
    bh_buf_fini(&c->in);
}
