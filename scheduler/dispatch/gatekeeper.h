/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out what the engine says about gates: puts a question on record, looks for the decision about it (at once,
 * and whenever the folder of decisions changes), lets it expire, and audits each verdict before it has an effect,
 * unless whoever decided has done that. What it finds out it feeds to the engine as events.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "base/home.h"
#include "scheduler/dispatch/live_run.h"

struct event_base;
struct bh_gatekeeper;

struct bh_gatekeeper_owner {
    void *arg;
    const struct bh_home *home; /* NULL: nobody decides, and nothing is audited (tests) */
    /* Takes extra; carries out what follows unless that is under way. */
    void (*feed)(void *arg, const struct bh_event *event, struct bh_val *extra);
    /* A question is on record, or was decided or has expired. */
    void (*told)(void *arg, size_t gate);
    /* The run must not go on in this process. `err` is taken. */
    void (*failed)(void *arg, struct bh_err *err);
};

/* Borrows loop and run. A run without gates opens nothing. */
int bh_gatekeeper_new(struct event_base *loop, struct bh_live_run *run, struct bh_gatekeeper_owner owner,
                      struct bh_gatekeeper **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_gatekeeper_free(struct bh_gatekeeper *k); /* NULL is fine */

/*
 * An execution has ended whose inputs a worker had to validate: what passed and what did not is audited, what was let
 * in by `endorse` as an override.
 */
void bh_gatekeeper_validated(struct bh_gatekeeper *k, const struct bh_lease *lease, const struct bh_result *result);

/* BH_EFFECT_ASK, BH_EFFECT_EXPIRY. */
void bh_gatekeeper_ask(struct bh_gatekeeper *k, size_t gate);
void bh_gatekeeper_expire_at(struct bh_gatekeeper *k, size_t gate, struct bh_wall at);
