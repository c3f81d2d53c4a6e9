/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine behind shape_priv.h: walks a table of fields over a struct. It knows kinds and limits, not what anything
 * means. Input is hostile until a field has passed its line of the table; texts become C strings, so one with a NUL
 * inside is refused.
 */
#include "artifact-bus/shape_priv.h"

#include <math.h>

#include "artifact-bus/digest.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/val.h"

/* Members are reached by memcpy: they are of many types and the table knows only where they lie. */
#define GET(type, s, at)                                           \
    ({                                                             \
        type value_;                                               \
        memcpy(&value_, (const char *)(s) + (at), sizeof(value_)); \
        value_;                                                    \
    })
#define PUT(s, at, value)                                    \
    do {                                                     \
        __typeof__(value) value_ = (value);                  \
        memcpy((char *)(s) + (at), &value_, sizeof(value_)); \
    } while (0)

/* --- to values --- */

static struct bh_val *texts_to_val(char **texts, size_t n)
{
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < n; i++)
        bh_val_add(list, bh_val_str(texts[i]));
    return list;
}

static struct bh_val *structs_to_val(const struct bh_shape *sub, const char *items, size_t n)
{
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < n; i++)
        bh_val_add(list, bh_shape_to_val(sub, items + i * sub->size));
    return list;
}

static struct bh_val *digest_to_val(struct bh_digest d)
{
    char text[BH_DIGEST_TEXT];
    return bh_val_str(bh_digest_format(&d, text));
}

static struct bh_val *field_to_val(const struct bh_field *f, const void *s)
{
    switch (f->kind) {
    case BH_FIELD_TEXT:
    case BH_FIELD_OPT_TEXT:
        return bh_val_str(GET(char *, s, f->at));
    case BH_FIELD_CHARS:
        return bh_val_str((const char *)s + f->at);
    case BH_FIELD_INT:
        return bh_val_int(GET(int, s, f->at));
    case BH_FIELD_INT64:
        return bh_val_int(GET(int64_t, s, f->at));
    case BH_FIELD_NUM:
        return bh_val_num(GET(double, s, f->at));
    case BH_FIELD_BOOL:
        return bh_val_bool(GET(bool, s, f->at));
    case BH_FIELD_WORD:
        return bh_val_str(f->words[GET(int, s, f->at)]);
    case BH_FIELD_DIGEST:
        return digest_to_val(GET(struct bh_digest, s, f->at));
    case BH_FIELD_TEXTS:
        return texts_to_val(GET(char **, s, f->at), GET(size_t, s, f->count_at));
    case BH_FIELD_STRUCT:
        return bh_shape_to_val(f->sub, (const char *)s + f->at);
    case BH_FIELD_STRUCTS:
        break;
    }
    return structs_to_val(f->sub, GET(char *, s, f->at), GET(size_t, s, f->count_at));
}

struct bh_val *bh_shape_to_val(const struct bh_shape *shape, const void *s)
{
    struct bh_val *map = bh_val_map();
    for (size_t i = 0; i < shape->n_fields; i++)
        bh_val_set(map, shape->fields[i].key, field_to_val(&shape->fields[i], s));
    return map;
}

/* --- from values --- */

/* Where the reader stands, for messages: a chain on the stack from the field up to the whole. */
struct place {
    const struct place *up;
    const char *key; /* NULL: an item of a list */
    size_t index;
    const char *shape; /* of the outermost */
};

static const char *place_format(const struct place *p, struct bh_buf *out)
{
    const char *shape = p->shape;
    if (p->up)
        shape = place_format(p->up, out);
    if (p->key)
        bh_buf_addf(out, "%s%s", out->len > 0 ? "." : "", p->key);
    else if (p->up)
        bh_buf_addf(out, "[%zu]", p->index);
    return shape;
}

