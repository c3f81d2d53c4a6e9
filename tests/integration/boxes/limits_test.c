/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that are held to memory, processors, processes and open files, with control groups and without: what this
 * machine can hold them to is asked first, and where it cannot, that it says so is the test.
 */
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"
#include "workers/box/ns_priv.h"

#define MIB INT64_C(1048576)
#define BIT(limit) (1u << BH_LIMIT_##limit)
/* A process that holds what it is given: the last so many bytes. */
#define EAT(mib) "head -c " mib "m /dev/zero | tail -c " mib "m | wc -c"

static bool can(uint32_t bits)
{
    return (kit.boxes->ops->enforceable(kit.boxes) & bits) == bits;
}

static bool has_groups(void)
{
    return ((struct ns *)(void *)kit.boxes)->cgroup.kind != BH_CGROUP_NONE;
}

static struct bh_limits asked(enum bh_limit which, int64_t value)
{
    struct bh_limits l = {.asked = 1u << which};
    l.of[which] = value;
    return l;
}

/* False: the machine cannot hold it, and has said so. */
static bool make_with(struct kit_box *b, struct bh_limits limits, const char *word)
{
    struct kit_how how = {.limits = limits};
    int rc = kit_create(&kit, b, &how);
    if (can(limits.asked)) {
        if (rc != 0)
            fprintf(stderr, "create: %s\n", b->message);
        T_INT(rc, 0);
        return true;
    }
    T_INT(rc, -BH_E_HOST);
    assert_non_null(strstr(b->message, "cannot hold box"));
    assert_non_null(strstr(b->message, word));
    kit_forget(b);
    return false;
}

static void expect(struct kit_exec *e, int status, const char *out)
{
    if (e->result.end != BH_EXEC_EXITED || e->result.status != status || !bh_streq(e->out.data, out))
        fprintf(stderr, "end %d status %d (%s)\nstdout: %s\nstderr: %s\n", e->result.end, e->result.status, e->step,
                e->out.data, e->err.data);
    T_INT(e->result.end, BH_EXEC_EXITED);
    T_INT(e->result.status, status);
    T_STR(e->out.data, out);
    kit_exec_fini(e);
}

/* --- memory --- */

static void a_memory_bomb_ends_alone(void **state)
{
    struct kit_box bomb, neighbour;
    struct kit_exec e;
    (void)state;
    if (!make_with(&bomb, asked(BH_LIMIT_MEMORY, 24 * MIB), "memory"))
        return;
    T_INT(kit_create(&kit, &neighbour, NULL), 0);
    kit_sh(&bomb, &e, EAT("40") "; echo after");
    T_TRUE(e.result.oom);
    assert_false(e.result.pids);
    expect(&e, 0, "0\nafter\n");
    /* It is told of the exec that met it, and of no later one. */
    kit_sh(&bomb, &e, "echo still here");
    assert_false(e.result.oom);
    expect(&e, 0, "still here\n");
    kit_sh(&neighbour, &e, "echo unharmed");
    assert_false(e.result.oom);
    expect(&e, 0, "unharmed\n");
    T_INT(bomb.lost, false);
    T_INT(kit_destroy(&bomb, false), 0);
    T_INT(kit_destroy(&neighbour, false), 0);
}

