/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format: a msgpack map of protocol version and body. Version and length are checked before any field, by the
 * decoder too (inproc enforces no limit), after a pre-scan of depth and counts that allocates nothing. Duplicate and
 * non-text keys, text that is not UTF-8, unknown types and trailing bytes are refused. The only user of the msgpack
 * library.
 */
#pragma once

#include "base/err.h"

struct bh_buf;
struct bh_val;

#define BH_WIRE_VERSION 1
#define BH_WIRE_MAX_CONTROL (32 * 1024 * 1024) /* bytes: the lease of an agent that reads 10,000 artifacts fits */
#define BH_WIRE_MAX_DEPTH 12
#define BH_WIRE_MAX_OBJECTS 1048576

/* Appends one message to `out`, which is as before on failure: TOO_LARGE (one of the limits), BAD_VALUE. */
int bh_wire_encode(const struct bh_val *body, struct bh_buf *out, struct bh_err **err) BH_MUST_CHECK;
/* A message that says why another one was refused, in place of a body: decoding it gives that text as the error. */
void bh_wire_encode_error(const char *text, struct bh_buf *out);
/* Errors are -BH_E_PROTOCOL, or NOMEM. */
int bh_wire_decode(const void *data, size_t len, struct bh_val **ret_body, struct bh_err **err) BH_MUST_CHECK;
