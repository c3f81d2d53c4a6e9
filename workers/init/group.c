/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1 of one exec in a shared box: passes signals on to all of its namespace and, when the command ends, says how and
 * exits, which kills whatever is left. It is never the agent, so that signals mean to the agent what they say; SIGKILL
 * to it from the box's init ends everything at once.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/box/mount_id.h"
#include "workers/init/init.h"

static void start_agent(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd)
{
    struct bh_fail fail = {0};
    (void)bh_become(in, plan, note_fd, &fail);
    bh_exec_fail(note_fd, &fail);
}

static void be_small(int note_fd)
{
    (void)prctl(PR_SET_NAME, "bulkhead-init");
    (void)bh_caps_to_kill();
    (void)dup2(note_fd, 0); /* streams of the agent are not kept open here */
    (void)close_range(1, ~0U, 0);
}

static void reap(pid_t agent)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != agent)
            continue;
        struct statx sx;
        struct bh_exec_note note = {.ended = 1, .wait_status = status, .mount = bh_mount_id(AT_FDCWD, "/", 0, &sx)};
        ssize_t n = write(0, &note, sizeof(note));
        _exit(n == (ssize_t)sizeof(note) ? 0 : 1);
    }
}

BH_NORETURN void bh_group_main(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd)
{
    struct bh_fail fail = {0};
    sigset_t set;
    sigfillset(&set);
    (void)sigprocmask(SIG_SETMASK, &set, NULL);
    pid_t agent = fork();
    if (agent == 0)
        start_agent(in, plan, note_fd);
    if (agent < 0) {
        (void)bh_fail(&fail, errno, "fork");
        bh_exec_fail(note_fd, &fail);
    }
    be_small(note_fd);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGUSR1); /* from the box's init alone: the signal to pass on is its value */
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(&set, &info);
        if (sig == SIGUSR1 && info.si_code == SI_QUEUE && info.si_pid == 0)
            (void)kill(-1, info.si_value.sival_int);
        else if (sig == SIGCHLD)
            reap(agent);
    }
}
