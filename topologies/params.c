/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns which value each parameter has: what was given, else the default of the document. Whether a value is allowed is
 * bh_param_check's to say. Must never read the environment.
 */
#include "base/text.h"
#include "topologies/plan_priv.h"

static const char *path_of(struct bh_planner *pl, const struct bh_param *p)
{
    return bh_arena_printf(pl->arena, "params.%s", p->name.s);
}

static void refuse_unknown(struct bh_planner *pl, const char *name)
{
    struct bh_texts known = {0};
    for (size_t i = 0; i < pl->doc->n_params; i++)
        bh_texts_add(pl, &known, pl->doc->params[i].name.s);
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_UNDEFINED, 0, "the document has no param '%s'", name);
    const char *nearest = bh_nearest(name, known.items, known.len);
    if (nearest)
        bh_err_hint(&err, "did you mean '%s'?", nearest);
    else if (known.len == 0)
        bh_err_hint(&err, "it declares no 'params'");
    bh_planner_report(pl, err, (struct bh_pos){0}, "params");
}

/* What was given; the last one counts where a name was given twice. */
static void take_given(struct bh_planner *pl, const char **given)
{
    for (size_t i = 0; i < pl->options->n_params; i++) {
        const struct bh_param_value *v = &pl->options->params[i];
        const struct bh_param_slot *slot = bh_map_get(pl->params, v->name);
        if (slot)
            given[slot->doc - pl->doc->params] = v->value;
        else
            refuse_unknown(pl, v->name);
    }
}

static void require_value(struct bh_planner *pl, const struct bh_param *p)
{
    if (pl->options->lint)
        return;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_UNDEFINED, 0, "the param '%s' has no value and no default", p->name.s);
    bh_err_hint(&err, "give it with -p %s=VALUE", p->name.s);
    bh_planner_report(pl, err, p->name.pos, path_of(pl, p));
}

static int check_given(const struct bh_param *p, const char *value, struct bh_err **err)
{
    if (bh_utf8_check(value, strlen(value)) != strlen(value))
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the value of the param '%s' is no UTF-8", p->name.s);
    return bh_param_check(p, value, err);
}

static void set_value(struct bh_planner *pl, struct bh_param_slot *slot, const char *given)
{
    const struct bh_param *p = slot->doc;
    struct bh_err *err = NULL;
    if (!given) {
        slot->value = p->def.s;
        if (!p->def.s)
            require_value(pl, p);
        return;
    }
    slot->value = bh_arena_strdup(pl->arena, given);
    if (check_given(p, given, &err) < 0)
        bh_planner_report(pl, err, p->name.pos, path_of(pl, p));
}

void bh_plan_params(struct bh_planner *pl)
{
    const struct bh_pipeline *doc = pl->doc;
    struct bh_param_slot *slots = bh_arena_alloc(pl->arena, (doc->n_params + 1) * sizeof(*slots));
    for (size_t i = 0; i < doc->n_params; i++) {
        slots[i].doc = &doc->params[i];
        (void)bh_map_put(pl->params, doc->params[i].name.s, &slots[i]);
    }
    BH_CLEANUP_FREE const char **given = bh_calloc(doc->n_params + 1, sizeof(*given));
    take_given(pl, given);
    pl->plan->params = bh_arena_alloc(pl->arena, (doc->n_params + 1) * sizeof(*pl->plan->params));
    for (size_t i = 0; i < doc->n_params; i++) {
        set_value(pl, &slots[i], given[i]);
        if (slots[i].value)
            pl->plan->params[pl->plan->n_params++] = (struct bh_param_value){doc->params[i].name.s, slots[i].value};
    }
}
