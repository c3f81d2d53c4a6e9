/* SPDX-License-Identifier: Apache-2.0 */
#include "topologies/yaml_tree.h"

#include "base/mem.h"
#include "tests/support/t.h"

/* A tree that its test looks at; torn down by the group. */
static struct bh_arena *arena;

static int set_up(void **state)
{
    (void)state;
    arena = bh_arena_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bh_arena_free(arena);
    return 0;
}

static struct bh_node *parse(const char *text)
{
    struct bh_errlist errors = {0};
    struct bh_node *root = NULL;
    int rc = bh_tree_parse("p.yaml", text, strlen(text), arena, &root, &errors);
    if (rc != 0)
        print_error("%s\n", bh_err_message(errors.items[0]));
    assert_int_equal(rc, 0);
    bh_errlist_fini(&errors);
    return root;
}

static void check_pos(struct bh_pos pos, int line, int column)
{
    if (pos.line != line || pos.column != column)
        fail_msg("%d:%d instead of %d:%d", pos.line, pos.column, line, column);
}

static const char *text_at(const struct bh_node *map, const char *key)
{
    const char *text = bh_node_text(bh_node_get(map, key));
    assert_non_null(text);
    return text;
}

static void test_kinds(void **state)
{
    (void)state;
    struct bh_node *root = parse("a: [x, 'y', \"z\"]\nb: {}\nc:\nd: ''\ne: |\n  t\nf: ~\n");
    assert_int_equal(bh_node_kind(root), BH_NODE_MAP);
    assert_int_equal(bh_node_len(root), 6);
    struct bh_node *a = bh_node_get(root, "a");
    assert_int_equal(bh_node_kind(a), BH_NODE_LIST);
    assert_int_equal(bh_node_len(a), 3);
    assert_true(bh_node_is_plain(bh_node_at(a, 0)));
    assert_false(bh_node_is_plain(bh_node_at(a, 1)));
    assert_false(bh_node_is_plain(bh_node_at(a, 2)));
    assert_int_equal(bh_node_len(bh_node_get(root, "b")), 0);
    assert_int_equal(bh_node_kind(bh_node_get(root, "c")), BH_NODE_EMPTY);
    assert_string_equal(text_at(root, "d"), "");
    assert_string_equal(text_at(root, "e"), "t\n");
    assert_false(bh_node_is_plain(bh_node_get(root, "e")));
    assert_string_equal(text_at(root, "f"), "~");
}

static void test_absent(void **state)
{
    (void)state;
    assert_int_equal(bh_node_kind(NULL), BH_NODE_EMPTY);
    assert_null(bh_node_text(NULL));
    assert_int_equal(bh_node_len(NULL), 0);
    assert_null(bh_node_at(NULL, 0));
    assert_null(bh_node_get(NULL, "a"));
    assert_null(bh_node_key_at(NULL, 0));
    check_pos(bh_node_pos(NULL), 0, 0);
    struct bh_node *root = parse("a: [b]\n");
    assert_null(bh_node_get(root, "b"));
    assert_null(bh_node_at(root, 1));
    assert_null(bh_node_text(root));
    assert_null(bh_node_get(bh_node_at(root, 0), "b"));
}

static void test_positions(void **state)
{
    (void)state;
    struct bh_node *root = parse("#!/usr/bin/env -S bulkhead run\n"
                                 "key: {b: [x,\n"
                                 "    y], \xc3\xa9: 'z', f: \"g\"}\n"
                                 "empty:\n"
                                 "list:\n"
                                 "  - one\n"
                                 "  - k: v\n");
    check_pos(bh_node_key_pos_at(root, 0), 2, 1);
    struct bh_node *key = bh_node_at(root, 0), *b = bh_node_get(key, "b");
    check_pos(bh_node_pos(key), 2, 6);
    check_pos(bh_node_pos(b), 2, 10);
    check_pos(bh_node_pos(bh_node_at(b, 0)), 2, 11);
    check_pos(bh_node_pos(bh_node_at(b, 1)), 3, 5);
    check_pos(bh_node_key_pos_at(key, 1), 3, 9);
    check_pos(bh_node_pos(bh_node_at(key, 1)), 3, 12); /* the quote, counted in characters */
    check_pos(bh_node_pos(bh_node_get(key, "f")), 3, 20);
    check_pos(bh_node_pos(bh_node_get(root, "empty")), 4, 6); /* behind the key */
    struct bh_node *list = bh_node_get(root, "list");
    check_pos(bh_node_pos(list), 6, 3);
    check_pos(bh_node_pos(bh_node_at(list, 1)), 7, 5);
    check_pos(bh_node_key_pos(bh_node_at(bh_node_at(list, 1), 0)), 7, 5);
    check_pos(bh_node_key_pos(bh_node_at(list, 0)), 6, 5); /* an item has no key: its own place */
}

