/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shells made ahead, and the process that makes them. A namespace of the network alone costs half a millisecond: with a
 * shell ready that is not on the way of whoever asks for a box. A shell is used once and knows nothing until then.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/units.h"
#include "workers/launcher/launcher.h"

void bh_shell_close(struct bh_shell *s)
{
    bh_close(s->pidfd);
    bh_close(s->channel);
}

static void exec_init(int init_fd, int socket)
{
    char *argv[] = {(char[]){"bulkhead-init"}, NULL}, *envp[] = {NULL};
    sigset_t none;
    sigemptyset(&none);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && null >= 0; i++)
        (void)dup2(null, i);
    /* dup2 of a descriptor onto itself would leave it to be closed by the exec. */
    if (socket == 3 ? bh_fd_set_cloexec(3, false) == 0 : dup2(socket, 3) == 3)
        (void)fexecve(init_fd, argv, envp);
    _exit(errno);
}

/* Agents die before their init does, wherever we stand: raising it needs no right. */
static int32_t oom_score_adj(void)
{
    char text[16] = "";
    int64_t own = 0;
    BH_CLEANUP_FD int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
        text[strcspn(text, "\n")] = '\0';
    if (bh_parse_int(text, &own) != 0)
        own = 0;
    return own < 700 ? (int32_t)own + 300 : 1000;
}

static int start_spawner(struct bh_launcher *l, bool host_network, int *ret, struct bh_fail *fail)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return bh_fail(fail, errno, "make a socket");
    pid_t pid = fork();
    if (pid == 0)
        exec_init(l->init, pair[1]);
    bh_close(pair[1]);
    if (pid < 0) {
        bh_close(pair[0]);
        return bh_fail(fail, errno, "fork");
    }
    *ret = pair[0];
    struct bh_msg_setup msg = {
        .kind = BH_MSG_SETUP, .mode = l->mode, .first_id = l->first_id, .mask_proc = l->mask_proc};
    msg.oom_score_adj = oom_score_adj();
    msg.host_network = host_network;
    if (bh_msg_send(*ret, &msg, sizeof(msg), (int[2]){l->filter, l->server_filter}, 2) < 0)
        return bh_fail(fail, errno, "start bulkhead-init");
    return 0;
}

int bh_pool_start(struct bh_launcher *l)
{
    return start_spawner(l, false, &l->spawner, &l->fail);
}

