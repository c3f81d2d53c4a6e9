/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/buf.h"
#include "tests/support/t.h"

static void test_utf8_samples(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t good;
    } samples[] = {
        {"", 0},
        {"plain\n\t\x01\x7f", 9},
        {"gr\xc3\xbcn", 5},
        {"\xe2\x82\xac \xf0\x9f\x98\x80", 8},
        {"\xf4\x8f\xbf\xbf", 4}, /* U+10FFFF */
        {"\xf4\x90\x80\x80", 0}, /* above */
        {"a\xc0\x80", 1},        /* overlong NUL */
        {"a\xc1\xbf", 1},        /* overlong */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"ab\xed\xa0\x80", 2},   /* surrogate */
        {"ab\xed\xbf\xbf", 2},   /* surrogate */
        {"\xed\x9f\xbf\xee\x80\x80", 6},
        {"x\x80", 1},
        {"x\xc3", 1},
        {"x\xe2\x82", 1},
        {"x\xf0\x9f\x98", 1},
        {"\xc3\x28", 0},
        {"\xe2\x28\xa1", 0},
        {"\xf5\x80\x80\x80", 0},
        {"\xfe", 0},
        {"\xff", 0},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++)
        T_INT(bh_utf8_check(samples[i].text, strlen(samples[i].text)), samples[i].good);
    T_INT(bh_utf8_check("a\0b", 3), 3);
}

static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

/* All code points are taken, whole and not cut; and there are no more 4-byte sequences than these. */
static void test_every_code_point(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x120000; c++) {
        char text[4];
        size_t n = encode(c, text);
        bool good = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
        assert_int_equal(bh_utf8_check(text, n), good ? n : 0);
        if (n > 1)
            assert_int_equal(bh_utf8_check(text, n - 1), 0);
    }
}

static void test_every_pair_of_bytes(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            char text[] = {(char)a, (char)b};
            bool two = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
            size_t want = two ? 2 : a >= 0x80 ? 0 : b >= 0x80 ? 1 : 2;
            assert_int_equal(bh_utf8_check(text, 2), want);
        }
    }
}

static void escapes_to(const char *in, size_t n, const char *want)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_escape_terminal(&out, in, n);
    T_STR(out.data, want);
}

static void test_escape(void **state)
{
    (void)state;
    static const char *const samples[][2] = {
        {"", ""},
        {"plain text, gr\xc3\xbcn \xe2\x82\xac", "plain text, gr\xc3\xbcn \xe2\x82\xac"},
        {"a\tb", "a\tb"},
        {"\x1b[2J\x1b]0;t\x07", "\\x1B[2J\\x1B]0;t\\x07"},
        {"a\nb\rc", "a\\x0Ab\\x0Dc"},
        {"\x7f", "\\x7F"},
        {"\xc2\x9b"
         "31m",
         "\\u{009B}31m"},
        {"\xc2\x80\xc2\x9f\xc2\xa0", "\\u{0080}\\u{009F}\xc2\xa0"},
        {"\xe2\x80\xa8\xe2\x80\xa9", "\\u{2028}\\u{2029}"},
        {"\xe2\x80\xae"
         "evil",
         "\\u{202E}evil"},
        {"\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c", "\\u{2066}\\u{2069}\\u{061C}"},
        {"\xe2\x80\x8e\xe2\x80\x8f", "\\u{200E}\\u{200F}"},
        {"\x9b"
         "31m",
         "\\x9B31m"},
        {"bad \xff\xc3", "bad \\xFF\\xC3"},
        {"\xed\xa0\x80", "\\xED\\xA0\\x80"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++)
        escapes_to(samples[i][0], strlen(samples[i][0]), samples[i][1]);
    escapes_to("a\0b", 3, "a\\x00b");
}

/* Whatever goes in: what comes out is UTF-8 without a byte that a terminal obeys. */
static void test_escape_any_bytes(void **state)
{
    (void)state;
    uint32_t random = 7;
    for (int round = 0; round < 2000; round++) {
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        char in[64];
        for (size_t i = 0; i < sizeof(in); i++) {
            random = random * 1664525 + 1013904223;
            in[i] = (char)(random >> 24);
        }
        bh_escape_terminal(&out, in, sizeof(in));
        T_INT(bh_utf8_check(out.data, out.len), out.len);
        for (size_t i = 0; i < out.len; i++) {
            unsigned char c = (unsigned char)out.data[i];
            assert_true(c == '\t' || (c >= 0x20 && c != 0x7f));
            assert_false(c == 0xc2 && (unsigned char)out.data[i + 1] < 0xa0);
        }
    }
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const keys[] = {"name", "run", "inputs", "outputs", "timeout", "topology", "env", "on_failure"};
    static const char *const samples[][2] = {
        {"nam", "name"},
        {"nmae", "name"},
        {"NAME", "name"},
        {"input", "inputs"},
        {"ouputs", "outputs"},
        {"tiemout", "timeout"},
        {"topologie", "topology"},
        {"on-failure", "on_failure"},
        {"rum", "run"},
        {"envs", "env"},
        {"x", NULL},
        {"", NULL},
        {"ev", "env"},
        {"command", NULL},
        {"nothing_like_it", NULL},
        {"abc", NULL},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++) {
        const char *got = bh_nearest(samples[i][0], keys, BH_ARRAY_LEN(keys));
        if (!bh_streq(got, samples[i][1]))
            fail_msg("'%s' gave '%s'", samples[i][0], got ? got : "nothing");
    }
    assert_null(bh_nearest("name", keys, 0));
}

static void test_nearest_takes_the_closest_then_the_first(void **state)
{
    (void)state;
    static const char *const keys[] = {"abcdexx", "abcdefx", "abcdefy"};
    T_STR(bh_nearest("abcdefg", keys, 3), "abcdefx");
    static const char long_word[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const char *const longs[] = {long_word};
    assert_null(bh_nearest(long_word, longs, 1));
    assert_null(bh_nearest("a", longs, 1));
}

static void test_small_helpers(void **state)
{
    (void)state;
    T_TRUE(bh_streq("a", "a"));
    assert_false(bh_streq("a", "b"));
    T_TRUE(bh_streq(NULL, NULL));
    assert_false(bh_streq(NULL, ""));
    assert_false(bh_streq("", NULL));
    T_TRUE(bh_starts_with("abc", ""));
    T_TRUE(bh_starts_with("abc", "ab"));
    assert_false(bh_starts_with("ab", "abc"));
    T_TRUE(bh_ends_with("abc", "bc"));
    T_TRUE(bh_ends_with("abc", ""));
    assert_false(bh_ends_with("bc", "abc"));
}

static void test_hex_digit(void **state)
{
    (void)state;
    int good = 0;
    for (int c = 0; c < 256; c++)
        good += bh_hex_digit((char)c) >= 0;
    T_INT(good, 22);
    for (int i = 0; i < 16; i++) {
        T_INT(bh_hex_digit("0123456789abcdef"[i]), i);
        T_INT(bh_hex_digit("0123456789ABCDEF"[i]), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_samples),     cmocka_unit_test(test_hex_digit),
        cmocka_unit_test(test_every_code_point), cmocka_unit_test(test_every_pair_of_bytes),
        cmocka_unit_test(test_escape),           cmocka_unit_test(test_escape_any_bytes),
        cmocka_unit_test(test_nearest),          cmocka_unit_test(test_nearest_takes_the_closest_then_the_first),
        cmocka_unit_test(test_small_helpers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
