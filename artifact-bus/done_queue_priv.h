/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What library threads hand to the thread that owns all state: a list under a lock and an eventfd that is readable
 * exactly while the list is not empty. The list is intrusive; items are borrowed.
 */
#pragma once

#include <pthread.h>

#include "base/err.h"
#include "base/list.h"

struct bh_done_queue {
    pthread_mutex_t lock;
    struct bh_list items;
    int fd; /* -1 before init and after fini */
};

int bh_done_queue_init(struct bh_done_queue *q, struct bh_err **err) BH_MUST_CHECK;
void bh_done_queue_fini(struct bh_done_queue *q);                       /* no thread may push any more */
void bh_done_queue_push(struct bh_done_queue *q, struct bh_list *item); /* any thread; never blocks for long */
struct bh_list *bh_done_queue_pop(struct bh_done_queue *q);             /* the oldest, or NULL */
