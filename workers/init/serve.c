/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1 of a box: takes requests, starts execs, reaps everything, reports ends. One poll loop; signals arrive by a
 * signalfd and statuses are collected in one place (reap), so none can be lost to a handler.
 *
 * An exec:   RUNNING --main reaped--> ENDING --all dead--> (GIVING --helper reaped-->) reported
 * In a box that is not shared, ENDING kills everything and no request is read until nothing is left: what is started
 * later is never hit by it. In a shared box the exec's own PID 1 takes its namespace with it: ENDING is passed at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workers/box/box.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

enum run_state { RUNNING, ENDING, GIVING };

struct run {
    struct bh_list link;
    enum run_state state;
    uint64_t id;
    uint32_t flags;
    pid_t pid; /* of the main process, of the exec's PID 1, or of the helper that gives */
    int notes;
    int narrow; /* its mount namespace, kept so that its end is not waited for before the report; -1: its own alone */
    int wait_status;
    int64_t cpu_us, max_rss_kb;
    struct bh_msg_report report;
};

#define RUN(it) BH_CONTAINER(it, struct run, link)

static void send_report(struct bh_init *in, struct bh_msg_report *msg, const int *fd)
{
    if (bh_msg_send(in->control, msg, sizeof(*msg), fd, fd ? 1 : 0) < 0)
        _exit(1); /* nobody is left to work for */
}

static void answer(struct bh_init *in, enum bh_msg_kind kind, uint64_t id, int error)
{
    struct bh_msg_report msg = {.kind = kind, .id = id, .status = error};
    send_report(in, &msg, NULL);
}

/* --- the end of an exec --- */

static void not_started(struct bh_msg_report *r, int error, const char *step)
{
    r->end = BH_EXEC_NOT_STARTED;
    r->status = error;
    bh_step_set(r->step, step);
}

