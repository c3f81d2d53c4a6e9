/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from outside: what is UTF-8, what a terminal may be shown, which name was meant, and what a glob
 * matches. All of it works on any bytes; nothing here depends on the locale.
 */
#include "base/text.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

/* Decodes one character at p. Returns its length, or 0 where the bytes are no strict UTF-8. */
static size_t decode(const unsigned char *p, size_t len, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0x80) {
        *ret = p[0];
        return 1;
    }
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len < n)
        return 0;
    uint32_t c = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *ret = c;
    return n;
}

size_t bh_utf8_check(const void *data, size_t len)
{
    const unsigned char *p = data;
    size_t i = 0;
    uint32_t c;
    while (i < len) {
        size_t n = decode(p + i, len - i, &c);
        if (!n)
            return i;
        i += n;
    }
    return len;
}

static bool steers(uint32_t c)
{
    if (c < 0x20)
        return c != '\t';
    if (c < 0x7f)
        return false;
    return c <= 0x9f || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

static void add_hex(struct bh_buf *out, unsigned char byte)
{
    static const char digits[] = "0123456789ABCDEF";
    const char text[4] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    bh_buf_add(out, text, sizeof(text));
}

void bh_escape_terminal(struct bh_buf *out, const void *data, size_t len)
{
    const unsigned char *p = data;
    size_t plain = 0; /* start of the stretch that is copied as it is */
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        if (p[i] >= 0x20 && p[i] < 0x7f) { /* nearly everything */
            i++;
            continue;
        }
        size_t n = decode(p + i, len - i, &c);
        if (n && !steers(c)) {
            i += n;
            continue;
        }
        bh_buf_add(out, p + plain, i - plain);
        if (!n || c < 0x80)
            add_hex(out, p[i]);
        else
            bh_buf_addf(out, "\\u{%04X}", (unsigned)c);
        i += n ? n : 1;
        plain = i;
    }
    bh_buf_add(out, p + plain, len - plain);
}

