/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the walk over a map by its key table, and how the loader words and places its errors. Knows no key of the
 * grammar.
 */
#include "topologies/read.h"

#include <stdarg.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

/* --- errors --- */

static bool said_before(struct bh_reader *r, struct bh_pos pos, const char *text)
{
    BH_CLEANUP_FREE char *key = bh_asprintf("%d:%d:%s", pos.line, pos.column, text);
    return !bh_map_put(r->said, key, r);
}

/* The list is full: nothing is worded any more, only counted. */
static bool is_full(struct bh_reader *r)
{
    bool full = r->errors->len >= BH_PIPELINE_MAX_ERRORS;
    r->not_said += full ? 1 : 0;
    return full;
}

/* Takes err. */
static void add(struct bh_reader *r, struct bh_err *err, struct bh_pos pos, const char *path, const char *hint)
{
    if (said_before(r, pos, bh_err_message(err))) {
        bh_err_free(err);
        return;
    }
    if (hint)
        bh_err_hint(&err, "%s", hint);
    bh_err_at(&err, r->p->file, pos.line, pos.column, *path ? path : NULL);
    bh_errlist_add(r->errors, err);
}

static struct bh_err *word_error(enum bh_code code, const char *fmt, va_list ap)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_buf_vaddf(&text, fmt, ap);
    struct bh_err *err = NULL;
    bh_err_set(&err, code, 0, "%s", text.data);
    return err;
}

void bh_read_error(struct bh_reader *r, const struct bh_node *n, enum bh_code code, const char *hint, const char *fmt,
                   ...)
{
    va_list ap;
    if (is_full(r))
        return;
    va_start(ap, fmt);
    add(r, word_error(code, fmt, ap), bh_node_pos(n), bh_node_path(n, r->arena), hint);
    va_end(ap);
}

void bh_read_key_error(struct bh_reader *r, const struct bh_node *n, enum bh_code code, const char *hint,
                       const char *fmt, ...)
{
    va_list ap;
    if (is_full(r))
        return;
    va_start(ap, fmt);
    add(r, word_error(code, fmt, ap), bh_node_key_pos(n), bh_node_path(n, r->arena), hint);
    va_end(ap);
}

void bh_read_missing(struct bh_reader *r, const struct bh_node *map, const char *key, const char *hint, const char *fmt,
                     ...)
{
    if (is_full(r))
        return;
    const char *at = bh_node_path(map, r->arena);
    const char *path = bh_arena_printf(r->arena, "%s%s%s", at, *at ? "." : "", key);
    va_list ap;
    va_start(ap, fmt);
    add(r, word_error(BH_E_MISSING_KEY, fmt, ap), bh_node_pos(map), path, hint);
    va_end(ap);
}

void bh_read_wrong(struct bh_reader *r, const struct bh_node *n, const char *what, const char *hint)
{
    bh_read_error(r, n, BH_E_WRONG_TYPE, hint, "expected %s, found %s", what, bh_node_describe(n, r->arena));
}

void bh_read_bad(struct bh_reader *r, const struct bh_node *n, const char *what, const char *hint)
{
    bh_read_error(r, n, BH_E_BAD_VALUE, hint, "expected %s, found %s", what, bh_node_describe(n, r->arena));
}

bool bh_expect(struct bh_reader *r, const struct bh_node *n, enum bh_node_kind kind, const char *what)
{
    if (bh_node_kind(n) == kind)
        return true;
    bh_read_wrong(r, n, what, NULL);
    return false;
}

/* One that the word begins, or that begins the word: `mem` for memory, `outputs_dir` for outputs. */
static const char *cut_short(const char *word, const char *const *words, size_t n)
{
    enum { LEAST = 3 };
    for (size_t i = 0; i < n && strlen(word) >= LEAST; i++) {
        if (strlen(words[i]) >= LEAST && (bh_starts_with(words[i], word) || bh_starts_with(word, words[i])))
            return words[i];
    }
    return NULL;
}

const char *bh_read_nearest(struct bh_reader *r, const char *word, const char *const *words, size_t n)
{
    const char *near = bh_nearest(word, words, n);
    near = near ? near : cut_short(word, words, n);
    return near ? bh_arena_printf(r->arena, "did you mean '%s'?", near) : NULL;
}

void bh_read_later(struct bh_reader *r, const struct bh_node *n, const char *key)
{
    struct bh_pipeline *p = r->p;
    struct bh_pos pos = bh_node_key_pos(n);
    BH_CLEANUP_FREE char *text = bh_asprintf("later %s", key);
    if (said_before(r, pos, text))
        return;
    struct bh_later *later = BH_ARENA_PUSH(r->arena, p->later, p->n_later, r->later_cap);
    *later = (struct bh_later){.key = key, .path = bh_node_path(n, r->arena), .pos = pos};
}

/* --- key tables --- */

const struct bh_key *bh_key_find(const struct bh_key_table *t, const char *name)
{
    for (size_t i = 0; i < t->len; i++) {
        if (bh_streq(t->keys[i].name, name))
            return t->keys[i].flags & t->refuse ? NULL : &t->keys[i];
    }
    return NULL;
}

static void unknown_key(struct bh_reader *r, const struct bh_node *n, const char *key, const struct bh_key_table *t)
{
    const char *words[64];
    size_t len = 0;
    if (is_full(r))
        return;
    BH_CLEANUP_BUF struct bh_buf list = BH_BUF_INIT;
    for (size_t i = 0; i < t->len && len < BH_ARRAY_LEN(words); i++) {
        if (t->keys[i].flags & (t->refuse | BH_KEY_RESERVED))
            continue;
        bh_buf_addf(&list, "%s%s", len ? ", " : "", t->keys[i].name);
        words[len++] = t->keys[i].name;
    }
    const char *hint = bh_read_nearest(r, key, words, len);
    if (!hint && bh_starts_with(key, "x-"))
        hint = "keys of your own ('x-...') stand at the top level";
    if (!hint)
        hint = bh_arena_printf(r->arena, "the keys of %s are %s", t->what, list.data);
    bh_read_key_error(r, n, BH_E_UNKNOWN_KEY, hint, "'%s' is no key of %s", key, t->what);
}

static void read_key(struct bh_reader *r, struct bh_node *n, const char *name, const struct bh_key_table *t,
                     char *target)
{
    const struct bh_key *key = bh_key_find(t, name);
    if (!key) {
        unknown_key(r, n, name, t);
        return;
    }
    if (key->flags & BH_KEY_RESERVED) {
        bh_read_key_error(r, n, BH_E_NOT_SUPPORTED, NULL, "'%s' is reserved for a later version", name);
        return;
    }
    if (key->flags & BH_KEY_LATER)
        bh_read_later(r, n, name);
    key->read(r, n, target + key->offset);
}

bool bh_read_map(struct bh_reader *r, struct bh_node *n, const struct bh_key_table *t, void *target)
{
    if (!bh_expect(r, n, BH_NODE_MAP, bh_arena_printf(r->arena, "%s as a map", t->what)))
        return false;
    for (size_t i = 0; i < bh_node_len(n); i++)
        read_key(r, bh_node_at(n, i), bh_node_key_at(n, i), t, target);
    for (size_t i = 0; i < t->len; i++) {
        const struct bh_key *key = &t->keys[i];
        if ((key->flags & BH_KEY_REQUIRED) && !(key->flags & t->refuse) && !bh_node_get(n, key->name))
            bh_read_missing(r, n, key->name, NULL, "%s needs '%s'", t->what, key->name);
    }
    return true;
}
