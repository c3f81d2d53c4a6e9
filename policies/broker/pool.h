/* SPDX-License-Identifier: Apache-2.0 */
/* What all connections of a broker may have together, and how it is shared. */
#pragma once

#include "base/compiler.h"

#define BH_POOL_BYTES ((size_t)32 << 20)

/* What each of `n` has of `all`, within bounds. */
size_t bh_pool_share(size_t all, size_t n, size_t least, size_t most);
/* How many connections there is room for, each with a descriptor at either end. */
size_t bh_pool_conns(void);
