/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch, inside. watch.c: the tick, and the host's reserve; watch_box.c: one box and its walks; scale.c: the memory
 * of a box or of an exec.
 */
#pragma once

#include "base/list.h"
#include "workers/disk/count.h"
#include "workers/disk/watch.h"
#include "workers/helper.h"

struct event;

/*
 *   PLENTY --low--> JUDGING --everybody was looked at--> JUDGED --worse--> JUDGING
 *      ^---------------+----------------------------------+    by enough being free again
 */
enum reserve_state { PLENTY, JUDGING, JUDGED };

struct bh_disk_watch {
    struct event_base *loop;
    int home; /* descriptor, for its file system */
    char *path;
    struct event *tick;
    bool hurried; /* the tick is the short one */
    unsigned ticks;
    bool knows_host;
    struct bh_disk_host host;
    struct bh_helper *walker, *weigher; /* made when they are needed */
    struct bh_list boxes, scales;       /* scales: of execs */
    size_t running;
    enum reserve_state reserve;
    struct bh_disk_space mark;  /* JUDGED: how it stood then */
    bool stopped_some;          /* since JUDGING began */
    struct bh_disk_space began; /* how it stood before the first of the boxes */
};

struct bh_disk_box {
    struct bh_list link;
    struct bh_disk_watch *watch;
    char *folder;
    enum bh_enforcer by;
    struct bh_disk_limits limits;
    int init, memory_fd;
    struct bh_disk_scale *scale; /* NULL: its memory is not watched */
    uint32_t project;
    const struct bh_disk_events *events;
    void *arg;

    size_t running;
    bool known;                /* somebody has looked */
    const char *met;           /* "disk" or "inodes": was at that limit while something ran; NULL: at none */
    bool paused;               /* to be counted again */
    bool halted;               /* until it is judged who has to go */
    bool must;                 /* be looked at at the next tick */
    bool unjudged;             /* the host waits for its count */
    int64_t written;           /* by its processes, as of the last walk */
    struct bh_disk_usage base; /* QUOTA, TMPFS: what the empty box held */
    struct bh_disk_pace pace;
    struct bh_job *walk;
    atomic_bool *given_up; /* of the walk that runs */
};

/* watch.c */
#define BH_DISK_TICK_US 100000
#define BH_DISK_HURRIED_US 20000
void bh_disk_space_read(const struct bh_disk_watch *w, struct bh_disk_space *ret);
bool bh_disk_is_in_memory(const struct bh_disk_watch *w);
/* A helper thread, made when it is first asked for; NULL where none can be had. */
struct bh_helper *bh_disk_watch_helper(struct bh_disk_watch *w, struct bh_helper **which);

/* watch_box.c */
void bh_disk_box_tick(struct bh_disk_box *b, const struct bh_disk_space *space);
void bh_disk_box_walk(struct bh_disk_box *b);
/* Kills what runs in it, for this reason. */
void bh_disk_box_stop(struct bh_disk_box *b, const char *note);

/* scale.c */
/* `inside` 0: of everything below init. In no list. */
struct bh_disk_scale *bh_disk_scale_make(struct bh_disk_watch *w, int init, int inside, int64_t limit,
                                         void (*over)(void *arg, const char *note), void *arg);
void bh_disk_scale_weigh(struct bh_disk_scale *s); /* NULL is fine */
void bh_disk_scales_weigh(struct bh_disk_watch *w);
