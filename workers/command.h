/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command in a box: its output captured, its time bounded. When its time is over, or somebody asks, all of it gets
 * SIGTERM and after the grace SIGKILL.
 */
#pragma once

#include "workers/box/box.h"
#include "workers/capture.h"

struct bh_command_spec {
    struct event_base *loop;
    struct bh_box *box;
    struct bh_capture *capture;
    struct bh_exec_spec exec; /* all but stdout_fd and stderr_fd; stdin_fd is borrowed for the call */
    int64_t timeout_ns, grace_ns;
    void (*late)(void *arg); /* its time is over, and it has not been told yet; or NULL */
    void *late_arg;
};

struct bh_command_end {
    struct bh_exec_result result; /* its `step` is borrowed for the callback */
    bool timed_out, stopped;      /* why it was told to end; both false where it ended by itself */
    bool killed;                  /* the grace was not enough */
};

struct bh_command;
/* The command may be freed inside; nothing of it is called any more. */
typedef void (*bh_command_done_fn)(void *arg, const struct bh_command_end *end);

int bh_command_start(const struct bh_command_spec *spec, bh_command_done_fn fn, void *arg, struct bh_command **ret,
                     struct bh_err **err) BH_MUST_CHECK;
/* It is a fork server now (spec.exec.on_warm has been called with the same argument as the callback): its time is not
 * bounded any more, and it has another owner. */
void bh_command_give(struct bh_command *c, bh_command_done_fn fn, void *arg);
struct bh_exec *bh_command_server(const struct bh_command *c); /* NULL: it has ended */
/* Somebody asks that it end. Its callback comes as always. */
void bh_command_stop(struct bh_command *c);
/* Kills at once what still runs; its output and its callback are lost. NULL is fine. */
void bh_command_free(struct bh_command *c);
