/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing byte buffer. Owns its bytes; an empty one points at a static NUL and owns nothing. Must
 * never leave `data` without the NUL behind `len`.
 */
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

char bh_buf_empty[1];

void bh_buf_init(struct bh_buf *buf)
{
    *buf = BH_BUF_INIT;
}

void bh_buf_fini(struct bh_buf *buf)
{
    if (buf->cap)
        bh_free(buf->data);
    bh_buf_init(buf);
}

void bh_buf_wipe(struct bh_buf *buf)
{
    if (buf->cap)
        explicit_bzero(buf->data, buf->cap);
    bh_buf_fini(buf);
}

void bh_buf_clear(struct bh_buf *buf)
{
    buf->len = 0;
    if (buf->cap)
        buf->data[0] = '\0';
}

static void grow(struct bh_buf *buf, size_t n)
{
    size_t need;
    BH_ASSERT(!__builtin_add_overflow(buf->len, n, &need) && need < SIZE_MAX / 2);
    need++;
    if (need <= buf->cap)
        return;
    size_t cap = buf->cap ? buf->cap * 2 : 64;
    if (cap < need)
        cap = need;
    bool fresh = buf->cap == 0;
    buf->data = bh_realloc_array(fresh ? NULL : buf->data, cap, 1);
    buf->cap = cap;
    if (fresh)
        buf->data[0] = '\0';
}

void bh_buf_add(struct bh_buf *buf, const void *data, size_t len)
{
    if (!len)
        return;
    grow(buf, len);
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void bh_buf_adds(struct bh_buf *buf, const char *s)
{
    bh_buf_add(buf, s, strlen(s));
}

void bh_buf_addc(struct bh_buf *buf, char c)
{
    bh_buf_add(buf, &c, 1);
}

void bh_buf_addf(struct bh_buf *buf, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bh_buf_vaddf(buf, fmt, ap);
    va_end(ap);
}

void bh_buf_vaddf(struct bh_buf *buf, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    BH_ASSERT(n >= 0);
    grow(buf, (size_t)n);
    (void)vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, again);
    va_end(again);
    buf->len += (size_t)n;
}

char *bh_buf_reserve(struct bh_buf *buf, size_t n)
{
    grow(buf, n);
    memset(buf->data + buf->len, 0, n + 1);
    return buf->data + buf->len;
}

void bh_buf_consume(struct bh_buf *buf, size_t n)
{
    BH_ASSERT(n <= buf->len);
    if (!n)
        return;
    buf->len -= n;
    memmove(buf->data, buf->data + n, buf->len + 1);
}

char *bh_buf_take(struct bh_buf *buf)
{
    char *s = buf->cap ? buf->data : bh_strdup("");
    bh_buf_init(buf);
    return s;
}
