/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether content is what `validate` asks for: size, lines, kind, paths. Pure, over bytes that an attacker may have
 * chosen: linear time, memory bounded by the depth of JSON, no recursion. `command` is the worker's (it needs a box).
 *
 *   json    one JSON value (RFC 8259) in UTF-8 and nothing behind it, at most BH_VALIDATE_DEPTH deep
 *   jsonl   such a value on each line; no empty line
 *   csv     UTF-8 text of records with equally many fields (RFC 4180, lines may end in LF), quotes closed
 *   text    UTF-8 without control characters but tab, line feed and carriage return
 *   binary  any bytes
 *   patch   a unified diff (git's or plain): UTF-8, relative paths that go nowhere up, no symlink, submodule or binary
 *           part, no mode but 644 and 755; `paths` and `max_files` are about the files it changes
 * `max_lines` counts lines; a last one needs no end.
 */
#pragma once

#include "artifact-bus/lease.h"

enum { BH_VALIDATE_DEPTH = 100 };

/*
 * NULL: it is; else what is wrong, in words that hold nothing of the content: "line 3 is no JSON value". The caller
 * owns the text.
 */
char *bh_validate_bytes(const struct bh_lease_validate *v, const void *data, size_t len) BH_MUST_CHECK;

/* validate_json.c: the offset of the first byte at which `text` can be no JSON value; `len` where it is one, or where
 * it ends too early (then *ret_early). */
size_t bh_validate_json(const char *text, size_t len, bool *ret_early);
/* validate_patch.c */
char *bh_validate_patch(const struct bh_lease_validate *v, const char *text, size_t len) BH_MUST_CHECK;
