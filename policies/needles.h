/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding secrets in a stream, also across the borders of its pieces: the value as it is, and as needle_forms.h spells
 * it. A sieve holds back the end of each piece, as far as its characters are of those that secrets are made of: nothing
 * of a secret gets through before it is found. What is held back depends on the text alone, never on how a secret
 * reads; a line end, and so the end of a server-sent event, is not held back.
 *
 * The search looks at about one byte in as many as the shortest needle has (Wu-Manber, blocks of two), so that a stream
 * is not slowed by it.
 */
#pragma once

#include "base/compiler.h"

enum { BH_NEEDLE_MIN = 6 }; /* bytes; a shorter value would be found everywhere, and is not looked for */

struct bh_needles;

struct bh_needles *bh_needles_new(void);
void bh_needles_free(struct bh_needles *set); /* NULL is fine; wipes the values */
/* False where the value is too short to be looked for. `name` is what bh_sieve_push tells. */
bool bh_needles_add(struct bh_needles *set, const char *name, const void *value, size_t len);
/* Where the first one begins; `len` where there is none. *ret_name is untouched then. */
size_t bh_needles_find(const struct bh_needles *set, const void *data, size_t len, const char **ret_name);
/* The same, with the length of what was found. */
size_t bh_needles_match(const struct bh_needles *set, const void *data, size_t len, size_t *ret_len);
/*
 * How many bytes at the end may be the beginning of one. It tells of the secret: not for what somebody sees who chose
 * the data.
 */
size_t bh_needles_open_end(const struct bh_needles *set, const void *data, size_t len);
/* How many bytes at the end are of the class that is held back: at least those, and the same for all secrets of about
 * this length whose characters are of the same class. */
size_t bh_needles_run(const struct bh_needles *set, const void *data, size_t len);

/* One stream. Zero-initialise but for `set`, which is borrowed and is not added to any more; NULL looks for nothing. */
struct bh_sieve {
    const struct bh_needles *set;
    char *bytes; /* the end of what came, see bh_needles_run, and with it the next piece */
    size_t cap, held_at, n_held;
};
/*
 * Takes the next piece. *ret_pass, *ret_n: what may go on now; it lies in `data` or in the sieve and is good until the
 * next call. Returns NULL, or the name of what was found: then only what is before it may go on, and the stream is to
 * be cut. `last`: nothing follows, nothing is held back.
 */
const char *bh_sieve_push(struct bh_sieve *s, const char *data, size_t len, bool last, const char **ret_pass,
                          size_t *ret_n);
/* The same, where the `before` bytes before `data` may be written to: what was held back is put there, not copied with
 * `data` to a third place. */
const char *bh_sieve_push_behind(struct bh_sieve *s, size_t before, char *data, size_t len, const char **ret_pass,
                                 size_t *ret_n);
void bh_sieve_fini(struct bh_sieve *s); /* wipes */
