/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the connections of boxes: one request after the other is read, handed to a call, and its reply written. Assumes
 * nothing of what a box sends or takes. Must never keep more of either in memory than the limits of endpoint_priv.h, or
 * wait for a box.
 */
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "policies/broker/endpoint_priv.h"

static void set_deadline(struct bh_conn *c, int64_t seconds)
{
    c->deadline.ns = bh_mono_now().ns + seconds * BH_NS_PER_S;
}

bool bh_conn_is_late(const struct bh_conn *c, struct bh_mono now)
{
    if (c->state == BH_CONN_CALL && c->out.len == 0 && !c->waits_for_body)
        return false;
    return now.ns > c->deadline.ns;
}

/* A box that opens many connections shares one memory among them. */
static size_t in_max(const struct bh_conn *c)
{
    return c->endpoint->n_conns > BH_CONNS_FEW ? BH_CONN_IN_CROWDED : BH_CONN_IN_MAX;
}

/* A call whose body is waited for goes on even then, or what waits for its end would never be taken. */
static size_t may_hold(const struct bh_conn *c)
{
    bool goes_on = c->waits_for_body || c->state == BH_CONN_SKIP || c->state == BH_CONN_LINGER;
    if (!bh_endpoint_is_short(c->endpoint))
        return in_max(c);
    c->endpoint->hungry = true;
    return goes_on ? BH_CONN_IN_LEAST : 0;
}

static bool wants_to_read(const struct bh_conn *c)
{
    return c->in.len < may_hold(c) && !c->broken;
}

/* What was taken from a buffer is given back, so that what is counted is what is held. */
static void tidy(struct bh_buf *buf)
{
    struct bh_buf less = BH_BUF_INIT;
    if (buf->len > 0 && (buf->cap <= BH_CONN_IN_LEAST || buf->len >= buf->cap / 4))
        return;
    if (buf->len > 0)
        bh_buf_add(&less, buf->data, buf->len);
    bh_buf_fini(buf);
    *buf = less;
}

static void count_bytes(struct bh_conn *c)
{
    tidy(&c->in);
    size_t now = c->in.cap + c->out.cap;
    bh_endpoint_count_bytes(c->endpoint, c->bytes, now);
    c->bytes = now;
}

static void watch(struct bh_conn *c)
{
    count_bytes(c);
    if (wants_to_read(c))
        (void)event_add(c->readable, NULL);
    else
        (void)event_del(c->readable);
    if (c->out.len > 0 && !c->broken)
        (void)event_add(c->writable, NULL);
    else
        (void)event_del(c->writable);
}

void bh_conn_close(struct bh_conn *c)
{
    if (c->call)
        bh_call_abandon(BH_TAKE(c->call), "gone");
    event_free(c->readable);
    event_free(c->writable);
    bh_close(c->fd);
    bh_list_remove(&c->link);
    bh_list_remove(&c->turn);
    bh_buf_fini(&c->in);
    bh_buf_fini(&c->out);
    bh_endpoint_count_bytes(c->endpoint, c->bytes, 0);
    bh_http_request_fini(&c->req);
    struct bh_endpoint_of *e = c->endpoint;
    bh_free(c);
    bh_endpoint_conn_gone(e);
}

/* --- writing --- */

