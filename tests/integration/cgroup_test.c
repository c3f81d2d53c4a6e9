/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups as they are on this machine, v1 or v2, without any box: libc alone, so that it also runs as the only
 * program of a small virtual machine. Skips where none can be had.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/t.h"
#include "workers/cgroup/priv.h"

#define MIB (1 << 20)

static struct bh_cgroup cg;
static char id[48];

static int begin(void **state)
{
    static unsigned serial;
    const pid_t family[] = {getpid(), 0};
    char text[400];
    (void)state;
    (void)snprintf(id, sizeof(id), "%d-test%u", (int)getpid(), ++serial);
    bh_cgroup_begin(&cg, id, family, false);
    bh_cgroup_describe(&cg, text, sizeof(text));
    if (serial == 1)
        printf("# %s%s%s\n", text, cg.remedy[0] ? "; " : "", cg.remedy);
    return 0;
}

static int end(void **state)
{
    (void)state;
    bh_cgroup_end(&cg);
    return 0;
}

static void need(enum bh_cgroup_part part)
{
    if (cg.kind == BH_CGROUP_NONE || (part < BH_CGROUP_FREEZER && !bh_cgroup_can(&cg, part)))
        t_skip("cgroup", cg.found);
}

/* A child in a group, as the launcher does it; it runs fn and exits with what that gives. */
static pid_t start_in(const char *group, int (*fn)(void))
{
    int fds[BH_CGROUP_PARTS];
    bool into;
    int n = bh_cgroup_make(&cg, group, fds, &into);
    assert_true(n > 0);
    struct clone_args args = {.exit_signal = SIGCHLD};
    if (into) {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)(unsigned)fds[0];
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        for (int i = 0; i < n && !into; i++) {
            if (write(fds[i], "0", 1) != 1)
                _exit(99);
        }
        bh_cgroup_close(&cg); /* the lock is nobody's but its owner's */
        _exit(fn());
    }
    assert_true(pid > 0);
    for (int i = 0; i < n; i++)
        bh_close(fds[i]);
    return pid;
}

static int status_of(pid_t pid)
{
    int status = 0;
    T_INT(waitpid(pid, &status, 0), pid);
    return status;
}

static bool there(const char *group)
{
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++) {
        if (cg.dirs[i] >= 0 && faccessat(cg.dirs[i], group, F_OK, 0) == 0)
            return true;
    }
    return false;
}

/* What is killed leaves its group a moment after it was reaped. */
static void removed(const char *group)
{
    for (int i = 0; i < 500 && bh_cgroup_remove(&cg, group) < 0; i++) {
        T_INT(errno, EBUSY);
        (void)poll(NULL, 0, 2);
    }
    assert_false(there(group));
}

/* --- what children do --- */

static int do_eat(void)
{
    for (size_t i = 0; i < 256; i++) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return 1;
        memset(p, 1, MIB);
    }
    return 0;
}

static int do_wait(void)
{
    while (pause() < 0)
        ;
    return 0;
}

/* Gives how many children it could have, and leaves none. */
static int do_fork(void)
{
    int n = 0;
    for (; n < 100; n++) {
        pid_t pid = fork();
        if (pid == 0)
            (void)do_wait();
        if (pid < 0)
            break;
    }
    (void)signal(SIGTERM, SIG_IGN);
    (void)kill(0, SIGTERM);
    while (wait(NULL) > 0)
        ;
    return n;
}

static int do_fork_alone(void)
{
    (void)setsid();
    return do_fork();
}

static int64_t cpu_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t wall_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Percent of a processor that it got in a second. */
static int do_spin(void)
{
    int64_t end = wall_ms() + 1000;
    while (wall_ms() < end)
        ;
    return (int)(cpu_ms() / 10);
}

static int do_spin_for_ever(void)
{
    volatile bool go = true;
    while (go)
        ;
    return 0;
}

/* --- */

