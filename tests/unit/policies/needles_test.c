/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever way a stream is cut into pieces: a secret and its spellings are found, and nothing of it gets through; what
 * waits tells nothing of it. */
#include "policies/needles.h"

#include <stdio.h>

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

/* The piece is memory of its own, for the sanitizer, with as much before it. */
static const char *push_piece(struct bh_sieve *sieve, size_t before, const char *text, size_t len, struct bh_buf *out)
{
    char *piece = bh_alloc(before + len);
    const char *pass;
    size_t n;
    memcpy(piece + before, text, len);
    const char *found = before > 0 ? bh_sieve_push_behind(sieve, before, piece + before, len, &pass, &n)
                                   : bh_sieve_push(sieve, piece, len, false, &pass, &n);
    bh_buf_add(out, pass, n);
    bh_free(piece);
    return found;
}

/* Sends `text` in pieces of `size` with room of `before`; what passed is in `out`. */
static const char *sift_behind(const struct bh_needles *set, size_t before, const char *text, size_t len, size_t size,
                               struct bh_buf *out)
{
    struct bh_sieve sieve = {.set = set};
    const char *found = NULL, *pass;
    size_t n;
    for (size_t at = 0; at < len && !found; at += size)
        found = push_piece(&sieve, before, text + at, size < len - at ? size : len - at, out);
    if (!found) {
        found = bh_sieve_push(&sieve, "", 0, true, &pass, &n);
        bh_buf_add(out, pass, n);
    }
    bh_sieve_fini(&sieve);
    return found;
}

