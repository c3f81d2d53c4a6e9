/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of all kinds: signals, a dead init, a dead launcher, a dead worker, and nothing left over. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

static void start_sh(struct kit_box *b, struct kit_exec *e, const char *text)
{
    const char *argv[] = {"/bin/sh", "-c", text, NULL};
    *e = (struct kit_exec){.spec.argv = argv};
    kit_start(b, e);
    e->spec.argv = NULL;
}

/* Waits until it has said something. */
static void wait_for_output(struct kit_exec *e)
{
    char c;
    T_INT(read(e->out_fd, &c, 1), 1);
}

static void check_alone(struct kit_box *b)
{
    struct kit_exec e;
    kit_sh(b, &e, KIT_PS);
    T_STR(e.out.data, KIT_PS_ALONE);
    kit_exec_fini(&e);
}

/* --- signals --- */

static const char *const stubborn = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000' & setsid sleep 1000 &); "
                                    "echo ready; while :; do sleep 1000; done";

static void term_then_kill(void **state)
{
    bool shared = *state != NULL;
    struct kit_box b;
    struct kit_exec e, other;
    T_INT(kit_create(&kit, &b, &(struct kit_how){.shared = shared}), 0);
    if (shared) {
        start_sh(&b, &other, "echo ready; sleep 1000; exit 3");
        wait_for_output(&other);
    }
    start_sh(&b, &e, stubborn);
    wait_for_output(&e);
    kit.boxes->ops->kill(e.exec, SIGTERM); /* ends the sleeps, not who ignores it */
    T_TRUE(!e.done);
    kit.boxes->ops->kill(e.exec, SIGKILL);
    kit_finish(&b, &e);
    T_INT(e.result.end, BH_EXEC_SIGNALED);
    T_INT(e.result.status, SIGKILL);
    kit_exec_fini(&e);
    check_alone(&b);
    if (shared) { /* the neighbour noticed nothing */
        T_TRUE(!other.done);
        kit.boxes->ops->kill(other.exec, SIGTERM);
        kit_finish(&b, &other);
        T_INT(other.result.end, BH_EXEC_SIGNALED);
        T_INT(other.result.status, SIGTERM);
        kit_exec_fini(&other);
    }
    T_INT(kit_destroy(&b, false), 0);
}

static void a_signal_reaches_who_handles_it(void **state)
{
    bool shared = *state != NULL;
    struct kit_box b;
    struct kit_exec e;
    T_INT(kit_create(&kit, &b, &(struct kit_how){.shared = shared}), 0);
    start_sh(&b, &e, "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.01; done");
    wait_for_output(&e);
    kit.boxes->ops->kill(e.exec, SIGTERM);
    kit_finish(&b, &e);
    T_INT(e.result.end, BH_EXEC_EXITED);
    T_INT(e.result.status, 5);
    T_TRUE(strstr(e.out.data, "got it"));
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

static void a_stopped_tree_dies_too(void **state)
{
    bool shared = *state != NULL;
    struct kit_box b;
    struct kit_exec e;
    T_INT(kit_create(&kit, &b, &(struct kit_how){.shared = shared}), 0);
    start_sh(&b, &e, "i=0; while [ $i -lt 30 ]; do setsid sleep 1000 & i=$((i+1)); done; echo ready; kill -STOP $$");
    wait_for_output(&e);
    kit.boxes->ops->kill(e.exec, SIGKILL);
    kit_finish(&b, &e);
    T_INT(e.result.end, BH_EXEC_SIGNALED);
    kit_exec_fini(&e);
    check_alone(&b);
    T_INT(kit_destroy(&b, false), 0);
}

static void destroy_ends_what_runs(void **state)
{
    bool shared = *state != NULL;
    struct kit_box b;
    struct kit_exec e;
    T_INT(kit_create(&kit, &b, &(struct kit_how){.shared = shared}), 0);
    start_sh(&b, &e, stubborn);
    wait_for_output(&e);
    int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)kit_init_pid(&b), 0);
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    T_INT(kit_destroy(&b, false), 0);
    T_TRUE(e.done);
    T_INT(e.calls, 1);
    T_INT(e.result.end, BH_EXEC_BOX_LOST);
    T_INT(poll(&polled, 1, 0), 1); /* init, and so every process of its namespace, is gone */
    T_INT(b.lost_calls, 0);
    bh_close(pidfd);
    bh_close(e.out_fd);
    bh_close(e.err_fd);
    kit_exec_fini(&e);
}

