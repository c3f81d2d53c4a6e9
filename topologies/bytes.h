/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of a document's bytes that comes before anything parses them: the YAML library must never see bytes that
 * are not clean UTF-8 text (it loops for ever on some and reads others as nothing).
 */
#pragma once

#include "base/err.h"

/*
 * Strict UTF-8; no control characters but tab, newline, carriage return and U+0085; a byte order mark at the start
 * only; at most BH_PIPELINE_MAX_BYTES; no line that starts with '%'. Returns 0, or the negative code of the one error
 * added, with line and column (in characters) of the first bad byte.
 */
int bh_bytes_check(const char *file, const char *text, size_t len, struct bh_errlist *errors) BH_MUST_CHECK;
