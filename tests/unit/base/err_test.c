/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"

static int fails(struct bh_err **err)
{
    return bh_err_set(err, BH_E_INVALID, 0, "'%s' is no %s", "x", "number");
}

static void test_set(void **state)
{
    (void)state;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    T_INT(fails(&err), -BH_E_INVALID);
    T_INT(bh_err_code(err), BH_E_INVALID);
    T_STR(bh_err_message(err), "'x' is no number");
    T_INT(bh_err_errno(err), 0);
    assert_null(bh_err_get_detail(err));
    assert_null(bh_err_get_hint(err)); /* the table has none for this code */
    assert_null(bh_err_file(err));
    assert_null(bh_err_path(err));
    T_INT(bh_err_line(err), 0);
    T_INT(bh_err_column(err), 0);
}

static void test_no_error_object(void **state)
{
    (void)state;
    struct bh_err *none = NULL;
    T_INT(fails(NULL), -BH_E_INVALID);
    T_INT(bh_err_set(NULL, BH_E_IO, ENOSPC, "x"), -BH_E_DISK_FULL);
    T_INT(bh_err_wrap(NULL, -BH_E_IO, "x"), -BH_E_IO);
    T_INT(bh_err_wrap(&none, -BH_E_IO, "x"), -BH_E_IO);
    bh_err_detail(NULL, "x");
    bh_err_hint(&none, "x");
    bh_err_at(&none, "f", 1, 1, "p");
    assert_null(none);
    T_INT(bh_err_code(NULL), BH_OK);
    T_STR(bh_err_message(NULL), "");
    assert_null(bh_err_get_hint(NULL));
    assert_null(bh_err_get_detail(NULL));
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_err_format(NULL, &out);
    T_STR(out.data, "");
}

static void test_errno_refines_io_only(void **state)
{
    (void)state;
    static const struct {
        enum bh_code code;
        int why;
        enum bh_code want;
    } samples[] = {
        {BH_E_IO, ENOSPC, BH_E_DISK_FULL}, {BH_E_IO, EDQUOT, BH_E_DISK_FULL}, {BH_E_IO, EACCES, BH_E_PERMISSION},
        {BH_E_IO, EPERM, BH_E_PERMISSION}, {BH_E_IO, EROFS, BH_E_PERMISSION}, {BH_E_IO, EIO, BH_E_IO},
        {BH_E_HOST, ENOSPC, BH_E_HOST},    {BH_E_HOST, EPERM, BH_E_HOST},     {BH_E_IO, 0, BH_E_IO},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++) {
        BH_CLEANUP_ERR struct bh_err *err = NULL;
        T_INT(bh_err_set(&err, samples[i].code, samples[i].why, "cannot write 'f'"), -(int)samples[i].want);
        T_INT(bh_err_code(err), samples[i].want);
        T_INT(bh_err_errno(err), samples[i].why);
    }
}

static void test_errno_text(void **state)
{
    (void)state;
    BH_CLEANUP_ERR struct bh_err *known = NULL, *strange = NULL;
    (void)bh_err_set(&known, BH_E_IO, ENOENT, "cannot open '%s'", "a");
    T_STR(bh_err_message(known), "cannot open 'a': No such file or directory");
    (void)bh_err_set(&strange, BH_E_IO, 12345, "cannot open 'a'");
    T_STR(bh_err_message(strange), "cannot open 'a': error 12345");
}

static void test_wrap(void **state)
{
    (void)state;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    (void)fails(&err);
    T_INT(bh_err_wrap(&err, -BH_E_IO, "stage '%s'", "s"), -BH_E_INVALID);
    T_INT(bh_err_wrap(&err, -BH_E_IO, "loading"), -BH_E_INVALID);
    T_STR(bh_err_message(err), "loading: stage 's': 'x' is no number");
}

static void test_setting_twice_aborts(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        struct bh_err *err = NULL;
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        (void)fails(&err);
        (void)fails(&err);
        _exit(0);
    }
    int status;
    T_INT(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFSIGNALED(status));
    T_INT(WTERMSIG(status), SIGABRT);
}

static void test_hints(void **state)
{
    (void)state;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    (void)bh_err_set(&err, BH_E_ENCODING, 0, "x");
    T_STR(bh_err_get_hint(err), bh_code_info(BH_E_ENCODING)->remedy);
    bh_err_hint(&err, "do %d", 1);
    bh_err_hint(&err, "do %d", 2);
    T_STR(bh_err_get_hint(err), "do 2");
    bh_err_detail(&err, "first");
    bh_err_detail(&err, "second %s", "thing");
    T_STR(bh_err_get_detail(err), "second thing");
}

