/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that shells are cloned from. It is started once by bulkhead-launcher, has no environment, no files but
 * the launcher's socket, and nothing in memory but the seccomp filter: what a box's init inherits is what is here.
 * Shells are made children of the launcher (CLONE_PARENT), die with it, and cost a fork instead of an exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/init/init.h"

#define LAUNCHER 3

/* That of control groups is made by the shell, when it is in its own; that of the network is the parent's (nets.c). */
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

static uint32_t first_id;
static struct bh_fail no_net; /* why there is no network namespace to come back to; error 0: there is one */

static int read_filter(int memfd, struct sock_fprog *ret)
{
    struct stat st;
    if (fstat(memfd, &st) < 0)
        return -1;
    size_t n = (size_t)st.st_size / sizeof(struct sock_filter);
    if (n == 0 || n > BPF_MAXINSNS) {
        errno = EINVAL;
        return -1;
    }
    *ret = (struct sock_fprog){.len = (unsigned short)n, .filter = bh_calloc(n, sizeof(struct sock_filter))};
    size_t size = n * sizeof(struct sock_filter);
    return pread(memfd, ret->filter, size, 0) == (ssize_t)size ? 0 : -1;
}

static int receive_setup(struct bh_init_setup *ret)
{
    struct bh_msg_setup msg;
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    ssize_t n = bh_msg_recv(LAUNCHER, &msg, sizeof(msg), fds, &nfds);
    if (n != (ssize_t)sizeof(msg) || msg.kind != BH_MSG_SETUP || nfds != 2)
        return -1;
    *ret = (struct bh_init_setup){
        .mode = (enum bh_id_mode)msg.mode, .mask_proc = msg.mask_proc != 0, .oom_score_adj = msg.oom_score_adj};
    ret->host_network = msg.host_network != 0;
    first_id = msg.first_id;
    int rc = read_filter(fds[0], &ret->filter);
    if (rc == 0)
        rc = read_filter(fds[1], &ret->server_filter);
    bh_close(fds[0]);
    bh_close(fds[1]);
    return rc;
}

static int write_map(pid_t pid, const char *name, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

/* Ours is always 0 where one id is mapped: the launcher sees to that. */
static int map_ids(const struct bh_init_setup *setup, pid_t pid, struct bh_fail *fail)
{
    char map[64];
    bool range = setup->mode == BH_IDS_RANGE;
    (void)snprintf(map, sizeof(map), "0 %u %u\n", range ? first_id : 0, range ? BH_RANGE_COUNT : 1);
    if (!range && write_map(pid, "setgroups", "deny") < 0)
        return bh_fail(fail, errno, "deny setgroups");
    if (write_map(pid, "uid_map", map) < 0 || write_map(pid, "gid_map", map) < 0)
        return bh_fail(fail, errno, "map ids");
    return 0;
}

static pid_t clone_into(int *ret_pidfd, int group)
{
    /* With CLONE_PARENT the exit signal is the one that the launcher gave us. */
    struct clone_args args = {
        .flags = NAMESPACES | CLONE_PARENT | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
    };
    if (group >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)(unsigned)group;
    }
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static pid_t clone_on_host(int *ret_pidfd, int group, struct bh_fail *fail)
{
    pid_t pid = clone_into(ret_pidfd, group);
    if (pid < 0)
        (void)bh_fail(fail, errno, "clone into new namespaces");
    return pid;
}

/* The parent is back in its own namespace of the network. */
static pid_t clone_shell(int *ret_pidfd, int group, struct bh_fail *fail)
{
    struct bh_net *net = NULL;
    if (no_net.error) {
        *fail = no_net;
        return -1;
    }
    if (bh_nets_enter(&net, fail) < 0) {
        bh_nets_leave(net, -1);
        return -1;
    }
    pid_t pid = clone_into(ret_pidfd, group);
    if (pid == 0)
        return 0;
    if (pid < 0)
        (void)bh_fail(fail, errno, "clone into new namespaces");
    bh_nets_leave(net, pid > 0 ? *ret_pidfd : -1);
    return pid;
}

static void answer(const struct bh_fail *fail, pid_t pid, const int *fds)
{
    struct bh_msg_shell msg = {.kind = BH_MSG_SHELL, .pid = pid, .error = fail->error};
    bh_step_set(msg.step, fail->step);
    if (bh_msg_send(LAUNCHER, &msg, sizeof(msg), fds, fail->error ? 0 : 2) < 0)
        _exit(1);
}

/* What is to be cloned: into a group, or with files to join some by; beneath what, or NULL. */
struct order {
    const struct bh_init_setup *setup;
    int group;
    struct bh_join join;
    struct bh_beneath_what *beneath;
};

static pid_t clone_ordered(const struct order *o, const int channel[2], int *ret_pidfd, struct bh_fail *fail)
{
    if (o->beneath) {
        o->beneath->channel = channel[1];
        return bh_shell_clone_beneath(o->beneath, ret_pidfd, fail);
    }
    pid_t pid =
        o->setup->host_network ? clone_on_host(ret_pidfd, o->group, fail) : clone_shell(ret_pidfd, o->group, fail);
    if (pid == 0) {
        bh_close(channel[0]);
        bh_shell_main(channel[1], o->setup, &o->join);
    }
    return pid > 0 && map_ids(o->setup, pid, fail) < 0 ? -1 : pid;
}

static void spawn(const struct order *o)
{
    struct bh_fail fail = {0};
    int channel[2], pidfd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0) {
        (void)bh_fail(&fail, errno, "make a socket");
        answer(&fail, 0, NULL);
        return;
    }
    pid_t pid = clone_ordered(o, channel, &pidfd, &fail);
    bh_close(channel[1]);
    if (pid > 0 && bh_msg_send(channel[0], "", 1, NULL, 0) < 0)
        (void)bh_fail(&fail, errno, "start a shell");
    answer(&fail, pid, (int[2]){pidfd, channel[0]});
    bh_close(channel[0]); /* of a shell that failed it is the last end: the shell goes away */
    bh_close(pidfd);
}

