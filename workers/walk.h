/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a folder that an agent wrote, from outside its box: every opening goes beneath the descriptor and through no
 * symlink, nothing but folders is opened at all, and the numbers are bounded. May run on the helper thread.
 */
#pragma once

#include <sys/types.h>

#include "base/compiler.h"

#define BH_WALK_MAX_ENTRIES 10000
#define BH_WALK_MAX_DEPTH 64

struct bh_walk_entry {
    char *name;  /* relative to the root; any bytes but NUL */
    mode_t type; /* S_IFMT bits */
};
struct bh_walk { /* zero-initialise; owns its names */
    struct bh_walk_entry *entries;
    size_t len, cap;
    bool withheld; /* set by the caller: the names are a tainted agent's, and stay out of messages */
    bool overflow; /* there was more than the bounds allow; the entries are the first ones */
    int error;     /* errno of a folder that could not be read, 0: none */
    char *error_at;
};

/* All below `dirfd` (O_PATH is enough), sorted by name. */
void bh_walk_folder(int dirfd, struct bh_walk *ret);
void bh_walk_fini(struct bh_walk *w);
