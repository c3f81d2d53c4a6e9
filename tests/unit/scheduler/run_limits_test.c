/* SPDX-License-Identifier: Apache-2.0 */
/* What a document asks for against what a backend can enforce. */
#include "scheduler/run_limits.h"

#include <sys/resource.h>

#include "base/mem.h"
#include "tests/support/t.h"
#include "workers/box/box.h"

#define HEAD "version: 1\nname: t\n"
#define BIT(limit) (1u << BH_LIMIT_##limit)
#define PLACE ", which this host cannot enforce: "

static uint32_t can;
static const char *reason;

static uint32_t enforceable(const struct bh_boxes *b)
{
    (void)b;
    return can;
}

static const char *why_not(const struct bh_boxes *b)
{
    (void)b;
    return reason;
}

static const struct bh_box_ops ops = {.name = "test", .enforceable = enforceable, .why_not = why_not};
static const struct bh_box_ops mute_ops = {.name = "test", .enforceable = enforceable};

struct outcome {
    int rc;
    char *watched;
    struct bh_errlist errors;
};

static void outcome_fini(struct outcome *o)
{
    bh_free(o->watched);
    bh_errlist_fini(&o->errors);
}

static struct outcome check(const char *yaml, bool best_effort, const struct bh_box_ops *with)
{
    struct outcome o = {0};
    BH_CLEANUP_PIPELINE struct bh_pipeline *pipeline = NULL;
    BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
    BH_CLEANUP_FREE char *text = bh_asprintf("%s%s", HEAD, yaml);
    const struct bh_plan_options options = {0};
    const struct bh_boxes boxes = {.ops = with};
    const struct bh_policy policy = {.sites = {{.best_effort = best_effort}}, .n = 1};
    T_INT(bh_pipeline_load("p.yaml", text, strlen(text), &pipeline, &o.errors), 0);
    T_INT(bh_plan_make(pipeline, &options, &plan, &o.errors), 0);
    o.rc = bh_run_limits_check(plan, &boxes, &policy, &o.watched, &o.errors);
    return o;
}

static void refused_once(const char *yaml, int line, int column, const char *path, const char *message)
{
    struct outcome o = check(yaml, false, &ops);
    T_INT(o.rc, -BH_E_HOST);
    assert_null(o.watched);
    T_INT(o.errors.len, 1);
    const struct bh_err *err = o.errors.items[0];
    if (bh_err_line(err) != line || bh_err_column(err) != column || strcmp(bh_err_path(err), path) != 0 ||
        strcmp(bh_err_message(err), message) != 0)
        fail_msg("%d:%d: %s: %s", bh_err_line(err), bh_err_column(err), bh_err_path(err), bh_err_message(err));
    T_INT(bh_err_code(err), BH_E_HOST);
    T_TRUE(strstr(bh_err_get_hint(err), "limits: best-effort") && strstr(bh_err_get_hint(err), "Delegate=yes"));
    outcome_fini(&o);
}

static void who_asks_is_named(void **state)
{
    (void)state;
    can = BIT(DISK) | BIT(NOFILE);
    reason = "no cgroup may be written";
    refused_once("agents: [{name: a, run: x, topology: per-agent, limits: {memory: 64MiB}}]\n", 3, 57,
                 "agents[0].limits", "agent 'a' asks for memory 64MiB" PLACE "no cgroup may be written");
    refused_once("agents: [{name: a, run: x, limits: {memory: 64MiB, cpus: 0.5, pids: 9}}]\n", 3, 36,
                 "agents[0].limits",
                 "agent 'a' asks for memory 64MiB, cpus 0.5 and pids 9" PLACE "no cgroup may be written");
    refused_once("defaults: {limits: {cpus: 1}}\nagents: [{name: a, run: x}, {name: b, run: x}]\n", 3, 20,
                 "defaults.limits", "box 'crew' asks for cpus 1" PLACE "no cgroup may be written");
    refused_once("boxes: {lab: {limits: {pids: 9}}}\nagents: [{name: a, run: x, box: lab}]\n", 3, 23,
                 "boxes.lab.limits", "box 'lab' asks for pids 9" PLACE "no cgroup may be written");
}

#define MANY                                                                                              \
    "topology: per-agent\ndefaults: {limits: {cpus: 1}}\nagents:\n- {name: a, run: x}\n- {name: b, run: " \
    "x}\n"

/* Many that have it from one place are one error. */
static void many_are_one_error(void **state)
{
    (void)state;
    can = 0;
    reason = NULL;
    refused_once(MANY, 4, 20, "agents[0].limits",
                 "agents 'a' and 'b' ask for cpus 1" PLACE "there is no control group that bulkhead may use");
    refused_once(MANY "- {name: c, run: x}\n- {name: d, run: x}\n- {name: e, run: x}\n- {name: f, run: x}\n"
                      "- {name: g, run: x}\n",
                 4, 20, "agents[0].limits",
                 "agents 'a', 'b', 'c', 'd', 'e' and 2 more ask for cpus 1" PLACE
                 "there is no control group that bulkhead may use");
}

static void every_place_is_said(void **state)
{
    (void)state;
    can = 0;
    struct outcome o = check("boxes: {crew: {limits: {pids: 50}}}\nagents:\n- {name: a, run: x, limits: {pids: 9}}\n"
                             "- {name: b, run: x, topology: per-agent, limits: {memory: 1GiB}}\n",
                             false, &mute_ops);
    T_INT(o.rc, -BH_E_HOST);
    T_INT(o.errors.len, 3);
    T_INT(bh_err_line(o.errors.items[0]), 3);
    T_INT(bh_err_line(o.errors.items[1]), 5);
    T_INT(bh_err_line(o.errors.items[2]), 6);
    outcome_fini(&o);
}

