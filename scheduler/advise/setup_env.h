/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setups that are one but for the variables of their agents: how the variables can come later, so that one snapshot
 * serves all. For setups.c alone.
 */
#pragma once

#include "scheduler/advise/advise_run_priv.h"

/* Whether the agents of these executions are the same to a snapshot but for variables, and differ by some. */
bool bh_setup_env_differs(const struct bh_run_question *q, const size_t *rows, size_t n);
/* The change for the agents of `advice`: the variables move into `run`, or, where that is no line of a shell, in words
 * how the agents become attempts of one. */
void bh_setup_env_change(const struct bh_run_question *q, struct bh_advice *advice);
