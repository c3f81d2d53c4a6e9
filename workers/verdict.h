/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an execution ended, in the closed table of reasons and in words for people. Words never hold text that an agent
 * wrote, except names, escaped.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "policies/reasons.h"
#include "workers/command.h"

struct bh_verdict {
    enum bh_outcome outcome;
    enum bh_reason reason;
    enum bh_phase phase;
    char *detail;
    int exit_code; /* -1 where nothing exited */
    int signal;
};

void bh_verdict_fini(struct bh_verdict *v); /* leaves a zeroed one */

/* All of these fill a new verdict. */
void bh_verdict_succeeded(struct bh_verdict *ret);
void bh_verdict_cancelled(struct bh_verdict *ret);
void bh_verdict_lost(struct bh_verdict *ret, const char *while_what);
/* The host, or bulkhead's own state directory, could not do it. `err` may be NULL, then `code` says what is known. */
void bh_verdict_host(struct bh_verdict *ret, const char *while_what, int code, const struct bh_err *err);
void bh_verdict_failed(struct bh_verdict *ret, enum bh_reason reason, const char *fmt, ...) BH_PRINTF(3, 4);
/* As it was, for another who waited for the same. */
void bh_verdict_copy(struct bh_verdict *ret, const struct bh_verdict *v);

struct bh_command_name {
    const char *what; /* "run", "setup", "setup of box 'crew'" */
    enum bh_phase phase;
    const char *argv0;
    int64_t timeout_ns;
    const struct bh_limits *limits; /* in force; NULL: not known */
    struct bh_enforced held;        /* what holds them */
    size_t args_bytes;              /* of its arguments and environment together */
    const char *box;                /* a shared one; NULL: the box is its own */
    const struct bh_limits *own;    /* in a shared box: those that the agent has within it; NULL: none */
    const struct bh_limits *boxs;   /* in a shared box: its own; NULL: `limits` are */
};
/* "memory=cgroup-v2 disk=watchdog +best-effort"; NULL where nothing is held. The caller frees it. */
char *bh_verdict_limits_text(const struct bh_enforced *held, bool best_effort);

/*
 * A limit that was hit is the reason of an end that is not good, whatever the status; one that was hit on the way to a
 * good end is none. A timeout stays one, and says that a limit had been hit.
 * True where the command ended well; `ret` is then bh_verdict_succeeded. */
bool bh_verdict_of_command(struct bh_verdict *ret, const struct bh_command_name *name,
                           const struct bh_command_end *end);

/* Whether a call into a box was answered so because the box is gone. */
bool bh_errno_is_loss(int error);

/* Reason and texts of a result; takes the verdict's detail. `note` (may be NULL) is added to it. */
void bh_verdict_to_result(struct bh_verdict *v, const char *note, struct bh_result *result);
