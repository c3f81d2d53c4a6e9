/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box sends to a broker, as HTTP/1.x: heads of requests and chunked bodies. Strict, since whoever reads the same
 * bytes next must not read another request in them: lines end in CRLF, nothing is folded, one framing, one host, no
 * control character anywhere. The replies of a broker's own making are here too; those of others are the library's.
 *
 * Not libevent's evhttp: it hands a request over when its whole body is there, and does not tell two framings apart.
 */
#pragma once

#include <sys/types.h>

#include "base/compiler.h"

struct bh_buf;

enum {
    BH_HTTP_HEAD_MAX = 64 * 1024,
    BH_HTTP_HEADERS_MAX = 128,
};

struct bh_http_header {
    const char *name, *value;
};

/* Zero-initialise. Everything in it lives in `text`. */
struct bh_http_request {
    char *text;
    const char *method, *target;
    int minor; /* HTTP/1.minor: 0 or 1 */
    struct bh_http_header headers[BH_HTTP_HEADERS_MAX];
    size_t n_headers;
    enum bh_http_body { BH_HTTP_NO_BODY, BH_HTTP_LENGTH, BH_HTTP_CHUNKED } body;
    int64_t length;        /* of BH_HTTP_LENGTH */
    bool keep_alive;       /* the connection may serve another request */
    bool expects_continue; /* waits for "100 Continue" before it sends the body */
};

/*
 * Reads one head from the start of `data`. Returns the bytes that it took, 0 where the head is not whole yet, or minus
 * the status to answer (400, 417, 431, 501, 505); *ret_why then says why (static). Empty lines before it are skipped.
 */
long bh_http_read_head(const char *data, size_t len, struct bh_http_request *ret, const char **ret_why) BH_MUST_CHECK;
void bh_http_request_fini(struct bh_http_request *req); /* wipes nothing; zeroes the struct */
/* The value of the first header of that name, in any case; NULL where there is none. */
const char *bh_http_get(const struct bh_http_request *req, const char *name);
/* Whether the header belongs to one connection and not to the request: Connection, Transfer-Encoding, Proxy-*, … */
bool bh_http_is_hop(const char *name);
/* Whether the comma list holds the word, in any case. */
bool bh_http_list_has(const char *list, const char *word);
bool bh_http_is_token(const char *s, size_t len);

/* A chunked body as it comes in. Zero-initialise. */
struct bh_http_chunks {
    enum bh_http_chunk_state { BH_CHUNK_SIZE, BH_CHUNK_DATA, BH_CHUNK_DATA_END, BH_CHUNK_TRAILER, BH_CHUNK_DONE } state;
    uint64_t left;
    unsigned line; /* bytes of the line that is being read */
    bool digits, extension, cr;
};
/*
 * Takes what it can from `data`, up to and with one stretch of payload (*ret_payload within data, *ret_n bytes, 0 where
 * there was none). Returns the bytes it took, -1 where they are no chunks. The body has ended at state BH_CHUNK_DONE.
 */
ssize_t bh_http_chunks_take(struct bh_http_chunks *c, const char *data, size_t len, const char **ret_payload,
                            size_t *ret_n) BH_MUST_CHECK;

/* "OK", "Forbidden"; "" for what has no name here. */
const char *bh_http_status_text(long status);
/* A whole reply of the broker's own: {"error":{"type":"bulkhead","message":…}}, after which it closes or not. */
void bh_http_add_refusal(struct bh_buf *out, long status, const char *message, bool keep_alive);