static int refuse(const struct place *p, struct bh_err **err, const char *what)
{
    BH_CLEANUP_BUF struct bh_buf where = BH_BUF_INIT;
    const char *shape = place_format(p, &where);
    if (where.len == 0)
        return bh_err_set(err, BH_E_PROTOCOL, 0, "the %s %s", shape, what);
    return bh_err_set(err, BH_E_PROTOCOL, 0, "'%s' of the %s %s", where.data, shape, what);
}

static int check_text(const struct bh_field *f, const struct bh_val *v, const struct place *p, struct bh_err **err)
{
    const char *text = bh_val_get_str(v);
    if (!text)
        return refuse(p, err, "is no text");
    size_t len = bh_val_str_len(v);
    if (strlen(text) != len)
        return refuse(p, err, "has a NUL in it");
    if (len < (size_t)f->min)
        return refuse(p, err, "is too short");
    if (len > (size_t)f->max)
        return refuse(p, err, "is too long");
    const char *problem = f->problem ? f->problem(text) : NULL;
    return problem ? refuse(p, err, problem) : 0;
}

static int read_text(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                     struct bh_err **err)
{
    int rc = check_text(f, v, p, err);
    if (rc == 0)
        PUT(s, f->at, bh_strdup(bh_val_get_str(v)));
    return rc;
}

static int read_chars(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                      struct bh_err **err)
{
    int rc = check_text(f, v, p, err);
    if (rc == 0)
        memcpy((char *)s + f->at, bh_val_get_str(v), bh_val_str_len(v) + 1);
    return rc;
}

static int read_int(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                    struct bh_err **err)
{
    if (bh_val_type(v) != BH_VAL_INT)
        return refuse(p, err, "is no integer");
    int64_t i = bh_val_get_int(v);
    if (i < f->min || i > f->max)
        return refuse(p, err, "is out of range");
    if (f->kind == BH_FIELD_INT)
        PUT(s, f->at, (int)i);
    else
        PUT(s, f->at, i);
    return 0;
}

static int read_num(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                    struct bh_err **err)
{
    if (bh_val_type(v) != BH_VAL_NUM && bh_val_type(v) != BH_VAL_INT)
        return refuse(p, err, "is no number");
    if (!isfinite(bh_val_get_num(v)))
        return refuse(p, err, "is not finite");
    PUT(s, f->at, bh_val_get_num(v));
    return 0;
}

static int read_bool(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                     struct bh_err **err)
{
    if (bh_val_type(v) != BH_VAL_BOOL)
        return refuse(p, err, "is neither true nor false");
    PUT(s, f->at, bh_val_get_bool(v));
    return 0;
}

static int read_word(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                     struct bh_err **err)
{
    const char *text = bh_val_get_str(v);
    for (int i = 0; text && f->words[i]; i++) {
        if (strlen(text) == bh_val_str_len(v) && strcmp(text, f->words[i]) == 0) {
            PUT(s, f->at, i);
            return 0;
        }
    }
    return refuse(p, err, "is none of the known words");
}

static int read_digest(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                       struct bh_err **err)
{
    struct bh_digest d;
    const char *text = bh_val_get_str(v);
    if (!text || strlen(text) != bh_val_str_len(v) || bh_digest_parse(text, &d) != 0)
        return refuse(p, err, "is no sha256 digest");
    PUT(s, f->at, d);
    return 0;
}

static int check_list(const struct bh_field *f, const struct bh_val *v, const struct place *p, struct bh_err **err)
{
    if (bh_val_type(v) != BH_VAL_LIST)
        return refuse(p, err, "is no list");
    return bh_val_len(v) > f->max_items ? refuse(p, err, "has too many items") : 0;
}

static int read_texts(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                      struct bh_err **err)
{
    int rc = check_list(f, v, p, err);
    size_t n = rc == 0 ? bh_val_len(v) : 0;
    if (n == 0)
        return rc;
    char **texts = bh_calloc(n, sizeof(*texts));
    PUT(s, f->at, texts);
    PUT(s, f->count_at, n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct place item = {.up = p, .index = i};
        rc = check_text(f, bh_val_at(v, i), &item, err);
        if (rc == 0)
            texts[i] = bh_strdup(bh_val_get_str(bh_val_at(v, i)));
    }
    return rc;
}

