/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rule of the trust boundary. What the plan refuses for the sake of trust is told as a split: a reader beside
 * powers becomes two agents, a reader in a shared box leaves it, a power that takes in tainted data gets a gate. What
 * the plan cannot see is looked for too: a credential that came into a tainted box as a variable or as a file.
 */
#include <ctype.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/advise_priv.h"

struct look {
    const struct bh_advise_subject *subject;
    struct bh_advices *list;
    struct bh_arena *arena;
    struct bh_editor ed;
    bool *tainted;          /* per agent: by what it reads, or by what it is */
    struct bh_map *said;    /* agents that have their advice */
    struct bh_map *outputs; /* names that tainted agents make; of use where there is no plan */
    struct {
        const char **items;
        size_t len, cap;
    } globs;
};

enum { ROUNDS = 64, SPLITS_MAX = 100 }; /* who has more to split splits these first */

/* --- who reads what, and who holds what --- */

static const struct bh_source *untrusted_source(const struct bh_pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_sources; i++) {
        if (p->sources[i].untrusted && bh_glob_match(name, p->sources[i].name.s))
            return &p->sources[i];
    }
    return NULL;
}

/* The input by which it reads an untrusted source; NULL where it reads none. */
static const struct bh_input *untrusted_input(const struct bh_pipeline *p, const struct bh_agent *agent)
{
    for (size_t i = 0; i < agent->n_inputs; i++) {
        if (untrusted_source(p, agent->inputs[i].name.s))
            return &agent->inputs[i];
    }
    return NULL;
}

static bool begins_taint(const struct bh_pipeline *p, const struct bh_agent *agent)
{
    return agent->untrusted || untrusted_input(p, agent);
}

static bool is_tainted_input(const struct look *look, const char *input)
{
    const char *name;
    void *value;
    if (untrusted_source(look->subject->pipeline, input) || bh_map_has(look->outputs, input))
        return true;
    for (size_t it = 0; bh_glob_is(input) && bh_map_next(look->outputs, &it, &name, &value);) {
        if (bh_glob_may_intersect(input, name))
            return true;
    }
    for (size_t i = 0; i < look->globs.len; i++) {
        if (bh_glob_may_intersect(input, look->globs.items[i]))
            return true;
    }
    return false;
}

static void add_outputs(struct look *look, const struct bh_agent *agent)
{
    for (size_t i = 0; i < agent->n_outputs; i++) {
        const struct bh_output *out = &agent->outputs[i];
        if (out->name.s && !strstr(out->name.s, "{{"))
            bh_map_put(look->outputs, out->name.s, look);
        else if (out->glob.s)
            *BH_ARENA_PUSH(look->arena, look->globs.items, look->globs.len, look->globs.cap) = out->glob.s;
    }
}

/* Round after round in the order of the document, in which crews are mostly written; chains that run against it are
 * followed only so far. */
static void follow_taint(struct look *look)
{
    const struct bh_pipeline *p = look->subject->pipeline;
    bool more = true;
    for (int round = 0; more && round < ROUNDS; round++) {
        more = false;
        for (size_t i = 0; i < p->n_agents; i++) {
            bool now = begins_taint(p, &p->agents[i]);
            for (size_t k = 0; !look->tainted[i] && !now && k < p->agents[i].n_inputs; k++)
                now = is_tainted_input(look, p->agents[i].inputs[k].name.s);
            if (look->tainted[i] || !now)
                continue;
            look->tainted[i] = more = true;
            add_outputs(look, &p->agents[i]);
        }
    }
}

/* Where there is a plan it knows. */
static void find_tainted(struct look *look)
{
    const struct bh_pipeline *p = look->subject->pipeline;
    const struct bh_plan *plan = look->subject->plan;
    look->tainted = bh_arena_alloc(look->arena, p->n_agents + 1);
    for (size_t i = 0; plan && i < plan->n_agents; i++)
        look->tainted[plan->agents[i].doc - p->agents] |= plan->agents[i].label == BH_TAINTED;
    if (!plan)
        follow_taint(look);
}

