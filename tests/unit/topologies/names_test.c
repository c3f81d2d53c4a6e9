/* SPDX-License-Identifier: Apache-2.0 */
/* Names of artifacts: the grammar, and who may own which. */
#include "base/buf.h"
#include "tests/support/t.h"
#include "topologies/names.h"

static const char *const good_names[] = {
    "a",    "A",  "_",       "9",     "a.b",      "report.md",    "a_b-c+d=e.f", "a/b/c",
    "a..b", "a-", "_hidden", "1/2/3", "data.tar", "x/_y/z.jsonl", "a/b.c/d-e",   "UPPER/lower",
};

static void test_good_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(good_names); i++) {
        const char *why = bh_artifact_name_problem(good_names[i]);
        if (why)
            fail_msg("'%s' %s", good_names[i], why);
        assert_null(bh_artifact_glob_problem(good_names[i]));
    }
}

static const struct {
    const char *name, *why;
} bad_names[] = {
    {NULL, "is empty"},
    {"", "is empty"},
    {"/", "begins with '/'"},
    {"/a", "begins with '/'"},
    {"a/", "ends with '/'"},
    {"a//b", "has an empty segment"},
    {".", "has '.' as a segment"},
    {"./a", "has '.' as a segment"},
    {"a/.", "has '.' as a segment"},
    {"..", "has '..' as a segment"},
    {"a/../b", "has '..' as a segment"},
    {".git", "has a segment that does not begin with a letter, a digit or '_'"},
    {"a/-b", "has a segment that does not begin with a letter, a digit or '_'"},
    {"-rf", "has a segment that does not begin with a letter, a digit or '_'"},
    {"=a", "has a segment that does not begin with a letter, a digit or '_'"},
    {"a@2", "holds '@', which is kept for attempts and rounds"},
    {"@", "holds '@', which is kept for attempts and rounds"},
    {"a b", "holds a character other than letters, digits, . _ + = -"},
    {"a*", "holds a character other than letters, digits, . _ + = -"},
    {"a\\b", "holds a character other than letters, digits, . _ + = -"},
    {"a\nb", "holds a character other than letters, digits, . _ + = -"},
    {"caf\xc3\xa9", "holds a character other than letters, digits, . _ + = -"},
    {"a:b", "holds a character other than letters, digits, . _ + = -"},
};

static void test_bad_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad_names); i++) {
        const char *why = bh_artifact_name_problem(bad_names[i].name);
        if (!why)
            fail_msg("'%s' passes", bad_names[i].name);
        T_STR(why, bad_names[i].why);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    struct bh_buf name = BH_BUF_INIT;
    for (int i = 0; i < 128; i++)
        bh_buf_addc(&name, 'a');
    assert_null(bh_artifact_name_problem(name.data));
    bh_buf_addc(&name, 'a');
    T_STR(bh_artifact_name_problem(name.data), "has a segment of more than 128 characters");
    bh_buf_clear(&name);
    for (int i = 0; i < 511; i++)
        bh_buf_adds(&name, "a/");
    bh_buf_adds(&name, "aa");
    T_INT(name.len, 1024);
    assert_null(bh_artifact_name_problem(name.data));
    bh_buf_addc(&name, 'a');
    T_STR(bh_artifact_name_problem(name.data), "is longer than 1024 characters");
    bh_buf_fini(&name);
}