static void format_is(struct bh_err *err, const char *want)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_err_format(err, &out);
    T_STR(out.data, want);
    bh_err_free(err);
}

static struct bh_err *placed(const char *file, int line, int column, const char *path)
{
    struct bh_err *err = NULL;
    (void)fails(&err);
    bh_err_at(&err, file, line, column, path);
    return err;
}

static void test_format_positions(void **state)
{
    (void)state;
    format_is(placed("p.yaml", 3, 5, "stages[0]"), "p.yaml:3:5: stages[0]: 'x' is no number\n");
    format_is(placed("p.yaml", 3, 0, NULL), "p.yaml:3: 'x' is no number\n");
    format_is(placed("p.yaml", 0, 9, ""), "p.yaml: 'x' is no number\n");
    format_is(placed(NULL, 3, 5, NULL), "line 3:5: 'x' is no number\n");
    format_is(placed(NULL, 0, 0, "stages"), "stages: 'x' is no number\n");
    format_is(placed(NULL, 0, 0, NULL), "'x' is no number\n");
}

static void test_format_detail_and_hint(void **state)
{
    (void)state;
    struct bh_err *err = NULL;
    (void)fails(&err);
    bh_err_detail(&err, "one\ntwo");
    bh_err_hint(&err, "try\nthis");
    format_is(err, "'x' is no number\n  one\n  two\n  hint: try\n        this\n");
}

static void test_format_escapes(void **state)
{
    (void)state;
    struct bh_err *err = NULL;
    (void)bh_err_set(&err, BH_E_INVALID, 0, "'\x1b[31m' and \n");
    bh_err_at(&err, "a\rb", 1, 1, "k\x07");
    bh_err_detail(&err, "\xff");
    bh_err_hint(&err, "\x7f");
    format_is(err, "a\\x0Db:1:1: k\\x07: '\\x1B[31m' and \\x0A\n  \\xFF\n  hint: \\x7F\n");
}

static void test_to_val(void **state)
{
    (void)state;
    static const char *const keys[] = {"code", "message", "detail", "hint", "file", "line", "column", "path"};
    BH_CLEANUP_ERR struct bh_err *err = placed("p.yaml", 3, 5, "stages");
    BH_CLEANUP_VAL struct bh_val *v = bh_err_to_val(err);
    T_INT(bh_val_len(v), BH_ARRAY_LEN(keys));
    for (size_t i = 0; i < BH_ARRAY_LEN(keys); i++)
        T_STR(bh_val_key_at(v, i), keys[i]);
    T_STR(bh_val_str_of(v, "code"), "invalid");
    T_STR(bh_val_str_of(v, "message"), "'x' is no number");
    T_INT(bh_val_type(bh_val_get(v, "detail")), BH_VAL_NULL);
    T_INT(bh_val_type(bh_val_get(v, "hint")), BH_VAL_NULL);
    T_INT(bh_val_int_of(v, "line"), 3);
    T_INT(bh_val_int_of(v, "column"), 5);
    BH_CLEANUP_ERR struct bh_err *bare = placed(NULL, 0, 0, NULL);
    BH_CLEANUP_VAL struct bh_val *w = bh_err_to_val(bare);
    T_INT(bh_val_len(w), BH_ARRAY_LEN(keys));
    T_INT(bh_val_type(bh_val_get(w, "line")), BH_VAL_NULL);
    T_INT(bh_val_type(bh_val_get(w, "file")), BH_VAL_NULL);
}

static void test_errlist_sorts_stably(void **state)
{
    (void)state;
    static const struct {
        int line, column;
        const char *path;
    } in[] = {{9, 1, "f"}, {2, 5, "c"}, {2, 5, "d"}, {2, 1, "b"}, {0, 0, "a"}, {2, 5, "e"}};
    struct bh_errlist list = {0};
    BH_CLEANUP_BUF struct bh_buf order = BH_BUF_INIT;
    for (size_t i = 0; i < BH_ARRAY_LEN(in); i++)
        bh_errlist_add(&list, placed("p", in[i].line, in[i].column, in[i].path));
    bh_errlist_add(&list, NULL);
    T_INT(list.len, BH_ARRAY_LEN(in));
    bh_errlist_sort(&list);
    for (size_t i = 0; i < list.len; i++)
        bh_buf_adds(&order, bh_err_path(list.items[i]));
    T_STR(order.data, "abcdef");
    bh_errlist_fini(&list);
    T_INT(list.len, 0);
    bh_errlist_sort(&list);
    bh_errlist_fini(&list);
}

