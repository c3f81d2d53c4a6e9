/* SPDX-License-Identifier: Apache-2.0 */
/* The projections of a live run, filled from engine and plan. Every text in the rows is borrowed from what they are
 * made of. */
#pragma once

#include "artifact-bus/registry.h"
#include "scheduler/core/engine.h"
#include "scheduler/store/store.h"
#include "topologies/plan.h"

struct bh_val;

/* What an ended execution left behind besides the engine's view: the payload of its event. NULL where there is none. */
struct bh_attempt_facts {
    const struct bh_val *ended;
};

struct bh_agent_row bh_row_of_node(const char *run, const struct bh_plan *plan, const struct bh_engine *engine,
                                   size_t node);
/* Texts that a row of an attempt has and nobody else does. */
struct bh_attempt_scratch {
    char *usage, *score;
};
void bh_attempt_scratch_fini(struct bh_attempt_scratch *scratch);
/* `scratch` is the caller's, and must live as long as the row. */
struct bh_attempt_row bh_row_of_attempt(const char *run, const struct bh_plan *plan, const struct bh_attempt *attempt,
                                        const struct bh_attempt_facts *facts, struct bh_attempt_scratch *scratch);
struct bh_artifact_row bh_row_of_artifact(const char *run, const struct bh_artifact *artifact, char *digest_text);
/* The object that `show` prints as "failure"; NULL where the run has not failed. The caller owns it. */
struct bh_val *bh_failure_of_run(const struct bh_plan *plan, const struct bh_engine *engine,
                                 const struct bh_val *ended);
