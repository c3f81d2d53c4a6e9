/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frozen uppers. A layer is a directory with any of root/ usr/ opt/, and a file `below` that names the layer it stands
 * on (absent: it stands on the base). Layers are immutable; a chain that gets long is squashed into one by hard links.
 *
 * A half-made layer has a name that starts with BH_LAYER_HALF. All calls block on the disk.
 */
#pragma once

#include "base/err.h"

#define BH_LAYER_HALF ".half-"
#define BH_LAYERS_MAX 30 /* longer chains are squashed when they are frozen */

struct bh_layer_chain {
    char **names; /* newest first */
    size_t n;
};
void bh_layer_chain_fini(struct bh_layer_chain *chain);

/* The layer `newest` and all below it. NOT_FOUND names the one that is missing; STORE_CORRUPT: a cycle, a bad name. */
int bh_layer_chain_read(int layers, const char *newest, struct bh_layer_chain *ret, struct bh_err **err) BH_MUST_CHECK;

/*
 * Makes the tree `upper` (beneath dirfd, on the same file system) the layer `name` on top of `below` (NULL: none), and
 * durable. EXISTS where there is one of that name.
 */
int bh_layer_freeze(int dirfd, const char *upper, int layers, const char *name, const char *below,
                    struct bh_err **err) BH_MUST_CHECK;

/*
 * The trees of `chain`, newest first, as one: `name` in `layers`, with no layer below it. What a chain hides of the
 * base (whiteouts, opaque directories) the one layer hides too.
 */
int bh_layer_squash(int layers, const struct bh_layer_chain *chain, const char *name,
                    struct bh_err **err) BH_MUST_CHECK;
/* The same by copies: of the chain nothing is touched, not even the number of links. */
int bh_layer_squash_copy(int layers, const struct bh_layer_chain *chain, const char *name,
                         struct bh_err **err) BH_MUST_CHECK;