static void a_child_is_in_its_group(void **state)
{
    (void)state;
    need(BH_CGROUP_FREEZER);
    pid_t pid = start_in("b1", do_wait);
    char path[64], text[4096], want[160];
    (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    (void)snprintf(want, sizeof(want), "/" BH_CGROUP_TOP "/%s/b1\n", cg.name);
    BH_CLEANUP_FD int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 500; i++) { /* with v1 it joins by itself */
        assert_true(bh_cgroup_read(proc, ".", "cgroup", text, sizeof(text)) > 0);
        if (strstr(text, want))
            break;
        (void)poll(NULL, 0, 2);
    }
    assert_non_null(strstr(text, want));
    T_INT(bh_cgroup_remove(&cg, "b1"), -1);
    T_INT(errno, EBUSY);
    bh_cgroup_kill(&cg, "b1");
    T_TRUE(WIFSIGNALED(status_of(pid)));
    removed("b1");
    T_INT(bh_cgroup_remove(&cg, "b1"), 0); /* gone already */
}

static void memory_ends_where_it_was_limited(void **state)
{
    const struct bh_cgroup_limits limits = {.memory = 32 * MIB};
    (void)state;
    need(BH_CGROUP_MEMORY);
    int fds[BH_CGROUP_PARTS];
    bool into;
    int n = bh_cgroup_make(&cg, "none", fds, &into);
    for (int i = 0; i < n; i++)
        bh_close(fds[i]);
    T_INT(bh_cgroup_events(&cg, "none").oom_kills, 0);
    removed("none");
    pid_t pid = start_in("b2", do_eat);
    T_INT(bh_cgroup_limit(&cg, "b2", &limits), 0);
    int status = status_of(pid);
    /* Where it was faster than the limit, the limit has still killed it or could not be set: both are seen. */
    T_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    T_INT(bh_cgroup_events(&cg, "b2").oom_kills, 1);
    removed("b2");
    T_INT(bh_cgroup_events(&cg, "b2").oom_kills, -1);
}

static void processes_are_counted_exactly(void **state)
{
    const struct bh_cgroup_limits limits = {.pids = 10};
    (void)state;
    need(BH_CGROUP_PIDS);
    /* Limited before the one who forks is in it. */
    int fds[BH_CGROUP_PARTS];
    int n = bh_cgroup_make_exec(&cg, "b3", fds);
    T_TRUE(n > 0);
    T_INT(bh_cgroup_limit(&cg, "b3", &limits), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < n; i++) {
            if (write(fds[i], "0", 1) != 1)
                _exit(99);
        }
        _exit(do_fork_alone());
    }
    for (int i = 0; i < n; i++)
        bh_close(fds[i]);
    T_INT(WEXITSTATUS(status_of(pid)), 9);
    T_TRUE(bh_cgroup_events(&cg, "b3").pids_hits > 0);
    removed("b3");
}

static void a_quarter_of_a_processor_is_no_more(void **state)
{
    const struct bh_cgroup_limits limits = {.cpus = 250};
    (void)state;
    need(BH_CGROUP_CPU);
    pid_t pid = start_in("b4", do_spin);
    T_INT(bh_cgroup_limit(&cg, "b4", &limits), 0);
    int percent = WEXITSTATUS(status_of(pid));
    printf("# %d %% of a processor\n", percent);
    T_TRUE(percent <= 40);
    removed("b4");
}

static void a_limit_that_cannot_be_set_is_told(void **state)
{
    const struct bh_cgroup_limits limits = {.memory = MIB, .pids = 3};
    (void)state;
    need(BH_CGROUP_FREEZER);
    T_INT(bh_cgroup_limit(&cg, "nosuch", &limits), BH_CGROUP_BIT(BH_CGROUP_MEMORY) | BH_CGROUP_BIT(BH_CGROUP_PIDS));
    T_INT(errno, ENOENT);
}

static int64_t ticks_of(pid_t pid)
{
    char path[64], text[1024];
    unsigned long utime = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    const char *at = strrchr(text, ')');
    if (at)
        (void)sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", &utime);
    return (int64_t)utime;
}

