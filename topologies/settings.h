/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small documents that are no pipelines (the site's policy): the same YAML, the same strictness and positions, another
 * table of keys.
 */
#pragma once

#include "topologies/read.h"
#include "topologies/scalar.h"

/*
 * Reads `text` by the table into `target`. Nothing of the document lives on: readers must copy what they keep. All
 * errors go to `errors`; returns 0 or the negative code of the first. An empty document has no keys.
 */
int bh_settings_load(const char *file, const char *text, size_t len, const struct bh_key_table *table, void *target,
                     struct bh_errlist *errors) BH_MUST_CHECK;

/* A map of limits as a pipeline has them; what is wrong is reported and left out. */
void bh_settings_limits(struct bh_reader *r, struct bh_node *n, struct bh_limits *ret);
