/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the order in which a plan is made, and its life. Every step goes on past errors, so that a document is told all
 * that is wrong with it at once; the plan is thrown away in the end where there was one.
 */
#include "topologies/plan.h"

#include "base/buf.h"
#include "topologies/graph.h"
#include "topologies/makers.h"

enum { FILL_BUDGET = 256 * 1024 * 1024 };

/* Puts the error on the list unless one of its kind stands at its place already: the cells of a matrix share theirs. */
static void put(struct bh_planner *pl, struct bh_errlist *list, struct bh_err *err, struct bh_pos pos, const char *path)
{
    if (pos.line > 0) {
        BH_CLEANUP_FREE char *key = bh_asprintf("%d:%d:%d", pos.line, pos.column, (int)bh_err_code(err));
        if (!bh_map_put(pl->reported, key, pl)) {
            bh_err_free(err);
            return;
        }
    }
    bh_err_at(&err, pl->doc->file, pos.line, pos.column, path);
    bh_errlist_add(list, err);
}

void bh_planner_report(struct bh_planner *pl, struct bh_err *err, struct bh_pos pos, const char *path)
{
    put(pl, pl->errors, err, pos, path);
}

void bh_planner_warn(struct bh_planner *pl, struct bh_err *err, struct bh_pos pos, const char *path)
{
    put(pl, &pl->warnings, err, pos, path);
}

void bh_planner_fail(struct bh_planner *pl, enum bh_code code, struct bh_pos pos, const char *path, const char *fmt,
                     ...)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    bh_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    struct bh_err *err = NULL;
    bh_err_set(&err, code, 0, "%s", text.data);
    bh_planner_report(pl, err, pos, path);
}

void bh_planner_too_large(struct bh_planner *pl, const char *what, int most)
{
    if (!pl->too_large)
        bh_planner_fail(pl, BH_E_TOO_LARGE, (struct bh_pos){0}, NULL, "the plan has more than %d %s", most, what);
    pl->too_large = true;
}

bool bh_planner_may_work(struct bh_planner *pl, size_t n)
{
    pl->work += n;
    if (pl->work > BH_PLAN_MAX_WORK)
        bh_planner_too_large(pl, "comparisons to make", BH_PLAN_MAX_WORK);
    return !pl->too_large;
}

void bh_texts_add(struct bh_planner *pl, struct bh_texts *list, const char *s)
{
    *BH_ARENA_PUSH(pl->arena, list->items, list->len, list->cap) = s;
}

static void index_document(struct bh_planner *pl)
{
    const struct bh_pipeline *doc = pl->doc;
    pl->source_used = bh_arena_alloc(pl->arena, doc->n_sources + 1);
    for (size_t i = 0; i < doc->n_sources; i++)
        (void)bh_map_put(pl->sources, doc->sources[i].name.s, &doc->sources[i]);
    for (size_t i = 0; i < doc->n_endpoints; i++)
        (void)bh_map_put(pl->endpoints, doc->endpoints[i].name.s, &doc->endpoints[i]);
    for (size_t i = 0; i < doc->n_boxes; i++)
        (void)bh_map_put(pl->box_docs, doc->boxes[i].name.s, &doc->boxes[i]);
    const struct bh_plan_options *o = pl->options;
    pl->source_tainted = bh_arena_alloc(pl->arena, doc->n_sources + 1);
    pl->plan->source_tainted = pl->source_tainted;
    for (size_t i = 0; i < doc->n_sources; i++)
        pl->source_tainted[i] = doc->sources[i].untrusted;
    for (size_t i = 0; i < o->n_tainted_files; i++)
        (void)bh_map_put(pl->tainted_files, o->tainted_files[i], pl);
    for (size_t i = 0; i < o->n_tainted_sources; i++) {
        const struct bh_source *source = bh_map_get(pl->sources, o->tainted_sources[i]);
        if (source)
            pl->source_tainted[source - doc->sources] = true;
    }
}

