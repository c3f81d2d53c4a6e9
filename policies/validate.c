/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of content (validate.h). */
#include "policies/validate.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static size_t line_of(const char *text, size_t at)
{
    size_t line = 1;
    for (const char *p = text; (p = memchr(p, '\n', at - (size_t)(p - text))); p++)
        line++;
    return line;
}

static int64_t count_lines(const char *text, size_t len)
{
    int64_t lines = len > 0 && text[len - 1] != '\n';
    for (const char *p = text; (p = memchr(p, '\n', len - (size_t)(p - text))); p++)
        lines++;
    return lines;
}

static char *check_utf8(const char *text, size_t len)
{
    size_t bad = bh_utf8_check(text, len);
    return bad < len ? bh_asprintf("line %zu is not UTF-8", line_of(text, bad)) : NULL;
}

static char *check_json(const char *text, size_t len)
{
    bool early;
    size_t at = bh_validate_json(text, len, &early);
    if (early)
        return bh_strdup("it ends inside of a JSON value");
    return at < len ? bh_asprintf("line %zu is where it stops being JSON", line_of(text, at)) : NULL;
}

static char *check_jsonl(const char *text, size_t len)
{
    size_t line = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        bool early;
        line++;
        if (bh_validate_json(text + at, n, &early) < n || early)
            return bh_asprintf("line %zu is no JSON value", line);
        at += n + 1;
    }
    return NULL;
}

static char *check_text(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            return bh_asprintf("line %zu has a control character", line_of(text, i));
        if (c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0) /* U+0080 to U+009F */
            return bh_asprintf("line %zu has a control character", line_of(text, i));
    }
    return NULL;
}

/* --- csv --- */

struct csv {
    const char *s;
    size_t at, len;
};

/* One field; false where its quotes are wrong. */
static bool take_field(struct csv *c)
{
    if (c->at == c->len || c->s[c->at] != '"') {
        while (c->at < c->len && c->s[c->at] != ',' && c->s[c->at] != '\n') {
            if (c->s[c->at++] == '"')
                return false;
        }
        return true;
    }
    for (c->at++; c->at < c->len; c->at++) {
        if (c->s[c->at] != '"')
            continue;
        c->at++;
        if (c->at == c->len || c->s[c->at] != '"') {
            c->at += c->at + 1 < c->len && c->s[c->at] == '\r' && c->s[c->at + 1] == '\n';
            return c->at == c->len || c->s[c->at] == ',' || c->s[c->at] == '\n';
        }
    }
    return false;
}

static char *check_csv(const char *text, size_t len)
{
    struct csv c = {.s = text, .len = len};
    size_t want = 0, record = 0;
    while (c.at < len) {
        size_t fields = 1, from = c.at;
        record++;
        for (;; fields++) {
            if (!take_field(&c))
                return bh_asprintf("line %zu has quotes that do not match", line_of(text, from));
            if (c.at == len || c.s[c.at] == '\n')
                break;
            c.at++;
        }
        c.at++;
        want = record == 1 ? fields : want;
        if (fields != want)
            return bh_asprintf("record %zu has %zu fields, the first has %zu", record, fields, want);
    }
    return NULL;
}

/* --- all --- */

static char *check_kind(const struct bh_lease_validate *v, const char *text, size_t len)
{
    switch (v->kind) {
    case BH_VALIDATE_JSON:
        return check_json(text, len);
    case BH_VALIDATE_JSONL:
        return check_jsonl(text, len);
    case BH_VALIDATE_CSV:
        return check_csv(text, len);
    case BH_VALIDATE_TEXT:
        return check_text(text, len);
    case BH_VALIDATE_PATCH:
        return bh_validate_patch(v, text, len);
    case BH_VALIDATE_DIR:
        return bh_strdup("it is a file, not a folder");
    case BH_VALIDATE_ANY:
    case BH_VALIDATE_BINARY:
        return NULL;
    }
    return NULL;
}

char *bh_validate_bytes(const struct bh_lease_validate *v, const void *data, size_t len)
{
    const char *text = len > 0 ? data : "";
    bool is_text = v->kind != BH_VALIDATE_ANY && v->kind != BH_VALIDATE_BINARY && v->kind != BH_VALIDATE_DIR;
    if (v->max_size >= 0 && len > (size_t)v->max_size)
        return bh_asprintf("it has %zu bytes, more than %lld", len, (long long)v->max_size);
    if (v->max_lines >= 0) {
        int64_t lines = count_lines(text, len);
        if (lines > v->max_lines)
            return bh_asprintf("it has %lld lines, more than %lld", (long long)lines, (long long)v->max_lines);
    }
    char *problem = is_text ? check_utf8(text, len) : NULL;
    return problem ? problem : check_kind(v, text, len);
}
