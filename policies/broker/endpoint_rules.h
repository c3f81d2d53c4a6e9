/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an endpoint's `allow` lets through: "METHOD /path", compared after normalising, exactly. Where a service might
 * read a path otherwise than it was compared (dots behind an encoded slash, backslashes, twice encoded), it is refused.
 * Pure.
 */
#pragma once

#include "base/compiler.h"

/* Of a request's target, once it is normalised. Zero-initialise; owns both. */
struct bh_endpoint_target {
    char *compared; /* the path, decoded but for slashes: "/@scope%2Fname" */
    char *sent;     /* path and query as they go on: "/@scope%2Fname?x=1" */
};

/*
 * Percent signs before what needs none are dropped, the others written in capitals, dot segments resolved. Returns 0,
 * or -1 with *ret_why (static) where the target is none that can be compared.
 */
int bh_endpoint_normalise(const char *target, struct bh_endpoint_target *ret, const char **ret_why) BH_MUST_CHECK;
void bh_endpoint_target_fini(struct bh_endpoint_target *t);

/* Whether one of the rules fits; method `*` is any, `*` in a path stays in a segment, `**` crosses, and neither takes a
 * slash that is escaped. */
bool bh_endpoint_allows(char *const *rules, size_t n, const char *method, const char *path);
