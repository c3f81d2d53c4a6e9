/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of one host: asks the engine for work over the bus, carries each lease out in its box (deliver, setup,
 * run, collect), and reports states and results. One thread, on the loop it is given. The messages it speaks are listed
 * in workers/worker.c and docs/protocol.md.
 */
#pragma once

#include "base/err.h"

struct event_base;
struct bh_boxes;
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
/* Kills what runs. */
void bh_worker_free(struct bh_worker *w);
