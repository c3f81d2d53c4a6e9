/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the agents of the plan: one per agent of the document and cell of its matrix, with all {{ }} filled. Knows
 * nothing of other agents but their names.
 */
#include "base/text.h"
#include "topologies/fill.h"

enum { MAX_AGENT_NAME = 63, DEFAULT_GLOB_FILES = 1000 };

/* One agent being made. */
struct making {
    struct bh_planner *pl;
    const struct bh_agent *doc;
    struct bh_scope scope;
    struct bh_plan_agent *agent;
    struct bh_draft *draft;
};

struct bh_scope bh_planner_scope(struct bh_planner *pl)
{
    return (struct bh_scope){.params = pl->params, .budget = &pl->budget};
}

static void make_inputs(struct making *m)
{
    const struct bh_agent *doc = m->doc;
    m->agent->n_inputs = doc->n_inputs;
    m->agent->inputs = bh_arena_alloc(m->pl->arena, (doc->n_inputs + 1) * sizeof(*m->agent->inputs));
    struct bh_scope once = m->scope;
    once.before_attempts = m->scope.has_attempts;
    m->draft->input_names = bh_arena_alloc(m->pl->arena, (doc->n_inputs + 1) * sizeof(struct bh_text));
    for (size_t i = 0; i < doc->n_inputs; i++) {
        const struct bh_input *in = &doc->inputs[i];
        struct bh_plan_input *out = &m->agent->inputs[i];
        struct bh_where at = BH_AT_INDEX(doc->path, "inputs", i);
        out->is_glob = bh_glob_is(in->name.s);
        struct bh_text t = bh_fill_artifact(m->pl, &once, in->name, out->is_glob, true, at);
        m->draft->input_names[i] = t;
        out->name = t.s;
        out->optional = in->optional;
        out->source = -1;
        out->path = bh_fill_path(m->pl, &once, in->path, at);
        if (!out->path && !out->is_glob)
            out->path = out->name;
    }
}

static void make_output(struct making *m, size_t i)
{
    const struct bh_output *doc = &m->doc->outputs[i];
    struct bh_plan_output *out = &m->agent->outputs[i];
    struct bh_where at = BH_AT_INDEX(m->doc->path, "outputs", i);
    bool is_glob = doc->glob.s != NULL;
    struct bh_str name = is_glob ? doc->glob : doc->name;
    struct bh_text t = bh_fill_artifact(m->pl, &m->scope, name, is_glob, false, at);
    m->draft->output_names[i] = t;
    *out = (struct bh_plan_output){
        .name = is_glob ? NULL : t.s,
        .glob = is_glob ? t.s : NULL,
        .path = bh_fill_path(m->pl, &m->scope, doc->path, at),
        .kind = doc->kind,
        .optional = doc->optional,
        .max_size = doc->max_size,
        .max_files = doc->max_files < 0 && is_glob ? DEFAULT_GLOB_FILES : doc->max_files,
        .validate = doc->validate,
        .pos = name.pos,
    };
    const char *owner = bh_arena_printf(m->pl->arena, "%s.outputs[%zu]", m->doc->path, i);
    out->validate_command = bh_plan_validate_command(m->pl, &m->scope, doc->validate, owner, &out->n_validate_command);
    if (!out->path)
        out->path = is_glob ? "out" : bh_arena_printf(m->pl->arena, "out/%s", t.s);
}

static void make_outputs(struct making *m)
{
    size_t n = m->doc->n_outputs;
    m->agent->n_outputs = n;
    m->agent->outputs = bh_arena_alloc(m->pl->arena, (n + 1) * sizeof(*m->agent->outputs));
    m->draft->output_names = bh_arena_alloc(m->pl->arena, (n + 1) * sizeof(struct bh_text));
    for (size_t i = 0; i < n; i++)
        make_output(m, i);
}

