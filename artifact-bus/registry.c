/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has published what in one run.
 *
 * Owns copies of the artifacts, in order of publication, and three ways to find them: by name, by instance, and the
 * name table that knows which names exclude each other. A publication is checked whole before the first item is added,
 * so a refused one leaves no trace. Equal bytes are no excuse for equal names: consumers would not know whose they
 * read. Memory only; must never touch the content store.
 */
#include "artifact-bus/registry.h"

#include "base/map.h"
#include "base/mem.h"
#include "topologies/names.h"

#define REGISTRY_MAGIC 0x52454749u

struct bh_registry {
    uint32_t magic;
    struct bh_artifact **items; /* each by itself: what bh_registry_get lends stays where it is */
    size_t len, cap;
    struct bh_map *by_name;   /* of struct bh_artifact, borrowed */
    struct bh_map *instances; /* those that have published */
    struct bh_name_table *names;
};

struct bh_registry *bh_registry_new(void)
{
    struct bh_registry *r = bh_alloc(sizeof(*r));
    r->magic = REGISTRY_MAGIC;
    r->by_name = bh_map_new(NULL);
    r->instances = bh_map_new(NULL);
    r->names = bh_name_table_new();
    return r;
}

static void free_artifact(struct bh_artifact *a)
{
    bh_free((char *)a->name);
    bh_free((char *)a->agent);
    bh_free((char *)a->instance);
    bh_free((char *)a->provenance);
    bh_free(a);
}

void bh_registry_free(struct bh_registry *r)
{
    if (!r)
        return;
    BH_ASSERT(r->magic == REGISTRY_MAGIC);
    r->magic = 0;
    bh_map_free(r->by_name);
    bh_map_free(r->instances);
    bh_name_table_free(r->names);
    for (size_t i = 0; i < r->len; i++)
        free_artifact(r->items[i]);
    bh_free(r->items);
    bh_free(r);
}

/* --- the check --- */

static bool same_artifact(const struct bh_artifact *a, const struct bh_artifact *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->agent, b->agent) == 0 && strcmp(a->instance, b->instance) == 0 &&
           a->attempt == b->attempt && a->object.size == b->object.size &&
           bh_digest_equal(&a->object.digest, &b->object.digest);
}

static const char *relation(const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return "is the same name as";
    size_t la = strlen(a), lb = strlen(b);
    if (la == lb)
        return "differs only by case from";
    return la < lb ? "is a folder of" : "lies below";
}

/* "'scores.csv' of agent 'modeling' (attempt 1)" */
static char *describe(const struct bh_artifact *a)
{
    if (*a->agent == '\0')
        return bh_asprintf("the source '%s'", a->name);
    return bh_asprintf("'%s' of agent '%s' (attempt %d)", a->name, a->agent, a->attempt);
}

static int collision(const struct bh_artifact *item, const struct bh_artifact *other, struct bh_err **err)
{
    BH_CLEANUP_FREE char *a = describe(item);
    BH_CLEANUP_FREE char *b = describe(other);
    char da[BH_DIGEST_TEXT], db[BH_DIGEST_TEXT];
    int rc = bh_err_set(err, BH_E_COLLISION, 0, "%s %s %s", a, relation(item->name, other->name), b);
    bh_err_detail(err, "%s: %s, instance %s\n%s: %s, instance %s", a, bh_digest_format(&item->object.digest, da),
                  *item->instance ? item->instance : "-", b, bh_digest_format(&other->object.digest, db),
                  *other->instance ? other->instance : "-");
    return rc;
}

/* An earlier try of the same attempt. */
static bool takes_place_of(const struct bh_artifact *item, const struct bh_artifact *other)
{
    return strchr(item->name, '@') && strcmp(item->agent, other->agent) == 0 && item->attempt == other->attempt;
}

/* Against what is on the bus. */
static int check_item(const struct bh_registry *r, const struct bh_artifact *item, struct bh_err **err)
{
    const char *name = NULL, *owner = NULL;
    const struct bh_artifact *other = bh_map_get(r->by_name, item->name);
    if (other && takes_place_of(item, other))
        return 0;
    if (!other && bh_name_table_check(r->names, item->name, item->agent, &name, &owner) != BH_CLASH_NONE) {
        other = bh_map_get(r->by_name, name);
        BH_ASSERT(other != NULL);
    }
    return other ? collision(item, other, err) : 0;
}

