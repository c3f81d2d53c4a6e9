/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the comparison of what an agent asks with what a box has. Structured values are compared as the canonical JSON
 * that the loader made of them, limits key by key.
 */
#include "topologies/traits.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "base/val.h"
#include "topologies/fill.h"

static const char *first_of(const char *a, const char *b, const char *c)
{
    return a ? a : b ? b : c;
}

/* A value of the loader's canonical JSON; NULL where there is none. */
static struct bh_val *parse(const char *json)
{
    struct bh_val *v = NULL;
    if (json && bh_json_parse(json, strlen(json), &v, NULL) < 0)
        return NULL;
    return v;
}

/* What a box says of limits, and what it does not say from further out. */
static const char *merged(struct bh_planner *pl, const char *own, const char *top)
{
    if (!own || !top)
        return own ? own : top;
    BH_CLEANUP_VAL struct bh_val *all = parse(own), *rest = parse(top);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < bh_val_len(rest); i++) {
        if (!bh_val_get(all, bh_val_key_at(rest, i)))
            bh_val_set(all, bh_val_key_at(rest, i), bh_val_copy(bh_val_at(rest, i)));
    }
    bh_json_format_canonical(all, &text);
    return bh_arena_strdup(pl->arena, text.data);
}

struct bh_box_traits bh_traits_of_box(struct bh_planner *pl, const struct bh_box_doc *doc)
{
    static const struct bh_traits none;
    const struct bh_traits *own = doc ? &doc->traits : &none, *top = &pl->doc->traits;
    struct bh_str base = own->base.s ? own->base : top->base;
    struct bh_where at = own->base.s ? BH_AT_ENTRY("", "boxes", doc->name.s) : BH_AT("", "base");
    struct bh_scope scope = bh_planner_scope(pl);
    return (struct bh_box_traits){
        .base = first_of(bh_fill_text(pl, &scope, base, at), "host", NULL),
        .network = first_of(own->network.s, top->network.s, "none"),
        .user = first_of(own->user.s, top->user.s, "agent"),
        .limits = merged(pl, own->limits.s, top->limits.s),
        .box_limits = merged(pl, own->box_limits.s, top->box_limits.s),
        .base_said = base.s != NULL,
        .network_said = own->network.s || top->network.s,
        .user_said = own->user.s || top->user.s,
    };
}

static struct bh_val *network_of(const char *text)
{
    return *text == '{' ? parse(text) : bh_val_str(text);
}

static bool is_none(const struct bh_val *v)
{
    return !v || bh_streq(bh_val_get_str(v), "none");
}

/* What `check` says of its own network is the phase's, whatever stands in `network`. */
static const char *with_check(struct bh_planner *pl, const char *network, const char *check)
{
    static const char *const phases[] = {"setup", "prepare", "run"};
    BH_CLEANUP_VAL struct bh_val *all = network_of(network), *own = network_of(check), *map = bh_val_map();
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bool by_phase = bh_val_type(all) == BH_VAL_MAP && !bh_val_get(all, "allow");
    for (size_t i = 0; i < BH_ARRAY_LEN(phases); i++) {
        const struct bh_val *v = by_phase ? bh_val_get(all, phases[i]) : all;
        if (!is_none(v))
            bh_val_set(map, phases[i], bh_val_copy(v));
    }
    if (!is_none(own))
        bh_val_set(map, "check", bh_val_copy(own));
    if (bh_val_len(map) == 0)
        return "none";
    bh_json_format_canonical(map, &text);
    return bh_arena_strdup(pl->arena, text.data);
}

struct bh_box_traits bh_traits_of_agent(struct bh_planner *pl, size_t agent)
{
    const struct bh_traits *own = &pl->plan->agents[agent].doc->traits;
    const char *check = pl->plan->agents[agent].doc->check_network.s;
    struct bh_box_traits t = bh_traits_of_box(pl, NULL);
    t.base = first_of(pl->drafts[agent].base.s, t.base, NULL);
    t.network = first_of(own->network.s, t.network, NULL);
    if (check)
        t.network = with_check(pl, t.network, check);
    t.user = first_of(own->user.s, t.user, NULL);
    t.limits = first_of(own->limits.s, t.limits, NULL);
    t.box_limits = first_of(own->box_limits.s, t.box_limits, NULL);
    return t;
}