static bool is_open(const struct bh_pipeline *p, const char *endpoint)
{
    for (size_t i = 0; i < p->n_endpoints; i++) {
        if (bh_streq(p->endpoints[i].name.s, endpoint))
            return p->endpoints[i].tainted;
    }
    return true;
}

/* "secret k", "endpoint e"; NULL where it holds none. */
static const char *first_power(struct look *look, const struct bh_agent *agent, struct bh_pos *ret_pos)
{
    if (agent->secrets.len > 0) {
        *ret_pos = agent->secrets.items[0].pos;
        return bh_arena_printf(look->arena, "secret '%s'", agent->secrets.items[0].s);
    }
    for (size_t i = 0; i < agent->endpoints.len; i++) {
        if (!is_open(look->subject->pipeline, agent->endpoints.items[i].s)) {
            *ret_pos = agent->endpoints.items[i].pos;
            return bh_arena_printf(look->arena, "endpoint '%s'", agent->endpoints.items[i].s);
        }
    }
    return NULL;
}

/* --- leaving a box that was to be shared --- */

static const char *shared_group(const struct bh_pipeline *p, const struct bh_agent *agent)
{
    if (agent->box.s)
        return agent->box.s;
    enum bh_topology topology = agent->topology == BH_TOPOLOGY_UNSET ? p->topology : agent->topology;
    return topology == BH_TOPOLOGY_SHARED_BOX ? "crew" : NULL;
}

static void leave_group(struct look *look, struct bh_advice *advice, const struct bh_agent *agent)
{
    if (agent->box.s)
        bh_advice_change(look->list, advice, agent->name.s, "box", NULL);
    if (agent->topology == BH_TOPOLOGY_SHARED_BOX)
        bh_advice_change(look->list, advice, agent->name.s, "topology", "auto");
}

/* All tainted members of the group leave it; where the whole document shares, the plan decides again. */
static void leave_together(struct look *look, struct bh_advice *advice, const char *group)
{
    const struct bh_pipeline *p = look->subject->pipeline;
    bool top = false;
    if (!group || !bh_map_put(look->said, group, look->said))
        return;
    for (size_t i = 0; i < p->n_agents; i++) {
        const struct bh_agent *member = &p->agents[i];
        if (!bh_streq(shared_group(p, member), group))
            continue;
        top = top || (!member->box.s && member->topology == BH_TOPOLOGY_UNSET);
        if (look->tainted[i])
            leave_group(look, advice, member);
    }
    if (top)
        bh_advice_change(look->list, advice, NULL, "topology", "auto");
}

/* --- the split of one agent --- */

struct pair_list {
    const char **items;
    size_t len, cap;
};

static void put(struct look *look, struct pair_list *list, const char *key, const char *value)
{
    *BH_ARENA_PUSH(look->arena, list->items, list->len, list->cap) = bh_arena_strdup(look->arena, key);
    *BH_ARENA_PUSH(look->arena, list->items, list->len, list->cap) = bh_arena_strdup(look->arena, value);
}

static void end_pairs(struct look *look, struct pair_list *list)
{
    *BH_ARENA_PUSH(look->arena, list->items, list->len, list->cap) = NULL;
}

static const char *kind_of(const struct bh_output *out)
{
    static const char *const ends[][2] = {
        {".json", "json"}, {".jsonl", "jsonl"}, {".csv", "csv"}, {".diff", "patch"}, {".patch", "patch"}};
    if (out->kind == BH_KIND_DIR)
        return "dir";
    for (size_t i = 0; i < BH_ARRAY_LEN(ends); i++) {
        if (bh_ends_with(out->name.s, ends[i][0]))
            return ends[i][1];
    }
    return "text";
}

/* A key that the agent may have from `defaults`: taken away where it is its own alone, else emptied. */
static void drop(struct look *look, struct bh_advice *advice, const char *agent, const char *key, const char *empty)
{
    const struct bh_node *defaults = bh_node_get(look->subject->pipeline->root, "defaults");
    const char *value = bh_node_get(defaults, key) || !bh_streq(empty, "[]") ? empty : NULL;
    bh_advice_change(look->list, advice, agent, key, value);
}

