/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns `defaults`: what of it an agent gets. A key that the agent sets is the agent's; where both have a map whose
 * entries stand alone (`env`, `limits`, …) the entries are put together, one level deep. Values are shared, not copied,
 * so that an error in a default names the place where it is written.
 */
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/load_priv.h"

static size_t count_nodes(const struct bh_node *n)
{
    size_t count = 1;
    for (size_t i = 0; i < bh_node_len(n); i++)
        count += count_nodes(bh_node_at(n, i));
    return count;
}

/* Keeps many agents times long defaults within bounds. */
static bool count_inherited(struct bh_reader *r, const struct bh_node *defaults)
{
    if (r->defaults_nodes == 0)
        r->defaults_nodes = count_nodes(defaults);
    r->inherited += r->defaults_nodes;
    if (r->inherited <= BH_PIPELINE_MAX_INHERITED)
        return true;
    if (r->inherited - r->defaults_nodes <= BH_PIPELINE_MAX_INHERITED)
        bh_read_key_error(r, defaults, BH_E_TOO_LARGE, NULL,
                          "all agents together take more than %d keys and values from 'defaults'",
                          BH_PIPELINE_MAX_INHERITED);
    return false;
}

/* The entries of `own`, then those of `def` that it lacks and `skip` does not name. */
static struct bh_node *merge_maps(struct bh_reader *r, struct bh_node *own, struct bh_node *def,
                                  const char *const *skip)
{
    struct bh_node *map = bh_node_new_map(r->arena, own ? own : def);
    BH_CLEANUP_MAP struct bh_map *keys = bh_map_new(NULL);
    for (; skip && *skip; skip++)
        bh_map_put(keys, *skip, r);
    for (size_t i = 0; i < bh_node_len(own); i++) {
        bh_node_put(r->arena, map, bh_node_at(own, i));
        bh_map_put(keys, bh_node_key_at(own, i), r);
    }
    for (size_t i = 0; i < bh_node_len(def); i++) {
        if (!bh_map_has(keys, bh_node_key_at(def, i)))
            bh_node_put(r->arena, map, bh_node_at(def, i));
    }
    return map;
}

/* `{allow: …}` is one value; only phases are put together. */
static bool is_value(const struct bh_node *n)
{
    return bh_streq(bh_node_key(n), "network") && bh_node_get(n, "allow");
}

static bool is_merged(const struct bh_node *own, const struct bh_node *def)
{
    const struct bh_key *key = bh_key_find(&bh_defaults_table, bh_node_key(def));
    return key && (key->flags & BH_KEY_MERGED) && bh_node_kind(own) == BH_NODE_MAP &&
           bh_node_kind(def) == BH_NODE_MAP && !is_value(own) && !is_value(def);
}

/* An agent in a shared box has that box's base, network, user, and those limits that a box has once. */
static bool is_of_box(const struct bh_node *def)
{
    static const char *const keys[] = {"base", "network", "user"};
    for (size_t i = 0; i < BH_ARRAY_LEN(keys); i++) {
        if (bh_streq(bh_node_key(def), keys[i]))
            return true;
    }
    return false;
}

/* What the agent has of one key; NULL: nothing. */
static struct bh_node *inherit(struct bh_reader *r, struct bh_node *own, struct bh_node *def, bool boxed)
{
    static const char *const of_box[] = {"disk", "inodes", "nofile", NULL};
    const struct bh_key *key = bh_key_find(&bh_defaults_table, bh_node_key(def));
    if (!key || (key->flags & BH_KEY_RESERVED) || (boxed && is_of_box(def)))
        return own;
    bool limits = boxed && bh_streq(key->name, "limits") && bh_node_kind(def) == BH_NODE_MAP;
    if (own ? is_merged(own, def) : limits)
        return merge_maps(r, own, def, limits ? of_box : NULL);
    return own ? own : def;
}

/* NULL for a key that is no agent's at all: hostile documents have many of them. */
static struct bh_node *default_of(const struct bh_node *defaults, const char *key)
{
    return bh_key_find(&bh_defaults_table, key) ? bh_node_get(defaults, key) : NULL;
}

struct bh_node *bh_merge_defaults(struct bh_reader *r, struct bh_node *agent, struct bh_node *defaults)
{
    if (bh_node_kind(defaults) != BH_NODE_MAP)
        return agent;
    if (!count_inherited(r, defaults))
        return NULL;
    bool boxed = bh_node_get(agent, "box") || bh_node_get(defaults, "box");
    struct bh_node *all = bh_node_new_map(r->arena, agent);
    for (size_t i = 0; i < bh_node_len(agent); i++) {
        struct bh_node *own = bh_node_at(agent, i), *def = default_of(defaults, bh_node_key(own));
        bh_node_put(r->arena, all, def ? inherit(r, own, def, boxed) : own);
    }
    for (size_t i = 0; i < bh_node_len(defaults); i++) {
        struct bh_node *def = bh_node_at(defaults, i);
        bool known = default_of(defaults, bh_node_key(def)) != NULL;
        struct bh_node *got = known && !bh_node_get(agent, bh_node_key(def)) ? inherit(r, NULL, def, boxed) : NULL;
        if (got)
            bh_node_put(r->arena, all, got);
    }
    return all;
}