static void from_wait_status(struct bh_msg_report *r, int status)
{
    r->end = WIFSIGNALED(status) ? BH_EXEC_SIGNALED : BH_EXEC_EXITED;
    r->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void make_report(struct bh_init *in, struct run *run)
{
    struct bh_exec_note note;
    struct bh_msg_report *r = &run->report;
    *r = (struct bh_msg_report){.kind = BH_MSG_ENDED, .id = run->id};
    r->cpu_ms = run->cpu_us / 1000;
    r->max_rss_bytes = run->max_rss_kb * 1024;
    r->ended_us = bh_wall_now().us;
    bool noted = read(run->notes, &note, sizeof(note)) == (ssize_t)sizeof(note);
    r->mount = noted && note.ended ? note.mount : 0;
    if (noted && !note.ended)
        not_started(r, note.fail.error, note.fail.step);
    else
        from_wait_status(r, noted && in->shared ? note.wait_status : run->wait_status);
}

static void end_run(struct bh_init *in, struct run *run)
{
    send_report(in, &run->report, NULL);
    bh_list_remove(&run->link);
    bh_close(run->notes);
    bh_close(run->narrow);
    bh_free(run);
}

static pid_t start_giving(struct bh_init *in)
{
    struct bh_fail fail = {0};
    pid_t pid = fork();
    if (pid == 0)
        _exit(bh_give_to_agent(in->box, bh_agent_owner(in), &fail) < 0 ? fail.error : 0);
    return pid;
}

/* With one id the agent owns what root of the box made anyway. */
static bool must_give(const struct bh_init *in, const struct run *run)
{
    return run->flags & BH_EXEC_GIVE && run->report.end == BH_EXEC_EXITED && run->report.status == 0 &&
           bh_agent_owner(in).uid != 0;
}

static void all_dead(struct bh_init *in, struct run *run)
{
    make_report(in, run);
    if (must_give(in, run)) {
        run->pid = start_giving(in);
        run->state = GIVING;
        if (run->pid > 0)
            return;
        not_started(&run->report, errno, "give the workspace to the agent");
    }
    end_run(in, run);
}

static void given(struct bh_init *in, struct run *run, int status)
{
    if (status != 0)
        not_started(&run->report, WIFEXITED(status) ? WEXITSTATUS(status) : EIO, "give the workspace to the agent");
    end_run(in, run);
}

/* --- reaping --- */

static void reaped(struct bh_init *in, pid_t pid, int status, const struct rusage *ru)
{
    BH_LIST_FOREACH (it, tmp, &in->execs) {
        struct run *run = RUN(it);
        if (run->state == GIVING) {
            if (run->pid == pid)
                given(in, run, status);
            continue;
        }
        /* Orphans of a box that is not shared are its one exec's. */
        if (run->pid == pid || !in->shared) {
            run->cpu_us += (ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * INT64_C(1000000) + ru->ru_utime.tv_usec +
                           ru->ru_stime.tv_usec;
            if (ru->ru_maxrss > run->max_rss_kb)
                run->max_rss_kb = ru->ru_maxrss;
        }
        if (run->pid != pid || run->state != RUNNING)
            continue;
        run->wait_status = status;
        run->state = ENDING;
        if (in->shared)
            all_dead(in, run);
        else
            (void)kill(-1, SIGKILL);
    }
}

static void nothing_left(struct bh_init *in)
{
    BH_LIST_FOREACH (it, tmp, &in->execs) {
        if (RUN(it)->state == ENDING)
            all_dead(in, RUN(it));
    }
    if (in->barrier) {
        int error = bh_mount_readonly(in->box, "", true) < 0 ? errno : 0;
        in->readonly = error == 0;
        answer(in, BH_MSG_QUIET, in->barrier, error);
        in->barrier = 0;
    }
}

static void reap(struct bh_init *in)
{
    struct rusage ru;
    int status;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0)
        reaped(in, pid, status, &ru);
    if (pid < 0 && errno == ECHILD)
        nothing_left(in);
}

static bool clearing(const struct bh_init *in)
{
    if (in->barrier)
        return true;
    BH_LIST_FOREACH (it, tmp, &in->execs) {
        if (RUN(it)->state != RUNNING && !in->shared)
            return true;
    }
    return false;
}

/* --- requests --- */

struct staged {
    const struct bh_init *in;
    const struct bh_exec_plan *plan;
    int note_fd;
};

static int stage_in_our_memory(void *arg)
{
    const struct staged *s = arg;
    bh_stage_main(s->in, s->plan, s->note_fd);
}

/*
 * A copy of our memory for somebody who is about to execute something else is a tenth of what a small box costs. The
 * first exec of a box borrows it instead, where nothing has to be copied that could take long: we stand still until it
 * executes. No agent is there yet who could look into us meanwhile.
 */
static pid_t lend_memory(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd)
{
    static char stack[256 << 10] __attribute__((aligned(16)));
    struct staged s = {in, plan, note_fd};
    return clone(stage_in_our_memory, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &s);
}

static pid_t clone_exec(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd)
{
    struct clone_args args = {
        .flags = (in->narrow < 0 ? CLONE_NEWNS : 0) | (in->shared ? CLONE_NEWPID : 0),
        .exit_signal = SIGCHLD,
    };
    if (in->narrow >= 0 && plan->n_copies == 0 && plan->n_empty == 0)
        return lend_memory(in, plan, note_fd);
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        bh_stage_main(in, plan, note_fd);
    return pid;
}

static int start(struct bh_init *in, const struct bh_exec_plan *plan)
{
    int notes[2];
    if (in->readonly && bh_mount_readonly(in->box, "", false) < 0)
        return -1;
    in->readonly = false;
    if (pipe2(notes, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    pid_t pid = clone_exec(in, plan, notes[1]);
    bh_close(notes[1]);
    if (pid < 0) {
        bh_close(notes[0]);
        return -1;
    }
    struct run *run = bh_alloc(sizeof(*run));
    *run = (struct run){.id = plan->id, .flags = plan->flags, .pid = pid, .notes = notes[0]};
    run->narrow = BH_TAKE_FD(in->narrow);
    bh_list_init(&run->link);
    bh_list_append(&in->execs, &run->link);
    if (in->shared && plan->flags & BH_EXEC_TELL_PID)
        answer(in, BH_MSG_STARTED, plan->id, pid);
    return 0;
}

static void on_exec(struct bh_init *in, const void *msg, size_t len, const int *fds, size_t nfds)
{
    const struct bh_msg_exec *head = msg;
    struct bh_exec_plan plan;
    struct bh_msg_report r = {.kind = BH_MSG_ENDED};
    if (len >= sizeof(*head))
        r.id = head->id;
    if (bh_exec_plan_parse(&plan, msg, len, fds, nfds) < 0) {
        not_started(&r, errno, "read the request");
    } else if (start(in, &plan) < 0) {
        not_started(&r, errno, "clone");
    } else {
        bh_exec_plan_fini(&plan);
        return;
    }
    bh_exec_plan_fini(&plan);
    send_report(in, &r, NULL);
}

static void on_kill(struct bh_init *in, const struct bh_msg_ask *ask)
{
    BH_LIST_FOREACH (it, tmp, &in->execs) {
        const struct run *run = RUN(it);
        if (run->id != ask->id || run->state != RUNNING)
            continue;
        if (!in->shared)
            (void)kill(-1, ask->signal);
        else if (ask->signal == SIGKILL)
            (void)kill(run->pid, SIGKILL);
        else
            (void)sigqueue(run->pid, SIGUSR1, (union sigval){.sival_int = ask->signal});
    }
}

static void on_barrier(struct bh_init *in, const struct bh_msg_ask *ask)
{
    if (in->shared) { /* an exec that was reported took its whole namespace with it */
        answer(in, BH_MSG_QUIET, ask->id, 0);
        return;
    }
    in->barrier = ask->id;
    (void)kill(-1, SIGKILL);
    reap(in);
}

static void on_open(struct bh_init *in, const struct bh_msg_ask *ask, size_t len)
{
    const char *text = (const char *)(ask + 1);
    struct bh_unpack u = {text, (const char *)ask + len};
    const char *root = bh_unpack_str(&u), *path = bh_unpack_str(&u);
    struct bh_msg_report r = {.kind = BH_MSG_OPENED, .id = ask->id, .status = EINVAL};
    BH_CLEANUP_FD int fd = bh_unpack_done(&u) ? bh_output_open(in->box, root, path) : -1;
    if (fd >= 0)
        r.status = 0;
    else if (bh_unpack_done(&u))
        r.status = errno;
    send_report(in, &r, fd >= 0 ? &fd : NULL);
}

static void on_ask(struct bh_init *in, const struct bh_msg_ask *ask, size_t len)
{
    switch (ask->kind) {
    case BH_MSG_KILL:
        on_kill(in, ask);
        break;
    case BH_MSG_BARRIER:
        on_barrier(in, ask);
        break;
    case BH_MSG_OPEN:
        on_open(in, ask, len);
        break;
    default:
        break; /* of a later version: the worker would have said so in its hello */
    }
}

static void on_control(struct bh_init *in)
{
    static char msg[BH_PROTO_MAX] __attribute__((aligned(8)));
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    ssize_t n = bh_msg_recv(in->control, msg, sizeof(msg), fds, &nfds);
    if (n <= 0)
        _exit(0); /* the worker is gone: so is the box */
    if ((size_t)n >= sizeof(uint32_t) && *(const uint32_t *)(const void *)msg == BH_MSG_EXEC) {
        on_exec(in, msg, (size_t)n, fds, nfds);
        return;
    }
    for (size_t i = 0; i < nfds; i++)
        bh_close(fds[i]);
    if ((size_t)n >= sizeof(struct bh_msg_ask))
        on_ask(in, (const void *)msg, (size_t)n);
}

BH_NORETURN void bh_box_serve(struct bh_init *in)
{
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        _exit(1);
    for (;;) {
        struct signalfd_siginfo info;
        struct pollfd polled[2] = {{.fd = signals, .events = POLLIN}, {.fd = in->control, .events = POLLIN}};
        if (poll(polled, clearing(in) ? 1 : 2, -1) < 0 && errno != EINTR)
            _exit(1);
        if (polled[0].revents && read(signals, &info, sizeof(info)) > 0)
            reap(in);
        if (polled[1].revents)
            on_control(in);
    }
}
