/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker with real boxes: the ends of commands as the kernel tells them, outputs that real agents leave, boxes that
 * are shared, frozen and killed from outside. One rig for all tests; each has instances and boxes of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/integration/ns_rig.h"
#include "tests/unit/workers/rig.h"
#include "workers/logs/log_file.h"

static struct rig *r;

static int group_setup(void **state)
{
    (void)state;
    r = ns_rig_new();
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    if (r)
        rig_free(r);
    return 0;
}

static int needs_boxes(void **state)
{
    (void)state;
    if (!r)
        t_skip("boxes", ns_rig_why());
    return 0;
}

static struct bh_lease shell(const char *script)
{
    struct bh_lease lease = RIG_LEASE(r, "");
    RIG_RUN(&lease, "/bin/sh", "-ceu", script);
    lease.grace_ns = 5 * BH_NS_PER_S;
    return lease;
}

static void set_setup(struct bh_lease *lease, const char *script)
{
    rig_set_argv(&lease->setup, &lease->n_setup, (const char *const[]){"/bin/sh", "-ceu", script, NULL});
}

static const struct bh_result *expect(const struct bh_result *result, enum bh_outcome outcome, const char *reason,
                                      const char *detail)
{
    if (result->outcome != outcome || !bh_streq(result->reason, reason) ||
        (detail && (!result->detail || !strstr(result->detail, detail)))) {
        BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
        fail_msg("outcome %d, reason %s, detail: %s\nwanted %d, %s, '%s'\nlog: %s", (int)result->outcome,
                 result->reason ? result->reason : "none", result->detail ? result->detail : "none", (int)outcome,
                 reason ? reason : "none", detail ? detail : "", log);
    }
    return result;
}
#define SUCCEEDED BH_OUTCOME_SUCCEEDED
#define FAILED BH_OUTCOME_FAILED

static void expect_log(const struct bh_result *result, const char *want)
{
    BH_CLEANUP_FREE char *log = rig_log(r, result->instance);
    T_STR(log, want);
}

static void test_a_plain_success(void **state)
{
    (void)state;
    struct bh_lease lease = shell("id -u; pwd; echo to err >&2; cat in/data.csv; cat; cat params.json; "
                                  "echo A > out/a; printf '#!/bin/sh\\n' > out/b; chmod +x out/b");
    lease.inputs = bh_calloc(1, sizeof(*lease.inputs));
    lease.n_inputs = 1;
    lease.inputs[0] = (struct bh_lease_file){.path = bh_strdup("data.csv"),
                                             .name = bh_strdup("data.csv"),
                                             .object = rig_store(r, "1,2\n"),
                                             .provenance = bh_strdup("{}")};
    rig_set_text(&lease.prompt, "do it\n");
    rig_add_output(&lease, "a");
    rig_add_output(&lease, "b");
    const struct bh_result *result = expect(rig_run(r, &lease), SUCCEEDED, NULL, NULL);
    expect_log(result, "1000\n/workspace\n1,2\ndo it\n{}\\|to err\n");
    rig_expect_object(r, &result->outputs[0], "a", "A\n");
    T_TRUE(result->outputs[1].object.executable);
    T_TRUE(result->max_rss_bytes > 0);
}

static void test_exact_ends(void **state)
{
    (void)state;
    static const struct {
        const char *script, *reason;
        int exit_code, signal;
    } ends[] = {
        {"exit 1", "exit", 1, 0},          {"exit 126", "exit", 126, 0},    {"exit 127", "exit", 127, 0},
        {"exit 255", "exit", 255, 0},      {"kill -9 $$", "signal", -1, 9}, {"kill -11 $$", "signal", -1, 11},
        {"kill -15 $$", "signal", -1, 15},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(ends); i++) {
        struct bh_lease lease = shell(ends[i].script);
        const struct bh_result *result = expect(rig_run(r, &lease), FAILED, ends[i].reason, NULL);
        T_INT(result->exit_code, ends[i].exit_code);
        T_INT(result->signal, ends[i].signal);
    }
}

