/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tests/support/t.h"

static size_t open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static bool is_cloexec(int fd)
{
    return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static void test_close_keeps_errno(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    errno = EXDEV;
    bh_close(-1);
    bh_close(fd);
    T_INT(errno, EXDEV);
    T_INT(fcntl(fd, F_GETFD), -1);
}

static void test_flags(void **state)
{
    (void)state;
    BH_CLEANUP_FD int fd = open("/dev/null", O_RDONLY);
    T_INT(bh_fd_set_cloexec(fd, true), 0);
    T_TRUE(is_cloexec(fd));
    T_INT(bh_fd_set_cloexec(fd, false), 0);
    assert_false(is_cloexec(fd));
    T_INT(bh_fd_set_nonblock(fd, true), 0);
    T_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
    T_INT(bh_fd_set_nonblock(fd, true), 0);
    T_INT(bh_fd_set_nonblock(fd, false), 0);
    assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
    T_INT(bh_fd_set_cloexec(-1, true), -1);
    T_INT(errno, EBADF);
    T_INT(bh_fd_set_nonblock(-1, true), -1);
    T_INT(errno, EBADF);
}

struct writer {
    int fd, result;
    const char *data;
    size_t len;
};

static void *write_it(void *arg)
{
    struct writer *w = arg;
    w->result = bh_write_all(w->fd, w->data, w->len);
    close(w->fd);
    return NULL;
}

/* More than a pipe holds, so that the writer meets short writes. */
static void test_write_all_and_read_all(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    int ends[2];
    pthread_t thread;
    BH_CLEANUP_FREE char *data = bh_alloc(SIZE);
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 31 >> 3);
    T_INT(pipe2(ends, O_CLOEXEC), 0);
    struct writer w = {.fd = ends[1], .data = data, .len = SIZE, .result = -7};
    T_INT(pthread_create(&thread, NULL, write_it, &w), 0);
    T_OK(bh_read_all(ends[0], SIZE, &out, &err));
    T_INT(pthread_join(thread, NULL), 0);
    close(ends[0]);
    T_INT(w.result, 0);
    T_INT(out.len, SIZE);
    assert_memory_equal(out.data, data, SIZE);
}

static void test_write_all_reports_errors(void **state)
{
    (void)state;
    BH_CLEANUP_FD int reader = open("/dev/null", O_RDONLY | O_CLOEXEC);
    T_INT(bh_write_all(reader, "x", 1), -1);
    T_INT(errno, EBADF);
    T_INT(bh_write_all(-1, "", 0), 0);
    BH_CLEANUP_FD int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    T_INT(bh_write_all(full, "x", 1), -1);
    T_INT(errno, ENOSPC);
}

static void pipe_with(const char *text, int ends[2])
{
    T_INT(pipe2(ends, O_CLOEXEC), 0);
    T_INT(bh_write_all(ends[1], text, strlen(text)), 0);
    close(ends[1]);
}

static void test_read_all_limit(void **state)
{
    (void)state;
    static const struct {
        size_t max;
        int want;
    } samples[] = {{5, 0}, {6, 0}, {4, -BH_E_TOO_LARGE}, {0, -BH_E_TOO_LARGE}, {SIZE_MAX, 0}};
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++) {
        int ends[2];
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        bh_buf_adds(&out, "before ");
        pipe_with("12345", ends);
        T_INT(bh_read_all(ends[0], samples[i].max, &out, NULL), samples[i].want);
        close(ends[0]);
        if (samples[i].want == 0)
            T_STR(out.data, "before 12345");
    }
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    T_ERR(bh_read_all(-1, 10, &out, &err), BH_E_IO, "cannot read: Bad file descriptor");
    BH_CLEANUP_FD int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    T_ERR(bh_read_all(zero, 1000, &out, &err), BH_E_TOO_LARGE, "more than 1000 bytes");
}

