/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scalars of the pipeline grammar, also used by the command line: durations `500ms 30s 10m 1h30m 2d`, sizes
 * `512KiB 2GiB 64MB`, integers, finite decimals. Strict: the whole text must match, overflow is an error.
 * All return 0 or -BH_E_BAD_VALUE and set no message.
 */
#pragma once

#include "base/compiler.h"

int bh_parse_duration(const char *text, int64_t *ret_ns) BH_MUST_CHECK;
int bh_parse_size(const char *text, int64_t *ret_bytes) BH_MUST_CHECK;
int bh_parse_int(const char *text, int64_t *ret) BH_MUST_CHECK; /* decimal, optional '-' */
int bh_parse_number(const char *text,
                    double *ret) BH_MUST_CHECK; /* finite decimal, exponent allowed; no hex, inf, nan */

#define BH_UNIT_TEXT 32
char *bh_format_duration(int64_t ns, char buf[static BH_UNIT_TEXT]); /* "1.2s", "4m07s": for people */
char *bh_format_size(int64_t bytes, char buf[static BH_UNIT_TEXT]);  /* "1.5 MiB": for people */