static const struct bh_result *run_argv(const char *argv0, const char *workdir)
{
    struct bh_lease lease = shell("");
    RIG_RUN(&lease, argv0);
    rig_set_text(&lease.workdir, workdir);
    set_setup(&lease, "cd /workspace; echo text > plain; printf '#!/no/such\\n' > script; chmod +x script");
    return rig_run(r, &lease);
}

static void test_what_cannot_start(void **state)
{
    (void)state;
    T_INT(expect(run_argv("no-such-tool", "/workspace"), FAILED, "exit", "'no-such-tool' was not found")->exit_code,
          127);
    T_INT(expect(run_argv("/no/such", "/workspace"), FAILED, "exit", "'/no/such' was not found")->exit_code, 127);
    T_INT(expect(run_argv("./script", "/workspace"), FAILED, "exit", "or the interpreter")->exit_code, 127);
    T_INT(expect(run_argv("./plain", "/workspace"), FAILED, "exit", "'./plain': Permission denied")->exit_code, 126);
    T_INT(expect(run_argv("/usr", "/workspace"), FAILED, "exit", "'/usr': ")->exit_code, 126);
}

static void test_a_workdir_that_is_not_there(void **state)
{
    (void)state;
    struct bh_lease lease = shell("true");
    rig_set_text(&lease.workdir, "/nowhere");
    const struct bh_result *result = expect(rig_run(r, &lease), FAILED, "exit", "working directory '/nowhere'");
    T_INT(result->exit_code, 126);
}

static void test_timeouts(void **state)
{
    (void)state;
    struct bh_lease polite = shell("exec 2>/dev/null; trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done");
    polite.run_ns = 300 * BH_NS_PER_MS;
    expect_log(expect(rig_run(r, &polite), FAILED, "timeout(run)", "run took longer than"), "bye\n|");
    struct bh_lease stubborn = shell("trap '' TERM; (trap '' TERM; setsid sleep 1000) & while :; do sleep 0.05; done");
    stubborn.run_ns = stubborn.grace_ns = 200 * BH_NS_PER_MS;
    const struct bh_result *result = expect(rig_run(r, &stubborn), FAILED, "timeout(run)", "did not end when asked to");
    T_INT(result->signal, SIGKILL);
    struct bh_lease in_setup = shell("true");
    set_setup(&in_setup, "sleep 1000");
    in_setup.setup_ns = 200 * BH_NS_PER_MS;
    expect(rig_run(r, &in_setup), FAILED, "timeout(setup)", "setup took longer than");
}

/* The end is when the main process ends, whatever still holds the pipes. */
static void test_a_grandchild_holds_the_pipe(void **state)
{
    (void)state;
    struct bh_lease lease = shell("setsid sleep 1000 & echo hi");
    struct bh_mono before = bh_mono_now();
    expect_log(expect(rig_run(r, &lease), SUCCEEDED, NULL, NULL), "hi\n|");
    T_TRUE(bh_mono_now().ns - before.ns < 5 * BH_NS_PER_S);
}

static void test_setup_gives_to_the_agent(void **state)
{
    (void)state;
    struct bh_lease lease =
        shell("id -u; echo more >> made/file; cat made/file; (echo x > in/y) 2>/dev/null || echo ro");
    set_setup(&lease, "id -u; mkdir made; echo one > made/file; test -z \"$(ls in)\"; echo $HOME");
    const struct bh_result *result = expect(rig_run(r, &lease), SUCCEEDED, NULL, NULL);
    expect_log(result, "0\n/root\n1000\none\nmore\nro\n|");
    struct bh_lease fails = shell("true");
    set_setup(&fails, "exit 9");
    T_INT(expect(rig_run(r, &fails), FAILED, "exit", "setup exited with code 9")->exit_code, 9);
}

static void test_bad_outputs(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"ln -s /etc/passwd out/x", "output-invalid", "is a symlink"},
        {"rmdir out; ln -s / out", "output-invalid", "is a symlink or lies behind one"},
        {"mkfifo out/x", "output-invalid", "is a FIFO"},
        {"mkdir out/x", "output-invalid", "is a directory"},
        {"echo 12345678 > out/x", "output-invalid", "has 9 bytes, more than its max_size of 8"},
        {"echo > out/y; mkdir out/d; echo > out/d/z", "output-missing", "/workspace/out holds: d/z, y"},
        {"rmdir out", "output-missing", "/workspace/out does not exist"},
        {"echo > x", "output-missing", "/workspace/out is empty"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct bh_lease lease = shell(cases[i][0]);
        rig_add_output(&lease, "x")->max_size = 8;
        expect(rig_run(r, &lease), FAILED, cases[i][1], cases[i][2]);
    }
}

