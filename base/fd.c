/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing whole things, and messages that carry descriptors. Owns no state. */
#include "base/fd.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>

#include "base/buf.h"

DIR *bh_dir_stream(int fd)
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        bh_close(fd);
    return dir;
}

static int set_flag(int fd, int get, int set, int flag, bool on)
{
    int flags = fcntl(fd, get);
    if (flags < 0)
        return -1;
    int wanted = on ? flags | flag : flags & ~flag;
    return wanted == flags ? 0 : fcntl(fd, set, wanted);
}

int bh_fd_set_cloexec(int fd, bool on)
{
    return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int bh_fd_set_nonblock(int fd, bool on)
{
    return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int bh_flock(int fd, int how)
{
    int rc;
    do {
        rc = flock(fd, how);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

int bh_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int bh_read_all(int fd, size_t max, struct bh_buf *out, struct bh_err **err)
{
    const size_t start = out->len;
    for (;;) {
        size_t have = out->len - start, room = max - have;
        /* One byte past the limit tells a file of exactly `max` bytes from a longer one. */
        size_t step = have < 4096 ? 4096 : have < 65536 ? have : 65536;
        size_t want = room < step ? room + 1 : step;
        ssize_t n = read(fd, bh_buf_reserve(out, want), want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot read");
        if (n == 0)
            return 0;
        if ((size_t)n > room)
            return bh_err_set(err, BH_E_TOO_LARGE, 0, "more than %zu bytes", max);
        out->len += (size_t)n;
    }
}

int bh_seqpacket_pair(int ret[static 2], struct bh_err **err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot make a pair of sockets");
    return 0;
}

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(BH_MSG_MAX_FDS * sizeof(int))];
};

int bh_msg_send(int sock, const void *data, size_t len, const int *fds, size_t nfds)
{
    union control control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (len == 0 || nfds > BH_MSG_MAX_FDS) {
        errno = EINVAL; /* an empty datagram looks like the end to the receiver */
        return -1;
    }
    if (nfds > 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

static size_t take_fds(struct msghdr *msg, int fds[static BH_MSG_MAX_FDS])
{
    size_t have = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds + have, CMSG_DATA(c), n * sizeof(int)); /* the control buffer has room for no more */
        have += n;
    }
    return have;
}

ssize_t bh_msg_recv(int sock, void *data, size_t size, int fds[static BH_MSG_MAX_FDS], size_t *ret_nfds)
{
    union control control;
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;
    *ret_nfds = 0;
    do {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof(control.space);
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;
    size_t nfds = take_fds(&msg, fds);
    bool cut = msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    if (!cut && n > 0) {
        *ret_nfds = nfds;
        return n;
    }
    for (size_t i = 0; i < nfds; i++)
        bh_close(fds[i]);
    errno = EMSGSIZE;
    return cut ? -1 : 0;
}
