/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the agent: its table of keys, the small ones among their readers, and what holds between them.
 */
#include <ctype.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/load_priv.h"

/* --- small keys --- */

static void read_name(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_name(r, n, field);
}

static void read_command(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_command(r, n, BH_HOLDS_AGENT, field);
}

static void read_brain(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_command(r, n, BH_HOLDS_BRAIN, field);
}

static void read_prompt_file(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    (void)bh_read_host_path(r, n, BH_HOLDS_AGENT, &a->prompt_file);
}

static const struct bh_key prompt_keys[] = {{"file", read_prompt_file, 0, BH_KEY_REQUIRED}};
const struct bh_key_table bh_prompt_table = {"prompt", "a prompt", prompt_keys, BH_ARRAY_LEN(prompt_keys), 0};

static void read_prompt(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    if (bh_node_kind(n) == BH_NODE_MAP)
        (void)bh_read_map(r, n, &bh_prompt_table, a);
    else
        (void)bh_read_text(r, n, "a prompt as a text or {file: PATH}", BH_HOLDS_AGENT, &a->prompt);
}

static void read_topology(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"auto", "shared-box", "per-agent"};
    struct bh_agent *a = field;
    size_t i;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        a->topology = (enum bh_topology)(BH_TOPOLOGY_AUTO + i);
}

static void read_pair(struct bh_reader *r, const struct bh_node *n, enum bh_holds holds, struct bh_pairs *pairs)
{
    struct bh_pair pair = {.name = {.s = bh_node_key(n), .pos = bh_node_key_pos(n)}};
    if (!bh_read_text(r, n, "a text", holds, &pair.value))
        return;
    if (strlen(pair.value.s) > BH_ENV_MAX)
        bh_read_error(r, n, BH_E_BAD_VALUE, "put the text into a file of 'files'",
                      "a value of %zu bytes: the most is 128 KiB", strlen(pair.value.s));
    else
        *BH_ARENA_PUSH(r->arena, pairs->items, pairs->len, pairs->cap) = pair;
}

void bh_read_env(struct bh_reader *r, struct bh_node *n, void *field)
{
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of variable to text"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        if (bh_check_env_key(r, bh_node_at(n, i)))
            read_pair(r, bh_node_at(n, i), BH_HOLDS_AGENT, field);
    }
}

static void read_labels(struct bh_reader *r, struct bh_node *n, void *field)
{
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of label to text"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        const struct bh_node *item = bh_node_at(n, i);
        if (*bh_node_key(item) == '\0')
            bh_read_key_error(r, item, BH_E_BAD_NAME, NULL, "a label without a name");
        else if (bh_check_holds(r, item, bh_node_key(item), BH_HOLDS_NONE, true))
            read_pair(r, item, BH_HOLDS_NONE, field);
    }
}

static void read_workdir(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str path, clean = {0};
    if (!bh_read_filled(r, n, "a path", BH_HOLDS_NONE, &path))
        return;
    bool absolute = *path.s == '/';
    if (bh_streq(path.s, "/") || bh_streq(path.s, "/workspace") || bh_streq(path.s, "."))
        clean.s = ""; /* the folders themselves are good here */
    else if (!bh_clean_path(r, n, path.s, "", false, &clean))
        return;
    const char *root = absolute && !bh_streq(path.s, "/workspace") ? "" : "/workspace";
    *(struct bh_str *)field = (struct bh_str){
        .s = bh_arena_printf(r->arena, "%s%s%s", root, *root && !*clean.s ? "" : "/", clean.s), .pos = path.pos};
}

static void read_untrusted(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, field);
}

static void read_on_failure(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"fail", "continue"};
    size_t i;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        *(bool *)field = i == 1;
}

static void read_keep(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"on-failure", "always", "never"};
    struct bh_agent *a = field;
    size_t i;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        a->keep = (enum bh_keep)i;
}

/* --- names of the maps at the top level --- */