static void frozen_stands_still_and_can_still_be_killed(void **state)
{
    (void)state;
    need(BH_CGROUP_FREEZER);
    if (cg.kind == BH_CGROUP_V1 && cg.dirs[BH_CGROUP_FREEZER] < 0)
        t_skip("freezer", "no freezer hierarchy");
    pid_t pid = start_in("b5", do_spin_for_ever);
    while (ticks_of(pid) < 2)
        (void)poll(NULL, 0, 5);
    T_INT(bh_cgroup_freeze(&cg, "b5", true), 0);
    int64_t before = ticks_of(pid);
    (void)poll(NULL, 0, 100);
    T_INT(ticks_of(pid), before);
    T_INT(bh_cgroup_freeze(&cg, "b5", false), 0);
    while (ticks_of(pid) == before)
        (void)poll(NULL, 0, 5);
    T_INT(bh_cgroup_freeze(&cg, "b5", true), 0);
    bh_cgroup_kill(&cg, "b5");
    T_TRUE(WIFSIGNALED(status_of(pid)));
    removed("b5");
}

/* A number that is another's by now: it is not put into the box's freezer, and if it was, it goes out again. */
static void a_stranger_is_not_frozen(void **state)
{
    (void)state;
    need(BH_CGROUP_FREEZER);
    if (cg.kind != BH_CGROUP_V1 || cg.dirs[BH_CGROUP_FREEZER] < 0)
        t_skip("freezer-v1", "no freezer hierarchy of v1");
    pid_t pid = start_in("b5", do_spin_for_ever), stranger = fork();
    if (stranger == 0) {
        bh_cgroup_close(&cg);
        _exit(do_spin_for_ever());
    }
    while (ticks_of(pid) < 2 || ticks_of(stranger) < 2)
        (void)poll(NULL, 0, 5);
    T_INT(mkdirat(cg.dirs[BH_CGROUP_FREEZER], "b5", 0755) == 0 || errno == EEXIST, 1);
    T_INT(bh_cgroup_gather(&cg, "b5", stranger), 0);
    T_INT(bh_cgroup_gather(&cg, "b5", pid), 1);
    T_INT(bh_cgroup_gather(&cg, "b5", pid), 0);
    T_INT(bh_cgroup_write_number(cg.dirs[BH_CGROUP_FREEZER], "b5", "cgroup.procs", stranger), 0);
    bh_cgroup_put_back(&cg, "b5", stranger);
    bh_cgroup_put_back(&cg, "b5", pid);
    T_INT(bh_cgroup_freeze(&cg, "b5", true), 0);
    int64_t before = ticks_of(pid), other = ticks_of(stranger);
    while (ticks_of(stranger) < other + 2)
        (void)poll(NULL, 0, 5);
    T_INT(ticks_of(pid), before);
    (void)kill(stranger, SIGKILL);
    bh_cgroup_kill(&cg, "b5");
    T_TRUE(WIFSIGNALED(status_of(pid)) && WIFSIGNALED(status_of(stranger)));
    removed("b5");
}

static void groups_in_a_shared_one_have_limits_of_their_own(void **state)
{
    const struct bh_cgroup_limits outer = {.memory = 512 * MIB}, inner = {.memory = 24 * MIB, .pids = 5};
    (void)state;
    need(BH_CGROUP_MEMORY);
    pid_t init = start_in("b6", do_wait);
    T_INT(bh_cgroup_limit(&cg, "b6", &outer), 0);
    T_INT(bh_cgroup_share(&cg, "b6", init), 0);
    int fds[BH_CGROUP_PARTS], n = bh_cgroup_make_exec(&cg, "b6/e1", fds);
    T_TRUE(n > 0);
    T_INT(bh_cgroup_limit(&cg, "b6/e1", &inner) & cg.can, 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < n; i++) {
            if (write(fds[i], "0", 1) != 1)
                _exit(99);
        }
        _exit(do_eat());
    }
    for (int i = 0; i < n; i++)
        bh_close(fds[i]);
    T_TRUE(WIFSIGNALED(status_of(pid)));
    T_INT(bh_cgroup_events(&cg, "b6/e1").oom_kills, 1);
    T_INT(waitpid(init, NULL, WNOHANG), 0); /* lives */
    bh_cgroup_kill(&cg, "b6");
    T_TRUE(WIFSIGNALED(status_of(init)));
    removed("b6");
}

