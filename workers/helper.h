/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One helper thread for work that blocks on the disk: copying and hashing outputs, walking an output folder. A job
 * touches nothing but its own data while it runs; everything else happens on the loop's thread. Jobs run one after the
 * other, in order.
 */
#pragma once

#include "base/err.h"

struct event_base;
struct bh_helper;
struct bh_job;

struct bh_job_ops {
    void (*run)(void *data);               /* on the helper thread */
    void (*done)(void *owner, void *data); /* on the loop, unless the job was forgotten */
    void (*dispose)(void *data);           /* on the loop, always, last */
};

int bh_helper_new(struct event_base *loop, struct bh_helper **ret, struct bh_err **err) BH_MUST_CHECK;
/*
 * Waits for the job that runs; those behind it are disposed of without having run, and no `done` is called any more.
 */
void bh_helper_free(struct bh_helper *h);

/* Takes data. The job may be forgotten until its `done` is called, which never happens from inside this call. */
struct bh_job *bh_helper_submit(struct bh_helper *h, const struct bh_job_ops *ops, void *owner, void *data);
/* The owner goes away: the job ends by itself and only `dispose` is called. NULL is fine. */
void bh_job_forget(struct bh_job *job);
