/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs described by tables, so that each field is written, read, checked and freed by one line of data. Used for
 * what crosses the wire: a field that is in the table cannot be forgotten in one of the four.
 */
#pragma once

#include "base/err.h"

struct bh_val;

enum bh_field_kind {
    BH_FIELD_TEXT,     /* char *; never NULL */
    BH_FIELD_OPT_TEXT, /* char *; NULL is null */
    BH_FIELD_CHARS,    /* char[max + 1] inside the struct: ids */
    BH_FIELD_INT,      /* int */
    BH_FIELD_INT64,    /* int64_t, or a struct of one */
    BH_FIELD_NUM,      /* double; finite, an integer will do */
    BH_FIELD_BOOL,     /* bool */
    BH_FIELD_WORD,     /* an enum, as one of `words` */
    BH_FIELD_DIGEST,   /* struct bh_digest, as text */
    BH_FIELD_TEXTS,    /* char ** and size_t */
    BH_FIELD_STRUCT,   /* of `sub` */
    BH_FIELD_STRUCTS,  /* pointer to `sub` and size_t */
};

struct bh_shape;

struct bh_field {
    const char *key;
    enum bh_field_kind kind;
    size_t at;                                /* offset of the member */
    size_t count_at;                          /* offset of the size_t of a list */
    int64_t min, max;                         /* of an integer; of the bytes of a text or of each text of a list */
    size_t max_items;                         /* of a list */
    const char *(*problem)(const char *text); /* NULL, or says what is wrong with a text, NULL where nothing is */
    const char *const *words;                 /* ends with NULL */
    const struct bh_shape *sub;
};

struct bh_shape {
    const char *name; /* "lease": begins every message */
    size_t size;
    const struct bh_field *fields;
    size_t n_fields;
    const char *(*problem)(const void *s); /* NULL, or a check across fields */
};

/* A map. The caller owns it. */
struct bh_val *bh_shape_to_val(const struct bh_shape *shape, const void *s);
/*
 * Fills the zeroed struct `s`. Every field of the table must be there, of its type and within its limits; keys that the
 * table does not have are ignored. Errors are -BH_E_PROTOCOL and name the field ("lease: 'box.layers[3]' is no text");
 * what was filled so far is freed and zeroed.
 */
int bh_shape_from_val(const struct bh_shape *shape, const struct bh_val *v, void *s, struct bh_err **err) BH_MUST_CHECK;
void bh_shape_fini(const struct bh_shape *shape, void *s); /* frees what it owns and zeroes it */
