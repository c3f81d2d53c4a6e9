/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML document as a tree in which every node knows where it stands. Built from the events of the YAML library (only
 * yaml_tree.c knows it); anchors, aliases and `<<` are resolved here, each alias as a copy that keeps the positions of
 * its origin and has the path of the place where it is used. Scalars stay text: whoever reads one decides by what its
 * key expects.
 *
 * Nodes live in an arena and are never freed alone. The accessors take NULL for an absent node and never fail.
 */
#pragma once

#include "topologies/pipeline.h"

struct bh_arena;

enum bh_node_kind {
    BH_NODE_EMPTY, /* a key or a list item without a value */
    BH_NODE_SCALAR,
    BH_NODE_LIST,
    BH_NODE_MAP,
};

/* What a scalar was read as: for those who print the document again. */
enum bh_node_type { BH_NODE_AS_TEXT, BH_NODE_AS_INT, BH_NODE_AS_NUMBER, BH_NODE_AS_BOOL, BH_NODE_AS_NULL };

/* Budgets. A document beyond one of them is refused with BH_E_TOO_LARGE where it goes beyond. */
enum {
    BH_TREE_MAX_DEPTH = 64,
    BH_TREE_MAX_NODES = 1000000, /* after aliases and merges were copied */
};

enum bh_node_kind bh_node_kind(const struct bh_node *n); /* NULL gives BH_NODE_EMPTY */
const char *bh_node_text(const struct bh_node *n);       /* of a scalar, else NULL; valid UTF-8 without NUL */
bool bh_node_is_plain(const struct bh_node *n);          /* a scalar without quotes, and not in a block (| or >) */
struct bh_pos bh_node_pos(const struct bh_node *n);
enum bh_node_type bh_node_type(const struct bh_node *n);

/* Lists and maps. */
size_t bh_node_len(const struct bh_node *n);                             /* items or entries, else 0 */
struct bh_node *bh_node_at(const struct bh_node *n, size_t i);           /* the i-th item, or value of a map */
const char *bh_node_key_at(const struct bh_node *map, size_t i);         /* in the order of the document */
struct bh_pos bh_node_key_pos_at(const struct bh_node *map, size_t i);   /* where the key stands */
struct bh_node *bh_node_get(const struct bh_node *map, const char *key); /* the value, or NULL where there is none */

/* How a map holds the node; the node's own position for the items of a list. */
struct bh_pos bh_node_key_pos(const struct bh_node *n);
const char *bh_node_key(const struct bh_node *n); /* NULL for the items of a list */

/* "stages[1].agents[0].files[\"fetch.py\"]"; "" for the root. In the arena. */
const char *bh_node_path(const struct bh_node *n, struct bh_arena *arena);

/* "a map", "a list", "'no'", "the text '5'" (in quotes), "nothing": what was found, for messages. In the arena; long
 * text is cut. */
const char *bh_node_describe(const struct bh_node *n, struct bh_arena *arena);

/*
 * For readers that keep a document: what a scalar was read as, and maps that are put together from others. The values
 * of such a map keep their own parents, and with them their paths.
 */
void bh_node_set_type(struct bh_node *n, enum bh_node_type type);
struct bh_node *bh_node_new_map(struct bh_arena *arena, const struct bh_node *like);
void bh_node_put(struct bh_arena *arena, struct bh_node *map, struct bh_node *entry); /* an entry of another map */

/*
 * Parses `text`, which must have passed bh_bytes_check. Syntax: the first error only; duplicate keys, undefined
 * aliases, tags and the like: all of them. Returns 0 with *ret_root set, or the negative code of the first error; where
 * the document could be read nevertheless (a duplicate key), *ret_root is set and the code is negative, so that the
 * caller may look for more errors.
 */
int bh_tree_parse(const char *file, const char *text, size_t len, struct bh_arena *arena, struct bh_node **ret_root,
                  struct bh_errlist *errors) BH_MUST_CHECK;
