/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead run` in one process, as the files that carry it out share it:
 *
 *   run_local.c     the two entries: a new run, and one that is taken up
 *   run_document.c  from the document to a plan that may run
 *   run_session.c   what the process holds for its run: the lock, the launcher, the store, the boxes; taken, let go of
 *   run_drive.c     engine and worker meet, and the loop until the run has ended
 *   run_told.c      what the front end is told
 */
#pragma once

#include "policies/site.h"
#include "scheduler/dispatch/dispatcher.h"
#include "scheduler/dispatch/images.h"
#include "scheduler/run_local.h"
#include "scheduler/shell/live.h"
#include "workers/box/box.h"
#include "workers/worker.h"

enum { BH_SESSION_SIGNALS = 3 };

struct bh_session {
    const struct bh_run_options *options;
    struct bh_run_id id;
    int lock, launcher;
    struct bh_image_host images;
    struct bh_store *store;
    struct bh_live_run *run;
    struct event_base *loop;
    struct bh_boxes *boxes;
    struct bh_worker *worker;
    struct bh_dispatcher *dispatcher;
    struct bh_shell_server *shells;
    struct event *signals[BH_SESSION_SIGNALS];
    struct event *tick;
    int signal; /* the first that came */
    bool hard;  /* a second one came */
    bool resumed;
    bool over; /* the run has ended, perhaps before the loop began: what a person decided while it was dead ends it */
    struct bh_policy policy;
    char *watched; /* limits that are not enforced, with the site's leave: bh_run_limits_check */
    struct bh_err *failed;
};

/* Nothing is taken yet. bh_session_fini lets go of whatever there is, boxes first. */
void bh_session_init(struct bh_session *s, const struct bh_run_options *options, struct bh_run_id id);
void bh_session_fini(struct bh_session *s);

/* In this order: the run with its launcher and the store, what images need, the boxes, whether they hold to limits. */
int bh_session_take(struct bh_session *s, struct bh_err **err) BH_MUST_CHECK;
int bh_session_prepare_images(struct bh_session *s, const struct bh_plan *plan, struct bh_err **err) BH_MUST_CHECK;
int bh_session_open_boxes(struct bh_session *s, struct bh_err **err) BH_MUST_CHECK;
int bh_session_check_limits(struct bh_session *s, const struct bh_plan *plan, struct bh_errlist *errors) BH_MUST_CHECK;
/* No image is asked for any more. */
void bh_session_forget_images(struct bh_session *s);
int bh_session_make_folders(const struct bh_session *s, struct bh_err **err) BH_MUST_CHECK;

/* Blocks until the run, which is in s->run, has ended, was interrupted twice, or cannot go on (s->failed). */
int bh_session_drive(struct bh_session *s, struct bh_err **err) BH_MUST_CHECK;
/* After it: ends what still runs, and says how it went. */
int bh_session_finish(struct bh_session *s, struct bh_run_outcome *ret, struct bh_err **err) BH_MUST_CHECK;

/* Callbacks of the live run and of the dispatcher; arg: the session. */
void bh_session_tell_gate(void *arg, size_t gate);
void bh_session_tell_node(void *arg, size_t node);
void bh_session_tell_attempt(void *arg, size_t index);

/* The plan of the document, all checks of the document and of the site passed; the caller frees both. */
int bh_run_plan_document(const struct bh_run_options *o, const struct bh_policy *policy,
                         struct bh_pipeline **ret_pipeline, struct bh_plan **ret_plan,
                         struct bh_errlist *errors) BH_MUST_CHECK;
/*
 * Some run of this state directory knows a file or source as tainted: the plan is made again with that, and may be
 * refused for it.
 */
int bh_run_follow_known_taint(const struct bh_session *s, const struct bh_pipeline *pipeline, struct bh_plan **plan,
                              struct bh_val *submission, struct bh_errlist *errors) BH_MUST_CHECK;
/* Puts err (taken; may be NULL) among the errors; rc again. */
int bh_run_add_error(struct bh_errlist *errors, int rc, struct bh_err *err);
