/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever way a stream is cut into pieces: a secret and its base64 are found, and nothing of it gets through. */
#include "policies/needles.h"

#include "base/buf.h"
#include "base/mem.h"
#include "tests/support/t.h"

#define SECRET "sk-test-Zm9vYmFy-0123456789-tail"

static struct bh_needles *set_of(const char *value)
{
    struct bh_needles *set = bh_needles_new();
    assert_true(bh_needles_add(set, "key", value, strlen(value)));
    return set;
}

/* Sends `text` in pieces of `size`; what passed is in `out`. */
static const char *sift(const struct bh_needles *set, const char *text, size_t len, size_t size, struct bh_buf *out)
{
    struct bh_sieve sieve = {.set = set};
    const char *found = NULL, *pass;
    size_t n;
    for (size_t at = 0; at < len && !found; at += size) {
        char *piece = bh_memdup(text + at, size < len - at ? size : len - at); /* of its own, for the sanitizer */
        found = bh_sieve_push(&sieve, piece, size < len - at ? size : len - at, false, &pass, &n);
        bh_buf_add(out, pass, n);
        bh_free(piece);
    }
    if (!found) {
        found = bh_sieve_push(&sieve, "", 0, true, &pass, &n);
        bh_buf_add(out, pass, n);
    }
    bh_sieve_fini(&sieve);
    return found;
}

static void test_harmless_text_passes_unchanged(void **state)
{
    (void)state;
    struct bh_needles *set = set_of(SECRET);
    const char *text = "data: sk-test-sk-test-Zm9vYmFy-012345678 sk-test-Zm9vYmFy-0123456789-tai\n\nsk-test-Zm9v";
    for (size_t size = 1; size <= strlen(text); size++) {
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        assert_null(sift(set, text, strlen(text), size, &out));
        T_STR(out.data, text);
    }
    bh_needles_free(set);
}

static void test_nothing_waits_that_begins_no_needle(void **state)
{
    (void)state;
    struct bh_needles *set = set_of(SECRET);
    struct bh_sieve sieve = {.set = set};
    const char *pass;
    size_t n;
    assert_null(bh_sieve_push(&sieve, "data: {}\n\n", 10, false, &pass, &n));
    T_INT(n, 10);
    assert_null(bh_sieve_push(&sieve, "data: sk-", 9, false, &pass, &n));
    T_INT(n, 6);
    assert_null(bh_sieve_push(&sieve, "x", 1, false, &pass, &n));
    T_INT(n, 4);
    assert_memory_equal(pass, "sk-x", 4);
    bh_sieve_fini(&sieve);
    bh_needles_free(set);
}

static void expect_cut(const struct bh_needles *set, const char *before, const char *needle, const char *after)
{
    BH_CLEANUP_FREE char *text = bh_asprintf("%s%s%s", before, needle, after);
    for (size_t size = 1; size <= strlen(text); size++) {
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        const char *found = sift(set, text, strlen(text), size, &out);
        assert_non_null(found);
        T_STR(found, "key");
        T_TRUE(out.len <= strlen(before) + 3); /* the first characters of base64 hold bits of what stands before */
        assert_memory_equal(out.data, text, out.len);
    }
}

static void test_the_secret_is_cut_at_every_border(void **state)
{
    (void)state;
    struct bh_needles *set = set_of(SECRET);
    expect_cut(set, "", SECRET, "");
    expect_cut(set, "your key is sk-test-sk-test-", SECRET, " and more");
    bh_needles_free(set);
}

/* What coreutils' base64 makes of "<before>" SECRET "<after>", found by its middle. */
static void test_base64_is_cut_at_every_alignment(void **state)
{
    (void)state;
    struct bh_needles *set = set_of("hello world!");
    expect_cut(set, "x: ", "aGVsbG8gd29ybGQh", ";");                 /* hello world! */
    expect_cut(set, "x: ", "eGhlbGxvIHdvcmxkIXk=", ";");             /* xhello world!y */
    expect_cut(set, "x: ", "eHhoZWxsbyB3b3JsZCF5eQ==", ";");         /* xxhello world!yy */
    expect_cut(set, "x: ", "QmVhcmVyIGhlbGxvIHdvcmxkIQ==" + 8, ";"); /* of "Bearer hello world!" the last bytes */
    bh_needles_free(set);
    set = set_of("\xfb\xff\xbfsubjects?>");
    expect_cut(set, "", "+/+/c3ViamVjdHM/Pg==", "");
    expect_cut(set, "", "-_-_c3ViamVjdHM_Pg==", "");
    bh_needles_free(set);
}

static void test_a_secret_that_repeats_itself(void **state)
{
    (void)state;
    struct bh_needles *set = set_of("aabaabaac");
    expect_cut(set, "aabaab", "aabaabaac", "aabaabaac");
    expect_cut(set, "aaaaaaaabaaba", "aabaabaac", "");
    bh_needles_free(set);
}

static void test_short_values_are_not_looked_for(void **state)
{
    (void)state;
    struct bh_needles *set = bh_needles_new();
    assert_false(bh_needles_add(set, "key", "12345", 5));
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    assert_null(sift(set, "12345", 5, 2, &out));
    T_STR(out.data, "12345");
    bh_needles_free(set);
    bh_needles_free(NULL);
}

static void test_the_first_of_several_is_named(void **state)
{
    (void)state;
    struct bh_needles *set = bh_needles_new();
    assert_true(bh_needles_add(set, "one", "first-secret", 12));
    assert_true(bh_needles_add(set, "two", "second", 6));
    const char *name = NULL;
    const char *text = "a second, then a first-secret";
    T_INT(bh_needles_find(set, text, strlen(text), &name), 2);
    T_STR(name, "two");
    bh_needles_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_harmless_text_passes_unchanged),
        cmocka_unit_test(test_nothing_waits_that_begins_no_needle),
        cmocka_unit_test(test_the_secret_is_cut_at_every_border),
        cmocka_unit_test(test_base64_is_cut_at_every_alignment),
        cmocka_unit_test(test_a_secret_that_repeats_itself),
        cmocka_unit_test(test_short_values_are_not_looked_for),
        cmocka_unit_test(test_the_first_of_several_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
