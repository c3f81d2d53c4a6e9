/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of the host as the base of boxes: walked by descriptors, never through a symlink and never onto another
 * file system, and sent as a stream that bulkhead-unpack reads. Its key is a hash over the names, kinds, modes, owners,
 * sizes, times (to the nanosecond) and link targets of all that it holds: a tree that looks as it did is not copied
 * again, so whoever changes a file and sets its size and times back is not noticed.
 */
#pragma once

#include "artifact-bus/digest.h"

#define BH_TREE_MAGIC "bulkhead tree 1"

/* The stream: the magic with its NUL, then for each entry a head, path, link and content; a head of END ends it. */
enum bh_tree_type { BH_TREE_END, BH_TREE_FILE, BH_TREE_DIR, BH_TREE_SYMLINK, BH_TREE_HARDLINK, BH_TREE_FIFO };
struct bh_tree_head {
    uint32_t type, mode, uid, gid;
    int64_t size, sec;
    int32_t nsec;
    uint32_t path_len, link_len; /* without a NUL */
    uint32_t zero;
};

#define BH_TREE_MAX_ENTRIES 1000000

/* What is sent goes to `send` in pieces; -1: stop. NULL: only the key is wanted. */
typedef int bh_tree_send_fn(void *arg, const void *data, size_t len);

/* BAD_VALUE and the like name what is in the way; `shown` is the directory's name for messages. */
int bh_tree_read(int dirfd, const char *shown, bh_tree_send_fn *send, void *arg, struct bh_digest *ret_key,
                 struct bh_err **err) BH_MUST_CHECK;
