/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to services, by libcurl on the loop's thread (names are looked up in threads of libcurl's own, which know no
 * more than the name): HTTP/1.1, so that a paused reply waits in the kernel and not in memory; TLS is verified; no
 * redirects, no cookies, no proxies, no retries, nothing from a netrc; replies are asked for uncompressed, and what
 * comes compressed all the same is unpacked, so that they can be looked through.
 *
 * Every address is asked about before it is connected to: no name leads where its address may not.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "policies/broker/http.h"

struct bh_transfer;
struct bh_transfers;
struct event_base;

int bh_transfers_new(struct event_base *loop, struct bh_transfers **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_transfers_free(struct bh_transfers *pool); /* NULL is fine; all transfers are gone by now */

enum bh_flow { BH_FLOW_ON, BH_FLOW_PAUSE, BH_FLOW_CUT };

enum {
    BH_TRANSFER_PIECE = 64 * 1024, /* at most so much of a reply is read, and given, at once */
    BH_TRANSFER_BEFORE = 4 * 1024, /* and so many bytes before it may be written to */
};

/* Called from the loop. In on_head, on_data and give_body nothing of `arg` may be freed; in on_end it may. */
struct bh_transfer_ops {
    /* Of the final answer. False cuts it. */
    bool (*on_head)(void *arg, long status, const struct bh_http_header *headers, size_t n);
    /* What came of the body, at once. All of it is taken. PAUSE: nothing is read until bh_transfer_go_on. */
    enum bh_flow (*on_data)(void *arg, char *data, size_t len);
    /* The next bytes of the request's body; 0 at its end, -1 where none are there yet, -2 to give up. */
    ssize_t (*give_body)(void *arg, char *room, size_t size);
    /* Whether this address (IPv4 as IPv4-mapped) may be connected to. */
    bool (*permits)(void *arg, const unsigned char address[static 16]);
    /* Once, unless it was cancelled. `problem` is NULL where the answer is whole; `reason` is "timeout", "address"
     * (none that may be connected to) or "upstream". */
    void (*on_end)(void *arg, const char *problem, const char *reason);
};

struct bh_transfer_request {
    const char *method, *url;
    char *const *headers; /* "name: value"; both lists are borrowed until the end */
    size_t n_headers;
    char *const *more; /* the service's own */
    size_t n_more;
    int64_t length; /* of the body; -1: not known, 0: none */
    bool crowded;   /* there are many of them: a quarter of BH_TRANSFER_PIECE has to do */
};

/* NULL where there is no memory for it. */
struct bh_transfer *bh_transfer_start(struct bh_transfers *pool, const struct bh_transfer_request *req,
                                      const struct bh_transfer_ops *ops, void *arg);
/* There is a body to give again, or room for data. Not from a callback. */
void bh_transfer_go_on(struct bh_transfer *t);
/* None of its callbacks is called any more. May be called from one of them. NULL is fine. */
void bh_transfer_cancel(struct bh_transfer *t);

/* Seconds since 1970 of a date as HTTP writes it; -1 where it is none. */
int64_t bh_transfer_parse_date(const char *text);
