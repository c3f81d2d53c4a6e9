/* SPDX-License-Identifier: Apache-2.0 */
/* Leases carried out in fake boxes: every end that docs/protocol.md lists, and what lies in the box and in the result.
 */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/unit/workers/rig.h"

static void expect(const struct bh_result *result, enum bh_outcome outcome, const char *reason, const char *detail)
{
    if (result->outcome != outcome || !bh_streq(result->reason, reason) ||
        (detail && (!result->detail || !strstr(result->detail, detail))))
        fail_msg("outcome %d, reason %s, detail: %s\nwanted %d, %s, '%s'", (int)result->outcome,
                 result->reason ? result->reason : "none", result->detail ? result->detail : "none", (int)outcome,
                 reason ? reason : "none", detail ? detail : "");
}

#define SUCCEEDED BH_OUTCOME_SUCCEEDED
#define FAILED BH_OUTCOME_FAILED
#define CANCELLED BH_OUTCOME_CANCELLED
#define LOST BH_OUTCOME_LOST

static bool folder_exists(const struct rig *r, const char *name)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/%s", r->home, r->run.s, name);
    return access(path, F_OK) == 0;
}

/* --- good ends --- */

static void test_a_plain_success(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "out:hello\\nworld", "err:oops\\n", "write:out/a.txt=A", "exec:out/b.sh=B");
    rig_add_output(&lease, "a.txt");
    rig_add_output(&lease, "b.sh");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, SUCCEEDED, NULL, NULL);
    assert_null(result->detail);
    T_INT(result->exit_code, 0);
    T_INT(result->epoch, 7);
    T_INT(result->n_outputs, 2);
    rig_expect_object(r, &result->outputs[0], "a.txt", "A");
    rig_expect_object(r, &result->outputs[1], "b.sh", "B");
    T_TRUE(!result->outputs[0].object.executable);
    T_TRUE(result->outputs[1].object.executable);
    T_INT(result->cpu_ms, 7);
    T_INT(result->max_rss_bytes, 4096);
    T_TRUE(result->started.us > 0 && result->ended.us >= result->started.us);
    assert_null(result->kept_box);
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    T_STR(log, "hello\nworld\\|oops\n");
    T_TRUE(fake_boxes_did(r->boxes, "barrier own1"));
    T_TRUE(fake_boxes_did(r->boxes, "destroy own1"));
    T_TRUE(!folder_exists(r, "boxes/own1"));
}

/* --- limits --- */

static void test_limits_are_reasons_and_are_recorded(void **state)
{
    static const struct {
        const char *hit, *end;
        enum bh_outcome outcome;
        const char *reason, *detail;
    } rows[] = {
        {"hit:oom", "signal:9", FAILED, "oom",
         "run was ended by signal 9 (SIGKILL): memory limit of 64MiB was reached"},
        {"hit:pids", "exit:2", FAILED, "pids", "run exited with code 2: pids limit of 9 was reached"},
        {"hit:disk", "exit:1", FAILED, "disk-full",
         "run exited with code 1: disk limit of 10GiB was reached"}, /* usual */
        {"hit:oom", "exit:0", SUCCEEDED, NULL, NULL},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct rig *r = *state;
        struct bh_lease lease = RIG_LEASE(r, rows[i].hit, rows[i].end);
        lease.box.limits.of[BH_LIMIT_MEMORY] = INT64_C(64) << 20;
        lease.box.limits.of[BH_LIMIT_PIDS] = 9;
        lease.box.best_effort = i == 1;
        BH_CLEANUP_FREE char *key = bh_asprintf("limits%zu", i);
        rig_set_text(&lease.box.key, key);
        const struct bh_result *result = rig_run(r, &lease);
        expect(result, rows[i].outcome, rows[i].reason, rows[i].detail);
        T_STR(result->limits,
              i == 1 ? "memory=cgroup-v2 disk=watchdog +best-effort" : "memory=cgroup-v2 disk=watchdog");
        T_INT(result->disk_bytes, 4711);
    }
}

static void test_a_box_that_never_was_held_nothing(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "exit:0");
    r->boxes->fail_create = -BH_E_HOST;
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, FAILED, "host", NULL);
    assert_null(result->limits);
    T_INT(result->disk_bytes, -1);
}

static void test_too_many_arguments_are_counted(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "fail:7=exec"); /* E2BIG */
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, FAILED, "exit", "bytes; the kernel takes 2 MiB of them together");
    T_INT(result->exit_code, 126);
    T_TRUE(strstr(result->detail, "are 0 bytes") == NULL);
}

