/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The string map. Entries lie in an array in order of insertion; from nine entries on an open-addressed
 * index of positions is kept beside it. A deleted entry stays as a hole (no key) until the array is
 * full, and is then squeezed out, so that put and delete in turn stay constant time.
 */
#include "base/map.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"

#define LINEAR_MAX 8

struct entry {
    char *key; /* NULL: a hole */
    void *value;
    uint64_t hash;
};

struct bh_map {
    void (*free_value)(void *);
    struct entry *entries;
    size_t len, cap, live;
    uint32_t *index; /* position + 1, 0 for empty; NULL for a small map */
    size_t index_mask;
};

static uint64_t hash_seed(void)
{
    static uint64_t seed;
    uint64_t s = __atomic_load_n(&seed, __ATOMIC_RELAXED);
    if (s)
        return s;
    ssize_t got;
    do
        got = getrandom(&s, sizeof(s), 0);
    while (got < 0 && errno == EINTR);
    BH_ASSERT(got == (ssize_t)sizeof(s));
    s |= 1;
    uint64_t expected = 0; /* whoever comes second takes the seed of the first */
    return __atomic_compare_exchange_n(&seed, &expected, s, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? s : expected;
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[static 4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3, the keyed hash that other hash tables against hostile keys use. */
static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t k0 = hash_seed(), k1 = rotate(k0 * UINT64_C(0x9e3779b97f4a7c15), 29);
    uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                     k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    uint64_t word, tail = (uint64_t)n << 56;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, p + i, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (size_t k = 0; i + k < n; k++)
        tail |= (uint64_t)(unsigned char)p[i + k] << (8 * k);
    v[3] ^= tail;
    sip_round(v);
    v[0] ^= tail;
    v[2] ^= 0xff;
    for (int r = 0; r < 3; r++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct bh_map *bh_map_new(void (*free_value)(void *))
{
    struct bh_map *map = bh_alloc(sizeof(*map));
    map->free_value = free_value;
    return map;
}

static void free_entry(struct bh_map *map, struct entry *e)
{
    if (!e->key)
        return;
    bh_free(e->key);
    e->key = NULL;
    if (map->free_value)
        map->free_value(e->value);
    e->value = NULL;
}

void bh_map_free(struct bh_map *map)
{
    if (!map)
        return;
    for (size_t i = 0; i < map->len; i++)
        free_entry(map, &map->entries[i]);
    bh_free(map->entries);
    bh_free(map->index);
    bh_free(map);
}

size_t bh_map_len(const struct bh_map *map)
{
    return map ? map->live : 0;
}

static bool entry_is(const struct entry *e, const char *key, uint64_t hash)
{
    return e->key && e->hash == hash && strcmp(e->key, key) == 0;
}

static struct entry *find(const struct bh_map *map, const char *key, uint64_t hash)
{
    if (!map->index) {
        for (size_t i = 0; i < map->len; i++) {
            if (entry_is(&map->entries[i], key, hash))
                return &map->entries[i];
        }
        return NULL;
    }
    for (size_t slot = hash & map->index_mask; map->index[slot]; slot = (slot + 1) & map->index_mask) {
        struct entry *e = &map->entries[map->index[slot] - 1];
        if (entry_is(e, key, hash))
            return e;
    }
    return NULL;
}

static void index_add(struct bh_map *map, size_t position)
{
    size_t slot = map->entries[position].hash & map->index_mask;
    while (map->index[slot])
        slot = (slot + 1) & map->index_mask;
    map->index[slot] = (uint32_t)(position + 1);
}

static void squeeze(struct bh_map *map)
{
    size_t kept = 0;
    for (size_t i = 0; i < map->len; i++) {
        if (map->entries[i].key)
            map->entries[kept++] = map->entries[i];
    }
    map->len = kept;
}

/* Called when the array is full: holes go, and where half of it is alive it doubles. The index is made anew. */
static void make_room(struct bh_map *map)
{
    squeeze(map);
    if (map->live >= map->cap / 2) {
        map->cap = map->cap ? map->cap * 2 : LINEAR_MAX;
        BH_ASSERT(map->cap < UINT32_MAX / 4);
        map->entries = bh_realloc_array(map->entries, map->cap, sizeof(struct entry));
    }
    bh_free(map->index);
    map->index = NULL;
    if (map->cap <= LINEAR_MAX)
        return;
    map->index_mask = 1;
    while (map->index_mask < map->cap * 2)
        map->index_mask *= 2;
    map->index = bh_calloc(map->index_mask, sizeof(*map->index));
    map->index_mask--;
    for (size_t i = 0; i < map->len; i++)
        index_add(map, i);
}

bool bh_map_put(struct bh_map *map, const char *key, void *value)
{
    size_t key_len = strlen(key);
    uint64_t hash = hash_bytes(key, key_len);
    struct entry *e = find(map, key, hash);
    if (e) {
        void *old = e->value;
        e->value = value;
        if (map->free_value && old != value)
            map->free_value(old);
        return false;
    }
    if (map->len == map->cap)
        make_room(map);
    map->entries[map->len] = (struct entry){.key = bh_memdup(key, key_len + 1), .value = value, .hash = hash};
    if (map->index)
        index_add(map, map->len);
    map->len++;
    map->live++;
    return true;
}

static struct entry *lookup(const struct bh_map *map, const char *key)
{
    return map && map->live ? find(map, key, hash_bytes(key, strlen(key))) : NULL;
}

void *bh_map_get(const struct bh_map *map, const char *key)
{
    const struct entry *e = lookup(map, key);
    return e ? e->value : NULL;
}

bool bh_map_has(const struct bh_map *map, const char *key)
{
    return lookup(map, key) != NULL;
}

bool bh_map_del(struct bh_map *map, const char *key)
{
    struct entry *e = lookup(map, key);
    if (!e)
        return false;
    free_entry(map, e);
    map->live--;
    return true;
}

bool bh_map_next(const struct bh_map *map, size_t *it, const char **ret_key, void **ret_value)
{
    while (map && *it < map->len) {
        const struct entry *e = &map->entries[(*it)++];
        if (!e->key)
            continue;
        if (ret_key)
            *ret_key = e->key;
        if (ret_value)
            *ret_value = e->value;
        return true;
    }
    return false;
}