static void make_commands(struct making *m)
{
    const struct bh_agent *doc = m->doc;
    struct bh_planner *pl = m->pl;
    struct bh_plan_agent *a = m->agent;
    size_t ignored;
    struct bh_scope once = m->scope; /* what comes before the attempts */
    once.before_attempts = m->scope.has_attempts;
    a->run = bh_fill_command(pl, &m->scope, &doc->run, doc->path, "run", &a->n_run);
    a->setup = bh_fill_command(pl, &once, &doc->setup, doc->path, "setup", &a->n_setup);
    a->prepare = bh_fill_command(pl, &once, &doc->prepare, doc->path, "prepare", &a->n_prepare);
    a->check = bh_fill_command(pl, &m->scope, &doc->check, doc->path, "check", &a->n_check);
    m->scope.is_brain = true; /* for its errors: what it becomes is asked for when brains are made */
    (void)bh_fill_command(pl, &m->scope, &doc->brain, doc->path, "brain", &ignored);
    m->scope.is_brain = false;
}

static void make_each(struct making *m)
{
    const struct bh_attempts *attempts = &m->doc->attempts;
    if (!attempts->each)
        return;
    size_t n = (size_t)attempts->count;
    m->agent->each = bh_arena_alloc(m->pl->arena, n * sizeof(*m->agent->each));
    for (size_t i = 0; i < n; i++) {
        const char *path = bh_arena_printf(m->pl->arena, "%s.attempts.each[%zu]", m->doc->path, i);
        m->agent->each[i] = bh_fill_env(m->pl, &m->scope, &attempts->each[i], path);
    }
}

static void make_texts(struct making *m)
{
    const struct bh_agent *doc = m->doc;
    struct bh_planner *pl = m->pl;
    struct bh_plan_agent *a = m->agent;
    a->prompt = bh_fill_text(pl, &m->scope, doc->prompt, BH_AT(doc->path, "prompt"));
    a->prompt_file = bh_fill_host_path(pl, &m->scope, doc->prompt_file, BH_AT(doc->path, "prompt.file"));
    struct bh_scope once = m->scope;
    once.before_attempts = m->scope.has_attempts;
    a->n_files = doc->files.len;
    a->files = bh_fill_files(pl, &once, &doc->files, doc->path);
    a->n_check_files = doc->check_files.len;
    a->check_files = bh_fill_files(pl, &once, &doc->check_files, bh_arena_printf(pl->arena, "%s.check", doc->path));
    a->n_env = doc->env.len;
    a->env = bh_fill_env(pl, &m->scope, &doc->env, doc->path);
    m->draft->base = doc->traits.base;
    m->draft->base.s = bh_fill_text(pl, &once, doc->traits.base, BH_AT(doc->path, "base"));
    make_each(m);
}

static void read_own_keys(struct bh_draft *draft)
{
    const struct bh_node *n = draft->node;
    draft->own = (struct bh_own_keys){
        .base = bh_node_get(n, "base"),
        .network = bh_node_get(n, "network"),
        .user = bh_node_get(n, "user"),
        .limits = bh_node_get(n, "limits"),
        .secrets = bh_node_get(n, "secrets"),
        .endpoints = bh_node_get(n, "endpoints"),
    };
}

static void remember_name(struct bh_planner *pl, const char *name, size_t agent)
{
    struct bh_namesakes *same = bh_map_get(pl->by_name, name);
    if (!same) {
        same = bh_arena_alloc(pl->arena, sizeof(*same));
        (void)bh_map_put(pl->by_name, name, same);
    }
    *BH_ARENA_PUSH(pl->arena, same->agents, same->n, same->cap) = agent;
}

/* Cells may come to bear one name, or that of another agent. */
static void check_name(struct bh_planner *pl, const struct bh_plan_agent *a)
{
    const struct bh_namesakes *same = bh_map_get(pl->by_name, a->name);
    bool too_long = strlen(a->name) > MAX_AGENT_NAME;
    if (!same && !too_long)
        return;
    const char *path = bh_arena_printf(pl->arena, "%s.name", a->doc->path);
    if (too_long)
        bh_planner_fail(pl, BH_E_BAD_NAME, a->doc->name.pos, path, "agent name '%.100s' is longer than %d characters",
                        a->name, MAX_AGENT_NAME);
    else if (pl->plan->agents[same->agents[0]].doc == a->doc)
        bh_planner_fail(pl, BH_E_BAD_NAME, a->doc->name.pos, path,
                        "two cells of the matrix of agent '%s' get the same name '%s'", a->doc->name.s, a->name);
    else
        bh_planner_fail(pl, BH_E_BAD_NAME, a->doc->name.pos, path, "two agents get the same name '%s'", a->name);
}

