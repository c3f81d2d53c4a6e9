/* SPDX-License-Identifier: Apache-2.0 */
/* The provenance record that travels with every artifact. Pure. */
#pragma once

#include "artifact-bus/lease.h"

/*
 * The record of one output of an execution:
 * {"name","digest","size","run","agent","stage","attempt","try","instance","box","base","base_digest","layers":[],"command":"sha256:…",
 * "argv":[],"setup":…,"box_setup":…,"prepare":…,"check":…,"snapshot","snapshot_key","prompt":…,"params":…,"env":…,"user","files":[{"path","digest"}],"inputs":[{"name","digest","agent"}],"label","why","started","ended","exit_code"}.
 * `base_digest` is that of an image, null for the base `host`. `command`, `setup`, `box_setup` (of boxes.NAME),
 * `prepare`, `check`, `prompt`, `params` and `env` are digests: what differs there explains why outputs differ. `env`
 * leaves out what names the execution itself. An input that has passed gates has "passed", too:
 * [{"gate","how","by","at","reason"}]. `snapshot` is the digest of the frozen state that it started from, and
 * the key, which covers setup, preparation and files, what it is kept under; null where there is none. `argv` is null
 * where it is longer than 4 KiB. The caller owns it.
 */
struct bh_val *bh_provenance_of_output(const struct bh_lease *lease, const struct bh_result *result,
                                       const struct bh_result_output *output, bool tainted, const char *why);
/* Of what attempts start from, in the same words: {"command":"sha256:…","files":[{"path","digest"}]}. */
struct bh_val *bh_provenance_of_state(const struct bh_lease *lease);
/* The record of an output of one of those attempts: what came before it is in there too. NULL: there was no such thing.
 */
void bh_provenance_add_state(struct bh_val *record, const struct bh_val *setup, const struct bh_val *prepare);
/* Of a source: {"name","digest","size","source":PATH,"label","why"}. */
struct bh_val *bh_provenance_of_source(const char *name, const struct bh_object *object, const char *path,
                                       bool tainted);
