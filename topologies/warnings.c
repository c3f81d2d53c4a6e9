/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what is worth saying of a document that is good: keys that this version cannot carry out, and things that are
 * declared and used by nobody. What cannot be known from the document alone is not said.
 */
#include <ctype.h>

#include "base/map.h"
#include "base/text.h"
#include "topologies/placeholder.h"
#include "topologies/plan_priv.h"

static struct bh_err *later_error(const struct bh_pipeline *doc, const struct bh_later *l)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_NOT_SUPPORTED, 0, "'%s' is not supported by this version", l->key);
    bh_err_hint(&err, "this version refuses to run it; remove the key, or wait for a later version");
    bh_err_at(&err, doc->file, l->pos.line, l->pos.column, l->path);
    return err;
}

int bh_plan_check_supported(const struct bh_plan *plan, struct bh_errlist *errors)
{
    const struct bh_pipeline *doc = plan->pipeline;
    for (size_t i = 0; i < doc->n_later; i++)
        bh_errlist_add(errors, later_error(doc, &doc->later[i]));
    return doc->n_later > 0 ? -BH_E_NOT_SUPPORTED : 0;
}

static void warn_later(struct bh_planner *pl)
{
    for (size_t i = 0; i < pl->doc->n_later; i++) {
        const struct bh_later *l = &pl->doc->later[i];
        bh_planner_warn(pl, later_error(pl->doc, l), l->pos, l->path);
    }
}

static void warn_unused(struct bh_planner *pl, struct bh_pos pos, const char *path, const char *what, const char *name)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_INVALID, 0, "%s '%s' is used by no agent", what, name);
    bh_planner_warn(pl, err, pos, path);
}

static void warn_sources(struct bh_planner *pl)
{
    for (size_t i = 0; i < pl->doc->n_sources; i++) {
        const struct bh_str *name = &pl->doc->sources[i].name;
        if (!pl->source_used[i])
            warn_unused(pl, name->pos, bh_arena_printf(pl->arena, "sources.%s", name->s), "source", name->s);
    }
}

/* A secret that no agent and no header of an endpoint holds is a slip in a name, or left over. */
static void warn_secrets(struct bh_planner *pl)
{
    static char yes;
    BH_CLEANUP_MAP struct bh_map *used = bh_map_new(NULL);
    const struct bh_pipeline *doc = pl->doc;
    for (size_t i = 0; doc->n_secrets > 0 && i < doc->n_agents + doc->n_finally; i++) {
        const struct bh_agent *a = i < doc->n_agents ? &doc->agents[i] : &doc->finally[i - doc->n_agents];
        for (size_t k = 0; k < a->secrets.len; k++)
            (void)bh_map_put(used, a->secrets.items[k].s, &yes);
    }
    for (size_t i = 0; i < doc->n_endpoints; i++) {
        for (size_t k = 0; k < doc->endpoints[i].headers.len; k++) {
            size_t offset = 0;
            struct bh_placeholder hold;
            while (bh_placeholder_next(doc->endpoints[i].headers.items[k].value.s, &offset, &hold))
                (void)bh_map_put(used, bh_arena_printf(pl->arena, "%.*s", (int)hold.name_len, hold.name), &yes);
        }
    }
    for (size_t i = 0; i < doc->n_secrets; i++) {
        const struct bh_str *name = &doc->secrets[i].name;
        if (!bh_map_get(used, name->s))
            warn_unused(pl, name->pos, bh_arena_printf(pl->arena, "secrets.%s", name->s), "secret", name->s);
    }
}

/* What NO_PROXY of a box holds: clients ask the box itself for these, and never the proxy. */
static bool stays_in_box(const char *text)
{
    static const char *const hosts[] = {"localhost:", "127.0.0.1:", "[::1]:"};
    const char *port = strrchr(text, ':');
    for (size_t i = 0; i < BH_ARRAY_LEN(hosts); i++) {
        if (bh_starts_with(text, hosts[i]))
            return true;
    }
    size_t below = sizeof(".localhost") - 1, len = port ? (size_t)(port - text) : 0;
    return len > below && memcmp(port - below, ".localhost", below) == 0;
}

static void warn_own_hosts(struct bh_planner *pl, const struct bh_node *allow, struct bh_map *seen)
{
    static char yes;
    for (size_t i = 0; i < bh_node_len(allow); i++) {
        const struct bh_node *item = bh_node_at(allow, i);
        const struct bh_pos pos = bh_node_pos(item);
        const char *text = bh_node_text(item);
        struct bh_err *err = NULL;
        if (!text || !stays_in_box(text) ||
            !bh_map_put(seen, bh_arena_printf(pl->arena, "%d:%d", pos.line, pos.column), &yes))
            continue; /* defaults stand in the document once */
        bh_err_set(&err, BH_E_BAD_VALUE, 0,
                   "ordinary clients do not reach '%s': NO_PROXY of a box holds it, so they ask the box itself", text);
        bh_err_hint(&err, "name the host by another of its addresses or names, or make it an endpoint");
        bh_planner_warn(pl, err, pos, bh_node_path(item, pl->arena));
    }
}