static void test_paths(void **state)
{
    (void)state;
    struct bh_node *root = parse("a: [{b: {c.d: [x]}}]\n\"\": y\nq\"r: z\n");
    struct bh_node *b = bh_node_get(bh_node_at(bh_node_get(root, "a"), 0), "b");
    assert_string_equal(bh_node_path(root, arena), "");
    assert_string_equal(bh_node_path(b, arena), "a[0].b");
    assert_string_equal(bh_node_path(bh_node_at(bh_node_at(b, 0), 0), arena), "a[0].b[\"c.d\"][0]");
    assert_string_equal(bh_node_path(bh_node_get(root, ""), arena), "[\"\"]");
}

static void test_aliases(void **state)
{
    (void)state;
    struct bh_node *root = parse("a: &a {x: [1, &two 2]}\nb: *a\nc: [*two, *a]\nd: &a new\ne: *a\n*two : f\n");
    struct bh_node *b = bh_node_get(root, "b"), *x = bh_node_get(b, "x");
    assert_string_equal(bh_node_text(bh_node_at(x, 1)), "2");
    assert_string_equal(bh_node_path(bh_node_at(x, 1), arena), "b.x[1]"); /* where it is used */
    check_pos(bh_node_pos(bh_node_at(x, 1)), 1, 20);                      /* where it is written */
    check_pos(bh_node_key_pos_at(root, 1), 2, 1);
    assert_string_equal(bh_node_path(bh_node_at(bh_node_get(root, "c"), 1), arena), "c[1]");
    assert_string_equal(text_at(root, "e"), "new"); /* the latest anchor of that name */
    assert_string_equal(text_at(root, "2"), "f");
}

static void test_merge(void **state)
{
    (void)state;
    struct bh_node *root = parse("base: &base {a: 1, b: 1}\n"
                                 "more: &more {b: 2, c: 2}\n"
                                 "one: {<<: *base, a: 3}\n"
                                 "two: {a: 3, <<: [*base, *more]}\n"
                                 "text: {'<<': x}\n"
                                 "inline: {<<: {z: 9}}\n");
    struct bh_node *one = bh_node_get(root, "one"), *two = bh_node_get(root, "two");
    assert_int_equal(bh_node_len(one), 2);
    assert_string_equal(text_at(one, "a"), "3");
    assert_string_equal(text_at(one, "b"), "1");
    assert_string_equal(bh_node_path(bh_node_get(one, "b"), arena), "one.b");
    check_pos(bh_node_key_pos(bh_node_get(one, "b")), 1, 20);
    assert_int_equal(bh_node_len(two), 3);
    assert_string_equal(text_at(two, "a"), "3");
    assert_string_equal(text_at(two, "b"), "1"); /* earlier maps win */
    assert_string_equal(text_at(two, "c"), "2");
    assert_string_equal(text_at(bh_node_get(root, "text"), "<<"), "x");
    assert_string_equal(text_at(bh_node_get(root, "inline"), "z"), "9");
    /* what was merged can be merged on */
    root = parse("a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, z: 3}\n");
    assert_int_equal(bh_node_len(bh_node_get(root, "c")), 3);
}

static void test_describe(void **state)
{
    (void)state;
    struct bh_node *root = parse("a: [x]\nb: {c: d}\ne:\nf: no\ng: '5'\nh: |\n  one\n  two\n"
                                 "i: \xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                                 "abcdefghijklmnopqrs\xc3\xa9xyz\n");
    static const char *const want[] = {"a list", "a map", "nothing", "'no'", "the text '5'", "the text 'one...'"};
    for (size_t i = 0; i < BH_ARRAY_LEN(want); i++)
        assert_string_equal(bh_node_describe(bh_node_at(root, i), arena), want[i]);
    const char *last = bh_node_describe(bh_node_at(root, 6), arena);
    assert_non_null(strstr(last, "pqrs...'")); /* not in the middle of a character */
}

static void test_new_maps(void **state)
{
    (void)state;
    struct bh_node *root = parse("d: {x: 1, y: 2}\nl: [{x: 3}]\n");
    struct bh_node *own = bh_node_at(bh_node_get(root, "l"), 0);
    struct bh_node *all = bh_node_new_map(arena, own);
    bh_node_put(arena, all, bh_node_at(own, 0));
    bh_node_put(arena, all, bh_node_get(bh_node_get(root, "d"), "y"));
    assert_string_equal(bh_node_path(all, arena), "l[0]");
    assert_string_equal(text_at(all, "x"), "3");
    assert_string_equal(bh_node_path(bh_node_get(all, "y"), arena), "d.y");
    check_pos(bh_node_pos(all), bh_node_pos(own).line, bh_node_pos(own).column);
}

static void test_forms(void **state)
{
    (void)state;
    struct bh_node *root =
        parse("\xef\xbb\xbf---\r\na: 'it''s'\r\nb: >-\r\n  one\r\n  two\r\nc: \"\\u00e9\\n\"\r\n...\r\n");
    assert_string_equal(text_at(root, "a"), "it's");
    assert_string_equal(text_at(root, "b"), "one two");
    assert_string_equal(text_at(root, "c"), "\xc3\xa9\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),    cmocka_unit_test(test_absent),   cmocka_unit_test(test_positions),
        cmocka_unit_test(test_paths),    cmocka_unit_test(test_aliases),  cmocka_unit_test(test_merge),
        cmocka_unit_test(test_describe), cmocka_unit_test(test_new_maps), cmocka_unit_test(test_forms),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