static void test_odd_but_good_outputs(void **state)
{
    (void)state;
    struct bh_lease lease =
        shell("echo s > out/secret; chmod 000 out/secret; mkdir deep; echo d > deep/x; "
              "mkdir -p out/g/h; echo 1 > out/g/1.json; echo 2 > out/g/h/2.json; ln out/secret out/l");
    rig_add_output(&lease, "secret");
    rig_set_text(&rig_add_output(&lease, "d")->path, "deep/x");
    rig_add_glob(&lease, "g/**");
    rig_add_output(&lease, "l");
    const struct bh_result *result = expect(rig_run(r, &lease), SUCCEEDED, NULL, NULL);
    T_INT(result->n_outputs, 5);
    rig_expect_object(r, &result->outputs[0], "secret", "s\n");
    rig_expect_object(r, &result->outputs[1], "d", "d\n");
    rig_expect_object(r, &result->outputs[2], "g/1.json", "1\n");
    rig_expect_object(r, &result->outputs[3], "g/h/2.json", "2\n");
    rig_expect_object(r, &result->outputs[4], "l", "s\n");
}

/* What the agent started goes on writing until it is killed; what is collected is whole. */
static void test_writers_are_dead_before_outputs_are_read(void **state)
{
    (void)state;
    struct bh_lease lease = shell("(while :; do echo x >> out/log; done) & while ! test -s out/log; do :; done");
    rig_add_output(&lease, "log");
    const struct bh_result *result = expect(rig_run(r, &lease), SUCCEEDED, NULL, NULL);
    T_TRUE(result->outputs[0].object.size > 0 && result->outputs[0].object.size % 2 == 0);
}

static uint64_t logged_bytes(struct bh_instance_id instance, enum bh_stream stream)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/logs/%s.log", r->home, r->run.s, instance.s);
    struct bh_log_reader *reader = NULL;
    struct bh_log_line line;
    uint64_t n = 0;
    T_OK(bh_log_reader_open(path, &reader, &err));
    while (bh_log_reader_next(reader, &line, NULL) == 1)
        n += line.stream == stream ? line.len + line.eol : 0;
    bh_log_reader_close(reader);
    return n;
}

static void test_much_output(void **state)
{
    (void)state;
    struct bh_instance_id ids[4];
    for (size_t i = 0; i < BH_ARRAY_LEN(ids); i++) {
        struct bh_lease lease = shell("head -c 20000000 /dev/zero & head -c 5000000 /dev/urandom >&2; wait");
        ids[i] = rig_send(r, &lease);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(ids); i++) {
        expect(rig_result(r, ids[i]), SUCCEEDED, NULL, NULL);
        T_INT(logged_bytes(ids[i], BH_STREAM_STDOUT), 20000000);
        T_INT(logged_bytes(ids[i], BH_STREAM_STDERR), 5000000);
    }
}

static void until_running(unsigned n)
{
    BH_CLEANUP_FREE char *line = bh_asprintf("state %u running", n);
    rig_until_said(r, line);
}

static void test_cancel(void **state)
{
    (void)state;
    struct bh_lease lease = shell("echo > out/x; sleep 1000");
    rig_add_output(&lease, "x");
    unsigned n = r->instances;
    struct bh_instance_id instance = rig_send(r, &lease);
    until_running(n);
    rig_send_kill(r, instance, 7);
    const struct bh_result *result = expect(rig_result(r, instance), BH_OUTCOME_CANCELLED, NULL, "cancelled");
    T_INT(result->signal, SIGTERM);
}

static void kill_box(const char *key)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/boxes/%s/pid", r->home, r->run.s, key);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_read_file(path, 1000, &text, &err));
    long pid = strtol(text.data, NULL, 10);
    T_TRUE(pid > 1);
    T_INT(kill((pid_t)pid, SIGKILL), 0);
}

