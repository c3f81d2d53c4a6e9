/* SPDX-License-Identifier: Apache-2.0 */
/* Patches: where they stand, what they keep around, and how ends of texts are told. */
#include "topologies/text_diff.h"

#include "base/buf.h"
#include "base/mem.h"
#include "tests/support/t.h"

static void check(const char *from, const char *to, const char *want)
{
    struct bh_buf out = BH_BUF_INIT;
    bh_text_diff("f", from, strlen(from), to, strlen(to), &out);
    T_STR(out.data, want);
    bh_buf_fini(&out);
}

static void equal_texts_have_no_patch(void **state)
{
    (void)state;
    check("", "", "");
    check("a\nb\n", "a\nb\n", "");
}

static void one_line_changes(void **state)
{
    (void)state;
    check("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
          "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
    check("1\n", "1\n2\n", "--- f\n+++ f\n@@ -1,1 +1,2 @@\n 1\n+2\n");
    check("1\n2\n", "2\n", "--- f\n+++ f\n@@ -1,2 +1,1 @@\n-1\n 2\n");
    check("", "1\n", "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+1\n");
    check("1\n", "", "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-1\n");
}

static void changes_far_apart_are_hunks_of_their_own(void **state)
{
    (void)state;
    check("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
          "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
    check("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
          "--- f\n+++ f\n@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
}

static void the_shortest_change_is_found(void **state)
{
    (void)state;
    check("a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n",
          "--- f\n+++ f\n@@ -1,7 +1,6 @@\n-a\n-b\n c\n-a\n b\n+a\n b\n a\n+c\n");
}

static void a_last_line_without_its_end(void **state)
{
    (void)state;
    check("1\n2", "1\n3",
          "--- f\n+++ f\n@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+3\n\\ No newline at end of file\n");
    check("1", "1\n", "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-1\n\\ No newline at end of file\n+1\n");
}

/* Too large for the table: the middle is replaced as a whole. */
static void large_texts_are_replaced(void **state)
{
    (void)state;
    struct bh_buf from = BH_BUF_INIT, to = BH_BUF_INIT, out = BH_BUF_INIT;
    for (int i = 0; i < 3000; i++) {
        bh_buf_addf(&from, "a%d\n", i);
        bh_buf_addf(&to, "b%d\n", i);
    }
    bh_text_diff("f", from.data, from.len, to.data, to.len, &out);
    assert_non_null(strstr(out.data, "@@ -1,3000 +1,3000 @@\n-a0\n-a1\n"));
    assert_non_null(strstr(out.data, "-a2999\n+b0\n"));
    bh_buf_fini(&from);
    bh_buf_fini(&to);
    bh_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts_have_no_patch),
        cmocka_unit_test(one_line_changes),
        cmocka_unit_test(changes_far_apart_are_hunks_of_their_own),
        cmocka_unit_test(the_shortest_change_is_found),
        cmocka_unit_test(a_last_line_without_its_end),
        cmocka_unit_test(large_texts_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
