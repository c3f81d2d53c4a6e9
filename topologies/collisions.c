/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what is known of collisions before anything runs: two owners of one artifact name, two outputs at one path of a
 * shared box, two different files at one path of it. Each error names both owners and where they say so.
 */
#include "base/text.h"
#include "topologies/names.h"
#include "topologies/plan_priv.h"

/* Who claims a name: an agent, or (agent NULL) a source. */
struct claim {
    const char *agent;
    const struct bh_agent *doc;
    struct bh_pos pos;
    const char *shown; /* the name as declared */
};

struct claims {
    struct bh_planner *pl;
    struct bh_name_table *table;
    struct bh_map *by_name; /* → struct claim */
};

static const char *owner_of(const struct claim *c)
{
    return c->agent ? c->agent : "/"; /* no agent is called so */
}

static const char *describe(struct bh_planner *pl, const struct claim *c)
{
    return c->agent ? bh_arena_printf(pl->arena, "output '%s' of agent '%s'", c->shown, c->agent)
                    : bh_arena_printf(pl->arena, "source '%s'", c->shown);
}

static void add_places(struct bh_planner *pl, struct bh_err **err, const struct claim *a, const struct claim *b)
{
    const char *file = pl->doc->file;
    bh_err_detail(err, "%s stands at %s:%d:%d, %s at %s:%d:%d", describe(pl, a), file, a->pos.line, a->pos.column,
                  describe(pl, b), file, b->pos.line, b->pos.column);
}

static void add_hint(struct bh_err **err, const struct claim *a, const struct claim *b)
{
    if (a->doc && a->doc == b->doc && a->doc->matrix && bh_node_len(a->doc->matrix) > 0)
        bh_err_hint(err, "put a value of the matrix into the name, like {{matrix.%s}}",
                    bh_node_key_at(a->doc->matrix, 0));
}

static void say_equal(struct bh_planner *pl, struct bh_err **err, const struct claim *old, const struct claim *new)
{
    if (old->agent)
        bh_err_set(err, BH_E_COLLISION, 0, "agents '%s' and '%s' both declare the output '%s'", old->agent, new->agent,
                   new->shown);
    else
        bh_err_set(err, BH_E_COLLISION, 0, "%s has the name of a source", describe(pl, new));
}

static void say_prefix(struct bh_planner *pl, struct bh_err **err, const struct claim *old, const struct claim *new)
{
    bool old_is_folder = strlen(old->shown) < strlen(new->shown);
    bh_err_set(err, BH_E_COLLISION, 0, "%s is a folder of %s", describe(pl, old_is_folder ? old : new),
               describe(pl, old_is_folder ? new : old));
}

static void report_clash(struct claims *cs, enum bh_name_clash clash, const struct claim *old, const struct claim *new,
                         const char *path)
{
    struct bh_err *err = NULL;
    if (clash == BH_CLASH_EQUAL)
        say_equal(cs->pl, &err, old, new);
    else if (clash == BH_CLASH_CASE)
        bh_err_set(&err, BH_E_COLLISION, 0, "%s and %s differ only by case", describe(cs->pl, old),
                   describe(cs->pl, new));
    else
        say_prefix(cs->pl, &err, old, new);
    add_places(cs->pl, &err, old, new);
    add_hint(&err, old, new);
    bh_planner_report(cs->pl, err, new->pos, path);
}

static void claim_name(struct claims *cs, const char *name, const struct claim *claim, const char *path)
{
    const char *other, *owner;
    enum bh_name_clash clash = bh_name_table_check(cs->table, name, owner_of(claim), &other, &owner);
    if (clash != BH_CLASH_NONE) {
        report_clash(cs, clash, bh_map_get(cs->by_name, other), claim, path);
        return;
    }
    if (bh_map_has(cs->by_name, name)) {
        bh_planner_fail(cs->pl, BH_E_BAD_VALUE, claim->pos, path, "agent '%s' declares the output '%s' twice",
                        claim->agent, claim->shown);
        return;
    }
    struct claim *kept = bh_arena_alloc(cs->pl->arena, sizeof(*kept));
    *kept = *claim;
    bh_name_table_add(cs->table, name, owner_of(claim));
    (void)bh_map_put(cs->by_name, name, kept);
}

/* Every item would publish the same name. */
static void check_items(struct bh_planner *pl, const struct bh_plan_agent *a, const struct bh_plan_output *out,
                        const struct bh_text *t, const char *path)
{
    if (a->stage < 0 || !pl->doc->stages[a->stage].for_each || t->open)
        return;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_COLLISION, 0, "every item of agent '%s' declares the same output '%s'", a->name, out->name);
    bh_err_hint(&err, "put {{item}} into the name");
    bh_planner_report(pl, err, out->pos, path);
}

static void claim_output(struct claims *cs, size_t agent, size_t i)
{
    struct bh_planner *pl = cs->pl;
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    const struct bh_plan_output *out = &a->outputs[i];
    if (!out->name)
        return; /* the names of a glob are known at publish */
    const char *path = bh_arena_printf(pl->arena, "%s.outputs[%zu]", a->doc->path, i);
    const char *name = out->name;
    if (a->doc->attempts.select == BH_SELECT_ALL) /* name@1 .. name@N: the plain name stays free */
        name = bh_arena_printf(pl->arena, "%s@", name);
    claim_name(cs, name, &(struct claim){a->name, a->doc, out->pos, out->name}, path);
    check_items(pl, a, out, &pl->drafts[agent].output_names[i], path);
}

