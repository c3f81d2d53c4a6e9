/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue between library threads and the loop. The eventfd is written when the list becomes non-empty and read when
 * it becomes empty, both under the lock, so it is never out of step with the list: whoever takes only some of the items
 * and goes back to the loop is woken again, and nobody is woken for nothing.
 */
#include "artifact-bus/done_queue_priv.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "base/fd.h"

int bh_done_queue_init(struct bh_done_queue *q, struct bh_err **err)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot make an eventfd for the bus");
    BH_ASSERT(pthread_mutex_init(&q->lock, NULL) == 0);
    bh_list_init(&q->items);
    q->fd = fd;
    return 0;
}

void bh_done_queue_fini(struct bh_done_queue *q)
{
    if (q->fd < 0)
        return;
    bh_close(BH_TAKE_FD(q->fd));
    pthread_mutex_destroy(&q->lock);
}

void bh_done_queue_push(struct bh_done_queue *q, struct bh_done_item *item)
{
    uint64_t one = 1;
    pthread_mutex_lock(&q->lock);
    bool first = bh_list_empty(&q->items);
    bh_list_append(&q->items, &item->link);
    if (first)
        BH_ASSERT(write(q->fd, &one, sizeof(one)) == sizeof(one));
    pthread_mutex_unlock(&q->lock);
}

static void unlink_item(struct bh_done_queue *q, struct bh_list *link)
{
    uint64_t count;
    bh_list_remove(link);
    if (bh_list_empty(&q->items))
        BH_ASSERT(read(q->fd, &count, sizeof(count)) == sizeof(count));
}

void bh_done_queue_remove(struct bh_done_queue *q, struct bh_done_item *item)
{
    pthread_mutex_lock(&q->lock);
    if (!bh_list_empty(&item->link)) /* a link in no list points to itself */
        unlink_item(q, &item->link);
    pthread_mutex_unlock(&q->lock);
}

static struct bh_done_item *pop(struct bh_done_queue *q)
{
    struct bh_done_item *item = NULL;
    pthread_mutex_lock(&q->lock);
    if (!bh_list_empty(&q->items)) {
        item = BH_CONTAINER(q->items.next, struct bh_done_item, link);
        unlink_item(q, &item->link);
    }
    pthread_mutex_unlock(&q->lock);
    return item;
}

struct bh_done_item *bh_done_queue_next(struct bh_done_queue *q)
{
    for (;;) {
        struct bh_done_item *item = pop(q);
        if (!item || !item->run)
            return item;
        item->run(item); /* which may free the item */
    }
}
