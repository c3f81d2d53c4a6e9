/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of the site policy alone. */
#pragma once

#include "policies/site.h"
#include "topologies/read.h"

/* site_keys.c: the table of the file, for a struct bh_site; what it reads is the site's. */
extern const struct bh_key_table bh_site_table;

/* site_check.c: the rules for an agent of a pipeline. Its lists are the site's. */
struct bh_site_rules bh_site_rules_for(const struct bh_site *site, const struct bh_pipeline *pipeline,
                                       const struct bh_agent *doc);
