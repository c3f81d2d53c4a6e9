/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared boxes that live on this worker: made when the first execution enters, set up once, counted, let go when
 * the engine asks for it. Setups of agents inside one box run one at a time.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "workers/box/box.h"
#include "workers/capture.h"
#include "workers/ledger.h"
#include "workers/run_files.h"
#include "workers/verdict.h"
#include "workers/ways.h"

struct event_base;
struct bh_shared_boxes;
struct bh_shared_use; /* one execution's stay */

/* Borrows all. */
struct bh_shared_boxes *bh_shared_boxes_new(struct event_base *loop, struct bh_boxes *boxes, int null_fd,
                                            const struct bh_ways_host *ways);
/* Ends every box; a freeze under way is answered with -BH_E_INTERRUPTED, a release as done. No use may be left. */
void bh_shared_boxes_free(struct bh_shared_boxes *s);

struct bh_shared_events {
    /* The box is there, or (box NULL) could not be had: the verdict may be copied from. */
    void (*ready)(void *arg, struct bh_box *box, const struct bh_verdict *bad);
    void (*lost)(void *arg); /* after ready; every exec in it has ended before */
};
/*
 * Never calls back from inside. Nothing of the lease is borrowed. What the box's own setup prints goes into `capture`
 * if it is this use that has the box made.
 */
struct bh_shared_use *bh_shared_enter(struct bh_shared_boxes *s, struct bh_run_files *run, const struct bh_lease *lease,
                                      struct bh_capture *capture, const struct bh_shared_events *events, void *arg);
/*
 * At any time; what the execution had running must have ended or been freed. A box that is being made for nobody else
 * is given up. Not from inside a callback of this header.
 */
void bh_shared_leave(struct bh_shared_use *use);

/* Who is and was in the box; as long as the use. */
struct bh_ledger *bh_shared_ledger(const struct bh_shared_use *use);

/* Waits for the box's turn of setups; `turn` may be called from inside. bh_shared_leave gives the turn back too. */
void bh_shared_setup_begin(struct bh_shared_use *use, void (*turn)(void *arg));
void bh_shared_setup_end(struct bh_shared_use *use);

/*
 * Turns the quiet box into a layer. Fails (never from inside) where the box does not live here or somebody is in it.
 * `err` is borrowed by fn.
 */
void bh_shared_freeze(struct bh_shared_boxes *s, const char *run, const char *key, const char *layer, bh_box_done_fn fn,
                      void *arg);
/*
 * Ends the box as soon as nobody is in it; `fn` is called when it is gone: at once, from inside, where it does not live
 * here.
 */
void bh_shared_release(struct bh_shared_boxes *s, const char *run, const char *key, bool keep, void (*fn)(void *arg),
                       void *arg);
