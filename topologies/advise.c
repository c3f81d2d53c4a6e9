/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the list of advice, and how its changes become patches of the document. */
#include "topologies/advise.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "topologies/advise_priv.h"
#include "topologies/editor.h"
#include "topologies/text_diff.h"

const char *bh_advice_rule_text(enum bh_advice_rule rule)
{
    static const char *const texts[] = {
        [BH_ADVICE_TRUST] = "trust-boundary", [BH_ADVICE_INSTALLS] = "conflicting-installs",
        [BH_ADVICE_WEDGE] = "shared-wedge",   [BH_ADVICE_PRODUCER] = "unknown-producer",
        [BH_ADVICE_SETUP] = "repeated-setup", [BH_ADVICE_ONE_BOX] = "one-box",
    };
    return texts[rule];
}

/* --- the list --- */

void bh_advices_init(struct bh_advices *list)
{
    *list = (struct bh_advices){.arena = bh_arena_new()};
}

void bh_advices_fini(struct bh_advices *list)
{
    bh_arena_free(list->arena);
    *list = (struct bh_advices){0};
}

static const char *vprint(struct bh_arena *arena, const char *fmt, va_list ap) BH_PRINTF(2, 0);
static const char *vprint(struct bh_arena *arena, const char *fmt, va_list ap)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_buf_vaddf(&text, fmt, ap);
    return bh_arena_strdup(arena, text.data);
}

struct bh_advice *bh_advices_add(struct bh_advices *list, enum bh_advice_rule rule, enum bh_topology topology,
                                 const char *fmt, ...)
{
    va_list ap;
    struct bh_advice *advice = BH_ARENA_PUSH(list->arena, list->items, list->len, list->cap);
    *advice = (struct bh_advice){.rule = rule, .topology = topology};
    va_start(ap, fmt);
    advice->summary = vprint(list->arena, fmt, ap);
    va_end(ap);
    return advice;
}

struct bh_evidence *bh_advice_cite(struct bh_advices *list, struct bh_advice *advice, struct bh_pos pos,
                                   const char *agent, const char *fmt, ...)
{
    va_list ap;
    struct bh_evidence *e = BH_ARENA_PUSH(list->arena, advice->evidence, advice->n_evidence, advice->cap_evidence);
    *e = (struct bh_evidence){.pos = pos, .agent = bh_arena_strdup(list->arena, agent)};
    va_start(ap, fmt);
    e->text = vprint(list->arena, fmt, ap);
    va_end(ap);
    return e;
}

void bh_advice_name(struct bh_advices *list, struct bh_advice *advice, const char *agent)
{
    for (size_t i = 0; i < advice->n_agents; i++) {
        if (bh_streq(advice->agents[i], agent))
            return;
    }
    *BH_ARENA_PUSH(list->arena, advice->agents, advice->n_agents, advice->cap_agents) =
        bh_arena_strdup(list->arena, agent);
}

static void push_change(struct bh_advices *list, struct bh_advice *advice, const struct bh_change *change)
{
    *BH_ARENA_PUSH(list->arena, advice->changes, advice->n_changes, advice->cap_changes) = *change;
}

void bh_advice_change(struct bh_advices *list, struct bh_advice *advice, const char *agent, const char *key,
                      const char *value)
{
    struct bh_change change = {.agent = bh_arena_strdup(list->arena, agent),
                               .key = bh_arena_strdup(list->arena, key),
                               .value = bh_arena_strdup(list->arena, value)};
    for (size_t i = 0; i < advice->n_changes; i++) {
        const struct bh_change *c = &advice->changes[i];
        if (!c->entries && !c->inner && bh_streq(c->agent, agent) && bh_streq(c->key, key))
            return;
    }
    push_change(list, advice, &change);
}

void bh_advice_change_inner(struct bh_advices *list, struct bh_advice *advice, const char *agent, const char *key,
                            const char *inner)
{
    struct bh_change change = {.agent = bh_arena_strdup(list->arena, agent),
                               .key = bh_arena_strdup(list->arena, key),
                               .inner = bh_arena_strdup(list->arena, inner)};
    push_change(list, advice, &change);
}

void bh_advice_add_agent(struct bh_advices *list, struct bh_advice *advice, const char *behind,
                         const char *const *entries)
{
    struct bh_change change = {.agent = bh_arena_strdup(list->arena, behind), .entries = entries};
    push_change(list, advice, &change);
}

