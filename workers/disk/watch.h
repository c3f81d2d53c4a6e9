/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches what the boxes of one backend write, and stops those that go too far.
 *
 * While something runs, ten times a second: how much the file system of the state directory has left (half a
 * microsecond), what a root in memory or under a quota holds (the kernel knows), and whether a box that neither holds
 * is worth a walk (policy.h). Walks run on a thread of their own, so they wait for nobody's copying. A box that is
 * found over its limit is paused and counted again before it is stopped: nobody is killed for a folder that was moved
 * while it was counted.
 *
 * When the host itself has too little left, all boxes are halted and judged at once, limits or not, the one that must
 * go is stopped, and the others go on; new ones are refused.
 *
 * Everything here is called on the loop's thread, and calls back on it, never from inside a call.
 */
#pragma once

#include "base/err.h"
#include "workers/disk/policy.h"

struct event_base;
struct bh_disk_watch;
struct bh_disk_box;

/* `home` is a directory on the file system that all boxes write to. */
int bh_disk_watch_new(struct event_base *loop, const char *home, struct bh_disk_watch **ret,
                      struct bh_err **err) BH_MUST_CHECK;
void bh_disk_watch_free(struct bh_disk_watch *w); /* all its boxes are gone */

/* What this host can do, found out at the first call. */
const struct bh_disk_host *bh_disk_watch_host(struct bh_disk_watch *w);
/* -BH_E_DISK_FULL where the host has too little left for another box. */
int bh_disk_watch_room(const struct bh_disk_watch *w, struct bh_err **err) BH_MUST_CHECK;

/* The note is for people, borrowed. */
struct bh_disk_events {
    /* All processes of the box stop where they are, or go on. */
    void (*pause)(void *arg, bool on);
    /* It has passed a limit (or the host has no more): everything that runs in it is to be killed. */
    void (*full)(void *arg, const char *note);
    /* Its largest process was killed. */
    void (*out_of_memory)(void *arg, const char *note);
};
struct bh_disk_box_spec {
    const char *folder; /* boxes/KEY, absolute: upper/ lies in it */
    enum bh_enforcer by;
    struct bh_disk_limits limits;
    int64_t memory;   /* a limit that nothing else holds; 0: none */
    int init;         /* pid */
    int memory_fd;    /* BH_BY_TMPFS: something on it; taken. Else -1 */
    uint32_t project; /* BH_BY_QUOTA */
};
struct bh_disk_box *bh_disk_box_new(struct bh_disk_watch *w, const struct bh_disk_box_spec *spec,
                                    const struct bh_disk_events *events, void *arg);
void bh_disk_box_free(struct bh_disk_box *b); /* NULL is fine */

/* Something begins to run in it. */
void bh_disk_box_begin(struct bh_disk_box *b);
/*
 * It has ended: looks once more, where that is quickly done. Returns the limit ("disk", "inodes") that the box was at,
 * where the kernel keeps it, or over, where it is watched, at a moment while it ran; NULL where it was at none.
 */
const char *bh_disk_box_end(struct bh_disk_box *b);
/* What it was last seen to hold; -1: nobody has looked. */
int64_t bh_disk_box_bytes(const struct bh_disk_box *b);

/*
 * The memory of one exec of a shared box, which nothing else holds. `inside`: the number of its PID 1 in the box, as
 * the box's init has said; whatever that is, none but processes below that init are ever looked at. `over` is called
 * each time that its largest process was killed. It is weighed while something runs in a box.
 */
struct bh_disk_scale;
struct bh_disk_scale *bh_disk_scale_new(struct bh_disk_watch *w, int init, int inside, int64_t limit,
                                        void (*over)(void *arg, const char *note), void *arg);
void bh_disk_scale_free(struct bh_disk_scale *s); /* NULL is fine */
