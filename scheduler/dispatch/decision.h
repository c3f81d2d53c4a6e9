/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person decided about a gate, as it travels from the verb that asked to the process that drives the run: the
 * file runs/RUN/decisions/HEX.json, HEX being the digest of the question. So a decision holds for exactly what was
 * shown, survives whoever drives the run, and one that nobody waits for harms nothing. Whoever can write there may
 * decide: the folder is the owner's alone.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/home.h"

enum { BH_DECISION_REASON_MAX = 1000 };

struct bh_decision {
    char *gate;   /* name of the agent or the stage */
    char *digest; /* of the question: "sha256:…" */
    bool approved;
    bool audited; /* its line is in the audit log already */
    char *by;     /* name of the user, or "uid 1000" */
    char *reason; /* or NULL */
    struct bh_wall at;
};
void bh_decision_fini(struct bh_decision *d); /* leaves an empty one */

/* The folder, made where it is absent. The caller owns the text. */
int bh_decision_folder(const struct bh_home *home, const char *run, char **ret, struct bh_err **err) BH_MUST_CHECK;
/* Whoever decides about this run meanwhile waits until the descriptor is closed. Writes nothing but the folder. */
int bh_decision_lock(const struct bh_home *home, const char *run, int *ret_fd, struct bh_err **err) BH_MUST_CHECK;
/* Takes the place of an earlier one about the same question; whole or not at all, and on the disk. */
int bh_decision_write(const struct bh_home *home, const char *run, const struct bh_decision *d,
                      struct bh_err **err) BH_MUST_CHECK;
/*
 * NOT_FOUND, without a message, where there is none. A file of another user, or one that is not about this question, is
 * -BH_E_POLICY. On failure *ret is untouched.
 */
int bh_decision_read(const struct bh_home *home, const char *run, const char *digest, struct bh_decision *ret,
                     struct bh_err **err) BH_MUST_CHECK;
