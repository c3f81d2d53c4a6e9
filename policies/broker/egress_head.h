/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of HTTP messages, as far as a proxy has to understand them: where a request goes, and what of it goes on. What
 * is said for one hop goes no further; Host is what was decided about. Answers come from hostile hosts and are read as
 * strictly as requests. Pure; how requests are read is http.h's.
 */
#pragma once

#include "base/buf.h"
#include "policies/broker/egress_policy.h"
#include "policies/broker/http.h"

/* Where the body of a request ends, so that nothing behind it reaches the host that was decided about. */
struct bh_egress_body {
    enum bh_http_body kind;
    uint64_t left; /* of BH_HTTP_LENGTH */
    struct bh_http_chunks chunks;
    bool bad;
};

struct bh_egress_request {
    bool connect;
    struct bh_host host;
    uint16_t port;
    struct bh_buf head; /* what goes upstream; empty with `connect` */
    struct bh_egress_body body;
};

/*
 * What a client has sent so far. Gives the length of the head and a reason: LISTED (the head is good, nothing is
 * decided), BAD_REQUEST, BAD_HOST or HEAD_TOO_LARGE; 0 where more has to come. The caller finishes ret->head in any
 * case.
 */
size_t bh_egress_request_read(const char *data, size_t len, struct bh_egress_request *ret,
                              enum bh_egress_reason *ret_reason);

/* How many of the bytes belong to the body, as they are. */
size_t bh_egress_body_take(struct bh_egress_body *b, const char *data, size_t len);
bool bh_egress_body_is_over(const struct bh_egress_body *b);

/* The length of a head with its empty line, 0 where the end is not there yet. `from`: what was looked at before. */
size_t bh_egress_head_end(const char *data, size_t len, size_t from);

enum bh_egress_answer {
    BH_ANSWER_BAD,
    BH_ANSWER_INTERIM, /* 1xx: another head follows */
    BH_ANSWER_FINAL,
};
/* A whole head of an answer; what goes to the client is appended to `out`: it says that the connection ends with it. */
enum bh_egress_answer bh_egress_answer_read(const char *head, size_t len, struct bh_buf *out);
