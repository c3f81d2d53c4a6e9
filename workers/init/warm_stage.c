/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attempt that is not executed but forked from a warm process (docs/warm.md). We are the staged child, in the
 * namespaces and with the files that the command would have; we hand them to the fork server, which forks; the fork
 * enters them, drops everything and says so on a socket of its own. The box's init gets a pidfd of it, and while the
 * worker has it looked at from the server's box we do here, for we believe nothing of it; when both have found nothing
 * it is told what to run.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "workers/init/init.h"

#define PATIENCE_MS 10000 /* a server that forks a hundred times, one after the other, needs a second */
#define FILTERS 2         /* the server's, and the one with which the fork gives up setns */

struct asking {
    const struct bh_exec_plan *plan;
    int reply[2]; /* ours, the fork's */
    int fds[BH_MSG_MAX_FDS];
    size_t n, spaces, first_space;
    int64_t until;
    struct bh_warm_ours ours;
};

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* 0, or -1 with errno ETIMEDOUT. */
static int wait_for(const struct asking *a, int fd, short events)
{
    for (;;) {
        struct pollfd polled = {.fd = fd, .events = events};
        int64_t left = a->until - now_ms();
        int n = poll(&polled, 1, left > 0 ? (int)left : 0);
        if (n > 0)
            return 0;
        if (n == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (errno != EINTR)
            return -1;
    }
}

/* --- what is handed over --- */

static int add(struct asking *a, int fd)
{
    if (fd < 0 || a->n == BH_ARRAY_LEN(a->fds))
        return -1;
    a->fds[a->n++] = fd;
    return 0;
}

static int add_space(struct asking *a, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
    a->spaces++;
    return add(a, open(path, O_RDONLY | O_CLOEXEC));
}

/* In the order in which they are entered: the first gives the right to enter the others, a deeper one (one id) is last
 * because from there nothing else can be entered. */
static int add_spaces(const struct bh_init *in, struct asking *a, struct bh_fail *fail)
{
    static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    a->first_space = a->n;
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        if (add_space(a, names[i]) < 0)
            return bh_fail(fail, errno, "open a namespace");
    }
    if (in->setup->mode != BH_IDS_SINGLE)
        return 0;
    if (bh_become_deeper(in, a->plan, fail) < 0)
        return -1;
    return add_space(a, "user") < 0 ? bh_fail(fail, errno, "open a namespace") : 0;
}

static int add_streams(struct asking *a)
{
    for (int i = 0; i < 3; i++) {
        int null = bh_become_null(a->plan->stdio[i], i);
        if (add(a, null >= 0 ? null : a->plan->stdio[i]) < 0)
            return -1;
    }
    return 0;
}

static int collect(const struct bh_init *in, struct asking *a, struct bh_fail *fail)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a->reply) < 0)
        return bh_fail(fail, errno, "make a socket");
    if (add(a, a->reply[1]) < 0 || add_streams(a) < 0)
        return bh_fail(fail, errno, "open the streams");
    if (add_spaces(in, a, fail) < 0)
        return -1;
    for (size_t i = 0; i < a->plan->join.n; i++) {
        if (add(a, a->plan->join.fds[i]) < 0)
            return bh_fail(fail, E2BIG, "join control groups");
    }
    return 0;
}

/* --- the server --- */

static int ask_server(struct asking *a, struct bh_fail *fail)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "fork 1 %zu %zu\n", a->spaces, a->plan->join.n);
    for (;;) {
        if (bh_msg_send(a->plan->server, text, (size_t)len, a->fds, a->n) == 0)
            return 0;
        if (errno != EAGAIN)
            return bh_fail(fail, errno, "ask the fork server: it has ended");
        if (wait_for(a, a->plan->server, POLLOUT) < 0)
            return bh_fail(fail, errno, "ask the fork server: it does not listen");
    }
}

