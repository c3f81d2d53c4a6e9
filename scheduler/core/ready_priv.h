/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes that could be leased now, lowest index (order of the document) first, with boxes that can be held back as a
 * whole. Every operation costs the logarithm of what is queued, whatever is held.
 */
#pragma once

#include "scheduler/core/spec.h"

struct bh_heap { /* a binary heap of indices, smallest first; the room for all there can be is given once */
    size_t *items;
    size_t len;
};

struct bh_ready_box {
    struct bh_heap nodes; /* ready nodes of this box */
    unsigned held;        /* bits of enum bh_hold */
};

enum bh_hold { BH_HOLD_FREEZE = 1, BH_HOLD_SLOT = 2, BH_HOLD_SETUP = 4 };

struct bh_ready {
    const struct bh_spec *spec;
    struct bh_ready_box *boxes;
    size_t *room;        /* behind the heaps of the boxes */
    struct bh_heap tops; /* the first node of every box that is not held, perhaps also nodes that no longer are that */
    bool *in_tops;       /* by node */
};

void bh_ready_init(struct bh_ready *r, const struct bh_spec *spec);
void bh_ready_fini(struct bh_ready *r);
/* `node` must not be in it. */
void bh_ready_add(struct bh_ready *r, size_t node);
/* The first that is not held, or SIZE_MAX. */
size_t bh_ready_first(struct bh_ready *r);
/* Takes out what bh_ready_first has just given. */
void bh_ready_take(struct bh_ready *r, size_t node);
/* Takes out a node that is in it; nobody else may be ready in its box. */
void bh_ready_drop(struct bh_ready *r, size_t node);
/* Forgets all nodes; what is held stays held. */
void bh_ready_clear(struct bh_ready *r);
void bh_ready_hold(struct bh_ready *r, size_t box, enum bh_hold why);
void bh_ready_release(struct bh_ready *r, size_t box, enum bh_hold why);
