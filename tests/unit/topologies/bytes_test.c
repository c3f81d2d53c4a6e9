/* SPDX-License-Identifier: Apache-2.0 */
#include "topologies/bytes.h"

#include "tests/support/t.h"

static int check(const char *text)
{
    struct bh_errlist errors = {0};
    int rc = bh_bytes_check("p.yaml", text, strlen(text), &errors);
    assert_int_equal(errors.len, rc == 0 ? 0 : 1);
    bh_errlist_fini(&errors);
    return rc;
}

static void test_good(void **state)
{
    static const char *const texts[] = {
        "",
        "a: b\n",
        "\xef\xbb\xbf"
        "a: b\r\n", /* the mark and CRLF */
        "a:\tb\n",
        "a: \xc2\x85 \xc2\xa0\n",         /* NEL, and the first behind C1 */
        "a: \xe2\x80\xa8\n",              /* a line separator */
        "a: \xed\x9f\xbf \xee\x80\x80\n", /* beside the surrogates */
        "a: \xf4\x8f\xbf\xbf\n",          /* U+10FFFF */
        "a: \xef\xbf\xbd\n",
        " %a: b\n",
        "a: 5%\n",
        "\xc3\xa9",
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        if (check(texts[i]) != 0)
            fail_msg("text %zu was refused", i);
    }
}

/* Every control character but three, every first byte that begins nothing. */
static void test_every_bad_byte(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        const char text[] = {'a', ':', ' ', (char)c, '\n', 0};
        bool good = (c >= 0x20 && c < 0x7f) || c == '\t' || c == '\n' || c == '\r';
        if (check(text) != (good ? 0 : -BH_E_ENCODING))
            fail_msg("byte 0x%02x", c);
    }
    for (int c = 0x80; c < 0xa0; c++) {
        const char text[] = {'\xc2', (char)c, 0};
        if (check(text) != (c == 0x85 ? 0 : -BH_E_ENCODING))
            fail_msg("U+%04x", c);
    }
}

/* Lines end with \n, \r\n and \r; columns count characters. */
static void test_places(void **state)
{
    static const struct {
        const char *text;
        int line, column;
    } rows[] = {
        {"\x01", 1, 1},
        {"ab\x01", 1, 3},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x01", 1, 4},
        {"a\nb\x01", 2, 2},
        {"a\r\nb\x01", 2, 2},
        {"a\rb\x01", 2, 2},
        {"a\n\r\n\r\x01", 4, 1},
        {"\xef\xbb\xbf"
         "a\x01",
         1, 2},
        {"a\n%b", 2, 1},
        {"\xef\xbb\xbf%b", 1, 1},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_errlist errors = {0};
        assert_true(bh_bytes_check("p.yaml", rows[i].text, strlen(rows[i].text), &errors) < 0);
        if (bh_err_line(errors.items[0]) != rows[i].line || bh_err_column(errors.items[0]) != rows[i].column)
            fail_msg("row %zu: %d:%d", i, bh_err_line(errors.items[0]), bh_err_column(errors.items[0]));
        assert_string_equal(bh_err_file(errors.items[0]), "p.yaml");
        bh_errlist_fini(&errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_every_bad_byte),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