static void test_nothing_declared_nothing_collected(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a.txt=A");
    expect(rig_run(r, &lease), SUCCEEDED, NULL, NULL);
    T_TRUE(!fake_boxes_did(r->boxes, "barrier own1"));
}

static void test_setup_then_run(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "out:ran\\n", "cat:tool.py");
    RIG_SETUP(&lease, "out:set up", "write:made=x", "cat:tool.py");
    lease.files = bh_calloc(1, sizeof(*lease.files));
    lease.n_files = 1;
    lease.files[0] = (struct bh_lease_file){.path = bh_strdup("tool.py"), .object = rig_store(r, "import x")};
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, SUCCEEDED, NULL, NULL);
    T_INT(result->cpu_ms, 14);
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    T_STR(log, "set upimport x\\ran\nimport x\\|");
    T_TRUE(fake_boxes_did(r->boxes, "exec own1 fake out:set up write:made=x cat:tool.py as root give in /workspace"));
    T_TRUE(fake_boxes_did(r->boxes, "exec own1 fake out:ran\\n cat:tool.py in /workspace"));
}

static void add_input(struct rig *r, struct bh_lease *lease, const char *path, const char *name, const char *text)
{
    lease->inputs = bh_realloc_array(lease->inputs, lease->n_inputs + 1, sizeof(*lease->inputs));
    lease->inputs[lease->n_inputs++] = (struct bh_lease_file){
        .path = bh_strdup(path),
        .name = bh_strdup(name),
        .object = rig_store(r, text),
        .provenance = bh_asprintf("{\"name\":\"%s\"}", name),
    };
}

static void test_what_an_agent_finds(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease =
        RIG_LEASE(r, "cat:in/deep/data.csv", "out:\\n", "cat:in/.provenance.json", "out:\\n", "cat:prompt.md",
                  "out:\\n", "stdin", "out:\\n", "cat:params.json", "out:\\n", "cat:needs.json", "out:\\n", "env:HOME",
                  "env:COLOUR", "env:PATH", "env:LANG", "env:TMPDIR", "env:LD_PRELOAD");
    RIG_SETUP(&lease, "cat:in/deep/data.csv", "cat:prompt.md", "cat:needs.json", "cat:params.json", "env:HOME");
    add_input(r, &lease, "deep/data.csv", "data.csv", "1,2");
    rig_set_text(&lease.prompt, "do it");
    rig_set_text(&lease.params_json, "{\"a\":1}");
    rig_set_text(&lease.needs_json, "[]");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, SUCCEEDED, NULL, NULL);
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    T_STR(log, "absentabsentabsent{\"a\":1}HOME=/root\n" /* setup knows what the document says, no more */
               "1,2\n{\"data.csv\":{\"name\":\"data.csv\"}}\ndo it\ndo it\n{\"a\":1}\n[]\n"
               "HOME=/home/agent\nCOLOUR=blue\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
               "LANG=C.UTF-8\nTMPDIR=/tmp\nLD_PRELOAD unset\n|");
}

static void test_user_root(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "env:HOME", "stdin");
    RIG_SETUP(&lease, "env:HOME");
    rig_set_text(&lease.user, "root");
    rig_set_text(&lease.workdir, "/srv");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, SUCCEEDED, NULL, NULL);
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    T_STR(log, "HOME=/root\nHOME=/root\n|");
    T_TRUE(fake_boxes_did(r->boxes, "exec own1 fake env:HOME as root in /srv")); /* nothing to give away */
    T_TRUE(fake_boxes_did(r->boxes, "exec own1 fake env:HOME stdin as root in /srv"));
}

static bool is_held(struct rig *r, const void *arg)
{
    (void)arg;
    return fake_boxes_has_held(r->boxes);
}

/* One that stands still in each phase is told of there, in order. */
static void test_states_are_told(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1", "graceful");
    RIG_SETUP(&lease, "graceful");
    lease.setup_ns = lease.run_ns = 50 * BH_NS_PER_MS;
    rig_add_output(&lease, "a");
    r->boxes->held = "create";
    struct bh_instance_id instance = rig_send(r, &lease);
    rig_until(r, is_held, NULL);
    rig_until_said(r, "state 1 booting");
    fake_boxes_go_on(r->boxes);
    rig_until_said(r, "state 1 setup");
    T_STR(rig_result(r, instance)->reason, "timeout(setup)");
    struct bh_lease next = RIG_LEASE(r, "write:out/a=1");
    rig_add_output(&next, "a");
    r->boxes->held = "open";
    instance = rig_send(r, &next);
    rig_until_said(r, "state 2 collecting");
    fake_boxes_go_on(r->boxes);
    T_INT(rig_result(r, instance)->outcome, SUCCEEDED);
    T_TRUE(!rig_said(r, "state 2 running")); /* overtaken */
}

