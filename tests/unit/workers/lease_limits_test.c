/* SPDX-License-Identifier: Apache-2.0 */
/* What the limits of a lease come to: its box's, its own, and what is usual. */
#include "workers/lease_limits.h"

#include "tests/support/t.h"

#define MIB (INT64_C(1) << 20)

static struct bh_lease lease_of(bool shared)
{
    struct bh_lease l = {.box.shared = shared};
    l.box.limits.of[BH_LIMIT_MEMORY] = 512 * MIB;
    l.box.limits.of[BH_LIMIT_NOFILE] = 64;
    l.box.limits.asked = 1u << BH_LIMIT_MEMORY | 1u << BH_LIMIT_NOFILE;
    l.limits.of[BH_LIMIT_MEMORY] = 64 * MIB;
    l.limits.of[BH_LIMIT_NOFILE] = 64;
    l.limits.of[BH_LIMIT_OUTPUT] = MIB;
    l.limits.asked = 1u << BH_LIMIT_MEMORY | 1u << BH_LIMIT_OUTPUT;
    return l;
}

static void a_box_has_what_is_usual_where_nobody_says(void **state)
{
    struct bh_lease l = lease_of(true);
    int64_t memory;
    int cpus;
    (void)state;
    struct bh_limits box = bh_box_limits(&l.box);
    T_INT(box.of[BH_LIMIT_MEMORY], 512 * MIB);
    T_INT(box.of[BH_LIMIT_PIDS], 1024);
    T_INT(box.of[BH_LIMIT_DISK], INT64_C(10) << 30);
    T_INT(box.of[BH_LIMIT_OUTPUT], 0);
    T_INT(box.asked, l.box.limits.asked); /* what is usual was not asked for */
    l.box.limits.of[BH_LIMIT_MEMORY] = 0;
    bh_limits_host(&memory, &cpus);
    box = bh_box_limits(&l.box);
    T_TRUE(box.of[BH_LIMIT_MEMORY] > 0 && box.of[BH_LIMIT_MEMORY] <= memory / 4 && cpus > 0);
}

static void an_exec_has_a_group_in_a_shared_box_alone(void **state)
{
    (void)state;
    struct bh_lease shared = lease_of(true), own = lease_of(false);
    struct bh_limits exec = bh_exec_limits(&shared);
    T_INT(exec.of[BH_LIMIT_MEMORY], 64 * MIB);
    T_INT(exec.of[BH_LIMIT_CPUS], 0); /* those of the box hold */
    T_INT(exec.of[BH_LIMIT_NOFILE], 64);
    T_INT(exec.of[BH_LIMIT_OUTPUT], 0);
    exec = bh_exec_limits(&own);
    T_INT(exec.of[BH_LIMIT_MEMORY], 0);
    T_INT(exec.of[BH_LIMIT_NOFILE], 64);
    own.box.limits.of[BH_LIMIT_NOFILE] = own.limits.of[BH_LIMIT_NOFILE] = 0;
    T_INT(bh_exec_limits(&own).of[BH_LIMIT_NOFILE], 1024);
}

static void its_own_come_before_those_of_the_box(void **state)
{
    (void)state;
    struct bh_lease l = lease_of(true);
    struct bh_limits all = bh_limits_in_force(&l);
    T_INT(all.of[BH_LIMIT_MEMORY], 64 * MIB);
    T_INT(all.of[BH_LIMIT_PIDS], 1024);
    l.limits.of[BH_LIMIT_MEMORY] = 0;
    T_INT(bh_limits_in_force(&l).of[BH_LIMIT_MEMORY], 512 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_box_has_what_is_usual_where_nobody_says),
        cmocka_unit_test(an_exec_has_a_group_in_a_shared_box_alone),
        cmocka_unit_test(its_own_come_before_those_of_the_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
