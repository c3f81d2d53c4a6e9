/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, what needs none: where they are by the texts of /proc, and the small files, on folders like theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/cgroup/priv.h"

/* --- where they are --- */

static void v2_alone(void **state)
{
    struct bh_cgroup_places p;
    (void)state;
    bh_cgroup_places_parse(&p,
                           "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
                           "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
                           "0::/user.slice/user-1000.slice/run-u5.scope\n");
    T_STR(p.v2.mount, "/sys/fs/cgroup");
    T_STR(p.v2.own, "/sys/fs/cgroup/user.slice/user-1000.slice/run-u5.scope");
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++)
        assert_null(p.v1[i].mount);
    bh_cgroup_places_fini(&p);
}

static void v1_with_controllers_together(void **state)
{
    struct bh_cgroup_places p;
    (void)state;
    bh_cgroup_places_parse(&p,
                           "32 31 0:29 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                           "33 31 0:30 / /cg/memory rw shared:2 master:1 - cgroup cgroup rw,memory\n"
                           "34 31 0:31 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n"
                           "35 31 0:32 / /cg/unified rw - cgroup2 cgroup2 rw\n",
                           "5:cpu,cpuacct:/a\n4:memory:/\n3:pids:/x\n1:name=systemd:/user\n0::/user\n");
    T_STR(p.v1[BH_CGROUP_CPU].mount, "/cg/cpu,cpuacct");
    T_STR(p.v1[BH_CGROUP_CPU].own, "/cg/cpu,cpuacct/a");
    T_STR(p.v1[BH_CGROUP_MEMORY].mount, "/cg/memory");
    T_STR(p.v1[BH_CGROUP_MEMORY].own, "/cg/memory");
    assert_null(p.v1[BH_CGROUP_PIDS].mount); /* the kernel has it, nobody has mounted it */
    T_STR(p.v2.mount, "/cg/unified");
    T_STR(p.v2.own, "/cg/unified/user");
    bh_cgroup_places_fini(&p);
}

/* A container that shows only its own part, and one that was entered from outside. */
static void a_part_of_a_hierarchy(void **state)
{
    struct bh_cgroup_places p;
    (void)state;
    bh_cgroup_places_parse(&p, "33 31 0:30 /docker/1 /cg/m rw - cgroup cgroup rw,memory\n", "4:memory:/docker/1/sub\n");
    T_STR(p.v1[BH_CGROUP_MEMORY].own, "/cg/m/sub");
    bh_cgroup_places_fini(&p);
    bh_cgroup_places_parse(&p, "33 31 0:30 /docker/1 /cg/m rw - cgroup cgroup rw,memory\n", "4:memory:/docker/11\n");
    T_STR(p.v1[BH_CGROUP_MEMORY].mount, "/cg/m");
    assert_null(p.v1[BH_CGROUP_MEMORY].own);
    bh_cgroup_places_fini(&p);
    bh_cgroup_places_parse(&p, "33 31 0:30 / /cg rw - cgroup2 cgroup2 rw\n", "0::/../other\n");
    assert_null(p.v2.own);
    bh_cgroup_places_fini(&p);
}

static void names_with_blanks_and_several_mounts(void **state)
{
    struct bh_cgroup_places p;
    (void)state;
    bh_cgroup_places_parse(&p,
                           "1 0 0:1 / /my\\040groups rw - cgroup2 cgroup2 rw\n"
                           "2 0 0:1 / /later rw - cgroup2 cgroup2 rw\n",
                           "0::/\n");
    T_STR(p.v2.mount, "/my groups");
    T_STR(p.v2.own, "/my groups");
    bh_cgroup_places_fini(&p);
}

static void nonsense_is_nothing(void **state)
{
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "x",
                                        " - ",
                                        "1 2 3 - cgroup2",
                                        "1 2 3 4 5 - cgroup",
                                        "- cgroup2 a b",
                                        "1 2 0:1 / /cg rw cgroup2 cgroup2 rw"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        struct bh_cgroup_places p;
        bh_cgroup_places_parse(&p, texts[i], "0::/\nx\n:\n::\n");
        assert_null(p.v2.mount);
        assert_null(p.v1[BH_CGROUP_MEMORY].mount);
        bh_cgroup_places_fini(&p);
    }
}

/* --- the small files --- */

static char *dir;
static struct bh_cgroup cg;

static void put(const char *name, const char *text)
{
    BH_CLEANUP_FREE char *path = bh_path_join(dir, name);
    BH_CLEANUP_FREE char *folder = bh_path_dirname(path);
    T_OK(bh_mkdir_p(folder, 0755, &err));
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0);
    T_INT(bh_write_all(fd, text, strlen(text)), 0);
}

static void has(const char *name, const char *want)
{
    char text[64];
    T_TRUE(bh_cgroup_read(cg.dirs[0], ".", name, text, sizeof(text)) >= 0);
    T_STR(text, want);
}