static int read_struct(const struct bh_shape *shape, const struct bh_val *v, void *s, const struct place *p,
                       struct bh_err **err);

static int read_structs(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                        struct bh_err **err)
{
    int rc = check_list(f, v, p, err);
    size_t n = rc == 0 ? bh_val_len(v) : 0;
    if (n == 0)
        return rc;
    char *items = bh_calloc(n, f->sub->size);
    PUT(s, f->at, items);
    PUT(s, f->count_at, n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct place item = {.up = p, .index = i};
        rc = read_struct(f->sub, bh_val_at(v, i), items + i * f->sub->size, &item, err);
    }
    return rc;
}

static int read_field(const struct bh_field *f, const struct bh_val *v, void *s, const struct place *p,
                      struct bh_err **err)
{
    switch (f->kind) {
    case BH_FIELD_OPT_TEXT:
        return bh_val_type(v) == BH_VAL_NULL ? 0 : read_text(f, v, s, p, err);
    case BH_FIELD_TEXT:
        return read_text(f, v, s, p, err);
    case BH_FIELD_CHARS:
        return read_chars(f, v, s, p, err);
    case BH_FIELD_INT:
    case BH_FIELD_INT64:
        return read_int(f, v, s, p, err);
    case BH_FIELD_NUM:
        return read_num(f, v, s, p, err);
    case BH_FIELD_BOOL:
        return read_bool(f, v, s, p, err);
    case BH_FIELD_WORD:
        return read_word(f, v, s, p, err);
    case BH_FIELD_DIGEST:
        return read_digest(f, v, s, p, err);
    case BH_FIELD_TEXTS:
        return read_texts(f, v, s, p, err);
    case BH_FIELD_STRUCT:
        return read_struct(f->sub, v, (char *)s + f->at, p, err);
    case BH_FIELD_STRUCTS:
        break;
    }
    return read_structs(f, v, s, p, err);
}

static int read_struct(const struct bh_shape *shape, const struct bh_val *v, void *s, const struct place *p,
                       struct bh_err **err)
{
    if (bh_val_type(v) != BH_VAL_MAP)
        return refuse(p, err, "is no map");
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct bh_field *f = &shape->fields[i];
        const struct bh_val *item = bh_val_get(v, f->key);
        struct place here = {.up = p, .key = f->key};
        int rc = item ? read_field(f, item, s, &here, err) : refuse(&here, err, "is missing");
        if (rc != 0)
            return rc;
    }
    const char *problem = shape->problem ? shape->problem(s) : NULL;
    return problem ? refuse(p, err, problem) : 0;
}

int bh_shape_from_val(const struct bh_shape *shape, const struct bh_val *v, void *s, struct bh_err **err)
{
    struct place whole = {.shape = shape->name};
    int rc = read_struct(shape, v, s, &whole, err);
    if (rc != 0)
        bh_shape_fini(shape, s);
    return rc;
}

/* --- the end --- */

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_free(texts[i]);
    bh_free(texts);
}

static void free_structs(const struct bh_shape *sub, char *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_shape_fini(sub, items + i * sub->size);
    bh_free(items);
}

void bh_shape_fini(const struct bh_shape *shape, void *s)
{
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct bh_field *f = &shape->fields[i];
        if (f->kind == BH_FIELD_TEXT || f->kind == BH_FIELD_OPT_TEXT)
            bh_free(GET(char *, s, f->at));
        else if (f->kind == BH_FIELD_TEXTS)
            free_texts(GET(char **, s, f->at), GET(size_t, s, f->count_at));
        else if (f->kind == BH_FIELD_STRUCT)
            bh_shape_fini(f->sub, (char *)s + f->at);
        else if (f->kind == BH_FIELD_STRUCTS)
            free_structs(f->sub, GET(char *, s, f->at), GET(size_t, s, f->count_at));
    }
    memset(s, 0, shape->size);
}
