/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rule of trust demands of a whole plan, beyond what placement refuses by itself (a tainted box with powers,
 * content of others in a box that all share): content that we did not write does not share a machine with credentials
 * that we cannot cheaply rotate, and nothing private leaves through a box that holds such content. Pure.
 *
 * - Private data, untrusted content and an open way out (`public`, an allow-list, `host`) never meet in one box.
 * - A tainted artifact does not decide whether a box with powers runs something, unless `accept` lets it in or a person
 *   is asked (`gate: approve`).
 * - No allow-list and no upstream names what is never public (loopback, private, link-local, metadata), unless the site
 *   permits its range.
 */
#pragma once

#include "base/err.h"

struct bh_plan;
struct bh_policy;

/*
 * Adds all that it finds to `errors`, each with its place and the way of the label. `policy` may be NULL: none. Returns
 * 0, or the negative code of the first kind that was found: BH_E_BAD_VALUE (a host that is none), BH_E_TRUST,
 * BH_E_POLICY.
 */
int bh_trust_check(const struct bh_plan *plan, const struct bh_policy *policy, struct bh_errlist *errors) BH_MUST_CHECK;