/* --- bad ends of commands --- */

struct bad_end {
    const char *step;
    const char *reason, *detail;
    int exit_code, signal;
};

static void test_how_commands_end_badly(void **state)
{
    struct rig *r = *state;
    static const struct bad_end ends[] = {
        {"exit:1", "exit", "exited with code 1", 1, 0},
        {"exit:126", "exit", "exited with code 126", 126, 0},
        {"exit:127", "exit", "exited with code 127", 127, 0},
        {"exit:255", "exit", "exited with code 255", 255, 0},
        {"signal:9", "signal", "was ended by signal 9 (SIGKILL)", -1, 9},
        {"signal:11", "signal", "was ended by signal 11 (SIGSEGV)", -1, 11},
        {"signal:40", "signal", "was ended by signal 40", -1, 40},
        {"fail:2=exec", "exit", "command 'fake' was not found in the box", 127, 0},
        {"fail:13=exec", "exit", "command 'fake': Permission denied", 126, 0},
        {"fail:8=exec", "exit", "command 'fake': Exec format error", 126, 0},
        {"fail:7=exec", "exit", "arguments and the environment of command 'fake'", 126, 0},
        {"fail:12=exec", "host", "cannot exec fake: Cannot allocate memory", -1, 0},
        {"fail:2=enter the working directory '/nope'", "exit",
         "cannot enter the working directory '/nope': No such file or directory", 126, 0},
        {"fail:21=copy a\x1b"
         "b",
         "exit", "cannot copy a\\x1Bb: Is a directory", 126, 0},
        {"fail:20=use /workspace/in", "exit", "cannot use /workspace/in: Not a directory", 126, 0},
        {"fail:28=copy a", "host", "cannot copy a: No space left on device", -1, 0},
        {"fail:1=attach /proc", "host", "cannot attach /proc: Operation not permitted", -1, 0},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(ends); i++) {
        for (int in_setup = 0; in_setup < 2; in_setup++) {
            struct bh_lease lease = RIG_LEASE(r, in_setup ? "exit:0" : ends[i].step);
            if (in_setup)
                RIG_SETUP(&lease, ends[i].step);
            rig_add_output(&lease, "never");
            const struct bh_result *result = rig_run(r, &lease);
            expect(result, FAILED, ends[i].reason, ends[i].detail);
            T_TRUE(bh_starts_with(result->detail, in_setup ? "setup " : "run "));
            T_INT(result->exit_code, ends[i].exit_code);
            T_INT(result->signal, ends[i].signal);
            T_INT(result->n_outputs, 0);
        }
    }
}

static void test_a_missing_interpreter_is_mentioned(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "fail:2=exec");
    rig_set_text(&lease.run_argv[0], "./tool\n.py");
    expect(rig_run(r, &lease), FAILED, "exit",
           "command './tool\\x0A.py' was not found in the box (or the interpreter that its first line names)");
}

static void test_timeouts(void **state)
{
    struct rig *r = *state;
    for (int in_setup = 0; in_setup < 2; in_setup++) {
        struct bh_lease lease = RIG_LEASE(r, in_setup ? "exit:0" : "hang");
        if (in_setup)
            RIG_SETUP(&lease, "hang");
        lease.setup_ns = in_setup ? BH_NS_PER_MS : lease.setup_ns;
        lease.run_ns = BH_NS_PER_MS;
        const struct bh_result *result = rig_run(r, &lease);
        expect(result, FAILED, in_setup ? "timeout(setup)" : "timeout(run)", "took longer than");
        T_INT(result->signal, SIGTERM);
        T_TRUE(!strstr(result->detail, "did not end"));
    }
}

static void test_a_stubborn_one_is_killed_after_its_grace(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "stubborn");
    lease.run_ns = BH_NS_PER_MS;
    lease.grace_ns = BH_NS_PER_MS;
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, FAILED, "timeout(run)", "did not end when asked to");
    T_INT(result->signal, SIGKILL);
    T_TRUE(strstr(r->boxes->journal.data, "kill 15\nkill 9\n") != NULL);
}

static void test_no_grace_is_a_kill_at_once(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "graceful");
    lease.run_ns = 0;
    lease.grace_ns = 0;
    expect(rig_run(r, &lease), FAILED, "timeout(run)", NULL);
    T_TRUE(!fake_boxes_did(r->boxes, "kill 15"));
}

