/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what a tree holds that somebody hostile is writing at this moment: every directory is opened beneath the one
 * above it and through no symlink, nothing but directories is opened, depth is data and not stack, and each inode
 * counts once, whatever names it has or gets while we look. Blocks; may run on a helper thread.
 */
#pragma once

#include <stdatomic.h>

#include "workers/disk/policy.h"

/* Where to stop: the count is then `cut`. 0: nowhere. */
struct bh_disk_bounds {
    int64_t bytes, inodes;       /* as soon as there is more */
    int64_t entries;             /* names that are looked at */
    const atomic_bool *given_up; /* NULL, or set by whoever does not want to know any more */
};

/* Inodes that were seen. Zero-initialise. */
struct bh_disk_seen {
    uint64_t *slots;
    size_t len, cap;
};
bool bh_disk_seen_add(struct bh_disk_seen *seen, uint64_t inode); /* false: it was there */
void bh_disk_seen_fini(struct bh_disk_seen *seen);

/* Adds what lies below `dirfd` (which must be readable) to *usage, the directory itself left out. */
void bh_disk_count(int dirfd, const struct bh_disk_bounds *bounds, struct bh_disk_usage *usage);
/*
 * The same from nothing, in a child of this process, for an ordinary user to whom some folders were closed. -1 where
 * that cannot be had (or we are root, and nothing was closed).
 */
int bh_disk_count_as_owner(int dirfd, const struct bh_disk_bounds *bounds, struct bh_disk_usage *usage);
