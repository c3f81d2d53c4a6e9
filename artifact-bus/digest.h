/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256: the identity of content. The only user of the crypto library. */
#pragma once

#include "base/err.h"

#define BH_DIGEST_TEXT 72 /* "sha256:" + 64 hex + NUL */
struct bh_digest {
    unsigned char b[32];
};

struct bh_digest bh_digest_of(const void *data, size_t len);
/* Incremental: zero-initialise nothing, new/free by hand. */
struct bh_hasher;
struct bh_hasher *bh_hasher_new(void);
void bh_hasher_add(struct bh_hasher *h, const void *data, size_t len);
struct bh_digest bh_hasher_end(struct bh_hasher *h); /* the hasher starts anew */
void bh_hasher_free(struct bh_hasher *h);
/* From the current offset to the end of the file; ret_size may be NULL. */
int bh_digest_fd(int fd, struct bh_digest *ret, int64_t *ret_size, struct bh_err **err) BH_MUST_CHECK;

char *bh_digest_format(const struct bh_digest *d, char buf[static BH_DIGEST_TEXT]); /* "sha256:…" */
int bh_digest_parse(const char *text, struct bh_digest *ret) BH_MUST_CHECK;         /* -BH_E_BAD_VALUE, no message */
bool bh_digest_equal(const struct bh_digest *a, const struct bh_digest *b);
