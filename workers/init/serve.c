/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1 of a box: takes requests, starts execs, reaps everything, reports ends. One poll loop; signals arrive by a
 * signalfd and statuses are collected in one place (reap), so none can be lost to a handler.
 *
 * An exec:   RUNNING --main reaped--> ENDING --all dead--> (GIVING --helper reaped-->) reported
 * In a box that is not shared, ENDING kills everything and no request is read until nothing is left: what is started
 * later is never hit by it. In a shared box the exec's own PID 1 takes its namespace with it: ENDING is passed at once.
 *
 * Warm forks (docs/warm.md) bend it in two places. The boxes of its forks are beneath that of a fork server: once it is
 * ready nothing but itself is killed. A fork is no child of ours: its main process is a pidfd, and the report of its
 * end says that it has ended, not how.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
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
enum warm_state {
    COLD,
    LISTENING, /* it may say that it is a fork server */
    SEALING,   /* it has said so: a child looks whether it is */
    READY,
    FORKING, /* a child asks its fork server */
    FORKED,  /* its pidfd is with the worker, and the child looks at it */
    GOING,   /* the worker has nothing against it; when the child has neither, it tells it what to run and ends */
    FAILED,  /* the report is made */
};

struct run {
    struct bh_list link;
    enum run_state state;
    uint64_t id;
    uint32_t flags;
    bool own;  /* it has a pid namespace of its own */
    pid_t pid; /* of the main process, of the exec's PID 1, or of the helper that gives */
    int notes;
    int narrow; /* its mount namespace, kept so that its end is not waited for before the report; -1: its own alone */
    int wait_status;
    int64_t cpu_us, max_rss_kb;
    enum warm_state warm;
    pid_t sealer;
    int server; /* LISTENING: our end of its socket */
    int fork;   /* pidfd, -1: none */
    struct bh_msg_report report;
};

#define LINGER_MS 1
#define LINGER_MAX 300 /* by then whoever is left is dead, and somebody outside does not take note of it */
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

static void make_report(struct run *run)
{
    struct bh_exec_note note;
    struct bh_msg_report *r = &run->report;
    if (run->warm == FAILED)
        return;
    *r = (struct bh_msg_report){.kind = BH_MSG_ENDED, .id = run->id};
    r->cpu_ms = run->cpu_us / 1000;
    r->max_rss_bytes = run->max_rss_kb * 1024;
    r->ended_us = bh_wall_now().us;
    bool noted = read(run->notes, &note, sizeof(note)) == (ssize_t)sizeof(note);
    r->mount = noted && note.ended ? note.mount : 0;
    if (noted && !note.ended)
        not_started(r, note.fail.error, note.fail.step);
    else if (run->warm >= FORKING)
        from_wait_status(r, 0);
    else
        from_wait_status(r, noted && run->own ? note.wait_status : run->wait_status);
}