/* The agent's main process is the one that is killed. */
static void a_killed_agent_is_told_from_a_signal(void **state)
{
    struct kit_box b;
    struct kit_exec e = {0};
    const char *const argv[] = {"dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1", NULL};
    (void)state;
    if (!make_with(&b, asked(BH_LIMIT_MEMORY, 24 * MIB), "memory"))
        return;
    e.spec.argv = argv;
    kit_start(&b, &e);
    kit_finish(&b, &e);
    T_INT(e.result.end, BH_EXEC_SIGNALED);
    T_INT(e.result.status, SIGKILL);
    T_TRUE(e.result.oom);
    kit_exec_fini(&e);
    kit_sh(&b, &e, "kill -9 $$");
    T_INT(e.result.end, BH_EXEC_SIGNALED);
    assert_false(e.result.oom);
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

static void agents_of_one_box_have_memory_of_their_own(void **state)
{
    struct kit_box b;
    struct kit_exec small = {.spec.limits = asked(BH_LIMIT_MEMORY, 16 * MIB)},
                    large = {.spec.limits = asked(BH_LIMIT_MEMORY, 100 * MIB)};
    const char *const bomb[] = {"/bin/sh", "-c", EAT("24"), NULL};
    struct kit_how how = {.shared = true};
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    small.spec.argv = large.spec.argv = bomb;
    kit_start(&b, &small);
    kit_start(&b, &large);
    kit_finish(&b, &small);
    kit_finish(&b, &large);
    if (can(BIT(MEMORY))) {
        T_TRUE(small.result.oom);
        assert_false(large.result.oom);
        expect(&small, 0, "0\n");
        expect(&large, 0, "25165824\n");
    } else {
        T_INT(small.result.end, BH_EXEC_NOT_STARTED);
        T_INT(small.result.status, ENOTSUP);
        T_STR(small.step, "hold it to its limits");
        kit_exec_fini(&small);
        kit_exec_fini(&large);
    }
    T_INT(kit_destroy(&b, false), 0);
}

/* --- processes --- */

/* What it has come to is in a file that a builtin reads: there may be no room for one process more. */
#define FORK(n)                                                                                              \
    "i=0; (while [ $i -lt " n " ]; do sleep 100 > /dev/null & i=$((i+1)); echo $i > n; done) 2> /dev/null; " \
    "read -r n < n; echo $n"

static int last_number(const struct kit_exec *e)
{
    return (int)strtol(e->out.data, NULL, 10);
}

static void a_fork_bomb_stops_at_its_limit(void **state)
{
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    if (!make_with(&b, asked(BH_LIMIT_PIDS, 20), "pids"))
        return;
    /* The shell, the one of the loop, and as many as there is room for; a dash that cannot fork ends. */
    kit_sh(&b, &e, FORK("60"));
    printf("# %d of 20\n", last_number(&e) + 2);
    T_INT(last_number(&e), 18);
    T_INT(e.result.pids, has_groups());
    assert_false(e.result.oom);
    kit_exec_fini(&e);
    kit_sh(&b, &e, "echo again");
    assert_false(e.result.pids);
    expect(&e, 0, "again\n");
    T_INT(kit_destroy(&b, false), 0);
}

static void agents_of_one_box_have_processes_of_their_own(void **state)
{
    struct kit_box b;
    struct kit_exec few = {.spec.limits = asked(BH_LIMIT_PIDS, 10)}, many = {.spec.limits = asked(BH_LIMIT_PIDS, 60)};
    struct kit_how how = {.shared = true};
    (void)state;
    if (!has_groups())
        return; /* one id: by rlimit; a range: all of the box together */
    T_INT(kit_create(&kit, &b, &how), 0);
    kit_sh_with(&b, &few, FORK("40"));
    kit_sh_with(&b, &many, FORK("40"));
    T_INT(last_number(&few), 8);
    T_TRUE(few.result.pids);
    T_INT(last_number(&many), 40);
    assert_false(many.result.pids);
    kit_exec_fini(&few);
    kit_exec_fini(&many);
    T_INT(kit_destroy(&b, false), 0);
}

/* --- processors --- */

static void half_a_processor_is_not_more(void **state)
{
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    if (!make_with(&b, asked(BH_LIMIT_CPUS, 500), "cpus"))
        return;
    struct bh_mono from = bh_mono_now();
    kit_sh(&b, &e, "timeout 1 sh -c 'while :; do :; done'");
    int64_t wall = (bh_mono_now().ns - from.ns) / 1000000;
    printf("# %lld of %lld ms\n", (long long)e.result.cpu_ms, (long long)wall);
    T_TRUE(e.result.cpu_ms <= wall * 3 / 4);
    expect(&e, 124, "");
    T_INT(kit_destroy(&b, false), 0);
}

/* --- what the box sees --- */

static void the_box_sees_its_own_size(void **state)
{
    struct kit_box b;
    struct kit_exec e;
    int64_t memory;
    int cpus;
    struct kit_how how = {.limits = asked(BH_LIMIT_MEMORY, 64 * MIB), .best_effort = true};
    (void)state;
    bh_limits_host(&memory, &cpus);
    how.limits.of[BH_LIMIT_CPUS] = 1000;
    how.limits.asked |= BIT(CPUS);
    T_INT(kit_create(&kit, &b, &how), 0);
    struct bh_enforced by = kit.boxes->ops->enforced(b.box, NULL);
    if (!can(BIT(MEMORY))) {
        T_INT(by.by[BH_LIMIT_MEMORY], BH_BY_WATCHDOG);
        T_INT(by.by[BH_LIMIT_CPUS], BH_BY_AFFINITY);
    }
    kit_sh(&b, &e,
           "nproc; ! command -v getconf > /dev/null && echo 1 || getconf _NPROCESSORS_ONLN; grep -E "
           "'^(MemTotal|MemAvailable|SwapTotal)' /proc/meminfo");
    expect(&e, 0, "1\n1\nMemTotal:          65536 kB\nMemAvailable:      65536 kB\nSwapTotal:             0 kB\n");
    if (cpus > 1) {
        kit_sh(&b, &e,
               "ls /sys/devices/system/cpu | tr '0-9' N | sort; cat /sys/devices/system/cpu/online | tr -d 0-9");
        expect(&e, 0, "cpuN\nonline\npossible\npresent\n\n");
    }
    kit_sh(&b, &e, "echo x > /proc/meminfo || echo x > /sys/x || umount /proc/meminfo || echo no");
    T_INT(e.result.status, 0);
    T_STR(e.out.data, "no\n");
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

static void each_agent_of_a_shared_box_sees_its_memory(void **state)
{
    struct kit_box b;
    struct kit_exec own = {.spec.limits = asked(BH_LIMIT_MEMORY, 32 * MIB)}, none = {0};
    struct kit_how how = {.shared = true, .best_effort = true, .limits = asked(BH_LIMIT_MEMORY, 96 * MIB)};
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    kit_sh_with(&b, &own, "grep MemTotal /proc/meminfo");
    expect(&own, 0, "MemTotal:          32768 kB\n");
    kit_sh_with(&b, &none, "grep MemTotal /proc/meminfo");
    expect(&none, 0, "MemTotal:          98304 kB\n");
    T_INT(kit_destroy(&b, false), 0);
}

/* Where no group holds it: the agent who took too much is stopped, its neighbours are not. */
static void each_agent_of_a_shared_box_is_watched(void **state)
{
    /* tail holds as much, for as long as head goes on. */
    static const char eat[] = "sh -c 'head -c 100000000000 /dev/zero | tail -c 62914560'; echo $?";
    struct kit_box b;
    struct kit_exec hog = {.spec.limits = asked(BH_LIMIT_MEMORY, 32 * MIB)};
    struct kit_exec large = {.spec.limits = asked(BH_LIMIT_MEMORY, 512 * MIB)}, none = {0};
    struct kit_how how = {.shared = true, .best_effort = true};
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    struct bh_enforced by = kit.boxes->ops->enforced(b.box, &hog.spec.limits);
    if (!can(BIT(MEMORY))) {
        T_INT(by.by[BH_LIMIT_MEMORY], BH_BY_WATCHDOG);
        T_INT(kit.boxes->ops->enforced(b.box, NULL).by[BH_LIMIT_MEMORY], BH_BY_NOTHING);
    }
    kit_sh_with(&b, &hog, eat);
    T_TRUE(hog.result.oom);
    if (!can(BIT(MEMORY)))
        assert_non_null(strstr(hog.result.note, "the processes of the agent held"));
    expect(&hog, 0, "137\n");
    kit_sh_with(&b, &large, "(head -c 62914560 /dev/zero; sleep 1) | tail -c 62914560 | wc -c");
    assert_false(large.result.oom);
    expect(&large, 0, "62914560\n");
    kit_sh_with(&b, &none, "echo unharmed");
    assert_false(none.result.oom);
    expect(&none, 0, "unharmed\n");
    T_INT(kit_destroy(&b, false), 0);
}

static void a_plain_box_sees_the_host(void **state)
{
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, NULL), 0);
    kit_sh(&b, &e, "ls /sys | wc -l; grep -c . /proc/self/mountinfo > /dev/null; grep -c meminfo /proc/self/mountinfo");
    expect(&e, 1, "0\n0\n");
    kit_sh(&b, &e,
           "while read -r l; do case $l in *[!0-9]:/) ;; 0::/) ;; *:/) ;; *) echo $l ;; esac; done < "
           "/proc/self/cgroup");
    expect(&e, 0, ""); /* its groups are the root of what it sees */
    struct bh_enforced by = kit.boxes->ops->enforced(b.box, NULL);
    T_INT(by.by[BH_LIMIT_NOFILE], BH_BY_RLIMIT);
    if (has_groups())
        T_TRUE(by.by[BH_LIMIT_MEMORY] == BH_BY_CGROUP1 || by.by[BH_LIMIT_MEMORY] == BH_BY_CGROUP2 || !can(BIT(MEMORY)));
    else
        T_INT(by.by[BH_LIMIT_MEMORY], BH_BY_NOTHING);
    const char *why = kit.boxes->ops->why_not(kit.boxes);
    T_INT(why == NULL, can(BIT(MEMORY) | BIT(CPUS) | BIT(PIDS)));
    T_INT(kit_destroy(&b, false), 0);
}

