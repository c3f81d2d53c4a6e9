/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/shell/filter.h"

#include <string.h>

#include "base/buf.h"
#include "base/text.h"

static bool passes(char c)
{
    return c == '\n' || c == '\r' || c == '\b' || c == '\a';
}

/* How many bytes a character has that begins so; 1 for what begins none. */
static size_t width(unsigned char c)
{
    return c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 ? (c < 0xf0 ? 3 : 1) : c >= 0xc2 ? 2 : 1;
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* How many bytes at the end are the beginning of a character that is not whole. */
static size_t cut_at_end(const char *data, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        char c = data[len - back];
        if (continues(c))
            continue;
        return width((unsigned char)c) > back ? back : 0;
    }
    return 0;
}

static void add(struct bh_buf *out, const char *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && !passes(data[at + n]))
            n++;
        if (n > 0)
            bh_escape_terminal(out, data + at, n);
        at += n;
        if (at < len)
            bh_buf_addc(out, data[at++]);
    }
}

void bh_shell_filter(struct bh_shell_filter *f, const char *data, size_t len, struct bh_buf *out)
{
    BH_CLEANUP_BUF struct bh_buf all = BH_BUF_INIT;
    bh_buf_add(&all, f->cut, f->n_cut);
    bh_buf_add(&all, data, len);
    f->n_cut = cut_at_end(all.data, all.len);
    memcpy(f->cut, all.data + all.len - f->n_cut, f->n_cut);
    add(out, all.data, all.len - f->n_cut);
}

void bh_shell_filter_end(struct bh_shell_filter *f, struct bh_buf *out)
{
    add(out, f->cut, f->n_cut);
    f->n_cut = 0;
}
