/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the names of a document among each other: those that must be unique, and those that must exist. Artifacts are
 * not among them: who makes what is the plan's.
 */
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/load_priv.h"
#include "topologies/placeholder.h"

/* A set of names that can also say which of them is near to a word. */
struct names {
    struct bh_map *map; /* name to node, or to itself */
    const char **list;
    size_t len, cap;
};

static void names_add(struct bh_reader *r, struct names *names, const char *name, void *value)
{
    if (bh_map_put(names->map, name, value))
        *BH_ARENA_PUSH(r->arena, names->list, names->len, names->cap) = name;
}

enum { NAMED = 10 }; /* as many as are of use on one line */

static const char *all_names(struct bh_reader *r, const struct names *names)
{
    BH_CLEANUP_BUF struct bh_buf list = BH_BUF_INIT;
    for (size_t i = 0; i < names->len; i++)
        bh_buf_addf(&list, "%s%s", i ? ", " : "", names->list[i]);
    return bh_arena_printf(r->arena, "this document declares %s", list.data);
}

/* Reports a name that is not there. `what`: "agent". */
static void want(struct bh_reader *r, const struct bh_node *n, const char *name, const struct names *names,
                 const char *what)
{
    enum { LISTED = 1000 }; /* a search for near names among more would cost more than it helps */
    if (!name || !*name || strstr(name, "{{") || bh_map_has(names->map, name))
        return; /* what is no name at all has its error */
    size_t len = names->len < LISTED ? names->len : LISTED;
    const char *hint = bh_read_nearest(r, name, names->list, len);
    if (!hint && names->len == 0)
        hint = bh_arena_printf(r->arena, "this document declares no %s", what);
    else if (!hint && names->len <= NAMED)
        hint = all_names(r, names);
    bh_read_error(r, n, BH_E_UNDEFINED, hint, "there is no %s '%s'", what, name);
}

static void want_all(struct bh_reader *r, const struct bh_node *list, const struct names *names, const char *what)
{
    for (size_t i = 0; i < bh_node_len(list); i++)
        want(r, bh_node_at(list, i), bh_node_text(bh_node_at(list, i)), names, what);
}

/* Reports the second of two that have the same name. */
static void claim(struct bh_reader *r, struct names *names, struct bh_node *n, const char *what)
{
    struct bh_node *name = bh_node_get(n, "name");
    const char *text = bh_node_text(name);
    if (!text)
        return;
    const struct bh_node *first = bh_map_get(names->map, text);
    if (first)
        bh_read_error(r, name, BH_E_BAD_NAME, NULL, "there are two %ss '%s': the first at line %d, column %d", what,
                      text, bh_node_pos(first).line, bh_node_pos(first).column);
    else
        names_add(r, names, text, name);
}

struct scope {
    struct names agents, boxes, secrets, endpoints, params;
};

static void check_predicate(struct bh_reader *r, const struct bh_node *when, const struct scope *s)
{
    const struct bh_node *param = bh_node_get(when, "param");
    if (param)
        want(r, param, bh_node_text(param), &s->params, "param");
}

/* The list at a key; NULL where there is something else, which has its error. */
static const struct bh_node *list_of(const struct bh_node *n, const char *key)
{
    const struct bh_node *list = bh_node_get(n, key);
    return bh_node_kind(list) == BH_NODE_LIST ? list : NULL;
}

static void check_agent(struct bh_reader *r, const struct bh_node *n, const struct scope *s)
{
    const struct bh_node *box = bh_node_get(n, "box"), *needs = list_of(n, "needs");
    const struct bh_node *endpoints = list_of(n, "endpoints"), *secrets = bh_node_get(n, "secrets");
    const char *name = bh_node_text(box);
    if (name && bh_is_name(name) && !bh_streq(name, "crew"))
        want(r, box, name, &s->boxes, "box");
    want_all(r, needs, &s->agents, "agent");
    want_all(r, secrets, &s->secrets, "secret");
    want_all(r, endpoints, &s->endpoints, "endpoint");
    check_predicate(r, bh_node_get(n, "when"), s);
}

static void check_stage(struct bh_reader *r, struct bh_node *n, struct names *stages, const struct scope *s)
{
    claim(r, stages, n, "stage");
    check_predicate(r, bh_node_get(n, "when"), s);
    check_predicate(r, bh_node_get(bh_node_get(n, "repeat"), "until"), s);
}

static void check_header(struct bh_reader *r, const struct bh_node *n, const struct scope *s)
{
    const char *text = bh_node_text(n);
    size_t offset = 0;
    struct bh_placeholder p;
    while (text && bh_placeholder_next(text, &offset, &p)) {
        if (p.kind == BH_HOLD_SECRET)
            want(r, n, bh_arena_strndup(r->arena, p.name, p.name_len), &s->secrets, "secret");
    }
}

static void check_endpoints(struct bh_reader *r, const struct bh_node *endpoints, const struct scope *s)
{
    for (size_t i = 0; i < bh_node_len(endpoints); i++) {
        const struct bh_node *headers = bh_node_get(bh_node_at(endpoints, i), "headers");
        for (size_t k = 0; k < bh_node_len(headers); k++)
            check_header(r, bh_node_at(headers, k), s);
    }
}

static void fill_from_keys(struct bh_reader *r, struct names *names, const struct bh_node *map)
{
    if (bh_node_kind(map) != BH_NODE_MAP)
        return;
    for (size_t i = 0; i < bh_node_len(map); i++)
        names_add(r, names, bh_node_key_at(map, i), bh_node_at(map, i));
}

void bh_check_refs(struct bh_reader *r, const struct bh_node *root)
{
    BH_CLEANUP_MAP struct bh_map *agents = bh_map_new(NULL), *boxes = bh_map_new(NULL), *secrets = bh_map_new(NULL);
    BH_CLEANUP_MAP struct bh_map *endpoints = bh_map_new(NULL), *params = bh_map_new(NULL), *stages = bh_map_new(NULL);
    struct scope s = {.agents = {.map = agents},
                      .boxes = {.map = boxes},
                      .secrets = {.map = secrets},
                      .endpoints = {.map = endpoints},
                      .params = {.map = params}};
    struct names stage_names = {.map = stages};
    fill_from_keys(r, &s.boxes, bh_node_get(root, "boxes"));
    fill_from_keys(r, &s.secrets, bh_node_get(root, "secrets"));
    fill_from_keys(r, &s.endpoints, bh_node_get(root, "endpoints"));
    fill_from_keys(r, &s.params, bh_node_get(root, "params"));
    for (size_t i = 0; i < r->n_agent_nodes; i++)
        claim(r, &s.agents, r->agent_nodes[i], "agent");
    for (size_t i = 0; i < r->n_agent_nodes; i++)
        check_agent(r, r->agent_nodes[i], &s);
    const struct bh_node *list = bh_node_get(root, "stages");
    for (size_t i = 0; bh_node_kind(list) == BH_NODE_LIST && i < bh_node_len(list); i++)
        check_stage(r, bh_node_at(list, i), &stage_names, &s);
    check_endpoints(r, bh_node_get(root, "endpoints"), &s);
}
