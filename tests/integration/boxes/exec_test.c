/* SPDX-License-Identifier: Apache-2.0 */
/* How commands start, what they are given, and how they end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

static struct kit_box box;

static int set_up(void **state)
{
    (void)state;
    if (kit_create(&kit, &box, NULL) != 0)
        fail_msg("create: %s", box.message);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    T_INT(kit_destroy(&box, false), 0);
    return 0;
}

static void run_argv(struct kit_exec *e, const char *const *argv)
{
    *e = (struct kit_exec){.spec.argv = argv};
    kit_start(&box, e);
    kit_finish(&box, e);
    T_INT(e->calls, 1);
}

static void check_sh(const char *text, enum bh_exec_end end, int status)
{
    struct kit_exec e;
    kit_sh(&box, &e, text);
    if (e.result.end != end || e.result.status != status)
        fail_msg("'%s': end %d status %d (%s) %s", text, (int)e.result.end, e.result.status, e.step, e.err.data);
    kit_exec_fini(&e);
}

static void check_out(const char *text, const char *want)
{
    struct kit_exec e;
    kit_sh(&box, &e, text);
    if (e.result.end != BH_EXEC_EXITED || strcmp(e.out.data, want) != 0)
        fail_msg("'%s' printed '%s' and '%s', not '%s'", text, e.out.data, e.err.data, want);
    kit_exec_fini(&e);
}

static void exit_statuses_are_exact(void **state)
{
    (void)state;
    check_sh("exit 0", BH_EXEC_EXITED, 0);
    check_sh("exit 1", BH_EXEC_EXITED, 1);
    check_sh("exit 126", BH_EXEC_EXITED, 126);
    check_sh("exit 127", BH_EXEC_EXITED, 127);
    check_sh("exit 255", BH_EXEC_EXITED, 255);
    check_sh("kill -KILL $$", BH_EXEC_SIGNALED, SIGKILL);
    check_sh("kill -TERM $$", BH_EXEC_SIGNALED, SIGTERM);
    check_sh("kill -SEGV $$", BH_EXEC_SIGNALED, SIGSEGV);
    check_sh("kill -INT $$", BH_EXEC_SIGNALED, SIGINT);
}

static void check_not_started(const char *const *argv, int error)
{
    struct kit_exec e;
    run_argv(&e, argv);
    if (e.result.end != BH_EXEC_NOT_STARTED || e.result.status != error || strcmp(e.step, "exec") != 0)
        fail_msg("'%s': end %d status %d step '%s'", argv[0], (int)e.result.end, e.result.status, e.step);
    kit_exec_fini(&e);
}

static void says_what_kept_it_from_starting(void **state)
{
    (void)state;
    check_sh("echo x > plain; echo '#!/nonexistent' > bad; chmod +x bad; printf 'no format' > odd; chmod +x odd",
             BH_EXEC_EXITED, 0);
    check_not_started((const char *const[]){"/nonexistent", NULL}, ENOENT);
    check_not_started((const char *const[]){"no-such-program", NULL}, ENOENT);
    check_not_started((const char *const[]){"/workspace/plain", NULL}, EACCES);
    check_not_started((const char *const[]){"/usr/bin", NULL}, EACCES);
    check_not_started((const char *const[]){"/workspace/bad", NULL}, ENOENT);
    check_not_started((const char *const[]){"/workspace/odd", NULL}, ENOEXEC);
    check_not_started((const char *const[]){"", NULL}, ENOENT);
    struct kit_exec e = {.spec.cwd = "/no/such/place"};
    kit_sh_with(&box, &e, "exit 0");
    T_INT(e.result.end, BH_EXEC_NOT_STARTED);
    T_INT(e.result.status, ENOENT);
    T_TRUE(strstr(e.step, "/no/such/place"));
    kit_exec_fini(&e);
}

static void looks_programs_up_in_its_own_path(void **state)
{
    (void)state;
    struct kit_exec e = {0};
    const char *const env[] = {"PATH=/nonexistent:/workspace/bin:/usr/bin", NULL}, *const argv[] = {"hello", NULL};
    check_sh("mkdir bin other; printf '#!/bin/sh\\necho found' > bin/hello; chmod +x bin/hello", BH_EXEC_EXITED, 0);
    e.spec = (struct bh_exec_spec){.argv = argv, .env = env};
    kit_start(&box, &e);
    kit_finish(&box, &e);
    T_STR(e.out.data, "found\n");
    kit_exec_fini(&e);
    /* one that may not be executed is remembered, but a later one wins */
    const char *const two[] = {"PATH=/workspace/other:/workspace/bin", NULL};
    check_sh("echo x > other/hello", BH_EXEC_EXITED, 0);
    e = (struct kit_exec){.spec = {.argv = argv, .env = two}};
    kit_start(&box, &e);
    kit_finish(&box, &e);
    T_STR(e.out.data, "found\n");
    kit_exec_fini(&e);
    const char *const one[] = {"PATH=/workspace/other", NULL};
    e = (struct kit_exec){.spec = {.argv = argv, .env = one}};
    kit_start(&box, &e);
    kit_finish(&box, &e);
    T_INT(e.result.end, BH_EXEC_NOT_STARTED);
    T_INT(e.result.status, EACCES);
    kit_exec_fini(&e);
}