/* As much as the socket takes now; the rest waits. */
static void send_all(struct bh_conn *c, const struct iovec *iov, int n)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
    ssize_t sent = 0;
    if (c->broken)
        return;
    if (c->out.len == 0) {
        sent = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            c->broken = true;
        sent = sent < 0 ? 0 : sent;
    }
    bool waited = c->out.len > 0;
    for (int i = 0; i < n && !c->broken; i++) {
        size_t skip = (size_t)sent < iov[i].iov_len ? (size_t)sent : iov[i].iov_len;
        bh_buf_add(&c->out, (const char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
        sent -= (ssize_t)skip;
    }
    if (!waited && c->out.len > 0)
        set_deadline(c, BH_STALL_S);
    watch(c);
}

void bh_conn_send(struct bh_conn *c, const void *data, size_t len)
{
    const struct iovec iov = {(void *)(uintptr_t)data, len};
    send_all(c, &iov, 1);
}

void bh_conn_send_chunk(struct bh_conn *c, const void *data, size_t len)
{
    char size[24];
    int n = snprintf(size, sizeof(size), "%zx\r\n", len);
    const struct iovec iov[] = {{size, (size_t)n}, {(void *)(uintptr_t)data, len}, {(void *)(uintptr_t) "\r\n", 2}};
    send_all(c, iov, 3);
}

/* The box learns that no more comes, and may still send what it was at: a reset would take the reply from it. */
static void linger(struct bh_conn *c)
{
    (void)shutdown(c->fd, SHUT_WR);
    c->state = BH_CONN_LINGER;
    bh_buf_fini(&c->in);
    set_deadline(c, BH_SKIP_S);
    watch(c);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct bh_conn *c = arg;
    (void)what;
    ssize_t n = send(fd, c->out.data, c->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        bh_conn_close(c);
        return;
    }
    bh_buf_consume(&c->out, (size_t)n);
    if (c->out.len == 0)
        bh_buf_fini(&c->out);
    set_deadline(c, c->state == BH_CONN_HEAD ? BH_KEEP_ALIVE_S : BH_STALL_S);
    if (c->out.len == 0 && c->close_when_sent) {
        linger(c);
        return;
    }
    watch(c);
    if (c->call)
        bh_call_go_on(c->call);
}

/* --- reading --- */

static void refuse_head(struct bh_conn *c, long status, const char *why)
{
    BH_CLEANUP_BUF struct bh_buf reply = BH_BUF_INIT;
    bh_http_add_refusal(&reply, status, why, false);
    (void)bh_endpoint_spend_request(c->endpoint);
    bh_endpoint_report(c->endpoint, NULL, NULL, "", status, "bad-request");
    c->close_when_sent = true;
    bh_conn_send(c, reply.data, reply.len);
    if (c->out.len == 0)
        linger(c);
}

static void begin_body(struct bh_conn *c)
{
    c->body_left = c->req.length;
    c->chunks = (struct bh_http_chunks){0};
    c->body_over = c->req.body == BH_HTTP_NO_BODY;
    c->body_bad = c->waits_for_body = false;
    c->skipped = 0;
}

/* A head may be in what came. */
static void next_request(struct bh_conn *c)
{
    const char *why;
    c->state = BH_CONN_HEAD;
    if (bh_endpoint_is_busy(c->endpoint)) {
        set_deadline(c, BH_HEAD_S);
        return;
    }
    long n = bh_http_read_head(c->in.data, c->in.len, &c->req, &why);
    if (n < 0) {
        refuse_head(c, -n, why);
        return;
    }
    if (n == 0 && c->in.len >= in_max(c)) {
        refuse_head(c, 431, "the head is longer than 16 KiB, which is what it may be with so many connections");
        return;
    }
    if (n == 0) {
        set_deadline(c, c->in.len > 0 ? BH_HEAD_S : BH_KEEP_ALIVE_S);
        return;
    }
    bh_buf_consume(&c->in, (size_t)n);
    watch(c);
    begin_body(c);
    c->state = BH_CONN_CALL;
    set_deadline(c, BH_STALL_S);
    bh_call_begin(c);
}

void bh_conn_watch(struct bh_conn *c)
{
    watch(c);
}

void bh_conn_wake(struct bh_conn *c)
{
    if (c->state == BH_CONN_HEAD && c->in.len > 0)
        bh_endpoint_take_turn(c);
}

void bh_conn_turn(struct bh_conn *c)
{
    if (c->state == BH_CONN_HEAD)
        next_request(c);
}

static ssize_t take_chunked(struct bh_conn *c, char *room, size_t size)
{
    size_t at = 0;
    while (at < c->in.len && c->chunks.state != BH_CHUNK_DONE) {
        const char *payload;
        size_t n, left = c->in.len - at;
        /* Of a chunk no more than there is room for. */
        ssize_t took = bh_http_chunks_take(&c->chunks, c->in.data + at, left < size ? left : size, &payload, &n);
        if (took < 0) {
            c->body_bad = true;
            return -2;
        }
        at += (size_t)took;
        if (n == 0)
            continue;
        memcpy(room, payload, n);
        bh_buf_consume(&c->in, at);
        return (ssize_t)n;
    }
    bh_buf_consume(&c->in, at);
    c->body_over = c->chunks.state == BH_CHUNK_DONE;
    return c->body_over ? 0 : -1;
}

static ssize_t take_plain(struct bh_conn *c, char *room, size_t size)
{
    size_t n = c->in.len < size ? c->in.len : size;
    n = (int64_t)n < c->body_left ? n : (size_t)c->body_left;
    if (n == 0)
        return -1;
    memcpy(room, c->in.data, n);
    bh_buf_consume(&c->in, n);
    c->body_left -= (int64_t)n;
    c->body_over = c->body_left == 0;
    return (ssize_t)n;
}

ssize_t bh_conn_take_body(struct bh_conn *c, char *room, size_t size)
{
    if (c->body_over)
        return 0;
    if (c->body_bad)
        return -2;
    ssize_t n = c->req.body == BH_HTTP_CHUNKED ? take_chunked(c, room, size) : take_plain(c, room, size);
    if (n > 0 || !c->waits_for_body)
        set_deadline(c, BH_STALL_S);
    c->waits_for_body = n == -1;
    watch(c);
    return n;
}

/* What came behind it waits for its turn: a box that sends a thousand requests at once is one among many. */
static void request_over(struct bh_conn *c)
{
    bh_http_request_fini(&c->req);
    c->state = BH_CONN_HEAD;
    set_deadline(c, c->in.len > 0 ? BH_HEAD_S : BH_KEEP_ALIVE_S);
    watch(c);
    if (c->in.len > 0)
        bh_endpoint_take_turn(c);
}

static void skip_body(struct bh_conn *c)
{
    static char nowhere[16 * 1024];
    ssize_t n;
    c->state = BH_CONN_SKIP;
    while ((n = bh_conn_take_body(c, nowhere, sizeof(nowhere))) > 0)
        c->skipped += n;
    if (n == 0)
        request_over(c);
    else if (n < -1 || c->skipped > BH_CONN_SKIP_MAX)
        linger(c);
}

void bh_conn_call_over(struct bh_conn *c, bool keep)
{
    c->call = NULL;
    if (c->broken) {
        bh_conn_close(c);
        return;
    }
    if (keep && c->req.keep_alive) {
        skip_body(c);
        return;
    }
    if (c->out.len == 0 && keep) {
        linger(c);
    } else if (c->out.len == 0) {
        bh_conn_close(c);
    } else {
        c->close_when_sent = true;
        c->state = BH_CONN_LINGER;
    }
}

static void on_came(struct bh_conn *c, bool first)
{
    switch (c->state) {
    case BH_CONN_HEAD:
        if (first)
            set_deadline(c, BH_HEAD_S);
        next_request(c);
        break;
    case BH_CONN_CALL:
        if (c->call)
            bh_call_go_on(c->call);
        break;
    case BH_CONN_SKIP:
        skip_body(c);
        break;
    case BH_CONN_LINGER:
        c->skipped += (int64_t)c->in.len;
        bh_buf_clear(&c->in);
        watch(c);
        break;
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    static char room[BH_CONN_IN_MAX];
    struct bh_conn *c = arg;
    (void)what;
    size_t most = may_hold(c);
    if (c->in.len >= most) { /* there are more connections now than when it was asked for */
        watch(c);
        return;
    }
    size_t size = most - c->in.len;
    ssize_t n = recv(fd, room, size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || (c->state == BH_CONN_LINGER && c->skipped > BH_CONN_SKIP_MAX)) {
        bh_conn_close(c);
        return;
    }
    bool first = c->in.len == 0;
    bh_buf_add(&c->in, room, (size_t)n);
    watch(c);
    on_came(c, first);
}

void bh_conn_new(struct bh_endpoint_of *e, int fd)
{
    const int on = 1;
    struct bh_conn *c = bh_alloc(sizeof(*c));
    *c = (struct bh_conn){.endpoint = e, .fd = fd, .in = BH_BUF_INIT, .out = BH_BUF_INIT};
    bh_list_init(&c->link);
    bh_list_init(&c->turn);
    bh_list_append(&e->conns, &c->link);
    e->n_conns++;
    e->owner->n_conns++;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->readable = event_new(e->owner->loop, fd, EV_READ | EV_PERSIST, on_readable, c);
    c->writable = event_new(e->owner->loop, fd, EV_WRITE | EV_PERSIST, on_writable, c);
    BH_ASSERT(c->readable && c->writable);
    set_deadline(c, BH_KEEP_ALIVE_S);
    watch(c);
}