static struct bh_scope scope_of(struct bh_planner *pl, const struct bh_agent *doc, const struct bh_cell *cell)
{
    const struct bh_stage *stage = doc->stage >= 0 ? &pl->doc->stages[doc->stage] : NULL;
    struct bh_scope scope = bh_planner_scope(pl);
    scope.matrix = cell->values;
    scope.n_matrix = cell->n;
    scope.has_item = stage && stage->for_each;
    scope.has_round = stage && stage->repeat;
    scope.has_attempts = bh_agent_numbered(doc);
    return scope;
}

/* In the order in which they were met. */
static void keep_params(struct making *m)
{
    struct bh_texts names = {0};
    size_t it = 0;
    const char *key;
    void *slot;
    while (bh_map_next(m->scope.named, &it, &key, &slot))
        bh_texts_add(m->pl, &names, ((const struct bh_param_slot *)slot)->doc->name.s);
    m->agent->params = names.items;
    m->agent->n_params = names.len;
}

static void make_agent(struct bh_planner *pl, const struct bh_agent *doc, const struct bh_node *node,
                       const struct bh_cell *cell)
{
    struct bh_plan *plan = pl->plan;
    size_t n_drafts = plan->n_agents;
    BH_CLEANUP_MAP struct bh_map *named = bh_map_new(NULL);
    struct making m = {.pl = pl, .doc = doc, .scope = scope_of(pl, doc, cell)};
    m.scope.named = named;
    m.agent = BH_ARENA_PUSH(pl->arena, plan->agents, plan->n_agents, pl->cap_agents);
    m.draft = BH_ARENA_PUSH(pl->arena, pl->drafts, n_drafts, pl->cap_drafts);
    *m.agent = (struct bh_plan_agent){
        .name = cell->n ? bh_arena_printf(pl->arena, "%s%s", doc->name.s, cell->suffix) : doc->name.s,
        .doc = doc,
        .stage = doc->stage,
        .matrix = cell->values,
        .n_matrix = cell->n,
    };
    *m.draft = (struct bh_draft){.node = node, .group = -1};
    read_own_keys(m.draft);
    check_name(pl, m.agent);
    remember_name(pl, m.agent->name, plan->n_agents - 1);
    bh_plan_gates(pl, &m.scope, m.agent);
    make_inputs(&m);
    make_outputs(&m);
    make_commands(&m);
    make_texts(&m);
    keep_params(&m);
}

static void make_cells(struct bh_planner *pl, const struct bh_agent *doc, const struct bh_node *node)
{
    struct bh_cell *cells;
    size_t first = pl->plan->n_agents, n = bh_matrix_cells(pl, doc, &cells);
    if (first + n > BH_PLAN_MAX_AGENTS) {
        bh_planner_fail(pl, BH_E_TOO_LARGE, doc->name.pos, doc->path, "the plan has more than %d agents",
                        BH_PLAN_MAX_AGENTS);
        return;
    }
    for (size_t i = 0; i < n && !pl->too_large; i++)
        make_agent(pl, doc, node, &cells[i]);
    if (doc->matrix && !bh_map_has(pl->by_name, doc->name.s)) { /* `needs` may name all cells at once */
        for (size_t i = first; i < pl->plan->n_agents; i++)
            remember_name(pl, doc->name.s, i);
    }
}

void bh_plan_agents(struct bh_planner *pl)
{
    const struct bh_pipeline *doc = pl->doc;
    pl->stage_start = bh_arena_alloc(pl->arena, (doc->n_stages + 1) * sizeof(*pl->stage_start));
    size_t next = 0;
    const struct bh_node *stages = bh_node_get(doc->root, "stages");
    for (size_t s = 0; s < doc->n_stages; s++) {
        const struct bh_node *list = bh_node_get(bh_node_at(stages, s), "agents");
        pl->stage_start[s] = pl->plan->n_agents;
        for (size_t i = 0; next < doc->n_agents && doc->agents[next].stage == (int)s; i++, next++)
            make_cells(pl, &doc->agents[next], bh_node_at(list, i));
    }
    pl->stage_start[doc->n_stages] = pl->plan->n_agents;
    const struct bh_node *list = bh_node_get(doc->root, "agents");
    for (size_t i = 0; next < doc->n_agents; i++, next++)
        make_cells(pl, &doc->agents[next], bh_node_at(list, i));
}
