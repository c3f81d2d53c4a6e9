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

/* Its time is over, and it is about to be told so: what each has taken is noted as it is now. */
void bh_witness_late(void *arg);
struct bh_witness_end {
    const struct bh_command_end *end;
    const struct bh_limits *own, *of_box; /* own: within those of the box */
    const char *log;                      /* path of what it has printed */
};
/*
 * Its run has ended badly, after bh_witness_end: where something that all share was taken by others, the verdict's
 * detail is added to.
 */
void bh_witness_blame(struct bh_witness *w, const struct bh_witness_end *how, struct bh_verdict *verdict);

/* The evidence of the last bad thing that was found, JSON; the caller's. NULL: none was. */
char *bh_witness_take(struct bh_witness *w);
