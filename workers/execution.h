/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lease carried out: box, delivery, setup, run, outputs, check, result; or one that makes a snapshot. Everything
 * happens on the loop; what the engine is to know is told through the host's two functions.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "workers/box/box.h"
#include "workers/helper.h"
#include "workers/run_files.h"
#include "workers/secrets.h"
#include "workers/shared_boxes.h"
#include "workers/snapshots.h"
#include "workers/warm_servers.h"
#include "workers/ways.h"

struct bh_execution;

struct bh_execution_host { /* borrowed by every execution */
    struct event_base *loop;
    struct bh_boxes *boxes;
    struct bh_shared_boxes *shared;
    struct bh_helper *helper;
    struct bh_snapshots *snapshots;
    struct bh_warm_servers *warm;
    struct bh_secret_desk *secrets;
    const struct bh_ways_host *ways;
    int null_fd;
    void *arg;
    /* "booting", "setup", "running", "collecting", "checking" */
    void (*state)(void *arg, const struct bh_lease *lease, const char *state);
    /* Called once, from the loop; takes the result. The execution is to be freed, here or later. */
    void (*ended)(void *arg, struct bh_execution *e, struct bh_result *result);
};

/* Takes the lease (which is zeroed) and a reference of its own to `run`. */
struct bh_execution *bh_execution_start(const struct bh_execution_host *host, struct bh_run_files *run,
                                        struct bh_lease *lease);
const struct bh_lease *bh_execution_lease(const struct bh_execution *e);
/* Whether something of it runs in a box at this moment. */
bool bh_execution_is_visible(const struct bh_execution *e);
/* As bh_worker_visit: NULL where nothing of it runs in a box, or what runs there makes what others start from. */
struct bh_worker_visit;
struct bh_box_call *bh_execution_visit(struct bh_execution *e, const struct bh_worker_visit *visit, bh_exec_done_fn fn,
                                       void *arg);
/* Somebody asks that it end: SIGTERM, grace, SIGKILL, then `ended` with the outcome cancelled. May be repeated. */
void bh_execution_cancel(struct bh_execution *e);
/* Kills at once what still runs; `ended` is not called any more. NULL is fine. */
void bh_execution_free(struct bh_execution *e);
