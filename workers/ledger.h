/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who was in a shared box, and when: from the first command of an execution to the end of its last. Kept as long as
 * somebody who was there at the same time may still have to be judged. Pure but for the clock.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "workers/box/box.h"

struct bh_stay {
    uint64_t tag; /* from 1; a later one is greater */
    char *agent, *instance;
    int attempt, try_;
    struct bh_wall began, ended; /* ended.us 0: it runs */
    struct bh_mono began_mono, ended_mono;
    bool closed;               /* nobody asks about it any more */
    struct bh_box_share share; /* what it took, once it has ended */
    int64_t max_rss_bytes;
};

struct bh_ledger;
struct bh_ledger *bh_ledger_new(void);
void bh_ledger_free(struct bh_ledger *l); /* NULL is fine */

uint64_t bh_ledger_begin(struct bh_ledger *l, const struct bh_lease *lease);
void bh_ledger_end(struct bh_ledger *l, uint64_t tag, struct bh_wall ended, const struct bh_exec_result *result);
/* Ends it where it has not ended; it may be dropped from now on. */
void bh_ledger_close(struct bh_ledger *l, uint64_t tag);
const struct bh_stay *bh_ledger_find(const struct bh_ledger *l, uint64_t tag); /* NULL: not known (any more) */

/* The others that were there at some time since `since`, oldest first. */
#define BH_LEDGER_MAX 32 /* that are named; of more the last ones */
size_t bh_ledger_beside(const struct bh_ledger *l, uint64_t tag, struct bh_mono since,
                        const struct bh_stay *ret[static BH_LEDGER_MAX]);