static void push_name(struct bh_reader *r, const struct bh_node *n, struct bh_strs *names)
{
    struct bh_str name;
    if (bh_read_filled(r, n, "a name", BH_HOLDS_NONE, &name))
        *BH_ARENA_PUSH(r->arena, names->items, names->len, names->cap) = name;
}

static void read_endpoints(struct bh_reader *r, struct bh_node *n, void *field)
{
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of names of endpoints"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++)
        push_name(r, bh_node_at(n, i), field);
}

/* "api-key" → "API_KEY". */
static const char *variable_of(struct bh_reader *r, const char *name)
{
    char *variable = bh_arena_strdup(r->arena, name);
    for (char *p = variable; *p; p++)
        *p = *p == '-' ? '_' : (*p >= 'a' && *p <= 'z') ? (char)(*p - 'a' + 'A') : *p;
    return variable;
}

static void add_variable(struct bh_reader *r, const struct bh_node *n, struct bh_agent *a, size_t *cap,
                         const char *variable)
{
    size_t len = a->secrets.len - 1; /* the name has been added */
    for (size_t i = 0; i < len; i++) {
        if (strcmp(a->secret_variables[i], variable) == 0)
            bh_read_error(r, n, BH_E_DUPLICATE_KEY, "name the variables: {OTHER: name}",
                          "two secrets would be in the variable '%s'", variable);
    }
    *BH_ARENA_PUSH(r->arena, a->secret_variables, len, *cap) = variable;
}

static void read_secrets(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    bool map = bh_node_kind(n) == BH_NODE_MAP;
    size_t cap = 0;
    if (!map && !bh_expect(r, n, BH_NODE_LIST, "a list of names of secrets, or a map of variable to secret"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        const struct bh_node *item = bh_node_at(n, i);
        size_t before = a->secrets.len;
        if (map)
            (void)bh_check_env_key(r, item);
        push_name(r, item, &a->secrets);
        if (a->secrets.len > before)
            add_variable(r, item, a, &cap, map ? bh_node_key(item) : variable_of(r, a->secrets.items[before].s));
    }
}

/* --- hands --- */

static void read_mode(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"session", "per-call"};
    size_t i;
    (void)field;
    (void)bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i);
}

static void read_tools(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"exec", "read", "write", "list", "search", "patch"};
    size_t at;
    (void)field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of tools"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++)
        (void)bh_read_word(r, bh_node_at(n, i), words, BH_ARRAY_LEN(words), &at);
}

static void read_approve(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str pattern;
    (void)field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of patterns"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++)
        (void)bh_read_filled(r, bh_node_at(n, i), "a pattern", BH_HOLDS_NONE, &pattern);
}

static void read_max_calls(struct bh_reader *r, struct bh_node *n, void *field)
{
    int64_t count;
    (void)field;
    (void)bh_read_int(r, n, 1, BH_COUNT_MAX, &count);
}

static void read_some_time(struct bh_reader *r, struct bh_node *n, void *field)
{
    int64_t ns;
    (void)field;
    (void)bh_read_duration(r, n, false, &ns);
}

static void read_place(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str place;
    (void)field;
    (void)bh_read_filled(r, n, "a place", BH_HOLDS_NONE, &place);
}

static const struct bh_key hands_keys[] = {
    {"mode", read_mode, 0, 0},
    {"tools", read_tools, 0, 0},
    {"approve", read_approve, 0, 0},
    {"max_calls", read_max_calls, 0, 0},
    {"call_timeout", read_some_time, 0, 0},
    {"idle", read_some_time, 0, 0},
    {"place", read_place, 0, 0},
    {"agents", NULL, 0, BH_KEY_RESERVED},
};
const struct bh_key_table bh_hands_table = {"hands", "hands", hands_keys, BH_ARRAY_LEN(hands_keys), 0};

static void read_hands(struct bh_reader *r, struct bh_node *n, void *field)
{
    *(const struct bh_node **)field = n;
    (void)bh_read_map(r, n, &bh_hands_table, field);
}

/* --- the table --- */

