/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the values of secrets out of what an agent prints, before it is written down: the value as it is, in base64,
 * and either of them broken over lines. For accidents: an agent that wants to can always write it otherwise.
 */
#pragma once

#include "base/buf.h"

struct bh_mask;

#define BH_MASKED "***"

struct bh_mask *bh_mask_new(void);
struct bh_mask *bh_mask_ref(struct bh_mask *m);
void bh_mask_unref(struct bh_mask *m); /* the last one wipes the values; NULL is fine */
/* A value of fewer than BH_NEEDLE_MIN bytes is not looked for. Of one with lines each long one is looked for by itself
 * too. */
void bh_mask_add(struct bh_mask *m, const char *name, const char *value, size_t len);

/* One stream. Zero-initialise but for `mask`, borrowed and complete. */
struct bh_mask_stream {
    const struct bh_mask *mask;
    struct bh_buf held; /* what may be the beginning of a value; its `data` is NULL at first */
};
/* Adds to `out` what may be written down now, masked. `last`: nothing follows, nothing is held back. */
void bh_mask_push(struct bh_mask_stream *s, const char *data, size_t len, bool last, struct bh_buf *out);
void bh_mask_stream_fini(struct bh_mask_stream *s); /* wipes */

/* The name of a value that the file holds, as it is or in base64 but not broken over lines; NULL where there is none.
 * From any thread, while the mask is complete; the file's offset stays. 0, or -1 with errno. */
int bh_mask_search(const struct bh_mask *m, int fd, const char **ret_name);
/* A whole text. NULL where there is nothing to mask in it, or m is NULL; else the caller's. */
char *bh_mask_text(const struct bh_mask *m, const char *text);
