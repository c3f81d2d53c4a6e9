/* SPDX-License-Identifier: Apache-2.0 */
/* What a node is made of: for node.c and yaml_tree.c alone. */
#pragma once

#include "topologies/yaml_tree.h"

struct bh_node {
    enum bh_node_kind kind;
    enum bh_node_type type;
    bool plain;
    struct bh_pos pos;
    const struct bh_node *parent; /* NULL: the root */
    const char *key;              /* how a map holds it, else NULL */
    struct bh_pos key_pos;
    size_t index;     /* how a list holds it */
    const char *text; /* scalars */
    struct bh_node **items;
    size_t len, cap;
};

struct bh_node *bh_node_new(struct bh_arena *arena, enum bh_node_kind kind, struct bh_pos pos);
/* Appends `item` to a list or map; its key must be set already. */
void bh_node_adopt(struct bh_arena *arena, struct bh_node *parent, struct bh_node *item);
