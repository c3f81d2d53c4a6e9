/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this host can hold the boxes of a plan to the limits that its document asks for: before anything runs. */
#pragma once

#include "policies/site.h"
#include "topologies/plan.h"

struct bh_boxes;

/*
 * Limits that are asked for and cannot be enforced are -BH_E_HOST, one error per place in the document, each with who
 * asks and the remedies; unless the site allows it: then *ret_watched says which ones are only watched, "best-effort:
 * memory cpus" (the caller frees it; NULL where all are enforced).
 */
int bh_run_limits_check(const struct bh_plan *plan, const struct bh_boxes *boxes, const struct bh_policy *policy,
                        char **ret_watched, struct bh_errlist *errors) BH_MUST_CHECK;
/* "memory, cpus" of that text; NULL where it is none. The caller frees it. */
char *bh_run_limits_list(const char *watched);