static void test_errlist_keeps_files_together(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int line;
        const char *path;
    } in[] = {{"z", 9, "b"}, {"a", 1, "c"}, {"z", 2, "a"}, {NULL, 0, "e"}, {"a", 3, "d"}};
    struct bh_errlist list = {0};
    BH_CLEANUP_BUF struct bh_buf order = BH_BUF_INIT;
    for (size_t i = 0; i < BH_ARRAY_LEN(in); i++)
        bh_errlist_add(&list, placed(in[i].file, in[i].line, 1, in[i].path));
    bh_errlist_sort(&list);
    for (size_t i = 0; i < list.len; i++)
        bh_buf_adds(&order, bh_err_path(list.items[i]));
    T_STR(order.data, "abcde");
    bh_errlist_fini(&list);
}

static bool is_kebab(const char *text)
{
    if (!islower((unsigned char)*text))
        return false;
    for (const char *p = text; *p; p++) {
        if (!islower((unsigned char)*p) && !(*p == '-' && islower((unsigned char)p[1])))
            return false;
    }
    return true;
}

static bool is_exit_status(int status)
{
    static const int known[] = {1, 2, 3, 4, 5, 6, 7, 70, 130};
    for (size_t i = 0; i < BH_ARRAY_LEN(known); i++) {
        if (known[i] == status)
            return true;
    }
    return false;
}

/* A remedy is printed as a hint: one line, lower case or a quoted command, no full stop. */
static bool is_catalogue_text(const char *text)
{
    size_t n = strlen(text);
    if (n == 0)
        return true;
    for (const char *p = text; *p; p++) {
        if (!isprint((unsigned char)*p))
            return false;
    }
    return !isupper((unsigned char)text[0]) && text[n - 1] != '.' && text[n - 1] != ' ' && n <= 100;
}

static void test_every_row_of_the_table(void **state)
{
    (void)state;
    for (int code = BH_OK + 1; code < BH_E_MAX_; code++) {
        const struct bh_code_info *row = bh_code_info(code);
        T_INT(row->code, code);
        assert_ptr_equal(bh_code_info(-code), row);
        T_INT(bh_code_parse(row->text), code); /* so it is also unique */
        if (!is_kebab(row->text) || !is_exit_status(row->exit_status) || !is_catalogue_text(row->remedy) ||
            row->http_status < 200 || row->http_status > 599)
            fail_msg("the row of '%s' breaks a rule", row->text);
    }
}

static void test_table_takes_any_number(void **state)
{
    (void)state;
    static const int strange[] = {0, BH_E_MAX_, -BH_E_MAX_, 9999, INT_MAX, INT_MIN, INT_MIN + 1};
    for (size_t i = 0; i < BH_ARRAY_LEN(strange); i++)
        T_INT(bh_code_info(strange[i])->code, BH_E_INTERNAL);
    T_INT(bh_code_parse("no-such-code"), BH_OK);
    T_INT(bh_code_parse(""), BH_OK);
    T_INT(bh_code_parse(NULL), BH_OK);
}

/* The statuses that the manual promises for each family. */
static void test_documented_exit_statuses(void **state)
{
    (void)state;
    static const struct {
        enum bh_code code;
        int status;
    } rows[] = {
        {BH_E_RUN_FAILED, 1}, {BH_E_USAGE, 2},         {BH_E_NOT_FOUND, 2},     {BH_E_BUSY, 2},
        {BH_E_INVALID, 3},    {BH_E_SYNTAX, 3},        {BH_E_NOT_SUPPORTED, 3}, {BH_E_UNREACHABLE, 4},
        {BH_E_TRUST, 5},      {BH_E_POLICY, 5},        {BH_E_COLLISION, 6},     {BH_E_HOST, 7},
        {BH_E_INTERNAL, 70},  {BH_E_INTERRUPTED, 130},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++)
        T_INT(bh_code_info((int)rows[i].code)->exit_status, rows[i].status);
}

static void test_free_keeps_errno(void **state)
{
    (void)state;
    struct bh_err *err = NULL;
    (void)fails(&err);
    errno = EXDEV;
    bh_err_free(err);
    bh_err_free(NULL);
    T_INT(errno, EXDEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_no_error_object),
        cmocka_unit_test(test_errno_refines_io_only),
        cmocka_unit_test(test_errno_text),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_setting_twice_aborts),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_format_positions),
        cmocka_unit_test(test_format_detail_and_hint),
        cmocka_unit_test(test_format_escapes),
        cmocka_unit_test(test_to_val),
        cmocka_unit_test(test_errlist_sorts_stably),
        cmocka_unit_test(test_errlist_keeps_files_together),
        cmocka_unit_test(test_every_row_of_the_table),
        cmocka_unit_test(test_table_takes_any_number),
        cmocka_unit_test(test_documented_exit_statuses),
        cmocka_unit_test(test_free_keeps_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
