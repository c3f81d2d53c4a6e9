/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box backend for tests: no process, no namespace. A box is a folder, a command is a list of steps that this file
 * carries out itself, and the test decides when an answer is held back, what fails and which box dies. Answers come
 * from the loop, never from inside a call, as box.h wants it.
 *
 * The words of an argv after the first are steps, done in order when the exec starts; after the last it exits with 0:
 *   out:TEXT err:TEXT        prints (\n stands for a line end)
 *   write:PATH=TEXT          makes a file below /workspace, with its folders; "exec:" the same, executable
 *   mkdir:PATH link:PATH=TO fifo:PATH
 *   cat:PATH                 prints a file of /workspace; in/, prompt.md, params.json, needs.json are the delivered
 * ones stdin                    prints the standard input env:NAME                 prints NAME=value or "NAME unset"
 *   exit:N signal:N          ends so
 *   hit:oom hit:pids hit:disk  a limit is hit on the way
 *   fail:ERRNO=STEP          did not start (ERRNO is a number)
 *   hang                     runs until it is killed; "stubborn" does not mind SIGTERM, "graceful" exits with 0 on it
 * An argv[0] of "missing" does not start with ENOENT.
 */
#pragma once

#include "base/buf.h"
#include "workers/box/box.h"

struct fake_boxes {
    struct bh_boxes base;
    struct event_base *loop;
    struct event *later;
    struct fake_answer *answers; /* not given yet, in order */
    struct fake_box *boxes;
    const char *held;      /* calls of this name are not answered: "create", "barrier", "open", "destroy", "freeze" */
    int fail_create;       /* code, once; 0: none */
    int fail_barrier;      /* code, once */
    int fail_freeze;       /* code, once */
    struct bh_buf journal; /* one line per call: "create KEY", "exec KEY ARGV0 ...", "kill 15", "destroy KEY keep" */
    void (*on_open)(void *arg, const char *path); /* before an output is opened */
    void *on_open_arg;
    bool tells;                    /* who wrote, namely: */
    struct bh_box_writers tell;    /* of every file and at every moment */
    struct bh_box_share shares[4]; /* what each has taken */
    size_t n_shares;
};

struct fake_boxes *fake_boxes_new(struct event_base *loop);
/* What was held back is answered, nothing is held any more. */
void fake_boxes_go_on(struct fake_boxes *f);
bool fake_boxes_is_quiet(const struct fake_boxes *f); /* everything that was asked is answered */
bool fake_boxes_has_held(const struct fake_boxes *f);
/* The box with this key dies. */
void fake_boxes_lose(struct fake_boxes *f, const char *key);
size_t fake_boxes_alive(const struct fake_boxes *f);
bool fake_boxes_did(const struct fake_boxes *f, const char *line); /* a whole line of the journal */
