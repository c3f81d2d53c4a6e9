/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the launcher, and asking it what it is. It gets an empty environment, a session of its own (so that a ^C
 * meant for us does not kill the boxes first) and no descriptor but its socket and the one that it has to keep.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "workers/box/box.h"
#include "workers/box/launcher_client.h"

#define HELLO_TIMEOUT_MS 30000

/* The folder of a helper program: beside us, or in libexec; $BULKHEAD_LIBEXEC is for programs that are not installed
 * together with them. */
char *bh_program_find(const char *name)
{
    char self[PATH_MAX];
    const char *own = getenv("BULKHEAD_LIBEXEC");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    BH_CLEANUP_FREE char *folder = bh_path_dirname(self);
    char *candidates[] = {
        own && *own ? bh_path_join(own, name) : NULL,
        bh_asprintf("%s/%s", folder, name),
        bh_asprintf("%s/../libexec/bulkhead/%s", folder, name),
    };
    char *found = NULL;
    for (size_t i = 0; i < BH_ARRAY_LEN(candidates); i++) {
        if (!found && candidates[i] && access(candidates[i], X_OK) == 0)
            found = candidates[i];
        else
            bh_free(candidates[i]);
    }
    return found;
}

static int not_found(const char *name, struct bh_err **err)
{
    char self[PATH_MAX];
    const char *own = getenv("BULKHEAD_LIBEXEC");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    BH_CLEANUP_FREE char *folder = bh_path_dirname(self);
    int rc = bh_err_set(err, BH_E_HOST, 0, "cannot find '%s'", name);
    bh_err_detail(err, "looked in %s%s'%s' and '%s/../libexec/bulkhead'", own && *own ? own : "",
                  own && *own ? ", " : "", folder, folder);
    if (n <= 0)
        bh_err_hint(err, "there is no /proc here, without which nothing works: mount one");
    else
        bh_err_hint(
            err, "keep bulkhead, bulkhead-launcher and bulkhead-init together, or name the folder of the latter two in "
                 "BULKHEAD_LIBEXEC");
    return rc;
}

struct spawn {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
};

/* dup2 clears CLOEXEC also where both are the same descriptor (since glibc 2.29). */
static int prepare_spawn(struct spawn *s, int sock, int keep_fd)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&s->actions);
    if (rc == 0)
        rc = posix_spawnattr_init(&s->attr);
    if (rc == 0)
        rc = posix_spawn_file_actions_addopen(&s->actions, 0, "/dev/null", O_RDWR, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&s->actions, 0, 1);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&s->actions, sock, 3);
    if (rc == 0 && keep_fd >= 0)
        rc = posix_spawn_file_actions_adddup2(&s->actions, keep_fd, 4);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&s->actions, keep_fd >= 0 ? 5 : 4);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(&s->attr, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(&s->attr, &all);
    if (rc == 0)
        rc = posix_spawnattr_setflags(&s->attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    return rc;
}

/* The spawn needs what every program needs; a process as such, and /dev/null. */
static int spawn_failed(const char *launcher, int why, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_HOST, why, "cannot start '%s'", launcher);
    if (why == EAGAIN || why == ENOMEM)
        bh_err_hint(err, "raise the limit of processes (ulimit -u, pids.max of the control group) or free memory");
    else if (access("/dev/null", R_OK | W_OK) < 0)
        bh_err_hint(err, "there is no usable /dev/null: run bulkhead where a whole /dev is");
    else if (why == EPERM || why == ENOSYS)
        bh_err_hint(err, "a seccomp filter on this process forbids clone3: let it through, or answer it with ENOSYS as "
                         "the profiles of current container runtimes do");
    else if (why == EACCES)
        bh_err_hint(err, "the programs must be executable, on a file system that is not mounted noexec");
    return rc;
}

