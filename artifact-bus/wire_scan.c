/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pre-scan of a message: headers, counts, depth and kinds, without allocating and without the library.
 * What passes here costs the decoder at most a fixed multiple of its length. It does not look into texts and does not
 * find duplicate keys: wire.c does while it builds the values.
 */
#include "artifact-bus/wire_scan_priv.h"

#include "artifact-bus/wire.h"

enum kind { REFUSED, SCALAR, TEXT, LIST, MAP };

/* What a leading byte says: `bytes` of payload follow, or, for texts and containers, that many bytes of a length. */
struct head {
    enum kind kind;
    unsigned bytes;
};

/* 0xc0 to 0xdf. Byte strings and extension types are refused: our values have no such kind. */
static const struct head heads[32] = {
    [0x00] = {SCALAR, 0},                                                                   /* nil */
    [0x02] = {SCALAR, 0}, [0x03] = {SCALAR, 0},                                             /* false, true */
    [0x0a] = {SCALAR, 4}, [0x0b] = {SCALAR, 8},                                             /* numbers */
    [0x0c] = {SCALAR, 1}, [0x0d] = {SCALAR, 2}, [0x0e] = {SCALAR, 4}, [0x0f] = {SCALAR, 8}, /* unsigned */
    [0x10] = {SCALAR, 1}, [0x11] = {SCALAR, 2}, [0x12] = {SCALAR, 4}, [0x13] = {SCALAR, 8}, /* signed */
    [0x19] = {TEXT, 1},   [0x1a] = {TEXT, 2},   [0x1b] = {TEXT, 4},                         /* text */
    [0x1c] = {LIST, 2},   [0x1d] = {LIST, 4},   [0x1e] = {MAP, 2},    [0x1f] = {MAP, 4},    /* containers */
};

struct level {
    uint64_t left; /* values still to come, a pair counts as two */
    bool map;
};

struct scan {
    const unsigned char *data;
    size_t len, at;
    uint64_t objects;
    struct level levels[BH_WIRE_MAX_DEPTH];
    unsigned depth;
};

/* The head of the value at `at` and the count or length it claims; moves behind both. NULL, or what is wrong. */
static const char *read_head(struct scan *s, enum kind *ret_kind, uint64_t *ret_claim)
{
    unsigned char c = s->data[s->at++];
    *ret_claim = 0;
    if (c <= 0x7f || c >= 0xe0) {
        *ret_kind = SCALAR;
        return NULL;
    }
    if (c < 0xc0) { /* the short forms, with the count inside */
        *ret_kind = c < 0x90 ? MAP : c < 0xa0 ? LIST : TEXT;
        *ret_claim = c & (c < 0xa0 ? 0x0fu : 0x1fu);
        return NULL;
    }
    struct head h = heads[c - 0xc0];
    if (h.kind == REFUSED)
        return "is of a type that is not used here";
    *ret_kind = h.kind;
    if (h.kind == SCALAR) {
        *ret_claim = h.bytes;
        return NULL;
    }
    if (s->len - s->at < h.bytes)
        return "ends in the middle of a value";
    for (unsigned i = 0; i < h.bytes; i++)
        *ret_claim = *ret_claim << 8 | s->data[s->at++];
    return NULL;
}

static const char *enter(struct scan *s, bool map, uint64_t count)
{
    if (s->depth == BH_WIRE_MAX_DEPTH)
        return "is nested too deep";
    uint64_t values = map ? 2 * count : count;
    if (values > s->len - s->at)
        return "claims more values than there are bytes left";
    s->objects += values;
    if (s->objects > BH_WIRE_MAX_OBJECTS)
        return "makes too many values for one message";
    s->levels[s->depth++] = (struct level){.left = values, .map = map};
    return NULL;
}

/* One value without what is in it; the containers it opens are entered. */
static const char *step(struct scan *s)
{
    struct level *top = s->depth > 0 ? &s->levels[s->depth - 1] : NULL;
    bool key = top && top->map && top->left % 2 == 0;
    if (top)
        top->left--;
    enum kind kind = REFUSED;
    uint64_t claim = 0;
    const char *what = read_head(s, &kind, &claim);
    if (what)
        return what;
    if (key && kind != TEXT)
        return "is a key that is no text";
    if (kind == LIST || kind == MAP)
        return enter(s, kind == MAP, claim);
    if (claim > s->len - s->at)
        return "ends in the middle of a value";
    s->at += (size_t)claim;
    return NULL;
}

bool bh_wire_scan(const void *data, size_t len, struct bh_wire_flaw *ret_flaw)
{
    struct scan s = {.data = data, .len = len, .objects = 1};
    do {
        size_t start = s.at;
        const char *what = s.at < s.len ? step(&s) : "ends before its last value";
        if (what) {
            *ret_flaw = (struct bh_wire_flaw){.what = what, .at = start};
            return false;
        }
        while (s.depth > 0 && s.levels[s.depth - 1].left == 0)
            s.depth--;
    } while (s.depth > 0);
    if (s.at < s.len) {
        *ret_flaw = (struct bh_wire_flaw){.what = "goes on behind its end", .at = s.at};
        return false;
    }
    return true;
}
