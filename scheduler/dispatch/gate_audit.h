/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a verdict at a gate looks like, in the record of the run and in the audit log: the same whether the process that
 * drives the run writes it or the verb by which a person decided.
 */
#pragma once

#include "base/val.h"
#include "scheduler/dispatch/decision.h"

/* The question with who answered it, when and why; the caller owns it. */
struct bh_val *bh_gate_verdict(const struct bh_val *question, const struct bh_decision *d);

/* One line, on the disk when it returns. `verdict`: "approve", "reject", "expired"; what else is known is in `facts`.
 */
int bh_gate_audit(const struct bh_home *home, const char *run, const char *verdict, const struct bh_val *facts,
                  struct bh_err **err) BH_MUST_CHECK;
