/* SPDX-License-Identifier: Apache-2.0 */
/* How a command's end becomes a reason: the whole table, limits before statuses. */
#include "workers/verdict.h"

#include <errno.h>
#include <signal.h>

#include "base/mem.h"
#include "base/text.h"
#include "tests/support/t.h"

#define MIB (INT64_C(1) << 20)
#define EXITED(n) .end = BH_EXEC_EXITED, .status = (n)
#define SIGNALED(n) .end = BH_EXEC_SIGNALED, .status = (n)
#define NOT_STARTED(error, at) .end = BH_EXEC_NOT_STARTED, .status = (error), .step = (at)
#define LOST .end = BH_EXEC_BOX_LOST

static const struct {
    struct bh_exec_result result;
    bool timed_out, stopped, killed;
    enum bh_enforcer disk;
    enum bh_outcome outcome;
    const char *reason, *detail;
    int exit_code, signal;
} rows[] = {
    {.result = {EXITED(0)}, .outcome = BH_OUTCOME_SUCCEEDED},
    {.result = {EXITED(1)},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "exit",
     .detail = "run exited with code 1",
     .exit_code = 1},
    {.result = {EXITED(255)}, .outcome = BH_OUTCOME_FAILED, .reason = "exit", .detail = "code 255", .exit_code = 255},
    {.result = {SIGNALED(SIGSEGV)},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "signal",
     .detail = "run was ended by signal 11 (SIGSEGV)",
     .exit_code = -1,
     .signal = SIGSEGV},
    {.result = {LOST},
     .outcome = BH_OUTCOME_LOST,
     .reason = "box-lost",
     .detail = "the box died during run",
     .exit_code = -1},
    {.result = {EXITED(128 + SIGXFSZ)},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "exit",
     .detail = "exited with code 153, as a shell does when a file became larger than it may: the disk limit is 1MiB",
     .exit_code = 153},
    /* limits come before statuses */
    {.result = {SIGNALED(SIGKILL), .oom = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "oom",
     .detail = "run was ended by signal 9 (SIGKILL): memory limit of 64MiB was reached",
     .exit_code = -1,
     .signal = SIGKILL},
    {.result = {EXITED(137), .oom = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "oom",
     .detail = "run exited with code 137: memory limit of 64MiB was reached",
     .exit_code = 137},
    {.result = {EXITED(1), .disk_full = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "disk-full",
     .detail = "run exited with code 1: disk limit of 1MiB was reached",
     .exit_code = 1},
    {.result = {SIGNALED(SIGKILL), .disk_full = true, .note = "wrote 5MiB where its limit is 1MiB"},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "disk-full",
     .detail = "run was ended by signal 9 (SIGKILL): wrote 5MiB where its limit is 1MiB",
     .exit_code = -1,
     .signal = SIGKILL},
    {.result = {EXITED(1), .disk_full = true, .inodes = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "disk-full",
     .detail = "run exited with code 1: inodes limit of 100 was reached",
     .exit_code = 1},
    {.result = {SIGNALED(SIGXFSZ)},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "disk-full",
     .detail = "run was ended by signal 25 (SIGXFSZ): disk limit of 1MiB was reached",
     .exit_code = -1,
     .signal = SIGXFSZ},
    {.result = {EXITED(254), .pids = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "pids",
     .detail = "run exited with code 254: pids limit of 9 was reached",
     .exit_code = 254},
    /* out of memory is the cause of the rest */
    {.result = {EXITED(1), .oom = true, .pids = true, .disk_full = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "oom",
     .exit_code = 1},
    {.result = {EXITED(1), .pids = true, .disk_full = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "disk-full",
     .exit_code = 1},
    {.result = {LOST, .oom = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "oom",
     .detail = "run died with its box: memory limit of 64MiB was reached",
     .exit_code = -1},
    /* what ended well met no limit */
    {.result = {EXITED(0), .oom = true, .pids = true, .disk_full = true}, .outcome = BH_OUTCOME_SUCCEEDED},
    /* who was told to end */
    {.result = {EXITED(0)}, .stopped = true, .outcome = BH_OUTCOME_CANCELLED, .detail = "cancelled"},
    {.result = {SIGNALED(SIGKILL), .oom = true},
     .stopped = true,
     .outcome = BH_OUTCOME_CANCELLED,
     .exit_code = -1,
     .signal = SIGKILL},
    {.result = {SIGNALED(SIGTERM)},
     .timed_out = true,
     .outcome = BH_OUTCOME_FAILED,
     .reason = "timeout(run)",
     .detail = "run took longer than 1.0s",
     .exit_code = -1,
     .signal = SIGTERM},
    {.result = {SIGNALED(SIGKILL)},
     .timed_out = true,
     .killed = true,
     .outcome = BH_OUTCOME_FAILED,
     .reason = "timeout(run)",
     .detail = "and did not end when asked to",
     .exit_code = -1,
     .signal = SIGKILL},
    {.result = {SIGNALED(SIGTERM), .oom = true},
     .timed_out = true,
     .outcome = BH_OUTCOME_FAILED,
     .reason = "timeout(run)",
     .detail = "run took longer than 1.0s; its memory limit of 64MiB was reached",
     .exit_code = -1,
     .signal = SIGTERM},
    /* what did not start */
    {.result = {NOT_STARTED(ENOENT, "exec")},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "exit",
     .detail = "command '/bin/x' was not found",
     .exit_code = 127},
    {.result = {NOT_STARTED(EACCES, "exec")},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "exit",
     .detail = "Permission denied",
     .exit_code = 126},
    {.result = {NOT_STARTED(ENOEXEC, "exec")},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "exit",
     .detail = "Exec format error",
     .exit_code = 126},
    {.result = {NOT_STARTED(E2BIG, "exec")},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "exit",
     .detail = "are 3145728 bytes; the kernel takes 2 MiB of them together and 128 KiB for one",
     .exit_code = 126},
    {.result = {NOT_STARTED(ENOMEM, "exec")}, .outcome = BH_OUTCOME_FAILED, .reason = "host", .exit_code = -1},
    {.result = {NOT_STARTED(ENOMEM, "exec"), .oom = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "oom",
     .exit_code = -1},
    {.result = {NOT_STARTED(EAGAIN, "clone")}, .outcome = BH_OUTCOME_FAILED, .reason = "host", .exit_code = -1},
    {.result = {NOT_STARTED(EAGAIN, "clone"), .pids = true},
     .outcome = BH_OUTCOME_FAILED,
     .reason = "pids",
     .detail = "cannot clone: Resource temporarily unavailable: pids limit of 9 was reached",
     .exit_code = -1},
    /* a full box is its own fault only where it has a disk of its own */
    {.result = {NOT_STARTED(ENOSPC, "copy files/x")},
     .disk = BH_BY_TMPFS,
     .outcome = BH_OUTCOME_FAILED,
     .reason = "disk-full",
     .detail = "cannot copy files/x: No space left on device: disk limit of 1MiB was reached",
     .exit_code = -1},
    {.result = {NOT_STARTED(EDQUOT, "copy files/x")},
     .disk = BH_BY_QUOTA,
     .outcome = BH_OUTCOME_FAILED,
     .reason = "disk-full",
     .exit_code = -1},
    {.result = {NOT_STARTED(ENOSPC, "copy files/x")},
     .disk = BH_BY_WATCHDOG,
     .outcome = BH_OUTCOME_FAILED,
     .reason = "host",
     .exit_code = -1},
};

static void every_end_has_its_reason(void **state)
{
    static const struct bh_limits limits = {
        .of = {[BH_LIMIT_MEMORY] = 64 * MIB, [BH_LIMIT_DISK] = MIB, [BH_LIMIT_PIDS] = 9, [BH_LIMIT_INODES] = 100}};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_command_name name = {.what = "run",
                                       .phase = BH_PHASE_RUN,
                                       .argv0 = "/bin/x",
                                       .timeout_ns = BH_NS_PER_S,
                                       .limits = &limits,
                                       .args_bytes = 3 * MIB};
        struct bh_command_end end = {.result = rows[i].result,
                                     .timed_out = rows[i].timed_out,
                                     .stopped = rows[i].stopped,
                                     .killed = rows[i].killed};
        struct bh_verdict v;
        name.held.by[BH_LIMIT_DISK] = (unsigned char)rows[i].disk;
        bool good = bh_verdict_of_command(&v, &name, &end);
        const char *reason = v.reason == BH_REASON_NONE ? NULL : bh_reason_text(v.reason, v.phase);
        T_INT(good, rows[i].outcome == BH_OUTCOME_SUCCEEDED);
        if (v.outcome != rows[i].outcome || !bh_streq(reason, rows[i].reason) || v.exit_code != rows[i].exit_code ||
            v.signal != rows[i].signal || (rows[i].detail && (!v.detail || !strstr(v.detail, rows[i].detail))))
            fail_msg("row %zu: outcome %d, reason %s, exit %d, signal %d: %s", i, (int)v.outcome, reason, v.exit_code,
                     v.signal, v.detail);
        bh_verdict_fini(&v);
    }
}

static void a_value_that_nobody_knows_is_not_said(void **state)
{
    const struct bh_command_name name = {.what = "setup", .phase = BH_PHASE_SETUP, .argv0 = "x"};
    const struct bh_command_end end = {.result = {EXITED(1), .oom = true}};
    struct bh_verdict v;
    (void)state;
    T_TRUE(!bh_verdict_of_command(&v, &name, &end));
    T_STR(v.detail, "setup exited with code 1: memory limit was reached");
    bh_verdict_fini(&v);
}

/* What an agent of a shared box met: its own limit, or that of the box that others filled, too. */
static void a_shared_box_is_named(void **state)
{
    static const struct bh_limits none = {.asked = 0},
                                  box = {.of = {[BH_LIMIT_MEMORY] = 64 * MIB, [BH_LIMIT_DISK] = MIB}},
                                  small = {.of = {[BH_LIMIT_MEMORY] = 8 * MIB}},
                                  large = {.of = {[BH_LIMIT_MEMORY] = 128 * MIB}};
    static const struct {
        const struct bh_limits *own, *in_force;
        struct bh_exec_result result;
        bool timed_out;
        const char *detail;
    } ends[] = {
        {&none, &box, {EXITED(1), .oom = true}, false, "code 1: memory limit of box 'x' (64MiB) was reached"},
        {&large, &large, {EXITED(1), .oom = true}, false, "code 1: memory limit of box 'x' (64MiB) was reached"},
        {&small, &small, {EXITED(1), .oom = true}, false, "code 1: memory limit of 8MiB was reached"},
        {&small, &box, {EXITED(1), .disk_full = true}, false, "code 1: disk limit of box 'x' (1MiB) was reached"},
        {&none,
         &box,
         {EXITED(1), .disk_full = true, .note = "the box held 2MiB; all were stopped"},
         false,
         "code 1: box 'x' held 2MiB; all were stopped"},
        {&none, &box, {EXITED(1), .oom = true}, true, "1.0s; the memory limit of box 'x' (64MiB) was reached"},
        {&none,
         &box,
         {EXITED(1), .disk_full = true, .note = "the processes of the box held 2MiB"},
         true,
         "1.0s; the processes of box 'x' held 2MiB"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(ends); i++) {
        const struct bh_command_name name = {.what = "run",
                                             .phase = BH_PHASE_RUN,
                                             .argv0 = "x",
                                             .timeout_ns = BH_NS_PER_S,
                                             .limits = ends[i].in_force,
                                             .box = "x",
                                             .own = ends[i].own,
                                             .boxs = &box};
        const struct bh_command_end end = {.result = ends[i].result, .timed_out = ends[i].timed_out};
        struct bh_verdict v;
        T_TRUE(!bh_verdict_of_command(&v, &name, &end));
        if (!bh_ends_with(v.detail, ends[i].detail))
            fail_msg("row %zu: %s", i, v.detail);
        bh_verdict_fini(&v);
    }
}

static void a_note_cannot_speak_to_a_terminal(void **state)
{
    const struct bh_command_name name = {.what = "run", .phase = BH_PHASE_RUN, .argv0 = "x"};
    const struct bh_command_end end = {.result = {EXITED(1), .disk_full = true, .note = "wrote \x1b[1m"}};
    struct bh_verdict v;
    (void)state;
    T_TRUE(!bh_verdict_of_command(&v, &name, &end));
    assert_null(strchr(v.detail, '\x1b'));
    bh_verdict_fini(&v);
}

static void what_held_in_words(void **state)
{
    struct bh_enforced held = {{0}};
    (void)state;
    assert_null(bh_verdict_limits_text(&held, false));
    held.by[BH_LIMIT_MEMORY] = BH_BY_CGROUP2;
    held.by[BH_LIMIT_DISK] = BH_BY_WATCHDOG;
    held.by[BH_LIMIT_NOFILE] = BH_BY_RLIMIT;
    BH_CLEANUP_FREE char *exact = bh_verdict_limits_text(&held, false);
    T_STR(exact, "memory=cgroup-v2 disk=watchdog nofile=rlimit");
    BH_CLEANUP_FREE char *loose = bh_verdict_limits_text(&held, true);
    T_STR(loose, "memory=cgroup-v2 disk=watchdog nofile=rlimit +best-effort");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_end_has_its_reason), cmocka_unit_test(a_value_that_nobody_knows_is_not_said),
        cmocka_unit_test(a_shared_box_is_named),    cmocka_unit_test(a_note_cannot_speak_to_a_terminal),
        cmocka_unit_test(what_held_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
