/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared boxes: where each lives and when it is frozen. Boxes of one agent are never frozen; of them only the number of
 * those who run in it is kept.
 *
 *             bh_box_succeeded          bh_boxes_stage_ended         bh_boxes_freeze_due
 *      clean ─────────────────► dirty ─────────────────────► due ─────────────────────► freezing
 *        ▲ ▲                      │                           │ ▲                        │  │
 *        │ └─ bh_boxes_worker_lost┴───────────────────────────┘ └ bh_boxes_forget_workers┘  │
 *        └───────────────────── bh_box_frozen, bh_box_freeze_failed, bh_boxes_worker_lost ──┘
 *
 *   clean      nobody has succeeded in it since its newest layer
 *   dirty      somebody has; in a document without stages it is due at once
 *   due        to be frozen as soon as nobody runs in it and a worker is there
 *   freezing   nobody runs in it and nobody is leased into it; `pending` is the name of the layer asked for
 * A shared box lives on one worker at a time (`home`): executions in it go there while that worker is up.
 */
#include <stdio.h>
#include <string.h>

#include "scheduler/core/engine_priv.h"

static void set_mode(struct bh_engine *e, size_t box, enum bh_box_mode to)
{
    struct bh_engine_box *b = &e->boxes[box];
    BH_ASSERT(bh_box_may_move(b->mode, to));
    BH_ASSERT(to != BH_BOX_FREEZING || b->running == 0);
    if (b->mode == BH_BOX_FREEZING) {
        e->n_freezing--;
        bh_ready_release(&e->ready, box, BH_HOLD_FREEZE);
    }
    bh_list_remove(&b->link);
    b->mode = to;
    if (to == BH_BOX_FREEZING) {
        e->n_freezing++;
        bh_ready_hold(&e->ready, box, BH_HOLD_FREEZE);
    } else if (to != BH_BOX_CLEAN) {
        bh_list_append(to == BH_BOX_DUE ? &e->due : &e->dirty, &b->link);
    }
    b->pub.freezing = to == BH_BOX_FREEZING;
    b->pub.dirty = to != BH_BOX_CLEAN;
    bh_changed_box(e, box);
}

void bh_boxes_init(struct bh_engine *e)
{
    bh_list_init(&e->dirty);
    bh_list_init(&e->due);
    bh_list_init(&e->slot_waiters);
    e->boxes = bh_calloc(e->spec->n_boxes, sizeof(*e->boxes));
    for (size_t b = 0; b < e->spec->n_boxes; b++) {
        bh_list_init(&e->boxes[b].link);
        bh_list_init(&e->boxes[b].wait);
        e->boxes[b].home = -1;
    }
}

void bh_boxes_fini(struct bh_engine *e)
{
    bh_free(e->boxes);
}

static size_t index_of(const struct bh_engine *e, const struct bh_engine_box *b)
{
    return (size_t)(b - e->boxes);
}

void bh_box_enter(struct bh_engine *e, size_t box, int worker)
{
    e->boxes[box].running++;
    if (e->spec->boxes[box].shared)
        e->boxes[box].home = worker;
}

void bh_box_leave(struct bh_engine *e, size_t box)
{
    e->boxes[box].running--;
}

void bh_box_succeeded(struct bh_engine *e, size_t box)
{
    if (!e->spec->boxes[box].shared)
        return;
    if (e->boxes[box].mode == BH_BOX_CLEAN)
        set_mode(e, box, BH_BOX_DIRTY);
    if (e->graph.n_stages == 0)
        bh_boxes_stage_ended(e); /* without stages every success is the end of one */
}

void bh_boxes_stage_ended(struct bh_engine *e)
{
    BH_LIST_FOREACH (it, tmp, &e->dirty)
        set_mode(e, index_of(e, BH_CONTAINER(it, struct bh_engine_box, link)), BH_BOX_DUE);
}

static int free_slots(const struct bh_engine_worker *w)
{
    return w->up ? w->slots - w->active : 0;
}

