/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders of one run's boxes (of one kind: with a writable /usr or without), made ahead and used again. Making and
 * removing half a dozen directories is a quarter of what a small box costs on a quiet disk, and on one that discards
 * freed blocks at once it can be ten times the box. So a folder whose box is gone is emptied on the helper thread and
 * waits, and some are made before they are asked for; a box gets one by a rename. Folders are taken in the order in
 * which they came back.
 *
 * A folder may come back with the root that is mounted from it, lent by its box (docs/adr/0017). Where nobody has
 * written to that, both wait together for the next box of the kind; else it is let go and the folder is emptied.
 *
 * What waits has a name that begins with BH_BOX_GONE, which reclaim removes like a dead box. Two seconds after the last
 * box of the run nothing waits any more.
 */
#pragma once

#include "base/list.h"
#include "workers/box/folder.h"

struct event_base;
struct bh_helper;

#define BH_RACK_MAX 64

struct bh_rack {
    struct bh_list link; /* for its owner */
    char *run_dir;
    struct bh_box_owner owner;
    bool writable_usr;
    struct event_base *loop;
    struct bh_helper *helper;
    struct event *idle;
    struct bh_rack_place {
        char *name;
        int root;                  /* a detached mount, -1: none */
        struct bh_box_stamp stamp; /* of that */
    } waiting[BH_RACK_MAX];        /* oldest first */
    size_t n_waiting, n_ordered;
    uint64_t taken, serial;
    size_t in_use;
};

struct bh_rack *bh_rack_new(struct event_base *loop, struct bh_helper *helper, const char *run_dir,
                            const struct bh_box_owner *owner, bool writable_usr);
/* boxes/KEY for a box. EXISTS where there is one. ret_root: it is of the kind whose roots are lent, and gets one where
 * one waits (else -1), with its stamp; NULL: it is not. */
int bh_rack_take(struct bh_rack *r, const char *key, int *ret_root, struct bh_box_stamp *ret_stamp,
                 struct bh_err **err) BH_MUST_CHECK;
/* The folder of a dead box, which is to go: it has another name when this returns, and takes the root (-1: none),
 * whose stamp was taken before anybody was in it. -1 with errno: it is still there, and so is the root. */
int bh_rack_put(struct bh_rack *r, const char *key, int root, const struct bh_box_stamp *stamp);
/* The folder was kept or has become a layer. */
void bh_rack_forget(struct bh_rack *r);
/* Removes what waits; blocks. The helper is gone by then. */
void bh_rack_free(struct bh_rack *r);