static const struct bh_box_doc *box_doc(const struct bh_pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_boxes; i++) {
        if (bh_streq(p->boxes[i].name.s, name))
            return &p->boxes[i];
    }
    return NULL;
}

/* The setup of the box, then its own: two lines of a shell can be one. */
static void keep_setup(struct bh_advices *list, struct bh_advice *advice, const struct bh_box_doc *box,
                       const struct bh_agent *agent)
{
    if (!box->setup.set)
        return;
    if (box->setup.is_list || agent->setup.is_list) {
        advice->by_hand = true;
        return;
    }
    BH_CLEANUP_FREE char *text = agent->setup.set
                                     ? bh_asprintf("%s\n%s", box->setup.args.items[0].s, agent->setup.args.items[0].s)
                                     : bh_strdup(box->setup.args.items[0].s);
    BH_CLEANUP_FREE char *value = bh_editor_quote(text);
    bh_advice_change(list, advice, agent->name.s, "setup", value);
}

/* What the shared box had and the agent says nothing of. */
static void keep_traits(const struct bh_advise_subject *subject, struct bh_advices *list, struct bh_advice *advice,
                        const struct bh_agent *agent)
{
    static const char *const keys[] = {"base", "network", "user", "limits", "files"};
    const char *name = agent->box.s ? agent->box.s : "crew";
    const struct bh_box_doc *doc = box_doc(subject->pipeline, name);
    struct bh_editor ed;
    if (!doc)
        return;
    bh_editor_init(&ed, subject->text, subject->len, subject->pipeline->root);
    const struct bh_node *map = bh_editor_agent(&ed, agent->name.s);
    const struct bh_node *box = bh_node_get(bh_node_get(subject->pipeline->root, "boxes"), name);
    for (size_t i = 0; i < BH_ARRAY_LEN(keys); i++) {
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        const struct bh_node *value = bh_node_get(box, keys[i]);
        if (!value || (bh_node_get(map, keys[i]) && !bh_streq(keys[i], "files")))
            continue;
        if (!bh_node_get(map, keys[i]) && bh_editor_value_text(&ed, value, &text))
            bh_advice_change(list, advice, agent->name.s, keys[i], text.data);
        else
            advice->by_hand = true;
    }
    keep_setup(list, advice, doc, agent);
    bh_editor_fini(&ed);
}

void bh_advice_own_box(const struct bh_advise_subject *subject, struct bh_advices *list, struct bh_advice *advice,
                       const struct bh_agent *agent)
{
    keep_traits(subject, list, advice, agent);
    if (agent->box.s)
        bh_advice_change(list, advice, agent->name.s, "box", NULL);
    bh_advice_change(list, advice, agent->name.s, "topology", "per-agent");
}

/* --- patches --- */

/* Each patch is proven by planning the document again: that many bytes of it in sum, and one at least. */
enum { PROVEN_MAX = 4 * 1024 * 1024 };

static bool change_one(struct bh_editor *ed, const struct bh_change *c)
{
    const struct bh_node *map = c->agent ? bh_editor_agent(ed, c->agent) : ed->root;
    if (!map)
        return false;
    if (c->entries)
        return bh_editor_add_agent(ed, map, c->entries);
    if (c->inner)
        return bh_editor_remove(ed, bh_node_get(map, c->key), c->inner);
    return c->value ? bh_editor_set(ed, map, c->key, c->value) : bh_editor_remove(ed, map, c->key);
}

/* How many errors a text has, of both steps; those of trust alone where the rest is fine. SIZE_MAX: worse than that. */
static size_t faults_of(const char *file, const struct bh_buf *text)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *pipeline = NULL;
    struct bh_plan *plan = NULL;
    struct bh_plan_options options = {.lint = true};
    int rc = bh_pipeline_load(file, text->data, text->len, &pipeline, &errors);
    if (rc == 0)
        rc = bh_plan_make(pipeline, &options, &plan, &errors);
    size_t n = rc == 0 || rc == -BH_E_TRUST ? errors.len : SIZE_MAX;
    bh_plan_free(plan);
    bh_pipeline_free(pipeline);
    bh_errlist_fini(&errors);
    return n;
}