/* --- open files --- */

static void open_files_are_what_was_asked(void **state)
{
    struct kit_box b;
    struct kit_exec e, own = {.spec.limits = asked(BH_LIMIT_NOFILE, 50)};
    struct kit_how how = {.limits = asked(BH_LIMIT_NOFILE, 64)};
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    kit_sh(&b, &e, "ulimit -n; ulimit -Hn");
    expect(&e, 0, "64\n64\n");
    kit_sh_with(&b, &own, "ulimit -n");
    expect(&own, 0, "50\n");
    T_INT(kit_destroy(&b, false), 0);
    T_INT(kit_create(&kit, &b, NULL), 0);
    kit_sh(&b, &e, "ulimit -n");
    expect(&e, 0, "1024\n");
    T_INT(kit_destroy(&b, false), 0);
}

static void more_files_than_we_have_is_refused(void **state)
{
    struct kit_box b;
    struct rlimit now;
    struct kit_how how = {.limits = asked(BH_LIMIT_NOFILE, 1 << 30)};
    char number[32];
    (void)state;
    T_INT(getrlimit(RLIMIT_NOFILE, &now), 0);
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)now.rlim_max);
    T_INT(kit_create(&kit, &b, &how), -BH_E_HOST);
    assert_non_null(strstr(b.message, "1073741824"));
    assert_non_null(strstr(b.message, number));
    kit_forget(&b);
}

