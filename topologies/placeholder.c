/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the scanner of `{{ }}`. Assumes nothing of the text; must never put anything in.
 */
#include "topologies/placeholder.h"

#include "base/buf.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(const struct bh_placeholder *p, const char *word)
{
    return p->name_len == strlen(word) && memcmp(p->name, word, p->name_len) == 0;
}

/* "params.topic" with the prefix "params." leaves the name "topic". */
static bool strip_prefix(struct bh_placeholder *p, const char *prefix)
{
    size_t n = strlen(prefix);
    if (p->name_len <= n || memcmp(p->name, prefix, n) != 0)
        return false;
    p->name += n;
    p->name_len -= n;
    return true;
}

static enum bh_placeholder_kind classify(struct bh_placeholder *p)
{
    if (strip_prefix(p, "params."))
        return BH_HOLD_PARAM;
    if (strip_prefix(p, "matrix."))
        return BH_HOLD_MATRIX;
    if (strip_prefix(p, "secrets."))
        return BH_HOLD_SECRET;
    static const struct {
        const char *word;
        enum bh_placeholder_kind kind;
    } words[] = {{"item", BH_HOLD_ITEM},
                 {"round", BH_HOLD_ROUND},
                 {"attempt", BH_HOLD_ATTEMPT},
                 {"url", BH_HOLD_URL},
                 {"mcp_config", BH_HOLD_MCP_CONFIG}};
    for (size_t i = 0; i < BH_ARRAY_LEN(words); i++) {
        if (is_word(p, words[i].word))
            return words[i].kind;
    }
    return BH_HOLD_UNKNOWN;
}

bool bh_placeholder_next(const char *text, size_t *offset, struct bh_placeholder *ret)
{
    const char *open = strstr(text + *offset, "{{");
    if (!open)
        return false;
    const char *name = open + 2;
    const char *close = strstr(name, "}}");
    const char *stop = close ? close : name + strlen(name);
    ret->start = (size_t)(open - text);
    ret->end = (size_t)(stop - text) + (close ? 2 : 0);
    *offset = ret->end;
    while (name < stop && is_space(*name))
        name++;
    while (stop > name && is_space(stop[-1]))
        stop--;
    ret->name = name;
    ret->name_len = (size_t)(stop - name);
    ret->kind = close ? classify(ret) : BH_HOLD_OPEN;
    return true;
}

void bh_placeholder_blank(const char *text, struct bh_buf *out)
{
    size_t offset = 0, done = 0;
    struct bh_placeholder p;
    while (bh_placeholder_next(text, &offset, &p)) {
        bh_buf_add(out, text + done, p.start - done);
        bh_buf_addc(out, 'x');
        done = p.end;
    }
    bh_buf_adds(out, text + done);
}
