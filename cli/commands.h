/* SPDX-License-Identifier: Apache-2.0 */
/* Every verb, one file each. */
#pragma once

#include "cli/args.h"

#define BH_VERB(name) extern const struct bh_cmd bh_cmd_##name;
BH_VERB(advise)
BH_VERB(approve)
BH_VERB(artifacts)
BH_VERB(audit)
BH_VERB(completion)
BH_VERB(diff)
BH_VERB(doctor)
BH_VERB(explain)
BH_VERB(gc)
BH_VERB(get)
BH_VERB(init)
BH_VERB(lint)
BH_VERB(logs)
BH_VERB(plan)
BH_VERB(provenance)
BH_VERB(ps)
BH_VERB(reject)
BH_VERB(run)
BH_VERB(shell)
BH_VERB(show)
BH_VERB(version)
#undef BH_VERB

/* In the order of `bulkhead help`. */
extern const struct bh_cmd *const bh_commands[];
extern const size_t bh_n_commands;
const struct bh_cmd *bh_command_find(const char *name); /* NULL where there is none */
