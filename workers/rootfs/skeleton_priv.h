/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints and copies of the host files that a skeleton is made of. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

/* FNV-1a, 64 bits: says whether something changed, defends against nobody. */
struct bh_fingerprint {
    uint64_t hash;
};
#define BH_FINGERPRINT_INIT ((struct bh_fingerprint){UINT64_C(0xcbf29ce484222325)})
void bh_fingerprint_add(struct bh_fingerprint *f, const void *data, size_t len);
/* Name, type, mode, and size and time of a file or target of a link; `deep`: of everything below a directory too. */
void bh_fingerprint_add_tree(struct bh_fingerprint *f, int dirfd, const char *name, bool deep);

#define BH_COPY_BYTES_MAX (INT64_C(64) << 20)
#define BH_COPY_FILE_MAX (INT64_C(8) << 20)
#define BH_COPY_DEPTH_MAX 16

struct bh_copy_to {
    bool chown;
    uid_t root; /* owner of the copies; the agent's is agent_offset more */
    uid_t agent_offset;
    int64_t bytes_left; /* of the whole skeleton */
};
/*
 * Copies a file, link or directory of the host. What does not exist, cannot be read by us, is too large or is neither
 * of the three is left out: a skeleton does without. -1 with errno where the copy could not be written.
 */
int bh_copy_tree(int from, const char *name, int to, const char *to_name, struct bh_copy_to *c);
int bh_copy_parents(int to, const char *path, const struct bh_copy_to *c);
