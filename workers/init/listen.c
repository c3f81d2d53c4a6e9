/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that listen on the box's loopback, for somebody outside who accepts from them: the only way out of a box
 * that has one. Who connects is known by which of them it came from. Nothing is ever accepted, read or sent here, so a
 * box that stands still, init too, holds up nobody.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "workers/init/init.h"

enum { TRIES = 100, BACKLOG = 1024 };

/* Connections to one that was there before may linger: they are not in the way. */
static int listen_on(int port)
{
    const int yes = 1;
    const struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    BH_CLEANUP_FD int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        bind(sock, (const struct sockaddr *)(const void *)&at, sizeof(at)) < 0 || listen(sock, BACKLOG) < 0)
        return -1;
    return BH_TAKE_FD(sock);
}

/* An agent may have taken a port before: then the next one. */
int bh_listen_open(int port)
{
    int fd = -1;
    if (port < 1 || port > 65535 - TRIES) {
        errno = EINVAL;
        return -1;
    }
    for (int i = 0; i < TRIES && fd < 0; i++) {
        fd = listen_on(port + i);
        if (fd < 0 && errno != EADDRINUSE)
            break;
    }
    return fd;
}
