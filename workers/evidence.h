/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found out about a shared box, in words and as JSON (docs/watch.md). Pure. Names in it are those of agents,
 * boxes and artifacts, which the document's grammar bounds.
 */
#pragma once

#include "workers/collect.h"
#include "workers/ledger.h"

enum bh_collision_how {
    BH_COLLISION_NONE,
    BH_COLLISION_AFTER_END,    /* changed between the end of its agent and its collection */
    BH_COLLISION_WHILE_COPIED, /* changed while it was collected */
    BH_COLLISION_HELD,         /* somebody who lives has it open for writing */
    BH_COLLISION_VANISHED,     /* was there at the end, and is not any more */
    BH_COLLISION_TWO_WRITERS,  /* another wrote to it while its agent ran */
};

struct bh_collision_writer {
    const struct bh_stay *who;
    struct bh_wall at; /* us 0: it has it open */
};
struct bh_collision {
    enum bh_collision_how how;
    const struct bh_collect_item *item;
    const char *box;
    const struct bh_stay *owner;
    const struct bh_stay *beside[BH_LEDGER_MAX]; /* who was there meanwhile */
    size_t n_beside;
    struct bh_collision_writer writers[BH_LEDGER_MAX]; /* as the kernel tells; none: it does not */
    size_t n_writers;
};

/* The caller frees both. */
char *bh_collision_text(const struct bh_collision *c);
char *bh_collision_json(const struct bh_collision *c);
