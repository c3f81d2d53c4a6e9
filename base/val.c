/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values. Containers own what is in them. Text that is not UTF-8 is mended on the way in (each bad byte
 * becomes U+FFFD), so that whoever writes values out need not check. Depth is bounded by whoever reads
 * documents and messages; free, copy and equal recurse once per level.
 */
#include "base/val.h"

#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

struct bh_val {
    enum bh_val_type type;
    union {
        bool b;
        int64_t i;
        double d;
        struct {
            char *s;
            size_t len;
        } str;
        struct {
            struct bh_val **items;
            size_t len, cap;
        } list;
        struct bh_map *map; /* nothing is ever deleted from it, so entry i is the i-th inserted */
    };
};

static struct bh_val *new_val(enum bh_val_type type)
{
    struct bh_val *v = bh_alloc(sizeof(*v));
    v->type = type;
    return v;
}

struct bh_val *bh_val_null(void)
{
    return new_val(BH_VAL_NULL);
}

struct bh_val *bh_val_bool(bool b)
{
    struct bh_val *v = new_val(BH_VAL_BOOL);
    v->b = b;
    return v;
}

struct bh_val *bh_val_int(int64_t i)
{
    struct bh_val *v = new_val(BH_VAL_INT);
    v->i = i;
    return v;
}

struct bh_val *bh_val_num(double d)
{
    struct bh_val *v = new_val(BH_VAL_NUM);
    v->d = d;
    return v;
}

struct bh_val *bh_val_str(const char *s)
{
    return s ? bh_val_strn(s, strlen(s)) : bh_val_null();
}

/* NULL where the text is good as it is. */
static char *mended(const char *s, size_t n, size_t *ret_len)
{
    size_t good = bh_utf8_check(s, n);
    if (good == n)
        return NULL;
    struct bh_buf out = BH_BUF_INIT;
    while (good < n) {
        bh_buf_add(&out, s, good);
        bh_buf_adds(&out, "\xef\xbf\xbd");
        s += good + 1;
        n -= good + 1;
        good = bh_utf8_check(s, n);
    }
    bh_buf_add(&out, s, n);
    *ret_len = out.len;
    return bh_buf_take(&out);
}

struct bh_val *bh_val_strn(const char *s, size_t n)
{
    struct bh_val *v = new_val(BH_VAL_STR);
    v->str.len = n;
    v->str.s = mended(s, n, &v->str.len);
    if (!v->str.s) {
        v->str.s = bh_alloc(n + 1);
        if (n)
            memcpy(v->str.s, s, n);
    }
    return v;
}

struct bh_val *bh_val_list(void)
{
    return new_val(BH_VAL_LIST);
}

static void free_val(void *v)
{
    bh_val_free(v);
}

struct bh_val *bh_val_map(void)
{
    struct bh_val *v = new_val(BH_VAL_MAP);
    v->map = bh_map_new(free_val);
    return v;
}

static struct bh_val *copy_list(const struct bh_val *v)
{
    struct bh_val *copy = bh_val_list();
    for (size_t i = 0; i < v->list.len; i++)
        bh_val_add(copy, bh_val_copy(v->list.items[i]));
    return copy;
}

static struct bh_val *copy_map(const struct bh_val *v)
{
    struct bh_val *copy = bh_val_map();
    size_t it = 0;
    const char *key;
    void *value;
    while (bh_map_next(v->map, &it, &key, &value))
        bh_val_set(copy, key, bh_val_copy(value));
    return copy;
}

struct bh_val *bh_val_copy(const struct bh_val *v)
{
    switch (bh_val_type(v)) {
    case BH_VAL_BOOL:
        return bh_val_bool(v->b);
    case BH_VAL_INT:
        return bh_val_int(v->i);
    case BH_VAL_NUM:
        return bh_val_num(v->d);
    case BH_VAL_STR:
        return bh_val_strn(v->str.s, v->str.len);
    case BH_VAL_LIST:
        return copy_list(v);
    case BH_VAL_MAP:
        return copy_map(v);
    case BH_VAL_NULL:
        break;
    }
    return bh_val_null();
}

void bh_val_free(struct bh_val *v)
{
    if (!v)
        return;
    if (v->type == BH_VAL_STR)
        bh_free(v->str.s);
    if (v->type == BH_VAL_MAP)
        bh_map_free(v->map);
    if (v->type == BH_VAL_LIST) {
        for (size_t i = 0; i < v->list.len; i++)
            bh_val_free(v->list.items[i]);
        bh_free(v->list.items);
    }
    bh_free(v);
}

enum bh_val_type bh_val_type(const struct bh_val *v)
{
    return v ? v->type : BH_VAL_NULL;
}

bool bh_val_get_bool(const struct bh_val *v)
{
    return bh_val_type(v) == BH_VAL_BOOL && v->b;
}

/* The bounds are powers of two, so that they are exact as numbers. */
static int64_t truncated(double d)
{
    if (d != d)
        return 0;
    if (d >= 9223372036854775808.0)
        return INT64_MAX;
    return d < -9223372036854775808.0 ? INT64_MIN : (int64_t)d;
}

