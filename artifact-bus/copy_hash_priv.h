/* SPDX-License-Identifier: Apache-2.0 */
/* Copies one file into another in the kernel, and hashes the copy behind the writer in a second thread. */
#pragma once

#include "artifact-bus/digest.h"

struct bh_copied {
    struct bh_digest digest; /* of what lies in `dst` */
    int64_t size;
    bool more; /* the source goes on behind `limit` */
};

/*
 * From offset 0 of `src` to the empty file `dst` (open for reading and writing), until the end of the source or `limit`
 * bytes. Neither's offset counts. `expected` is how long the source was said to be (0: unknown): where the kernel says
 * "end" before that, it is asked again by a plain read. Blocks; all threads it starts have ended when it returns.
 */
int bh_copy_hash(int src, int dst, int64_t expected, int64_t limit, struct bh_copied *ret,
                 struct bh_err **err) BH_MUST_CHECK;
/* The copy alone, to the end of the source. */
int bh_copy_file(int src, int dst, int64_t expected, struct bh_err **err) BH_MUST_CHECK;