static void test_a_box_that_is_killed_from_outside(void **state)
{
    (void)state;
    struct bh_lease lease = shell("sleep 1000");
    BH_CLEANUP_FREE char *key = bh_strdup(lease.box.key);
    unsigned n = r->instances;
    struct bh_instance_id instance = rig_send(r, &lease);
    until_running(n);
    kill_box(key);
    expect(rig_result(r, instance), BH_OUTCOME_LOST, "box-lost", "the box died during run");
}

static struct bh_lease crew(const char *key, const char *script)
{
    struct bh_lease lease = shell(script);
    rig_set_shared(&lease, key);
    return lease;
}

static void test_a_shared_box_and_its_layer(void **state)
{
    (void)state;
    struct bh_lease first = crew("crew.1", "cat made; echo mine > shared; echo notes > out/notes");
    rig_set_argv(&first.box.setup, &first.box.n_setup,
                 (const char *const[]){"/bin/sh", "-ceu", "id -u; echo set up > made", NULL});
    rig_add_output(&first, "notes");
    expect_log(expect(rig_run(r, &first), SUCCEEDED, NULL, NULL), "0\nset up\n|");
    struct bh_lease second = crew("crew.1", "cat shared; test ! -e out/absent");
    expect_log(expect(rig_run(r, &second), SUCCEEDED, NULL, NULL), "mine\n|");
    rig_send_box(r, "freeze", "crew.1", "layer.1");
    rig_until_said(r, "frozen crew.1 layer.1 ok");
    struct bh_lease third = crew("crew.2", "cat made shared; echo more >> shared");
    third.box.layers = bh_calloc(1, sizeof(*third.box.layers));
    third.box.layers[0] = bh_strdup("layer.1");
    third.box.n_layers = 1;
    expect_log(expect(rig_run(r, &third), SUCCEEDED, NULL, NULL), "set up\nmine\n|");
    rig_send_box(r, "release", "crew.2", NULL);
    rig_until_said(r, "released crew.2");
}

/* Killing one agent of a shared box leaves the others alone. */
static void test_neighbours_live_on(void **state)
{
    (void)state;
    struct bh_lease victim = crew("crew.3", "sleep 1000 & sleep 1000"),
                    other = crew("crew.3", "while ! test -e go; do sleep 0.02; done; echo lived");
    unsigned n = r->instances;
    struct bh_instance_id one = rig_send(r, &victim), two = rig_send(r, &other);
    until_running(n - 1);
    until_running(n);
    rig_send_kill(r, one, 7);
    T_INT(rig_result(r, one)->outcome, BH_OUTCOME_CANCELLED);
    struct bh_lease go = crew("crew.3", "touch go");
    expect(rig_run(r, &go), SUCCEEDED, NULL, NULL);
    expect_log(expect(rig_result(r, two), SUCCEEDED, NULL, NULL), "lived\n|");
}

static void test_a_second_try_in_a_shared_box(void **state)
{
    (void)state;
    struct bh_lease first = crew("crew.4", "echo old > out/x; echo kept > kept; exit 1");
    struct bh_lease second = crew("crew.4", "cat kept; test ! -e out/x; echo new > out/x");
    rig_add_output(&first, "x");
    rig_add_output(&second, "x");
    second.try_ = 2;
    expect(rig_run(r, &first), FAILED, "exit", NULL);
    const struct bh_result *result = expect(rig_run(r, &second), SUCCEEDED, NULL, NULL);
    expect_log(result, "kept\n|");
    rig_expect_object(r, &result->outputs[0], "x", "new\n");
}

static void test_a_neighbour_that_writes_is_a_collision(void **state)
{
    (void)state;
    struct bh_lease writer = crew("crew.5", "while :; do echo x >> out/big; done");
    unsigned n = r->instances;
    struct bh_instance_id id = rig_send(r, &writer);
    until_running(n);
    struct bh_lease owner =
        crew("crew.5", "while ! test -s out/big; do sleep 0.02; done; head -c 30000000 /dev/zero >> out/big");
    rig_add_output(&owner, "big");
    expect(rig_run(r, &owner), FAILED, "collision", "output 'big' changed while it was collected");
    rig_send_kill(r, id, 7);
    (void)rig_result(r, id);
}