static void what_nobody_asks_for_is_not_missed(void **state)
{
    (void)state;
    can = 0;
    struct outcome o = check("agents: [{name: a, run: x, limits: {output: 1MiB}}]\n", false, &ops);
    T_INT(o.rc, 0);
    assert_null(o.watched);
    outcome_fini(&o);
}

static void the_site_may_allow_it(void **state)
{
    (void)state;
    can = BIT(PIDS);
    struct outcome o = check(
        "agents: [{name: a, run: x, topology: per-agent, limits: {memory: 64MiB, pids: 9, disk: 1MiB}}]\n", true, &ops);
    T_INT(o.rc, 0);
    T_STR(o.watched, "best-effort: memory disk");
    BH_CLEANUP_FREE char *list = bh_run_limits_list(o.watched);
    T_STR(list, "memory, disk");
    outcome_fini(&o);
    can = ~0u;
    o = check("agents: [{name: a, run: x, limits: {memory: 64MiB}}]\n", true, &ops);
    T_INT(o.rc, 0);
    assert_null(o.watched); /* allowed, and not needed */
    outcome_fini(&o);
    assert_null(bh_run_limits_list(NULL));
    assert_null(bh_run_limits_list("enforced"));
}

static void more_than_the_host_has(void **state)
{
    (void)state;
    can = ~0u;
    for (int best_effort = 0; best_effort < 2; best_effort++) {
        struct outcome o =
            check("topology: per-agent\ndefaults: {limits: {memory: 1000TiB}}\nagents: [{name: a, run: x}, {name: b, "
                  "run: x}, {name: c, run: x, limits: {memory: 64MiB, cpus: 65536}}]\n",
                  best_effort, &ops);
        T_INT(o.rc, -BH_E_HOST);
        T_INT(o.errors.len, 2);
        T_TRUE(strstr(bh_err_message(o.errors.items[0]), "agent 'a': the limit 'memory: 1000TiB' is more than the"));
        T_INT(bh_err_line(o.errors.items[0]), 4);
        T_TRUE(strstr(bh_err_message(o.errors.items[1]), "agent 'c': the limit 'cpus: 65536' is more than the"));
        T_STR(bh_err_path(o.errors.items[1]), "agents[2].limits");
        outcome_fini(&o);
    }
}

/* What is advised is what would help here. */
static void the_hint_fits(void **state)
{
    static const char yaml[] = "version: 1\nname: t\nagents: [{name: a, run: x, limits: {cpus: 1}}]\n";
    BH_CLEANUP_PIPELINE struct bh_pipeline *pipeline = NULL;
    BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
    struct bh_errlist errors = {0};
    const struct bh_plan_options options = {0};
    const struct bh_boxes boxes = {.ops = &ops};
    const struct bh_policy policy = {.sites = {{.file = (char *)(uintptr_t) "/other/site.yaml"}}, .n = 1};
    char *watched = NULL;
    (void)state;
    can = 0;
    reason = "no control groups are used: BULKHEAD_CGROUP is off";
    T_INT(bh_pipeline_load("p.yaml", yaml, strlen(yaml), &pipeline, &errors), 0);
    T_INT(bh_plan_make(pipeline, &options, &plan, &errors), 0);
    T_INT(bh_run_limits_check(plan, &boxes, &policy, &watched, &errors), -BH_E_HOST);
    const char *hint = bh_err_get_hint(errors.items[0]);
    T_TRUE(strstr(hint, "unset BULKHEAD_CGROUP, ") && strstr(hint, "'limits: best-effort' in /other/site.yaml;"));
    T_TRUE(!strstr(hint, "as root") && !strstr(hint, BH_SITE_FILE));
    bh_errlist_fini(&errors);
}

static void more_processes_than_there_can_be(void **state)
{
    (void)state;
    can = ~0u;
    struct outcome o = check("agents: [{name: a, run: x, limits: {pids: 99999999}}]\n", false, &ops);
    T_INT(o.rc, -BH_E_HOST);
    T_TRUE(strstr(bh_err_message(o.errors.items[0]), "agent 'a': the limit 'pids: 99999999' is more than the "));
    T_STR(bh_err_path(o.errors.items[0]), "agents[0].limits");
    outcome_fini(&o);
}

static void more_open_files_than_the_hard_limit(void **state)
{
    struct rlimit old;
    (void)state;
    can = ~0u;
    T_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    const struct rlimit few = {.rlim_cur = 256, .rlim_max = 256};
    T_INT(setrlimit(RLIMIT_NOFILE, &few), 0); /* for good: this test is the last */
    struct outcome o = check("agents: [{name: a, run: x, topology: per-agent, limits: {nofile: 257}}]\n", true, &ops);
    T_INT(o.rc, -BH_E_HOST);
    T_STR(bh_err_message(o.errors.items[0]),
          "agent 'a': the limit 'nofile: 257' is more than the 256 that this host has");
    outcome_fini(&o);
    o = check("agents: [{name: a, run: x, topology: per-agent, limits: {nofile: 256}}]\n", false, &ops);
    T_INT(o.rc, 0);
    outcome_fini(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_is_named),
        cmocka_unit_test(many_are_one_error),
        cmocka_unit_test(every_place_is_said),
        cmocka_unit_test(what_nobody_asks_for_is_not_missed),
        cmocka_unit_test(the_site_may_allow_it),
        cmocka_unit_test(more_than_the_host_has),
        cmocka_unit_test(the_hint_fits),
        cmocka_unit_test(more_processes_than_there_can_be),
        cmocka_unit_test(more_open_files_than_the_hard_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
