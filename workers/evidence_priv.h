/* SPDX-License-Identifier: Apache-2.0 */
/* What both kinds of evidence say in the same way. */
#pragma once

#include "base/buf.h"
#include "base/val.h"
#include "workers/ledger.h"

void bh_evidence_set_time(struct bh_val *v, const char *key, struct bh_wall at); /* us 0: null */
struct bh_val *bh_evidence_stay(const struct bh_stay *s);
char *bh_evidence_json(const struct bh_val *v);
/* The i-th of n: "agent 'b' (attempt 1)", of a later try "(attempt 1, try 2)", with what stands between them. */
void bh_evidence_add_who(struct bh_buf *out, const struct bh_stay *s, size_t i, size_t n);