#define FIELD(name) offsetof(struct bh_agent, name)
static const struct bh_key agent_keys[] = {
    {"name", read_name, FIELD(name), BH_KEY_REQUIRED | BH_KEY_OWN},
    {"run", read_command, FIELD(run), BH_KEY_OWN},
    {"brain", read_brain, FIELD(brain), BH_KEY_OWN | BH_KEY_LATER},
    {"outputs", bh_read_outputs, 0, BH_KEY_OWN},
    {"prompt", read_prompt, 0, 0},
    {"hands", read_hands, FIELD(hands), BH_KEY_LATER | BH_KEY_MERGED},
    {"topology", read_topology, 0, 0},
    {"box", read_name, FIELD(box), 0},
    {"base", bh_read_base_agent, FIELD(traits), 0},
    {"setup", read_command, FIELD(setup), 0},
    {"prepare", bh_read_prepare, 0, BH_KEY_MERGED},
    {"attempts", bh_read_attempts, 0, BH_KEY_MERGED},
    {"check", bh_read_check, 0, BH_KEY_MERGED},
    {"inputs", bh_read_inputs, 0, 0},
    {"needs", bh_read_needs, 0, 0},
    {"files", bh_read_files, FIELD(files), BH_KEY_MERGED},
    {"env", bh_read_env, FIELD(env), BH_KEY_MERGED},
    {"secrets", read_secrets, 0, BH_KEY_MERGED},
    {"endpoints", read_endpoints, FIELD(endpoints), 0},
    {"network", bh_read_network, FIELD(traits), BH_KEY_MERGED},
    {"limits", bh_read_limits, FIELD(traits), BH_KEY_MERGED},
    {"timeout", bh_read_timeout, FIELD(timeouts), BH_KEY_MERGED},
    {"retries", bh_read_retries, 0, BH_KEY_MERGED},
    {"untrusted", read_untrusted, FIELD(untrusted), 0},
    {"accept", bh_read_accept, FIELD(accept), BH_KEY_MERGED},
    {"gate", bh_read_gate, FIELD(gate), 0},
    {"when", bh_read_predicate, FIELD(when), BH_KEY_LATER},
    {"matrix", bh_read_matrix, 0, BH_KEY_LATER | BH_KEY_MERGED},
    {"on_failure", read_on_failure, FIELD(continue_on_failure), 0},
    {"keep", read_keep, 0, 0},
    {"user", bh_read_user, FIELD(traits), 0},
    {"workdir", read_workdir, FIELD(workdir), 0},
    {"labels", read_labels, FIELD(labels), BH_KEY_MERGED},
    {"ask", NULL, 0, BH_KEY_RESERVED},
    {"services", NULL, 0, BH_KEY_RESERVED},
    {"use", NULL, 0, BH_KEY_RESERVED},
};
#undef FIELD
const struct bh_key_table bh_agent_table = {"agent", "an agent", agent_keys, BH_ARRAY_LEN(agent_keys), 0};
const struct bh_key_table bh_defaults_table = {"defaults", "the defaults of agents", agent_keys,
                                               BH_ARRAY_LEN(agent_keys), BH_KEY_OWN};

/* --- what holds between keys --- */

static void check_command(struct bh_reader *r, const struct bh_node *own, const struct bh_node *n)
{
    const struct bh_node *run = bh_node_get(n, "run"), *brain = bh_node_get(n, "brain"),
                         *hands = bh_node_get(n, "hands");
    if (run && brain)
        bh_read_key_error(r, brain, BH_E_INVALID, NULL, "an agent has 'run' or 'brain', not both");
    else if (!run && !brain)
        bh_read_missing(r, n, "run", "'run' is the command of the agent", "an agent needs 'run' or 'brain'");
    /* hands that come with the defaults wait for an agent with a brain */
    if (hands && !brain && bh_node_get(own, "hands"))
        bh_read_key_error(r, hands, BH_E_INVALID, NULL, "'hands' without 'brain'");
}

static bool is_inside(const char *path, const char *folder)
{
    return bh_starts_with(path, folder) && path[strlen(folder)] == '/';
}

