/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors: every one is CLOEXEC at birth, close is never retried, messages carry descriptors. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/err.h"

static inline void bh_close(int fd) /* -1 is fine; saves errno; never retried (Linux has closed it even on EINTR) */
{
    if (fd >= 0) {
        int saved = errno;
        (void)close(fd);
        errno = saved;
    }
}
static inline void bh_closep(int *fd)
{
    bh_close(*fd);
}
#define BH_CLEANUP_FD BH_CLEANUP(bh_closep)

/* The entries of the folder fd, which is the stream's from here on. NULL with errno (that of whoever opened fd where it
 * is -1); fd is closed then. */
DIR *bh_dir_stream(int fd);

int bh_fd_set_cloexec(int fd, bool on);
int bh_fd_set_nonblock(int fd, bool on);
/* flock(2) that a signal does not end: without LOCK_NB it blocks until it has the lock. 0, or -1 with errno. */
int bh_flock(int fd, int how) BH_MUST_CHECK;
/* Writes all of it (EINTR and short writes handled). 0, or -1 with errno. */
int bh_write_all(int fd, const void *data, size_t len) BH_MUST_CHECK;
struct bh_buf;
/* Reads to the end, at most `max` bytes: more is -BH_E_TOO_LARGE. Blocks. */
int bh_read_all(int fd, size_t max, struct bh_buf *out, struct bh_err **err) BH_MUST_CHECK;

/* A pair of connected CLOEXEC SOCK_SEQPACKET sockets. */
int bh_seqpacket_pair(int ret[static 2], struct bh_err **err) BH_MUST_CHECK;
#define BH_MSG_MAX_FDS 16
/* One datagram with descriptors (borrowed). 0, or -1 with errno (EAGAIN where the socket is non-blocking). */
int bh_msg_send(int sock, const void *data, size_t len, const int *fds, size_t nfds) BH_MUST_CHECK;
/*
 * One datagram. Returns its length, 0 at end of file, -1 with errno (EMSGSIZE where data or descriptors were cut:
 * nothing is kept). The descriptors (CLOEXEC) belong to the caller; *ret_nfds is how many came.
 */
ssize_t bh_msg_recv(int sock, void *data, size_t size, int fds[static BH_MSG_MAX_FDS], size_t *ret_nfds) BH_MUST_CHECK;