static void test_an_exit_in_the_grace_is_still_a_timeout(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1", "graceful");
    lease.run_ns = BH_NS_PER_MS;
    rig_add_output(&lease, "a");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, FAILED, "timeout(run)", NULL);
    T_INT(result->exit_code, 0);
    T_INT(result->n_outputs, 0);
}

/* --- the box --- */

static void test_a_box_that_cannot_be_made(void **state)
{
    struct rig *r = *state;
    r->boxes->fail_create = -BH_E_HOST;
    struct bh_lease lease = RIG_LEASE(r, "exit:0");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, FAILED, "host", "making the box: the fake refuses to create");
    assert_null(result->kept_box);
    T_INT(result->started.us, 0);
    T_INT(result->exit_code, -1);
}

static void test_a_barrier_that_fails(void **state)
{
    struct rig *r = *state;
    r->boxes->fail_barrier = -BH_E_BUSY;
    struct bh_lease lease = RIG_LEASE(r, "write:out/a=1");
    rig_add_output(&lease, "a");
    const struct bh_result *result = rig_run(r, &lease);
    expect(result, FAILED, "host", "closing the box for its outputs: the fake refuses to barrier");
    T_INT(result->exit_code, 0);
}

static void test_what_is_kept(void **state)
{
    struct rig *r = *state;
    static const struct {
        enum bh_lease_keep keep;
        const char *step;
        bool kept;
    } cases[] = {
        {BH_LEASE_KEEP_ON_FAILURE, "exit:0", false}, {BH_LEASE_KEEP_ON_FAILURE, "exit:1", true},
        {BH_LEASE_KEEP_ALWAYS, "exit:0", true},      {BH_LEASE_KEEP_ALWAYS, "exit:1", true},
        {BH_LEASE_KEEP_NEVER, "exit:0", false},      {BH_LEASE_KEEP_NEVER, "exit:1", false},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct bh_lease lease = RIG_LEASE(r, cases[i].step);
        lease.keep = cases[i].keep;
        const struct bh_result *result = rig_run(r, &lease);
        BH_CLEANUP_FREE char *want = bh_asprintf("runs/%s/boxes/own%zu", r->run.s, i + 1);
        BH_CLEANUP_FREE char *folder = bh_asprintf("boxes/own%zu", i + 1);
        if (cases[i].kept)
            T_STR(result->kept_box, want);
        else
            assert_null(result->kept_box);
        T_INT(folder_exists(r, folder), cases[i].kept);
    }
}

static void test_a_damaged_store_is_the_hosts_fault(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = RIG_LEASE(r, "exit:0");
    add_input(r, &lease, "x", "x", "text");
    lease.inputs[0].object.digest = bh_digest_of("absent", 6);
    expect(rig_run(r, &lease), FAILED, "host", "delivering into the box: delivering 'x'");
}

/* The log is what cannot be written: the agent is not disturbed, and told of. */
static void test_a_log_that_cannot_be_written(void **state)
{
    struct rig *r = *state;
    struct bh_lease first = RIG_LEASE(r, "exit:0");
    expect(rig_run(r, &first), SUCCEEDED, NULL, NULL); /* makes the folders */
    struct bh_lease lease = RIG_LEASE(r, "out:12345");
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/logs/%s.log", r->home, r->run.s, lease.instance.s);
    T_OK(bh_write_file_atomic(path, "", 0, 0600, &err));
    expect(rig_run(r, &lease), SUCCEEDED, NULL, "5 bytes of its output could not be logged: ");
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_plain_success),
        TEST(test_limits_are_reasons_and_are_recorded),
        TEST(test_a_box_that_never_was_held_nothing),
        TEST(test_too_many_arguments_are_counted),
        TEST(test_nothing_declared_nothing_collected),
        TEST(test_setup_then_run),
        TEST(test_what_an_agent_finds),
        TEST(test_user_root),
        TEST(test_states_are_told),
        TEST(test_how_commands_end_badly),
        TEST(test_a_missing_interpreter_is_mentioned),
        TEST(test_timeouts),
        TEST(test_a_stubborn_one_is_killed_after_its_grace),
        TEST(test_no_grace_is_a_kill_at_once),
        TEST(test_an_exit_in_the_grace_is_still_a_timeout),
        TEST(test_a_box_that_cannot_be_made),
        TEST(test_a_barrier_that_fails),
        TEST(test_what_is_kept),
        TEST(test_a_damaged_store_is_the_hosts_fault),
        TEST(test_a_log_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
