/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ready queue: one heap per box and one heap over the first node of every box. The upper heap is cleaned lazily: an
 * entry counts only while its node is the first of a box that is not held, so that holding a box, or a better node
 * arriving in it, costs nothing. Each node is in the upper heap at most once, so the room never grows.
 */
#include "scheduler/core/ready_priv.h"

#include "base/mem.h"

static void swap(size_t *a, size_t *b)
{
    size_t t = *a;
    *a = *b;
    *b = t;
}

static void heap_push(struct bh_heap *h, size_t item)
{
    size_t i = h->len++;
    h->items[i] = item;
    while (i > 0 && h->items[i] < h->items[(i - 1) / 2]) {
        swap(&h->items[i], &h->items[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static size_t heap_pop(struct bh_heap *h)
{
    size_t first = h->items[0], i = 0;
    h->items[0] = h->items[--h->len];
    for (;;) {
        size_t least = i, l = 2 * i + 1;
        for (size_t c = l; c < h->len && c <= l + 1; c++) {
            if (h->items[c] < h->items[least])
                least = c;
        }
        if (least == i)
            return first;
        swap(&h->items[i], &h->items[least]);
        i = least;
    }
}

void bh_ready_init(struct bh_ready *r, const struct bh_spec *spec)
{
    *r = (struct bh_ready){.spec = spec};
    r->boxes = bh_calloc(spec->n_boxes, sizeof(*r->boxes));
    r->room = bh_calloc(spec->n_nodes, sizeof(*r->room));
    r->tops.items = bh_calloc(spec->n_nodes, sizeof(*r->tops.items));
    r->in_tops = bh_calloc(spec->n_nodes, sizeof(*r->in_tops));
    for (size_t i = 0; i < spec->n_nodes; i++)
        r->boxes[spec->nodes[i].box].nodes.len++;
    size_t at = 0;
    for (size_t b = 0; b < spec->n_boxes; b++) {
        size_t most = r->boxes[b].nodes.len;
        r->boxes[b].nodes = (struct bh_heap){.items = r->room + at};
        at += most;
    }
}

void bh_ready_fini(struct bh_ready *r)
{
    bh_free(r->boxes);
    bh_free(r->room);
    bh_free(r->tops.items);
    bh_free(r->in_tops);
    *r = (struct bh_ready){0};
}

/* Makes sure that the upper heap knows the first node of the box. */
static void show_top(struct bh_ready *r, size_t box)
{
    const struct bh_ready_box *b = &r->boxes[box];
    if (b->held || b->nodes.len == 0 || r->in_tops[b->nodes.items[0]])
        return;
    r->in_tops[b->nodes.items[0]] = true;
    heap_push(&r->tops, b->nodes.items[0]);
}

void bh_ready_add(struct bh_ready *r, size_t node)
{
    size_t box = r->spec->nodes[node].box;
    heap_push(&r->boxes[box].nodes, node);
    show_top(r, box);
}

size_t bh_ready_first(struct bh_ready *r)
{
    while (r->tops.len > 0) {
        size_t node = r->tops.items[0];
        const struct bh_ready_box *b = &r->boxes[r->spec->nodes[node].box];
        if (!b->held && b->nodes.len > 0 && b->nodes.items[0] == node)
            return node;
        r->in_tops[heap_pop(&r->tops)] = false;
    }
    return SIZE_MAX;
}

void bh_ready_take(struct bh_ready *r, size_t node)
{
    size_t box = r->spec->nodes[node].box;
    BH_ASSERT(r->tops.len > 0 && r->tops.items[0] == node);
    r->in_tops[heap_pop(&r->tops)] = false;
    (void)heap_pop(&r->boxes[box].nodes);
    show_top(r, box);
}

void bh_ready_drop(struct bh_ready *r, size_t node)
{
    struct bh_heap *h = &r->boxes[r->spec->nodes[node].box].nodes;
    BH_ASSERT(h->len == 1 && h->items[0] == node);
    h->len = 0; /* what the upper heap has of it is cleaned when it comes up */
}

void bh_ready_clear(struct bh_ready *r)
{
    for (size_t b = 0; b < r->spec->n_boxes; b++)
        r->boxes[b].nodes.len = 0;
    while (r->tops.len > 0)
        r->in_tops[r->tops.items[--r->tops.len]] = false;
}

void bh_ready_hold(struct bh_ready *r, size_t box, enum bh_hold why)
{
    r->boxes[box].held |= (unsigned)why;
}

void bh_ready_release(struct bh_ready *r, size_t box, enum bh_hold why)
{
    r->boxes[box].held &= ~(unsigned)why;
    show_top(r, box);
}
