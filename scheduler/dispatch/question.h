/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gate asks a person: which artifacts would pass, and to whom. Made from the plan and what is on the bus;
 * touches no file.
 */
#pragma once

#include "base/val.h"
#include "scheduler/dispatch/live_run.h"

/*
 * {"name","of":"agent"|"stage","digest":"sha256:…","artifacts":[{"name","digest","size","label","private","agent","attempt","why"}]},
 * artifacts by name, each once. The digest covers name, kind and the artifacts' names and digests. A gate of an agent
 * that only accepts inputs is about those; one that the document calls `gate` is about all inputs; one of a stage about
 * what comes from outside of the stage. The caller owns it.
 */
struct bh_val *bh_question_make(const struct bh_live_run *run, size_t gate);
/*
 * Whether somebody has to be asked: not where the gate is about inputs alone and there are none, or all of them were
 * approved before in this run. Then *ret_before is the decision about one of them, borrowed; NULL: there are none.
 */
bool bh_question_is_new(const struct bh_live_run *run, size_t gate, const struct bh_val *question,
                        const struct bh_val **ret_before);
/*
 * How a gate was answered, into whatever tells of it: "how", "by", "at", "reason", each null where it is NULL. The
 * second has all but `how` from where that stands already; `from` may be NULL.
 */
void bh_question_set_answer(struct bh_val *v, const char *how, const char *by, const char *at, const char *reason);
void bh_question_repeat_answer(struct bh_val *v, const char *how, const struct bh_val *from);