static int hear_fork(const struct asking *a, struct bh_fail *fail)
{
    static const char wanted[] = "here\n";
    char said[sizeof(wanted)];
    size_t len = 0;
    while (len < strlen(wanted)) {
        if (wait_for(a, a->reply[0], POLLIN) < 0)
            return bh_fail(fail, errno, "fork the warm process: it has not answered in %d s", PATIENCE_MS / 1000);
        ssize_t n = recv(a->reply[0], said + len, strlen(wanted) - len, MSG_DONTWAIT);
        if (n <= 0)
            return bh_fail(fail, n < 0 ? errno : EPIPE, "fork the warm process: it has ended or given up");
        len += (size_t)n;
    }
    if (memcmp(said, wanted, strlen(wanted)) != 0)
        return bh_fail(fail, EPROTO, "fork the warm process: it answers nonsense");
    return 0;
}

static struct bh_warm_wanted wanted_of(const struct bh_init *in, const struct asking *a, ino_t reply)
{
    bool root = a->plan->flags & BH_EXEC_ROOT;
    return (struct bh_warm_wanted){
        .ours = &a->ours,
        .uid = root ? 0 : in->agent_uid,
        .gid = root ? 0 : in->agent_gid,
        .stdio = {a->fds[1], a->fds[2], a->fds[3]},
        .reply = reply,
        .filters = FILTERS,
    };
}

/* --- the fork --- */

static void pack(struct bh_buf *out, char *const *list)
{
    for (; *list; list++)
        bh_pack_str(out, *list);
}

static size_t count(char *const *list)
{
    size_t n = 0;
    while (list[n])
        n++;
    return n;
}

/* "go ARGC ENVC BYTES\n", then so many bytes: the working directory, the arguments, the environment, each with a NUL.
 * One that does not listen is dead or will be stopped. */
static void tell(const struct bh_exec_plan *plan, int reply)
{
    BH_CLEANUP_BUF struct bh_buf strings = BH_BUF_INIT, out = BH_BUF_INIT;
    bh_pack_str(&strings, plan->cwd);
    pack(&strings, plan->argv);
    pack(&strings, plan->envp);
    bh_buf_addf(&out, "go %zu %zu %zu\n", count(plan->argv), count(plan->envp), strings.len);
    bh_buf_add(&out, strings.data, strings.len);
    for (size_t at = 0; at < out.len;) {
        ssize_t n = send(reply, out.data + at, out.len - at, MSG_NOSIGNAL);
        if (n <= 0 && errno != EINTR)
            return;
        at += n > 0 ? (size_t)n : 0;
    }
}

static int tell_init(int note_fd, int pidfd, struct bh_fail *fail)
{
    const struct bh_exec_note note = {.ended = BH_NOTE_FORKED};
    return bh_msg_send(note_fd, &note, sizeof(note), &pidfd, 1) < 0 ? bh_fail(fail, errno, "say that it has forked")
                                                                    : 0;
}

static int wait_for_word(int note_fd, struct bh_fail *fail)
{
    char go;
    ssize_t n = read(note_fd, &go, 1);
    return n == 1 ? 0 : bh_fail(fail, n < 0 ? errno : EPIPE, "wait for the word to go");
}

int bh_warm_fork(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd, struct bh_fail *fail)
{
    static struct asking a; /* large */
    a = (struct asking){.plan = plan, .reply = {-1, -1}, .until = now_ms() + PATIENCE_MS};
    struct stat theirs;
    pid_t fork = 0;
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (collect(in, &a, fail) < 0)
        return -1;
    if (fstat(a.reply[1], &theirs) < 0)
        return bh_fail(fail, errno, "look at a socket");
    if (ask_server(&a, fail) < 0)
        return -1;
    bh_close(a.reply[1]); /* so that its end is seen */
    const struct bh_warm_wanted wanted = wanted_of(in, &a, theirs.st_ino);
    if (bh_warm_look_at_ourselves(&a.ours, fail) < 0 || hear_fork(&a, fail) < 0)
        return -1;
    int pidfd = bh_warm_find(&fork, fail);
    if (pidfd < 0 || tell_init(note_fd, pidfd, fail) < 0 || bh_warm_check(fork, pidfd, &wanted, fail) < 0 ||
        wait_for_word(note_fd, fail) < 0)
        return -1;
    tell(plan, a.reply[0]);
    _exit(0);
}
