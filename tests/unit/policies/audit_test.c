/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: what a line is, what adders leave, and that every way to tamper with it is found. */
#include "policies/audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/val.h"
#include "tests/support/t.h"

static char *dir, *file, *head;
static struct bh_home home;

static int setup(void **state)
{
    (void)state;
    dir = t_tmpdir();
    T_OK(bh_home_open(dir, true, &home, &err));
    file = bh_path_join(dir, "audit/audit.jsonl");
    head = bh_path_join(dir, "audit/head");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_home_close(&home);
    bh_free(file);
    bh_free(head);
    t_tmpdir_free(dir);
    return 0;
}

static void add(enum bh_audit_kind kind, const char *what)
{
    BH_CLEANUP_VAL struct bh_val *fields = bh_val_map();
    bh_val_set_str(fields, "what", what);
    T_OK(bh_audit_add(&home, kind, fields, &err));
}

static void add_five(void)
{
    static const char *const what[] = {"one", "two", "three", "four", "five"};
    for (size_t i = 0; i < BH_ARRAY_LEN(what); i++)
        add((enum bh_audit_kind)i, what[i]);
}

static char *slurp(void)
{
    struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_read_file(file, 16 << 20, &text, &err));
    return bh_buf_take(&text);
}

static void put(const char *text)
{
    int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    T_INT(bh_write_all(fd, text, strlen(text)), 0);
    bh_close(fd);
}

/* The one problem that is found, or none (text NULL). */
static void finds(int64_t lines, int64_t line, const char *text)
{
    struct bh_audit_report r;
    T_OK(bh_audit_verify(&home, &r, &err));
    T_INT(r.lines, lines);
    for (size_t i = 0; i < r.n_kept && !text; i++)
        print_error("line %lld %s\n", (long long)r.problems[i].line, r.problems[i].text);
    assert_true(text ? r.n_kept > 0 : r.n_kept == 0);
    if (text) {
        T_INT(r.problems[0].line, line);
        if (!strstr(r.problems[0].text, text))
            fail_msg("'%s' is not in '%s'", text, r.problems[0].text);
    }
    bh_audit_report_fini(&r);
}

static void what_a_line_is(void **state)
{
    struct stat st;
    (void)state;
    finds(0, 0, NULL); /* no log at all */
    add_five();
    BH_CLEANUP_FREE char *text = slurp();
    assert_int_equal(strncmp(text, "{\"seq\":1,\"time\":\"", 17), 0);
    assert_non_null(strstr(text, "\"kind\":\"grant\",\"what\":\"one\",\"prev\":\"sha256:00000000"));
    assert_non_null(strstr(text, "{\"seq\":5,"));
    finds(5, 0, NULL);
    T_INT(stat(file, &st), 0);
    T_INT(st.st_mode & 07777, 0600);
}

