/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of what a document asks of the host beyond its own folder: variables, files, commands, services,
 * networks, brains. For people, who decide on it before anything runs; so it holds references, never values.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "base/val.h"
#include "topologies/base_ref.h"
#include "topologies/placeholder.h"
#include "topologies/plan_priv.h"

struct asks {
    struct bh_planner *pl;
    struct bh_map *said;
    size_t cap;
};

static void ask(struct asks *s, struct bh_pos pos, const char *fmt, ...) BH_PRINTF(3, 4);

static void ask(struct asks *s, struct bh_pos pos, const char *fmt, ...)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    bh_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    struct bh_plan *plan = s->pl->plan;
    if (bh_map_put(s->said, text.data, s))
        *BH_ARENA_PUSH(s->pl->arena, plan->asks, plan->n_asks, s->cap) =
            (struct bh_str){.s = bh_arena_strdup(s->pl->arena, text.data), .pos = pos};
}

static const char *joined(struct bh_planner *pl, const struct bh_node *argv)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < bh_node_len(argv); i++) {
        const char *arg = bh_node_text(bh_node_at(argv, i));
        bh_buf_addf(&out, "%s%s", i ? " " : "", arg ? arg : "");
    }
    return bh_arena_strdup(pl->arena, out.data);
}

static void ask_secrets(struct asks *s)
{
    const struct bh_node *secrets = bh_node_get(s->pl->doc->root, "secrets");
    for (size_t i = 0; i < bh_node_len(secrets); i++) {
        const struct bh_node *entry = bh_node_at(secrets, i);
        const char *env = bh_node_text(bh_node_get(entry, "env")), *file = bh_node_text(bh_node_get(entry, "file"));
        const struct bh_node *command = bh_node_get(entry, "command");
        struct bh_pos pos = bh_node_key_pos_at(secrets, i);
        if (env)
            ask(s, pos, "variable %s", env);
        if (file)
            ask(s, pos, "file %s", file);
        if (command)
            ask(s, pos, "command %s", joined(s->pl, command));
    }
}

/* Where it goes: into the boxes of an agent, or with requests to a service. */
static void ask_for_headers(struct asks *s, const struct bh_node *headers, const char *upstream)
{
    for (size_t i = 0; i < bh_node_len(headers); i++) {
        const char *text = bh_node_text(bh_node_at(headers, i));
        size_t offset = 0;
        struct bh_placeholder p;
        while (text && bh_placeholder_next(text, &offset, &p)) {
            if (p.kind == BH_HOLD_SECRET)
                ask(s, bh_node_key_pos_at(headers, i), "secret %.*s to %s", (int)p.name_len, p.name, upstream);
        }
    }
}

static void ask_for_agent(struct asks *s, const struct bh_agent *doc)
{
    for (size_t i = 0; i < doc->secrets.len; i++)
        ask(s, doc->secrets.items[i].pos, "secret %s in agent %s", doc->secrets.items[i].s, doc->name.s);
}

static void ask_endpoints(struct asks *s)
{
    const struct bh_node *nodes = bh_node_get(s->pl->doc->root, "endpoints");
    for (size_t i = 0; i < s->pl->doc->n_endpoints; i++) {
        const struct bh_endpoint *e = &s->pl->doc->endpoints[i];
        if (e->upstream.s)
            ask(s, e->upstream.pos, "upstream %s", e->upstream.s);
        if (e->upstream.s)
            ask_for_headers(s, bh_node_get(bh_node_get(nodes, e->name.s), "headers"), e->upstream.s);
    }
}

/* "public", {"allow": […]}, or one of these per phase. */
static void ask_network_value(struct asks *s, struct bh_pos pos, const struct bh_val *v)
{
    const char *word = bh_val_get_str(v);
    if (word && strcmp(word, "none") != 0)
        ask(s, pos, "network %s", word);
    const struct bh_val *allow = bh_val_get(v, "allow");
    for (size_t i = 0; i < bh_val_len(allow); i++)
        ask_network_value(s, pos, bh_val_at(allow, i));
    for (size_t i = 0; !allow && i < bh_val_len(v); i++) {
        if (bh_val_type(v) == BH_VAL_MAP)
            ask_network_value(s, pos, bh_val_at(v, i));
    }
}

static void ask_network(struct asks *s, const struct bh_str *network)
{
    if (!network->s || strcmp(network->s, "none") == 0)
        return;
    if (*network->s != '{') {
        ask(s, network->pos, "network %s", network->s);
        return;
    }
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    if (bh_json_parse(network->s, strlen(network->s), &v, NULL) == 0)
        ask_network_value(s, network->pos, v);
}

static struct bh_pos pos_of_base(const struct asks *s, const struct bh_plan_box *box)
{
    const struct bh_str *own = box->n_agents > 0 ? &s->pl->drafts[box->agents[0]].base : NULL;
    if (box->doc && box->doc->traits.base.s)
        return box->doc->traits.base.pos;
    return own && own->s ? own->pos : s->pl->doc->traits.base.pos;
}

/* Bases outside of the pipeline's folder, as they are with the parameters put in. */
static void ask_bases(struct asks *s)
{
    struct bh_base_ref ref;
    for (size_t b = 0; b < s->pl->plan->n_boxes; b++) {
        const struct bh_plan_box *box = &s->pl->plan->boxes[b];
        if (!bh_base_parse(box->base, &ref) && ref.outside)
            ask(s, pos_of_base(s, box), "base %s", box->base);
    }
}

void bh_plan_asks(struct bh_planner *pl)
{
    BH_CLEANUP_MAP struct bh_map *said = bh_map_new(NULL);
    struct asks s = {.pl = pl, .said = said};
    ask_secrets(&s);
    ask_endpoints(&s);
    for (size_t i = 0; i < pl->doc->n_sources; i++) {
        const struct bh_source *source = &pl->doc->sources[i];
        if (source->mount)
            ask(&s, source->pos, "mount %s", source->dir.s ? source->dir.s : source->name.s);
    }
    ask_bases(&s);
    ask_network(&s, &pl->doc->traits.network);
    for (size_t i = 0; i < pl->doc->n_boxes; i++)
        ask_network(&s, &pl->doc->boxes[i].traits.network);
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        const struct bh_agent *doc = pl->plan->agents[a].doc;
        ask_for_agent(&s, doc);
        ask_network(&s, &doc->traits.network);
        ask_network(&s, &doc->check_network);
        if (doc->brain.set)
            ask(&s, doc->brain.pos, "brain of agent %s", doc->name.s);
    }
}
