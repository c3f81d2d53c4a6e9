/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which box on disk is meant by a run, an agent and an attempt: the one that was kept, else the newest layer that a
 * shared box was frozen into. Looks and decides; changes nothing.
 */
#pragma once

#include "cli/run_facts.h"
#include "workers/box/stand.h"

struct bh_kept {
    const struct bh_agent_row *agent; /* borrowed from the facts */
    const struct bh_attempt_row *attempt;
    char *path;  /* below home: "runs/RUN/boxes/KEY" or "runs/RUN/layers/NAME" */
    char *upper; /* below home: the folder with root/, usr/, opt/ */
    bool frozen; /* a layer of the run */
    bool known;  /* `stand` is filled in */
    struct bh_box_stand stand;
    size_t n_sharing; /* agents that were in it */
};
void bh_kept_fini(struct bh_kept *kept);

/* The agent's row; NOT_FOUND with the nearest name. */
int bh_kept_agent(const struct bh_cli_run *run, const struct bh_run_facts *facts, const char *name,
                  const struct bh_agent_row **ret, struct bh_err **err) BH_MUST_CHECK;
#define BH_KEPT_ANY (-1)
/* "--attempt N"; 0 is what attempts start from. USAGE. */
int bh_kept_attempt(const char *text, int64_t *ret, struct bh_err **err) BH_MUST_CHECK;
/*
 * `attempt` BH_KEPT_ANY: the selected one if its box is there, else the last that has one. Errors: NOT_FOUND (no such
 * agent, attempt or box; the hint says why there is none), BUSY where it is still in use.
 */
int bh_kept_find(const struct bh_cli_run *run, const struct bh_run_facts *facts, const char *agent, int64_t attempt,
                 struct bh_kept *ret, struct bh_err **err) BH_MUST_CHECK;
/* "setup", "preparation"; NULL of an attempt. */
const char *bh_kept_kind(const struct bh_attempt_row *row);
/* Whether an execution of this status may still have a live box. */
bool bh_kept_is_live(const char *status);
