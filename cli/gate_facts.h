/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gates of a run as its events tell them: what was asked, who decided, what has expired. And what people have
 * decided that nobody has taken up yet: of a run that no process drives, at its resume.
 */
#pragma once

#include "base/val.h"
#include "cli/common.h"
#include "scheduler/dispatch/decision.h"

struct bh_gate_fact {
    char *name; /* of the agent or the stage */
    bool of_stage;
    enum bh_gate_status { BH_GATE_IS_ASKED, BH_GATE_IS_APPROVED, BH_GATE_IS_REJECTED, BH_GATE_IS_EXPIRED } status;
    struct bh_wall asked, ended; /* us 0: never, not yet */
    struct bh_val *facts;        /* payload of the newest event: the question, and who decided */
    struct bh_decision filed;    /* the decision that lies there about it, taken up or not; `by` NULL: none */
};
struct bh_gate_facts {
    struct bh_gate_fact *items; /* in order of their first event */
    size_t len, cap;
};

int bh_gate_facts_read(const struct bh_cli_run *run, struct bh_gate_facts *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_gate_facts_fini(struct bh_gate_facts *gates);
/* An open one before others, one of an agent before one of a stage; NULL: there is none of that name. */
const struct bh_gate_fact *bh_gate_facts_find(const struct bh_gate_facts *gates, const char *name);
const char *bh_gate_status_text(enum bh_gate_status status); /* "asked" */
/* What was decided since the newest event; NULL: nothing. */
const struct bh_decision *bh_gate_pending(const struct bh_gate_fact *gate);
/* Somebody is waited for. */
bool bh_gate_is_waiting(const struct bh_cli_run *run, const struct bh_gate_fact *gate);
/* [{"gate","of","status","waiting","asked","ended","digest","by","reason","how","pending":{"verdict","by","at","reason"}
 * or null,"artifacts":[…]}]; the caller owns it. */
struct bh_val *bh_gate_facts_to_val(const struct bh_cli_run *run, const struct bh_gate_facts *gates);
size_t bh_gate_count_tainted(const struct bh_val *artifacts); /* of a question */
/* "3 artifacts (1 of them tainted)" */
void bh_gate_tell_size(const struct bh_gate_fact *gate, struct bh_buf *out);
/* "approved by alice: read it; counts at 'bulkhead run --resume RUN'": of one with a pending decision. */
void bh_gate_tell_pending(const struct bh_cli_run *run, const struct bh_gate_fact *gate, struct bh_buf *out);
