/* SPDX-License-Identifier: Apache-2.0 */
/* What a lease says of secrets: references as the document has them, never values. */
#pragma once

#include "artifact-bus/lease.h"
#include "topologies/pipeline.h"

/*
 * The secret of that name, which the document has. Relative paths (a file's, and that of a program with a '/') are
 * taken from the folder of `file`, the document's absolute path. `variable`: NULL in endpoints. Of ret the lease is the
 * owner.
 */
void bh_lease_secret_of(const struct bh_pipeline *p, const char *file, const char *name, const char *variable,
                        struct bh_lease_secret *ret);
struct bh_plan;
struct bh_val;
/*
 * Whether those that the wanted agents need, themselves or for their endpoints, could be had: each that could not is an
 * error at its place in the document. No value is read.
 */
int bh_lease_secrets_check(const struct bh_plan *plan, const char *file, const struct bh_val *submission,
                           struct bh_errlist *errors);
/* Those that an agent lists, for its `run`. */
void bh_lease_fill_secrets(const struct bh_pipeline *p, const char *file, const struct bh_agent *agent,
                           struct bh_lease *lease);