static void claim_finally(struct claims *cs, const struct bh_agent *doc)
{
    for (size_t i = 0; i < doc->n_outputs; i++) {
        const struct bh_str *name = &doc->outputs[i].name;
        if (name->s && !strstr(name->s, "{{"))
            claim_name(cs, name->s, &(struct claim){doc->name.s, doc, name->pos, name->s},
                       bh_arena_printf(cs->pl->arena, "%s.outputs[%zu]", doc->path, i));
    }
}

void bh_plan_name_collisions(struct bh_planner *pl)
{
    BH_CLEANUP_MAP struct bh_map *by_name = bh_map_new(NULL);
    struct claims cs = {.pl = pl, .table = bh_name_table_new(), .by_name = by_name};
    for (size_t i = 0; i < pl->doc->n_sources; i++) {
        const struct bh_str *name = &pl->doc->sources[i].name;
        claim_name(&cs, name->s, &(struct claim){NULL, NULL, name->pos, name->s},
                   bh_arena_printf(pl->arena, "sources.%s", name->s));
    }
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        for (size_t i = 0; i < pl->plan->agents[a].n_outputs; i++)
            claim_output(&cs, a, i);
    }
    for (size_t i = 0; i < pl->doc->n_finally; i++)
        claim_finally(&cs, &pl->doc->finally[i]);
    bh_name_table_free(cs.table);
}

/* --- inside one box --- */

struct spot { /* what lies at a path of a box */
    const char *owner, *what;
    struct bh_pos pos;
};

static struct spot *take_spot(struct bh_planner *pl, struct bh_map *spots, const char *path, struct spot spot)
{
    struct spot *old = bh_map_get(spots, path);
    if (old)
        return old;
    struct spot *kept = bh_arena_alloc(pl->arena, sizeof(*kept));
    *kept = spot;
    (void)bh_map_put(spots, path, kept);
    return NULL;
}

static void check_output_path(struct bh_planner *pl, struct bh_map *spots, const struct bh_plan_box *box,
                              const struct bh_plan_agent *a, size_t i)
{
    const struct bh_plan_output *out = &a->outputs[i];
    if (!out->name || !a->doc->outputs[i].path.s)
        return; /* out/NAME is as unique as the name */
    const struct spot *old = take_spot(pl, spots, out->path, (struct spot){a->name, out->name, out->pos});
    if (!old)
        return;
    const char *path = bh_arena_printf(pl->arena, "%s.outputs[%zu]", a->doc->path, i);
    if (old->owner == a->name) {
        bh_planner_fail(pl, BH_E_BAD_VALUE, out->pos, path,
                        "outputs '%s' and '%s' of agent '%s' have the same path '%s'", old->what, out->name, a->name,
                        out->path);
        return;
    }
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_COLLISION, 0, "agents '%s' and '%s' share box '%s' and both write their output at '%s'",
               old->owner, a->name, box->id, out->path);
    bh_err_detail(&err, "'%s' stands at %s:%d:%d, '%s' at %s:%d:%d", old->what, pl->doc->file, old->pos.line,
                  old->pos.column, out->name, pl->doc->file, out->pos.line, out->pos.column);
    bh_err_hint(&err, "give one of them another path, or a box of its own (topology: per-agent)");
    bh_planner_report(pl, err, out->pos, path);
}

static const char *without_dot(const char *path)
{
    while (bh_starts_with(path, "./"))
        path += 2;
    return path;
}

static void check_file(struct bh_planner *pl, struct bh_map *spots, const struct bh_plan_box *box, const char *owner,
                       const struct bh_pair *file, const char *path)
{
    const struct spot *old = take_spot(pl, spots, file->name.s, (struct spot){owner, file->value.s, file->value.pos});
    if (!old || strcmp(without_dot(old->what), without_dot(file->value.s)) == 0)
        return;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_COLLISION, 0, "%s and %s put different files at '%s' of the shared box '%s'", old->owner,
               owner, file->name.s, box->id);
    bh_err_detail(&err, "'%s' stands at %s:%d:%d, '%s' at %s:%d:%d", old->what, pl->doc->file, old->pos.line,
                  old->pos.column, file->value.s, pl->doc->file, file->value.pos.line, file->value.pos.column);
    bh_err_hint(&err, "give one of them another path in the box, or the agent a box of its own");
    bh_planner_report(pl, err, file->name.pos, path);
}

static void check_files(struct bh_planner *pl, const struct bh_plan_box *box)
{
    BH_CLEANUP_MAP struct bh_map *spots = bh_map_new(NULL);
    for (size_t i = 0; i < box->n_files; i++)
        check_file(pl, spots, box, bh_arena_printf(pl->arena, "'boxes.%s'", box->id), &box->files[i], box->id);
    for (size_t m = 0; m < box->n_agents; m++) {
        const struct bh_plan_agent *a = &pl->plan->agents[box->agents[m]];
        const char *owner = a->n_files ? bh_arena_printf(pl->arena, "agent '%s'", a->name) : NULL;
        const char *path = a->n_files ? bh_arena_printf(pl->arena, "%s.files", a->doc->path) : NULL;
        for (size_t i = 0; i < a->n_files; i++)
            check_file(pl, spots, box, owner, &a->files[i], path);
    }
}

void bh_plan_box_collisions(struct bh_planner *pl)
{
    for (size_t b = 0; b < pl->plan->n_boxes; b++) {
        const struct bh_plan_box *box = &pl->plan->boxes[b];
        BH_CLEANUP_MAP struct bh_map *spots = bh_map_new(NULL);
        for (size_t m = 0; m < box->n_agents; m++) {
            const struct bh_plan_agent *a = &pl->plan->agents[box->agents[m]];
            for (size_t i = 0; i < a->n_outputs; i++)
                check_output_path(pl, spots, box, a, i);
        }
        if (box->shared)
            check_files(pl, box);
    }
}
