/* SPDX-License-Identifier: Apache-2.0 */
/* The two lists that a step leaves behind: its effects, and what it changed (each index once, in order of change). */
#include "scheduler/core/engine_priv.h"

struct bh_effect *bh_effects_add(struct bh_effects *fx, enum bh_effect_kind kind)
{
    struct bh_effect *f = BH_PUSH(fx->items, fx->len, fx->cap);
    f->kind = kind;
    return f;
}

void bh_effects_fini(struct bh_effects *e)
{
    bh_free(e->items);
    *e = (struct bh_effects){0};
}

static void changed(struct bh_engine *e, struct bh_index_list *list, uint64_t *mark, size_t index)
{
    if (*mark == e->step)
        return;
    *mark = e->step;
    *BH_PUSH(list->items, list->len, list->cap) = index;
}

void bh_changed_node(struct bh_engine *e, size_t node)
{
    changed(e, &e->changed_nodes, &e->nodes[node].changed, node);
}

void bh_changed_attempt(struct bh_engine *e, size_t attempt)
{
    changed(e, &e->changed_attempts, &e->attempts[attempt].changed, attempt);
}

void bh_changed_box(struct bh_engine *e, size_t box)
{
    changed(e, &e->changed_boxes, &e->boxes[box].changed, box);
}

void bh_changes_clear(struct bh_engine *e)
{
    e->step++;
    e->changed_nodes.len = e->changed_attempts.len = e->changed_boxes.len = 0;
    e->changed_run = false;
}

struct bh_changes bh_engine_changes(const struct bh_engine *e)
{
    return (struct bh_changes){.nodes = e->changed_nodes.items,
                               .n_nodes = e->changed_nodes.len,
                               .attempts = e->changed_attempts.items,
                               .n_attempts = e->changed_attempts.len,
                               .boxes = e->changed_boxes.items,
                               .n_boxes = e->changed_boxes.len,
                               .run = e->changed_run};
}
