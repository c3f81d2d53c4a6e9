/* SPDX-License-Identifier: Apache-2.0 */
/* What the store knows of one run, in memory, and the object that `show -o json` prints; `show` and `explain` render
 * it. */
#pragma once

#include "cli/common.h"

struct bh_run_facts {
    struct bh_agent_row *agents;
    size_t n_agents;
    struct bh_attempt_row *attempts;
    size_t n_attempts;
    struct bh_map *first; /* agent → index of its first attempt, plus 1 */
};
int bh_run_facts_read(const struct bh_cli_run *run, struct bh_run_facts *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_run_facts_fini(struct bh_run_facts *facts);
/* Attempts of one agent are consecutive; *ret_n 0 where there is none. */
const struct bh_attempt_row *bh_run_facts_attempts(const struct bh_run_facts *facts, const char *agent, size_t *ret_n);
/* Whether no later try of the same attempt (or setup, or preparation) is there. */
bool bh_run_facts_is_newest(const struct bh_run_facts *facts, const struct bh_attempt_row *row);
/* Attempts of an agent, each by its newest try. */
struct bh_attempt_sum {
    size_t n, passed;                                      /* that have started; that succeeded */
    const struct bh_attempt_row *selected, *failed, *once; /* chosen; the first that failed; what failed before them */
    const char *snapshot; /* what all of them started from, NULL: nothing, or (`differ`) not the same */
    bool differ;
    size_t forked, cold;  /* that were not executed from the disk beside a warm process; that were */
    const char *why_cold; /* of the first of those */
};
struct bh_attempt_sum bh_run_facts_sum(const struct bh_run_facts *facts, const char *agent);
/* "attempt 1", "attempts 1, 3": who was chosen; NULL: nobody, or nobody yet. The caller owns it. */
char *bh_run_facts_selected(const struct bh_run_facts *facts, const char *agent);
/* "2 of 5 attempts started from the disk, not from the warm process: WHY"; NULL: none did. The caller owns it. */
char *bh_run_facts_cold(const struct bh_attempt_sum *sum);
bool bh_run_facts_has_attempts(const struct bh_agent_row *row); /* its topology is per-attempt */
/* plan: NULL where the document cannot be planned any more. The caller owns it. */
struct bh_val *bh_run_facts_to_val(const struct bh_cli_run *run, const struct bh_run_facts *facts,
                                   const struct bh_plan *plan);
/* What `show` calls "failure": a map with the remedy's RUN and AGENT filled in, or a null value. The caller owns it. */
struct bh_val *bh_run_facts_failure(const struct bh_cli_run *run);
/* RUN and AGENT in a remedy are the reader's own. */
void bh_run_facts_add_remedy(struct bh_buf *out, const char *run, const char *agent, const char *remedy);
/* No process owns it and it has not ended. */
bool bh_run_facts_abandoned(const struct bh_cli_run *run);
