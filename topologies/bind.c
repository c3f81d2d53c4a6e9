/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the binding of names: inputs, `needs`, the artifacts of predicates and of for_each. A name binds to the output
 * that is declared so, else to a source, else to the families that may make it; a glob to all that fit. What a later
 * stage makes is out of reach. Nobody binds to itself.
 */
#include "base/text.h"
#include "base/units.h"
#include "topologies/graph.h"
#include "topologies/makers.h"
#include "topologies/names.h"

/* What was found for one name. */
struct found {
    int source;
    const char *untrusted; /* name of an untrusted source among those that fit */
    const char *private_;  /* of a private one */
    size_t *producers;
    size_t n;
    bool itself;  /* it would have been the agent itself */
    int later;    /* an agent of a later stage that makes it, or -1 */
    bool literal; /* somebody declares exactly this name */
};

void bh_graph_edge(struct bh_planner *pl, size_t agent, size_t producer, enum bh_edge_kind kind)
{
    if (pl->n_edges >= BH_PLAN_MAX_EDGES) {
        bh_planner_too_large(pl, "edges", BH_PLAN_MAX_EDGES);
        return;
    }
    pl->n_edges++;
    struct bh_draft *d = &pl->drafts[agent];
    *BH_ARENA_PUSH(pl->arena, d->edges, d->n_edges, d->cap_edges) = (struct bh_edge){producer, kind};
}

static void take_source(struct bh_planner *pl, size_t i, struct found *f)
{
    const struct bh_source *s = &pl->doc->sources[i];
    pl->source_used[i] = true;
    if (f->source < 0)
        f->source = (int)i;
    if (pl->source_tainted[i] && !f->untrusted)
        f->untrusted = s->name.s;
    if (s->private_ && !f->private_)
        f->private_ = s->name.s;
}

/* Whether the agent may have what `producer` makes; notes why not. */
static bool may_take(const struct bh_planner *pl, size_t agent, size_t producer, struct found *f)
{
    if (producer == agent) {
        f->itself = true;
        return false;
    }
    if (pl->plan->agents[producer].stage <= pl->plan->agents[agent].stage)
        return true;
    f->later = f->later < 0 ? (int)producer : f->later;
    return false;
}

static void take_makers(struct bh_planner *pl, size_t agent, const struct bh_maker_list *list, struct found *f)
{
    size_t n = 0;
    for (size_t i = 0; list && i < list->n_agents; i++)
        n += may_take(pl, agent, list->agents[i], f);
    if (n == 0)
        return;
    f->n = n;
    f->producers = list->agents; /* all who ask for it share it */
    if (n == list->n_agents)
        return;
    f->producers = bh_arena_alloc(pl->arena, n * sizeof(*f->producers));
    for (size_t i = 0, k = 0; i < list->n_agents; i++) {
        if (may_take(pl, agent, list->agents[i], f))
            f->producers[k++] = list->agents[i];
    }
}

/* The first who declares exactly this name; a second one is a collision. */
static void take_exact(struct bh_planner *pl, size_t agent, const struct bh_maker *maker, struct found *f)
{
    f->literal = true;
    if (!may_take(pl, agent, maker->agent, f))
        return;
    f->producers = bh_arena_alloc(pl->arena, sizeof(*f->producers));
    f->producers[0] = maker->agent;
    f->n = 1;
}

static void find_glob(struct bh_planner *pl, size_t agent, const char *glob, struct found *f)
{
    for (size_t i = 0; i < pl->doc->n_sources && bh_planner_may_work(pl, 1); i++) {
        if (bh_glob_match(glob, pl->doc->sources[i].name.s))
            take_source(pl, i, f);
    }
    take_makers(pl, agent, bh_makers_of_glob(pl->makers, glob), f);
}

static struct found find(struct bh_planner *pl, size_t agent, const struct bh_text *name, bool is_glob)
{
    struct found f = {.source = -1, .later = -1};
    if (is_glob) {
        find_glob(pl, agent, name->glob, &f);
        return f;
    }
    const struct bh_maker_list *exact = bh_makers_exact(pl->makers, name->s);
    const struct bh_source *source = bh_map_get(pl->sources, name->s);
    if (exact)
        take_exact(pl, agent, exact->items[0], &f);
    else if (source)
        take_source(pl, (size_t)(source - pl->doc->sources), &f);
    else if (name->open)
        find_glob(pl, agent, name->glob, &f);
    else
        take_makers(pl, agent, bh_makers_of_name(pl->makers, name->s), &f);
    return f;
}