static void spawn_as_told(const struct bh_init_setup *setup, const struct bh_msg_spawn *msg, const int *fds,
                          size_t nfds)
{
    struct bh_beneath_what beneath = {.setup = setup, .uid = msg->agent_uid, .gid = msg->agent_gid};
    struct order o = {.setup = setup, .group = -1};
    if (msg->beneath) {
        if (nfds < 2 || setup->host_network)
            _exit(1); /* the launcher errs */
        beneath.user_ns = fds[0];
        beneath.pid_ns = fds[1];
        beneath.join = &o.join;
        o.beneath = &beneath;
        fds += 2;
        nfds -= 2;
    }
    if (nfds > BH_ARRAY_LEN(o.join.fds))
        _exit(1);
    if (msg->into && nfds == 1) {
        o.group = fds[0];
    } else {
        memcpy(o.join.fds, fds, nfds * sizeof(*fds));
        o.join.n = nfds;
    }
    spawn(&o);
}

/*
 * For the agents: nobody in between catches or ignores anything. By the system call, because the library keeps two
 * signals to itself and would leave them ignored where somebody above us did that.
 */
static void reset_signals(void)
{
    const struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } dfl = {0};
    for (int sig = 1; sig <= 64; sig++)
        (void)syscall(SYS_rt_sigaction, sig, &dfl, NULL, sizeof(dfl.mask)); /* EINVAL for KILL and STOP */
}

static void be_quiet_and_mortal(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)close_range(LAUNCHER + 1, ~0U, 0);
    umask(022);
}

int main(void)
{
    struct bh_init_setup setup;
    struct stat st;
    if (fstat(LAUNCHER, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        fputs("bulkhead-init: started by bulkhead-launcher only\n", stderr);
        return 2;
    }
    be_quiet_and_mortal();
    reset_signals();
    if (receive_setup(&setup) < 0)
        return 1; /* also: the launcher died before the death signal was set */
    /* One that makes shells in the launcher's network never leaves it, and makes no others. */
    if (!setup.host_network)
        (void)bh_nets_start(&no_net);
    for (;;) {
        struct bh_msg_spawn msg;
        int fds[BH_MSG_MAX_FDS];
        size_t nfds;
        ssize_t n = bh_msg_recv(LAUNCHER, &msg, sizeof(msg), fds, &nfds);
        if (n != (ssize_t)sizeof(msg) || msg.kind != BH_MSG_SPAWN)
            return n == 0 ? 0 : 1;
        spawn_as_told(&setup, &msg, fds, nfds);
        for (size_t i = 0; i < nfds; i++)
            bh_close(fds[i]);
    }
}
