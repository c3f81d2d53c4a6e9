/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of one host: asks the engine for work over the bus, carries each lease out in its box (deliver, setup,
 * run, collect), and reports states and results. One thread, on the loop it is given. The messages it speaks are listed
 * in workers/worker.c and docs/protocol.md.
 */
#pragma once

#include "base/err.h"

struct event_base;
struct bh_box_call;
struct bh_boxes;
struct bh_exec_result;
struct bh_lease;
struct bh_worker;

struct bh_worker_options {
    const char *home;  /* state directory */
    const char *url;   /* of the engine's bus */
    const char *token; /* proves who it is in the first message */
    int slots;         /* executions at once */
};
/* Borrows loop and boxes. */
int bh_worker_new(struct event_base *loop, struct bh_boxes *boxes, const struct bh_worker_options *options,
                  struct bh_worker **ret, struct bh_err **err) BH_MUST_CHECK;
/*
 * In whose box a visitor would be now: the agent's (its attempt `attempt`, 0: any, in the order of their numbers), else
 * the setup's or preparation's that is made for it, else NULL. The worker's, until the loop turns.
 */
const struct bh_lease *bh_worker_whom(struct bh_worker *w, const char *agent, int attempt);
/*
 * A command beside an agent that runs here, with all that is the agent's: for a person who looks into it. Descriptors
 * are borrowed for the call. NULL where bh_worker_whom finds no attempt: what a setup or a preparation leaves is what
 * others start from, in later runs too, so nobody else writes there. Else `fn` is called once, when it has ended, which
 * it does at the latest with the agent's box.
 */
struct bh_worker_visit {
    const char *agent;
    int attempt;
    const char *const *argv;
    const char *more_env; /* "NAME=value" or NULL */
    bool terminal;        /* its streams are a terminal of its own */
    int stdio[3];
};
struct bh_box_call *bh_worker_visit(struct bh_worker *w, const struct bh_worker_visit *visit,
                                    void (*fn)(void *arg, const struct bh_exec_result *result), void *arg);
/* Kills what runs. */
void bh_worker_free(struct bh_worker *w);