#define NEAR_MAX 64

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits from a to b, where the swap of two neighbours is one edit. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][NEAR_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= nb; j++)
        last[j] = j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            now[j] = smaller(last[j - 1] + !same, smaller(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[nb];
}

const char *bh_nearest(const char *word, const char *const *candidates, size_t n)
{
    size_t len = strlen(word), limit = len < 6 ? 1 : len / 3, best_distance = limit + 1;
    const char *best = NULL;
    if (len == 0 || len > NEAR_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t other = strlen(candidates[i]);
        if (other == 0 || other > NEAR_MAX || other > len + limit || len > other + limit)
            continue;
        size_t d = distance(word, len, candidates[i], other);
        if (d < best_distance && d < other) { /* d == other: nothing of it was written */
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}

/* A glob as a row of tokens: a character, or one of these (above every character and every stray byte). */
#define STRAY_BYTE UINT32_C(0x00200000)
#define ANY_CHAR UINT32_C(0x01000000)     /* ? */
#define SEGMENT_STAR UINT32_C(0x01000001) /* * */
#define PATH_STAR UINT32_C(0x01000002)    /* ** */

struct tokens {
    uint32_t *items;
    size_t len;
    uint32_t small[128];
};

static uint32_t next_char(const char **p)
{
    uint32_t c;
    size_t n = decode((const unsigned char *)*p, strlen(*p), &c);
    if (!n)
        c = STRAY_BYTE | (unsigned char)**p;
    *p += n ? n : 1;
    return c;
}

static void tokens_fini(struct tokens *t)
{
    if (t->items != t->small)
        bh_free(t->items);
}

static void tokenize(struct tokens *t, const char *pattern)
{
    size_t bytes = strlen(pattern);
    t->items = bytes <= BH_ARRAY_LEN(t->small) ? t->small : bh_calloc(bytes, sizeof(*t->items));
    t->len = 0;
    for (const char *p = pattern; *p;) {
        uint32_t c;
        if (*p == '*') {
            size_t stars = strspn(p, "*");
            c = stars > 1 ? PATH_STAR : SEGMENT_STAR;
            p += stars;
        } else if (*p == '?') {
            c = ANY_CHAR;
            p++;
        } else {
            c = next_char(&p);
        }
        t->items[t->len++] = c;
    }
}

static bool is_star(uint32_t token)
{
    return token == SEGMENT_STAR || token == PATH_STAR;
}

static bool takes(uint32_t token, uint32_t c)
{
    if (token == PATH_STAR)
        return true;
    return token == SEGMENT_STAR || token == ANY_CHAR ? c != '/' : token == c;
}

bool bh_glob_is(const char *pattern)
{
    return strpbrk(pattern, "*?") != NULL;
}

/* Marks what is reached from the marked positions without taking a character: behind a star. */
static void pass_stars(const struct tokens *t, bool *at)
{
    for (size_t i = 0; i < t->len; i++) {
        if (at[i] && is_star(t->items[i]))
            at[i + 1] = true;
    }
}

/* All positions in the pattern that the text read so far can have reached, kept as a set. */
static bool match_tokens(const struct tokens *t, const char *text, bool *at)
{
    at[0] = true;
    pass_stars(t, at);
    while (*text) {
        uint32_t c = next_char(&text);
        bool any = false;
        for (size_t i = t->len + 1; i-- > 0;) {
            bool stays = i < t->len && at[i] && is_star(t->items[i]) && takes(t->items[i], c);
            bool comes = i > 0 && at[i - 1] && !is_star(t->items[i - 1]) && takes(t->items[i - 1], c);
            at[i] = stays || comes;
            any = any || at[i];
        }
        if (!any)
            return false;
        pass_stars(t, at);
    }
    return at[t->len];
}

bool bh_glob_match(const char *pattern, const char *text)
{
    struct tokens t;
    bool small[BH_ARRAY_LEN(t.small) + 1] = {false};
    tokenize(&t, pattern);
    bool *at = t.len <= BH_ARRAY_LEN(t.small) ? small : bh_calloc(t.len + 1, sizeof(*at));
    bool matched = match_tokens(&t, text, at);
    if (at != small)
        bh_free(at);
    tokens_fini(&t);
    return matched;
}

/* Whether one character can be taken by both. */
static bool share_char(uint32_t a, uint32_t b)
{
    bool a_set = a >= ANY_CHAR, b_set = b >= ANY_CHAR;
    if (a_set && b_set)
        return true; /* every set holds 'a' */
    return a_set ? takes(a, b) : takes(b, a);
}

/*
 * Walks all pairs of positions that one text can reach in both patterns. A step never goes back in either,
 * so one pass in order is enough, and two rows of pairs are all that is kept.
 */
static bool tokens_meet(const struct tokens *a, const struct tokens *b, bool *row, bool *next)
{
    row[0] = true;
    for (size_t i = 0; i <= a->len; i++) {
        memset(next, 0, (b->len + 1) * sizeof(*next));
        for (size_t j = 0; j <= b->len; j++) {
            if (!row[j])
                continue;
            bool in_a = i < a->len, in_b = j < b->len;
            bool star_a = in_a && is_star(a->items[i]), star_b = in_b && is_star(b->items[j]);
            if (star_a)
                next[j] = true;
            if (star_b)
                row[j + 1] = true;
            if (!in_a || !in_b || !share_char(a->items[i], b->items[j]))
                continue;
            if (star_a && !star_b)
                row[j + 1] = true;
            else if (!star_a && star_b)
                next[j] = true;
            else if (!star_a)
                next[j + 1] = true;
        }
        if (i == a->len)
            return row[b->len];
        bool *done = row;
        row = next;
        next = done;
    }
    return false;
}

bool bh_glob_may_intersect(const char *a, const char *b)
{
    struct tokens ta, tb;
    tokenize(&ta, a);
    tokenize(&tb, b);
    bool small[2][BH_ARRAY_LEN(tb.small) + 1] = {{false}};
    size_t n = tb.len + 1;
    bool *rows = tb.len <= BH_ARRAY_LEN(tb.small) ? small[0] : bh_calloc(2 * n, sizeof(*rows));
    bool meet = tokens_meet(&ta, &tb, rows, rows + n);
    if (rows != small[0])
        bh_free(rows);
    tokens_fini(&ta);
    tokens_fini(&tb);
    return meet;
}

int bh_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool bh_streq(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool bh_starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool bh_ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}
