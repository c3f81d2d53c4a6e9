/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"

static struct bh_val *parsed(const char *text)
{
    struct bh_val *v = NULL;
    T_OK(bh_json_parse(text, strlen(text), &v, &err));
    return v;
}

static void formats_as(const struct bh_val *v, const char *want)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_json_format(v, &out);
    T_STR(out.data, want);
}

static void test_round_trips(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-9223372036854775808",
        "9223372036854775807",
        "0.1",
        "1e100",
        "[1.5,0.30000000000000004]",
        "\"\"",
        "\"gr\xc3\xbcn \xf0\x9f\x98\x80\"",
        "\"\\u0000\\u0001\\n\\\"\\\\\\u001B\"",
        "\"\\u007F\\u0080\\u009F\\u2028\\u2029\"",
        "[]",
        "{}",
        "[1,[2,[3,[]]],{\"a\":{}}]",
        "{\"z\":1,\"a\":{\"y\":2,\"b\":3},\"m\":[null,true]}",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        BH_CLEANUP_VAL struct bh_val *v = parsed(texts[i]);
        formats_as(v, texts[i]);
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        bh_json_format(v, &out);
        BH_CLEANUP_VAL struct bh_val *again = parsed(out.data);
        T_TRUE(bh_val_equal(v, again));
    }
}

static void test_types(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = parsed(" {\"i\": 5, \"d\": 5.0, \"s\": \"5\", \"n\": \"a\\u0000b\"} \n");
    T_INT(bh_val_type(bh_val_get(v, "i")), BH_VAL_INT);
    T_INT(bh_val_type(bh_val_get(v, "d")), BH_VAL_NUM);
    T_INT(bh_val_type(bh_val_get(v, "s")), BH_VAL_STR);
    T_INT(bh_val_str_len(bh_val_get(v, "n")), 3);
}

static void test_canonical(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *a = parsed("{\"z\":1,\"a\":[{\"d\":1,\"c\":2}],\"A\":0.5}");
    BH_CLEANUP_VAL struct bh_val *b = parsed("{\"A\":0.5,\"a\":[{\"c\":2,\"d\":1}],\"z\":1}");
    BH_CLEANUP_BUF struct bh_buf first = BH_BUF_INIT, second = BH_BUF_INIT;
    bh_json_format_canonical(a, &first);
    bh_json_format_canonical(b, &second);
    T_STR(first.data, "{\"A\":0.5,\"a\":[{\"c\":2,\"d\":1}],\"z\":1}");
    T_STR(second.data, first.data);
}

static void test_appends(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_buf_adds(&out, "x=");
    bh_json_format(NULL, &out);
    T_STR(out.data, "x=null");
}

static void test_numbers_without_json(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
    bh_val_add(list, bh_val_num((double)INFINITY));
    bh_val_add(list, bh_val_num((double)NAN));
    bh_val_add(list, bh_val_num(2));
    formats_as(list, "[null,null,2.0]");
}

static void fails_at(const char *text, size_t len, int line, int column, const char *part)
{
    struct bh_val *v = NULL;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int r = bh_json_parse(text, len, &v, &err);
    if (r != -BH_E_SYNTAX || v || !strstr(bh_err_message(err), part) || bh_err_line(err) != line ||
        bh_err_column(err) != column)
        fail_msg("'%s' gave %d at %d:%d '%s'", text, r, bh_err_line(err), bh_err_column(err), bh_err_message(err));
}

static void test_refused_with_position(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line, column;
        const char *part;
    } bad[] = {
        {"", 1, 1, "no valid JSON: unexpected token near end of file"},
        {"{\"a\": 1,\n \"a\": 2}", 2, 4, "duplicate object key near '\"a\"'"},
        {"{\"a\": 1} x", 1, 10, "end of file expected near 'x'"},
        {"[1,\n2,\n oops]", 3, 5, "invalid token near 'oops'"},
        {"[1", 1, 2, "']' expected near end of file"},
        {"[01]", 1, 2, "invalid token near '0'"},
        {"[1,]", 1, 4, "near ']'"},
        {"{a:1}", 1, 2, "near 'a'"},
        {"['a']", 1, 2, "near '''"},
        {"[9223372036854775808]", 1, 20, "too big integer"},
        {"[-9223372036854775809]", 1, 21, "too big negative integer"},
        {"[1e999]", 1, 6, "real number overflow near '1e999'"},
        {"[NaN]", 1, 4, "near 'NaN'"},
        {"\"\xff\"", 1, 1, "unable to decode byte 0xff"},
        {"\"\\ud800\"", 1, 8, "invalid Unicode"},
        {"\"a\nb\"", 1, 2, "unexpected newline"},
        {"\xef\xbb\xbf{}", 1, 1, "near"},
        {"{\"a\\u0000b\": 1}", 1, 11, "NUL byte in object key"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        fails_at(bad[i].text, strlen(bad[i].text), bad[i].line, bad[i].column, bad[i].part);
}

static void test_nul_bytes_are_no_end(void **state)
{
    (void)state;
    struct bh_val *v = NULL;
    T_ERR(bh_json_parse("{}\0x", 4, &v, &err), BH_E_SYNTAX, "no valid JSON");
    T_ERR(bh_json_parse("\"a\0b\"", 5, &v, &err), BH_E_SYNTAX, "no valid JSON");
    assert_null(v);
}

static char *nested(size_t depth)
{
    char *text = bh_alloc(2 * depth + 1);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return text;
}

static void test_depth(void **state)
{
    (void)state;
    struct bh_val *v = NULL;
    BH_CLEANUP_FREE char *fine = nested(2000), *deep = nested(100000);
    BH_CLEANUP_VAL struct bh_val *ok = parsed(fine);
    formats_as(ok, fine);
    T_ERR(bh_json_parse(deep, strlen(deep), &v, &err), BH_E_SYNTAX, "maximum parsing depth reached");
    assert_null(v);
}

static void test_without_error_object(void **state)
{
    (void)state;
    struct bh_val *v = NULL;
    T_INT(bh_json_parse("[", 1, &v, NULL), -BH_E_SYNTAX);
}

/* 1,000 pseudo-random numbers come back bit by bit, and short ones stay short. */
static void test_numbers_come_back(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 1000; i++) {
        double d;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        memcpy(&d, &random, sizeof(d));
        if (!isfinite(d))
            continue;
        BH_CLEANUP_VAL struct bh_val *v = bh_val_num(d);
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        bh_json_format(v, &out);
        BH_CLEANUP_VAL struct bh_val *back = parsed(out.data);
        T_TRUE(bh_val_equal(v, back));
    }
    BH_CLEANUP_VAL struct bh_val *third = bh_val_num(0.3);
    formats_as(third, "0.3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_numbers_without_json),
        cmocka_unit_test(test_refused_with_position),
        cmocka_unit_test(test_nul_bytes_are_no_end),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_without_error_object),
        cmocka_unit_test(test_numbers_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