/* The hash is over bytes, so that no tool of ours is needed to check it. */
static void checked_by_hand(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *cmd =
        bh_asprintf("n=0; while read -r l; do h=${l##*\\\"hash\\\":\\\"}; h=${h%%%%\\\"*}; "
                    "b=$(printf %%s \"$l\" | sed 's/,\"hash\":\"[^\"]*\"}$//' | sha256sum); "
                    "[ \"sha256:${b%%%% *}\" = \"$h\" ] || exit 1; n=$((n+1)); done < '%s'; exit $((n+10))",
                    file);
    pid_t pid = fork();
    if (pid == 0)
        execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
    int status;
    T_INT(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    T_INT(WEXITSTATUS(status), 15);
}

/* --- tampering --- */

static char *line_start(char *text, int n)
{
    for (; n > 1; n--)
        text = strchr(text, '\n') + 1;
    return text;
}

static void a_changed_line(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *text = slurp();
    memcpy(strstr(text, "three"), "throw", 5);
    put(text);
    finds(5, 3, "was changed");
    memcpy(strstr(text, "throw"), "three", 5);
    memcpy(strstr(text, "five"), "live", 4);
    put(text);
    finds(5, 5, "was changed");
}

static void a_missing_line(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *text = slurp();
    char *second = line_start(text, 2), *third = line_start(text, 3);
    memmove(second, third, strlen(third) + 1);
    put(text);
    finds(4, 2, "1 lines are missing before it");
    add(BH_AUDIT_CALL, "six");
    finds(5, 2, "1 lines are missing before it");
}

static void the_first_line_is_missing(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *text = slurp();
    put(line_start(text, 2));
    finds(4, 1, "1 lines are missing before it");
}

static void lines_are_missing_at_the_end(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *text = slurp();
    *line_start(text, 4) = '\0';
    put(text);
    finds(3, 0, "2 lines are missing at its end");
    add(BH_AUDIT_CALL, "six"); /* goes on, and hides nothing */
    finds(4, 4, "2 lines are missing before it");
}

static void the_whole_log_is_gone(void **state)
{
    (void)state;
    add_five();
    T_INT(unlink(file), 0);
    finds(0, 0, "5 lines are missing at its end");
    add(BH_AUDIT_CALL, "six");
    finds(1, 1, "5 lines are missing before it");
}

static void two_lines_change_places(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *text = slurp();
    char *third = line_start(text, 3), *fourth = line_start(text, 4), *fifth = line_start(text, 5);
    BH_CLEANUP_FREE char *moved = bh_asprintf("%.*s%.*s%.*s%s", (int)(third - text), text, (int)(fifth - fourth),
                                              fourth, (int)(fourth - third), third, fifth);
    put(moved);
    finds(5, 3, "1 lines are missing before it: it has number 4");
}

static void a_line_twice(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *text = slurp();
    BH_CLEANUP_FREE char *more = bh_asprintf("%s%s", text, line_start(text, 5));
    put(more);
    finds(6, 6, "stands in the wrong place");
}

static void a_line_of_another_log(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *mine = slurp();
    T_INT(unlink(file), 0);
    T_INT(unlink(head), 0);
    add_five(); /* other times, other hashes */
    BH_CLEANUP_FREE char *other = slurp();
    char *second = line_start(mine, 2), *third = line_start(mine, 3);
    BH_CLEANUP_FREE char *mixed = bh_asprintf("%.*s%.*s%s", (int)(line_start(other, 2) - other), other,
                                              (int)(third - second), second, line_start(other, 3));
    put(mixed);
    finds(5, 2, "does not follow on the line before");
}

static void what_is_no_line(void **state)
{
    static const char *const rows[] = {"", "{}", "no", "{\"seq\":2}", "[1]", "\xff\xfe"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        (void)unlink(file);
        (void)unlink(head);
        add_five();
        BH_CLEANUP_FREE char *text = slurp();
        char *second = line_start(text, 2);
        BH_CLEANUP_FREE char *more = bh_asprintf("%.*s%s\n%s", (int)(second - text), text, rows[i], second);
        put(more);
        finds(6, 2, "is no line of an audit log");
    }
}

static void the_mark_is_gone(void **state)
{
    (void)state;
    add_five();
    T_INT(unlink(head), 0);
    finds(5, 0, "the mark of its end is gone");
    add(BH_AUDIT_CALL, "seven"); /* makes it again, which heals nothing */
    finds(7, 6, "the mark of the log's end was gone");
    add(BH_AUDIT_CALL, "eight");
    finds(8, 6, "the mark of the log's end was gone");
    BH_CLEANUP_FREE char *text = slurp();
    assert_non_null(strstr(text, "{\"seq\":6,"));
    assert_non_null(strstr(text, "\"kind\":\"override\",\"what\":\"audit-mark\",\"mark\":\"gone\""));
}

static void the_mark_is_broken(void **state)
{
    (void)state;
    add_five();
    T_INT(truncate(head, 7), 0);
    finds(5, 0, "the mark of its end cannot be read");
    add(BH_AUDIT_CALL, "seven");
    finds(7, 6, "the mark of the log's end was gone or broken");
    BH_CLEANUP_FREE char *text = slurp();
    assert_non_null(strstr(text, "\"mark\":\"unreadable\""));
}

/* As whoever wants the last lines unseen would do it. */
static void the_end_and_its_mark_are_taken_away(void **state)
{
    (void)state;
    add_five();
    BH_CLEANUP_FREE char *text = slurp();
    *line_start(text, 4) = '\0';
    put(text);
    T_INT(unlink(head), 0);
    add(BH_AUDIT_CALL, "five");
    finds(5, 4, "the mark of the log's end was gone");
}

/* --- crashes --- */

static void a_crash_behind_the_first_line(void **state)
{
    static const char none[] = "0000000000000000000 0000000000000000000 "
                               "sha256:0000000000000000000000000000000000000000000000000000000000000000\n";
    (void)state;
    add(BH_AUDIT_CALL, "one");
    int fd = open(head, O_WRONLY | O_TRUNC | O_CLOEXEC);
    T_INT(bh_write_all(fd, none, sizeof(none) - 1), 0);
    bh_close(fd);
    finds(1, 0, NULL);
    add(BH_AUDIT_CALL, "two");
    finds(2, 0, NULL);
}

static void a_crash_before_the_mark(void **state)
{
    (void)state;
    add_five();
    struct bh_buf before = BH_BUF_INIT;
    T_OK(bh_read_file(head, 4096, &before, &err));
    add(BH_AUDIT_CALL, "six");
    int fd = open(head, O_WRONLY | O_CLOEXEC);
    T_INT(bh_write_all(fd, before.data, before.len), 0);
    bh_close(fd);
    bh_buf_fini(&before);
    finds(6, 0, NULL);
    add(BH_AUDIT_CALL, "seven");
    finds(7, 0, NULL);
}

static void a_crash_within_a_line(void **state)
{
    (void)state;
    add_five();
    int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
    T_INT(bh_write_all(fd, "{\"seq\":6,\"ti", 12), 0);
    bh_close(fd);
    finds(5, 0, NULL);
    add(BH_AUDIT_CALL, "six");
    finds(6, 0, NULL);
}

static void cut_within_a_line(void **state)
{
    struct stat st;
    (void)state;
    add_five();
    T_INT(stat(file, &st), 0);
    T_INT(truncate(file, st.st_size - 10), 0);
    finds(4, 0, "1 lines are missing at its end");
    add(BH_AUDIT_CALL, "six"); /* a line of its own all the same */
    finds(6, 5, "is no line of an audit log");
}

/* --- what goes in --- */

static void long_and_odd_texts(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *big = bh_alloc(100 * 1024);
    memset(big, 'a', 100 * 1024 - 1);
    memcpy(big + 1022, "\xe2\x82\xac", 3); /* across the place where it is cut */
    BH_CLEANUP_VAL struct bh_val *fields = bh_val_map();
    bh_val_set_str(fields, "big", big);
    bh_val_set_str(fields, "odd", "a\nb\",\"hash\":\"x\"}\x1b");
    bh_val_add(bh_val_set(fields, "list", bh_val_list()), bh_val_str(big));
    T_OK(bh_audit_add(&home, BH_AUDIT_EGRESS, fields, &err));
    finds(1, 0, NULL);
    BH_CLEANUP_FREE char *text = slurp();
    assert_true(strlen(text) < 3000);
    assert_non_null(strstr(text, "aaa…\""));
}

static void many_at_once(void **state)
{
    enum { LINES = 50 };
    struct bh_audit_entry *entries = bh_calloc(LINES, sizeof(*entries));
    (void)state;
    for (size_t i = 0; i < LINES; i++)
        entries[i] = (struct bh_audit_entry){.kind = BH_AUDIT_EGRESS, .fields = bh_val_map()};
    T_OK(bh_audit_add_all(&home, entries, LINES, &err));
    T_OK(bh_audit_add_all(&home, entries, 0, &err));
    finds(LINES, 0, NULL);
    bh_audit_entries_free(entries, LINES);
}

static void eight_processes(void **state)
{
    enum { PROCESSES = 8, LINES = 25 };
    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid > 0)
            continue;
        BH_CLEANUP_VAL struct bh_val *fields = bh_val_map();
        int rc = 0;
        for (int n = 0; n < LINES; n++)
            rc |= bh_audit_add(&home, BH_AUDIT_EGRESS, fields, NULL);
        _exit(rc == 0 ? 0 : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        T_INT(status, 0);
    }
    finds(PROCESSES * LINES, 0, NULL);
}