/* A key of the agent's own `limits` that is in its JSON, but not so in the box's. */
static const char *differing_limit(const struct bh_node *limits, const char *agent_json, const char *box_json)
{
    BH_CLEANUP_VAL struct bh_val *agent = parse(agent_json), *box = parse(box_json);
    for (size_t i = 0; i < bh_node_len(limits); i++) {
        const char *key = bh_node_key_at(limits, i);
        const struct bh_val *mine = bh_val_get(agent, key);
        if (mine && !bh_val_equal(mine, bh_val_get(box, key)))
            return key;
    }
    return NULL;
}

static struct bh_difference difference(const char *key, const char *agent_has, const char *box_has, struct bh_pos pos)
{
    return (struct bh_difference){.key = key, .agent_has = agent_has, .box_has = box_has, .pos = pos};
}

struct bh_difference bh_traits_differ(struct bh_planner *pl, size_t agent, const struct bh_box_traits *box,
                                      bool all_limits)
{
    const struct bh_draft *d = &pl->drafts[agent];
    const struct bh_traits *own = &pl->plan->agents[agent].doc->traits;
    if (d->own.base && d->base.s && strcmp(d->base.s, box->base) != 0)
        return difference("base", d->base.s, box->base, d->base.pos);
    if (d->own.network && own->network.s && strcmp(own->network.s, box->network) != 0)
        return difference("network", own->network.s, box->network, own->network.pos);
    if (d->own.user && own->user.s && strcmp(own->user.s, box->user) != 0)
        return difference("user", own->user.s, box->user, own->user.pos);
    if (!d->own.limits)
        return (struct bh_difference){0};
    const struct bh_node *limits = bh_node_get(d->node, "limits");
    const char *key = all_limits ? differing_limit(limits, own->limits.s, box->limits)
                                 : differing_limit(limits, own->box_limits.s, box->box_limits);
    return key ? difference(bh_arena_printf(pl->arena, "limits.%s", key), NULL, NULL, bh_node_pos(limits))
               : (struct bh_difference){0};
}

/* Whether `names` are those that stand in a list, or are the values of a map. */
static bool same_names(const struct bh_strs *names, const struct bh_node *node)
{
    if (names->len != bh_node_len(node))
        return false;
    BH_CLEANUP_MAP struct bh_map *set = bh_map_new(NULL);
    for (size_t i = 0; i < bh_node_len(node); i++) {
        const char *name = bh_node_text(bh_node_at(node, i));
        (void)bh_map_put(set, name ? name : "", set);
    }
    for (size_t i = 0; i < names->len; i++) {
        if (!bh_map_has(set, names->items[i].s))
            return false;
    }
    return true;
}

bool bh_traits_other_secrets(struct bh_planner *pl, size_t agent)
{
    const struct bh_node *defaults = bh_node_get(pl->doc->root, "defaults");
    return pl->drafts[agent].own.secrets &&
           !same_names(&pl->plan->agents[agent].doc->secrets, bh_node_get(defaults, "secrets"));
}

bool bh_traits_other_endpoints(struct bh_planner *pl, size_t agent)
{
    const struct bh_node *defaults = bh_node_get(pl->doc->root, "defaults");
    return pl->drafts[agent].own.endpoints &&
           !same_names(&pl->plan->agents[agent].doc->endpoints, bh_node_get(defaults, "endpoints"));
}

bool bh_traits_is_host_network(const char *network)
{
    /* by phase it is JSON, in which nothing but a phase's value is this very word */
    return strcmp(network, "host") == 0 || (*network == '{' && strstr(network, "\"host\""));
}

static void add_power(struct bh_planner *pl, const char *kind, const char *name, struct bh_map *seen,
                      struct bh_texts *list)
{
    const char *power = bh_arena_printf(pl->arena, "%s %s", kind, name);
    if (bh_map_put(seen, power, list))
        bh_texts_add(pl, list, power);
}

void bh_traits_add_powers(struct bh_planner *pl, size_t agent, struct bh_map *seen, struct bh_texts *list)
{
    const struct bh_agent *doc = pl->plan->agents[agent].doc;
    for (size_t i = 0; i < doc->secrets.len; i++)
        add_power(pl, "secret", doc->secrets.items[i].s, seen, list);
    for (size_t i = 0; i < doc->endpoints.len; i++) {
        const struct bh_endpoint *e = bh_map_get(pl->endpoints, doc->endpoints.items[i].s);
        if (!e || !e->tainted)
            add_power(pl, "endpoint", doc->endpoints.items[i].s, seen, list);
    }
}
