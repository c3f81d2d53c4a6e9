/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte streams and timers, as far as the bus needs them. An operation is started here, ends on a thread of the library,
 * and is handled on the thread that drives the done queue. All functions but that are for one thread.
 */
#pragma once

#include "artifact-bus/done_queue_priv.h"
#include "base/clock.h"

struct bh_bus_listener;
struct bh_bus_dialer;
struct bh_bus_stream;

/* Errors as of bh_bus_server_new. */
int bh_bus_listener_new(const char *url, struct bh_bus_listener **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_bus_listener_free(struct bh_bus_listener *l);
int bh_bus_dialer_new(const char *url, struct bh_bus_dialer **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_bus_dialer_free(struct bh_bus_dialer *d);

void bh_bus_stream_close(struct bh_bus_stream *s); /* what is under way on it ends with an error */
void bh_bus_stream_free(struct bh_bus_stream *s);  /* operations on it must have been freed */

/* A slot for one operation at a time. `ended` runs from bh_done_queue_next. */
struct bh_bus_op;
struct bh_bus_op *bh_bus_op_new(struct bh_done_queue *done, void (*ended)(void *arg), void *arg); /* or NULL */
/* Stops what is under way: `ended` will not run for it. May be called from `ended`. NULL is fine. */
void bh_bus_op_free(struct bh_bus_op *op);
bool bh_bus_op_busy(const struct bh_bus_op *op);    /* from the start until `ended` */
int bh_bus_op_result(const struct bh_bus_op *op);   /* 0, or a negative code */
size_t bh_bus_op_count(const struct bh_bus_op *op); /* bytes moved */
void bh_bus_op_cancel(struct bh_bus_op *op);        /* it ends soon, perhaps with an error */

void bh_bus_op_sleep(struct bh_bus_op *op, int64_t ns);
void bh_bus_op_accept(struct bh_bus_op *op, struct bh_bus_listener *l);
void bh_bus_op_dial(struct bh_bus_op *op, struct bh_bus_dialer *d);
/* What accept or dial gave: the caller's. NULL where it may not be spoken to (inproc, and another process). */
struct bh_bus_stream *bh_bus_op_take_stream(struct bh_bus_op *op);
/* Some bytes, at least one; the memory must stay until the end. */
void bh_bus_op_recv(struct bh_bus_op *op, struct bh_bus_stream *s, void *data, size_t len);
void bh_bus_op_send(struct bh_bus_op *op, struct bh_bus_stream *s, const void *data, size_t len, int64_t timeout_ns);

/* bus_threads.c: nng hangs or crashes where it cannot start its threads, so that there is room for them is found out
 * by starting as many, once per process. HOST. */
int bh_bus_threads_check(struct bh_err **err) BH_MUST_CHECK;