static void a_link_is_not_followed(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *folder = bh_path_join(dir, "audit"), *target = bh_path_join(dir, "else");
    BH_CLEANUP_VAL struct bh_val *fields = bh_val_map();
    T_INT(mkdir(folder, 0700), 0);
    T_INT(symlink(target, file), 0);
    T_ERR(bh_audit_add(&home, BH_AUDIT_GRANT, fields, &err), BH_E_IO, "cannot write the audit log of");
    T_INT(access(target, F_OK), -1);
}

/* --- reading --- */

static bool count(void *arg, const struct bh_val *line)
{
    int *n = arg;
    assert_non_null(bh_val_str_of(line, "what"));
    return ++*n < 3;
}

static void reading(void **state)
{
    int n = 0;
    (void)state;
    T_OK(bh_audit_read(&home, count, &n, &err));
    T_INT(n, 0);
    add_five();
    T_OK(bh_audit_read(&home, count, &n, &err));
    T_INT(n, 3);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(what_a_line_is),
        T(checked_by_hand),
        T(a_changed_line),
        T(a_missing_line),
        T(the_first_line_is_missing),
        T(lines_are_missing_at_the_end),
        T(the_whole_log_is_gone),
        T(two_lines_change_places),
        T(a_line_twice),
        T(a_line_of_another_log),
        T(what_is_no_line),
        T(the_mark_is_gone),
        T(the_mark_is_broken),
        T(the_end_and_its_mark_are_taken_away),
        T(a_crash_behind_the_first_line),
        T(a_crash_before_the_mark),
        T(a_crash_within_a_line),
        T(cut_within_a_line),
        T(long_and_odd_texts),
        T(many_at_once),
        T(eight_processes),
        T(a_link_is_not_followed),
        T(reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
