/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker processes beside the launcher (policies/broker/): one speaks for boxes to hosts that they may reach, the
 * other calls services with credentials. Each is started when a line to it is opened first, and again where it has
 * ended since; it ends with its control socket. The messages are those of docs/protocol.md ("Brokers").
 *
 * A line is one socket that listens in a box, and what the broker does with those who connect to it.
 */
#pragma once

#include "base/err.h"

struct bh_broker_line;
struct bh_brokers;
struct bh_val;
struct event_base;

enum bh_broker_mode { BH_BROKER_EGRESS, BH_BROKER_ENDPOINTS };

struct bh_broker_events {
    void (*said)(void *arg, const char *op, const struct bh_val *msg); /* of this line; the message is borrowed */
    void (*lost)(void *arg);                                           /* the process has ended: nothing more comes */
};

/* Starts nothing. */
struct bh_brokers *bh_brokers_new(struct event_base *loop);
/* No line may be left. */
void bh_brokers_free(struct bh_brokers *b);

/*
 * Takes `msg`, the fields of "open"; `listener` is borrowed. Nothing is called from inside. Errors: HOST, TOO_LARGE.
 */
int bh_broker_open(struct bh_brokers *b, enum bh_broker_mode mode, struct bh_val *msg, int listener,
                   const struct bh_broker_events *events, void *arg, struct bh_broker_line **ret,
                   struct bh_err **err) BH_MUST_CHECK;
/* Another message about the line; takes it. Errors: HOST, TOO_LARGE. */
int bh_broker_tell(struct bh_broker_line *line, const char *op, struct bh_val *msg, struct bh_err **err) BH_MUST_CHECK;
/* Nothing is called any more; what is still connected is cut. NULL is fine. */
void bh_broker_drop(struct bh_broker_line *line);
