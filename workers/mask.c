/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search is over the text without its line ends, so that a value is found however it is broken; what is masked is
 * then all that lies between its first and last byte, but for the line ends. Held back is only what may go on as a
 * value: of one that is broken at a line end at least OPEN_MIN bytes, or every line that ends in the letter that a
 * value begins with would wait for the next.
 */
#include "workers/mask.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "policies/needles.h"

enum { OPEN_MIN = 4, LINE_MIN = 8, LINES_MAX = 64, PART = 256 * 1024 };

struct bh_mask {
    unsigned refs;
    struct bh_needles *needles;
};

struct bh_mask *bh_mask_new(void)
{
    struct bh_mask *m = bh_alloc(sizeof(*m));
    *m = (struct bh_mask){.refs = 1, .needles = bh_needles_new()};
    return m;
}

struct bh_mask *bh_mask_ref(struct bh_mask *m)
{
    m->refs++;
    return m;
}

void bh_mask_unref(struct bh_mask *m)
{
    if (!m || --m->refs > 0)
        return;
    bh_needles_free(m->needles);
    bh_free(m);
}

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

/* --- a text without its line ends --- */

struct squeezed {
    char *text;
    size_t *at; /* where each byte stands in the whole */
    size_t len;
};

static struct squeezed squeeze(const char *data, size_t len)
{
    struct squeezed s = {.text = bh_alloc(len + 1), .at = bh_calloc(len + 1, sizeof(size_t))};
    for (size_t i = 0; i < len; i++) {
        if (is_line_end(data[i]))
            continue;
        s.text[s.len] = data[i];
        s.at[s.len++] = i;
    }
    return s;
}

static void squeezed_fini(struct squeezed *s)
{
    explicit_bzero(s->text, s->len);
    bh_free(s->text);
    bh_free(s->at);
}

/* --- values --- */

void bh_mask_add(struct bh_mask *m, const char *name, const char *value, size_t len)
{
    struct squeezed s BH_CLEANUP(squeezed_fini) = squeeze(value, len);
    (void)bh_needles_add(m->needles, name, value, len);
    if (s.len == len)
        return;
    (void)bh_needles_add(m->needles, name, s.text, s.len);
    size_t lines = 0;
    for (size_t i = 0; i < len && lines < LINES_MAX;) {
        size_t n = strcspn(value + i, "\r\n");
        if (n >= LINE_MIN && ++lines)
            (void)bh_needles_add(m->needles, name, value + i, n);
        i += n + 1;
    }
}

/* --- streams --- */

/* The bytes of `whole` from `from` to `to`, as they are or masked. */
static void give(struct bh_buf *out, const char *whole, size_t from, size_t to, bool masked)
{
    if (!masked) {
        bh_buf_add(out, whole + from, to - from);
        return;
    }
    bool said = false;
    for (size_t i = from; i < to; i++) {
        if (is_line_end(whole[i]))
            bh_buf_addc(out, whole[i]);
        else if (!said)
            bh_buf_adds(out, BH_MASKED);
        said = !is_line_end(whole[i]);
    }
}

/* Where what must be held back begins, in `whole`; everything before `from` is decided. */
static size_t open_from(const struct bh_mask *m, const struct squeezed *s, size_t from, const char *whole, size_t len)
{
    size_t open = bh_needles_open_end(m->needles, s->text + from, s->len - from);
    if (open == 0)
        return len;
    size_t at = s->at[s->len - open];
    bool broken = false;
    for (size_t i = at; i < len; i++)
        broken = broken || is_line_end(whole[i]);
    return broken && open < OPEN_MIN ? len : at;
}

static void sift(struct bh_mask_stream *st, const char *whole, size_t len, bool last, struct bh_buf *out)
{
    struct squeezed s BH_CLEANUP(squeezed_fini) = squeeze(whole, len);
    size_t done = 0, from = 0; /* in `whole`, in s.text */
    for (;;) {
        size_t n, start = from + bh_needles_match(st->mask->needles, s.text + from, s.len - from, &n);
        if (n == 0)
            break;
        size_t end = s.at[start + n - 1] + 1;
        give(out, whole, done, s.at[start], false);
        give(out, whole, s.at[start], end, true);
        done = end;
        from = start + n;
    }
    size_t hold = last ? len : open_from(st->mask, &s, from, whole, len);
    give(out, whole, done, hold, false);
    bh_buf_add(&st->held, whole + hold, len - hold);
}

void bh_mask_push(struct bh_mask_stream *s, const char *data, size_t len, bool last, struct bh_buf *out)
{
    if (!s->held.data)
        bh_buf_init(&s->held);
    if (s->held.len == 0) {
        sift(s, data, len, last, out);
        return;
    }
    struct bh_buf whole = s->held;
    bh_buf_init(&s->held);
    bh_buf_add(&whole, data, len);
    sift(s, whole.data, whole.len, last, out);
    bh_buf_wipe(&whole);
}

void bh_mask_stream_fini(struct bh_mask_stream *s)
{
    if (s->held.data)
        bh_buf_wipe(&s->held);
    *s = (struct bh_mask_stream){0};
}

char *bh_mask_text(const struct bh_mask *m, const char *text)
{
    size_t n;
    if (!m || !text)
        return NULL;
    struct squeezed s BH_CLEANUP(squeezed_fini) = squeeze(text, strlen(text));
    (void)bh_needles_match(m->needles, s.text, s.len, &n);
    if (n == 0)
        return NULL;
    struct bh_mask_stream stream = {.mask = m};
    struct bh_buf out = BH_BUF_INIT;
    bh_mask_push(&stream, text, strlen(text), true, &out);
    bh_mask_stream_fini(&stream);
    return bh_buf_take(&out);
}

int bh_mask_search(const struct bh_mask *m, int fd, const char **ret_name)
{
    BH_CLEANUP_FREE char *part = bh_alloc(PART);
    struct bh_sieve sieve = {.set = m->needles};
    const char *name = NULL, *pass;
    size_t n_pass;
    ssize_t n = 1;
    for (off_t at = 0; n > 0 && !name; at += n) {
        do
            n = pread(fd, part, PART, at);
        while (n < 0 && errno == EINTR);
        if (n > 0)
            name = bh_sieve_push(&sieve, part, (size_t)n, false, &pass, &n_pass);
    }
    explicit_bzero(part, PART);
    bh_sieve_fini(&sieve);
    *ret_name = name;
    return n < 0 ? -1 : 0;
}
