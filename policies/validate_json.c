/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as RFC 8259 has it, checked byte by byte: what is open is a stack of one bit a level, so no value, however deep
 * or long, costs memory. UTF-8 is checked by who calls.
 */
#include <string.h>

#include "policies/validate.h"

struct scan {
    const unsigned char *s;
    size_t at, len;
    bool is_object[BH_VALIDATE_DEPTH];
    size_t depth;
};

static bool more(const struct scan *p)
{
    return p->at < p->len;
}

static void skip_space(struct scan *p)
{
    while (more(p) && (p->s[p->at] == ' ' || p->s[p->at] == '\t' || p->s[p->at] == '\n' || p->s[p->at] == '\r'))
        p->at++;
}

static bool take(struct scan *p, unsigned char c)
{
    if (!more(p) || p->s[p->at] != c)
        return false;
    p->at++;
    return true;
}

static bool is_hex(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool take_escape(struct scan *p)
{
    if (!more(p))
        return false;
    unsigned char c = p->s[p->at];
    if (c != 'u') {
        if (!strchr("\"\\/bfnrt", c) || c == '\0')
            return false;
        p->at++;
        return true;
    }
    p->at++;
    for (int i = 0; i < 4; i++) {
        if (!more(p) || !is_hex(p->s[p->at]))
            return false;
        p->at++;
    }
    return true;
}

static bool take_string(struct scan *p)
{
    if (!take(p, '"'))
        return false;
    while (more(p) && p->s[p->at] != '"') {
        if (p->s[p->at] < 0x20)
            return false;
        if (p->s[p->at++] == '\\' && !take_escape(p))
            return false;
    }
    return take(p, '"');
}

static bool take_digits(struct scan *p)
{
    size_t from = p->at;
    while (more(p) && p->s[p->at] >= '0' && p->s[p->at] <= '9')
        p->at++;
    return p->at > from;
}

static bool take_number(struct scan *p)
{
    (void)take(p, '-');
    if (!take(p, '0') && !take_digits(p))
        return false;
    if (take(p, '.') && !take_digits(p))
        return false;
    if (take(p, 'e') || take(p, 'E')) {
        if (!take(p, '+'))
            (void)take(p, '-');
        return take_digits(p);
    }
    return true;
}

static bool take_word(struct scan *p, const char *word)
{
    for (; *word; word++) {
        if (!take(p, (unsigned char)*word))
            return false;
    }
    return true;
}

static bool take_key(struct scan *p)
{
    skip_space(p);
    if (!take_string(p))
        return false;
    skip_space(p);
    return take(p, ':');
}

static bool take_scalar(struct scan *p)
{
    if (!more(p))
        return false;
    switch (p->s[p->at]) {
    case '"':
        return take_string(p);
    case 't':
        return take_word(p, "true");
    case 'f':
        return take_word(p, "false");
    case 'n':
        return take_word(p, "null");
    default:
        return take_number(p);
    }
}

/* Opens what begins here; 1: something was opened and is not empty, 0: what stands here is whole, -1: it is wrong. */
static int take_opening(struct scan *p)
{
    skip_space(p);
    bool object = more(p) && p->s[p->at] == '{', list = more(p) && p->s[p->at] == '[';
    if (!object && !list)
        return take_scalar(p) ? 0 : -1;
    if (p->depth == BH_VALIDATE_DEPTH)
        return -1;
    p->at++;
    skip_space(p);
    if (take(p, object ? '}' : ']'))
        return 0;
    p->is_object[p->depth++] = object;
    return !object || take_key(p) ? 1 : -1;
}

/* Behind a whole value: closes what ends here. 1: another value follows, 0: all is closed, -1: it is wrong. */
static int take_closing(struct scan *p)
{
    while (p->depth > 0) {
        bool object = p->is_object[p->depth - 1];
        skip_space(p);
        if (take(p, ','))
            return !object || take_key(p) ? 1 : -1;
        if (!take(p, object ? '}' : ']'))
            return -1;
        p->depth--;
    }
    return 0;
}

static bool take_value(struct scan *p)
{
    for (;;) {
        int opened = take_opening(p);
        if (opened < 0)
            return false;
        if (opened > 0)
            continue;
        int next = take_closing(p);
        if (next <= 0)
            return next == 0;
    }
}

size_t bh_validate_json(const char *text, size_t len, bool *ret_early)
{
    struct scan p = {.s = (const unsigned char *)text, .len = len};
    bool good = take_value(&p);
    if (good)
        skip_space(&p);
    *ret_early = !good && p.at == len;
    return p.at;
}
