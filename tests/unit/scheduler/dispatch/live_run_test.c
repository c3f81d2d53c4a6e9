/* SPDX-License-Identifier: Apache-2.0 */
/* What a run keeps of the limits that its owner began with, and what leases are made of them. */
#include "scheduler/dispatch/live_run.h"

#include "base/val.h"
#include "scheduler/dispatch/lease_make.h"
#include "tests/support/t.h"
#include "tests/unit/scheduler/dispatch/run_fixture.h"

static const char text[] =
    "version: 1\nname: t\ndefaults: {limits: {pids: 64}}\n"
    "boxes: {lab: {limits: {disk: 1MiB, nofile: 64}}}\nagents:\n"
    "- {name: own, run: x, topology: per-agent, outputs: [o], limits: {memory: 64MiB, disk: 2MiB}}\n"
    "- {name: a, run: x, box: lab, outputs: [p], limits: {output: 1MiB}}\n"
    "- {name: b, run: x, box: lab, limits: {cpus: 64}}\n";

static int set_up(void **state)
{
    struct fixture *f = run_fixture_new(text);
    *state = f;
    return 0;
}

static void begin(struct fixture *f, enum bh_event_kind kind, const char *limits)
{
    struct bh_event event = {.kind = kind};
    struct bh_val *extra = bh_val_map();
    if (limits)
        bh_val_set_str(extra, "limits", limits);
    T_TRUE(bh_live_run_apply(f->run, &event, extra));
    T_OK(bh_live_run_commit(f->run, &err));
}

static void recorded(struct fixture *f, const char *want)
{
    struct bh_run_row row = {0};
    T_OK(bh_store_get_run(f->store, f->id.s, &row, &err));
    if (want)
        T_STR(row.limits, want);
    else
        assert_null(row.limits);
    bh_run_row_fini(&row);
    bh_live_run_free(f->run);
    T_OK(bh_live_run_load(f->store, f->id.s, &f->run, &err));
    if (want)
        T_STR(bh_live_run_limits(f->run), want);
    else
        assert_null(bh_live_run_limits(f->run));
}

/* It is the present owner's: who goes on on a better host goes on with limits that hold. */
static void best_effort_is_recorded_with_its_owner(void **state)
{
    struct fixture *f = *state;
    begin(f, BH_EV_START, "best-effort: memory cpus");
    recorded(f, "best-effort: memory cpus");
    begin(f, BH_EV_OWNER, NULL);
    recorded(f, NULL);
    begin(f, BH_EV_OWNER, "best-effort: cpus");
    recorded(f, "best-effort: cpus");
}

static struct bh_lease lease_for(struct fixture *f, size_t node)
{
    struct bh_lease lease = {0};
    struct bh_lease_order order = {.epoch = 1, .node = node, .attempt = 1, .try_ = 1, .box_key = "k"};
    snprintf(order.instance.s, sizeof(order.instance.s), "%s-000001", f->id.s);
    T_OK(bh_lease_make(f->run, &order, &lease, &err));
    return lease;
}

static void a_lease_has_the_limits_of_box_and_agent(void **state)
{
    struct fixture *f = *state;
    begin(f, BH_EV_START, NULL);
    struct bh_lease own = lease_for(f, 0), a = lease_for(f, 1), b = lease_for(f, 2);
    T_INT(own.box.limits.of[BH_LIMIT_MEMORY], 64 << 20);
    T_INT(own.box.limits.of[BH_LIMIT_PIDS], 64);
    T_INT(own.outputs[0].max_size, 2 << 20); /* no more than its disk */
    T_TRUE(!own.box.best_effort);
    T_INT(a.box.limits.of[BH_LIMIT_DISK], 1 << 20);
    T_INT(a.box.limits.of[BH_LIMIT_CPUS], 64000); /* room for the agent that asks for most */
    T_INT(a.box.limits.asked & 1u << BH_LIMIT_CPUS, 0);
    T_INT(a.limits.of[BH_LIMIT_CPUS], 0);
    T_INT(a.limits.of[BH_LIMIT_OUTPUT], 1 << 20);
    T_INT(a.limits.of[BH_LIMIT_NOFILE], 64);
    T_INT(a.outputs[0].max_size, 1 << 20);
    T_INT(b.limits.of[BH_LIMIT_CPUS], 64000);
    bh_lease_fini(&own);
    bh_lease_fini(&a);
    bh_lease_fini(&b);
    begin(f, BH_EV_OWNER, "best-effort: cpus");
    b = lease_for(f, 2);
    T_TRUE(b.box.best_effort);
    bh_lease_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(best_effort_is_recorded_with_its_owner, set_up, run_fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_lease_has_the_limits_of_box_and_agent, set_up, run_fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