static void more_than_the_host_is_refused(void **state)
{
    struct kit_box b;
    struct kit_how how = {.limits = asked(BH_LIMIT_MEMORY, INT64_C(1) << 50), .best_effort = true};
    (void)state;
    T_INT(kit_create(&kit, &b, &how), -BH_E_HOST);
    assert_non_null(strstr(b.message, "1PiB"));
    kit_forget(&b);
    how.limits = asked(BH_LIMIT_CPUS, 1000000);
    T_INT(kit_create(&kit, &b, &how), -BH_E_HOST);
    assert_non_null(strstr(b.message, "'cpus: 1000'"));
    kit_forget(&b);
}

/* --- stopped --- */

static void a_frozen_box_stands_still_and_can_be_destroyed(void **state)
{
    struct kit_box b;
    struct kit_exec e = {0};
    const char *const argv[] = {"/bin/sh", "-c", "while :; do echo x; done", NULL};
    char bytes[65536];
    (void)state;
    if (!has_groups())
        return;
    T_INT(kit_create(&kit, &b, NULL), 0);
    e.spec.argv = argv;
    kit_start(&b, &e);
    struct pollfd polled = {.fd = e.out_fd, .events = POLLIN};
    T_INT(read(e.out_fd, bytes, 1) > 0, 1);
    T_INT(bh_ns_box_freezer(b.box, true), 0);
    while (poll(&polled, 1, 0) == 1)
        T_TRUE(read(e.out_fd, bytes, sizeof(bytes)) > 0);
    T_INT(poll(&polled, 1, 100), 0);
    T_INT(bh_ns_box_freezer(b.box, false), 0);
    T_TRUE(read(e.out_fd, bytes, 1) > 0);
    T_INT(bh_ns_box_freezer(b.box, true), 0);
    T_INT(kit_destroy(&b, false), 0);
    T_INT(e.result.end, BH_EXEC_BOX_LOST);
    bh_close(e.out_fd);
    bh_close(e.err_fd);
    kit_exec_fini(&e);
}

