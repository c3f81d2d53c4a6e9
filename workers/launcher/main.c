/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead-launcher HOME INIT PARENT [no-cgroup]: started by the worker (box/start.c) with the socket to it as
 * descriptor 3, and perhaps one to be kept open as 4. What cannot be had is not the end of it: it says so in its hello,
 * so that `doctor` can ask for more.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/units.h"
#include "workers/launcher/launcher.h"

#define WORKER 3
#define KEPT 4
/* With fewer some step in the middle of a box would fail, here or in the worker, who has the same limit. */
#define FEWEST_FILES 64

/* Before anything else: from here on we do not outlive the worker. */
static void be_mortal(const char *parent)
{
    int64_t pid;
    if (bh_parse_int(parent, &pid) != 0)
        _exit(1);
    bh_process_die_with((pid_t)pid);
}

static void set_up_process(void)
{
    struct rlimit files;
    sigset_t all;
    (void)close_range(KEPT + 1, ~0U, 0);
    if (fcntl(KEPT, F_GETFD) >= 0)
        (void)bh_fd_set_cloexec(KEPT, true);
    (void)bh_fd_set_cloexec(WORKER, true);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    bh_inherit_little();
    umask(022);
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
}

static int check_files(struct bh_launcher *l)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FEWEST_FILES)
        return bh_fail(&l->fail, EMFILE, "have %d files open at once", FEWEST_FILES);
    return 0;
}

static int set_up_boxes(struct bh_launcher *l, const char *home)
{
    l->filter = bh_filter_make(false, &l->fail);
    l->server_filter = l->filter < 0 ? -1 : bh_filter_make(true, &l->fail);
    if (l->server_filter < 0 || check_files(l) < 0 || bh_ids_enter(l) < 0 || bh_tree_enter(l, home) < 0)
        return -1;
    if (bh_probe_all(l) < 0)
        return -1;
    bh_groups_fall_back(l);
    (void)prctl(PR_SET_DUMPABLE, 0); /* not earlier: our own maps had to be written */
    return bh_pool_start(l);
}

static void say_hello(const struct bh_launcher *l)
{
    struct bh_msg_hello msg = {.kind = BH_MSG_HELLO, .version = BH_PROTO_VERSION, .mode = l->mode};
    int tops[BH_CGROUP_PARTS];
    msg.first_id = l->first_id;
    msg.pid = getpid();
    msg.error = l->fail.error;
    bh_step_set(msg.step, l->fail.step);
    msg.box_flags = l->box_flags;
    msg.cgroup_kind = l->cgroup.kind;
    msg.cgroup_can = l->cgroup.can;
    memcpy(msg.cgroup_name, l->cgroup.name, sizeof(msg.cgroup_name));
    memcpy(msg.cgroup_found, l->cgroup.found, sizeof(msg.cgroup_found));
    memcpy(msg.cgroup_remedy, l->cgroup.remedy, sizeof(msg.cgroup_remedy));
    size_t n = bh_cgroup_tops(&l->cgroup, tops);
    if (bh_msg_send(l->worker, &msg, sizeof(msg), tops, n) < 0)
        _exit(1);
}

/* The worker has let go of us: everything that we have made dies with us. Killed, we leave the groups to be reclaimed.
 */
BH_NORETURN static void end_with_all(struct bh_launcher *l)
{
    bh_cgroup_end(&l->cgroup);
    _exit(0);
}

static void on_worker(struct bh_launcher *l)
{
    static char msg[BH_PROTO_MAX] __attribute__((aligned(8)));
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    ssize_t n = bh_msg_recv(l->worker, msg, sizeof(msg), fds, &nfds);
    if (n <= 0)
        end_with_all(l);
    uint32_t kind = (size_t)n >= sizeof(kind) ? *(const uint32_t *)(const void *)msg : 0;
    if (kind == BH_MSG_HELLO)
        say_hello(l);
    else if (kind == BH_MSG_CREATE)
        bh_create(l, msg, (size_t)n, fds, nfds);
    else if (kind == BH_MSG_GROUP && (size_t)n == sizeof(struct bh_msg_group))
        bh_groups_answer(l, (const void *)msg);
    else if (kind == BH_MSG_UNPACK)
        bh_unpack_start(l, msg, (size_t)n, fds, nfds);
    else if (kind == BH_MSG_PROBE)
        bh_probe(l);
    for (size_t i = 0; i < nfds; i++)
        bh_close(fds[i]);
}

/* Boxes and shells are watched by whoever holds their pidfd; here they are only taken off the process table. */
static void on_signal(const struct bh_launcher *l)
{
    struct signalfd_siginfo info;
    (void)!read(l->signals, &info, sizeof(info));
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void serve(struct bh_launcher *l)
{
    for (;;) {
        struct pollfd polled[] = {
            {.fd = l->worker, .events = POLLIN},
            {.fd = l->signals, .events = POLLIN},
            {.fd = l->spawner, .events = POLLIN},
        };
        if (poll(polled, BH_ARRAY_LEN(polled), -1) < 0 && errno != EINTR)
            _exit(1);
        if (polled[1].revents)
            on_signal(l);
        if (polled[2].revents)
            (void)bh_pool_on_spawner(l);
        if (polled[0].revents)
            on_worker(l);
    }
}

int main(int argc, char **argv)
{
    struct bh_launcher l = {
        .program = argv[0], .worker = WORKER, .spawner = -1, .home = -1, .filter = -1, .server_filter = -1};
    l.host_spawner = -1;
    struct stat st;
    if (argc < 4 || argc > 5 || fstat(WORKER, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        fputs("bulkhead-launcher: started by bulkhead only\n", stderr);
        return 2;
    }
    be_mortal(argv[3]);
    set_up_process();
    bh_groups_start(&l, argc == 5);
    l.home_path = argv[1];
    l.home = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    l.init = open(argv[2], O_RDONLY | O_CLOEXEC);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    l.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l.init < 0)
        (void)bh_fail(&l.fail, errno, "open '%s'", argv[2]);
    else if (set_up_boxes(&l, argv[1]) == 0)
        l.fail = (struct bh_fail){0};
    if (l.fail.error)
        l.mode = BH_IDS_NONE;
    bh_pool_refill(&l);
    serve(&l);
}
