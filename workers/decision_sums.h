/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions of one execution that are too many for a line each, summed by what they have in common. What was let
 * through is always named: the first of its kind is the caller's to note, the others are in a sum. Of denials, whose
 * names a box invents, a bounded number is named.
 */
#pragma once

#include "policies/audit.h"

struct bh_decision_sums;

struct bh_decision_sums *bh_decision_sums_new(void);
void bh_decision_sums_free(struct bh_decision_sums *s); /* NULL is fine; what was not taken is lost */

/* A sum goes to `arg`, who owns `fields`. */
typedef void bh_decision_sum_fn(void *arg, enum bh_audit_kind kind, struct bh_val *fields);

/*
 * Counts one more. `fields` are those that it has in common with others, and are taken; `msg` has its bytes and tokens,
 * or its `times`, where it tells of many at once.
 * True: it is the first of those and needs a line of its own. Sums that have no room any more are given to `fn`.
 */
bool bh_decision_sums_add(struct bh_decision_sums *s, enum bh_audit_kind kind, struct bh_val *fields,
                          const struct bh_val *msg, bool denied, bh_decision_sum_fn *fn, void *arg);
/* All that there are, which then are none. */
void bh_decision_sums_take(struct bh_decision_sums *s, bh_decision_sum_fn *fn, void *arg);
