/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer. `data` is never NULL after bh_buf_init and always ends with a NUL behind `len`. */
#pragma once

#include <stdarg.h>

#include "base/compiler.h"

struct bh_buf {
    char *data;
    size_t len, cap;
};

#define BH_BUF_INIT ((struct bh_buf){.data = bh_buf_empty})
extern char bh_buf_empty[1];

void bh_buf_init(struct bh_buf *buf);
void bh_buf_fini(struct bh_buf *buf); /* leaves an empty, usable buffer */
void bh_buf_wipe(struct bh_buf *buf); /* the same, and of what was in it nothing stays in memory */
void bh_buf_clear(struct bh_buf *buf);
void bh_buf_add(struct bh_buf *buf, const void *data, size_t len);
void bh_buf_adds(struct bh_buf *buf, const char *s);
void bh_buf_addc(struct bh_buf *buf, char c);
void bh_buf_addf(struct bh_buf *buf, const char *fmt, ...) BH_PRINTF(2, 3);
void bh_buf_vaddf(struct bh_buf *buf, const char *fmt, va_list ap) BH_PRINTF(2, 0);
/* Makes room for `n` more bytes, zeroes it and gives a pointer to it; the caller then raises len by what was used. */
char *bh_buf_reserve(struct bh_buf *buf, size_t n);
void bh_buf_consume(struct bh_buf *buf, size_t n); /* drops the first n bytes */
char *bh_buf_take(struct bh_buf *buf);             /* the caller owns the string; the buffer is empty again */

#define BH_CLEANUP_BUF BH_CLEANUP(bh_buf_fini)
