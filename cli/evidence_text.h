/* SPDX-License-Identifier: Apache-2.0 */
/* The evidence of a collision or a wedge (docs/watch.md), in lines for people. */
#pragma once

struct bh_buf;

/* `json` as an attempt has it; NULL, or what is none: nothing. Lines are indented, and escaped by whoever prints them.
 */
void bh_evidence_tell(const char *json, struct bh_buf *out);
