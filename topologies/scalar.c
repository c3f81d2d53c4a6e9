/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns how single values are read: text, integers, bools, durations, sizes, words, names. The rule: strings stay
 * strings; nothing is an integer or a bool because it looks like one, only because its key expects one.
 */
#include "topologies/scalar.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"

static struct bh_str str_of(const struct bh_node *n)
{
    return (struct bh_str){.s = bh_node_text(n), .pos = bh_node_pos(n)};
}

bool bh_read_text(struct bh_reader *r, const struct bh_node *n, const char *what, enum bh_holds holds,
                  struct bh_str *ret)
{
    const char *text = bh_node_text(n);
    if (!text) {
        bh_read_wrong(r, n, what, bh_node_kind(n) == BH_NODE_EMPTY ? "an empty text is written ''" : NULL);
        return false;
    }
    if (!bh_check_holds(r, n, text, holds, false))
        return false;
    *ret = str_of(n);
    return true;
}

bool bh_read_filled(struct bh_reader *r, const struct bh_node *n, const char *what, enum bh_holds holds,
                    struct bh_str *ret)
{
    const char *text = bh_node_text(n);
    if (text && *text == '\0') {
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "expected %s, found an empty text", what);
        return false;
    }
    if (bh_node_kind(n) == BH_NODE_EMPTY) {
        bh_read_wrong(r, n, what, NULL);
        return false;
    }
    return bh_read_text(r, n, what, holds, ret);
}

/* Digits, perhaps with a sign: what people mean as an integer that is too large. */
static bool is_digits(const char *s)
{
    s += *s == '-';
    return *s != '\0' && *s != '0' && s[strspn(s, "0123456789")] == '\0';
}

static const char *quoted_hint(const struct bh_node *n)
{
    return bh_node_text(n) && !bh_node_is_plain(n) ? "take the quotes off: what stands in quotes is a text" : NULL;
}

bool bh_read_int(struct bh_reader *r, struct bh_node *n, int64_t min, int64_t max, int64_t *ret)
{
    const char *text = bh_node_text(n);
    int64_t value;
    bool plain = text && bh_node_is_plain(n);
    if (plain && is_digits(text) && bh_parse_int(text, &value) < 0) {
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the integer %s is out of range", text);
        return false;
    }
    if (!plain || bh_parse_int(text, &value) < 0) {
        const char *hint = plain ? "an integer is written in decimal digits alone, like 8 or 1000" : quoted_hint(n);
        bh_read_wrong(r, n, "an integer", hint);
        return false;
    }
    bh_node_set_type(n, BH_NODE_AS_INT);
    if (value < min || value > max) {
        if (max == INT64_MAX)
            bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "%s is too small: the least is %lld", text, (long long)min);
        else
            bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "%s is out of range: it goes from %lld to %lld", text,
                          (long long)min, (long long)max);
        return false;
    }
    *ret = value;
    return true;
}

static bool is_other_bool(const char *text)
{
    static const char *const words[] = {"yes", "no", "on", "off", "y", "n", "true", "false", "1", "0"};
    for (size_t i = 0; i < BH_ARRAY_LEN(words); i++) {
        if (strcasecmp(words[i], text) == 0)
            return true;
    }
    return false;
}

bool bh_read_bool(struct bh_reader *r, struct bh_node *n, bool *ret)
{
    const char *text = bh_node_text(n);
    bool yes = bh_streq(text, "true");
    if (bh_node_is_plain(n) && (yes || bh_streq(text, "false"))) {
        bh_node_set_type(n, BH_NODE_AS_BOOL);
        *ret = yes;
        return true;
    }
    const char *hint = quoted_hint(n);
    if (!hint && text && is_other_bool(text))
        hint = "write true or false";
    bh_read_wrong(r, n, "true or false", hint);
    return false;
}

/* Whether there is a text at all; the first half of reading a quantity. */
static const char *quantity(struct bh_reader *r, const struct bh_node *n, const char *what)
{
    const char *text = bh_node_text(n);
    if (!text)
        bh_read_wrong(r, n, what, NULL);
    return text;
}

static const char *unit_hint(struct bh_reader *r, const char *text, const char *unit)
{
    bool digits = *text != '\0' && text[strspn(text, "0123456789")] == '\0';
    return digits ? bh_arena_printf(r->arena, "add the unit: %s%s", text, unit) : NULL;
}

bool bh_read_duration(struct bh_reader *r, const struct bh_node *n, bool zero_too, int64_t *ret_ns)
{
    static const char what[] = "a duration like 30s, 10m or 1h30m";
    const char *text = quantity(r, n, what);
    int64_t ns;
    if (!text)
        return false;
    if (bh_parse_duration(text, &ns) < 0) {
        bh_read_bad(r, n, what, unit_hint(r, text, "s"));
        return false;
    }
    if (ns == 0 && !zero_too) {
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the duration %s is not above zero", text);
        return false;
    }
    *ret_ns = ns;
    return true;
}

