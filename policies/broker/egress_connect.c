/* SPDX-License-Identifier: Apache-2.0 */
/* To the first of the decided addresses that answers. Names are not asked for again: what was decided is what is used.
 */
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "policies/broker/egress_priv.h"

/* A socket that is connected to it, or about to be. -1 with errno; *ret_fd may be there all the same. */
static int reach(const unsigned char address[static BH_ADDRESS_LEN], uint16_t port, int type, int *ret_fd)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    bool is_four = bh_address_is_v4(address);
    memcpy(&six.sin6_addr, address, BH_ADDRESS_LEN);
    memcpy(&four.sin_addr, address + 12, 4);
    *ret_fd = socket(is_four ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*ret_fd < 0)
        return -1;
    return is_four ? connect(*ret_fd, (const struct sockaddr *)&four, sizeof(four))
                   : connect(*ret_fd, (const struct sockaddr *)&six, sizeof(six));
}

bool bh_address_is_own(const unsigned char address[static BH_ADDRESS_LEN])
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } from;
    socklen_t len = sizeof(from);
    BH_CLEANUP_FD int fd = -1;
    /* Nothing is sent: to connect a datagram socket only looks for the way. */
    if (reach(address, 9, SOCK_DGRAM, &fd) < 0 || getsockname(fd, &from.any, &len) < 0)
        return false;
    return from.any.sa_family == AF_INET ? memcmp(&from.four.sin_addr, address + 12, 4) == 0
                                         : memcmp(&from.six.sin6_addr, address, BH_ADDRESS_LEN) == 0;
}

static void tune(int fd)
{
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static void let_go(struct bh_egress_conn *c)
{
    if (c->connected)
        event_free(c->connected);
    c->connected = NULL;
    bh_close(BH_TAKE_FD(c->upstream));
}

static void next(struct bh_egress_conn *c, enum bh_egress_reason why)
{
    let_go(c);
    if (c->next_address < c->n_addresses)
        bh_conn_connect(c);
    else
        bh_conn_refuse(c, why);
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
    struct bh_egress_conn *c = arg;
    int error = 0;
    socklen_t len = sizeof(error);
    if (what & EV_TIMEOUT) {
        next(c, BH_EGRESS_CONNECT_TIMEOUT);
        return;
    }
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error != 0) {
        next(c, error == ECONNREFUSED ? BH_EGRESS_REFUSED
                : error == ETIMEDOUT  ? BH_EGRESS_CONNECT_TIMEOUT
                                      : BH_EGRESS_UNREACHABLE);
        return;
    }
    event_free(c->connected);
    c->connected = NULL;
    bh_conn_connected(c);
}

void bh_conn_connect(struct bh_egress_conn *c)
{
    int64_t ms = c->exit->limits.connect_ms;
    const struct timeval patience = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    c->state = BH_CONN_CONNECT;
    int rc = reach(c->addresses[c->next_address++], c->request.port, SOCK_STREAM, &c->upstream);
    if (rc < 0 && errno != EINPROGRESS) {
        next(c, errno == ECONNREFUSED ? BH_EGRESS_REFUSED : BH_EGRESS_UNREACHABLE);
        return;
    }
    tune(c->upstream);
    c->connected = event_new(c->exit->e->loop, c->upstream, EV_WRITE, on_connected, c);
    BH_ASSERT(c->connected);
    (void)event_add(c->connected, &patience);
}
