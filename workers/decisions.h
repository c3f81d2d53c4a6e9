/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was decided about the connections and calls of one execution: each goes into the audit log, and in sum into the
 * words about its end. A box can cause as many decisions as it likes: beyond a bound those about the same thing are
 * summed (decision_sums.h). What was let through is always named; of denials a bounded number is.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "policies/audit.h"

struct bh_decisions;
struct bh_helper;
struct bh_val;

/* Every connection up to this one, of those that are told of when they are open, is on the disk; !ok: cannot be. */
typedef void bh_decisions_noted_fn(void *arg, int64_t connection, bool ok);

/* Borrows all. `noted` is called from the loop; not after free. */
struct bh_decisions *bh_decisions_new(struct bh_helper *helper, const char *home, const struct bh_lease *lease,
                                      bh_decisions_noted_fn *noted, void *arg);
/* One more. `msg`: the fields of a broker's message. */
void bh_decisions_egress(struct bh_decisions *d, const struct bh_val *msg);
void bh_decisions_call(struct bh_decisions *d, const char *endpoint, const struct bh_val *msg);
void bh_decisions_secret(struct bh_decisions *d, const char *endpoint, const char *secret);
/* A phase begins that has the host's network. */
void bh_decisions_host(struct bh_decisions *d, enum bh_net_phase phase);
const char *bh_decisions_problem(const struct bh_decisions *d); /* of the log; NULL: none, as far as is known */
/*
 * What is not on the disk yet is written. `done` is called once, when all of it is, unless `d` is freed before; where
 * there is nothing to write from inside.
 */
void bh_decisions_flush(struct bh_decisions *d, void (*done)(void *arg), void *arg);
/*
 * For people, NULL where there is nothing to say: "2 connections were denied: example.org:443 (not in the list)". Of a
 * tainted execution without names, which it has chosen. The caller frees it.
 */
char *bh_decisions_text(const struct bh_decisions *d);
void bh_decisions_free(struct bh_decisions *d); /* NULL is fine */
