/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a broker: messages to and from the worker, each a JSON object in one packet of a SOCK_SEQPACKET
 * pair, at most BH_CONTROL_MAX bytes. What the messages are: docs/protocol.md ("Brokers").
 *
 * Everything happens on the loop's thread. The worker is believed: a packet that is no such message ends the process,
 * and so does the end of the socket. What is sent waits in memory while the worker does not read; a broker that goes on
 * making work meanwhile asks bh_control_is_full first, so that the worker sets the pace and nothing is dropped.
 */
#pragma once

#include "base/err.h"

#define BH_CONTROL_MAX (64 * 1024)

struct bh_control;
struct bh_val;
struct event_base;

/* `fd` is the descriptor that came with the message, -1 where none did; who keeps it takes it (BH_TAKE_FD). */
struct bh_control_ops {
    void (*on_message)(void *arg, const char *op, const struct bh_val *msg, int *fd);
    void (*on_drained)(void *arg); /* may be NULL; what was full is so no longer */
    void (*on_sent)(void *arg);    /* may be NULL; some of what waited is off our hands */
};

/* Takes `fd`, also on failure. `ops` and `arg` are borrowed. At the socket's end the loop is left. */
int bh_control_new(struct event_base *loop, int fd, const struct bh_control_ops *ops, void *arg,
                   struct bh_control **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_control_free(struct bh_control *c); /* NULL is fine; what still waits is lost */

/* Takes `msg`, a map. Never blocks. */
void bh_control_send(struct bh_control *c, struct bh_val *msg);
/* The same; *waiting counts it for as long as it waits, or until bh_control_forget. */
void bh_control_send_for(struct bh_control *c, struct bh_val *msg, size_t *waiting);
void bh_control_forget(struct bh_control *c, const size_t *waiting);
/* How much of a full queue each of `n` may have waiting, so that nobody's messages hold up another's. */
size_t bh_control_share(size_t n);
bool bh_control_is_full(const struct bh_control *c);

/* A message {"op": op, "id": id}. */
struct bh_val *bh_control_message(const char *op, int64_t id);