/* --- the host stays usable --- */

static int64_t run_true_ms(void)
{
    char *argv[] = {(char[]){"true"}, NULL}, *envp[] = {NULL};
    struct bh_mono from = bh_mono_now();
    pid_t pid;
    T_INT(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, envp), 0);
    T_INT(waitpid(pid, NULL, 0), pid);
    return (bh_mono_now().ns - from.ns) / 1000000;
}

static void a_thousand_spinners_leave_the_host_usable(void **state)
{
    struct kit_box b;
    struct kit_exec e = {0};
    /* The last byte comes when all are there, or no more can be. */
    const char *const argv[] = {
        "/bin/sh", "-c",
        "trap '' TERM; i=0; while [ $i -lt 1000 ]; do (while :; do :; done) & i=$((i+1)); done; echo; wait", NULL};
    char c;
    int64_t worst = 0;
    (void)state;
    T_INT(kit_create(&kit, &b, NULL), 0);
    e.spec.argv = argv;
    kit_start(&b, &e);
    struct pollfd polled = {.fd = e.out_fd, .events = POLLIN};
    (void)!poll(&polled, 1, 3000); /* without control groups fewer fit, and the shell has ended */
    for (int i = 0; i < 10; i++) {
        int64_t ms = run_true_ms();
        worst = ms > worst ? ms : worst;
    }
    printf("# a program takes at most %lld ms beside them\n", (long long)worst);
    T_TRUE(worst < 2000);
    struct bh_mono from = bh_mono_now();
    T_INT(kit_destroy(&b, false), 0);
    printf("# all dead after %lld ms\n", (long long)((bh_mono_now().ns - from.ns) / 1000000));
    (void)!read(e.out_fd, &c, 1);
    bh_close(e.out_fd);
    bh_close(e.err_fd);
    kit_exec_fini(&e);
}

/* --- nothing is left --- */

static size_t groups_of(int64_t launcher, const char *below)
{
    static const char *const places[] = {"/sys/fs/cgroup/bulkhead", "/sys/fs/cgroup/*/bulkhead",
                                         "/sys/fs/cgroup/*/*/bulkhead"};
    size_t n = 0;
    for (size_t i = 0; i < BH_ARRAY_LEN(places); i++) {
        glob_t found;
        BH_CLEANUP_FREE char *pattern = bh_asprintf("%s/l-%lld-*%s", places[i], (long long)launcher, below);
        if (glob(pattern, 0, NULL, &found) == 0)
            n += found.gl_pathc;
        globfree(&found);
    }
    return n;
}

/* Groups are removed soon, on another thread: the loop is kept going until then. */
static void wait_gone(int64_t launcher, const char *below)
{
    for (int i = 0; i < 500 && groups_of(launcher, below) > 0; i++) {
        (void)event_base_loop(kit.loop, EVLOOP_NONBLOCK);
        (void)poll(NULL, 0, 10);
    }
    T_INT(groups_of(launcher, below), 0);
}

