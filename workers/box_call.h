/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls into a box whose asker may go away before they are answered. The backend answers every call exactly once; what
 * is allocated here waits for that answer, so that an execution can be ended at any moment without a callback finding
 * it gone.
 */
#pragma once

#include "workers/box/box.h"

struct bh_box_call;

/* The call is over, and its pointer dead, when its callback is entered. */
struct bh_box_call *bh_box_call_exec(struct bh_box *box, const struct bh_exec_spec *spec, bh_exec_done_fn fn,
                                     void *arg);
struct bh_box_call *bh_box_call_barrier(struct bh_box *box, bh_box_done_fn fn, void *arg);
struct bh_box_call *bh_box_call_open(struct bh_box *box, const char *root, const char *path, bh_box_opened_fn fn,
                                     void *arg);
struct bh_box_call *bh_box_call_listen(struct bh_box *box, int port, bh_box_opened_fn fn, void *arg);
/* Of an exec call that was told of as warm (bh_exec_spec.on_warm, which is called with `arg`): what boxes for its forks
 * are beneath. */
struct bh_exec *bh_box_call_server(const struct bh_box_call *call);
/* Of an exec call: a signal to every process of it. */
void bh_box_call_kill(struct bh_box_call *call, int sig);
/* The callback is not called any more; a descriptor that still comes is closed. NULL is fine. */
void bh_box_call_forget(struct bh_box_call *call);

/*
 * A box and its one owner. The backend may announce a loss at any time until the box is gone; the handle lives as long
 * as that, its owner need not.
 */
struct bh_box_handle;
struct bh_box_events {
    void (*created)(void *arg, int code, const struct bh_err *err);
    void (*lost)(void *arg); /* after created; every open exec has ended before */
};
struct bh_box_handle *bh_box_handle_new(struct bh_boxes *boxes, const struct bh_box_spec *spec,
                                        const struct bh_box_events *events, void *arg);
struct bh_box *bh_box_handle_box(const struct bh_box_handle *h); /* NULL before it is created */
bool bh_box_handle_lost(const struct bh_box_handle *h);
/* It has another owner from now on. */
void bh_box_handle_give(struct bh_box_handle *h, const struct bh_box_events *events, void *arg);
/*
 * The owner lets go: the box is destroyed (when it has been created, if it is being created). `gone` (NULL: none) is
 * called when nothing of it is left but what `keep` keeps. Returns false where there is no box and `gone` will not
 * come.
 */
bool bh_box_handle_drop(struct bh_box_handle *h, bool keep, bh_box_done_fn gone, void *arg);
/* The same by freezing it: only for a created box that was not lost. */
void bh_box_handle_freeze(struct bh_box_handle *h, const char *layer, bh_box_done_fn gone, void *arg);
/* After one of the two: `gone` is not called any more. */
void bh_box_handle_forget(struct bh_box_handle *h);
