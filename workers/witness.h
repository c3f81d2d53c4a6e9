/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution in a shared box, and what the others did to it: whether what it declared is its own when it is
 * collected, and who took what the box has when it ends badly. What is found out is words for the verdict and a JSON
 * object, the evidence (docs/watch.md).
 *
 * Facts come from the kernel (times of files, leases, fanotify, control groups, /proc) and from the ledger, never from
 * what an agent says. Where the kernel does not tell who it was, those are listed who were there.
 */
#pragma once

#include "workers/box/box.h"
#include "workers/collect.h"
#include "workers/ledger.h"
#include "workers/verdict.h"

struct bh_witness;

/* All borrowed until it is freed, which closes the stay. */
struct bh_witness *bh_witness_new(struct bh_ledger *ledger, struct bh_box *box, const struct bh_lease *lease);
void bh_witness_free(struct bh_witness *w); /* NULL is fine */

/* A command of it is about to start: the tag for its exec. What others wrote before is the state of the box. */
uint64_t bh_witness_begin(struct bh_witness *w);
/* Its last command has ended. */
void bh_witness_end(struct bh_witness *w, const struct bh_exec_result *result);

/* For struct bh_collect_spec; `ctx` is the witness. */
bool bh_witness_judge(void *ctx, const struct bh_collect_item *item, struct bh_verdict *ret);

/* The evidence of the last bad thing that was found, JSON; the caller's. NULL: none was. */
char *bh_witness_take(struct bh_witness *w);
