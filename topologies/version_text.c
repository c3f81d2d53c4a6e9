/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the reading of versions. A range becomes what all of its members begin with, so that two ranges are said to
 * conflict only where they have no member in common.
 */
#include "topologies/version_text.h"

#include <ctype.h>
#include <string.h>

enum { DIGITS_MAX = 15 };

/* The leading numbers with dots between; what follows stays in `rest`. No number: text is NULL. */
static struct bh_version read_parts(const char *text)
{
    struct bh_version v = {.text = text, .exact = true, .rest = text};
    const char *p = text;
    while (isdigit((unsigned char)*p) && v.n < BH_VERSION_PARTS) {
        size_t len = strspn(p, "0123456789");
        if (len > DIGITS_MAX)
            return (struct bh_version){0};
        int64_t part = 0;
        for (size_t i = 0; i < len; i++)
            part = part * 10 + (p[i] - '0');
        v.parts[v.n++] = part;
        v.rest = p + len;
        if (p[len] != '.' || !isdigit((unsigned char)p[len + 1]))
            break;
        p += len + 1;
    }
    return v.n > 0 ? v : (struct bh_version){0};
}

static bool is_word(const char *s)
{
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_!~:")] == '\0';
}

/* ".x", ".*", also twice. */
static bool is_wild(const char *rest)
{
    if (!*rest)
        return false;
    while (rest[0] == '.' && (rest[1] == 'x' || rest[1] == 'X' || rest[1] == '*'))
        rest += 2;
    return !*rest;
}

static struct bh_version prefix(struct bh_version v, size_t n)
{
    v.exact = false;
    v.n = v.n < n ? v.n : n;
    v.rest = "";
    return v;
}

struct bh_version bh_version_exact(const char *text)
{
    struct bh_version v = read_parts(text);
    return v.text && is_word(v.rest) ? v : (struct bh_version){0};
}

struct bh_version bh_version_opaque(const char *text)
{
    struct bh_version v = {.text = text, .exact = true, .opaque = true, .rest = ""};
    return *text && is_word(text) ? v : (struct bh_version){0};
}

/* The first part that is not zero is the one that ^ keeps. */
static struct bh_version caret(struct bh_version v)
{
    size_t keep = 1;
    while (keep < v.n && v.parts[keep - 1] == 0)
        keep++;
    return prefix(v, keep);
}

struct bh_version bh_version_npm(const char *spec)
{
    char op = *spec == '^' || *spec == '~' ? *spec : '\0';
    const char *text = spec + (op || *spec == '=' || *spec == 'v');
    struct bh_version v = read_parts(text);
    if (!v.text)
        return v;
    v.text = spec;
    if (is_wild(v.rest))
        return prefix(v, v.n);
    if (!is_word(v.rest))
        return (struct bh_version){0};
    if (op == '^')
        return caret(v);
    if (op == '~')
        return prefix(v, 2);
    return v.n < 3 && !*v.rest ? prefix(v, v.n) : v;
}

struct bh_version bh_version_pip(const char *op, const char *version)
{
    struct bh_version v = read_parts(version);
    if (!v.text)
        return v;
    if (strcmp(op, "~=") == 0)
        return v.n > 1 ? prefix(v, v.n - 1) : (struct bh_version){0};
    if (strcmp(v.rest, ".*") == 0)
        return prefix(v, v.n);
    return is_word(v.rest) ? v : (struct bh_version){0};
}

static int64_t part_at(const struct bh_version *v, size_t i)
{
    return i < v->n ? v->parts[i] : 0;
}

bool bh_versions_conflict(const struct bh_version *a, const struct bh_version *b)
{
    if (!a->text || !b->text)
        return false;
    if (a->opaque || b->opaque)
        return a->opaque && b->opaque && strcmp(a->text, b->text) != 0;
    bool both = a->exact && b->exact;
    size_t most = a->n > b->n ? a->n : b->n;
    size_t n = both ? most : a->exact ? b->n : b->exact ? a->n : a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        if (part_at(a, i) != part_at(b, i))
            return true;
    }
    return both && strcmp(a->rest, b->rest) != 0;
}