static bool is_ended(struct rig *rig, const void *path)
{
    BH_CLEANUP_FREE char *work = bh_asprintf("%s/%s/work", rig->home, (const char *)path);
    return access(work, F_OK) < 0;
}

static void test_a_kept_box(void **state)
{
    (void)state;
    struct bh_lease lease = shell("echo left > left; exit 1");
    const struct bh_result *result = expect(rig_run(r, &lease), FAILED, "exit", NULL);
    BH_CLEANUP_FREE char *left = bh_asprintf("%s/%s/upper/root/workspace/left", r->home, result->kept_box);
    struct stat st;
    rig_until(r, is_ended, result->kept_box);
    T_INT(stat(left, &st), 0);
}

static void test_the_prompt_cannot_be_used_to_write_outside(void **state)
{
    (void)state;
    struct bh_lease lease = shell("");
    RIG_RUN(&lease, "/bin/sh", "-c",
            "(echo x > /proc/self/fd/0) 2>/dev/null && echo wrote; chmod 777 /proc/self/fd/0 2>/dev/null; "
            "(echo x > /proc/self/fd/0) 2>/dev/null && echo wrote; cat");
    rig_set_text(&lease.prompt, "asked");
    expect_log(expect(rig_run(r, &lease), SUCCEEDED, NULL, NULL), "asked\\|");
}

static void test_many_at_once(void **state)
{
    (void)state;
    enum { N = 60 };
    struct bh_instance_id ids[N];
    struct bh_mono before = bh_mono_now();
    for (size_t i = 0; i < N; i++) {
        struct bh_lease lease = shell("echo $$ > out/x");
        rig_add_output(&lease, "x");
        ids[i] = rig_send(r, &lease);
    }
    for (size_t i = 0; i < N; i++)
        expect(rig_result(r, ids[i]), SUCCEEDED, NULL, NULL);
    char text[BH_UNIT_TEXT];
    print_message("%d boxes with one output each: %s\n", N, bh_format_duration(bh_mono_now().ns - before.ns, text));
}

/* Nothing of a box is left when the worker and its boxes are gone, except what is kept. */
static void test_the_end_leaves_nothing(void **state)
{
    (void)state;
    struct bh_lease hangs = shell("trap '' TERM; sleep 1000"), shared = crew("crew.6", "sleep 1000");
    unsigned n = r->instances;
    (void)rig_send(r, &hangs);
    (void)rig_send(r, &shared);
    until_running(n - 1);
    until_running(n);
    rig_worker_stop(r);
    r->backend->ops->close(BH_TAKE(r->backend));
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/boxes", r->home, r->run.s);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        BH_CLEANUP_FREE char *work = bh_asprintf("%s/%s/work", path, entry->d_name);
        T_TRUE(access(work, F_OK) < 0); /* the mark of a box that lives */
    }
    closedir(dir);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup(fn, needs_boxes)
    const struct CMUnitTest tests[] = {
        TEST(test_a_plain_success),
        TEST(test_exact_ends),
        TEST(test_what_cannot_start),
        TEST(test_a_workdir_that_is_not_there),
        TEST(test_timeouts),
        TEST(test_a_grandchild_holds_the_pipe),
        TEST(test_setup_gives_to_the_agent),
        TEST(test_bad_outputs),
        TEST(test_odd_but_good_outputs),
        TEST(test_writers_are_dead_before_outputs_are_read),
        TEST(test_much_output),
        TEST(test_cancel),
        TEST(test_a_box_that_is_killed_from_outside),
        TEST(test_a_shared_box_and_its_layer),
        TEST(test_neighbours_live_on),
        TEST(test_a_second_try_in_a_shared_box),
        TEST(test_a_neighbour_that_writes_is_a_collision),
        TEST(test_a_kept_box),
        TEST(test_the_prompt_cannot_be_used_to_write_outside),
        TEST(test_many_at_once),
        TEST(test_the_end_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