/* Among themselves: one glob may find `a` and `A`. */
static int check_among(const struct bh_artifact *items, size_t n, struct bh_name_table *names, struct bh_map *seen,
                       struct bh_err **err)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = NULL, *owner = NULL;
        const struct bh_artifact *other = bh_map_get(seen, items[i].name);
        if (!other && bh_name_table_check(names, items[i].name, items[i].agent, &name, &owner) != BH_CLASH_NONE) {
            other = bh_map_get(seen, name);
            BH_ASSERT(other != NULL);
        }
        if (other)
            return collision(&items[i], other, err);
        bh_name_table_add(names, items[i].name, items[i].agent);
        bh_map_put(seen, items[i].name, (void *)&items[i]);
    }
    return 0;
}

static size_t count_repeated(const struct bh_registry *r, const struct bh_artifact *items, size_t n)
{
    size_t repeated = 0;
    for (size_t i = 0; i < n; i++) {
        const struct bh_artifact *there = bh_map_get(r->by_name, items[i].name);
        repeated += there && same_artifact(there, &items[i]);
    }
    return repeated;
}

/* An instance publishes once. What comes again must be what came before, or somebody is not who he says he is. */
static int check_once(const struct bh_registry *r, const struct bh_artifact *items, size_t n, struct bh_err **err)
{
    for (size_t i = 0; i < n; i++) {
        if (*items[i].instance && !items[i].selected && bh_map_has(r->instances, items[i].instance))
            return bh_err_set(err, BH_E_PROTOCOL, 0,
                              "instance '%s' of agent '%s' has published already, and now comes with other outputs",
                              items[i].instance, items[i].agent);
    }
    return 0;
}

static int check(const struct bh_registry *r, const struct bh_artifact *items, size_t n, bool *ret_repeat,
                 struct bh_err **err)
{
    BH_ASSERT(r && r->magic == REGISTRY_MAGIC);
    *ret_repeat = n > 0 && count_repeated(r, items, n) == n;
    if (*ret_repeat)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const char *problem = bh_published_name_problem(items[i].name);
        if (problem)
            return bh_err_set(err, BH_E_BAD_NAME, 0, "the artifact name '%s' %s", items[i].name, problem);
    }
    int rc = check_once(r, items, n, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check_item(r, &items[i], err);
    if (rc != 0)
        return rc;
    struct bh_name_table *names = bh_name_table_new();
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    rc = check_among(items, n, names, seen, err);
    bh_name_table_free(names);
    return rc;
}

int bh_registry_check(const struct bh_registry *r, const struct bh_artifact *items, size_t n, struct bh_err **err)
{
    bool repeat;
    return check(r, items, n, &repeat, err);
}

/* --- publishing --- */

static void add(struct bh_registry *r, const struct bh_artifact *item)
{
    struct bh_artifact *a = bh_memdup(item, sizeof(*item));
    a->name = bh_strdup(item->name);
    a->agent = bh_strdup(item->agent);
    a->instance = bh_strdup(item->instance);
    a->provenance = bh_strdup(item->provenance);
    *BH_PUSH(r->items, r->len, r->cap) = a;
    bh_map_put(r->by_name, a->name, a);
    bh_name_table_add(r->names, a->name, a->agent);
    if (*a->instance)
        bh_map_put(r->instances, a->instance, r);
}

int bh_registry_publish(struct bh_registry *r, const struct bh_artifact *items, size_t n, struct bh_err **err)
{
    bool repeat;
    int rc = check(r, items, n, &repeat, err);
    for (size_t i = 0; i < n && rc == 0 && !repeat; i++)
        add(r, &items[i]);
    return rc;
}

const struct bh_artifact *bh_registry_get(const struct bh_registry *r, const char *name)
{
    return bh_map_get(r->by_name, name);
}

size_t bh_registry_len(const struct bh_registry *r)
{
    return r->len;
}

const struct bh_artifact *bh_registry_at(const struct bh_registry *r, size_t i)
{
    BH_ASSERT(i < r->len);
    return r->items[i];
}
