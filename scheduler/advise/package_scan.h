/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which packages lie in what a box wrote (a frozen layer, the upper of a kept box): npm by node_modules/NAME/
 * package.json, Python by NAME-VERSION.dist-info. What lies there was written by agents: nothing of it is followed out
 * of the tree, and the look ends after a bounded number of entries. Blocks on the disk.
 */
#pragma once

#include "base/compiler.h"

struct bh_package {
    const char *kind; /* "npm", "pip" */
    char *place;      /* as the box sees it: "/workspace/node_modules" */
    char *name;
    char *version; /* NULL: taken away (a whiteout) */
};
struct bh_packages {
    struct bh_package *items;
    size_t len, cap;
};

enum { BH_PACKAGES_MAX_ENTRIES = 50000, BH_PACKAGES_MAX_DEPTH = 12 };

/* Appends what is below `dir`, a folder with any of root, usr, opt; what cannot be read is passed over. */
void bh_packages_scan(int dirfd, const char *dir, struct bh_packages *ret);
void bh_packages_fini(struct bh_packages *list);