static const char *sift(const struct bh_needles *set, const char *text, size_t len, size_t size, struct bh_buf *out)
{
    return sift_behind(set, 0, text, len, size, out);
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

static size_t push(struct bh_sieve *sieve, const char *text)
{
    const char *pass;
    size_t n;
    assert_null(bh_sieve_push(sieve, text, strlen(text), false, &pass, &n));
    return n;
}

static void test_lines_and_events_do_not_wait(void **state)
{
    static const char *const secrets[] = {SECRET, "with \"quotes\" and \xc3\xa9", "p:ass<word>"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(secrets); i++) {
        struct bh_needles *set = set_of(secrets[i]);
        struct bh_sieve sieve = {.set = set};
        T_INT(push(&sieve, "data: {}\n\n"), 10);
        T_INT(push(&sieve, "data: {}\r\n\r\n"), 12);
        T_INT(push(&sieve, "sk-t"), 0);
        T_INT(push(&sieve, "esu\n"), 8);
        bh_sieve_fini(&sieve);
        bh_needles_free(set);
    }
}

/* Also where there is room for some of what waits, and not for all. */
static void test_room_before_a_piece_changes_nothing(void **state)
{
    static const size_t rooms[] = {1, 7, 40, 4096};
    static const char text[] = "one two\nthree-sk-test-Zm9vYmFy-0123456789-tai and\n" SECRET "\n";
    (void)state;
    struct bh_needles *set = set_of(SECRET);
    for (size_t size = 1; size < sizeof(text); size++) {
        BH_CLEANUP_BUF struct bh_buf plain = BH_BUF_INIT;
        assert_non_null(sift(set, text, strlen(text), size, &plain));
        for (size_t i = 0; i < BH_ARRAY_LEN(rooms); i++) {
            BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
            assert_non_null(sift_behind(set, rooms[i], text, strlen(text), size, &out));
            T_STR(out.data, plain.data);
        }
        assert_null(strstr(plain.data, "-tail"));
    }
    bh_needles_free(set);
}

/* Who chose the text sees how much of it waits: it has to be the same whatever the secret is, guessed at or not. */
static void test_what_waits_tells_nothing_of_the_secret(void **state)
{
    static const char *const secrets[] = {SECRET, "xx-none-of-the-above-0123456789.", "aabaabaac"};
    char guess[64];
    (void)state;
    for (size_t n = 1; n < strlen(SECRET); n++) {
        for (int wrong = 0; wrong < 2; wrong++) {
            size_t first = 0, second = 0;
            (void)snprintf(guess, sizeof(guess), "\n%.*s", (int)n, SECRET);
            guess[n] = wrong ? '_' : guess[n];
            for (size_t i = 0; i < BH_ARRAY_LEN(secrets); i++) {
                struct bh_needles *set = set_of(secrets[i]);
                struct bh_sieve sieve = {.set = set};
                size_t whole = push(&sieve, guess), more = push(&sieve, "*");
                T_INT(whole, 1);
                T_INT(i == 0 || (whole == first && more == second), true);
                first = whole;
                second = more;
                bh_sieve_fini(&sieve);
                bh_needles_free(set);
            }
        }
    }
}

/* A run without an end does not wait for ever; the longest spelling of a secret fits in what does. */
static void test_as_much_waits_for_each_secret(void **state)
{
    static const char *const secrets[] = {"abcdef", SECRET, "0123456789012345678901234567890123456789"};
    BH_CLEANUP_FREE char *run = bh_alloc(5001);
    (void)state;
    memset(run, 'x', 5000);
    for (size_t i = 0; i < BH_ARRAY_LEN(secrets); i++) {
        struct bh_needles *set = set_of(secrets[i]);
        struct bh_sieve sieve = {.set = set};
        T_INT(push(&sieve, run), 5000 - 1024);
        T_INT(push(&sieve, "x"), 1);
        bh_sieve_fini(&sieve);
        bh_needles_free(set);
    }
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

/* As the usual libraries write it into JSON, URLs and forms. */
static void test_other_spellings_are_cut(void **state)
{
    (void)state;
    struct bh_needles *set = set_of("a\"b\\c/d<\xc3\xa9 \xf0\x9f\x98\x80+~");
    expect_cut(set, "{\"x\": \"", "a\\\"b\\\\c/d<\xc3\xa9 \xf0\x9f\x98\x80+~", "\"}");
    expect_cut(set, "{\"x\": \"", "a\\\"b\\\\c\\/d<\xc3\xa9 \xf0\x9f\x98\x80+~", "\"}");
    expect_cut(set, "{\"x\": \"", "a\\\"b\\\\c/d\\u003c\xc3\xa9 \xf0\x9f\x98\x80+~", "\"}");
    expect_cut(set, "{\"x\": \"", "a\\\"b\\\\c/d<\\u00e9 \\ud83d\\ude00+~", "\"}");
    expect_cut(set, "q=", "a%22b%5Cc%2Fd%3C%C3%A9%20%F0%9F%98%80%2B~", "&");
    expect_cut(set, "q=", "a%22b%5cc%2fd%3c%c3%a9%20%f0%9f%98%80%2b~", "&");
    expect_cut(set, "q=", "a%22b%5Cc/d%3C%C3%A9%20%F0%9F%98%80%2B~", "&");
    expect_cut(set, "q=", "a%22b%5Cc%2Fd%3C%C3%A9+%F0%9F%98%80%2B%7E", "&");
    bh_needles_free(set);
    set = set_of("secret");
    expect_cut(set, "", "\\u0073\\u0065\\u0063\\u0072\\u0065\\u0074", ".");
    expect_cut(set, "", "%73%65%63%72%65%74", ".");
    bh_needles_free(set);
    set = set_of("bytes\xff\xc3 that are no \xe2\x82 text\xf0");
    expect_cut(set, "", "bytes\xff\xc3 that are no \xe2\x82 text\xf0", ".");
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
        cmocka_unit_test(test_lines_and_events_do_not_wait),
        cmocka_unit_test(test_room_before_a_piece_changes_nothing),
        cmocka_unit_test(test_what_waits_tells_nothing_of_the_secret),
        cmocka_unit_test(test_as_much_waits_for_each_secret),
        cmocka_unit_test(test_other_spellings_are_cut),
        cmocka_unit_test(test_the_secret_is_cut_at_every_border),
        cmocka_unit_test(test_base64_is_cut_at_every_alignment),
        cmocka_unit_test(test_a_secret_that_repeats_itself),
        cmocka_unit_test(test_short_values_are_not_looked_for),
        cmocka_unit_test(test_the_first_of_several_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
