/* SPDX-License-Identifier: Apache-2.0 */
/* An intrusive doubly linked list: the link is a member of the struct, nothing is allocated. */
#pragma once

#include "base/compiler.h"

struct bh_list {
    struct bh_list *prev, *next;
};

static inline void bh_list_init(struct bh_list *l)
{
    l->prev = l->next = l;
}
static inline bool bh_list_empty(const struct bh_list *l)
{
    return l->next == l;
}
static inline void bh_list_append(struct bh_list *head, struct bh_list *item)
{
    item->prev = head->prev;
    item->next = head;
    head->prev->next = item;
    head->prev = item;
}
/* Safe on an item that is in no list, when it was initialised. */
static inline void bh_list_remove(struct bh_list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    bh_list_init(item);
}
#define BH_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
/* `it` may be removed inside the loop. */
#define BH_LIST_FOREACH(it, tmp, head) \
    for (struct bh_list *it = (head)->next, *tmp = it->next; it != (head); it = tmp, tmp = it->next)
