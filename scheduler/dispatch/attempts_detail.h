/* SPDX-License-Identifier: Apache-2.0 */
/* Why an agent of several executions has no result, in a sentence. */
#pragma once

#include "base/map.h"
#include "scheduler/core/engine.h"
#include "topologies/plan.h"

/*
 * Of a failed node: "none of 5 attempts passed (3 by check, 2 by timeout(run)); attempt 1: …". `facts` are the payloads
 * of ends by instance; *ret_blamed is what the sentence ends with, NULL where it is about nobody. The caller owns the
 * text.
 */
char *bh_attempts_detail(const struct bh_plan *plan, const struct bh_engine *engine, const struct bh_map *facts,
                         size_t node, const struct bh_attempt **ret_blamed);