/* What is written otherwise elsewhere: 64M, 64mb, "64 MiB", 1.5GiB. */
static const char *size_hint(struct bh_reader *r, const char *text)
{
    size_t digits = strspn(text, "0123456789"), tenths = 0;
    const char *p = text + digits;
    if (digits == 0 || digits > 9)
        return NULL;
    if (*p == '.') {
        tenths = strspn(p + 1, "0123456789");
        p += 1 + tenths;
    }
    p += strspn(p, " ");
    const char *big = "KMGTP", *letter = *p ? strcasestr(big, (char[]){*p, '\0'}) : NULL;
    if (strcasecmp(p, "b") == 0 && tenths == 0)
        return bh_arena_printf(r->arena, "did you mean %.*sB?", (int)digits, text);
    if (!letter)
        return NULL;
    bool binary = p[1] == 'i' || p[1] == 'I';
    const char *rest = p + 1 + binary;
    if (*rest != '\0' && strcasecmp(rest, "b") != 0)
        return NULL;
    if (tenths > 0)
        return "a size is a whole number and a unit: instead of 1.5GiB write 1536MiB";
    if (binary)
        return bh_arena_printf(r->arena, "did you mean %.*s%ciB?", (int)digits, text, *letter);
    return bh_arena_printf(r->arena, "did you mean %.*s%cB or %.*s%ciB?", (int)digits, text, *letter, (int)digits, text,
                           *letter);
}

/* Digits with a unit, or digits alone, that are too many. */
static bool is_huge(const char *text)
{
    int64_t n;
    const char *unit = text + strspn(text, "0123456789");
    BH_CLEANUP_FREE char *one = bh_asprintf("1%s", unit);
    return unit != text && *unit != '\0' && bh_parse_size(one, &n) == 0 && bh_parse_size(text, &n) < 0;
}

bool bh_read_size(struct bh_reader *r, const struct bh_node *n, int64_t *ret_bytes)
{
    static const char what[] = "a size like 512KiB, 64MB or 2GiB";
    const char *text = quantity(r, n, what);
    int64_t bytes;
    if (!text)
        return false;
    if (bh_parse_size(text, &bytes) < 0) {
        const char *hint = unit_hint(r, text, "B");
        if (is_huge(text))
            bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the size %s is out of range", text);
        else
            bh_read_bad(r, n, what, hint ? hint : size_hint(r, text));
        return false;
    }
    if (bytes == 0) {
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the size %s is not above zero", text);
        return false;
    }
    *ret_bytes = bytes;
    return true;
}

static const char *list_words(struct bh_reader *r, const char *const *words, size_t len)
{
    BH_CLEANUP_BUF struct bh_buf list = BH_BUF_INIT;
    for (size_t i = 0; i < len; i++)
        bh_buf_addf(&list, "%s%s", i == 0 ? "" : i + 1 == len ? " or " : ", ", words[i]);
    return bh_arena_strndup(r->arena, list.data, list.len);
}

bool bh_read_word(struct bh_reader *r, const struct bh_node *n, const char *const *words, size_t len, size_t *ret)
{
    const char *text = bh_node_text(n);
    for (size_t i = 0; text && i < len; i++) {
        if (bh_streq(text, words[i])) {
            *ret = i;
            return true;
        }
    }
    const char *what = list_words(r, words, len);
    if (text)
        bh_read_bad(r, n, what, bh_read_nearest(r, text, words, len));
    else
        bh_read_wrong(r, n, what, NULL);
    return false;
}

/* --- names --- */

enum { NAME_MAX_LEN = 63 };

bool bh_is_name(const char *text)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char later[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t len = strlen(text);
    return len >= 1 && len <= NAME_MAX_LEN && strchr(first, *text) && strspn(text, later) == len;
}

bool bh_is_identifier(const char *text)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char later[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t len = strlen(text);
    return len >= 1 && len <= NAME_MAX_LEN && strchr(first, *text) && strspn(text, later) == len;
}

void bh_report_name(struct bh_reader *r, const struct bh_node *n, const char *text, bool at_key)
{
    (at_key ? bh_read_key_error : bh_read_error)(
        r, n, BH_E_BAD_NAME,
        "a name has a-z, 0-9, '_' and '-', starts with a letter or a digit, and is at most 63 long",
        "'%s' is not a name", text);
}

bool bh_read_name(struct bh_reader *r, const struct bh_node *n, struct bh_str *ret)
{
    struct bh_str name;
    if (!bh_read_filled(r, n, "a name", BH_HOLDS_NONE, &name))
        return false;
    if (!bh_is_name(name.s)) {
        bh_report_name(r, n, name.s, false);
        return false;
    }
    *ret = name;
    return true;
}

bool bh_check_identifier_key(struct bh_reader *r, const struct bh_node *n, const char *what)
{
    if (bh_is_identifier(bh_node_key(n)))
        return true;
    bh_read_key_error(
        r, n, BH_E_BAD_NAME,
        "such a name has letters, digits, '_' and '-', starts with a letter or '_', and is at most 63 long",
        "'%s' is not a name of %s", bh_node_key(n), what);
    return false;
}

bool bh_check_env_key(struct bh_reader *r, const struct bh_node *n)
{
    const char *key = bh_node_key(n);
    if (*key != '\0' && !strchr(key, '='))
        return bh_check_holds(r, n, key, BH_HOLDS_NONE, true);
    bh_read_key_error(r, n, BH_E_BAD_NAME, NULL, "'%s' is not a name of a variable: it %s", key,
                      *key ? "holds '='" : "is empty");
    return false;
}
