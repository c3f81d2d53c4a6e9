/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a document asks for beyond its own folder, and who granted it: asked once on a terminal, given by --grant, and
 * remembered in HOME/grants by the digest of the document's path and of the list. Each grant and each refusal is a line
 * of the audit log.
 */
#pragma once

#include "base/home.h"
#include "topologies/plan.h"

struct bh_grant_ask {
    const struct bh_home *home;
    bool given;   /* --grant */
    bool may_ask; /* there is a person who can answer */
};

/* 0: granted. POLICY: not. */
int bh_grant_check(const struct bh_grant_ask *ask, const struct bh_plan *plan, struct bh_err **err) BH_MUST_CHECK;
/* Refusals by trust or policy among the errors of a run that was not begun go to the audit log. */
void bh_grant_note_refusals(const struct bh_home *home, const char *file, const struct bh_errlist *errors);
