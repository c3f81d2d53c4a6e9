/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has ended and waits for the thread that owns all state: a list under a lock and an eventfd that is readable
 * exactly while the list is not empty. Items are members of what they stand for; nothing is allocated.
 */
#pragma once

#include <pthread.h>

#include "base/err.h"
#include "base/list.h"

struct bh_done_item {
    struct bh_list link;                    /* bh_list_init before first use */
    void (*run)(struct bh_done_item *item); /* on the owner's thread; NULL: the item is for the owner's caller */
};

struct bh_done_queue {
    pthread_mutex_t lock;
    struct bh_list items;
    int fd; /* -1 before init and after fini */
};

int bh_done_queue_init(struct bh_done_queue *q, struct bh_err **err) BH_MUST_CHECK;
void bh_done_queue_fini(struct bh_done_queue *q); /* no thread may push any more; what is in it is forgotten */
void bh_done_queue_push(struct bh_done_queue *q, struct bh_done_item *item);   /* any thread */
void bh_done_queue_remove(struct bh_done_queue *q, struct bh_done_item *item); /* fine where it is not in it */
/* Runs items in order until one comes that has no `run`, and gives that one; NULL where none is left. */
struct bh_done_item *bh_done_queue_next(struct bh_done_queue *q);
