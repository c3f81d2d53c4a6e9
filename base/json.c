/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values to and from JSON text, by jansson. The only file that knows jansson. Its objects keep the order
 * of insertion; its depth limit (2048) also bounds our recursion. Must never abort on what a text holds.
 */
#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "base/val.h"

static struct bh_val *from_json(const json_t *j);

static struct bh_val *object_from_json(const json_t *j)
{
    struct bh_val *map = bh_val_map();
    json_t *object = (json_t *)(uintptr_t)j;
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it))
        bh_val_set(map, json_object_iter_key(it), from_json(json_object_iter_value(it)));
    return map;
}

static struct bh_val *array_from_json(const json_t *j)
{
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < json_array_size(j); i++)
        bh_val_add(list, from_json(json_array_get(j, i)));
    return list;
}

static struct bh_val *from_json(const json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return object_from_json(j);
    case JSON_ARRAY:
        return array_from_json(j);
    case JSON_STRING:
        return bh_val_strn(json_string_value(j), json_string_length(j));
    case JSON_INTEGER:
        return bh_val_int(json_integer_value(j));
    case JSON_REAL:
        return bh_val_num(json_real_value(j));
    case JSON_TRUE:
    case JSON_FALSE:
        return bh_val_bool(json_is_true(j));
    case JSON_NULL:
        break;
    }
    return bh_val_null();
}

int bh_json_parse(const char *text, size_t len, struct bh_val **ret, struct bh_err **err)
{
    json_error_t why;
    json_t *j = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!j) {
        bool memory = json_error_code(&why) == json_error_out_of_memory;
        int r = bh_err_set(err, memory ? BH_E_NOMEM : BH_E_SYNTAX, 0, "no valid JSON: %s", why.text);
        bh_err_at(err, NULL, why.line, why.column > 0 ? why.column : 1, NULL);
        return r;
    }
    *ret = from_json(j);
    json_decref(j);
    return 0;
}

static json_t *to_json(const struct bh_val *v);

static json_t *map_to_json(const struct bh_val *v)
{
    json_t *object = json_object();
    for (size_t i = 0; i < bh_val_len(v); i++)
        BH_ASSERT(json_object_set_new(object, bh_val_key_at(v, i), to_json(bh_val_at(v, i))) == 0);
    return object;
}

static json_t *list_to_json(const struct bh_val *v)
{
    json_t *array = json_array();
    for (size_t i = 0; i < bh_val_len(v); i++)
        BH_ASSERT(json_array_append_new(array, to_json(bh_val_at(v, i))) == 0);
    return array;
}

static json_t *to_json(const struct bh_val *v)
{
    switch (bh_val_type(v)) {
    case BH_VAL_MAP:
        return map_to_json(v);
    case BH_VAL_LIST:
        return list_to_json(v);
    case BH_VAL_STR:
        return json_stringn(bh_val_get_str(v), bh_val_str_len(v));
    case BH_VAL_INT:
        return json_integer(bh_val_get_int(v));
    case BH_VAL_NUM: /* JSON has no infinity and no NaN */
        return isfinite(bh_val_get_num(v)) ? json_real(bh_val_get_num(v)) : json_null();
    case BH_VAL_BOOL:
        return json_boolean(bh_val_get_bool(v));
    case BH_VAL_NULL:
        break;
    }
    return json_null();
}

/* The fewest digits that bring each number in `v` back exactly: 0.1 is written so, and not as 0.10000000000000001. */
static int precision(const struct bh_val *v)
{
    int most = 15;
    if (bh_val_type(v) == BH_VAL_NUM && isfinite(bh_val_get_num(v))) {
        for (double back; most < 17; most++) {
            char text[BH_UNIT_TEXT];
            (void)snprintf(text, sizeof(text), "%.*g", most, bh_val_get_num(v));
            if (bh_parse_number(text, &back) == 0 && back == bh_val_get_num(v))
                break;
        }
        return most;
    }
    for (size_t i = 0; i < bh_val_len(v) && most < 17; i++) {
        int wanted = precision(bh_val_at(v, i));
        most = wanted > most ? wanted : most;
    }
    return most;
}

static int append(const char *text, size_t len, void *arg)
{
    bh_buf_add(arg, text, len);
    return 0;
}

/*
 * jansson escapes what JSON demands. DEL, C1 and the two Unicode line ends steer terminals and split lines for some
 * readers; outside strings they cannot stand, so they can be replaced in the finished text.
 */
static void add_escaped(struct bh_buf *out, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t plain = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned c = 0;
        size_t n = 1;
        if (p[i] == 0x7f) {
            c = 0x7f;
        } else if (p[i] == 0xc2 && p[i + 1] <= 0x9f) {
            c = p[i + 1];
            n = 2;
        } else if (p[i] == 0xe2 && p[i + 1] == 0x80 && (p[i + 2] == 0xa8 || p[i + 2] == 0xa9)) {
            c = 0x2000u + (p[i + 2] & 0x3f);
            n = 3;
        }
        if (!c)
            continue;
        bh_buf_add(out, text + plain, i - plain);
        bh_buf_addf(out, "\\u%04X", c);
        i += n - 1;
        plain = i + 1;
    }
    bh_buf_add(out, text + plain, len - plain);
}

static void format(const struct bh_val *v, size_t flags, struct bh_buf *out)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    json_t *j = to_json(v);
    flags |= JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION((size_t)precision(v));
    BH_ASSERT(j && json_dump_callback(j, append, &text, flags) == 0);
    json_decref(j);
    add_escaped(out, text.data, text.len);
}

void bh_json_format(const struct bh_val *v, struct bh_buf *out)
{
    format(v, 0, out);
}

void bh_json_format_canonical(const struct bh_val *v, struct bh_buf *out)
{
    format(v, JSON_SORT_KEYS, out);
}