static int set_up(void **state)
{
    (void)state;
    dir = t_tmpdir();
    cg = (struct bh_cgroup){.kind = BH_CGROUP_V2, .can = BH_CGROUP_LIMITS, .tops = {-1, -1, -1, -1}};
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++)
        cg.dirs[i] = -1;
    cg.dirs[0] = bh_cgroup_open_dir(AT_FDCWD, dir);
    return cg.dirs[0] >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++)
        bh_close(cg.dirs[i]);
    t_tmpdir_free(dir);
    return 0;
}

static void limits_of_v2(void **state)
{
    const struct bh_cgroup_limits l = {.memory = 1 << 20, .cpus = 1500, .pids = 7};
    (void)state;
    put("b1/memory.max", "");
    put("b1/memory.swap.max", "");
    put("b1/cpu.max", "");
    put("b1/pids.max", "");
    T_INT(bh_cgroup_limit(&cg, "b1", &l), 0);
    has("b1/memory.max", "1048576");
    has("b1/memory.swap.max", "0");
    has("b1/cpu.max", "150000 100000");
    has("b1/pids.max", "7");
}

static void limits_of_v1(void **state)
{
    const struct bh_cgroup_limits l = {.memory = 1 << 20, .cpus = 5, .pids = 7};
    (void)state;
    cg.kind = BH_CGROUP_V1;
    cg.dirs[BH_CGROUP_CPU] = cg.dirs[BH_CGROUP_PIDS] = cg.dirs[0]; /* mounted together */
    put("b1/memory.limit_in_bytes", "");
    put("b1/cpu.cfs_quota_us", "");
    put("b1/pids.max", "");
    T_INT(bh_cgroup_limit(&cg, "b1", &l), 0);
    cg.dirs[BH_CGROUP_CPU] = cg.dirs[BH_CGROUP_PIDS] = -1;
    has("b1/memory.limit_in_bytes", "1048576");
    has("b1/cpu.cfs_quota_us", "1000"); /* the kernel's least */
}

static void what_cannot_be_limited_is_told(void **state)
{
    const struct bh_cgroup_limits l = {.memory = 1, .cpus = 1000}, none = {0};
    (void)state;
    put("b1/memory.max", "");
    T_INT(bh_cgroup_limit(&cg, "b1", &l), BH_CGROUP_BIT(BH_CGROUP_CPU));
    T_INT(errno, ENOENT);
    T_INT(bh_cgroup_limit(&cg, "b1", &none), 0);
    cg.can = BH_CGROUP_BIT(BH_CGROUP_CPU);
    T_INT(bh_cgroup_limit(&cg, "b1", &l), BH_CGROUP_BIT(BH_CGROUP_MEMORY) | BH_CGROUP_BIT(BH_CGROUP_CPU));
}

static void events_of_both(void **state)
{
    (void)state;
    put("b1/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n");
    put("b1/pids.events", "max 5\n");
    struct bh_cgroup_events e = bh_cgroup_events(&cg, "b1");
    T_INT(e.oom_kills, 2);
    T_INT(e.pids_hits, 5);
    put("b2/memory.events", "oom 3\n"); /* an old kernel does not count kills */
    e = bh_cgroup_events(&cg, "b2");
    T_INT(e.oom_kills, -1);
    T_INT(e.pids_hits, -1);
}

static void usage_of_v2(void **state)
{
    (void)state;
    put("b1/cpu.stat", "usage_usec 2500000\nuser_usec 1\n");
    put("b1/memory.stat", "anon 4096\nfile 999\n");
    put("b1/memory.peak", "8192\n");
    put("b1/pids.current", "3\n");
    struct bh_cgroup_usage u = bh_cgroup_usage(&cg, "b1");
    T_INT(u.cpu_ms, 2500);
    T_INT(u.memory, 4096);
    T_INT(u.memory_peak, 8192);
    T_INT(u.tasks, 3);
    u = bh_cgroup_usage(&cg, "none");
    T_TRUE(u.cpu_ms == -1 && u.memory == -1 && u.memory_peak == -1 && u.tasks == -1);
    cg.kind = BH_CGROUP_NONE;
    T_INT(bh_cgroup_usage(&cg, "b1").cpu_ms, -1);
}

static void values_and_words(void **state)
{
    (void)state;
    T_INT(bh_cgroup_value("a 1\nab 2\n", "ab"), 2);
    T_INT(bh_cgroup_value("ab 2\na 1", "a"), 1);
    T_INT(bh_cgroup_value("a\n", "a"), -1);
    T_INT(bh_cgroup_value("a x\n", "a"), -1);
    T_INT(bh_cgroup_value("a 123456789012345678901234567890\n", "a"), -1);
    T_INT(bh_cgroup_value("", "a"), -1);
    T_TRUE(bh_cgroup_has_word("cpuset cpu io memory\n", "cpu"));
    T_TRUE(bh_cgroup_has_word("memory", "memory"));
    assert_false(bh_cgroup_has_word("cpuset memory\n", "cpu"));
    assert_false(bh_cgroup_has_word("", "cpu"));
}

static int count(pid_t pid, void *arg)
{
    *(int *)arg += (int)pid;
    return 0;
}

