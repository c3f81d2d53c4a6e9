/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shell for a fork of a warm process (docs/warm.md). Such a fork enters the box by setns, which the kernel allows to
 * whom the box's user namespace belongs: so it is made as a child of the fork server's, owned by the server's id, and
 * its pid namespace is a child of the server's. What is made is not what the server could reach: nobody of it is ever
 * dumpable, and all of it starts from our memory and our mounts.
 *
 *   guide borrows our memory and enters the pid namespace, out of which nobody who is not root of the host comes back
 *   maker is in it, enters the user namespace, writes the maps: it has our id outside, which owns those files
 *   owner borrows its memory, takes the server's id, and clones the shell
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/init/init.h"

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/*
 * Everybody who waits for a box waits this long, for one server once. It is some tens of milliseconds of work, of which
 * a machine that is busy makes a second; so who is not done by the first look is given up if somebody has stopped it.
 */
#define LOOK_MS 500
#define PATIENCE_MS 5000
#define LATE_MAX 16
#define LATE_S 60 /* the number of a namespace is given again one day */

struct making {
    const struct bh_beneath_what *what;
    int pidfd; /* in the table that maker and owner share */
    pid_t pid; /* of the server's namespace */
    struct bh_fail fail;
};

static pid_t clone_plain(uint64_t flags, int *ret_pidfd)
{
    struct clone_args args = {.flags = flags | CLONE_PARENT, .pidfd = (uint64_t)(uintptr_t)ret_pidfd};
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* As /proc of our root numbers it; the clone has told the number that it has in the server's namespace. */
static pid_t pid_behind(int pidfd)
{
    char path[48], text[512];
    int pid = -1;
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0)
        return -1;
    text[n] = '\0';
    const char *at = strstr(text, "\nPid:");
    return at && sscanf(at, "\nPid: %d", &pid) == 1 && pid > 0 ? (pid_t)pid : -1;
}

static int write_map(pid_t pid, const char *name, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

/* A range is handed down as it is; one id is root of the new box, under whatever number the server has. */
static int map_ids(const struct bh_beneath_what *what, pid_t pid, struct bh_fail *fail)
{
    char uids[64], gids[64];
    bool range = what->setup->mode == BH_IDS_RANGE;
    (void)snprintf(uids, sizeof(uids), "0 %u %u\n", range ? 0 : what->uid, range ? BH_RANGE_COUNT : 1);
    (void)snprintf(gids, sizeof(gids), "0 %u %u\n", range ? 0 : what->gid, range ? BH_RANGE_COUNT : 1);
    if (!range && write_map(pid, "setgroups", "deny") < 0)
        return bh_fail(fail, errno, "deny setgroups");
    if (write_map(pid, "uid_map", uids) < 0 || write_map(pid, "gid_map", gids) < 0)
        return bh_fail(fail, errno, "map ids");
    return 0;
}

/* By the calls themselves: the library would tell threads, and our memory is lent. */
static int take_ids_of_server(const struct bh_beneath_what *what)
{
    if (what->setup->mode != BH_IDS_RANGE)
        return 0; /* it has our id */
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, what->gid, what->gid, what->gid) < 0)
        return -1;
    return (int)syscall(SYS_setresuid, what->uid, what->uid, what->uid);
}

BH_NORETURN static void be_shell(const struct bh_beneath_what *what)
{
    struct bh_fail fail = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (bh_loopback_up(&fail) < 0)
        _exit(1);
    bh_shell_main(what->channel, what->setup, what->join);
}

static int be_owner(void *arg)
{
    struct making *m = arg;
    if (take_ids_of_server(m->what) < 0)
        return bh_fail(&m->fail, errno, "take the ids of a fork server");
    m->pid = clone_plain(NAMESPACES | CLONE_PIDFD, &m->pidfd);
    if (m->pid == 0)
        be_shell(m->what);
    return m->pid < 0 ? bh_fail(&m->fail, errno, "clone into new namespaces") : 0;
}

