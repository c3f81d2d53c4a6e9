/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fork server in a box (docs/warm.md): the server, and what becomes of its fork until it is an attempt. Linked into
 * programs of others: the C library alone, and no symbol but bh_warm.
 *
 * What a fork gives up here is not believed by anybody: the init of its box looks at it before it may go on.
 */
#include "workers/warm/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_MAX 32
#define STRINGS_MAX (32u << 20)
#define REPLY 3
#define ROOM_FOR_FDS CMSG_SPACE(FDS_MAX * sizeof(int))

struct order {
    int fds[FDS_MAX]; /* the answer, three streams, namespaces, files of control groups */
    size_t n, spaces, groups;
};

/* --- the server --- */

static int count_threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) == 0 ? (int)st.st_nlink - 2 : 1;
}

static int find_socket(void)
{
    const char *text = getenv("BULKHEAD_WARM_FD");
    char *end = NULL;
    long fd = text ? strtol(text, &end, 10) : -1;
    if (!text || end == text || *end || fd < 3 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0) {
        errno = ENOTCONN;
        return -1;
    }
    return (int)fd;
}

static void take_fds(struct msghdr *msg, struct order *o)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        o->n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(o->fds, CMSG_DATA(c), o->n * sizeof(int));
    }
}

/* 1: there is one; 0: no more will come. What cannot be read is left unanswered. */
static int receive(int sock, struct order *o)
{
    char text[128];
    union {
        struct cmsghdr align;
        char bytes[ROOM_FOR_FDS];
    } control;
    for (;;) {
        struct iovec io = {text, sizeof(text) - 1};
        struct msghdr msg = {
            .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
        ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        text[n] = '\0';
        *o = (struct order){.n = 0};
        take_fds(&msg, o);
        if (sscanf(text, "fork 1 %zu %zu\n", &o->spaces, &o->groups) == 2 && o->n == 4 + o->spaces + o->groups)
            return 1;
        for (size_t i = 0; i < o->n; i++)
            (void)close(o->fds[i]);
    }
}

/* --- the fork --- */

/* A fork is alone when who forked it is gone and has left it to the init of the server's box. */
static int wait_until_gone(int pidfd)
{
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    while (pidfd >= 0 && poll(&polled, 1, -1) < 0 && errno == EINTR)
        ;
    return 0;
}

static int drop_everything(void)
{
    struct {
        uint32_t version;
        int pid;
    } head = {0x20080522, 0};
    const uint32_t none[6] = {0};
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                               SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (prctl(PR_SET_SECUREBITS, bits) < 0)
        return -1;
    for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
        ;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || syscall(SYS_capset, &head, none) < 0)
        return -1;
    return prctl(PR_SET_DUMPABLE, 1); /* so that it can be looked at */
}

/* The second wall (docs/security.md), as every other agent has it: nothing that is not beneath this root. */
static int fence(void)
{
    struct {
        uint64_t fs, net, scoped;
    } all = {0};
    struct __attribute__((packed)) {
        uint64_t allowed;
        int32_t fd;
    } beneath;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
    if (abi < 2)
        return 0;
    all.fs = (UINT64_C(1) << (abi >= 5 ? 16 : abi >= 3 ? 15 : 14)) - 1;
    all.scoped = 3;
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, abi >= 6 ? sizeof(all) : sizeof(all.fs), 0);
    beneath.fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    beneath.allowed = all.fs & ~(UINT64_C(1) << 6 | UINT64_C(1) << 11); /* device nodes */
    int rc =
        syscall(SYS_landlock_add_rule, rules, 1, &beneath, 0) < 0 || syscall(SYS_landlock_restrict_self, rules, 0) < 0
            ? -1
            : 0;
    (void)close(beneath.fd);
    (void)close(rules);
    return rc;
}

