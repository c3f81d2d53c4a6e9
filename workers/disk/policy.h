/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions about the disk that boxes write to, pure: by what a box's limit is held, when it is worth looking at
 * what a box holds, when the host has too little left, and who is to be stopped then. No call in here touches a file or
 * a clock.
 */
#pragma once

#include "base/clock.h"
#include "topologies/limits.h"

/* --- by what a limit is held --- */

#define BH_DISK_MEMORY_MAX (INT64_C(256) << 20) /* the largest root that is put into memory */

struct bh_disk_host {
    bool memory; /* a tmpfs can be the upper of a box */
    bool quota;  /* the file system of the state directory has project quotas, and we may set them */
};
/* BH_BY_NOTHING where neither bytes nor inodes are limited. `disposable`: the box's folder is never kept or frozen. */
enum bh_enforcer bh_disk_means(const struct bh_limits *limits, bool disposable, const struct bh_disk_host *host);

/* --- the file system --- */

struct bh_disk_space {
    int64_t total, free;         /* bytes; free: to whoever is not root */
    int64_t inodes, free_inodes; /* inodes 0: the file system makes them as it needs them */
};

/*
 * What is kept free for the host: 2 % between 256 MiB and 2 GiB, but never more than a twentieth of the file system;
 * of inodes 2 %.
 */
int64_t bh_disk_reserve(const struct bh_disk_space *space);
int64_t bh_disk_reserve_inodes(const struct bh_disk_space *space);
bool bh_disk_is_low(const struct bh_disk_space *space);
/* It may be low a moment from now: to be looked at more often. */
bool bh_disk_is_tight(const struct bh_disk_space *space);

/* --- one box --- */

struct bh_disk_limits {
    int64_t bytes, inodes; /* 0: none */
};
struct bh_disk_usage {
    int64_t bytes, inodes; /* blocks that are taken, not sizes: holes count nothing */
    int64_t largest;       /* size of the largest file */
    int64_t hidden;        /* folders and processes that nobody could look into */
    int64_t moved;         /* folders that were elsewhere, or gone, when it was their turn: there may be more */
    bool cut;              /* there is more: the count was stopped */
};

/* NULL, or which limit is passed: "disk" or "inodes". */
const char *bh_disk_over(const struct bh_disk_usage *usage, const struct bh_disk_limits *limits);

/*
 * When a box was looked at last, and how the file system stood then. A box cannot have outgrown its limit unless the
 * file system grew by what was missing, so it is looked at when half of that has been written, by whomever; and, since
 * what others remove can hide what one writes, every now and then.
 */
struct bh_disk_pace {
    struct bh_disk_usage usage;
    struct bh_disk_space space;
    struct bh_mono ended;
    int64_t took_ns, period_ns;
};
void bh_disk_pace_begin(struct bh_disk_pace *pace, const struct bh_disk_space *space, struct bh_mono now);
bool bh_disk_pace_due(const struct bh_disk_pace *pace, const struct bh_disk_limits *limits,
                      const struct bh_disk_space *space, struct bh_mono now);
/* `space` is from before the walk. */
void bh_disk_pace_walked(struct bh_disk_pace *pace, const struct bh_disk_limits *limits,
                         const struct bh_disk_usage *usage, const struct bh_disk_space *space, struct bh_mono started,
                         struct bh_mono now);

/* --- when the host has too little left --- */

struct bh_disk_holder {
    struct bh_disk_usage usage;
    struct bh_disk_limits limits;
    int64_t written; /* by the processes that are in it now, wherever that is */
    bool running;    /* something in it can be stopped */
};
/*
 * Whom to stop, by index: every one that is over its limit has been before. Of the others the one that holds most, if
 * that is worth it and more than what nobody knows the holder of: what the file system lost since it was as in `began`,
 * less what all of them hold. Where more is unknown, the one whose processes have written most of it without its being
 * found in their box; nobody is stopped for what others have done. -1: nobody.
 */
int bh_disk_scapegoat(const struct bh_disk_holder *holders, size_t n, const struct bh_disk_space *space,
                      const struct bh_disk_space *began);
/* After somebody was stopped at `mark` bytes free: whether it has become so much worse that another must go. */
bool bh_disk_is_worse(const struct bh_disk_space *space, const struct bh_disk_space *mark);