static int make(struct making *m)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    if (setns(m->what->user_ns, CLONE_NEWUSER) < 0)
        return bh_fail(&m->fail, errno, "enter the user namespace of a fork server");
    if (clone(be_owner, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_PARENT, m) < 0)
        return bh_fail(&m->fail, errno, "clone");
    if (m->fail.error)
        return -1;
    pid_t pid = pid_behind(m->pidfd);
    return pid > 0 ? map_ids(m->what, pid, &m->fail) : bh_fail(&m->fail, ESRCH, "find a shell in /proc");
}

BH_NORETURN static void be_maker(const struct bh_beneath_what *what, int answer)
{
    struct making m = {.what = what, .pidfd = -1};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool made = make(&m) == 0;
    _exit(bh_msg_send(answer, &m.fail, sizeof(m.fail), &m.pidfd, made ? 1 : 0) < 0);
}

struct guiding {
    const struct bh_beneath_what *what;
    int answer;
    pid_t maker;
    struct bh_fail fail;
};

static int be_guide(void *arg)
{
    struct guiding *g = arg;
    if (setns(g->what->pid_ns, CLONE_NEWPID) < 0)
        return bh_fail(&g->fail, errno, "enter the pid namespace of a fork server");
    pid_t pid = clone_plain(0, NULL);
    if (pid == 0)
        be_maker(g->what, g->answer);
    g->maker = pid;
    return pid < 0 ? bh_fail(&g->fail, errno, "clone") : 0;
}

static pid_t start_maker(const struct bh_beneath_what *what, int answer, struct bh_fail *fail)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    struct guiding g = {.what = what, .answer = answer};
    if (clone(be_guide, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_PARENT, &g) < 0)
        return bh_fail(fail, errno, "clone");
    *fail = g.fail;
    return g.fail.error ? -1 : g.maker;
}

/* Servers beneath which nothing could be made in time, by their user namespaces. */
static struct late {
    ino_t space;
    time_t when;
} late[LATE_MAX];
static size_t next_late;

static time_t now(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static ino_t number_of(int space)
{
    struct stat st;
    return fstat(space, &st) == 0 ? st.st_ino : 0;
}

static bool was_late(int space)
{
    ino_t number = number_of(space);
    for (size_t i = 0; i < LATE_MAX; i++) {
        if (late[i].space == number && number != 0 && now() - late[i].when < LATE_S)
            return true;
    }
    return false;
}

static void note_late(int space)
{
    late[next_late++ % LATE_MAX] = (struct late){number_of(space), now()};
}

static bool is_stopped(pid_t pid)
{
    char path[48], text[512];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && strncmp(name_end, ") T", 3) == 0;
}

static bool answers_in_time(int answer, pid_t maker)
{
    struct pollfd polled = {.fd = answer, .events = POLLIN};
    for (int waited = 0; waited < PATIENCE_MS; waited += LOOK_MS) {
        if (poll(&polled, 1, LOOK_MS) > 0)
            return true;
        if (is_stopped(maker))
            return false;
    }
    return false;
}

pid_t bh_shell_clone_beneath(const struct bh_beneath_what *what, int *ret_pidfd, struct bh_fail *fail)
{
    int answer[2], fds[BH_MSG_MAX_FDS];
    size_t nfds = 0;
    if (was_late(what->user_ns))
        return bh_fail(fail, ETIMEDOUT, "make a box beneath a fork server that was late before");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, answer) < 0)
        return bh_fail(fail, errno, "make a socket");
    BH_CLEANUP_FD int ours = answer[0];
    pid_t maker = start_maker(what, answer[1], fail);
    bh_close(answer[1]);
    if (maker < 0)
        return -1;
    if (!answers_in_time(ours, maker)) { /* the server may stop who is in its namespace; others wait for us */
        (void)kill(maker, SIGKILL);
        note_late(what->user_ns);
        return bh_fail(fail, ETIMEDOUT, "make a box beneath a fork server");
    }
    struct bh_fail said;
    ssize_t n = bh_msg_recv(ours, &said, sizeof(said), fds, &nfds); /* an end: the server's box died meanwhile */
    if (n != (ssize_t)sizeof(said))
        return bh_fail(fail, EPIPE, "make a box beneath a fork server");
    *fail = said;
    if (said.error || nfds != 1)
        return -1;
    *ret_pidfd = fds[0];
    pid_t pid = pid_behind(fds[0]);
    return pid > 0 ? pid : bh_fail(fail, ESRCH, "find a shell in /proc");
}