static void test_message_with_descriptors(void **state)
{
    (void)state;
    int pair[2], fds[BH_MSG_MAX_FDS], sent[BH_MSG_MAX_FDS];
    size_t nfds = 99, before = open_fds();
    char data[64];
    T_OK(bh_seqpacket_pair(pair, &err));
    T_TRUE(is_cloexec(pair[0]) && is_cloexec(pair[1]));
    for (size_t i = 0; i < BH_ARRAY_LEN(sent); i++)
        sent[i] = i % 2 ? pair[0] : STDIN_FILENO;
    T_INT(bh_msg_send(pair[0], "plain", 5, NULL, 0), 0);
    T_INT(bh_msg_send(pair[0], "all", 3, sent, BH_MSG_MAX_FDS), 0);
    T_INT(bh_msg_recv(pair[1], data, sizeof(data), fds, &nfds), 5);
    T_INT(nfds, 0);
    assert_memory_equal(data, "plain", 5);
    T_INT(bh_msg_recv(pair[1], data, sizeof(data), fds, &nfds), 3);
    T_INT(nfds, BH_MSG_MAX_FDS);
    for (size_t i = 0; i < nfds; i++) {
        struct stat got, want;
        T_TRUE(is_cloexec(fds[i]));
        T_INT(fstat(fds[i], &got), 0);
        T_INT(fstat(sent[i], &want), 0);
        T_INT(got.st_ino, want.st_ino);
        bh_close(fds[i]);
    }
    bh_close(pair[0]);
    T_INT(bh_msg_recv(pair[1], data, sizeof(data), fds, &nfds), 0);
    T_INT(nfds, 0);
    bh_close(pair[1]);
    T_INT(open_fds(), before);
}

static void test_cut_message_keeps_nothing(void **state)
{
    (void)state;
    int pair[2], fds[BH_MSG_MAX_FDS], sent[] = {STDIN_FILENO, STDIN_FILENO};
    size_t nfds = 99;
    char data[4];
    T_OK(bh_seqpacket_pair(pair, &err));
    size_t before = open_fds();
    T_INT(bh_msg_send(pair[0], "too long", 8, sent, 2), 0);
    T_INT(bh_msg_recv(pair[1], data, sizeof(data), fds, &nfds), -1);
    T_INT(errno, EMSGSIZE);
    T_INT(nfds, 0);
    T_INT(open_fds(), before);
    bh_close(pair[0]);
    bh_close(pair[1]);
}

/* More descriptors than we take can only come from somebody else's code. */
static void send_raw(int sock, size_t len, size_t nfds)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(32 * sizeof(int))];
    } control = {0};
    char data[16] = "0123456789abcde";
    struct iovec iov = {.iov_base = data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    msg.msg_control = control.space;
    msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(nfds * sizeof(int)); /* of zeros: descriptor 0, which the test made sure is open */
    T_INT(sendmsg(sock, &msg, 0), len);
}

static void test_too_many_or_no_data(void **state)
{
    (void)state;
    int pair[2], fds[BH_MSG_MAX_FDS];
    int many[BH_MSG_MAX_FDS + 1] = {0};
    size_t nfds = 99;
    char data[16];
    T_OK(bh_seqpacket_pair(pair, &err));
    size_t before = open_fds();
    T_INT(bh_msg_send(pair[0], "x", 1, many, BH_ARRAY_LEN(many)), -1);
    T_INT(errno, EINVAL);
    T_INT(bh_msg_send(pair[0], "", 0, NULL, 0), -1);
    T_INT(errno, EINVAL);
    send_raw(pair[0], 5, 20);
    T_INT(bh_msg_recv(pair[1], data, sizeof(data), fds, &nfds), -1);
    T_INT(errno, EMSGSIZE);
    T_INT(open_fds(), before);
    send_raw(pair[0], 0, 3); /* an empty datagram counts as the end; what it carried is closed */
    T_INT(bh_msg_recv(pair[1], data, sizeof(data), fds, &nfds), 0);
    T_INT(nfds, 0);
    T_INT(open_fds(), before);
    bh_close(pair[0]);
    bh_close(pair[1]);
}

static void test_nonblocking_and_broken(void **state)
{
    (void)state;
    int pair[2], fds[BH_MSG_MAX_FDS];
    size_t nfds = 99;
    char data[16];
    T_OK(bh_seqpacket_pair(pair, &err));
    T_INT(bh_fd_set_nonblock(pair[0], true), 0);
    T_INT(bh_msg_recv(pair[0], data, sizeof(data), fds, &nfds), -1);
    T_INT(errno, EAGAIN);
    T_INT(nfds, 0);
    bh_close(pair[1]);
    T_INT(bh_msg_send(pair[0], "x", 1, NULL, 0), -1); /* and no SIGPIPE */
    T_INT(errno, EPIPE);
    bh_close(pair[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_keeps_errno),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_write_all_and_read_all),
        cmocka_unit_test(test_write_all_reports_errors),
        cmocka_unit_test(test_read_all_limit),
        cmocka_unit_test(test_message_with_descriptors),
        cmocka_unit_test(test_cut_message_keeps_nothing),
        cmocka_unit_test(test_too_many_or_no_data),
        cmocka_unit_test(test_nonblocking_and_broken),
    };
    if (fcntl(STDIN_FILENO, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != STDIN_FILENO)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