/* As it is written, or as a list of its names. */
static const char *names_as_text(struct look *look, const struct bh_agent *agent, const char *key,
                                 const struct bh_strs *names)
{
    const struct bh_node *value = bh_node_get(bh_editor_agent(&look->ed, agent->name.s), key);
    struct bh_buf text = BH_BUF_INIT;
    if (!value || !bh_editor_value_text(&look->ed, value, &text)) {
        for (size_t i = 0; i < names->len; i++)
            bh_buf_addf(&text, "%s%s", i == 0 ? "[" : ", ", names->items[i].s);
        bh_buf_addc(&text, ']');
    }
    const char *s = bh_arena_strdup(look->arena, text.data);
    bh_buf_fini(&text);
    return s;
}

static const char *endpoints_as_text(struct look *look, const struct bh_agent *agent, bool open)
{
    struct bh_buf text = BH_BUF_INIT;
    bh_buf_addc(&text, '[');
    for (size_t i = 0; i < agent->endpoints.len; i++) {
        if (is_open(look->subject->pipeline, agent->endpoints.items[i].s) == open)
            bh_buf_addf(&text, "%s%s", text.len > 1 ? ", " : "", agent->endpoints.items[i].s);
    }
    bh_buf_addc(&text, ']');
    const char *s = bh_arena_strdup(look->arena, text.data);
    bh_buf_fini(&text);
    return s;
}

static void move_powers(struct look *look, struct bh_advice *advice, const struct bh_agent *agent, struct pair_list *to)
{
    if (agent->secrets.len > 0) {
        put(look, to, "secrets", names_as_text(look, agent, "secrets", &agent->secrets));
        drop(look, advice, agent->name.s, "secrets", "[]");
    }
    const char *closed = endpoints_as_text(look, agent, false);
    if (!bh_streq(closed, "[]")) {
        put(look, to, "endpoints", closed);
        drop(look, advice, agent->name.s, "endpoints", endpoints_as_text(look, agent, true));
    }
}

/* The checked hand-over: what the reader makes, as inputs with a gate each. */
static void hand_over(struct look *look, struct bh_advice *advice, const struct bh_agent *agent, struct pair_list *to)
{
    BH_CLEANUP_BUF struct bh_buf inputs = BH_BUF_INIT, accept = BH_BUF_INIT;
    for (size_t i = 0; i < agent->n_outputs; i++) {
        if (!agent->outputs[i].name.s)
            continue;
        bh_buf_addf(&inputs, "%s%s", inputs.len ? ", " : "[", agent->outputs[i].name.s);
        bh_buf_addf(&accept, "%s%s: {validate: {kind: %s, max_size: 1MiB}}", accept.len ? ", " : "{",
                    agent->outputs[i].name.s, kind_of(&agent->outputs[i]));
    }
    if (agent->n_outputs == 0) {
        const char *name = bh_arena_printf(look->arena, "[%s.json]", agent->name.s);
        bh_advice_change(look->list, advice, agent->name.s, "outputs", name);
        bh_buf_addf(&inputs, "[%s.json", agent->name.s);
        bh_buf_addf(&accept, "{%s.json: {validate: {kind: json, max_size: 1MiB}}", agent->name.s);
    }
    bh_buf_addc(&inputs, ']');
    bh_buf_addc(&accept, '}');
    put(look, to, "inputs", inputs.data);
    put(look, to, "accept", accept.data);
}

static bool is_name_taken(const struct bh_pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_agents; i++) {
        if (bh_streq(p->agents[i].name.s, name))
            return true;
    }
    return false;
}

