/* SPDX-License-Identifier: Apache-2.0 */
/* What the client says before anything is decided. Its first byte tells the protocol. */
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "policies/broker/egress_priv.h"

/* Nothing can have changed before a line ends. */
static bool has_line(struct bh_egress_conn *c)
{
    bool found = memchr(c->in.data + c->looked, '\n', c->in.len - c->looked);
    c->looked = c->in.len;
    return found;
}

static void read_http(struct bh_egress_conn *c)
{
    enum bh_egress_reason reason = BH_EGRESS_HEAD_TOO_LARGE;
    bool full = c->in.len >= c->exit->e->head_max;
    c->speaks = c->in.data[0] == 'C' ? BH_SPEAKS_CONNECT : BH_SPEAKS_HTTP;
    size_t n = has_line(c) ? bh_egress_request_read(c->in.data, c->in.len, &c->request, &reason) : 0;
    if (n == 0 && !full)
        return;
    c->speaks = c->request.connect ? BH_SPEAKS_CONNECT : c->speaks;
    bh_buf_consume(&c->in, n);
    if (reason == BH_EGRESS_LISTED)
        bh_conn_asked(c);
    else
        bh_conn_refuse(c, reason);
}

static void read_socks_request(struct bh_egress_conn *c)
{
    struct bh_egress_socks socks;
    enum bh_egress_reason reason = BH_EGRESS_BAD_REQUEST;
    long n = bh_egress_socks_request((const unsigned char *)c->in.data, c->in.len, &socks, &reason);
    if (n == 0)
        return;
    c->request.host = socks.host;
    c->request.port = socks.port;
    if (n < 0) {
        bh_conn_refuse(c, reason);
        return;
    }
    bh_buf_consume(&c->in, (size_t)n);
    bh_conn_asked(c);
}

static void read_greeting(struct bh_egress_conn *c)
{
    enum bh_egress_reason reason;
    long n = bh_egress_socks_greeting((const unsigned char *)c->in.data, c->in.len, &reason);
    const unsigned char answer[] = {5, n < 0 ? 0xff : 0};
    if (n == 0)
        return;
    c->greeted = true;
    if (send(c->client, answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer) || n < 0) {
        bh_conn_end(c, reason); /* nothing was asked for yet */
        return;
    }
    bh_buf_consume(&c->in, (size_t)n);
    if (c->in.len > 0)
        read_socks_request(c);
}

static void advance(struct bh_egress_conn *c)
{
    if (c->greeted) {
        read_socks_request(c);
    } else if (c->in.data[0] == 5) {
        c->speaks = BH_SPEAKS_SOCKS5;
        read_greeting(c);
    } else if (c->in.data[0] == 4) {
        c->speaks = BH_SPEAKS_SOCKS4;
        read_socks_request(c);
    } else {
        read_http(c);
    }
}

/* No letter, as every method of HTTP begins with: whatever follows is no request. */
static bool is_foreign(const struct bh_egress_conn *c)
{
    char first = c->in.data[0];
    return !c->greeted && first != 4 && first != 5 && !((first | 0x20) >= 'a' && (first | 0x20) <= 'z');
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct bh_egress_conn *c = arg;
    const size_t room = 4096;
    (void)what;
    ssize_t n = recv(fd, bh_buf_reserve(&c->in, room), room, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        bh_conn_end(c, BH_EGRESS_RESET);
        return;
    }
    c->in.len += (size_t)n;
    if (is_foreign(c))
        bh_conn_refuse(c, BH_EGRESS_BAD_REQUEST);
    else
        advance(c);
}

void bh_conn_listen(struct bh_egress_conn *c)
{
    c->readable = event_new(c->exit->e->loop, c->client, EV_READ | EV_PERSIST, on_readable, c);
    BH_ASSERT(c->readable);
    (void)event_add(c->readable, NULL);
}
