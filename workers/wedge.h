/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who took what a shared box has, so that another could not go on. Pure: from numbers to a decision, words and JSON
 * (docs/watch.md). Somebody is named as the cause where the kernel's numbers say that it took at least half of what
 * there is, and more than anybody else; else the numbers of all stand there.
 */
#pragma once

#include "workers/ledger.h"

enum bh_wedge_what { BH_WEDGE_MEMORY, BH_WEDGE_DISK, BH_WEDGE_PROCESSES, BH_WEDGE_SPIN, BH_WEDGE_PORT };

struct bh_wedge_row {
    const struct bh_stay *who;
    struct bh_box_share share;
    bool lives;         /* it ran at that moment */
    int64_t elapsed_ms; /* since it began */
};
struct bh_wedge {
    enum bh_wedge_what what;
    const char *box;
    int64_t limit;                               /* of the box: bytes, processes, thousandths of a processor; 0: none */
    struct bh_wedge_row rows[BH_LEDGER_MAX + 1]; /* the first is the one that could not go on */
    size_t n;
    size_t cause; /* index, n: nobody; filled by the judgement */
};

/* False: it was no wedge. */
bool bh_wedge_judge(struct bh_wedge *w);
/* To be put behind what happened; the caller frees both. */
char *bh_wedge_text(const struct bh_wedge *w);
char *bh_wedge_json(const struct bh_wedge *w);
