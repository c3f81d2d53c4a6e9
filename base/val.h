/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value: null, bool, integer, number, text, list, map. What JSON, msgpack messages and event payloads are read into
 * and written from. Containers own their members. Text may hold NUL and is always valid UTF-8 (a byte that is not is
 * replaced by U+FFFD on the way in: a reader of outside bytes checks first). Maps keep the order of insertion.
 *
 * Getters never fail: a NULL value, a wrong type or an absent key gives the empty answer of the type, so a reader
 * checks once what it needs (bh_val_type) and reads the rest plainly.
 */
#pragma once

#include "base/compiler.h"

enum bh_val_type { BH_VAL_NULL, BH_VAL_BOOL, BH_VAL_INT, BH_VAL_NUM, BH_VAL_STR, BH_VAL_LIST, BH_VAL_MAP };

struct bh_val;

struct bh_val *bh_val_null(void);
struct bh_val *bh_val_bool(bool b);
struct bh_val *bh_val_int(int64_t i);
struct bh_val *bh_val_num(double d);
struct bh_val *bh_val_str(const char *s); /* NULL gives a null value */
struct bh_val *bh_val_strn(const char *s, size_t n);
struct bh_val *bh_val_list(void);
struct bh_val *bh_val_map(void);
struct bh_val *bh_val_copy(const struct bh_val *v);
void bh_val_free(struct bh_val *v); /* NULL is fine; deep */

enum bh_val_type bh_val_type(const struct bh_val *v); /* NULL gives BH_VAL_NULL */
bool bh_val_get_bool(const struct bh_val *v);
int64_t bh_val_get_int(const struct bh_val *v);     /* a number is truncated */
double bh_val_get_num(const struct bh_val *v);      /* an integer is converted */
const char *bh_val_get_str(const struct bh_val *v); /* borrowed; NULL where it is no text */
size_t bh_val_str_len(const struct bh_val *v);

size_t bh_val_len(const struct bh_val *v);                     /* of a list or map, else 0 */
struct bh_val *bh_val_at(const struct bh_val *list, size_t i); /* borrowed; of a map: the i-th value */
const char *bh_val_key_at(const struct bh_val *map, size_t i);
struct bh_val *bh_val_get(const struct bh_val *map, const char *key); /* borrowed or NULL */

/* Both take `item`; bh_val_set replaces. They return item, so that containers can be built in place. */
struct bh_val *bh_val_add(struct bh_val *list, struct bh_val *item);
struct bh_val *bh_val_set(struct bh_val *map, const char *key, struct bh_val *item);
/* Shorthands for maps. */
void bh_val_set_str(struct bh_val *map, const char *key, const char *s); /* NULL sets null */
void bh_val_set_int(struct bh_val *map, const char *key, int64_t i);
void bh_val_set_bool(struct bh_val *map, const char *key, bool b);
const char *bh_val_str_of(const struct bh_val *map, const char *key); /* NULL where absent */
int64_t bh_val_int_of(const struct bh_val *map, const char *key);     /* 0 where absent */
bool bh_val_bool_of(const struct bh_val *map, const char *key);       /* false where absent */

bool bh_val_equal(const struct bh_val *a, const struct bh_val *b); /* order of map keys does not count */

static inline void bh_val_freep(struct bh_val **v)
{
    bh_val_free(*v);
}
#define BH_CLEANUP_VAL BH_CLEANUP(bh_val_freep)
