/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/text.h"
#include "tests/support/t.h"

static void test_samples(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool want;
    } samples[] = {
        {"a", "a", true},
        {"a", "b", false},
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "abc", true},
        {"*", "a/b", false},
        {"**", "a/b/c", true},
        {"**", "", true},
        {"*.json", "a.json", true},
        {"*.json", "d/a.json", false},
        {"**.json", "d/a.json", true},
        {"d/*", "d/x", true},
        {"d/*", "d/x/y", false},
        {"d/**", "d/x/y", true},
        {"d/**", "d", false},
        {"d/**/e", "d/e", false},
        {"d/**/e", "d/x/y/e", true},
        {"?", "a", true},
        {"?", "/", false},
        {"?", "", false},
        {"?", "\xc3\xbc", true},
        {"??", "\xc3\xbc", false},
        {"?", "\xff", true},
        {"a?c", "abc", true},
        {"a[b]", "a[b]", true},
        {"a[b]", "ab", false},
        {"\\*", "*", false},
        {"\\*", "\\x", true},
        {"{a,b}", "a", false},
        {"***", "a/b", true},
        {"*a*b*", "xxaxxbxx", true},
        {"*a*b*", "xxbxxaxx", false},
        {"A", "a", false},
        {"*/*", "a/b", true},
        {"*/*", "a/b/c", false},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++) {
        if (bh_glob_match(samples[i].pattern, samples[i].text) != samples[i].want)
            fail_msg("'%s' on '%s'", samples[i].pattern, samples[i].text);
    }
    T_TRUE(bh_glob_is("a*"));
    T_TRUE(bh_glob_is("?"));
    assert_false(bh_glob_is("a[b]"));
    assert_false(bh_glob_is(""));
}

/* The definition, as short as it can be said. */
static bool reference(const char *p, const char *t)
{
    if (!*p)
        return !*t;
    if (p[0] == '*') {
        bool crosses = p[1] == '*';
        const char *rest = p + strspn(p, "*");
        for (;; t++) {
            if (reference(rest, t))
                return true;
            if (!*t || (*t == '/' && !crosses))
                return false;
        }
    }
    return *t && (*p == '?' ? *t != '/' : *p == *t) && reference(p + 1, t + 1);
}

#define MAX_TOKENS 3
#define MAX_TEXT 6 /* twice as many tokens, which is as long as the shortest text of two patterns can be */

static const char *const tokens[] = {"a", "b", "/", "?", "*", "**"};

struct all {
    char (*items)[8];
    size_t len, cap;
};

static void add_all(struct all *all, const char *const *parts, size_t n_parts, const char *sofar, int left)
{
    char item[8];
    all->items = bh_grow(all->items, all->len + 1, &all->cap, sizeof(*all->items));
    (void)snprintf(all->items[all->len++], sizeof(*all->items), "%s", sofar);
    for (size_t i = 0; left > 0 && i < n_parts; i++) {
        size_t n = strlen(sofar);
        /* "*" beside a star would only spell another pattern of the list */
        if (n && sofar[n - 1] == '*' && parts[i][0] == '*')
            continue;
        (void)snprintf(item, sizeof(item), "%s%s", sofar, parts[i]);
        add_all(all, parts, n_parts, item, left - 1);
    }
}

/* Every pattern of up to three tokens on every text of up to six characters of "ab/"; then every pair of patterns. */
static void test_against_brute_force(void **state)
{
    (void)state;
    static const char *const letters[] = {"a", "b", "/"};
    struct all patterns = {0}, texts = {0};
    add_all(&patterns, tokens, BH_ARRAY_LEN(tokens), "", MAX_TOKENS);
    add_all(&texts, letters, BH_ARRAY_LEN(letters), "", MAX_TEXT);
    size_t words = (texts.len + 63) / 64;
    BH_CLEANUP_FREE uint64_t *matched = bh_calloc(patterns.len * words, sizeof(*matched));
    for (size_t p = 0; p < patterns.len; p++) {
        for (size_t t = 0; t < texts.len; t++) {
            bool want = reference(patterns.items[p], texts.items[t]);
            if (bh_glob_match(patterns.items[p], texts.items[t]) != want)
                fail_msg("'%s' on '%s'", patterns.items[p], texts.items[t]);
            matched[p * words + t / 64] |= (uint64_t)want << (t % 64);
        }
    }
    for (size_t p = 0; p < patterns.len; p++) {
        for (size_t q = 0; q < patterns.len; q++) {
            bool both = false;
            for (size_t w = 0; w < words && !both; w++)
                both = matched[p * words + w] & matched[q * words + w];
            if (bh_glob_may_intersect(patterns.items[p], patterns.items[q]) != both)
                fail_msg("'%s' and '%s'", patterns.items[p], patterns.items[q]);
        }
    }
    bh_free(patterns.items);
    bh_free(texts.items);
}

static void test_intersections(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool want;
    } samples[] = {
        {"out/*.json", "out/a*", true},
        {"out/*.json", "out/*.csv", false},
        {"*.json", "**/x.json", false},
        {"**", "a/b", true},
        {"a/b", "a/b", true},
        {"a/b", "a/c", false},
        {"a/*", "*/b", true},
        {"a/*", "b/*", false},
        {"", "", true},
        {"", "*", true},
        {"", "?", false},
        {"?\xc3\xbc", "\xc3\xbc?", true},
        {"?", "\xe2\x82\xac", true},
        {"?", "\xff", true},
        {"?", "/", false},
        {"*", "/", false},
        {"**", "/", true},
        {"chapter-?", "chapter-*", true},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++) {
        if (bh_glob_may_intersect(samples[i].a, samples[i].b) != samples[i].want ||
            bh_glob_may_intersect(samples[i].b, samples[i].a) != samples[i].want)
            fail_msg("'%s' and '%s'", samples[i].a, samples[i].b);
    }
}

static char *repeated(const char *part, size_t n, const char *end)
{
    size_t len = strlen(part);
    char *text = bh_alloc(len * n + strlen(end) + 1);
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * len, part, len);
    memcpy(text + len * n, end, strlen(end));
    return text;
}

/* Stars upon stars are exponential for code that tries one after the other: it would never come back. */
static void test_hostile_patterns(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *pattern = repeated("*a", 200, "*b"), *text = repeated("a", 2000, "c");
    assert_false(bh_glob_match(pattern, text));
    BH_CLEANUP_FREE char *one = repeated("*a", 500, "b"), *other = repeated("**?", 500, "c");
    assert_false(bh_glob_may_intersect(one, other));
    BH_CLEANUP_FREE char *wide = repeated("?", 300, ""), *exact = repeated("x", 300, "");
    T_TRUE(bh_glob_match(wide, exact));
    T_TRUE(bh_glob_may_intersect(wide, exact));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_against_brute_force),
        cmocka_unit_test(test_intersections),
        cmocka_unit_test(test_hostile_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
