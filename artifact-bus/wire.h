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
#define BH_WIRE_MAX_CONTROL (8 * 1024 * 1024) /* bytes: a lease with 128 KiB of environment per variable fits */
#define BH_WIRE_MAX_DEPTH 12
#define BH_WIRE_MAX_OBJECTS 262144

int bh_wire_encode(const struct bh_val *body, struct bh_buf *out, struct bh_err **err) BH_MUST_CHECK;
/* Errors are -BH_E_PROTOCOL. */
int bh_wire_decode(const void *data, size_t len, struct bh_val **ret_body, struct bh_err **err) BH_MUST_CHECK;
