/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the nodes of the positioned tree: making, reading, describing. Knows nothing of YAML and nothing of the grammar.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/node_priv.h"

enum { DESCRIBED_TEXT = 40 };

struct bh_node *bh_node_new(struct bh_arena *arena, enum bh_node_kind kind, struct bh_pos pos)
{
    struct bh_node *n = bh_arena_alloc(arena, sizeof(*n));
    n->kind = kind;
    n->pos = pos;
    return n;
}

void bh_node_adopt(struct bh_arena *arena, struct bh_node *parent, struct bh_node *item)
{
    item->parent = parent;
    item->index = parent->len;
    *BH_ARENA_PUSH(arena, parent->items, parent->len, parent->cap) = item;
}

enum bh_node_kind bh_node_kind(const struct bh_node *n)
{
    return n ? n->kind : BH_NODE_EMPTY;
}

const char *bh_node_text(const struct bh_node *n)
{
    return bh_node_kind(n) == BH_NODE_SCALAR ? n->text : NULL;
}

bool bh_node_is_plain(const struct bh_node *n)
{
    return bh_node_kind(n) == BH_NODE_SCALAR && n->plain;
}

struct bh_pos bh_node_pos(const struct bh_node *n)
{
    return n ? n->pos : (struct bh_pos){0, 0};
}

enum bh_node_type bh_node_type(const struct bh_node *n)
{
    return n ? n->type : BH_NODE_AS_TEXT;
}

void bh_node_set_type(struct bh_node *n, enum bh_node_type type)
{
    n->type = type;
}

size_t bh_node_len(const struct bh_node *n)
{
    return n ? n->len : 0;
}

struct bh_node *bh_node_at(const struct bh_node *n, size_t i)
{
    return n && i < n->len ? n->items[i] : NULL;
}

const char *bh_node_key_at(const struct bh_node *map, size_t i)
{
    const struct bh_node *item = bh_node_at(map, i);
    return item ? item->key : NULL;
}

struct bh_pos bh_node_key_pos_at(const struct bh_node *map, size_t i)
{
    const struct bh_node *item = bh_node_at(map, i);
    return item ? item->key_pos : (struct bh_pos){0, 0};
}

struct bh_pos bh_node_key_pos(const struct bh_node *n)
{
    return n && n->key ? n->key_pos : bh_node_pos(n);
}

const char *bh_node_key(const struct bh_node *n)
{
    return n ? n->key : NULL;
}

struct bh_node *bh_node_get(const struct bh_node *map, const char *key)
{
    if (bh_node_kind(map) != BH_NODE_MAP)
        return NULL;
    for (size_t i = 0; i < map->len; i++) {
        if (bh_streq(map->items[i]->key, key))
            return map->items[i];
    }
    return NULL;
}

struct bh_node *bh_node_new_map(struct bh_arena *arena, const struct bh_node *like)
{
    struct bh_node *map = bh_node_new(arena, BH_NODE_MAP, like->pos);
    map->parent = like->parent;
    map->key = like->key;
    map->key_pos = like->key_pos;
    map->index = like->index;
    return map;
}

void bh_node_put(struct bh_arena *arena, struct bh_node *map, struct bh_node *entry)
{
    *BH_ARENA_PUSH(arena, map->items, map->len, map->cap) = entry;
}

static bool key_needs_quotes(const char *key)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    return *key == '\0' || key[strspn(key, plain)] != '\0';
}

static void add_step(struct bh_buf *path, const struct bh_node *n)
{
    if (!n->key)
        bh_buf_addf(path, "[%zu]", n->index);
    else if (key_needs_quotes(n->key))
        bh_buf_addf(path, "[\"%s\"]", n->key);
    else
        bh_buf_addf(path, "%s%s", path->len ? "." : "", n->key);
}

const char *bh_node_path(const struct bh_node *n, struct bh_arena *arena)
{
    const struct bh_node *chain[BH_TREE_MAX_DEPTH + 2];
    size_t len = 0;
    for (; n && n->parent && len < BH_ARRAY_LEN(chain); n = n->parent)
        chain[len++] = n;
    BH_CLEANUP_BUF struct bh_buf path = BH_BUF_INIT;
    while (len > 0)
        add_step(&path, chain[--len]);
    return bh_arena_strndup(arena, path.data, path.len);
}

static const char *describe_text(const char *text, struct bh_arena *arena)
{
    size_t n = strcspn(text, "\n");
    bool cut = text[n] != '\0' || n > DESCRIBED_TEXT;
    if (n > DESCRIBED_TEXT)
        n = bh_utf8_check(text, DESCRIBED_TEXT); /* not in the middle of a character */
    return bh_arena_printf(arena, "'%.*s%s'", (int)n, text, cut ? "..." : "");
}

const char *bh_node_describe(const struct bh_node *n, struct bh_arena *arena)
{
    switch (bh_node_kind(n)) {
    case BH_NODE_EMPTY:
        return "nothing";
    case BH_NODE_LIST:
        return "a list";
    case BH_NODE_MAP:
        return "a map";
    case BH_NODE_SCALAR:
        break;
    }
    const char *text = describe_text(n->text, arena);
    return n->plain ? text : bh_arena_printf(arena, "the text %s", text);
}
