/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from strings to pointers that keeps the order of insertion. Keys are copied; values are
 * borrowed unless a destructor is given. Hashing is seeded per process (hostile keys cannot choose
 * collisions).
 */
#pragma once

#include "base/compiler.h"

struct bh_map;

struct bh_map *bh_map_new(void (*free_value)(void *)); /* NULL: values are borrowed */
void bh_map_free(struct bh_map *map);
size_t bh_map_len(const struct bh_map *map);
/* Puts or replaces (the old value is freed by the destructor). Returns true where the key was new. */
bool bh_map_put(struct bh_map *map, const char *key, void *value);
void *bh_map_get(const struct bh_map *map, const char *key); /* NULL where there is none */
bool bh_map_has(const struct bh_map *map, const char *key);
bool bh_map_del(struct bh_map *map, const char *key);
/* Walks in order of insertion: `size_t it = 0; while (bh_map_next(map, &it, &key, &value)) ...` No changes meanwhile.
 */
bool bh_map_next(const struct bh_map *map, size_t *it, const char **ret_key, void **ret_value);

static inline void bh_map_freep(struct bh_map **map)
{
    bh_map_free(*map);
}
#define BH_CLEANUP_MAP BH_CLEANUP(bh_map_freep)