/* --- deaths that nobody asked for --- */

static void a_dead_init_is_a_lost_box(void **state)
{
    struct kit_box b;
    struct kit_exec e;
    int error = 0;
    (void)state;
    T_INT(kit_create(&kit, &b, NULL), 0);
    start_sh(&b, &e, "echo ready; sleep 1000");
    wait_for_output(&e);
    T_INT(kill((pid_t)kit_init_pid(&b), SIGKILL), 0);
    kit_wait(&kit, &b.lost);
    T_TRUE(e.done);
    T_INT(e.calls, 1);
    T_INT(e.result.end, BH_EXEC_BOX_LOST);
    bh_close(e.out_fd);
    bh_close(e.err_fd);
    kit_exec_fini(&e);
    /* everything else is answered, from the loop */
    kit_sh(&b, &e, "exit 0");
    T_INT(e.result.end, BH_EXEC_BOX_LOST);
    kit_exec_fini(&e);
    T_INT(kit_barrier(&b), -BH_E_HOST);
    T_INT(kit_open_output(&b, "out", "x", &error), -1);
    T_INT(error, EPIPE);
    T_INT(kit_destroy(&b, false), 0);
    T_INT(b.lost_calls, 1);
}

static void errors_of_create_are_named(void **state)
{
    struct kit_box b, twin;
    (void)state;
    T_INT(kit_create(&kit, &b, &(struct kit_how){.layer = "no-such-layer"}), -BH_E_NOT_FOUND);
    T_TRUE(strstr(b.message, "'no-such-layer'"));
    kit_forget(&b);
    T_INT(kit_create(&kit, &b, NULL), 0);
    kit.serial--; /* the same key again */
    T_INT(kit_create(&kit, &twin, NULL), -BH_E_EXISTS);
    kit_forget(&twin);
    T_INT(kit_destroy(&b, false), 0);
}

static bool is_dead(int pidfd)
{
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    return poll(&polled, 1, 20000) == 1;
}

static void a_dead_launcher_takes_all_with_it(void **state)
{
    struct kit_box b[3];
    struct kit_exec e[3];
    int pidfds[3];
    struct bh_err *err = NULL;
    (void)state;
    for (int i = 0; i < 3; i++) {
        T_INT(kit_create(&kit, &b[i], &(struct kit_how){.shared = i == 2}), 0);
        start_sh(&b[i], &e[i], stubborn);
        wait_for_output(&e[i]);
        pidfds[i] = (int)syscall(SYS_pidfd_open, (pid_t)kit_init_pid(&b[i]), 0);
    }
    T_INT(kill((pid_t)kit.launcher, SIGKILL), 0);
    for (int i = 0; i < 3; i++) {
        kit_wait(&kit, &b[i].lost);
        T_TRUE(is_dead(pidfds[i]));
        T_INT(e[i].result.end, BH_EXEC_BOX_LOST);
        T_INT(kit_destroy(&b[i], false), 0);
        bh_close(pidfds[i]);
        bh_close(e[i].out_fd);
        bh_close(e[i].err_fd);
        kit_exec_fini(&e[i]);
    }
    T_INT(kit_create(&kit, &b[0], NULL), -BH_E_HOST);
    T_TRUE(strstr(b[0].message, "launcher"));
    kit_forget(&b[0]);
    kit_close(&kit);
    T_INT(kit_reopen(&kit, &err), 0);
    T_INT(kit_create(&kit, &b[0], NULL), 0);
    T_INT(kit_destroy(&b[0], false), 0);
}

/* A worker of its own, in a process of its own: `boxes_life worker HOME`, ready when it has said its pids on stdout. */
static int be_a_worker(const char *home)
{
    static struct kit own;
    struct bh_err *err = NULL;
    struct kit_box b, shared;
    struct kit_exec e, f;
    char text[64];
    own = (struct kit){.home = bh_strdup(home), .run_dir = bh_asprintf("%s/runs/r2", home)};
    if (bh_mkdir_p(own.run_dir, 0700, &err) != 0 || kit_reopen(&own, &err) != 0)
        _exit(1);
    if (kit_create(&own, &b, NULL) != 0 || kit_create(&own, &shared, &(struct kit_how){.shared = true}) != 0)
        _exit(1);
    start_sh(&b, &e, stubborn);
    start_sh(&shared, &f, stubborn);
    wait_for_output(&e);
    wait_for_output(&f);
    int n = snprintf(text, sizeof(text), "%lld %lld %lld\n", (long long)own.launcher, (long long)kit_init_pid(&b),
                     (long long)kit_init_pid(&shared));
    if (write(1, text, (size_t)n) != n)
        _exit(1);
    for (;;)
        (void)pause();
}

