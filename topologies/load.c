/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way from a document's bytes to the model: bytes, tree, keys, names. Owns the keys of the top level and the life
 * of a pipeline. Reads nothing but the text it is given.
 *
 * Maps that others refer to are read first, whatever their order in the file, so the walk over the top level only
 * notes where they are.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "topologies/bytes.h"
#include "topologies/load_priv.h"

const char *bh_topology_text(enum bh_topology t)
{
    static const char *const words[] = {"unset", "auto", "shared-box", "per-agent", "per-attempt"};
    BH_ASSERT((size_t)t < BH_ARRAY_LEN(words));
    return words[t];
}

/* --- keys of the top level; the field is a struct bh_document --- */

static void read_version(struct bh_reader *r, struct bh_node *n, void *field)
{
    int64_t version;
    (void)field;
    if (bh_read_int(r, n, INT64_MIN, INT64_MAX, &version) && version != 1)
        bh_read_bad(r, n, "version 1", "this program reads documents of version 1");
}

static void read_name(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    (void)bh_read_name(r, n, &r->p->name);
}

static void read_description(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    (void)bh_read_text(r, n, "a description as a text", BH_HOLDS_NONE, &r->p->description);
}

static void read_topology(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"auto", "shared-box", "per-agent"};
    size_t i;
    (void)field;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        r->p->topology = (enum bh_topology)(BH_TOPOLOGY_AUTO + i);
}

static void read_base(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    bh_read_base_top(r, n, &r->p->traits);
}

static void read_max_parallel(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    (void)bh_read_int(r, n, 1, BH_COUNT_MAX, &r->p->max_parallel);
}

/* The number in front of the '%', 0 to 100; -1 where it is none. */
static int64_t percent_of(struct bh_reader *r, const char *text)
{
    int64_t percent;
    size_t len = strlen(text);
    if (len < 2 || text[len - 1] != '%')
        return -1;
    const char *digits = bh_arena_strndup(r->arena, text, len - 1);
    return bh_parse_int(digits, &percent) == 0 && percent >= 0 && percent <= 100 ? percent : -1;
}

static void read_max_failures(struct bh_reader *r, struct bh_node *n, void *field)
{
    const char *text = bh_node_text(n);
    (void)field;
    if (!text || !bh_ends_with(text, "%")) {
        (void)bh_read_int(r, n, 0, BH_COUNT_MAX, &r->p->max_failures);
        return;
    }
    int64_t percent = percent_of(r, text);
    if (percent < 0) {
        bh_read_bad(r, n, "a number of agents, or a share between 0% and 100%", NULL);
        return;
    }
    r->p->max_failures = percent;
    r->p->max_failures_percent = true;
}

static void read_deadline(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    (void)bh_read_duration(r, n, false, &r->p->deadline_ns);
}

static void note(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)r;
    *(struct bh_node **)field = n;
}

#define NOTE(name)                                         \
    {                                                      \
#name, note, offsetof(struct bh_document, name), 0 \
    }
static const struct bh_key pipeline_keys[] = {
    {"version", read_version, 0, BH_KEY_REQUIRED},
    {"name", read_name, 0, BH_KEY_REQUIRED},
    {"description", read_description, 0, 0},
    {"params", bh_load_params, 0, 0},
    {"topology", read_topology, 0, 0},
    {"base", read_base, 0, 0},
    NOTE(defaults),
    {"secrets", bh_load_secrets, 0, 0},
    {"endpoints", bh_load_endpoints, 0, 0},
    {"sources", bh_load_sources, 0, 0},
    NOTE(stages),
    NOTE(agents),
    {"boxes", bh_load_boxes, 0, 0},
    {"max_parallel", read_max_parallel, 0, 0},
    {"max_failures", read_max_failures, 0, 0},
    {"deadline", read_deadline, 0, 0},
    NOTE(finally),
    {"ask", NULL, 0, BH_KEY_RESERVED},
    {"services", NULL, 0, BH_KEY_RESERVED},
    {"use", NULL, 0, BH_KEY_RESERVED},
};
#undef NOTE
const struct bh_key_table bh_pipeline_table = {"pipeline", "a pipeline", pipeline_keys, BH_ARRAY_LEN(pipeline_keys), 0};

/* --- the whole --- */

/* Without the keys that are the writer's own. */
static struct bh_node *without_extensions(struct bh_reader *r, struct bh_node *root)
{
    struct bh_node *map = bh_node_new_map(r->arena, root);
    for (size_t i = 0; i < bh_node_len(root); i++) {
        if (!bh_starts_with(bh_node_key_at(root, i), "x-"))
            bh_node_put(r->arena, map, bh_node_at(root, i));
    }
    return map;
}