static void environment_is_exactly_what_was_given(void **state)
{
    (void)state;
    const char *const env[] = {"PATH=/usr/bin", "EMPTY=", "ODD= a=b $x \"q\" ", "LINES=one\ntwo", NULL};
    const char *const argv[] = {"/usr/bin/env", "-0", NULL};
    struct kit_exec e = {.spec = {.argv = argv, .env = env}};
    const char want[] = "PATH=/usr/bin\0EMPTY=\0ODD= a=b $x \"q\" \0LINES=one\ntwo";
    kit_start(&box, &e);
    kit_finish(&box, &e);
    T_INT(e.out.len, sizeof(want));
    assert_memory_equal(e.out.data, want, sizeof(want));
    kit_exec_fini(&e);
    const char *const none[] = {NULL};
    e = (struct kit_exec){.spec = {.argv = argv, .env = none}};
    kit_start(&box, &e);
    kit_finish(&box, &e);
    T_INT(e.out.len, 0);
    kit_exec_fini(&e);
}

static void arguments_are_exact_and_may_be_long(void **state)
{
    (void)state;
    struct kit_exec e;
    run_argv(&e, (const char *const[]){"/usr/bin/printf", "%s|", "a b", "$(id)", "", "'", "-n", NULL});
    T_STR(e.out.data, "a b|$(id)||'|-n|");
    kit_exec_fini(&e);
    const size_t almost = 128 * 1024 - 1; /* the kernel's own limit for one argument, NUL included */
    char *arg = bh_alloc(4 << 20);
    memset(arg, 'x', almost);
    run_argv(&e, (const char *const[]){"/bin/sh", "-c", "printf %s \"$1\" | wc -c", "sh", arg, NULL});
    T_STR(e.out.data, "131071\n");
    kit_exec_fini(&e);
    memset(arg, 'y', 3 << 20);
    check_not_started((const char *const[]){"/bin/true", arg, NULL}, E2BIG);
    bh_free(arg);
    const size_t n = 9;
    char *many[10] = {NULL};
    for (size_t i = 0; i < n; i++) {
        many[i] = bh_alloc(2 << 20);
        memset(many[i], 'z', (2 << 20) - 1);
    }
    check_not_started((const char *const *)(void *)many, E2BIG); /* more than a request may be */
    for (size_t i = 0; i < n; i++)
        bh_free(many[i]);
}

static void streams_are_separate_and_binary_safe(void **state)
{
    (void)state;
    struct kit_exec e;
    kit_sh(&box, &e, "printf 'a\\0b\\377'; printf 'to err' >&2; printf '\\n\\n'; printf end");
    T_INT(e.out.len, 9);
    assert_memory_equal(e.out.data, "a\0b\377\n\nend", 9);
    T_STR(e.err.data, "to err");
    kit_exec_fini(&e);
    kit_sh(&box, &e, "head -c 5000000 /dev/zero | tr '\\0' '\\377'");
    T_INT(e.out.len, 5000000);
    for (size_t i = 0; i < e.out.len; i++) {
        if ((unsigned char)e.out.data[i] != 0xff)
            fail_msg("byte %zu is wrong", i);
    }
    kit_exec_fini(&e);
}

static void reads_its_stdin(void **state)
{
    (void)state;
    int fds[2];
    T_INT(pipe2(fds, O_CLOEXEC), 0);
    T_INT(bh_write_all(fds[1], "from outside", 12), 0);
    bh_close(fds[1]);
    struct kit_exec e = {.spec.stdin_fd = fds[0]};
    kit_sh_with(&box, &e, "cat; echo .");
    T_STR(e.out.data, "from outside.\n");
    bh_close(fds[0]);
    kit_exec_fini(&e);
}

static void is_who_it_should_be(void **state)
{
    (void)state;
    check_out("id -u; id -g; id -un", "1000\n1000\nagent\n");
    struct kit_exec e = {.spec.root = true};
    kit_sh_with(&box, &e, "id -u; id -g; id -un");
    T_STR(e.out.data, "0\n0\nroot\n");
    kit_exec_fini(&e);
}

