/* SPDX-License-Identifier: Apache-2.0 */
/* Where the values of secrets come from, what is refused, and that no message holds one. */
#include "policies/secret.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

#define VALUE "canary-5f2e91"

static char *dir, *file;

static int setup(void **state)
{
    (void)state;
    dir = t_tmpdir();
    file = bh_path_join(dir, "value");
    unsetenv("BH_TEST_SECRET");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_free(file);
    t_tmpdir_free(dir);
    return 0;
}

static void put(const char *data, size_t len)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    T_INT(bh_write_all(fd, data, len), 0);
    bh_close(fd);
}

static void gives(const struct bh_secret_ref *ref, const char *want)
{
    BH_CLEANUP_SECRET struct bh_secret s = {0};
    T_OK(bh_secret_resolve(ref, &s, &err));
    T_INT(s.len, strlen(want));
    T_STR(s.value, want);
}

/* The message holds `part`, and nothing in the error holds the value. */
static void refuses(const struct bh_secret_ref *ref, const char *part)
{
    BH_CLEANUP_SECRET struct bh_secret s = {0};
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    T_INT(bh_secret_resolve(ref, &s, &err), -BH_E_HOST);
    assert_null(s.value);
    assert_non_null(err);
    if (!strstr(bh_err_message(err), part))
        fail_msg("'%s' is not in '%s'", part, bh_err_message(err));
    assert_null(strstr(bh_err_message(err), VALUE));
    assert_non_null(bh_err_get_hint(err));
    assert_null(strstr(bh_err_get_hint(err), VALUE));
}

static void a_variable(void **state)
{
    const struct bh_secret_ref ref = {.name = "key", .env = "BH_TEST_SECRET"};
    (void)state;
    refuses(&ref, "secret 'key' cannot be had: variable 'BH_TEST_SECRET' is not set");
    setenv("BH_TEST_SECRET", "", 1);
    refuses(&ref, "the value is empty");
    setenv("BH_TEST_SECRET", VALUE "\n", 1);
    gives(&ref, VALUE "\n"); /* as it is */
}

static void a_file(void **state)
{
    const struct bh_secret_ref ref = {.name = "key", .file = file}, folder = {.name = "key", .file = dir};
    static const char *const rows[][2] = {
        {VALUE, VALUE}, {VALUE "\n", VALUE}, {VALUE "\r\n", VALUE}, {VALUE "\n\n", VALUE "\n"}, {"a\nb\n", "a\nb"}};
    (void)state;
    refuses(&ref, "cannot be read: No such file");
    refuses(&folder, "is no regular file");
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        put(rows[i][0], strlen(rows[i][0]));
        gives(&ref, rows[i][1]);
    }
    put("\n", 1);
    refuses(&ref, "the value is empty");
    put(VALUE "\0x", sizeof(VALUE) + 1);
    refuses(&ref, "a NUL byte");
}

static void a_fifo_does_not_block(void **state)
{
    const struct bh_secret_ref ref = {.name = "key", .file = file};
    (void)state;
    T_INT(mkfifo(file, 0600), 0);
    refuses(&ref, "is no regular file");
}

static void sizes(void **state)
{
    const struct bh_secret_ref by_file = {.name = "key", .file = file},
                               by_env = {.name = "key", .env = "BH_TEST_SECRET"};
    (void)state;
    BH_CLEANUP_FREE char *text = bh_alloc(BH_SECRET_MAX + 2);
    memset(text, 'x', BH_SECRET_MAX);
    put(text, BH_SECRET_MAX);
    gives(&by_file, text);
    setenv("BH_TEST_SECRET", text, 1);
    gives(&by_env, text);
    text[BH_SECRET_MAX] = 'x';
    put(text, BH_SECRET_MAX + 1);
    refuses(&by_file, "more than 64 KiB");
    setenv("BH_TEST_SECRET", text, 1);
    refuses(&by_env, "more than 64 KiB");
    unsetenv("BH_TEST_SECRET");
}

static void by_shell(const char *script, const char *want, const char *problem)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct bh_secret_ref ref = {.name = "key", .command = argv, .n_command = 3};
    if (want)
        gives(&ref, want);
    else
        refuses(&ref, problem);
}

