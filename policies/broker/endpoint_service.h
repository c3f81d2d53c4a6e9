/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service as the boxes of a run share it: where it is, what of it they may call, the headers with their secrets, and
 * whose turn it is. The secrets are resolved when the first box comes and wiped when the last one has gone.
 */
#pragma once

#include "base/err.h"
#include "policies/broker/endpoint_gate.h"
#include "policies/needles.h"
#include "policies/range.h"

struct bh_val;

struct bh_service {
    int refs;
    int give_up_fd; /* while it is made */
    char *key;      /* what makes two the same: run and definition */
    char *name;     /* as the document calls it */
    char *host;     /* for messages */
    char *base;     /* scheme, host, path without a slash at its end: what a path is put behind */
    char **headers; /* "name: value", in memory that is wiped */
    size_t n_headers;
    char **allow;
    size_t n_allow;
    struct bh_range *ranges; /* addresses that the site permits beyond public ones */
    size_t n_ranges;
    struct bh_needles *needles;
    struct bh_gate gate;
};

/*
 * From "endpoint" and "ranges" of a message "open". Errors: INVALID, and those of bh_secret_resolve. Blocks with it,
 * and like it may be called from any thread; `give_up_fd`: see there.
 */
int bh_service_new(const struct bh_val *msg, int give_up_fd, struct bh_service **ret,
                   struct bh_err **err) BH_MUST_CHECK;
/* Whether a secret of it comes from a command, which may take its time. */
bool bh_service_is_slow(const struct bh_val *msg);
void bh_service_free(struct bh_service *s); /* NULL is fine; whatever refs says */
/* Of the service that bh_service_new would make. The caller's. */
char *bh_service_key(const struct bh_val *msg);

bool bh_service_permits(const struct bh_service *s, const unsigned char address[static 16]);
/* Whether two names of headers are one to some service: case does not count, and gateways make '_' of '-'. */
bool bh_header_is(const char *name, const char *other);
bool bh_header_begins(const char *name, const char *beginning); /* in the same sense */
/* Whether the service sets this header itself. */
bool bh_service_sets(const struct bh_service *s, const char *header);