static int first_worker(const struct bh_engine *e)
{
    for (size_t w = 0; w < e->n_workers; w++) {
        if (e->workers[w].up)
            return (int)w;
    }
    return -1;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/*
 * The box's id and a number of the run: the name was never used before, so what a freeze that nobody heard the end of
 * has left on the disk is in nobody's way.
 */
static void name_layer(struct bh_engine *e, size_t box)
{
    enum { ROOM = sizeof(e->boxes[box].pending), NUMBER = 11 };
    struct bh_engine_box *b = &e->boxes[box];
    size_t n = 0;
    memset(b->pending, 0, ROOM);
    for (const char *s = e->spec->boxes[box].id; s[n] && n < ROOM - NUMBER - 1; n++)
        b->pending[n] = is_plain(s[n]) ? s[n] : '-';
    (void)snprintf(b->pending + n, ROOM - n, "-%u", ++e->n_layers);
}

void bh_boxes_freeze_due(struct bh_engine *e, struct bh_effects *fx)
{
    BH_LIST_FOREACH (it, tmp, &e->due) {
        struct bh_engine_box *b = BH_CONTAINER(it, struct bh_engine_box, link);
        int worker = b->home >= 0 ? b->home : first_worker(e);
        if (b->running > 0 || worker < 0)
            continue;
        b->home = worker;
        name_layer(e, index_of(e, b));
        set_mode(e, index_of(e, b), BH_BOX_FREEZING);
        struct bh_effect *f = bh_effects_add(fx, BH_EFFECT_FREEZE);
        f->box = index_of(e, b);
        f->worker = worker;
        memcpy(f->layer, b->pending, sizeof(f->layer));
    }
}

bool bh_box_frozen(struct bh_engine *e, size_t box, const char *layer)
{
    if (box >= e->spec->n_boxes || e->boxes[box].mode != BH_BOX_FREEZING)
        return false;
    struct bh_engine_box *b = &e->boxes[box];
    if (strncmp(layer, b->pending, sizeof(b->pending)) != 0)
        return false;
    memcpy(b->pub.layer.s, b->pending, sizeof(b->pub.layer.s));
    set_mode(e, box, BH_BOX_CLEAN);
    return true;
}

bool bh_box_freeze_failed(struct bh_engine *e, size_t box, const char *layer)
{
    if (box >= e->spec->n_boxes || e->boxes[box].mode != BH_BOX_FREEZING)
        return false;
    if (*layer && strncmp(layer, e->boxes[box].pending, sizeof(e->boxes[box].pending)) != 0)
        return false;
    set_mode(e, box, BH_BOX_CLEAN);
    return true;
}

void bh_boxes_worker_lost(struct bh_engine *e, int worker)
{
    for (size_t b = 0; b < e->spec->n_boxes; b++) {
        if (e->boxes[b].home != worker)
            continue;
        e->boxes[b].home = -1;
        if (e->boxes[b].mode != BH_BOX_CLEAN)
            set_mode(e, b, BH_BOX_CLEAN);
    }
}

/* The boxes may have outlived the engine process that is gone, so what is dirty is still to be frozen. */
void bh_boxes_forget_workers(struct bh_engine *e)
{
    for (size_t b = 0; b < e->spec->n_boxes; b++) {
        e->boxes[b].home = -1;
        if (e->boxes[b].mode == BH_BOX_FREEZING)
            set_mode(e, b, BH_BOX_DUE);
    }
}

int bh_box_pick_worker(struct bh_engine *e, size_t box)
{
    struct bh_engine_box *b = &e->boxes[box];
    int best = -1;
    if (b->home >= 0) {
        best = free_slots(&e->workers[b->home]) > 0 ? b->home : -1;
    } else {
        for (size_t w = 0; w < e->n_workers; w++) {
            if (free_slots(&e->workers[w]) > (best < 0 ? 0 : free_slots(&e->workers[best])))
                best = (int)w;
        }
    }
    if (best < 0) {
        bh_ready_hold(&e->ready, box, BH_HOLD_SLOT);
        bh_list_append(&e->slot_waiters, &b->wait);
    }
    return best;
}

void bh_boxes_slot_freed(struct bh_engine *e)
{
    BH_LIST_FOREACH (it, tmp, &e->slot_waiters) {
        bh_list_remove(it);
        bh_ready_release(&e->ready, index_of(e, BH_CONTAINER(it, struct bh_engine_box, wait)), BH_HOLD_SLOT);
    }
}

const struct bh_box_state *bh_engine_box(const struct bh_engine *e, size_t box)
{
    BH_ASSERT(box < e->spec->n_boxes);
    return &e->boxes[box].pub;
}