static void groups_go_with_their_box(void **state)
{
    struct kit_box b;
    struct kit_exec e = {0};
    char below[32];
    struct kit_how how = {.shared = true};
    (void)state;
    if (!has_groups())
        return;
    T_INT(kit_create(&kit, &b, &how), 0);
    (void)snprintf(below, sizeof(below), "/b%u", b.box->group);
    kit_sh_with(&b, &e, "echo x");
    expect(&e, 0, "x\n");
    T_TRUE(groups_of(kit.launcher, below) > 0);
    (void)snprintf(below, sizeof(below), "/b%u/e*", b.box->group);
    wait_gone(kit.launcher, below);
    (void)snprintf(below, sizeof(below), "/b%u", b.box->group);
    T_INT(kit_destroy(&b, false), 0);
    wait_gone(kit.launcher, below);
}

/* --- a group that is used again --- */

#define AFTERWARDS 20 /* a group is given back soon, on another thread */

/* A box with these limits that does this; the number of its group. */
static uint32_t group_of(struct bh_limits limits, const char *text, bool keep)
{
    struct kit_box b;
    struct kit_exec e;
    const struct kit_how how = {.limits = limits};
    T_INT(kit_create(&kit, &b, &how), 0);
    kit_sh(&b, &e, text);
    T_INT(e.result.end, BH_EXEC_EXITED);
    T_INT(e.result.oom || e.result.pids, false);
    kit_exec_fini(&e);
    uint32_t group = b.box->group;
    T_INT(kit_destroy(&b, keep), 0);
    return group;
}

static bool is_met_again(uint32_t group)
{
    bool met = false;
    for (int i = 0; i < AFTERWARDS; i++)
        met |= group_of((struct bh_limits){0}, "true", false) == group;
    return met;
}

static void a_group_is_used_again_where_nothing_happened_in_it(void **state)
{
    (void)state;
    if (!has_groups() || !can(BIT(PIDS)))
        return;
    T_TRUE(is_met_again(group_of((struct bh_limits){0}, "true", false)));
}

static void no_other_group_is_used_again(void **state)
{
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    if (!has_groups() || !can(BIT(PIDS) | BIT(MEMORY)))
        return;
    assert_false(is_met_again(group_of(asked(BH_LIMIT_PIDS, 20), "true", false)));
    assert_false(is_met_again(group_of(asked(BH_LIMIT_MEMORY, 64 * MIB), "true", false)));
    /* Of files that stay the pages are charged to who wrote them. */
    assert_false(is_met_again(group_of((struct bh_limits){0}, "head -c 32m /dev/zero > /workspace/x", true)));
    /* Nor one whose init was killed. */
    T_INT(kit_create(&kit, &b, NULL), 0);
    kit_sh(&b, &e, "true");
    kit_exec_fini(&e);
    uint32_t group = b.box->group;
    T_INT(kill((pid_t)kit_init_pid(&b), SIGKILL), 0);
    kit_wait(&kit, &b.lost);
    T_INT(kit_destroy(&b, false), 0);
    assert_false(is_met_again(group));
}