/* A launcher that is killed holds its lock no more. */
static void what_a_dead_owner_left_is_reclaimed(void **state)
{
    int ready[2];
    char name[64] = "";
    (void)state;
    need(BH_CGROUP_FREEZER);
    T_INT(pipe2(ready, O_CLOEXEC), 0);
    pid_t owner = fork();
    if (owner == 0) {
        const pid_t family[] = {getpid(), getppid(), 0};
        struct bh_cgroup own;
        bh_cgroup_begin(&own, "dead-owner", family, false);
        cg = own;
        pid_t pid = own.kind == BH_CGROUP_NONE ? 0 : start_in("b1", do_spin_for_ever);
        while (pid > 0 && ticks_of(pid) < 2) /* it has let go of the lock */
            (void)poll(NULL, 0, 5);
        if (pid > 0 && bh_cgroup_freeze(&own, "b1", true) < 0)
            name[0] = '?';
        (void)!write(ready[1], own.name, sizeof(name));
        (void)do_wait();
    }
    T_INT(read(ready[0], name, sizeof(name)), sizeof(name));
    bh_close(ready[0]);
    bh_close(ready[1]);
    T_TRUE(strncmp(name, "l-dead-owner", 12) == 0);
    int top = cg.tops[cg.kind == BH_CGROUP_V2 || cg.tops[BH_CGROUP_MEMORY] >= 0 ? 0 : BH_CGROUP_CPU];
    (void)bh_cgroup_reclaim(NULL); /* it lives: not touched */
    T_INT(faccessat(top, name, F_OK, 0), 0);
    T_INT(kill(owner, SIGKILL), 0);
    (void)status_of(owner);
    for (int i = 0; i < 100 && faccessat(top, name, F_OK, 0) == 0; i++) { /* some run's start may be at it as well */
        (void)bh_cgroup_reclaim(NULL);
        (void)poll(NULL, 0, 10);
    }
    T_INT(faccessat(top, name, F_OK, 0), -1);
    T_TRUE(there(".")); /* ours */
    T_INT(faccessat(top, cg.name, F_OK, 0), 0);
}

static void the_top_is_bounded(void **state)
{
    char text[64];
    (void)state;
    need(BH_CGROUP_PIDS);
    int top = cg.tops[cg.kind == BH_CGROUP_V2 ? 0 : BH_CGROUP_PIDS];
    T_TRUE(bh_cgroup_read(top, ".", "pids.max", text, sizeof(text)) > 0);
    T_TRUE(strncmp(text, "max", 3) != 0);
}

static void nothing_where_it_is_off(void **state)
{
    struct bh_cgroup off;
    struct bh_cgroup_events e;
    int fds[BH_CGROUP_PARTS];
    bool into;
    (void)state;
    bh_cgroup_begin(&off, "x", (const pid_t[]){0}, true);
    T_INT(off.kind, BH_CGROUP_NONE);
    T_INT(off.can, 0);
    T_STR(off.remedy, "unset BULKHEAD_CGROUP");
    assert_non_null(strstr(off.found, "off"));
    T_INT(bh_cgroup_make(&off, "b1", fds, &into), 0);
    e = bh_cgroup_events(&off, "b1");
    T_INT(e.oom_kills, -1);
    T_INT(bh_cgroup_freeze(&off, "b1", true), -1);
    T_INT(errno, ENOTSUP);
    bh_cgroup_end(&off);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_child_is_in_its_group, begin, end),
        cmocka_unit_test_setup_teardown(memory_ends_where_it_was_limited, begin, end),
        cmocka_unit_test_setup_teardown(processes_are_counted_exactly, begin, end),
        cmocka_unit_test_setup_teardown(a_quarter_of_a_processor_is_no_more, begin, end),
        cmocka_unit_test_setup_teardown(a_limit_that_cannot_be_set_is_told, begin, end),
        cmocka_unit_test_setup_teardown(frozen_stands_still_and_can_still_be_killed, begin, end),
        cmocka_unit_test_setup_teardown(a_stranger_is_not_frozen, begin, end),
        cmocka_unit_test_setup_teardown(groups_in_a_shared_one_have_limits_of_their_own, begin, end),
        cmocka_unit_test_setup_teardown(what_a_dead_owner_left_is_reclaimed, begin, end),
        cmocka_unit_test_setup_teardown(the_top_is_bounded, begin, end),
        cmocka_unit_test(nothing_where_it_is_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
