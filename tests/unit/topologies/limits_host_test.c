/* SPDX-License-Identifier: Apache-2.0 */
/* Limits against a host: what is usual, and what no host can give. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/t.h"
#include "topologies/limits.h"

#define GIB (INT64_C(1) << 30)

static void the_usual_is_filled_in(void **state)
{
    struct bh_limits l = {0};
    (void)state;
    bh_limits_fill(&l, 64 * GIB);
    T_INT(l.of[BH_LIMIT_MEMORY], 2 * GIB);
    T_INT(l.of[BH_LIMIT_CPUS], 2000);
    T_INT(l.of[BH_LIMIT_PIDS], 1024);
    T_INT(l.of[BH_LIMIT_DISK], 10 * GIB);
    T_INT(l.of[BH_LIMIT_INODES], 500000);
    T_INT(l.of[BH_LIMIT_NOFILE], 1024);
    T_INT(l.of[BH_LIMIT_OUTPUT], 0);
    T_INT(l.asked, 0);
}

static void a_small_host_gives_a_quarter(void **state)
{
    struct bh_limits l = {0};
    (void)state;
    bh_limits_fill(&l, 4 * GIB);
    T_INT(l.of[BH_LIMIT_MEMORY], GIB);
}

static void what_was_said_stays(void **state)
{
    struct bh_limits l = {.of = {[BH_LIMIT_MEMORY] = 8 * GIB, [BH_LIMIT_PIDS] = 7}, .asked = 1u << BH_LIMIT_PIDS};
    (void)state;
    bh_limits_fill(&l, 4 * GIB);
    T_INT(l.of[BH_LIMIT_MEMORY], 8 * GIB);
    T_INT(l.of[BH_LIMIT_PIDS], 7);
    T_INT(l.asked, 1u << BH_LIMIT_PIDS);
}

static void more_than_the_host_has_is_refused_with_both_numbers(void **state)
{
    struct bh_limits l = {.of = {[BH_LIMIT_MEMORY] = 64 * GIB}, .asked = 1u << BH_LIMIT_MEMORY};
    (void)state;
    T_ERR(bh_limits_fit(&l, 16 * GIB + 12345, 4, &err), BH_E_HOST, "'memory: 64GiB' is more than the 16GiB");
    T_OK(bh_limits_fit(&l, 64 * GIB, 4, &err));
    l = (struct bh_limits){.of = {[BH_LIMIT_CPUS] = 4500}, .asked = 1u << BH_LIMIT_CPUS};
    T_ERR(bh_limits_fit(&l, GIB, 4, &err), BH_E_HOST, "'cpus: 4.5' is more than the 4");
    l.of[BH_LIMIT_CPUS] = 4000;
    T_OK(bh_limits_fit(&l, GIB, 4, &err));
}

static void what_is_only_usual_fits_everywhere(void **state)
{
    struct bh_limits l = {.of = {[BH_LIMIT_MEMORY] = 64 * GIB, [BH_LIMIT_CPUS] = 64000}};
    (void)state;
    T_OK(bh_limits_fit(&l, GIB, 1, &err));
}

static void set_hard_limit_of_processes(rlim_t n)
{
    T_INT(setrlimit(RLIMIT_NPROC, &(struct rlimit){n, n}), 0);
}

/* Lowers a limit of this process for good: a child does. */
static void more_processes_than_we_may_have(void)
{
    struct bh_limits l = {.of = {[BH_LIMIT_PIDS] = 101}, .asked = 1u << BH_LIMIT_PIDS};
    set_hard_limit_of_processes(100);
    T_ERR(bh_limits_fit(&l, GIB, 4, &err), BH_E_HOST,
          "'pids: 101' is more than the 100 of our own hard limit of processes");
    l.of[BH_LIMIT_PIDS] = 100;
    T_OK(bh_limits_fit(&l, GIB, 4, &err));
    l = (struct bh_limits){.of = {[BH_LIMIT_PIDS] = 101}};
    T_OK(bh_limits_fit(&l, GIB, 4, &err));
    _exit(0);
}

static void more_processes_than_there_are_ids(void **state)
{
    struct bh_limits l = {.of = {[BH_LIMIT_PIDS] = 4194305}, .asked = 1u << BH_LIMIT_PIDS};
    int status = -1;
    (void)state;
    T_ERR(bh_limits_fit(&l, GIB, 4, &err), BH_E_HOST, "of this host's kernel.pid_max");
    pid_t pid = fork();
    if (pid == 0)
        more_processes_than_we_may_have();
    T_INT(waitpid(pid, &status, 0), pid);
    T_INT(status, 0);
}

static void this_host_has_something(void **state)
{
    int64_t memory = 0;
    int cpus = 0;
    (void)state;
    bh_limits_host(&memory, &cpus);
    T_TRUE(memory > (1 << 20) && cpus >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_is_filled_in),
        cmocka_unit_test(a_small_host_gives_a_quarter),
        cmocka_unit_test(what_was_said_stays),
        cmocka_unit_test(more_than_the_host_has_is_refused_with_both_numbers),
        cmocka_unit_test(what_is_only_usual_fits_everywhere),
        cmocka_unit_test(more_processes_than_there_are_ids),
        cmocka_unit_test(this_host_has_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
