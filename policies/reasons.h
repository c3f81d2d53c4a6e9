/* SPDX-License-Identifier: Apache-2.0 */
/* The closed table of reasons (policies/reasons.def) and what follows from each. Pure. */
#pragma once

#include "base/compiler.h"

enum bh_reason {
    BH_REASON_NONE,
#define BH_X(name, text, retries, exit, http, remedy) BH_REASON_##name,
#include "policies/reasons.def"
#undef BH_X
    BH_REASON_MAX_
};

/* GATE: the wait for a person's decision. */
enum bh_phase { BH_PHASE_NONE, BH_PHASE_SETUP, BH_PHASE_PREPARE, BH_PHASE_RUN, BH_PHASE_CHECK, BH_PHASE_GATE };

struct bh_reason_info {
    enum bh_reason reason;
    const char *text;
    int default_retries; /* tries on top of the first that happen whatever `retries` says */
    int exit_status, http_status;
    const char *remedy;
};

const struct bh_reason_info *bh_reason_info(
    enum bh_reason reason); /* borrowed; NONE and unknown values give a row with text "" */
/* What mends it: the row's, or for a command that could not start (exit status 126 and 127) what mends that. */
const char *bh_reason_remedy(enum bh_reason reason, int64_t exit_code);
/*
 * The same, with what the attempt's detail tells beyond its reason: the shared box whose limit was met ("box 'x'"),
 * files that were too many, a command that never started and so has no lines. The caller frees it. `detail` may be
 * NULL.
 */
char *bh_reason_remedy_of(enum bh_reason reason, int64_t exit_code, const char *detail);
/* The remedy whose commands are about one of several attempts, 0: what they start from; -1: the only one. The caller
 * frees it. */
char *bh_remedy_of_attempt(const char *remedy, int64_t attempt);
/* The remedy whose logs are withheld unless they are asked for. The caller frees it. */
char *bh_remedy_of_tainted(const char *remedy);
enum bh_reason bh_reason_parse(const char *text); /* "timeout(run)" and "timeout" both; NONE where unknown */
/* "exit", "timeout(run)": static text. */
const char *bh_reason_text(enum bh_reason reason, enum bh_phase phase);
const char *bh_phase_text(enum bh_phase phase);
/* "run", or the phase inside "timeout(run)". Of reasons only a timeout's text is to be asked: "check" is a phase, too.
 */
enum bh_phase bh_phase_parse(const char *text);
