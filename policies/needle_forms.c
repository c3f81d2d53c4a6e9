/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the spellings. Of JSON and of percent signs there are more than can be listed: those that the usual libraries
 * write are here, and those where everything is escaped.
 */
#include "policies/needle_forms.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* The longest that one byte becomes: "\u0041"; of a character beyond ASCII two of these for four bytes. */
#define WORST 6

struct form {
    unsigned char *bytes;
    size_t len;
};

static void give(const struct form *f, bh_needle_form *add, void *arg)
{
    add(arg, f->bytes, f->len);
    explicit_bzero(f->bytes, f->len);
    bh_free(f->bytes);
}

static void put(struct form *f, const char *text, size_t n)
{
    memcpy(f->bytes + f->len, text, n);
    f->len += n;
}

/* --- base64 --- */

/* The characters that the value alone decides where `before` bytes of something else stand ahead of it. */
static void give_base64(const unsigned char *value, size_t len, size_t before, const char *alphabet,
                        bh_needle_form *add, void *arg)
{
    size_t bit = (before * 8 + 5) / 6 * 6 - before * 8; /* of the value, where the first such character begins */
    struct form f = {.len = (len * 8 - bit) / 6};
    f.bytes = bh_alloc(f.len);
    for (size_t i = 0; i < f.len; i++, bit += 6) {
        unsigned two = (unsigned)value[bit / 8] << 8 | (bit / 8 + 1 < len ? value[bit / 8 + 1] : 0);
        f.bytes[i] = (unsigned char)alphabet[two >> (10 - bit % 8) & 63];
    }
    give(&f, add, arg);
}

static void give_all_base64(const unsigned char *value, size_t len, bh_needle_form *add, void *arg)
{
    static const char *const alphabets[] = {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
                                            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"};
    for (size_t a = 0; a < BH_ARRAY_LEN(alphabets); a++) {
        for (size_t before = 0; before < 3; before++)
            give_base64(value, len, before, alphabets[a], add, arg);
    }
}

/* --- JSON --- */

/* How many bytes the character has; 1 with the byte itself where it is none of UTF-8. */
static size_t character(const unsigned char *p, size_t len, unsigned *ret)
{
    size_t n = *p >= 0xf0 && *p < 0xf5 ? 4 : *p >= 0xe0 ? 3 : *p >= 0xc2 ? 2 : 1;
    *ret = *p;
    if (n == 1 || n > len || *p >= 0xf5)
        return 1;
    unsigned c = *p & (0x7fU >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 1;
        c = c << 6 | (p[i] & 0x3f);
    }
    *ret = c;
    return n;
}

static void put_unit(struct form *f, unsigned unit, bool capitals)
{
    char text[8];
    (void)snprintf(text, sizeof(text), capitals ? "\\u%04X" : "\\u%04x", unit & 0xffff);
    put(f, text, WORST);
    explicit_bzero(text, sizeof(text));
}

static void put_escape(struct form *f, unsigned c, bool capitals)
{
    if (c < 0x10000) {
        put_unit(f, c, capitals);
        return;
    }
    put_unit(f, 0xd800 + ((c - 0x10000) >> 10), capitals);
    put_unit(f, 0xdc00 + ((c - 0x10000) & 0x3ff), capitals);
}

/* What is escaped beyond what must be. */
enum json { JSON_LEAST, JSON_SLASH, JSON_MARKUP, JSON_ASCII, JSON_ALL, JSON_ALL_CAPITALS, N_JSON };

static const char *short_escape(unsigned c, enum json how)
{
    static const char *const known[128] = {['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n",  ['\f'] = "\\f",
                                           ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\", ['/'] = "\\/"};
    if (c >= 128 || how >= JSON_ALL || (c == '/' && how != JSON_SLASH))
        return NULL;
    return known[c];
}

static bool needs_unit(unsigned c, enum json how)
{
    bool markup = c == '<' || c == '>' || c == '&' || c == '\'';
    return how >= JSON_ALL || c < 0x20 || (c >= 0x80 && how == JSON_ASCII) || (markup && how == JSON_MARKUP);
}

static void give_json(const unsigned char *value, size_t len, enum json how, bh_needle_form *add, void *arg)
{
    struct form f = {.bytes = bh_alloc(len * WORST)};
    for (size_t i = 0, n; i < len; i += n) {
        unsigned c;
        n = character(value + i, len - i, &c);
        const char *escape = short_escape(c, how);
        if (escape)
            put(&f, escape, 2);
        else if (needs_unit(c, how))
            put_escape(&f, c, how == JSON_ALL_CAPITALS);
        else
            put(&f, (const char *)value + i, n);
    }
    give(&f, add, arg);
}

/* --- percent signs --- */

struct percent {
    const char *kept; /* beside letters and digits; NULL: nothing at all, letters and digits neither */
    bool capitals, plus;
};

static bool is_kept(unsigned char c, const struct percent *how)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return how->kept && (letter || (c && strchr(how->kept, c)));
}

static void give_percent(const unsigned char *value, size_t len, const struct percent *how, bh_needle_form *add,
                         void *arg)
{
    struct form f = {.bytes = bh_alloc(len * WORST)};
    for (size_t i = 0; i < len; i++) {
        char text[4];
        if (is_kept(value[i], how)) {
            put(&f, (const char *)value + i, 1);
            continue;
        }
        if (value[i] == ' ' && how->plus) {
            put(&f, "+", 1);
            continue;
        }
        (void)snprintf(text, sizeof(text), how->capitals ? "%%%02X" : "%%%02x", value[i]);
        put(&f, text, 3);
    }
    give(&f, add, arg);
}

void bh_needle_forms(const void *value, size_t len, bh_needle_form *add, void *arg)
{
    static const struct percent percents[] = {
        {"-._~", true, false},      {"-._~", false, false}, {"-._~/", true, false}, {"-._*", true, true},
        {"-._~!*'()", true, false}, {NULL, true, false},    {NULL, false, false},
    };
    add(arg, value, len);
    give_all_base64(value, len, add, arg);
    for (int how = 0; how < N_JSON; how++)
        give_json(value, len, (enum json)how, add, arg);
    for (size_t i = 0; i < BH_ARRAY_LEN(percents); i++)
        give_percent(value, len, &percents[i], add, arg);
}
