/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that read a document: for advise*.c alone. */
#pragma once

#include "topologies/advise.h"
#include "topologies/editor.h"

/* `entries` lives in the arena: pairs of key and value, ended by NULL. */
void bh_advice_add_agent(struct bh_advices *list, struct bh_advice *advice, const char *behind,
                         const char *const *entries);

/* advise_installs.c, advise_trust.c */
void bh_advise_installs(const struct bh_advise_subject *subject, struct bh_advices *list);
void bh_advise_trust(const struct bh_advise_subject *subject, struct bh_advices *list);
