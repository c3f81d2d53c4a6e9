/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a new run brings from outside and some run of the same state directory knows as tainted: an artifact that was
 * fetched and handed in again is still what it was. Known by digest, so a changed copy is not found. Content of less
 * than 16 bytes is everybody's; and a file that was last touched (ctime) before the first tainted agent made such
 * content is not that agent's.
 */
#pragma once

#include "base/val.h"
#include "scheduler/store/store.h"
#include "topologies/plan.h"

/*
 * Looks for the files, prompts and sources of a submission, and notes in it what was found:
 * {"tainted":{"files":[PATH],"sources":[NAME],"why":{PATH or NAME: "'pages.jsonl' of run …"}}}. *ret_any tells
 * whether there was anything. Blocks on the store.
 */
int bh_known_taint_find(struct bh_store *store, struct bh_val *submission, bool *ret_any,
                        struct bh_err **err) BH_MUST_CHECK;

/* Whether the submission notes it of this source. */
bool bh_known_taint_source(const struct bh_val *submission, const char *name);

/* Says in the errors of trust about such content whose it is. */
void bh_known_taint_tell(const struct bh_val *submission, struct bh_errlist *errors);

/* Puts what a submission notes into the options of its plan; the texts are the submission's. */
void bh_known_taint_options(const struct bh_val *submission, struct bh_plan_options *options);
void bh_known_taint_options_fini(struct bh_plan_options *options);