static void a_command(void **state)
{
    (void)state;
    by_shell("printf '" VALUE "\\r\\n\\n'", VALUE, NULL);
    by_shell("cat; printf " VALUE, VALUE, NULL); /* its input is empty */
    by_shell("printf " VALUE "; exit 3", NULL, "secret 'key' cannot be had: command 'sh' failed with exit status 3");
    by_shell("printf " VALUE "; kill -9 $$", NULL, "was ended by signal 9");
    by_shell("echo secret >&2; test -c /proc/self/fd/2 && test ! -t 2 && printf " VALUE, VALUE, NULL);
    by_shell(":", NULL, "the value is empty");
    by_shell("yes " VALUE, NULL, "wrote more than 64 KiB");
    by_shell("ls -l /proc/self/fd | grep -c /proc >/dev/null && printf '" VALUE "\\0'", NULL, "a NUL byte");
    const char *const argv[] = {"bh-no-such-program", VALUE};
    const struct bh_secret_ref ref = {.name = "key", .command = argv, .n_command = 2};
    refuses(&ref, "command 'bh-no-such-program' cannot be run: No such file");
}

/* Without having it. */
static void whether_it_is_there(void **state)
{
    const char *const argv[] = {"sh", "-c", "exit 1"};
    const struct bh_secret_ref env = {.name = "key", .env = "BH_TEST_SECRET"}, by_file = {.name = "key", .file = file},
                               command = {.name = "key", .command = argv, .n_command = 3};
    (void)state;
    T_ERR(bh_secret_check(&env, &err), BH_E_HOST, "variable 'BH_TEST_SECRET' is not set");
    setenv("BH_TEST_SECRET", "", 1);
    T_ERR(bh_secret_check(&env, &err), BH_E_HOST, "empty");
    setenv("BH_TEST_SECRET", VALUE, 1);
    T_OK(bh_secret_check(&env, &err));
    T_ERR(bh_secret_check(&by_file, &err), BH_E_HOST, "cannot be read: No such file");
    put(VALUE, 3);
    T_OK(bh_secret_check(&by_file, &err));
    T_OK(bh_secret_check(&command, &err)); /* nobody runs it */
    static const char *const missing[] = {"bh-no-such-program", "./bh-no-such-program", "/"};
    for (size_t i = 0; i < BH_ARRAY_LEN(missing); i++) {
        const struct bh_secret_ref ref = {.name = "key", .command = &missing[i], .n_command = 1};
        T_ERR(bh_secret_check(&ref, &err), BH_E_HOST, strchr(missing[i], '/') ? "is no program" : "not found in PATH");
    }
    unsetenv("BH_TEST_SECRET");
}

/* Whatever holds its output behind it is not waited for. */
static void a_command_with_a_child(void **state)
{
    (void)state;
    struct bh_mono start = bh_mono_now();
    by_shell("sleep 20 & printf " VALUE, VALUE, NULL);
    assert_true(bh_mono_now().ns - start.ns < 10 * BH_NS_PER_S);
}

static void a_command_inherits_nothing(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* as every one of ours */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    BH_CLEANUP_FREE char *script =
        bh_asprintf("grep -q '^SigBlk:.0*$' /proc/self/status && [ ! -e /proc/$$/fd/%d ] && echo ok", fd);
    by_shell(script, "ok", NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    bh_close(fd);
}

/* "VmFlags: … dd …" of the mapping that holds p. */
static bool has_flag(const void *p, const char *flag)
{
    char line[512];
    bool here = false, found = false;
    FILE *f = fopen("/proc/self/smaps", "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        unsigned long from, to;
        char dash;
        if (sscanf(line, "%lx%c%lx ", &from, &dash, &to) == 3 && dash == '-')
            here = (uintptr_t)p >= from && (uintptr_t)p < to;
        if (here && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, flag) != NULL;
    }
    (void)fclose(f);
    return found;
}

static void its_memory(void **state)
{
    (void)state;
    setenv("BH_TEST_SECRET", VALUE, 1);
    const struct bh_secret_ref ref = {.name = "key", .env = "BH_TEST_SECRET"};
    BH_CLEANUP_SECRET struct bh_secret s = {0};
    T_OK(bh_secret_resolve(&ref, &s, &err));
    if (access("/proc/self/smaps", R_OK) == 0) {
        assert_true(has_flag(s.value, " dd"));
        assert_true(has_flag(s.value, " wf"));
    }
    bh_secret_fini(&s);
    bh_secret_fini(&s); /* nothing left to let go of */
    assert_null(s.value);
    bh_secret_free(NULL, 5);
    unsetenv("BH_TEST_SECRET");
}

static void without_locked_memory(void **state)
{
    (void)state;
    const struct rlimit none = {0, 0};
    setenv("BH_TEST_SECRET", VALUE, 1);
    T_INT(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    const struct bh_secret_ref ref = {.name = "key", .env = "BH_TEST_SECRET"};
    gives(&ref, VALUE);
    unsetenv("BH_TEST_SECRET");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_variable),
        T(a_file),
        T(a_fifo_does_not_block),
        T(sizes),
        T(a_command),
        T(whether_it_is_there),
        T(a_command_with_a_child),
        T(a_command_inherits_nothing),
        T(its_memory),
        T(without_locked_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
