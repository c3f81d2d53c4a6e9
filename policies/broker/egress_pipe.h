/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a connection: bytes from one socket to another, at the pace of the slower. It holds at most what one
 * read brought, which is the less the more connections there are; while that waits to be written, nothing is read. The
 * end of one side goes on to the other when all is written.
 *
 * Callbacks come from the loop. `take` decides what of the bytes goes on, by bh_pipe_put; none may free the pipe.
 */
#pragma once

#include "base/buf.h"

#define BH_PIPE_READ (64 * 1024)

struct event;
struct event_base;
struct bh_pipe;

struct bh_pipe_ops {
    void (*take)(void *arg, const char *data, size_t len);
    bool (*ends)(void *arg);   /* the source has ended; false: the target is not to know (may be NULL) */
    void (*ended)(void *arg);  /* the source has ended, and the target was told so */
    void (*failed)(void *arg); /* one of the two is gone */
};

struct bh_pipe {
    int from, to;
    const size_t *at_once; /* bytes of one read */
    struct event *readable, *writable;
    struct bh_buf pending;
    size_t sent; /* of `pending` */
    uint64_t bytes;
    bool ending, ended, failed, held;
    bool from_failed; /* it was the source that is gone */
    const struct bh_pipe_ops *ops;
    void *arg;
};

/* Sockets and `at_once` are borrowed, the former non-blocking; from may be -1 where the bytes come by bh_pipe_put
 * alone. Reads nothing before bh_pipe_read. */
void bh_pipe_init(struct bh_pipe *p, struct event_base *loop, int from, int to, const size_t *at_once,
                  const struct bh_pipe_ops *ops, void *arg);
void bh_pipe_fini(struct bh_pipe *p); /* zeroed is fine */

void bh_pipe_read(struct bh_pipe *p);
void bh_pipe_hold(struct bh_pipe *p); /* reads no more; what is pending is still written */
/* Writes what can be written now and keeps the rest. */
void bh_pipe_put(struct bh_pipe *p, const void *data, size_t len);
/* As if the source had ended. */
void bh_pipe_end(struct bh_pipe *p);
/* Does nothing any more, and calls nobody; bh_pipe_fini comes later. */
void bh_pipe_stop(struct bh_pipe *p);