static struct bh_advice *add_split(struct look *look, const struct bh_agent *agent, const char *power,
                                   struct bh_pos power_pos)
{
    const struct bh_pipeline *p = look->subject->pipeline;
    const struct bh_input *input = untrusted_input(p, agent);
    struct bh_advice *advice =
        bh_advices_add(look->list, BH_ADVICE_TRUST, BH_TOPOLOGY_PER_AGENT,
                       "'%s' reads what others wrote beside %s: who writes it can ask for that", agent->name.s, power);
    const struct bh_node *untrusted = bh_node_get(bh_editor_agent(&look->ed, agent->name.s), "untrusted");
    bh_advice_name(look->list, advice, agent->name.s);
    if (agent->untrusted)
        bh_advice_cite(look->list, advice, untrusted ? bh_node_key_pos(untrusted) : agent->name.pos, agent->name.s,
                       "'%s' is untrusted: it reads content that nobody of this crew wrote", agent->name.s);
    else if (input)
        bh_advice_cite(look->list, advice, input->name.pos, agent->name.s, "'%s' reads the untrusted source '%s'",
                       agent->name.s, input->name.s);
    bh_advice_cite(look->list, advice, power_pos, agent->name.s, "'%s' holds %s", agent->name.s, power);
    advice->action = "split it: one agent reads, and another one, which gets only its checked output, holds the power";
    return advice;
}

static void finish_split(struct look *look, struct bh_advice *advice, const struct bh_agent *agent,
                         struct pair_list *moved, const char *power)
{
    const struct bh_pipeline *p = look->subject->pipeline;
    const char *name = bh_arena_printf(look->arena, "%.50s-power", agent->name.s);
    struct pair_list entries = {0};
    if (is_name_taken(p, name))
        return;
    put(look, &entries, "name", name);
    for (size_t i = 0; i + 1 < moved->len; i += 2)
        put(look, &entries, moved->items[i], moved->items[i + 1]);
    hand_over(look, advice, agent, &entries);
    /* what it shall do only a person knows; until then it must not look as if it had been done */
    put(look, &entries, "run",
        bh_arena_printf(look->arena, "[sh, -c, \"echo 'what needs %s goes here; it reads in/ alone' >&2; exit 1\"]",
                        bh_starts_with(power, "secret") ? "the secret" : "the power"));
    end_pairs(look, &entries);
    bh_advice_add_agent(look->list, advice, agent->name.s, entries.items);
}

static void advise_split(struct look *look, const struct bh_agent *agent)
{
    struct bh_pos pos = agent->name.pos;
    struct pair_list moved = {0};
    const char *power = first_power(look, agent, &pos);
    struct bh_advice *advice = add_split(look, agent, power, pos);
    move_powers(look, advice, agent, &moved);
    finish_split(look, advice, agent, &moved, power);
    leave_together(look, advice, shared_group(look->subject->pipeline, agent));
}

/* --- a power that takes tainted data in --- */

static void advise_gate(struct look *look, const struct bh_agent *agent)
{
    struct bh_pos pos = agent->name.pos;
    const char *power = first_power(look, agent, &pos);
    struct bh_advice *advice =
        bh_advices_add(look->list, BH_ADVICE_TRUST, BH_TOPOLOGY_PER_AGENT,
                       "'%s' holds %s and takes in what an agent made that reads what others wrote", agent->name.s,
                       power ? power : "a power");
    BH_CLEANUP_BUF struct bh_buf accept = BH_BUF_INIT;
    bh_advice_name(look->list, advice, agent->name.s);
    bh_advice_cite(look->list, advice, pos, agent->name.s, "'%s' holds %s", agent->name.s, power ? power : "a power");
    for (size_t i = 0; i < agent->n_inputs; i++) {
        const struct bh_input *in = &agent->inputs[i];
        if (!is_tainted_input(look, in->name.s))
            continue;
        struct bh_output as = {.name = in->name};
        bh_advice_cite(look->list, advice, in->name.pos, agent->name.s, "'%s' takes in '%s', which is tainted",
                       agent->name.s, in->name.s);
        bh_buf_addf(&accept, "%s%s: {validate: {kind: %s, max_size: 1MiB}}", accept.len ? ", " : "{", in->name.s,
                    kind_of(&as));
    }
    advice->action = "a gate: what comes in is checked before the agent may have it, and its box stands alone";
    if (accept.len == 0 || agent->accept)
        return;
    bh_buf_addc(&accept, '}');
    bh_advice_change(look->list, advice, agent->name.s, "accept", accept.data);
    leave_together(look, advice, shared_group(look->subject->pipeline, agent));
}