/* Not by fork alone: this process has threads. */
static pid_t start_worker(const char *home, int out)
{
    char *argv[] = {(char *)"boxes_life", (char *)"worker", (char *)(uintptr_t)home, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    T_INT(posix_spawn_file_actions_init(&actions), 0);
    T_INT(posix_spawn_file_actions_adddup2(&actions, out, 1), 0);
    T_INT(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    T_INT(posix_spawn_file_actions_destroy(&actions), 0);
    return pid;
}

static int count_entries(const char *dir, const char *name)
{
    BH_CLEANUP_FREE char *path = bh_path_join(dir, name);
    DIR *d = opendir(path);
    int n = 0;
    T_TRUE(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    (void)closedir(d);
    return n;
}

static void a_dead_worker_leaves_nothing(void **state)
{
    char text[64] = "";
    long long pids[3];
    int fds[2], pidfds[3];
    (void)state;
    T_INT(pipe2(fds, O_CLOEXEC), 0);
    pid_t worker = start_worker(kit.home, fds[1]);
    bh_close(fds[1]);
    T_TRUE(read(fds[0], text, sizeof(text) - 1) > 0);
    bh_close(fds[0]);
    T_INT(sscanf(text, "%lld %lld %lld", &pids[0], &pids[1], &pids[2]), 3);
    for (int i = 0; i < 3; i++)
        pidfds[i] = (int)syscall(SYS_pidfd_open, (pid_t)pids[i], 0);
    T_INT(kill(worker, SIGKILL), 0);
    T_INT(waitpid(worker, NULL, 0), worker);
    BH_CLEANUP_FREE char *run = bh_asprintf("%s/runs/r2", kit.home);
    T_TRUE(count_entries(run, "boxes") >= 2); /* the journal of what to clear up */
    T_OK(bh_boxes_reclaim(run, NULL, 0, &err));
    for (int i = 0; i < 3; i++) {
        T_TRUE(is_dead(pidfds[i]));
        bh_close(pidfds[i]);
    }
    T_INT(count_entries(run, "boxes"), 0);
    T_OK(bh_boxes_reclaim(run, NULL, 0, &err));
    T_INT(bh_rmtree_at(AT_FDCWD, run), 0);
}

/* --- leftovers --- */

static int64_t lines_of(const char *path)
{
    struct bh_buf text = BH_BUF_INIT;
    int64_t n = 0;
    T_OK(bh_read_file(path, 4 << 20, &text, &err));
    for (size_t i = 0; i < text.len; i++)
        n += text.data[i] == '\n';
    bh_buf_fini(&text);
    return n;
}

static void box_with_everything(int i)
{
    struct kit_box b;
    struct kit_exec e;
    T_INT(kit_create(&kit, &b, &(struct kit_how){.shared = i % 3 == 0, .writable_usr = i % 5 == 0}), 0);
    if (i % 2 == 0) {
        kit_sh(&b, &e, "echo x > out/f");
        T_INT(e.result.status, 0);
        kit_exec_fini(&e);
    }
    T_INT(kit_destroy(&b, false), 0);
}

static void two_hundred_boxes_leave_nothing(void **state)
{
    (void)state;
    box_with_everything(0); /* what is made once is made */
    box_with_everything(1);
    kit_close(&kit); /* folders are removed on a thread: close waits for it */
    T_OK(kit_reopen(&kit, &err));
    int64_t mounts = lines_of("/proc/self/mountinfo"), fds = count_entries("/proc/self", "fd");
    for (int i = 0; i < 200; i++)
        box_with_everything(i);
    T_INT(lines_of("/proc/self/mountinfo"), mounts);
    kit_close(&kit);
    T_INT(count_entries(kit.run_dir, "boxes"), 0);
    T_OK(kit_reopen(&kit, &err));
    T_INT(count_entries("/proc/self", "fd"), fds);
}

/* Its own mount table and descriptors do not grow either, and it stays what the design says that it is. */
static void launcher_stays_small(void **state)
{
    char path[64];
    struct bh_buf maps = BH_BUF_INIT;
    static const char *const unwanted[] = {"nng", "libevent", "sqlite", "libpq", "jansson", "libcrypto", "msgpack"};
    (void)state;
    for (int i = 0; i < 20; i++) /* until it keeps all the control groups that it will */
        box_with_everything(i);
    (void)snprintf(path, sizeof(path), "/proc/%lld", (long long)kit.launcher);
    BH_CLEANUP_FREE char *mountinfo = bh_path_join(path, "mountinfo");
    BH_CLEANUP_FREE char *maps_path = bh_path_join(path, "maps");
    T_INT(count_entries(path, "task"), 1);
    if (geteuid() == 0 && getenv("BH_MODE") && strcmp(getenv("BH_MODE"), "root") == 0) { /* it is not dumpable */
        int64_t mounts = lines_of(mountinfo);
        int before = count_entries(path, "fd");
        T_TRUE(mounts < 20);
        for (int i = 0; i < 40; i++)
            box_with_everything(i);
        T_INT(lines_of(mountinfo), mounts);
        int after = count_entries(path, "fd");
        if (after > before + 4 + 24) /* shells in the pool, two descriptors each; eight groups, three each */
            fail_msg("%d descriptors became %d", before, after);
        T_OK(bh_read_file(maps_path, 1 << 20, &maps, &err));
        for (size_t i = 0; i < BH_ARRAY_LEN(unwanted); i++)
            T_TRUE(!strstr(maps.data, unwanted[i]));
        bh_buf_fini(&maps);
    }
}

static void probes_say_what_works(void **state)
{
    struct bh_box_probe *p = NULL;
    size_t n = 0;
    int sock;
    int64_t pid;
    (void)state;
    T_OK(bh_launcher_start(kit.home, -1, &sock, &pid, &err));
    T_OK(bh_boxes_probe(sock, &p, &n, &err));
    T_TRUE(n >= 10);
    for (size_t i = 0; i < n; i++) {
        if (p[i].required && !p[i].ok)
            fail_msg("%s: %s", p[i].name, p[i].found);
        T_TRUE(p[i].found && p[i].effect && p[i].remedy);
    }
    T_STR(p[0].name, "user namespace");
    T_STR(p[0].found, "works");
    bh_box_probes_free(p, n);
    bh_close(sock);
    T_INT(waitpid((pid_t)pid, NULL, 0), pid);
    BH_CLEANUP_FREE char *left = bh_path_join(kit.home, "probe");
    T_TRUE(access(left, F_OK) < 0);
}

/* A descriptor that the launcher is to keep, it keeps: a lock is held until it too is gone. */
static void launcher_keeps_a_lock(void **state)
{
    int sock, fds[2];
    int64_t pid;
    char c;
    (void)state;
    T_INT(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    T_OK(bh_launcher_start(kit.home, fds[1], &sock, &pid, &err));
    bh_close(fds[1]);
    T_TRUE(read(fds[0], &c, 1) < 0 && errno == EAGAIN); /* somebody holds the other end */
    bh_close(sock);
    T_INT(waitpid((pid_t)pid, NULL, 0), pid);
    struct pollfd polled = {.fd = fds[0], .events = POLLIN};
    T_INT(poll(&polled, 1, 20000), 1);
    T_INT(read(fds[0], &c, 1), 0); /* and nobody does now, no box and no shell either */
    bh_close(fds[0]);
}

#define BOTH(fn) cmocka_unit_test_prestate(fn, NULL), cmocka_unit_test_prestate(fn, (void *)"shared")

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "worker") == 0)
        return be_a_worker(argv[2]);
    const struct CMUnitTest tests[] = {
        BOTH(term_then_kill),
        BOTH(a_signal_reaches_who_handles_it),
        BOTH(a_stopped_tree_dies_too),
        BOTH(destroy_ends_what_runs),
        cmocka_unit_test(a_dead_init_is_a_lost_box),
        cmocka_unit_test(errors_of_create_are_named),
        cmocka_unit_test(a_dead_launcher_takes_all_with_it),
        cmocka_unit_test(a_dead_worker_leaves_nothing),
        cmocka_unit_test(two_hundred_boxes_leave_nothing),
        cmocka_unit_test(launcher_stays_small),
        cmocka_unit_test(probes_say_what_works),
        cmocka_unit_test(launcher_keeps_a_lock),
    };
    KIT_MAIN(tests);
}