static bool changed_text(const char *file, const struct bh_advice *advice, const struct bh_buf *text,
                         struct bh_buf *ret)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *pipeline = NULL;
    bool good = bh_pipeline_load(file, text->data, text->len, &pipeline, &errors) == 0;
    bh_errlist_fini(&errors);
    struct bh_editor ed;
    bh_editor_init(&ed, text->data, text->len, good ? pipeline->root : NULL);
    for (size_t i = 0; good && i < advice->n_changes; i++)
        good = change_one(&ed, &advice->changes[i]);
    good = good && bh_editor_result(&ed, ret);
    bh_editor_fini(&ed);
    bh_pipeline_free(pipeline);
    return good;
}

static int by_rule(const void *a, const void *b)
{
    const struct bh_advice *x = a, *y = b;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    int line_x = x->n_evidence > 0 ? x->evidence[0].pos.line : 0,
        line_y = y->n_evidence > 0 ? y->evidence[0].pos.line : 0;
    return (line_x > line_y) - (line_x < line_y);
}

void bh_advices_finish(const struct bh_advise_subject *subject, struct bh_advices *list)
{
    BH_CLEANUP_BUF struct bh_buf now = BH_BUF_INIT;
    bh_buf_add(&now, subject->text, subject->len);
    size_t faults = list->len > 0 ? faults_of(subject->file, &now) : 0, proven = 0;
    if (list->len > 1)
        qsort(list->items, list->len, sizeof(*list->items), by_rule);
    for (size_t i = 0; i < list->len; i++) {
        struct bh_advice *advice = &list->items[i];
        BH_CLEANUP_BUF struct bh_buf next = BH_BUF_INIT, patch = BH_BUF_INIT;
        bool can = advice->n_changes > 0 && !advice->by_hand;
        advice->later = can && proven > PROVEN_MAX;
        if (!can || advice->later || !changed_text(subject->file, advice, &now, &next))
            continue;
        size_t faults_then = faults_of(subject->file, &next);
        proven += next.len;
        if (faults_then > faults)
            continue;
        faults = faults_then;
        bh_text_diff(subject->file, now.data, now.len, next.data, next.len, &patch);
        advice->patch = bh_arena_strdup(list->arena, patch.data);
        bh_buf_clear(&now);
        bh_buf_add(&now, next.data, next.len);
    }
}

/* --- for programs --- */

static struct bh_val *evidence_to_val(const struct bh_evidence *e, const char *file)
{
    struct bh_val *v = bh_val_map();
    char at[BH_WALL_TEXT];
    bh_val_set_str(v, "text", e->text);
    bh_val_set_str(v, "file", e->pos.line > 0 ? file : NULL);
    bh_val_set(v, "line", e->pos.line > 0 ? bh_val_int(e->pos.line) : bh_val_null());
    bh_val_set(v, "column", e->pos.line > 0 ? bh_val_int(e->pos.column) : bh_val_null());
    bh_val_set_str(v, "agent", e->agent);
    bh_val_set_str(v, "instance", e->instance);
    bh_val_set_str(v, "time", e->at.us ? bh_wall_format(e->at, at) : NULL);
    return v;
}

struct bh_val *bh_advice_to_val(const struct bh_advice *advice, const char *file)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "rule", bh_advice_rule_text(advice->rule));
    bh_val_set_str(v, "topology", bh_topology_text(advice->topology));
    bh_val_set_str(v, "summary", advice->summary);
    bh_val_set_str(v, "action", advice->action);
    struct bh_val *agents = bh_val_set(v, "agents", bh_val_list());
    for (size_t i = 0; i < advice->n_agents; i++)
        bh_val_add(agents, bh_val_str(advice->agents[i]));
    bh_val_set_str(v, "box", advice->box);
    struct bh_val *evidence = bh_val_set(v, "evidence", bh_val_list());
    for (size_t i = 0; i < advice->n_evidence; i++)
        bh_val_add(evidence, evidence_to_val(&advice->evidence[i], file));
    bool saves = advice->rule == BH_ADVICE_SETUP;
    bh_val_set(v, "saved_ms", saves ? bh_val_int(advice->saved_ns / 1000000) : bh_val_null());
    bh_val_set_str(v, "patch", advice->patch && *advice->patch ? advice->patch : NULL);
    return v;
}