/* A 0 is a process that we cannot see: to kill(2) it would be our own group. */
static void processes_that_we_see(void **state)
{
    int sum = 0;
    (void)state;
    put("b1/cgroup.procs", "3\n0\n-4\nx\n5\n99999999999\n");
    T_INT(bh_cgroup_each(cg.dirs[0], "b1", count, &sum), 0);
    T_INT(sum, 8);
    T_INT(bh_cgroup_each(cg.dirs[0], "b2", count, &sum), -1);
    T_INT(errno, ENOENT);
}

static void groups_below_go_first(void **state)
{
    (void)state;
    T_INT(mkdirat(cg.dirs[0], "b1", 0755), 0);
    T_INT(mkdirat(cg.dirs[0], "b1/e1", 0755), 0);
    T_INT(mkdirat(cg.dirs[0], "b1/e1/x", 0755), 0);
    T_INT(mkdirat(cg.dirs[0], "b1/e2", 0755), 0);
    T_INT(bh_cgroup_remove(&cg, "b1"), 0);
    T_INT(faccessat(cg.dirs[0], "b1", F_OK, 0), -1);
    T_INT(bh_cgroup_remove(&cg, "b1"), 0);
    put("b2/e1/file", "");
    T_INT(bh_cgroup_remove(&cg, "b2"), -1);
    T_INT(faccessat(cg.dirs[0], "b2/e1", F_OK, 0), 0);
}

static void who_is_in_a_group_of_ours(void **state)
{
    static const struct {
        const char *text;
        bool freezer, box;
    } cases[] = {
        {"8:pids:/top/7/b1\n6:freezer:/\n", false, true},
        {"8:pids:/x/top/7/b1/e1\n6:freezer:/x/top/7/b1\n", true, true},
        {"8:pids:/\n6:freezer:/top/7/b1\n", true, false},
        {"8:pids:/top/7/b12\n6:freezer:/top/7/b12\n", false, false},
        {"8:pids:/top/7\n6:freezer:/top/7/b1/e1\n", false, false},
        {"8:pids:/top/71/b1\n1:cpu,cpuacct:/top/7/b1\n", false, true},
        {"8:pids:/\n7:memory:/top/7/b", false, false},
        {"nonsense\n", false, false},
        {"", false, false},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        T_INT(bh_cgroup_says(cases[i].text, true, "7", "b1"), cases[i].freezer);
        T_INT(bh_cgroup_says(cases[i].text, false, "7", "b1"), cases[i].box);
    }
}

static void descriptions_name_what_can_be_had(void **state)
{
    char text[64];
    (void)state;
    (void)snprintf(cg.found, sizeof(cg.found), "cgroup v2 below '/x'");
    bh_cgroup_describe(&cg, text, sizeof(text));
    T_STR(text, "cgroup v2 below '/x' (memory, cpu, pids)");
    bh_cgroup_describe(&cg, text, 12);
    T_STR(text, "cgroup v2 b");
    cg.kind = BH_CGROUP_NONE;
    (void)snprintf(cg.found, sizeof(cg.found), "no");
    bh_cgroup_describe(&cg, text, sizeof(text));
    T_STR(text, "no");
}

static void a_worker_opens_what_the_launcher_made(void **state)
{
    (void)state;
    put("l-1-2/x", "");
    struct bh_cgroup own = {.kind = BH_CGROUP_V2, .can = BH_CGROUP_LIMITS, .name = "l-1-2"};
    int top = bh_cgroup_open_dir(AT_FDCWD, dir);
    T_INT(bh_cgroup_attach(&own, &top, 1), 0);
    T_TRUE(own.dirs[0] >= 0 && own.tops[0] == top && own.dirs[1] < 0);
    int tops[BH_CGROUP_PARTS];
    T_INT(bh_cgroup_tops(&own, tops), 1);
    bh_cgroup_close(&own);
    T_INT(own.kind, BH_CGROUP_NONE);
    own = (struct bh_cgroup){.kind = BH_CGROUP_V2, .can = BH_CGROUP_LIMITS, .name = "l-9-9"};
    top = bh_cgroup_open_dir(AT_FDCWD, dir);
    T_INT(bh_cgroup_attach(&own, &top, 1), -1);
    T_INT(errno, ENOENT);
    T_INT(own.kind, BH_CGROUP_NONE);
    T_INT(own.can, 0);
    own = (struct bh_cgroup){.kind = BH_CGROUP_NONE};
    T_INT(bh_cgroup_attach(&own, NULL, 0), 0);
}

int main(void)
{
#define T_FILES(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v2_alone),
        cmocka_unit_test(v1_with_controllers_together),
        cmocka_unit_test(a_part_of_a_hierarchy),
        cmocka_unit_test(names_with_blanks_and_several_mounts),
        cmocka_unit_test(nonsense_is_nothing),
        T_FILES(limits_of_v2),
        T_FILES(limits_of_v1),
        T_FILES(what_cannot_be_limited_is_told),
        T_FILES(events_of_both),
        T_FILES(usage_of_v2),
        T_FILES(values_and_words),
        T_FILES(processes_that_we_see),
        T_FILES(groups_below_go_first),
        cmocka_unit_test(who_is_in_a_group_of_ours),
        T_FILES(descriptions_name_what_can_be_had),
        T_FILES(a_worker_opens_what_the_launcher_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