static const char *nearest_artifact(struct bh_planner *pl, const char *name)
{
    if (pl->n_hints++ >= BH_PLAN_MAX_HINTS)
        return NULL;
    if (!pl->known_names) {
        pl->known_names = bh_arena_alloc(pl->arena, sizeof(*pl->known_names));
        for (size_t i = 0; i < pl->doc->n_sources; i++)
            bh_texts_add(pl, pl->known_names, pl->doc->sources[i].name.s);
        for (size_t a = 0; a < pl->plan->n_agents; a++) {
            const struct bh_plan_agent *agent = &pl->plan->agents[a];
            for (size_t i = 0; i < agent->n_outputs; i++) {
                if (agent->outputs[i].name)
                    bh_texts_add(pl, pl->known_names, agent->outputs[i].name);
            }
        }
    }
    return bh_nearest(name, pl->known_names->items, pl->known_names->len);
}

static const char *path_of(struct bh_planner *pl, size_t agent, const char *key, size_t i)
{
    return bh_arena_printf(pl->arena, "%s.%s[%zu]", pl->plan->agents[agent].doc->path, key, i);
}

static void report_itself(struct bh_planner *pl, size_t agent, struct bh_pos pos, const char *path, const char *how,
                          const char *what)
{
    const char *name = pl->plan->agents[agent].name;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_CYCLE, 0, "agent '%s' waits for itself: %s → %s", name, name, name);
    bh_err_detail(&err, "'%s' %s '%s'", name, how, what);
    bh_planner_report(pl, err, pos, path);
}

static void report_later(struct bh_planner *pl, size_t agent, int later, const char *name, struct bh_pos pos,
                         const char *path)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent], *b = &pl->plan->agents[later];
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_UNBOUND_INPUT, 0, "input '%s' of agent '%s' is made by agent '%s' of the later stage '%s'",
               name, a->name, b->name, pl->doc->stages[b->stage].name.s);
    bh_err_hint(&err, "put '%s' into an earlier stage or '%s' into a later one", b->name, a->name);
    bh_planner_report(pl, err, pos, path);
}

static void report_nobody(struct bh_planner *pl, size_t agent, const char *name, bool optional, struct bh_pos pos,
                          const char *path)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_UNBOUND_INPUT, 0,
               optional ? "nobody makes the optional input '%s' of agent '%s'"
                        : "nobody makes input '%s' of agent '%s'",
               name, pl->plan->agents[agent].name);
    const char *numbered = bh_arena_printf(pl->arena, "%s@*", name);
    const char *nearest = bh_makers_exact(pl->makers, numbered) ? NULL : nearest_artifact(pl, name);
    if (bh_makers_exact(pl->makers, numbered)) /* select: all */
        bh_err_hint(&err,
                    "no attempt has the plain name: '%s@1' is that of attempt 1, '%s' are those of all that passed",
                    name, numbered);
    else if (nearest)
        bh_err_hint(&err, "did you mean '%s'?", nearest);
    else
        bh_err_hint(&err, "declare it under 'outputs' of an agent or under 'sources'");
    if (optional)
        bh_planner_warn(pl, err, pos, path);
    else
        bh_planner_report(pl, err, pos, path);
}

/* Whether the name is bound to something; says what is wrong where it is not. */
static bool check_found(struct bh_planner *pl, size_t agent, const struct found *f, const char *name, bool optional,
                        struct bh_pos pos, const char *path)
{
    if (f->n > 0 || f->source >= 0)
        return true;
    if (f->literal && f->itself)
        report_itself(pl, agent, pos, path, "reads its own output", name);
    else if (f->later >= 0)
        report_later(pl, agent, f->later, name, pos, path);
    else
        report_nobody(pl, agent, name, optional, pos, path);
    return false;
}

/* The digits behind the '@' of name@2, with nothing behind them; NULL: it has none. */
static const char *number_in(const char *name)
{
    const char *at = strrchr(name, '@');
    return at && at[1] && at[1 + strspn(at + 1, "0123456789")] == '\0' ? at + 1 : NULL;
}

/* name@5 of an agent that has two attempts is never there. Where somebody else may make it, it is left to the run. */
static void check_number(struct bh_planner *pl, size_t agent, const struct found *f, const struct bh_plan_input *in,
                         struct bh_pos pos, const char *path)
{
    const char *number = number_in(in->name);
    int64_t n = 0, most = 0;
    if (!number || f->n == 0 || bh_makers_exact(pl->makers, in->name))
        return;
    bool good = *number != '0' && bh_parse_int(number, &n) == 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct bh_agent *doc = pl->plan->agents[f->producers[i]].doc;
        if (!bh_agent_numbered(doc) || (good && n <= doc->attempts.count))
            return;
        most = doc->attempts.count > most ? doc->attempts.count : most;
    }
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_UNBOUND_INPUT, 0, "input '%s' of agent '%s': agent '%s' has no attempt %s", in->name,
               pl->plan->agents[agent].name, pl->plan->agents[f->producers[0]].name, number);
    bh_err_hint(&err, most > 1 ? "its attempts are numbered from 1 to %lld" : "its only attempt is number %lld",
                (long long)most);
    if (in->optional)
        bh_planner_warn(pl, err, pos, path);
    else
        bh_planner_report(pl, err, pos, path);
}

