/* SPDX-License-Identifier: Apache-2.0 */
/* Text that people and attackers write: UTF-8 checks, escaping for terminals, nearest names, globs. */
#pragma once

#include "base/compiler.h"

struct bh_buf;

/* Strict UTF-8 (no surrogates, no overlong forms, at most U+10FFFF). Returns the offset of the first bad byte, or
 * `len`. */
size_t bh_utf8_check(const void *data, size_t len);
/*
 * Appends `data` so that it cannot steer a terminal: C0 (but not tab), DEL, C1, U+2028/9, bidi controls and bytes that
 * are not UTF-8 become \xNN or \u{NNNN}. Newlines are escaped too: a caller who prints lines splits first.
 */
void bh_escape_terminal(struct bh_buf *out, const void *data, size_t len);

/* The candidate nearest to `word` by edit distance if it is near enough to be a slip (at most a third of the length, at
 * least 1), else NULL. Case-insensitive. */
const char *bh_nearest(const char *word, const char *const *candidates, size_t n);

/*
 * Globs of artifact names: '*' stays within a segment, '**' crosses '/', '?' is one character but not '/', everything
 * else is literal. Linear in the text times the pattern, no recursion on stars.
 */
bool bh_glob_is(const char *pattern); /* has one of * ? */
bool bh_glob_match(const char *pattern, const char *text);
/* Whether some text could match both; never a false "no". */
bool bh_glob_may_intersect(const char *a, const char *b);

int bh_hex_digit(char c);                    /* 0 to 15, of either case; -1: it is none */
bool bh_streq(const char *a, const char *b); /* NULL equals only NULL */
bool bh_starts_with(const char *s, const char *prefix);
bool bh_ends_with(const char *s, const char *suffix);
