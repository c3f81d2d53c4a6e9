/* SPDX-License-Identifier: Apache-2.0 */
/* The values of an execution: found off the loop, noted before they are given, given up in the middle. */
#include "workers/secrets.h"

#include <event2/event.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/val.h"
#include "policies/audit.h"
#include "tests/support/t.h"
#include "workers/mask.h"

static char *dir;
static struct event_base *loop;
static struct bh_secret_desk *desk;
static struct answer {
    struct bh_secrets *found;
    int code, n;
    char *message;
} answer;

static int setup(void **state)
{
    (void)state;
    dir = t_tmpdir();
    loop = event_base_new();
    assert_non_null(loop);
    desk = bh_secret_desk_new(loop, dir);
    answer = (struct answer){0};
    setenv("BH_TEST_SECRET", "canary-in-a-variable", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_secrets_free(answer.found);
    bh_free(answer.message);
    bh_secret_desk_free(desk);
    event_base_free(loop);
    t_tmpdir_free(dir);
    unsetenv("BH_TEST_SECRET");
    return 0;
}

static void on_found(void *arg, struct bh_secrets *found, int code, const struct bh_err *err)
{
    T_TRUE(arg == &answer);
    answer.found = found;
    answer.code = code;
    answer.message = bh_strdup(err ? bh_err_message(err) : NULL);
    answer.n++;
    (void)event_base_loopbreak(loop);
}

static const char *words[] = {"sh", "-c", "printf canary-of-a-command"}, *slow[] = {"sleep", "60"};
static struct bh_lease_secret refs[] = {
    {.variable = (char[]){"KEY"}, .name = (char[]){"key"}, .env = (char[]){"BH_TEST_SECRET"}},
    {.variable = (char[]){"TOKEN"}, .name = (char[]){"token"}, .n_command = 3},
};

static struct bh_lease lease_with(const char **command, size_t n)
{
    static char agent[] = "a", box[] = "a";
    refs[1].command = (char **)(uintptr_t)command;
    refs[1].n_command = n;
    return (struct bh_lease){
        .agent = agent, .attempt = 2, .try_ = 1, .box.id = box, .secrets = refs, .n_secrets = BH_ARRAY_LEN(refs)};
}

static void find(const struct bh_lease *lease)
{
    struct bh_secrets_call *call;
    T_OK(bh_secrets_find(desk, lease, on_found, &answer, &call, &err));
    T_INT(answer.n, 0); /* never from inside */
    T_INT(event_base_dispatch(loop), 0);
    T_INT(answer.n, 1);
}

static int n_lines;

static bool on_line(void *arg, const struct bh_val *line)
{
    (void)arg;
    n_lines++;
    T_STR(bh_val_str_of(line, "kind"), "secret");
    T_STR(bh_val_str_of(line, "agent"), "a");
    T_INT(bh_val_int_of(line, "attempt"), 2);
    T_STR(bh_val_str_of(line, "secret"), n_lines == 1 ? "key" : "token");
    T_STR(bh_val_str_of(line, "from"), n_lines == 1 ? "env" : "command");
    T_STR(bh_val_str_of(line, "variable"), n_lines == 1 ? "KEY" : "TOKEN");
    return true;
}

static int lines_of_audit(void)
{
    struct bh_home home;
    n_lines = 0;
    T_OK(bh_home_open(dir, true, &home, &err));
    T_OK(bh_audit_read(&home, on_line, NULL, &err));
    bh_home_close(&home);
    return n_lines;
}

static void found_noted_and_given(void **state)
{
    static const char *const env[] = {"PATH=/bin", "KEY=of-the-document", "KEYS=1", NULL};
    (void)state;
    const struct bh_lease lease = lease_with(words, 3);
    find(&lease);
    T_INT(answer.code, 0);
    struct bh_arena *arena = bh_arena_new();
    const char *const *list = bh_secrets_env(answer.found, arena, env);
    T_STR(list[0], "PATH=/bin");
    T_STR(list[1], "KEYS=1");
    T_STR(list[2], "KEY=canary-in-a-variable"); /* wins */
    T_STR(list[3], "TOKEN=canary-of-a-command");
    assert_null(list[4]);
    bh_arena_free(arena);
    struct bh_mask *mask = bh_secrets_mask(answer.found);
    bh_secrets_free(BH_TAKE(answer.found)); /* the mask stays */
    BH_CLEANUP_FREE char *masked = bh_mask_text(mask, "a canary-of-a-command b");
    T_STR(masked, "a *** b");
    bh_mask_unref(mask);
    T_INT(lines_of_audit(), 2);
}

static void one_is_missing(void **state)
{
    (void)state;
    const struct bh_lease lease = lease_with(words, 3);
    unsetenv("BH_TEST_SECRET");
    find(&lease);
    T_INT(answer.code, -BH_E_HOST);
    assert_null(answer.found);
    assert_non_null(strstr(answer.message, "variable 'BH_TEST_SECRET' is not set"));
    T_INT(lines_of_audit(), 0);
}

/* What cannot be noted is not given. */
static void no_audit_no_values(void **state)
{
    (void)state;
    const struct bh_lease lease = lease_with(words, 3);
    BH_CLEANUP_FREE char *file = bh_path_join(dir, "audit");
    T_OK(bh_write_file_atomic(file, "", 0, 0600, &err)); /* no folder */
    find(&lease);
    T_INT(answer.code, -BH_E_IO);
    assert_null(answer.found);
    assert_non_null(strstr(answer.message, "cannot write the audit log"));
}

static void the_tainted_get_none(void **state)
{
    struct bh_secrets_call *call;
    (void)state;
    struct bh_lease lease = lease_with(words, 3);
    lease.box.tainted = true;
    T_ERR(bh_secrets_find(desk, &lease, on_found, &answer, &call, &err), BH_E_POLICY,
          "the box of agent 'a' is tainted, and is given no secret");
}

/* A command that takes its time holds up nobody who does not wait for it any more. */
static void given_up(void **state)
{
    struct bh_secrets_call *call;
    struct bh_mono start = bh_mono_now();
    (void)state;
    const struct bh_lease lease = lease_with(slow, 2);
    for (int i = 0; i < 9; i++) { /* more than there are threads */
        T_OK(bh_secrets_find(desk, &lease, on_found, &answer, &call, &err));
        bh_secrets_give_up(call);
    }
    bh_secrets_give_up(NULL);
    bh_secret_desk_free(BH_TAKE(desk));
    T_INT(answer.n, 0);
    assert_true(bh_mono_now().ns - start.ns < 20 * BH_NS_PER_S);
    T_INT(lines_of_audit(), 0);
}

static void no_core_is_dumped(void **state)
{
    struct rlimit limit;
    (void)state;
    const struct bh_lease lease = lease_with(words, 3);
    find(&lease);
    T_INT(getrlimit(RLIMIT_CORE, &limit), 0);
    assert_true(limit.rlim_cur <= 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(found_noted_and_given), T(one_is_missing), T(no_audit_no_values),
        T(the_tainted_get_none),  T(given_up),       T(no_core_is_dumped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