static void bind_input(struct bh_planner *pl, size_t agent, size_t i)
{
    struct bh_plan_input *in = &pl->plan->agents[agent].inputs[i];
    struct bh_draft *d = &pl->drafts[agent];
    struct found f = find(pl, agent, &d->input_names[i], in->is_glob);
    if (!bh_planner_may_work(pl, bh_makers_work(pl->makers)))
        return;
    struct bh_pos pos = pl->plan->agents[agent].doc->inputs[i].name.pos;
    const char *path = path_of(pl, agent, "inputs", i);
    if (check_found(pl, agent, &f, in->name, in->optional, pos, path) && !in->is_glob && !d->input_names[i].open)
        check_number(pl, agent, &f, in, pos, path);
    in->source = f.source;
    in->producers = f.producers;
    in->n_producers = f.n;
    d->input_untrusted[i] = f.untrusted;
    if (f.private_)
        d->private_source = f.private_;
    enum bh_edge_kind kind = in->optional || in->is_glob ? BH_EDGE_OPTIONAL : BH_EDGE_DATA;
    for (size_t p = 0; p < f.n; p++)
        bh_graph_edge(pl, agent, f.producers[p], kind);
}

/* Two inputs may not lie at one place, nor one inside another. Where a glob's matches lie is known at run time. */
static void check_input_paths(struct bh_planner *pl, size_t agent)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    if (a->n_inputs < 2)
        return;
    struct bh_name_table *seen = bh_name_table_new();
    for (size_t i = 0; i < a->n_inputs; i++) {
        const struct bh_plan_input *in = &a->inputs[i];
        const char *other_path, *other;
        if (in->is_glob)
            continue;
        enum bh_name_clash clash =
            bh_name_table_check(seen, in->path, path_of(pl, agent, "inputs", i), &other_path, &other);
        if (clash == BH_CLASH_EQUAL || clash == BH_CLASH_PREFIX)
            bh_planner_fail(pl, BH_E_BAD_VALUE, a->doc->inputs[i].name.pos, path_of(pl, agent, "inputs", i),
                            "input '%s' of agent '%s' lies at 'in/%s', where %s puts 'in/%s'", in->name, a->name,
                            in->path, other, other_path);
        else
            bh_name_table_add(seen, in->path, path_of(pl, agent, "inputs", i));
    }
    bh_name_table_free(seen);
}

/* `when: failed` and `when: always` of an agent make its needs wait for an end, however it comes. */
static enum bh_edge_kind kind_of_needs(const struct bh_agent *doc)
{
    const char *when = bh_node_text(doc->when);
    bool any_end = when && (strcmp(when, "failed") == 0 || strcmp(when, "always") == 0);
    return any_end ? BH_EDGE_OPTIONAL : BH_EDGE_NEEDS;
}

static const char *nearest_agent(struct bh_planner *pl, const char *name)
{
    if (pl->n_hints++ >= BH_PLAN_MAX_HINTS)
        return NULL;
    struct bh_texts names = {0};
    size_t it = 0;
    const char *key;
    void *value;
    while (bh_map_next(pl->by_name, &it, &key, &value))
        bh_texts_add(pl, &names, key);
    return bh_nearest(name, names.items, names.len);
}

static void report_no_agent(struct bh_planner *pl, size_t agent, const struct bh_str *need, const char *path)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_UNDEFINED, 0, "agent '%s' needs '%s', which no agent is called", pl->plan->agents[agent].name,
               need->s);
    const char *nearest = nearest_agent(pl, need->s);
    if (nearest)
        bh_err_hint(&err, "did you mean '%s'?", nearest);
    bh_planner_report(pl, err, need->pos, path);
}

static void bind_need(struct bh_planner *pl, size_t agent, size_t i)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    const struct bh_str *need = &a->doc->needs.items[i];
    const char *path = path_of(pl, agent, "needs", i);
    const struct bh_namesakes *same = bh_map_get(pl->by_name, need->s);
    if (!same) {
        report_no_agent(pl, agent, need, path);
        return;
    }
    for (size_t k = 0; k < same->n; k++) {
        const struct bh_plan_agent *other = &pl->plan->agents[same->agents[k]];
        if (same->agents[k] == agent)
            report_itself(pl, agent, need->pos, path, "needs", a->name);
        else if (other->stage > a->stage)
            bh_planner_fail(pl, BH_E_UNDEFINED, need->pos, path, "agent '%s' needs agent '%s' of the later stage '%s'",
                            a->name, other->name, pl->doc->stages[other->stage].name.s);
        else
            bh_graph_edge(pl, agent, same->agents[k], kind_of_needs(a->doc));
    }
}