static void test_published_names(void **state)
{
    static const struct {
        const char *name, *problem;
    } rows[] = {
        {"a", NULL},
        {"a/b.c@1", NULL},
        {"a@10000", NULL},
        {"a@r2", NULL},
        {"a@", "does not end in the number"},
        {"a@0", "does not end in the number"},
        {"a@01", "does not end in the number"},
        {"a@x", "does not end in the number"},
        {"a@1/b", "does not end in the number"},
        {"a@1234567890", "does not end in the number"},
        {"a@1@2", "holds '@'"},
        {"@1", "is empty"},
        {"../a@1", "has '..' as a segment"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        const char *problem = bh_published_name_problem(rows[i].name);
        if (!rows[i].problem ? problem != NULL : !problem || !strstr(problem, rows[i].problem))
            fail_msg("'%s': %s", rows[i].name, problem ? problem : "good");
    }
}

static void test_globs(void **state)
{
    (void)state;
    static const char *const good[] = {"*", "**", "a/*.txt", "**/x", "?", "a?b/*", "part-*.jsonl", "a/**/b"};
    static const struct {
        const char *glob, *why;
    } bad[] = {
        {"", "is empty"},
        {"/*", "begins with '/'"},
        {"*/", "ends with '/'"},
        {"../*", "has '..' as a segment"},
        {".*", "has a segment that does not begin with a letter, a digit or '_'"},
        {"*@2", "holds '@', which is kept for attempts and rounds"},
        {"[ab]*", "holds a character other than letters, digits, . _ + = - * ?"},
        {"{a,b}", "holds a character other than letters, digits, . _ + = - * ?"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++)
        assert_null(bh_artifact_glob_problem(good[i]));
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        T_STR(bh_artifact_glob_problem(bad[i].glob), bad[i].why);
}

/* --- the table --- */

/* `held` is owned by "one"; may "two" have `wanted`? */
static const struct {
    const char *held, *wanted;
    enum bh_name_clash clash;
} pairs[] = {
    {"a", "b", BH_CLASH_NONE},
    {"a", "a", BH_CLASH_EQUAL},
    {"a/b", "a/b", BH_CLASH_EQUAL},
    {"a", "A", BH_CLASH_CASE},
    {"Data/x.csv", "data/X.csv", BH_CLASH_CASE},
    {"a", "a/b", BH_CLASH_PREFIX},
    {"a/b", "a", BH_CLASH_PREFIX},
    {"a/b/c/d", "a/b", BH_CLASH_PREFIX},
    {"a/b", "a/b/c/d", BH_CLASH_PREFIX},
    {"A", "a/b", BH_CLASH_PREFIX},
    {"a/b", "A", BH_CLASH_PREFIX},
    {"a", "ab", BH_CLASH_NONE},
    {"ab", "a", BH_CLASH_NONE},
    {"a/b", "a/c", BH_CLASH_NONE},
    {"a/b", "A/c", BH_CLASH_NONE},
    {"a.b", "a/b", BH_CLASH_NONE},
    {"a/b", "a/bc", BH_CLASH_NONE},
};

static void test_table_pairs(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(pairs); i++) {
        struct bh_name_table *t = bh_name_table_new();
        const char *name = "untouched", *owner = "untouched";
        T_INT(bh_name_table_check(t, pairs[i].held, "one", &name, &owner), BH_CLASH_NONE);
        bh_name_table_add(t, pairs[i].held, "one");
        enum bh_name_clash clash = bh_name_table_check(t, pairs[i].wanted, "two", &name, &owner);
        if (clash != pairs[i].clash)
            fail_msg("'%s' beside '%s': %d instead of %d", pairs[i].wanted, pairs[i].held, clash, pairs[i].clash);
        T_STR(name, clash == BH_CLASH_NONE ? "untouched" : pairs[i].held);
        T_STR(owner, clash == BH_CLASH_NONE ? "untouched" : "one");
        bh_name_table_free(t);
    }
}

static void test_table_same_owner(void **state)
{
    (void)state;
    struct bh_name_table *t = bh_name_table_new();
    const char *name, *owner;
    bh_name_table_add(t, "a/b", "one");
    T_INT(bh_name_table_check(t, "a/b", "one", &name, &owner), BH_CLASH_NONE);
    bh_name_table_add(t, "a/b", "one"); /* a later try */
    T_INT(bh_name_table_check(t, "a/B", "one", &name, &owner), BH_CLASH_CASE);
    T_INT(bh_name_table_check(t, "a", "one", &name, &owner), BH_CLASH_PREFIX);
    T_INT(bh_name_table_check(t, "a/b/c", "one", &name, &owner), BH_CLASH_PREFIX);
    T_INT(bh_name_table_check(t, "a/b", "two", &name, &owner), BH_CLASH_EQUAL);
    T_STR(owner, "one");
    bh_name_table_free(t);
}

static void test_table_many(void **state)
{
    (void)state;
    struct bh_name_table *t = bh_name_table_new();
    const char *other, *owner;
    char name[64];
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "dir%d/file%d", i % 100, i);
        T_INT(bh_name_table_check(t, name, "one", &other, &owner), BH_CLASH_NONE);
        bh_name_table_add(t, name, "one");
    }
    T_INT(bh_name_table_check(t, "dir7", "two", &other, &owner), BH_CLASH_PREFIX);
    T_STR(other, "dir7/file7"); /* the first that was claimed below it */
    T_INT(bh_name_table_check(t, "dir99/file19999/x", "two", &other, &owner), BH_CLASH_PREFIX);
    T_INT(bh_name_table_check(t, "dir99/file19998", "two", &other, &owner), BH_CLASH_NONE);
    bh_name_table_free(t);
}

static void test_clash_texts(void **state)
{
    (void)state;
    bh_name_table_free(NULL);
    T_STR(bh_name_clash_text(BH_CLASH_EQUAL), "is the same name");
    T_STR(bh_name_clash_text(BH_CLASH_CASE), "differs only by case");
    T_STR(bh_name_clash_text(BH_CLASH_PREFIX), "is a folder of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_names),       cmocka_unit_test(test_bad_names),  cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_published_names),  cmocka_unit_test(test_globs),      cmocka_unit_test(test_table_pairs),
        cmocka_unit_test(test_table_same_owner), cmocka_unit_test(test_table_many), cmocka_unit_test(test_clash_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
