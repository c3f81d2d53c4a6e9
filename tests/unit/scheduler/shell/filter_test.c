/* SPDX-License-Identifier: Apache-2.0 */
/* What a command writes on its way to a terminal: text passes, whatever could steer it does not, however it is cut. */
#include "scheduler/shell/filter.h"

#include "base/buf.h"
#include "tests/support/t.h"

static const char *filtered(const char *text, size_t step)
{
    static struct bh_buf out = BH_BUF_INIT;
    struct bh_shell_filter f = {0};
    size_t len = strlen(text);
    bh_buf_clear(&out);
    for (size_t at = 0; at < len; at += step)
        bh_shell_filter(&f, text + at, at + step < len ? step : len - at, &out);
    bh_shell_filter_end(&f, &out);
    return out.data;
}

struct row {
    const char *text, *want;
};

/* As a whole, and byte by byte. */
static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t step = 1; step <= 5; step++)
            T_STR(filtered(rows[i].text, step), rows[i].want);
        T_STR(filtered(rows[i].text, 1000), rows[i].want);
    }
}

static void text_passes(void **state)
{
    static const struct row rows[] = {
        {"", ""},
        {"plain\ttext\r\nnext\n", "plain\ttext\r\nnext\n"},
        {"back\b\b and bell\a", "back\b\b and bell\a"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
    };
    (void)state;
    check_rows(rows, BH_ARRAY_LEN(rows));
}

static void what_steers_is_shown(void **state)
{
    static const struct row rows[] = {
        {"\033[31mred\033[0m", "\\x1B[31mred\\x1B[0m"},
        {"\033]0;title\a", "\\x1B]0;title\a"},
        {"del\x7f", "del\\x7F"},
        {"\xc2\x9b"
         "31m",
         "\\u{009B}31m"}, /* CSI of C1 */
        {"\xe2\x80\xae"
         "reversed",
         "\\u{202E}reversed"},
    };
    (void)state;
    check_rows(rows, BH_ARRAY_LEN(rows));
}

static void bytes_that_are_no_text_are_shown(void **state)
{
    static const struct row rows[] = {
        {"\xff\xfe", "\\xFF\\xFE"},
        {"cut \xe2\x82", "cut \\xE2\\x82"}, /* at the end: its rest never comes */
        {"\x80", "\\x80"},
        {"\xf0\x9f\x98", "\\xF0\\x9F\\x98"},
        {"a\xc3"
         "b",
         "a\\xC3b"},
    };
    (void)state;
    check_rows(rows, BH_ARRAY_LEN(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_passes),
        cmocka_unit_test(what_steers_is_shown),
        cmocka_unit_test(bytes_that_are_no_text_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
