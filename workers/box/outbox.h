/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending datagrams on a non-blocking socket without losing or blocking: what the socket does not take now waits here
 * in order, its descriptors duplicated.
 */
#pragma once

#include "base/list.h"

struct event;
struct event_base;

struct bh_outbox {
    int sock; /* borrowed */
    struct event *writable;
    struct bh_list waiting;
};

void bh_outbox_init(struct bh_outbox *box, struct event_base *loop, int sock);
/* 0, or -1 with errno where the socket is dead. Descriptors are borrowed. */
int bh_outbox_send(struct bh_outbox *box, const void *data, size_t len, const int *fds, size_t nfds);
void bh_outbox_fini(struct bh_outbox *box); /* of one that was initialised or is all zero */