static int give_up_setns(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The streams, and the answer above them; nothing else. */
static int keep_only(const struct order *o)
{
    for (int i = 0; i < 3; i++) {
        if (dup2(o->fds[1 + i], i) < 0)
            return -1;
    }
    if (o->fds[0] != REPLY && dup3(o->fds[0], REPLY, O_CLOEXEC) < 0)
        return -1;
    return (int)syscall(SYS_close_range, REPLY + 1, ~0U, 0);
}

static int become_new(const struct order *o, int parent)
{
    (void)setsid();
    if (drop_everything() < 0 || chdir("/") < 0 || fence() < 0)
        return -1;
    (void)umask(022);
    if (give_up_setns() < 0)
        return -1;
    (void)wait_until_gone(parent);
    return keep_only(o);
}

static int send_all(const char *text, size_t len)
{
    return send(REPLY, text, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -1;
}

static int read_exactly(char *to, size_t len)
{
    while (len > 0) {
        ssize_t n = read(REPLY, to, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        to += n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_line(char *line, size_t size)
{
    for (size_t at = 0; at + 1 < size; at++) {
        if (read_exactly(line + at, 1) < 0)
            return -1;
        if (line[at] == '\n') {
            line[at + 1] = '\0';
            return 0;
        }
    }
    return -1;
}

static char *next_string(char **at, const char *end)
{
    char *s = *at, *nul = s < end ? memchr(s, '\0', (size_t)(end - s)) : NULL;
    if (!nul)
        _exit(1);
    *at = nul + 1;
    return s;
}

static char **next_strings(size_t n, char **at, const char *end)
{
    char **list = calloc(n + 1, sizeof(*list));
    if (!list)
        _exit(1);
    for (size_t i = 0; i < n; i++)
        list[i] = next_string(at, end);
    return list;
}

static int hear(struct bh_warm_attempt *ret)
{
    char line[96];
    size_t argc, envc, len;
    if (read_line(line, sizeof(line)) < 0 || sscanf(line, "go %zu %zu %zu\n", &argc, &envc, &len) != 3 ||
        len > STRINGS_MAX || argc > len || envc > len)
        return -1;
    char *text = malloc(len + 1), *at = text;
    if (!text || read_exactly(text, len) < 0)
        return -1;
    const char *cwd = next_string(&at, text + len);
    ret->argc = (int)argc;
    ret->argv = next_strings(argc, &at, text + len);
    ret->envp = environ = next_strings(envc, &at, text + len);
    const char *number = getenv("BULKHEAD_ATTEMPT");
    ret->number = number ? (int)strtol(number, NULL, 10) : 0;
    return chdir(cwd);
}

/* All forks have one memory: what is random must not be. */
static void seed(void)
{
    unsigned short more[3];
    unsigned one = 0;
    (void)!getrandom(&one, sizeof(one), 0);
    (void)!getrandom(more, sizeof(more), 0);
    srandom(one);
    srand(one ^ more[0]);
    (void)seed48(more);
}

static void be_attempt(const struct order *o, int parent, struct bh_warm_attempt *ret)
{
    static const char here[] = "here\n";
    if (become_new(o, parent) < 0 || send_all(here, sizeof(here) - 1) < 0 || hear(ret) < 0)
        _exit(1);
    (void)close(REPLY);
    seed();
}

/* Groups first: whoever joins one is moved, and forks there. Returns in the attempt only. */
static void enter(const struct order *o, struct bh_warm_attempt *ret)
{
    for (size_t i = 4 + o->spaces; i < o->n; i++) {
        if (write(o->fds[i], "0", 1) != 1)
            _exit(1);
    }
    for (size_t i = 4; i < 4 + o->spaces; i++) {
        if (setns(o->fds[i], 0) < 0)
            _exit(1);
    }
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    pid_t pid = fork();
    if (pid != 0)
        _exit(pid < 0 ? 1 : 0);
    be_attempt(o, self, ret);
}

int bh_warm(struct bh_warm_attempt *ret)
{
    static const char ready[] = "ready 1\n";
    int sock = find_socket();
    struct order o;
    if (sock < 0)
        return -1;
    if (count_threads() != 1) {
        errno = EBUSY;
        return -1;
    }
    (void)fflush(NULL); /* what is buffered would be written by every fork */
    if (send(sock, ready, sizeof(ready) - 1, MSG_NOSIGNAL) < 0)
        return -1;
    while (receive(sock, &o) > 0) {
        pid_t pid = fork();
        if (pid == 0) {
            enter(&o, ret);
            return 0;
        }
        for (size_t i = 0; i < o.n; i++)
            (void)close(o.fds[i]);
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    _exit(0);
}