static const char *const no_powers =
    "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
    "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";

static void has_no_powers(void **state)
{
    (void)state;
    const char *text = "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status";
    check_out(text, no_powers);
    struct kit_exec e = {.spec.root = true};
    kit_sh_with(&box, &e, text);
    T_STR(e.out.data, no_powers);
    kit_exec_fini(&e);
}

static void inherits_nothing(void **state)
{
    (void)state;
    struct kit_exec e;
    run_argv(&e, (const char *const[]){"/bin/ls", "/proc/self/fd", NULL});
    T_STR(e.out.data, "0\n1\n2\n3\n"); /* 3 is the folder that it lists */
    kit_exec_fini(&e);
    check_out("umask", "0022\n");
    check_out("ulimit -n; ulimit -Hn; ulimit -c", "1024\n1024\n0\n");
    check_out("grep -E '^Sig(Blk|Ign):' /proc/self/status | grep -v 0000000000000000", "");
    check_out("read -r pid comm state ppid pgrp sid tty rest < /proc/$$/stat; [ $pid = $sid ] && [ $pgrp = $sid ] && "
              "echo leader $tty",
              "leader 0\n");
    check_out("pwd", "/workspace\n");
}

static void a_pipe_holder_delays_nothing(void **state)
{
    (void)state;
    struct kit_exec e;
    kit_sh(&box, &e, "setsid sleep 1000 & (setsid sh -c 'trap \"\" TERM HUP; sleep 1000' &) ; echo hi; exit 7");
    T_INT(e.result.end, BH_EXEC_EXITED);
    T_INT(e.result.status, 7);
    T_STR(e.out.data, "hi\n");
    kit_exec_fini(&e);
    check_out(KIT_PS, KIT_PS_ALONE); /* the sleepers are gone */
}

static void counts_what_it_used(void **state)
{
    (void)state;
    struct kit_exec e;
    kit_sh(&box, &e,
           "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; head -c 30000000 /dev/zero | tail -c 29000000 | wc -c");
    T_TRUE(e.result.cpu_ms >= 10 && e.result.cpu_ms < 30000);
    T_TRUE(e.result.max_rss_bytes > 20000000); /* what tail held */
    kit_exec_fini(&e);
}

static void many_execs_in_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        struct kit_exec e;
        char text[32];
        (void)snprintf(text, sizeof(text), "exit %d", i);
        kit_sh(&box, &e, text);
        T_INT(e.result.end, BH_EXEC_EXITED);
        T_INT(e.result.status, i);
        kit_exec_fini(&e);
    }
}

/* Of execs at once, each gets its own status. */
static void many_execs_at_once(void **state)
{
    enum { N = 40 };
    static struct kit_exec e[N];
    struct kit_box shared;
    char text[N][64];
    const char *argv[N][4];
    (void)state;
    T_INT(kit_create(&kit, &shared, &(struct kit_how){.shared = true}), 0);
    for (int i = 0; i < N; i++) {
        (void)snprintf(text[i], sizeof(text[i]), i % 4 ? "exit %d" : "kill -%d $$", i % 4 ? i : 9);
        argv[i][0] = "/bin/sh";
        argv[i][1] = "-c";
        argv[i][2] = text[i];
        argv[i][3] = NULL;
        e[i] = (struct kit_exec){.spec.argv = argv[i]};
        kit_start(&shared, &e[i]);
    }
    for (int i = 0; i < N; i++) {
        kit_finish(&shared, &e[i]);
        T_INT(e[i].result.end, i % 4 ? BH_EXEC_EXITED : BH_EXEC_SIGNALED);
        T_INT(e[i].result.status, i % 4 ? i : 9);
        T_INT(e[i].calls, 1);
        kit_exec_fini(&e[i]);
    }
    T_INT(kit_destroy(&shared, false), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(exit_statuses_are_exact),
        TEST(says_what_kept_it_from_starting),
        TEST(looks_programs_up_in_its_own_path),
        TEST(environment_is_exactly_what_was_given),
        TEST(arguments_are_exact_and_may_be_long),
        TEST(streams_are_separate_and_binary_safe),
        TEST(reads_its_stdin),
        TEST(is_who_it_should_be),
        TEST(has_no_powers),
        TEST(inherits_nothing),
        TEST(a_pipe_holder_delays_nothing),
        TEST(counts_what_it_used),
        TEST(many_execs_in_a_row),
        TEST(many_execs_at_once),
    };
    KIT_MAIN(tests);
}