static void planner_init(struct bh_planner *pl, const struct bh_pipeline *doc, const struct bh_plan_options *options,
                         struct bh_errlist *errors)
{
    *pl = (struct bh_planner){.doc = doc, .options = options, .errors = errors, .budget = FILL_BUDGET};
    pl->arena = bh_arena_new();
    pl->plan = bh_arena_alloc(pl->arena, sizeof(*pl->plan));
    pl->plan->pipeline = doc;
    pl->plan->arena = pl->arena;
    struct bh_map **maps[] = {&pl->reported,  &pl->params,   &pl->by_name,     &pl->sources,
                              &pl->endpoints, &pl->box_docs, &pl->group_index, &pl->tainted_files};
    for (size_t i = 0; i < BH_ARRAY_LEN(maps); i++)
        *maps[i] = bh_map_new(NULL);
    index_document(pl);
}

static void planner_fini(struct bh_planner *pl)
{
    struct bh_map *maps[] = {pl->reported,  pl->params,   pl->by_name,     pl->sources,
                             pl->endpoints, pl->box_docs, pl->group_index, pl->tainted_files};
    for (size_t i = 0; i < BH_ARRAY_LEN(maps); i++)
        bh_map_free(maps[i]);
    bh_makers_free(pl->makers);
    bh_errlist_fini(&pl->warnings);
}

static void make(struct bh_planner *pl)
{
    bh_plan_params(pl);
    bh_plan_agents(pl);
    if (pl->too_large)
        return;
    bh_plan_name_collisions(pl);
    bh_graph_bind(pl);
    if (pl->too_large)
        return;
    bh_placement_join(pl);
    bh_plan_labels(pl);
    if (pl->too_large)
        return;
    bh_graph_stages(pl);
    bh_graph_order(pl);
    bh_placement_make(pl);
    bh_plan_private(pl);
    bh_plan_limits(pl);
    bh_plan_box_collisions(pl);
    bh_plan_asks(pl);
    bh_plan_warnings(pl);
}

/* What a program that reports one of them ends with: invalid before collision before trust. */
static int code_of(const struct bh_errlist *errors, size_t from)
{
    static const enum bh_code order[] = {BH_E_COLLISION, BH_E_TRUST};
    for (size_t i = from; i < errors->len; i++) {
        enum bh_code code = bh_err_code(errors->items[i]);
        if (code != BH_E_COLLISION && code != BH_E_TRUST)
            return -(int)code;
    }
    for (size_t k = 0; k < BH_ARRAY_LEN(order); k++) {
        for (size_t i = from; i < errors->len; i++) {
            if (bh_err_code(errors->items[i]) == order[k])
                return -(int)order[k];
        }
    }
    return 0;
}

static void keep_warnings(struct bh_planner *pl)
{
    bh_errlist_sort(&pl->warnings);
    pl->plan->n_warnings = pl->warnings.len;
    pl->plan->warnings = BH_TAKE(pl->warnings.items);
    pl->warnings = (struct bh_errlist){0};
}

int bh_plan_make(const struct bh_pipeline *pipeline, const struct bh_plan_options *options, struct bh_plan **ret,
                 struct bh_errlist *errors)
{
    struct bh_planner pl;
    struct bh_errlist found = {0};
    planner_init(&pl, pipeline, options, &found);
    make(&pl);
    bh_errlist_sort(&found);
    int rc = code_of(&found, 0);
    if (rc == 0) {
        keep_warnings(&pl);
        *ret = pl.plan;
    } else {
        bh_plan_free(pl.plan);
    }
    planner_fini(&pl);
    for (size_t i = 0; i < found.len; i++)
        bh_errlist_add(errors, BH_TAKE(found.items[i]));
    found.len = 0;
    bh_errlist_fini(&found);
    return rc;
}

void bh_plan_free(struct bh_plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->n_warnings; i++)
        bh_err_free(plan->warnings[i]);
    bh_free(plan->warnings);
    bh_arena_free(plan->arena); /* the plan itself lies in it */
}