static struct bh_str first_of(struct bh_str a, struct bh_str b)
{
    return a.s ? a : b;
}

static void load_defaults(struct bh_reader *r, struct bh_node *defaults)
{
    struct bh_agent a;
    struct bh_traits *t = &r->p->traits;
    bh_load_defaults(r, defaults, &a);
    struct bh_str base = t->base;
    *t = a.traits;
    t->base = first_of(t->base, base);
}

static void load_work(struct bh_reader *r, const struct bh_document *d, const struct bh_node *root)
{
    struct bh_pipeline *p = r->p;
    size_t cap = 0;
    struct bh_agents agents = {&p->agents, &p->n_agents, &cap};
    if (d->stages && d->agents)
        bh_read_key_error(r, d->agents, BH_E_INVALID, NULL, "a pipeline has 'stages' or 'agents', not both");
    if (!d->stages && !d->agents)
        bh_read_missing(r, root, "stages", NULL, "a pipeline needs 'stages' or 'agents'");
    if (d->stages)
        bh_load_stages(r, d->stages, d->defaults, &agents);
    if (d->agents)
        bh_load_agents(r, d->agents, d->defaults, -1, &agents);
    size_t finally_cap = 0;
    struct bh_agents finally = {&p->finally, &p->n_finally, &finally_cap};
    if (d->finally) {
        bh_read_later(r, d->finally, "finally");
        bh_load_agents(r, d->finally, d->defaults, -1, &finally);
    }
}

static int by_position(const void *a, const void *b)
{
    const struct bh_later *x = a, *y = b;
    if (x->pos.line != y->pos.line)
        return x->pos.line < y->pos.line ? -1 : 1;
    return x->pos.column < y->pos.column ? -1 : x->pos.column > y->pos.column;
}

void bh_load_document(struct bh_reader *r, struct bh_node *root)
{
    struct bh_document d = {0};
    if (!bh_expect(r, root, BH_NODE_MAP, "a pipeline as a map"))
        return;
    root = without_extensions(r, root);
    (void)bh_read_map(r, root, &bh_pipeline_table, &d);
    if (d.defaults)
        load_defaults(r, d.defaults);
    load_work(r, &d, root);
    bh_check_refs(r, root);
    if (r->p->n_later > 0)
        qsort(r->p->later, r->p->n_later, sizeof(*r->p->later), by_position);
}

void bh_reader_init(struct bh_reader *r, const char *file, struct bh_errlist *errors)
{
    struct bh_arena *arena = bh_arena_new();
    struct bh_pipeline *p = bh_arena_alloc(arena, sizeof(*p));
    p->arena = arena;
    p->file = bh_arena_strdup(arena, file);
    p->topology = BH_TOPOLOGY_AUTO;
    p->max_failures = -1;
    *r = (struct bh_reader){.p = p, .arena = arena, .errors = errors, .said = bh_map_new(NULL)};
}

void bh_reader_fini(struct bh_reader *r)
{
    bh_map_free(BH_TAKE(r->said));
}

void bh_load_text(struct bh_reader *r, const char *text, size_t len)
{
    struct bh_pipeline *p = r->p;
    if (bh_bytes_check(p->file, text, len, r->errors) < 0)
        return;
    /* a negative code with a root is a document with flaws: there may be more of them */
    if (bh_tree_parse(p->file, text, len, p->arena, &p->root, r->errors) < 0 && !p->root)
        return;
    bh_load_document(r, p->root);
}

static void say_more(struct bh_reader *r)
{
    struct bh_err *err = NULL;
    if (r->not_said == 0)
        return;
    bh_err_set(&err, BH_E_INVALID, 0, "there are more errors: these are the first %d", BH_PIPELINE_MAX_ERRORS);
    bh_err_at(&err, r->p->file, 0, 0, NULL);
    bh_errlist_add(r->errors, err);
}

int bh_pipeline_load(const char *file, const char *text, size_t len, struct bh_pipeline **ret,
                     struct bh_errlist *errors)
{
    struct bh_reader r;
    size_t before = errors->len;
    bh_reader_init(&r, file, errors);
    bh_load_text(&r, text, len);
    bh_reader_fini(&r);
    if (errors->len == before) {
        *ret = r.p;
        return 0;
    }
    bh_errlist_sort(errors);
    say_more(&r);
    bh_pipeline_free(r.p);
    return -(int)bh_err_code(errors->items[0]);
}

void bh_pipeline_free(struct bh_pipeline *p)
{
    if (p)
        bh_arena_free(p->arena); /* the pipeline itself lies in it */
}
