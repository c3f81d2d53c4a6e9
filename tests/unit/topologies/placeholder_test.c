/* SPDX-License-Identifier: Apache-2.0 */
#include "topologies/placeholder.h"

#include "base/buf.h"
#include "tests/support/t.h"

static void test_kinds(void **state)
{
    static const struct {
        const char *text;
        enum bh_placeholder_kind kind;
        const char *name;
    } rows[] = {
        {"{{params.topic}}", BH_HOLD_PARAM, "topic"},
        {"{{ params.topic }}", BH_HOLD_PARAM, "topic"},
        {"{{\n params.a-b\t}}", BH_HOLD_PARAM, "a-b"},
        {"{{matrix.x}}", BH_HOLD_MATRIX, "x"},
        {"{{secrets.k}}", BH_HOLD_SECRET, "k"},
        {"{{item}}", BH_HOLD_ITEM, "item"},
        {"{{round}}", BH_HOLD_ROUND, "round"},
        {"{{attempt}}", BH_HOLD_ATTEMPT, "attempt"},
        {"{{url}}", BH_HOLD_URL, "url"},
        {"{{mcp_config}}", BH_HOLD_MCP_CONFIG, "mcp_config"},
        {"{{}}", BH_HOLD_UNKNOWN, ""},
        {"{{ }}", BH_HOLD_UNKNOWN, ""},
        {"{{params.}}", BH_HOLD_UNKNOWN, "params."},
        {"{{params}}", BH_HOLD_UNKNOWN, "params"},
        {"{{Item}}", BH_HOLD_UNKNOWN, "Item"},
        {"{{items}}", BH_HOLD_UNKNOWN, "items"},
        {"{{.Names}}", BH_HOLD_UNKNOWN, ".Names"},
        {"{{item", BH_HOLD_OPEN, "item"},
        {"{{", BH_HOLD_OPEN, ""},
        {"{{item}", BH_HOLD_OPEN, "item}"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_placeholder p;
        size_t offset = 0;
        assert_true(bh_placeholder_next(rows[i].text, &offset, &p));
        if (p.kind != rows[i].kind || p.name_len != strlen(rows[i].name) ||
            memcmp(p.name, rows[i].name, p.name_len) != 0)
            fail_msg("'%s' gave %d '%.*s'", rows[i].text, (int)p.kind, (int)p.name_len, p.name);
        assert_int_equal(p.start, 0);
        assert_int_equal(p.end, strlen(rows[i].text));
        assert_int_equal(offset, p.end);
    }
}

static void test_walk(void **state)
{
    (void)state;
    const char *text = "a{{item}}b{c}}{{{round}}}";
    struct bh_placeholder p;
    size_t offset = 0;
    assert_true(bh_placeholder_next(text, &offset, &p));
    assert_int_equal(p.start, 1);
    assert_int_equal(p.end, 9);
    assert_true(bh_placeholder_next(text, &offset, &p));
    assert_int_equal(p.start, 14);
    assert_int_equal(p.kind, BH_HOLD_UNKNOWN); /* three braces are none of ours: "{round" */
    assert_false(bh_placeholder_next(text, &offset, &p));
    offset = 0;
    assert_false(bh_placeholder_next("no { braces }", &offset, &p));
    assert_int_equal(offset, 0);
}

static void test_blank(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", ""},       {"a", "a"},     {"{{item}}", "x"}, {"a/{{params.b}}-{{item}}.txt", "a/x-x.txt"},
        {"a{{b", "ax"}, {"}}{", "}}{"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_buf out = BH_BUF_INIT;
        bh_placeholder_blank(rows[i].text, &out);
        assert_string_equal(out.data, rows[i].want);
        bh_buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_blank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