static void end_run(struct bh_init *in, struct run *run)
{
    send_report(in, &run->report, NULL);
    bh_list_remove(&run->link);
    bh_close(run->notes);
    if (run->warm >= FORKING && in->known_narrow < 0)
        in->known_narrow = BH_TAKE_FD(run->narrow);
    bh_close(run->narrow);
    bh_close(run->server);
    bh_close(run->fork);
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
    make_report(run);
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

/* --- warm --- */

void bh_orphans_report(struct bh_init *in, uint64_t id, const struct bh_orphan *o)
{
    struct bh_msg_report r = {.kind = BH_MSG_ORPHAN, .id = id};
    from_wait_status(&r, o->status);
    r.cpu_ms = o->cpu_ms;
    r.max_rss_bytes = o->max_rss_bytes;
    send_report(in, &r, NULL);
}

void bh_orphans_refuse(struct bh_init *in, uint64_t id, const struct bh_fail *why)
{
    struct bh_msg_report r = {.kind = BH_MSG_ORPHAN, .id = id};
    not_started(&r, why->error, why->step);
    send_report(in, &r, NULL);
}

void bh_orphans_adopted(struct bh_init *in, uint64_t id)
{
    struct bh_msg_report r = {.kind = BH_MSG_ADOPTED, .id = id};
    send_report(in, &r, NULL);
}

/* What a box that is not shared has run until now is dead soon. */
static void begin_ending(struct run *run)
{
    run->state = ENDING;
    (void)kill(-1, SIGKILL);
}

static void fail_warm(struct run *run, int error, const char *step)
{
    run->report = (struct bh_msg_report){.kind = BH_MSG_ENDED, .id = run->id};
    not_started(&run->report, error, step);
    run->warm = FAILED;
    begin_ending(run);
}

/* Our end goes to the worker, who hands it to those who ask for forks. */
static void say_ready(struct bh_init *in, struct run *run)
{
    char path[64];
    struct bh_msg_report r = {.kind = BH_MSG_WARM, .id = run->id};
    (void)snprintf(path, sizeof(path), BH_AT_BOX "/proc/%d/ns/user", (int)run->pid);
    BH_CLEANUP_FD int user = open(path, O_RDONLY | O_CLOEXEC);
    BH_CLEANUP_FD int pids = open(BH_AT_BOX "/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (user < 0 || pids < 0) {
        fail_warm(run, errno, "open the namespaces of a fork server");
        return;
    }
    const int fds[BH_WARM_FDS] = {run->server, user, pids};
    if (bh_msg_send(in->control, &r, sizeof(r), fds, BH_WARM_FDS) < 0)
        _exit(1);
    bh_close(BH_TAKE_FD(run->server));
    run->warm = READY;
}

static void sealed(struct bh_init *in, struct run *run, int status)
{
    run->sealer = 0;
    if (run->state != RUNNING)
        return;
    if (status == 0)
        say_ready(in, run);
    else
        fail_warm(run, bh_warm_why()->error ? bh_warm_why()->error : EIO, bh_warm_why()->step);
}

/* A command that closes it, or ends without a word, is an ordinary one. */
static void on_server(struct bh_init *in, struct run *run)
{
    char said[64];
    int fds[BH_MSG_MAX_FDS];
    size_t nfds = 0;
    ssize_t n = bh_msg_recv(run->server, said, sizeof(said), fds, &nfds);
    for (size_t i = 0; i < nfds; i++)
        bh_close(fds[i]);
    if (n == 0) {
        bh_close(BH_TAKE_FD(run->server));
        run->warm = COLD;
    } else if (n < 0 || nfds > 0 || !bh_warm_is_ready(said, (size_t)n)) {
        fail_warm(run, EPROTO, "understand what is said on BULKHEAD_WARM_FD");
    } else {
        run->warm = SEALING;
        run->sealer = bh_warm_start_sealing(in, run->narrow, run->pid);
        if (run->sealer < 0)
            fail_warm(run, errno, "be a fork server in this box");
    }
}

static void on_note(struct bh_init *in, struct run *run)
{
    struct bh_exec_note note;
    int fds[BH_MSG_MAX_FDS];
    size_t nfds = 0;
    ssize_t n = bh_msg_recv(run->notes, &note, sizeof(note), fds, &nfds);
    if (n != (ssize_t)sizeof(note) || note.ended != BH_NOTE_FORKED || nfds != 1) {
        bool said = n == (ssize_t)sizeof(note) && !note.ended;
        fail_warm(run, said ? note.fail.error : EPIPE, said ? note.fail.step : "fork the warm process");
        return;
    }
    struct bh_msg_report r = {.kind = BH_MSG_FORKED, .id = run->id};
    run->fork = fds[0];
    run->warm = FORKED;
    send_report(in, &r, &run->fork);
}

static void reap(struct bh_init *in);

static struct run *watched(const struct bh_init *in, int *ret_fd)
{
    BH_LIST_FOREACH (it, tmp, &in->execs) {
        struct run *run = RUN(it);
        *ret_fd = run->state != RUNNING                 ? -1
                  : run->warm == LISTENING              ? run->server
                  : run->warm == FORKING                ? run->notes
                  : run->warm == GOING && run->pid == 0 ? run->fork
                                                        : -1;
        if (*ret_fd >= 0)
            return run;
    }
    *ret_fd = -1;
    return NULL;
}

static void on_watched(struct bh_init *in)
{
    int fd;
    struct run *run = watched(in, &fd);
    if (!run)
        return;
    if (run->warm == LISTENING)
        on_server(in, run);
    else if (run->warm == FORKING)
        on_note(in, run);
    else
        begin_ending(run);
    reap(in);
}

static void on_go(struct bh_init *in, const struct bh_msg_ask *ask)
{
    BH_LIST_FOREACH (it, tmp, &in->execs) {
        struct run *run = RUN(it);
        if (run->id != ask->id || run->warm != FORKED)
            continue;
        run->warm = GOING;
        (void)!write(run->notes, "", 1); /* a child that has ended has left word why */
    }
}

/* Why the child that asked for a fork gave up. The word to go that it has not taken resets its socket, once. */
static bool last_word(const struct run *run, struct bh_exec_note *ret)
{
    int fds[BH_MSG_MAX_FDS];
    size_t nfds = 0;
    ssize_t n = 0;
    do {
        n = bh_msg_recv(run->notes, ret, sizeof(*ret), fds, &nfds);
        for (size_t i = 0; n > 0 && i < nfds; i++)
            bh_close(fds[i]);
    } while (n < 0 ? errno == ECONNRESET : n == (ssize_t)sizeof(*ret) && ret->ended == BH_NOTE_FORKED);
    return n == (ssize_t)sizeof(*ret) && ret->ended == 0;
}

/* The child that has asked for a fork; true: it has told it what to run, and is not the end of anything. One that has
 * said nothing was killed: the worker knows why. */
static bool asker_ended(struct run *run, int status)
{
    struct bh_exec_note note;
    if (run->warm == GOING && status == 0) {
        run->pid = 0;
        return true;
    }
    if (run->warm == FAILED)
        return false;
    bool said = last_word(run, &note);
    fail_warm(run, said ? note.fail.error : ECANCELED, said ? note.fail.step : "fork the warm process");
    return false;
}

static void ended_of(struct bh_init *in, pid_t pid, int status, const struct rusage *ru)
{
    const struct bh_orphan o = {.pid = pid,
                                .status = status,
                                .cpu_ms = (ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * INT64_C(1000) +
                                          (ru->ru_utime.tv_usec + ru->ru_stime.tv_usec) / 1000,
                                .max_rss_bytes = ru->ru_maxrss * INT64_C(1024)};
    if (in->flags & BH_CREATE_WARM)
        bh_orphans_ended(in, &o);
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
        if (run->sealer == pid) {
            sealed(in, run, status);
            continue;
        }
        if (run->warm == READY && run->pid != pid)
            continue; /* a fork, of another box */
        if (run->pid == pid && run->warm >= FORKING && run->state == RUNNING && asker_ended(run, status))
            continue;
        /* Orphans of a box that is not shared are its one exec's. */
        if (run->pid == pid || !run->own) {
            run->cpu_us += (ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * INT64_C(1000000) + ru->ru_utime.tv_usec +
                           ru->ru_stime.tv_usec;
            if (ru->ru_maxrss > run->max_rss_kb)
                run->max_rss_kb = ru->ru_maxrss;
        }
        if (run->pid != pid || run->state != RUNNING)
            continue;
        run->wait_status = status;
        run->state = ENDING;
        if (run->own || run->warm == READY)
            all_dead(in, run);
        else
            (void)kill(-1, SIGKILL);
    }
    ended_of(in, pid, status, ru);
}

static bool clearing(const struct bh_init *in)
{
    if (in->barrier)
        return true;
    BH_LIST_FOREACH (it, tmp, &in->execs) {
        if (RUN(it)->state != RUNNING && !RUN(it)->own)
            return true; /* never of a server that was ready */
    }
    return false;
}

/* Our children are dead; a fork, and whoever has come in from its server's box, is somebody else's. */
static bool others_left(struct bh_init *in)
{
    bool some = in->flags & BH_CREATE_BENEATH && clearing(in) && kill(-1, SIGKILL) == 0;
    in->lingers = some && in->lingers < LINGER_MAX ? in->lingers + 1 : 0;
    return in->lingers > 0;
}

static int make_readonly(const struct bh_init *in)
{
    int error = in->known_narrow >= 0 ? bh_warm_seal(in->known_narrow) : 0;
    return error ? error : bh_mount_readonly(in->box, "", true) < 0 ? errno : 0;
}

static void nothing_left(struct bh_init *in)
{
    if (others_left(in))
        return;
    BH_LIST_FOREACH (it, tmp, &in->execs) {
        if (RUN(it)->state == ENDING)
            all_dead(in, RUN(it));
    }
    if (in->barrier) {
        int error = make_readonly(in);
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
    const bool enters = bh_exec_enters(in, plan);
    struct clone_args args = {
        .flags = (enters ? 0 : CLONE_NEWNS) | (bh_exec_is_own(in, plan) ? CLONE_NEWPID : 0),
        .exit_signal = SIGCHLD,
    };
    if (enters && plan->n_copies == 0 && plan->n_empty == 0 && !(plan->flags & BH_EXEC_WARM))
        return lend_memory(in, plan, note_fd);
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        bh_stage_main(in, plan, note_fd);
    return pid;
}

/* A fork's child answers, and is answered; a server's socket has two ends. */
static int open_channels(struct bh_exec_plan *plan, int notes[2], int server[2])
{
    const bool warm = plan->flags & BH_EXEC_WARM;
    server[0] = -1;
    if (plan->flags & BH_EXEC_WARM_SERVER) {
        if (bh_seqpacket_pair(server, NULL) != 0)
            return -1;
        plan->server = server[1];
    }
    if (warm ? bh_seqpacket_pair(notes, NULL) == 0 : pipe2(notes, O_CLOEXEC | O_NONBLOCK) == 0)
        return 0;
    bh_close(server[0]);
    return -1;
}

static int start(struct bh_init *in, struct bh_exec_plan *plan)
{
    int notes[2], server[2];
    if (in->readonly && bh_mount_readonly(in->box, "", false) < 0)
        return -1;
    in->readonly = false;
    if (open_channels(plan, notes, server) < 0)
        return -1;
    pid_t pid = clone_exec(in, plan, notes[1]);
    bh_close(notes[1]);
    if (pid < 0) {
        bh_close(notes[0]);
        bh_close(server[0]);
        return -1;
    }
    struct run *run = bh_alloc(sizeof(*run));
    *run = (struct run){
        .id = plan->id, .flags = plan->flags, .pid = pid, .notes = notes[0], .server = server[0], .fork = -1};
    run->warm = server[0] >= 0 ? LISTENING : plan->flags & BH_EXEC_WARM ? FORKING : COLD;
    run->own = bh_exec_is_own(in, plan);
    run->narrow = bh_exec_enters(in, plan) ? BH_TAKE_FD(in->narrow) : -1;
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
        if (run->warm == READY)
            (void)kill(run->pid, ask->signal);
        else if (!run->own)
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

static void on_listen(struct bh_init *in, const struct bh_msg_ask *ask)
{
    struct bh_msg_report r = {.kind = BH_MSG_LISTENING, .id = ask->id};
    BH_CLEANUP_FD int fd = in->setup->host_network ? bh_own_net_listen(in, ask->signal) : bh_listen_open(ask->signal);
    r.status = fd < 0 ? errno : 0;
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
    case BH_MSG_GO:
        on_go(in, ask);
        break;
    case BH_MSG_LISTEN:
        on_listen(in, ask);
        break;
    case BH_MSG_ADOPT:
        bh_orphans_adopt(in, ask->id, ask->signal);
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
        explicit_bzero(msg, (size_t)n); /* its environment may hold secrets; the clone has its own copy */
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
        int other;
        (void)watched(in, &other);
        struct pollfd polled[3] = {{.fd = signals, .events = POLLIN},
                                   {.fd = clearing(in) ? -1 : in->control, .events = POLLIN},
                                   {.fd = other, .events = POLLIN}};
        if (poll(polled, BH_ARRAY_LEN(polled), in->lingers ? LINGER_MS : -1) < 0 && errno != EINTR)
            _exit(1);
        if (in->lingers)
            reap(in);
        if (polled[2].revents)
            on_watched(in);
        if (polled[0].revents && read(signals, &info, sizeof(info)) > 0)
            reap(in);
        if (polled[1].revents)
            on_control(in);
    }
}