static void warn_networks(struct bh_planner *pl, const struct bh_node *n, bool network, struct bh_map *seen)
{
    for (size_t i = 0; i < bh_node_len(n); i++) {
        const struct bh_node *item = bh_node_at(n, i);
        const char *key = bh_node_kind(n) == BH_NODE_MAP ? bh_node_key_at(n, i) : NULL;
        if (network && bh_streq(key, "allow"))
            warn_own_hosts(pl, item, seen);
        else
            warn_networks(pl, item, network || bh_streq(key, "network"), seen);
    }
}

/* A group inside a box that is smaller than itself bounds nothing. */
static void warn_group(struct bh_planner *pl, const struct bh_plan_box *box, const struct bh_plan_agent *a, int limit)
{
    char mine[BH_LIMIT_TEXT], all[BH_LIMIT_TEXT];
    struct bh_err *err = NULL;
    enum bh_limit which = (enum bh_limit)limit;
    bh_err_set(&err, BH_E_BAD_VALUE, 0, "agent '%s' may have %s %s, and its box '%s' has %s", a->name,
               bh_limit_name(which), bh_limit_format(which, a->limits.of[limit], mine), box->id,
               bh_limit_format(which, box->limits.of[limit], all));
    bh_err_hint(&err, "raise it in boxes.%s.limits, or give the agent a box of its own", box->id);
    bh_planner_warn(pl, err, a->doc->traits.crew_limits.pos,
                    bh_arena_printf(pl->arena, "%s.limits.%s", a->doc->path, bh_limit_name(which)));
}

static void warn_groups(struct bh_planner *pl)
{
    static const enum bh_limit groups[] = {BH_LIMIT_MEMORY, BH_LIMIT_CPUS, BH_LIMIT_PIDS};
    for (size_t i = 0; i < pl->plan->n_agents; i++) {
        const struct bh_plan_agent *a = &pl->plan->agents[i];
        const struct bh_plan_box *box = &pl->plan->boxes[a->box];
        for (size_t k = 0; box->shared && k < BH_ARRAY_LEN(groups); k++) {
            int64_t all = box->limits.of[groups[k]];
            if (all > 0 && a->limits.of[groups[k]] > all)
                warn_group(pl, box, a, groups[k]);
        }
    }
}

static void warn_boxes(struct bh_planner *pl)
{
    BH_CLEANUP_FREE bool *used = bh_calloc(pl->doc->n_boxes + 1, sizeof(*used));
    for (size_t b = 0; b < pl->plan->n_boxes; b++) {
        if (pl->plan->boxes[b].doc)
            used[pl->plan->boxes[b].doc - pl->doc->boxes] = true;
    }
    for (size_t i = 0; i < pl->doc->n_boxes; i++) {
        const struct bh_box_doc *doc = &pl->doc->boxes[i];
        if (!used[i])
            warn_unused(pl, doc->name.pos, bh_arena_printf(pl->arena, "boxes.%s", doc->name.s), "box", doc->name.s);
    }
}

/* Whether some text of the document mentions the variable, or a predicate the parameter. */
static bool mentions(const struct bh_node *n, const char *variable, const char *param)
{
    const char *text = bh_node_text(n);
    if (text)
        return strstr(text, variable) || strstr(text, "params.json");
    for (size_t i = 0; i < bh_node_len(n); i++) {
        const struct bh_node *item = bh_node_at(n, i);
        const char *key = bh_node_kind(n) == BH_NODE_MAP ? bh_node_key_at(n, i) : NULL;
        if (mentions(item, variable, param) || (bh_streq(key, "param") && bh_streq(bh_node_text(item), param)))
            return true;
    }
    return false;
}

static const char *variable_of(struct bh_planner *pl, const char *param)
{
    char *name = bh_arena_printf(pl->arena, "BULKHEAD_PARAM_%s", param);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    return name;
}

/* A script that comes by `files` or lies in the base may read every parameter: then nothing can be said. */
static bool runs_scripts(const struct bh_pipeline *doc)
{
    for (size_t i = 0; i < doc->n_agents; i++) {
        const struct bh_agent *a = &doc->agents[i];
        if (a->files.len > 0 || a->brain.set || (a->traits.base.s && strcmp(a->traits.base.s, "host") != 0))
            return true;
    }
    return doc->traits.base.s && strcmp(doc->traits.base.s, "host") != 0;
}

static void warn_params(struct bh_planner *pl)
{
    enum { LOOKED_AT = 50 }; /* each costs a walk over the whole document */
    size_t looked = 0;
    if (runs_scripts(pl->doc))
        return;
    for (size_t i = 0; i < pl->doc->n_params && looked < LOOKED_AT; i++) {
        const struct bh_str *name = &pl->doc->params[i].name;
        const struct bh_param_slot *slot = bh_map_get(pl->params, name->s);
        if (slot->used)
            continue;
        looked++;
        if (!mentions(pl->doc->root, variable_of(pl, name->s), name->s))
            warn_unused(pl, name->pos, bh_arena_printf(pl->arena, "params.%s", name->s), "param", name->s);
    }
}