static void read_cpus(const struct kit_box *b, char *text, size_t size)
{
    const struct bh_cgroup *cg = &((struct ns *)(void *)kit.boxes)->cgroup;
    bool v2 = cg->kind == BH_CGROUP_V2;
    BH_CLEANUP_FREE char *path = bh_asprintf("b%u/%s", b->box->group, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    BH_CLEANUP_FD int fd = openat(cg->dirs[v2 ? 0 : BH_CGROUP_CPU], path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, size - 1);
    T_TRUE(n > 0);
    text[strcspn(text, " \n")] = '\0';
}

/* Processors that nobody asked for: each box has its own, whatever was before. */
static void processors_of_the_box_before_are_forgotten(void **state)
{
    (void)state;
    if (!has_groups() || !can(BIT(PIDS) | BIT(CPUS)))
        return;
    for (int i = 0; i < AFTERWARDS; i++) {
        struct kit_box b;
        char text[64], want[64];
        int64_t cpus = 500 * (i % 3 + 1);
        struct kit_how how = {.limits.of[BH_LIMIT_CPUS] = cpus};
        T_INT(kit_create(&kit, &b, &how), 0);
        read_cpus(&b, text, sizeof(text));
        (void)snprintf(want, sizeof(want), "%lld", (long long)cpus * 100);
        T_STR(text, want);
        T_INT(kit_destroy(&b, false), 0);
    }
}

/* A worker that is killed leaves its groups to whoever comes next. */
static void what_a_killed_worker_leaves_is_reclaimed(void **state)
{
    int ready[2];
    int64_t launcher = 0;
    (void)state;
    if (!has_groups())
        return;
    T_INT(pipe2(ready, O_CLOEXEC), 0);
    pid_t worker = fork();
    if (worker == 0) {
        int sock;
        BH_CLEANUP_FREE char *home = bh_asprintf("%s/other", kit.home);
        int rc = mkdir(home, 0700) < 0 ? -1 : bh_launcher_start(home, -1, &sock, &launcher, NULL);
        (void)!write(ready[1], &launcher, rc == 0 ? sizeof(launcher) : 0);
        for (;;)
            (void)pause();
    }
    T_INT(read(ready[0], &launcher, sizeof(launcher)), sizeof(launcher));
    bh_close(ready[0]);
    bh_close(ready[1]);
    BH_CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)launcher, 0);
    T_TRUE(pidfd >= 0);
    T_TRUE(groups_of(launcher, "") > 0);
    T_INT(kill(worker, SIGKILL), 0);
    T_INT(waitpid(worker, NULL, 0), worker);
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    T_INT(poll(&polled, 1, 10000), 1);
    for (int i = 0; i < 100 && groups_of(launcher, "") > 0; i++) { /* some other run's start may be at it as well */
        (void)bh_cgroup_reclaim(NULL);
        (void)poll(NULL, 0, 10);
    }
    T_INT(groups_of(launcher, ""), 0);
    T_TRUE(groups_of(kit.launcher, "") > 0);
}

static void the_launchers_group_goes_with_it(void **state)
{
    struct kit_box b;
    (void)state;
    int64_t launcher = kit.launcher;
    T_INT(kit_create(&kit, &b, NULL), 0);
    kit_forget(&b);
    kit_close(&kit);
    T_INT(groups_of(launcher, ""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_memory_bomb_ends_alone),
        cmocka_unit_test(a_group_is_used_again_where_nothing_happened_in_it),
        cmocka_unit_test(no_other_group_is_used_again),
        cmocka_unit_test(processors_of_the_box_before_are_forgotten),
        cmocka_unit_test(a_killed_agent_is_told_from_a_signal),
        cmocka_unit_test(agents_of_one_box_have_memory_of_their_own),
        cmocka_unit_test(a_fork_bomb_stops_at_its_limit),
        cmocka_unit_test(agents_of_one_box_have_processes_of_their_own),
        cmocka_unit_test(half_a_processor_is_not_more),
        cmocka_unit_test(the_box_sees_its_own_size),
        cmocka_unit_test(each_agent_of_a_shared_box_sees_its_memory),
        cmocka_unit_test(each_agent_of_a_shared_box_is_watched),
        cmocka_unit_test(a_plain_box_sees_the_host),
        cmocka_unit_test(open_files_are_what_was_asked),
        cmocka_unit_test(more_files_than_we_have_is_refused),
        cmocka_unit_test(more_than_the_host_is_refused),
        cmocka_unit_test(a_frozen_box_stands_still_and_can_be_destroyed),
        cmocka_unit_test(a_thousand_spinners_leave_the_host_usable),
        cmocka_unit_test(groups_go_with_their_box),
        cmocka_unit_test(what_a_killed_worker_leaves_is_reclaimed),
        cmocka_unit_test(the_launchers_group_goes_with_it), /* the last one */
    };
    KIT_MAIN(tests);
}