/* The score is read by bulkhead after the check: as an output the agent's own hand would be on it. */
static void check_score(struct bh_reader *r, const struct bh_node *n, const struct bh_agent *a)
{
    struct bh_node *score = bh_node_get(bh_node_get(n, "attempts"), "score");
    struct bh_str path = {0};
    if (!bh_node_text(score) || !bh_clean_path(r, score, bh_node_text(score), "/workspace", false, &path))
        return;
    if (bh_streq(path.s, "out")) {
        bh_read_error(r, score, BH_E_INVALID, "name a file of its own",
                      "the score 'out' is the folder of the outputs, and it is removed before it is written");
        return;
    }
    for (size_t i = 0; i < a->n_outputs; i++) {
        const struct bh_output *out = &a->outputs[i];
        const char *at = out->path.s;
        if (!at && (out->name.s || out->glob.s))
            at = bh_arena_printf(r->arena, "out/%s", out->name.s ? out->name.s : out->glob.s);
        if (at && bh_streq(at, path.s))
            bh_read_error(r, score, BH_E_INVALID, NULL, "the score '%s' is a declared output", path.s);
        else if (at && is_inside(at, path.s))
            bh_read_error(r, score, BH_E_INVALID, "name a file of its own",
                          "the score '%s' is a folder of the output '%s', and it is removed before it is written",
                          path.s, at);
    }
}

static struct bh_agent new_agent(int stage)
{
    const int64_t hour = 3600 * BH_NS_PER_S;
    return (struct bh_agent){
        .stage = stage,
        .attempts = {.count = 1, .min_success = 1},
        .timeouts = {.setup = hour, .prepare = hour, .run = hour, .check = hour, .grace = 10 * BH_NS_PER_S},
    };
}

static bool count_agent(struct bh_reader *r, const struct bh_node *n)
{
    if (++r->n_agents_read <= BH_PIPELINE_MAX_AGENTS)
        return true;
    if (r->n_agents_read == BH_PIPELINE_MAX_AGENTS + 1)
        bh_read_error(r, n, BH_E_TOO_LARGE, "many alike agents are a 'matrix' or a 'for_each'",
                      "the document has more than %d agents", BH_PIPELINE_MAX_AGENTS);
    return false;
}

static void load_agent(struct bh_reader *r, struct bh_node *n, struct bh_node *defaults, int stage,
                       const struct bh_agents *into)
{
    struct bh_agent a = new_agent(stage);
    a.path = bh_node_path(n, r->arena);
    struct bh_node *all = bh_node_kind(n) == BH_NODE_MAP ? bh_merge_defaults(r, n, defaults) : n;
    if (!all || !bh_read_map(r, all, &bh_agent_table, &a))
        return;
    check_command(r, n, all);
    check_score(r, all, &a);
    *BH_ARENA_PUSH(r->arena, r->agent_nodes, r->n_agent_nodes, r->agent_nodes_cap) = all;
    *BH_ARENA_PUSH(r->arena, *into->items, *into->len, *into->cap) = a;
}

void bh_load_agents(struct bh_reader *r, struct bh_node *list, struct bh_node *defaults, int stage,
                    const struct bh_agents *into)
{
    if (!bh_expect(r, list, BH_NODE_LIST, "a list of agents"))
        return;
    if (bh_node_len(list) == 0)
        bh_read_error(r, list, BH_E_BAD_VALUE, NULL, "the list has no agent");
    for (size_t i = 0; i < bh_node_len(list) && count_agent(r, bh_node_at(list, i)); i++)
        load_agent(r, bh_node_at(list, i), defaults, stage, into);
}

void bh_load_defaults(struct bh_reader *r, struct bh_node *defaults, struct bh_agent *ret)
{
    *ret = new_agent(-1);
    if (bh_read_map(r, defaults, &bh_defaults_table, ret))
        *BH_ARENA_PUSH(r->arena, r->agent_nodes, r->n_agent_nodes, r->agent_nodes_cap) = defaults;
}