static void advise_leave(struct look *look, const struct bh_agent *agent)
{
    const struct bh_pipeline *p = look->subject->pipeline;
    const char *group = shared_group(p, agent);
    if (!group || bh_map_has(look->said, group))
        return;
    struct bh_advice *advice =
        bh_advices_add(look->list, BH_ADVICE_TRUST, BH_TOPOLOGY_PER_AGENT,
                       "box '%s' holds agents that read what others wrote together with agents that do not", group);
    advice->box = bh_arena_strdup(look->arena, group);
    for (size_t i = 0; i < p->n_agents; i++) {
        const struct bh_agent *member = &p->agents[i];
        struct bh_pos pos = member->name.pos;
        if (!bh_streq(shared_group(p, member), group))
            continue;
        const char *power = first_power(look, member, &pos);
        bh_advice_name(look->list, advice, member->name.s);
        if (power)
            bh_advice_cite(look->list, advice, pos, member->name.s, "'%s' holds %s", member->name.s, power);
        if (look->tainted[i])
            bh_advice_cite(look->list, advice, member->name.pos, member->name.s, "'%s' %s", member->name.s,
                           begins_taint(p, member) ? "reads what others wrote" : "takes in what a tainted agent made");
    }
    leave_together(look, advice, group);
    advice->action = "let the plan put the wall where the taint begins";
}

static const struct bh_agent *agent_at(const struct bh_pipeline *p, const char *path)
{
    for (size_t i = 0; path && i < p->n_agents; i++) {
        if (bh_streq(p->agents[i].path, path))
            return &p->agents[i];
    }
    return NULL;
}

static void advise_refused(struct look *look, const struct bh_err *err)
{
    const struct bh_pipeline *p = look->subject->pipeline;
    const struct bh_agent *agent = bh_err_code(err) == BH_E_TRUST ? agent_at(p, bh_err_path(err)) : NULL;
    struct bh_pos pos;
    if (!agent || !bh_map_put(look->said, agent->path, look->said))
        return;
    bool holds = first_power(look, agent, &pos) != NULL, reads = begins_taint(p, agent);
    if (holds && reads)
        advise_split(look, agent);
    else if (holds && look->tainted[agent - p->agents])
        advise_gate(look, agent);
    else
        advise_leave(look, agent);
}

/* --- credentials that the plan cannot see --- */