/* A predicate's or a for_each's artifact: an edge like an optional input's. */
static void bind_steer(struct bh_planner *pl, size_t agent, const struct bh_node *rule, bool is_data)
{
    const struct bh_node *node = bh_node_get(rule, "artifact");
    const char *name = bh_node_text(node);
    if (!name)
        return;
    struct bh_text text = {.s = name, .sample = name, .glob = name};
    struct found f = find(pl, agent, &text, false);
    const char *path = bh_node_path(node, pl->arena);
    if (!check_found(pl, agent, &f, name, !is_data, bh_node_pos(node), path))
        return;
    struct bh_draft *d = &pl->drafts[agent];
    *BH_ARENA_PUSH(pl->arena, d->steers, d->n_steers, d->cap_steers) = (struct bh_steer){
        .name = name, .is_data = is_data, .untrusted = f.untrusted, .producers = f.producers, .n_producers = f.n};
    if (is_data && f.private_)
        d->private_source = f.private_;
    for (size_t p = 0; p < f.n; p++)
        bh_graph_edge(pl, agent, f.producers[p], BH_EDGE_OPTIONAL);
}

/* What the stage's `until` reads is mostly made by the stage itself: it steers the next round, no edge is drawn. */
static void bind_until(struct bh_planner *pl, size_t agent, const struct bh_node *until)
{
    const char *name = bh_node_text(bh_node_get(until, "artifact"));
    if (!name)
        return;
    struct bh_draft *d = &pl->drafts[agent];
    struct bh_steer steer = {.name = name};
    const struct bh_maker_list *exact = bh_makers_exact(pl->makers, name), *families = NULL;
    const struct bh_source *source = exact ? NULL : bh_map_get(pl->sources, name);
    if (exact) {
        size_t *producer = bh_arena_alloc(pl->arena, sizeof(*producer));
        *producer = exact->items[0]->agent;
        steer.producers = producer;
        steer.n_producers = 1;
    } else if (source) {
        struct found f = {.source = -1};
        take_source(pl, (size_t)(source - pl->doc->sources), &f);
        steer.untrusted = f.untrusted;
    } else if ((families = bh_makers_of_name(pl->makers, name))) {
        steer.producers = families->agents;
        steer.n_producers = families->n_agents;
    }
    if (steer.n_producers > 0 || steer.untrusted)
        *BH_ARENA_PUSH(pl->arena, d->steers, d->n_steers, d->cap_steers) = steer;
}

static void bind_agent(struct bh_planner *pl, size_t agent)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    struct bh_draft *d = &pl->drafts[agent];
    d->input_untrusted = bh_arena_alloc(pl->arena, (a->n_inputs + 1) * sizeof(*d->input_untrusted));
    for (size_t i = 0; i < a->n_inputs && !pl->too_large; i++)
        bind_input(pl, agent, i);
    check_input_paths(pl, agent);
    for (size_t i = 0; i < a->doc->needs.len; i++)
        bind_need(pl, agent, i);
    bind_steer(pl, agent, a->doc->when, false);
    if (a->stage < 0)
        return;
    const struct bh_stage *stage = &pl->doc->stages[a->stage];
    d->barrier = !a->doc->has_inputs && !a->doc->has_needs;
    bind_steer(pl, agent, stage->when, false);
    bind_steer(pl, agent, stage->for_each, true);
    bind_until(pl, agent, bh_node_get(stage->repeat, "until"));
}

static void index_output(struct bh_planner *pl, size_t agent, const struct bh_text *name)
{
    const struct bh_agent *doc = pl->plan->agents[agent].doc;
    if (doc->attempts.select != BH_SELECT_ALL)
        bh_makers_add(pl->makers, name->s, name->glob, agent);
    bool rounds = doc->stage >= 0 && pl->doc->stages[doc->stage].repeat;
    if (bh_agent_numbered(doc) || rounds) { /* name@2, name@r2 */
        const char *numbered = bh_arena_printf(pl->arena, "%s@*", name->glob);
        bh_makers_add(pl->makers, numbered, numbered, agent);
    }
}

void bh_graph_bind(struct bh_planner *pl)
{
    pl->makers = bh_makers_new(pl->arena);
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        for (size_t i = 0; i < pl->plan->agents[a].n_outputs; i++)
            index_output(pl, a, &pl->drafts[a].output_names[i]);
    }
    bh_makers_seal(pl->makers);
    for (size_t a = 0; a < pl->plan->n_agents && !pl->too_large; a++)
        bind_agent(pl, a);
}