static int spawn_launcher(const char *home, int sock, int keep_fd, pid_t *ret_pid, struct bh_err **err)
{
    struct spawn s;
    char parent[24];
    BH_CLEANUP_FREE char *launcher = bh_program_find("bulkhead-launcher");
    BH_CLEANUP_FREE char *init = bh_program_find("bulkhead-init");
    if (!launcher || !init)
        return not_found(launcher ? "bulkhead-init" : "bulkhead-launcher", err);
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    /* For who wants the host's control groups left alone, and for the tests of what follows. */
    const char *cgroup = getenv("BULKHEAD_CGROUP");
    char *off = cgroup && strcmp(cgroup, "off") == 0 ? (char[]){"no-cgroup"} : NULL;
    char *argv[] = {launcher, (char *)(uintptr_t)home, init, parent, off, NULL}, *envp[] = {NULL};
    int rc = prepare_spawn(&s, sock, keep_fd);
    if (rc == 0)
        rc = posix_spawn(ret_pid, launcher, &s.actions, &s.attr, argv, envp);
    (void)posix_spawn_file_actions_destroy(&s.actions);
    (void)posix_spawnattr_destroy(&s.attr);
    return rc == 0 ? 0 : spawn_failed(launcher, rc, err);
}

int bh_launcher_hello(int sock, struct bh_msg_hello *ret, int fds[static BH_MSG_MAX_FDS], size_t *ret_nfds,
                      struct bh_err **err)
{
    struct bh_msg_hello msg = {.kind = BH_MSG_HELLO, .version = BH_PROTO_VERSION};
    struct pollfd polled = {.fd = sock, .events = POLLIN};
    int ready;
    *ret_nfds = 0;
    if (bh_msg_send(sock, &msg, sizeof(msg), NULL, 0) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot speak to the launcher");
    do
        ready = poll(&polled, 1, HELLO_TIMEOUT_MS);
    while (ready < 0 && errno == EINTR);
    ssize_t n = ready > 0 ? bh_msg_recv(sock, &msg, sizeof(msg), fds, ret_nfds) : -1;
    if (n != (ssize_t)sizeof(msg) || msg.kind != BH_MSG_HELLO)
        return bh_err_set(err, BH_E_HOST, 0, "the launcher %s", ready == 0 ? "does not answer" : "has ended");
    if (msg.version != BH_PROTO_VERSION)
        return bh_err_set(err, BH_E_HOST, 0, "the launcher is of another version");
    msg.step[BH_STEP_MAX - 1] = '\0';
    msg.cgroup_name[sizeof(msg.cgroup_name) - 1] = msg.cgroup_found[sizeof(msg.cgroup_found) - 1] = '\0';
    msg.cgroup_remedy[sizeof(msg.cgroup_remedy) - 1] = '\0';
    *ret = msg;
    return 0;
}

int bh_launcher_start(const char *home, int keep_fd, int *ret_sock, int64_t *ret_pid, struct bh_err **err)
{
    struct bh_msg_hello hello;
    int pair[2], fds[BH_MSG_MAX_FDS];
    size_t nfds;
    pid_t pid;
    int rc = bh_seqpacket_pair(pair, err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FD int ours = pair[0];
    /* Numbers above those that the child uses, so that no dup2 there overwrites another's source. */
    BH_CLEANUP_FD int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 16);
    BH_CLEANUP_FD int keep = keep_fd >= 0 ? fcntl(keep_fd, F_DUPFD_CLOEXEC, 16) : -1;
    bh_close(pair[1]);
    if (theirs < 0 || (keep_fd >= 0 && keep < 0))
        return bh_err_set(err, BH_E_HOST, errno, "cannot copy a descriptor");
    rc = spawn_launcher(home, theirs, keep, &pid, err);
    if (rc != 0)
        return rc;
    bh_close(BH_TAKE_FD(theirs)); /* so that the launcher's end is seen */
    rc = bh_launcher_hello(ours, &hello, fds, &nfds, err);
    for (size_t i = 0; i < nfds; i++)
        bh_close(fds[i]);
    if (rc != 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return rc;
    }
    *ret_sock = BH_TAKE_FD(ours);
    *ret_pid = pid;
    return 0;
}
