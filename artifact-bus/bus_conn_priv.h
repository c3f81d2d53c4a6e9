/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: frames of a number and some bytes in both directions, in order. A frame is a length (4 bytes), a
 * number (8 bytes), both big-endian, and the bytes.
 */
#pragma once

#include "artifact-bus/transport_priv.h"

struct bh_bus_conn;

struct bh_bus_conn_ops {
    /* False ends the connection. Must not free it. */
    bool (*frame)(void *arg, uint64_t number, const void *data, size_t len);
    /* The connection is over; the last call, and the one in which to free it. */
    void (*lost)(void *arg);
};

/* Takes the stream, on failure too (NULL: no memory). */
struct bh_bus_conn *bh_bus_conn_new(struct bh_done_queue *done, struct bh_bus_stream *stream,
                                    const struct bh_bus_conn_ops *ops, void *arg);
void bh_bus_conn_free(struct bh_bus_conn *c);
/* Copies. Never blocks: a peer that does not read loses the connection when too much is waiting, or after a while. */
void bh_bus_conn_send(struct bh_bus_conn *c, uint64_t number, const void *data, size_t len);