/* Who is in a namespace of others has no right to clone into a group of ours, and joins it by a file that we opened. */
static int to_be_joined(struct bh_msg_spawn *msg, int *fd)
{
    int procs = openat(*fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    bh_close(*fd);
    *fd = procs;
    msg->into = 0;
    return procs < 0 ? -1 : 1;
}

/* Of `once` the control group is nobody's afterwards. */
static int order(struct bh_launcher *l, int spawner, const struct bh_beneath *where, bool once, uint32_t *ret_group)
{
    int fds[2 + BH_CGROUP_PARTS], first = 2;
    bool to_close = true;
    struct bh_msg_spawn msg = {.kind = BH_MSG_SPAWN};
    int n = bh_groups_take(l, &msg, once, fds + 2, ret_group, &to_close);
    if (n == 1 && msg.into && where)
        n = to_be_joined(&msg, &fds[2]);
    if (n < 0)
        return -1;
    if (where) {
        first = 0;
        fds[0] = where->user_ns;
        fds[1] = where->pid_ns;
        msg.beneath = 1;
        msg.agent_uid = where->agent_uid;
        msg.agent_gid = where->agent_gid;
    }
    int rc = bh_msg_send(spawner, &msg, sizeof(msg), fds + first, (size_t)(2 - first + n));
    for (int i = 0; i < n && to_close; i++)
        bh_close(fds[2 + i]);
    return rc < 0 ? -1 : 0;
}

static int ask(struct bh_launcher *l, const struct bh_beneath *where)
{
    uint32_t group = 0;
    if (order(l, l->spawner, where, where != NULL, &group) < 0)
        return -1;
    l->asked[l->pool_asked++] = group;
    return 0;
}

void bh_pool_refill(struct bh_launcher *l)
{
    while (l->spawner >= 0 && l->pool_len + l->pool_asked < BH_POOL_SHELLS) {
        if (ask(l, NULL) < 0)
            return;
    }
}

/* What a process that makes shells has said; -1: it has ended. */
static int read_answer(int spawner, struct bh_msg_shell *ret, int fds[static BH_MSG_MAX_FDS])
{
    size_t nfds;
    ssize_t n = bh_msg_recv(spawner, ret, sizeof(*ret), fds, &nfds);
    return n == (ssize_t)sizeof(*ret) && ret->kind == BH_MSG_SHELL && (ret->error || nfds == 2) ? 0 : -1;
}

static int take_answer(struct bh_launcher *l, struct bh_msg_shell *msg, const int *fds, uint32_t group,
                       struct bh_shell *ret, struct bh_fail *fail)
{
    if (msg->error) {
        bh_groups_drop(l, group);
        msg->step[BH_STEP_MAX - 1] = '\0';
        return bh_fail(fail, msg->error, "%s", msg->step);
    }
    *ret = (struct bh_shell){.pid = msg->pid, .pidfd = fds[0], .channel = fds[1]};
    ret->group = l->cgroup.kind == BH_CGROUP_NONE ? 0 : group;
    if (bh_process_start(msg->pid, ret->start) < 0) {
        bh_shell_close(ret);
        return bh_fail(fail, EIO, "read the start time of a shell");
    }
    return 0;
}

static int receive(struct bh_launcher *l, struct bh_shell *ret, struct bh_fail *fail)
{
    struct bh_msg_shell msg;
    int fds[BH_MSG_MAX_FDS];
    if (read_answer(l->spawner, &msg, fds) < 0) {
        bh_close(l->spawner);
        l->spawner = -1;
        l->pool_asked = 0;
        return bh_fail(fail, EPIPE, "bulkhead-init has ended");
    }
    uint32_t group = l->asked[0];
    memmove(l->asked, l->asked + 1, --l->pool_asked * sizeof(*l->asked));
    return take_answer(l, &msg, fds, group, ret, fail);
}

int bh_pool_on_spawner(struct bh_launcher *l)
{
    struct bh_fail ignored; /* whoever needs a shell meets the reason again */
    struct bh_shell shell;
    if (receive(l, &shell, &ignored) == 0)
        l->pool[l->pool_len++] = shell;
    return l->spawner >= 0 ? 0 : -1;
}

static bool is_dead(const struct bh_shell *s)
{
    return syscall(SYS_pidfd_send_signal, s->pidfd, 0, NULL, 0) < 0;
}

int bh_pool_take(struct bh_launcher *l, struct bh_shell *ret, struct bh_fail *fail)
{
    while (l->pool_len > 0) {
        *ret = l->pool[--l->pool_len];
        if (!is_dead(ret))
            return 0;
        bh_shell_close(ret);
        bh_groups_drop(l, ret->group);
    }
    if (l->spawner < 0)
        return bh_fail(fail, EPIPE, "bulkhead-init has ended");
    if (l->pool_asked == 0 && ask(l, NULL) < 0)
        return bh_fail(fail, errno, "make a control group or ask for a shell");
    return receive(l, ret, fail);
}

int bh_pool_make_beneath(struct bh_launcher *l, const struct bh_beneath *where, struct bh_shell *ret,
                         struct bh_fail *fail)
{
    if (l->spawner < 0)
        return bh_fail(fail, EPIPE, "bulkhead-init has ended");
    if (ask(l, where) < 0)
        return bh_fail(fail, errno, "make a control group or ask for a shell");
    while (l->pool_asked > 1 && bh_pool_on_spawner(l) == 0) /* those that were asked for before */
        ;
    if (l->spawner < 0)
        return bh_fail(fail, EPIPE, "bulkhead-init has ended");
    return receive(l, ret, fail);
}

int bh_pool_make_on_host(struct bh_launcher *l, struct bh_shell *ret, struct bh_fail *fail)
{
    struct bh_msg_shell msg;
    int fds[BH_MSG_MAX_FDS];
    uint32_t group = 0;
    if (l->host_spawner < 0 && start_spawner(l, true, &l->host_spawner, fail) < 0) {
        bh_close(BH_TAKE_FD(l->host_spawner));
        return -1;
    }
    int rc = order(l, l->host_spawner, NULL, true, &group);
    if (rc < 0)
        rc = bh_fail(fail, errno, "make a control group or ask for a shell");
    else if (read_answer(l->host_spawner, &msg, fds) < 0)
        rc = bh_fail(fail, EPIPE, "bulkhead-init has ended");
    else
        return take_answer(l, &msg, fds, group, ret, fail);
    if (group)
        bh_groups_drop(l, group);
    bh_close(BH_TAKE_FD(l->host_spawner)); /* the next one begins anew */
    return rc;
}