static bool is_credential_name(const char *name)
{
    static const char *const ends[] = {"API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "ACCESS_KEY", "PRIVATE_KEY"};
    BH_CLEANUP_FREE char *upper = bh_strdup(name);
    for (char *p = upper; *p; p++)
        *p = *p == '-' || *p == '.' ? '_' : (char)toupper((unsigned char)*p);
    for (size_t i = 0; i < BH_ARRAY_LEN(ends); i++) {
        if (bh_ends_with(upper, ends[i]))
            return true;
    }
    return false;
}

/* A long word of letters and digits, or a parameter that is named like a credential itself. */
static bool is_credential_value(const char *value)
{
    static const char lead[] = "{{params.";
    if (bh_starts_with(value, lead) && bh_ends_with(value, "}}")) {
        BH_CLEANUP_FREE char *param = bh_strndup(value + strlen(lead), strlen(value) - strlen(lead) - 2);
        return is_credential_name(param);
    }
    bool digit = false, letter = false;
    for (const char *p = value; *p; p++) {
        if (!isalnum((unsigned char)*p) && !strchr("-_.+/=:", *p))
            return false;
        digit = digit || isdigit((unsigned char)*p);
        letter = letter || isalpha((unsigned char)*p);
    }
    return digit && letter && strlen(value) >= 16 && !strstr(value, "://");
}

static bool is_credential_file(const char *path)
{
    static const char *const names[] = {".env",       ".netrc",   ".npmrc",          ".pypirc",
                                        "id_rsa",     "id_ecdsa", "id_ed25519",      ".git-credentials",
                                        "kubeconfig", ".pgpass",  "credentials.json"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return bh_ends_with(path, ".aws/credentials") || bh_ends_with(path, ".docker/config.json");
}

/* Takes the entry away from `key` of the agent; the whole key where it is the only one. */
static void move_entry(struct look *look, struct bh_advice *advice, const struct bh_agent *agent, const char *key,
                       const struct bh_pair *pair, struct pair_list *moved)
{
    const struct bh_node *map = bh_node_get(bh_editor_agent(&look->ed, agent->name.s), key);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_buf_addf(&text, "{\"%s\": ", pair->name.s);
    if (!bh_node_get(map, pair->name.s) || !bh_editor_value_text(&look->ed, bh_node_get(map, pair->name.s), &text))
        return; /* it comes from `defaults`, or is not on one line */
    bh_buf_addc(&text, '}');
    put(look, moved, key, text.data);
    if (bh_node_len(map) == 1)
        bh_advice_change(look->list, advice, agent->name.s, key, NULL);
    else
        bh_advice_change_inner(look->list, advice, agent->name.s, key, pair->name.s);
}

static void advise_hidden(struct look *look, const struct bh_agent *agent, const char *key, const struct bh_pair *pair,
                          const char *what)
{
    if (!bh_map_put(look->said, agent->path, look->said))
        return;
    const char *power = bh_arena_printf(look->arena, "%s '%s'", what, pair->name.s);
    struct pair_list moved = {0};
    struct bh_advice *advice = add_split(look, agent, power, pair->name.pos);
    if (!begins_taint(look->subject->pipeline, agent))
        bh_advice_cite(look->list, advice, agent->name.pos, agent->name.s, "'%s' takes in what a tainted agent made",
                       agent->name.s);
    move_entry(look, advice, agent, key, pair, &moved);
    if (moved.len > 0)
        finish_split(look, advice, agent, &moved, "secret");
    advice->action = "split it: one agent reads, and another one, which gets only its checked output, holds the "
                     "credential; as a secret it would not stand in the document and the plan would keep watch over it";
}

static void look_for_hidden(struct look *look)
{
    const struct bh_pipeline *p = look->subject->pipeline;
    for (size_t i = 0; i < p->n_agents && look->list->len < SPLITS_MAX; i++) {
        const struct bh_agent *agent = &p->agents[i];
        if (!begins_taint(p, agent) && (!look->tainted[i] || agent->accept)) /* a gate is what is asked for */
            continue;
        for (size_t k = 0; k < agent->env.len; k++) {
            const struct bh_pair *pair = &agent->env.items[k];
            if (pair->value.s && is_credential_name(pair->name.s) && is_credential_value(pair->value.s))
                advise_hidden(look, agent, "env", pair, "what looks like a credential, the variable");
        }
        for (size_t k = 0; k < agent->files.len; k++) {
            const struct bh_pair *pair = &agent->files.items[k];
            if (is_credential_file(pair->name.s) || (pair->value.s && is_credential_file(pair->value.s)))
                advise_hidden(look, agent, "files", pair, "what looks like credentials, the file");
        }
    }
}

void bh_advise_trust(const struct bh_advise_subject *subject, struct bh_advices *list)
{
    struct look look = {
        .subject = subject, .list = list, .arena = list->arena, .said = bh_map_new(NULL), .outputs = bh_map_new(NULL)};
    bh_editor_init(&look.ed, subject->text, subject->len, subject->pipeline->root);
    find_tainted(&look);
    for (size_t i = 0; subject->errors && i < subject->errors->len && list->len < SPLITS_MAX; i++)
        advise_refused(&look, subject->errors->items[i]);
    look_for_hidden(&look);
    bh_editor_fini(&look.ed);
    bh_map_free(look.said);
    bh_map_free(look.outputs);
}
