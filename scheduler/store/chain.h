/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash chain of a run's events. Link 0 stands for the run itself; link n is
 *     sha256(link n-1 (32 bytes) | run | n | at | kind | payload)
 * with integers as 8 bytes, texts as their length in 8 bytes and their bytes, big-endian: nothing can be moved from
 * one field, event or run to another without a change of the chain.
 */
#pragma once

#include "artifact-bus/digest.h"
#include "base/clock.h"

struct bh_buf;

struct bh_head { /* a place in the chain */
    int64_t seq;
    struct bh_digest chain;
};

struct bh_digest bh_chain_start(const char *run);
/* The link after `prev`. `scratch` is the caller's, reused from link to link. */
struct bh_head bh_chain_next(const struct bh_head *prev, const char *run, struct bh_wall at, const char *kind,
                             const char *payload, struct bh_buf *scratch);

/* The parts that are hashed, for whoever makes other digests of fields. */
void bh_chain_add_int(struct bh_buf *out, int64_t value);
void bh_chain_add_text(struct bh_buf *out, const char *text); /* NULL differs from every text */
