/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are no good YAML, or more YAML than a pipeline may be. */
#include "base/buf.h"
#include "tests/unit/topologies/load_support.h"
#include "topologies/yaml_tree.h"

static void test_nothing(void **state)
{
    static const struct t_bad rows[] = {
        {"", 1, 1, NULL, BH_E_INVALID, "the document is empty", 0},
        {"\n\n  \n", 1, 1, NULL, BH_E_INVALID, "'bulkhead init' writes one", 0},
        {"# only a comment\n", 1, 1, NULL, BH_E_INVALID, "empty", 0},
        {"#!/usr/bin/env -S bulkhead run\n", 1, 1, NULL, BH_E_INVALID, "empty", 0},
        {"---\n", 1, 1, NULL, BH_E_INVALID, "empty", 0},
        {"---\n...\n", 1, 1, NULL, BH_E_INVALID, "empty", 0},
        {"\xef\xbb\xbf", 1, 1, NULL, BH_E_INVALID, "empty", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_no_map(void **state)
{
    static const struct t_bad rows[] = {
        {"just text\n", 1, 1, NULL, BH_E_WRONG_TYPE, "expected a pipeline as a map, found 'just text'", 0},
        {"- a\n- b\n", 1, 1, NULL, BH_E_WRONG_TYPE, "found a list", 0},
        {"\n  'quoted'\n", 2, 3, NULL, BH_E_WRONG_TYPE, "found the text 'quoted'", 0},
        {"|\n  a\n  b\n", 2, 1, NULL, BH_E_WRONG_TYPE, "found the text 'a...'", 0},
        {"0123456789012345678901234567890123456789012345", 1, 1, NULL, BH_E_WRONG_TYPE,
         "found '0123456789012345678901234567890123456789...'", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_bytes(void **state)
{
    static const struct t_bad rows[] = {
        {"a: b\nc: d\xc3\x28\n", 2, 5, NULL, BH_E_ENCODING, "byte 0xc3 is not UTF-8", 0},
        {"\xc3\xa9: \xff\n", 1, 4, NULL, BH_E_ENCODING, "byte 0xff is not UTF-8", 0},
        {"a: \xed\xa0\x80\n", 1, 4, NULL, BH_E_ENCODING, "byte 0xed is not UTF-8", 0},     /* a surrogate */
        {"a: \xc0\xaf\n", 1, 4, NULL, BH_E_ENCODING, "byte 0xc0 is not UTF-8", 0},         /* an overlong '/' */
        {"a: \xf4\x90\x80\x80\n", 1, 4, NULL, BH_E_ENCODING, "byte 0xf4 is not UTF-8", 0}, /* above U+10FFFF */
        {"a: \xe2\x82", 1, 4, NULL, BH_E_ENCODING, "byte 0xe2 is not UTF-8", 0},           /* cut off */
        {"a: \x1b[31m\n", 1, 4, NULL, BH_E_ENCODING, "a control character", 0},
        {"a: b\x7f\n", 1, 5, NULL, BH_E_ENCODING, "a control character", 0},
        {"a: \xc2\x9b\n", 1, 4, NULL, BH_E_ENCODING, "a control character", 0},
        {"a: b\n\xef\xbb\xbf"
         "c: d\n",
         2, 1, NULL, BH_E_ENCODING, "a byte order mark", 0},
        {"\xef\xbb\xbf\xef\xbb\xbf"
         "a: b\n",
         1, 1, NULL, BH_E_ENCODING, "a byte order mark", 0},
        {"a: b\r\nc: \x01\r\n", 2, 4, NULL, BH_E_ENCODING, "a control character", 0},
        {"a: b\rc: \x01\n", 2, 4, NULL, BH_E_ENCODING, "a control character", 0},
        {"\x25\x11\x41\x4d\x4c\x20\x31\x2e\xab", 1, 1, NULL, BH_E_SYNTAX, "starts with '%'",
         0}, /* libfyaml loops on it */
    };
    (void)state;
    T_BAD(rows);
}

static void check_bytes(const char *data, size_t len, enum bh_code code, int line, int column, const char *part)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *p = NULL;
    assert_int_equal(bh_pipeline_load("p.yaml", data, len, &p, &errors), -(int)code);
    assert_null(p);
    assert_int_equal(errors.len, 1);
    assert_int_equal(bh_err_line(errors.items[0]), line);
    assert_int_equal(bh_err_column(errors.items[0]), column);
    if (!strstr(bh_err_message(errors.items[0]), part))
        fail_msg("'%s' does not say '%s'", bh_err_message(errors.items[0]), part);
    bh_errlist_fini(&errors);
}

static void test_no_text(void **state)
{
    (void)state;
    check_bytes("a: b\0", 5, BH_E_ENCODING, 1, 5, "binary data, not text: it holds a NUL byte");
    check_bytes("\x7f"
                "ELF\x02\x01\0\0",
                8, BH_E_ENCODING, 1, 1, "binary data, not text");
    check_bytes("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, BH_E_ENCODING, 1, 1, "byte 0x89 is not UTF-8");
    check_bytes("\xff\xfe"
                "a\0:\0",
                6, BH_E_ENCODING, 1, 1, "UTF-16 text, not UTF-8");
    check_bytes("\xfe\xff\0a\0:", 6, BH_E_ENCODING, 1, 1, "UTF-16 text");
    check_bytes("v\0e\0r\0", 6, BH_E_ENCODING, 1, 1, "UTF-16 text");
    check_bytes("\0v\0e\0r", 6, BH_E_ENCODING, 1, 1, "UTF-16 text");
    check_bytes("\xff\xfe\0\0a\0\0\0", 8, BH_E_ENCODING, 1, 1, "UTF-32 text");
    check_bytes("\0\0\xfe\xff", 4, BH_E_ENCODING, 1, 1, "UTF-32 text");
}

/* A file of 10 MB is refused by its size alone, before anything looks at it. */
static void test_size(void **state)
{
    (void)state;
    size_t len = 10 * 1000 * 1000;
    char *text = malloc(len);
    memset(text, 0xff, len);
    check_bytes(text, len, BH_E_TOO_LARGE, 1, 1, "the document has 10000000 bytes; the most is 4194304 (4 MiB)");
    check_bytes(text, BH_PIPELINE_MAX_BYTES + 1, BH_E_TOO_LARGE, 1, 1, "4194305 bytes");
    memset(text, '#', BH_PIPELINE_MAX_BYTES);
    check_bytes(text, BH_PIPELINE_MAX_BYTES, BH_E_INVALID, 1, 1, "empty");
    free(text);
}

static void test_syntax(void **state)
{
    static const struct t_bad rows[] = {
        {HEAD "agents:\n\t- name: a\n", 4, 1, "agents", BH_E_SYNTAX, "tab character", 0},
        {HEAD "agents:\n \t- name: a\n", 4, 3, "agents", BH_E_SYNTAX,
         "line 4 is indented with a tab; indent with spaces", 0},
        {HEAD "agents: [a, b\n", 4, 1, "agents[2]", BH_E_SYNTAX, "this is not YAML", 0},
        {HEAD "description: \"x\n", 3, 15, "description", BH_E_SYNTAX, "without closing quote", 0},
        {HEAD "description: a: b: c\n", 3, 15, NULL, BH_E_SYNTAX, "a text with ': ' in it is put in quotes", 0},
        {AGENT "  prompt: {file: ./p/{{item}}.md}\n", 6, 22, "agents[0].prompt", BH_E_SYNTAX,
         "a text with '{{ }}' in it is put in quotes", 0},
        {AGENT "  prompt: {{item}}\n", 6, 12, "agents[0].prompt", BH_E_SYNTAX,
         "text that starts with '{' or '[' is quoted", 0},
        {"a: b\n---\nc: d\n", 2, 1, NULL, BH_E_SYNTAX, "a second document starts here", 0},
        {"a: b\n...\n---\nc: d\n", 3, 1, NULL, BH_E_SYNTAX, "a second document starts here", 0},
        {"%YAML 1.2\n---\na: b\n", 1, 1, NULL, BH_E_SYNTAX, "directives are not allowed", 0},
        {"%TAG ! tag:x,2000:\n---\na: b\n", 1, 1, NULL, BH_E_SYNTAX, "directives are not allowed", 0},
        {HEAD "? [a]\n: b\n", 3, 3, NULL, BH_E_SYNTAX, "a key must be a text, not a list or a map", 0},
        {HEAD "{a: b}: c\n", 3, 1, NULL, BH_E_SYNTAX, "a key must be a text", 0},
        {AGENT "  prompt: @x\n", 6, 11, "agents[0].prompt", BH_E_SYNTAX, "this is not YAML", 0},
        {AGENT " prompt: x\n", 6, 2, NULL, BH_E_SYNTAX, "this is not YAML", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_tags(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  prompt: !!str x\n", 6, 17, "agents[0].prompt", BH_E_SYNTAX,
         "the tag 'tag:yaml.org,2002:str' is not allowed", 0},
        {AGENT "  prompt: !mine x\n", 6, 17, "agents[0].prompt", BH_E_SYNTAX, "the tag '!mine' is not allowed", 0},
        {AGENT "  env: !!map {A: b}\n", 6, 14, "agents[0].env", BH_E_SYNTAX, "the key says what type a value has", 0},
        {AGENT "  needs: !!seq []\n", 6, 16, "agents[0].needs", BH_E_SYNTAX, "is not allowed", 0},
        {AGENT "  !!str prompt: x\n", 6, 9, "agents[0]", BH_E_SYNTAX, "is not allowed", 0},
        {"!!binary aGk=\n", 1, 10, NULL, BH_E_SYNTAX, "is not allowed", 1},
    };
    (void)state;
    T_BAD(rows);
}

static void test_escapes(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  prompt: \"a\\0b\"\n", 6, 11, "agents[0].prompt", BH_E_ENCODING, "an escaped NUL", 0},
        {AGENT "  env: {\"A\\0\": b}\n", 6, 9, "agents[0].env", BH_E_ENCODING, "mend the escape", 0},
        {AGENT "  prompt: \"\\ud800\"\n", 6, 12, "agents[0].prompt", BH_E_SYNTAX, "invalid UTF8 escape", 0},
        {AGENT "  prompt: \"\\q\"\n", 6, 12, "agents[0].prompt", BH_E_SYNTAX, "this is not YAML", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_duplicates(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  prompt: x\n  prompt: y\n", 7, 3, "agents[0].prompt", BH_E_DUPLICATE_KEY,
         "the key 'prompt' is given twice: first at line 6, column 3", 0},
        {HEAD "name: y\nagents: [{name: a, run: b}]\n", 3, 1, "name", BH_E_DUPLICATE_KEY, "first at line 2, column 1",
         0},
        {AGENT "  env: {A: b, 'A': c}\n", 6, 15, "agents[0].env.A", BH_E_DUPLICATE_KEY, "keep one of the two", 0},
        {AGENT "x-mine: {a: 1, a: 2}\n", 6, 16, "x-mine.a", BH_E_DUPLICATE_KEY, "line 6, column 10", 0},
        /* what else is wrong is said as well */
        {AGENT "  prompt: x\n  prompt: y\n  keep: forever\n", 7, 3, "agents[0].prompt", BH_E_DUPLICATE_KEY, "twice", 1},
        /* the value that is thrown away is not looked at */
        {AGENT "  keep: always\n  keep: forever\n", 7, 3, "agents[0].keep", BH_E_DUPLICATE_KEY, "twice", 0},
        {AGENT "  env: {A1: b, A2: b, A3: b, A4: b, A5: b, A6: b, A7: b, A8: b, A9: b, A10: b, A11: b, A12: b, A13: b,"
               " A14: b, A15: b, A16: b, A17: b, A1: c}\n",
         6, 136, "agents[0].env.A1", BH_E_DUPLICATE_KEY, "line 6, column 9", 0},
        {HEAD "x-a: &a {b: c}\nx-d: {<<: *a, <<: *a}\nagents: [{name: a, run: b}]\n", 4, 15, "x-d[\"<<\"]",
         BH_E_DUPLICATE_KEY, "the key '<<' is given twice", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_aliases(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  prompt: *nothing\n", 6, 11, "agents[0].prompt", BH_E_UNDEFINED,
         "the alias '*nothing' names no anchor", 0},
        {AGENT "  needs: &n [*n]\n", 6, 14, "agents[0].needs[0]", BH_E_CYCLE,
         "the alias '*n' stands inside of what it repeats", 0},
        {HEAD "x-a: &a {b: {c: *a}}\nagents: [{name: a, run: b}]\n", 3, 17, "x-a.b.c", BH_E_CYCLE, "'*a'", 0},
        {HEAD "x-a: &a {<<: *a}\nagents: [{name: a, run: b}]\n", 3, 14, "x-a[\"<<\"]", BH_E_CYCLE, "'*a'", 0},
        {AGENT "  <<: text\n", 6, 7, "agents[0]", BH_E_WRONG_TYPE, "'<<' takes a map, or a list of maps", 0},
        {AGENT "  <<: [{prompt: x}, text]\n", 6, 7, "agents[0]", BH_E_WRONG_TYPE, "'<<' takes a map, or a list of maps",
         0},
        {HEAD "x-a: &a [b]\n*a : c\nagents: [{name: a, run: b}]\n", 4, 1, NULL, BH_E_SYNTAX, "a key must be a text", 0},
        /* an error in a value that is used twice is said once, where it is written */
        {HEAD "agents:\n- {name: a, run: b, timeout: &t 5}\n- {name: c, run: d, timeout: *t}\n", 4, 33,
         "agents[0].timeout", BH_E_BAD_VALUE, "add the unit: 5s", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_depth(void **state)
{
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    for (int i = 0; i < 10000; i++)
        bh_buf_adds(&text, "[");
    check_bytes(text.data, text.len, BH_E_TOO_LARGE, 1, BH_TREE_MAX_DEPTH + 1, "more than 64 levels deep");
    bh_buf_clear(&text);
    for (int i = 0; i < 10000 && text.len < BH_PIPELINE_MAX_BYTES / 2; i++)
        bh_buf_addf(&text, "%*sa:\n", i % 500, "");
    bh_buf_clear(&text);
    for (int i = 0; i < 1000; i++)
        bh_buf_adds(&text, "- ");
    check_bytes(text.data, text.len, BH_E_TOO_LARGE, 1, 2 * BH_TREE_MAX_DEPTH + 1, "more than 64 levels deep");
    /* an alias can bring more depth than is written */
    bh_buf_clear(&text);
    bh_buf_adds(&text, "a: &a ");
    for (int i = 0; i < 60; i++)
        bh_buf_adds(&text, "[");
    for (int i = 0; i < 60; i++)
        bh_buf_adds(&text, "]");
    bh_buf_adds(&text, "\nb: [[[[[*a]]]]]\n");
    check_bytes(text.data, text.len, BH_E_TOO_LARGE, 2, 9, "more than 64 levels deep");
    bh_buf_fini(&text);
}

static void test_billion_laughs(void **state)
{
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i <= 12; i++)
        bh_buf_addf(&text, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1,
                    i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    check_bytes(text.data, text.len, BH_E_TOO_LARGE, 7, 10, "more than 1000000 keys, values and copies of aliases");
    bh_buf_fini(&text);
}

/* So many errors that a list of them would be no help. */
static void test_many_errors(void **state)
{
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, AGENT);
    for (int i = 0; i < 20000; i++)
        bh_buf_addf(&text, "  key%d: x\n", i);
    struct bh_errlist errors = {0};
    struct bh_pipeline *p = NULL;
    assert_int_equal(bh_pipeline_load("p.yaml", text.data, text.len, &p, &errors), -BH_E_UNKNOWN_KEY);
    assert_int_equal(errors.len, BH_PIPELINE_MAX_ERRORS + 1);
    assert_non_null(strstr(bh_err_message(errors.items[BH_PIPELINE_MAX_ERRORS]), "there are more errors"));
    bh_errlist_fini(&errors);
    bh_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),     cmocka_unit_test(test_no_map),  cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_no_text),     cmocka_unit_test(test_size),    cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_tags),        cmocka_unit_test(test_escapes), cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_aliases),     cmocka_unit_test(test_depth),   cmocka_unit_test(test_billion_laughs),
        cmocka_unit_test(test_many_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