/* A shell carries out a text, and a shell is no fork of what was prepared. */
static void warn_warm(struct bh_planner *pl)
{
    for (size_t i = 0; i < pl->doc->n_agents; i++) {
        const struct bh_agent *a = &pl->doc->agents[i];
        struct bh_err *err = NULL;
        if (!a->warm || !a->run.set || a->run.is_list)
            continue;
        bh_err_set(&err, BH_E_BAD_VALUE, 0,
                   "'run' of agent '%s' is a text, which a shell executes: nothing of its warm process is kept",
                   a->name.s);
        bh_err_hint(&err, "write it as a list, such as [python3, try.py]; see docs/warm.md");
        bh_planner_warn(pl, err, a->run.pos, bh_arena_printf(pl->arena, "%s.run", a->path));
    }
}

/* An endpoint beside private data is no way out like a network, but what goes to it has left the host. */
static void warn_private_endpoints(struct bh_planner *pl)
{
    for (size_t i = 0; i < pl->plan->n_agents; i++) {
        const struct bh_plan_agent *a = &pl->plan->agents[i];
        const struct bh_plan_box *box = &pl->plan->boxes[a->box];
        struct bh_err *err = NULL;
        if (!box->private_ || a->doc->endpoints.len == 0)
            continue;
        const struct bh_str *endpoint = &a->doc->endpoints.items[0];
        bh_err_set(&err, BH_E_TRUST, 0,
                   "box '%s' holds private data, and agent '%s' sends what it likes to endpoint '%s'", box->id, a->name,
                   endpoint->s);
        bh_err_detail(&err, "private: %s", a->private_why ? a->private_why : "of another agent in the box");
        bh_err_hint(&err, "this is not refused: 'allow' of the endpoint is all that holds it");
        bh_planner_warn(pl, err, endpoint->pos, bh_arena_printf(pl->arena, "%s.endpoints", a->doc->path));
    }
}

static bool reads(const struct bh_planner *pl, size_t agent, const char *gate)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    const struct bh_draft *d = &pl->drafts[agent];
    bool found = false;
    for (size_t i = 0; !a->implicit_inputs && i < a->n_inputs && !found; i++)
        found = bh_glob_may_intersect(gate, d->input_names[i].glob);
    for (size_t i = 0; i < d->n_steers && !found; i++)
        found = bh_glob_may_intersect(gate, d->steers[i].name);
    return found;
}

static const char *nearest_input(struct bh_planner *pl, const struct bh_plan_agent *a, const char *name)
{
    struct bh_texts names = {0};
    if (pl->n_hints++ >= BH_PLAN_MAX_HINTS)
        return NULL;
    for (size_t i = 0; i < a->n_inputs; i++)
        bh_texts_add(pl, &names, a->inputs[i].name);
    return bh_nearest(name, names.items, names.len);
}

/* A gate for what an agent does not read guards nothing; mostly it is a slip in a name. Those of `defaults` are for
 * whom they fit. */
static void warn_gates(struct bh_planner *pl)
{
    for (size_t i = 0; i < pl->plan->n_agents; i++) {
        const struct bh_plan_agent *a = &pl->plan->agents[i];
        int stage = a->stage;
        bool sees_rounds = stage >= 0 && pl->doc->stages[stage].repeat;
        for (size_t k = 0; !sees_rounds && k < a->n_gates && bh_planner_may_work(pl, 5 * (a->n_inputs + 1)); k++) {
            const struct bh_node *entry = bh_node_get(bh_node_get(pl->drafts[i].node, "accept"), a->gates[k].artifact);
            struct bh_err *err = NULL;
            if (!entry || reads(pl, i, a->gates[k].artifact))
                continue;
            bh_err_set(&err, BH_E_INVALID, 0, "agent '%s' accepts '%s', which it does not name as an input", a->name,
                       a->gates[k].artifact);
            const char *near = a->implicit_inputs ? NULL : nearest_input(pl, a, a->gates[k].artifact);
            if (a->implicit_inputs)
                bh_err_hint(&err, "a tainted artifact of an earlier stage is seen only by who lists it under 'inputs'");
            else if (near)
                bh_err_hint(&err, "did you mean '%s'?", near);
            bh_planner_warn(pl, err, bh_node_key_pos(entry), bh_node_path(entry, pl->arena));
        }
    }
}

void bh_plan_warnings(struct bh_planner *pl)
{
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    warn_later(pl);
    warn_sources(pl);
    warn_secrets(pl);
    warn_boxes(pl);
    warn_networks(pl, pl->doc->root, false, seen);
    warn_groups(pl);
    warn_warm(pl);
    warn_private_endpoints(pl);
    warn_gates(pl);
    warn_params(pl);
}
