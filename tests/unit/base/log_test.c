/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <regex.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tests/support/t.h"

/* A datagram socket shows what one write() carried. */
static int reader = -1;

static int open_log(void **state)
{
    (void)state;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    reader = pair[0];
    bh_log_setup(pair[1], BH_LOG_DEBUG);
    return 0;
}

/* The next write without its newline, or "" where there was none. */
static const char *next_line(void)
{
    static char line[4096];
    ssize_t n = recv(reader, line, sizeof(line) - 1, 0);
    if (n < 0)
        return "";
    T_INT(line[n - 1], '\n');
    line[n - 1] = '\0';
    assert_null(strchr(line, '\n'));
    return line;
}

/* What stands behind "TIME LEVEL EVENT pid=N ". */
static const char *fields(const char *line)
{
    const char *pid = strstr(line, " pid=");
    assert_non_null(pid);
    const char *rest = strchr(pid + 1, ' ');
    return rest ? rest + 1 : "";
}

static void test_line_format(void **state)
{
    (void)state;
    regex_t re;
    char pattern[256];
    (void)snprintf(pattern, sizeof(pattern),
                   "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z info run\\.state pid=%d "
                   "run=01abc from=queued to=running$",
                   (int)getpid());
    T_INT(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bh_log(BH_LOG_INFO, "run.state", "run", "01abc", "from", "queued", "to", "running", NULL);
    T_INT(regexec(&re, next_line(), 0, NULL, 0), 0);
    regfree(&re);
    bh_log(BH_LOG_ERROR, "alone", NULL);
    T_STR(fields(next_line()), "");
    T_STR(next_line(), "");
}

static void test_values_are_escaped(void **state)
{
    (void)state;
    bh_log(BH_LOG_INFO, "e", "a", "two words", "b", "", "c", "say \"x\"", "d", "k=v", "e", "\x1b[31m\nnext", "f", NULL,
           NULL);
    T_STR(fields(next_line()), "a=\"two words\" b=\"\" c=\"say \\\"x\\\"\" d=\"k=v\" e=\\x1B[31m\\x0Anext f=-");
}

static void test_secrets_are_masked(void **state)
{
    (void)state;
    bh_log(BH_LOG_WARN, "e", "token", "abc", "join_Token", "abc", "client-secret", "abc", "password", "abc",
           "Authorization", "Bearer abc", "run", "abc", NULL);
    const char *line = fields(next_line());
    T_STR(line, "token=*** join_Token=*** client-secret=*** password=*** Authorization=*** run=abc");
}

static void test_levels(void **state)
{
    (void)state;
    static const enum bh_log_level levels[] = {BH_LOG_DEBUG, BH_LOG_INFO, BH_LOG_WARN, BH_LOG_ERROR};
    int fd = dup(reader);
    for (size_t set = 0; set < BH_ARRAY_LEN(levels) + 1; set++) {
        int pair[2];
        size_t written = 0;
        T_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        T_INT(dup2(pair[0], reader), reader);
        bh_log_setup(pair[1], (enum bh_log_level)set);
        for (size_t i = 0; i < BH_ARRAY_LEN(levels); i++)
            bh_log(levels[i], "e", "set", set % 2 ? "odd" : "even", NULL);
        while (*next_line())
            written++;
        T_INT(written, BH_ARRAY_LEN(levels) - set);
        close(pair[0]);
        close(pair[1]);
    }
    close(fd);
    T_INT(open_log(NULL), 0);
}

static void test_level_from_environment(void **state)
{
    (void)state;
    static const char *const names[] = {"debug", "info", "warn", "error", "off"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        T_INT(setenv("BULKHEAD_LOG", names[i], 1), 0);
        T_INT(bh_log_level_from_env(BH_LOG_WARN), i);
    }
    T_INT(setenv("BULKHEAD_LOG", "INFO", 1), 0);
    T_INT(bh_log_level_from_env(BH_LOG_WARN), BH_LOG_INFO);
    T_INT(setenv("BULKHEAD_LOG", "loud", 1), 0);
    T_INT(bh_log_level_from_env(BH_LOG_ERROR), BH_LOG_ERROR);
    T_INT(unsetenv("BULKHEAD_LOG"), 0);
    T_INT(bh_log_level_from_env(BH_LOG_OFF), BH_LOG_OFF);
}

/*
 * A thousand equal lines: a few are written for each second that this takes, every other one is counted, and the
 * count is said before the next line that differs.
 */
static void test_repeated_lines(void **state)
{
    (void)state;
    unsigned written = 0, dropped = 0;
    struct bh_mono start = bh_mono_now();
    bh_log(BH_LOG_INFO, "e", "n", "other", NULL);
    T_STR(fields(next_line()), "n=other");
    for (int i = 0; i < 1000; i++) {
        bh_log(BH_LOG_INFO, "e", "n", "same", NULL);
        for (const char *line; *(line = next_line());) {
            const char *count = strstr(line, " log.repeated ");
            if (count)
                dropped += (unsigned)strtoul(strstr(line, "dropped=") + 8, NULL, 10);
            else
                written++;
        }
    }
    bh_log(BH_LOG_INFO, "e", "n", "different", NULL);
    const char *line = next_line();
    if (strstr(line, " warn log.repeated pid=")) {
        dropped += (unsigned)strtoul(strstr(line, "dropped=") + 8, NULL, 10);
        line = next_line();
    }
    T_STR(fields(line), "n=different");
    T_INT(written + dropped, 1000);
    int64_t seconds = (bh_mono_now().ns - start.ns) / BH_NS_PER_S + 1;
    assert_true(written >= 10 && written <= 10 * seconds);
}

static void test_errno_and_failure(void **state)
{
    (void)state;
    errno = EXDEV;
    bh_log(BH_LOG_INFO, "e", "case", "good", NULL);
    T_INT(errno, EXDEV);
    bh_log_setup(-1, BH_LOG_DEBUG);
    bh_log(BH_LOG_INFO, "e", "case", "closed", NULL);
    T_INT(errno, EXDEV);
    T_INT(open_log(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_format),
        cmocka_unit_test(test_values_are_escaped),
        cmocka_unit_test(test_secrets_are_masked),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_level_from_environment),
        cmocka_unit_test(test_repeated_lines),
        cmocka_unit_test(test_errno_and_failure),
    };
    return cmocka_run_group_tests(tests, open_log, NULL);
}