int64_t bh_val_get_int(const struct bh_val *v)
{
    if (bh_val_type(v) == BH_VAL_NUM)
        return truncated(v->d);
    return bh_val_type(v) == BH_VAL_INT ? v->i : 0;
}

double bh_val_get_num(const struct bh_val *v)
{
    if (bh_val_type(v) == BH_VAL_INT)
        return (double)v->i;
    return bh_val_type(v) == BH_VAL_NUM ? v->d : 0;
}

const char *bh_val_get_str(const struct bh_val *v)
{
    return bh_val_type(v) == BH_VAL_STR ? v->str.s : NULL;
}

size_t bh_val_str_len(const struct bh_val *v)
{
    return bh_val_type(v) == BH_VAL_STR ? v->str.len : 0;
}

size_t bh_val_len(const struct bh_val *v)
{
    if (bh_val_type(v) == BH_VAL_LIST)
        return v->list.len;
    return bh_val_type(v) == BH_VAL_MAP ? bh_map_len(v->map) : 0;
}

static const char *entry_at(const struct bh_val *map, size_t i, struct bh_val **ret)
{
    const char *key;
    void *value;
    if (bh_val_type(map) != BH_VAL_MAP || !bh_map_next(map->map, &i, &key, &value))
        return NULL;
    if (ret)
        *ret = value;
    return key;
}

struct bh_val *bh_val_at(const struct bh_val *list, size_t i)
{
    struct bh_val *value = NULL;
    if (bh_val_type(list) == BH_VAL_LIST)
        return i < list->list.len ? list->list.items[i] : NULL;
    (void)entry_at(list, i, &value);
    return value;
}

const char *bh_val_key_at(const struct bh_val *map, size_t i)
{
    return entry_at(map, i, NULL);
}

struct bh_val *bh_val_get(const struct bh_val *map, const char *key)
{
    return bh_val_type(map) == BH_VAL_MAP ? bh_map_get(map->map, key) : NULL;
}

struct bh_val *bh_val_add(struct bh_val *list, struct bh_val *item)
{
    BH_ASSERT(bh_val_type(list) == BH_VAL_LIST);
    if (!item)
        item = bh_val_null();
    *BH_PUSH(list->list.items, list->list.len, list->list.cap) = item;
    return item;
}

struct bh_val *bh_val_set(struct bh_val *map, const char *key, struct bh_val *item)
{
    BH_ASSERT(bh_val_type(map) == BH_VAL_MAP);
    size_t len;
    BH_CLEANUP_FREE char *good_key = mended(key, strlen(key), &len);
    if (!item)
        item = bh_val_null();
    (void)bh_map_put(map->map, good_key ? good_key : key, item);
    return item;
}

void bh_val_set_str(struct bh_val *map, const char *key, const char *s)
{
    bh_val_set(map, key, bh_val_str(s));
}

void bh_val_set_int(struct bh_val *map, const char *key, int64_t i)
{
    bh_val_set(map, key, bh_val_int(i));
}

void bh_val_set_bool(struct bh_val *map, const char *key, bool b)
{
    bh_val_set(map, key, bh_val_bool(b));
}

const char *bh_val_str_of(const struct bh_val *map, const char *key)
{
    return bh_val_get_str(bh_val_get(map, key));
}

int64_t bh_val_int_of(const struct bh_val *map, const char *key)
{
    return bh_val_get_int(bh_val_get(map, key));
}

bool bh_val_bool_of(const struct bh_val *map, const char *key)
{
    return bh_val_get_bool(bh_val_get(map, key));
}

static bool maps_equal(const struct bh_val *a, const struct bh_val *b)
{
    size_t it = 0;
    const char *key;
    void *value;
    while (bh_map_next(a->map, &it, &key, &value)) {
        if (!bh_map_has(b->map, key) || !bh_val_equal(value, bh_map_get(b->map, key)))
            return false;
    }
    return bh_map_len(a->map) == bh_map_len(b->map);
}

static bool lists_equal(const struct bh_val *a, const struct bh_val *b)
{
    if (a->list.len != b->list.len)
        return false;
    for (size_t i = 0; i < a->list.len; i++) {
        if (!bh_val_equal(a->list.items[i], b->list.items[i]))
            return false;
    }
    return true;
}

bool bh_val_equal(const struct bh_val *a, const struct bh_val *b)
{
    enum bh_val_type type = bh_val_type(a);
    if (type != bh_val_type(b))
        return false;
    switch (type) {
    case BH_VAL_BOOL:
        return a->b == b->b;
    case BH_VAL_INT:
        return a->i == b->i;
    case BH_VAL_NUM:
        return a->d == b->d;
    case BH_VAL_STR:
        return a->str.len == b->str.len && memcmp(a->str.s, b->str.s, a->str.len) == 0;
    case BH_VAL_LIST:
        return lists_equal(a, b);
    case BH_VAL_MAP:
        return maps_equal(a, b);
    case BH_VAL_NULL:
        break;
    }
    return true;
}
