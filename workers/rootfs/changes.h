/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between two stacks of layers, as the boxes on them would see it: a box and what it started from, or two
 * boxes. Only what the layers of interest ("own") hold is looked at; what both share below costs nothing, however large
 * it is.
 *
 * The layers may have been written by hostile agents: no symlink is followed, nothing that could block is opened, and
 * names are handed out as they are. What bulkhead itself puts into a box to mount on is left out.
 */
#pragma once

#include <sys/stat.h>

#include "base/err.h"

struct bh_view;
struct bh_view *bh_view_new(void);
void bh_view_free(struct bh_view *v); /* NULL is fine */
/*
 * The next lower layer: a folder with any of root/, usr/, opt/, below `dirfd`. 0, or -1 with errno (ENOENT: no such
 * folder). `own`: its entries are what the walk is about.
 */
int bh_view_add(struct bh_view *v, int dirfd, const char *path, bool own);
/* The same for one tree alone, by its own path: the base `host`. `tree`: "root", "usr" or "opt". */
int bh_view_add_tree(struct bh_view *v, const char *tree, int dirfd, const char *path);

enum bh_change_kind { BH_CHANGE_ADDED, BH_CHANGE_CHANGED, BH_CHANGE_REMOVED };
struct bh_change_side {
    bool there;
    struct stat st;
    int dir;          /* its folder, to open it in; valid inside the callback */
    const char *name; /* in that folder */
};
struct bh_change {
    enum bh_change_kind kind;
    const char *path; /* absolute, as the box has it; a directory that stands for all in it ends in '/' */
    struct bh_change_side before, after;
    bool unread; /* a directory too deep below others: nothing in it has been looked at */
};
/* Non-zero ends the walk, which returns it. */
typedef int bh_change_fn(void *arg, const struct bh_change *change);

/* In the order of paths, byte by byte within a folder. Error: IO. */
int bh_changes_walk(const struct bh_view *before, const struct bh_view *after, bh_change_fn *fn, void *arg,
                    struct bh_err **err) BH_MUST_CHECK;

/* A regular file of one side, for reading; -1 with errno. */
int bh_change_open(const struct bh_change_side *side);
/* The target of a symlink; NULL with errno. The caller owns it. */
char *bh_change_link(const struct bh_change_side *side);
