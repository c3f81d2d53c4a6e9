/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the index of outputs. Plain names and families stand in two sorted arrays. A glob can only fit names that begin
 * with what stands before its first star, and two globs can only meet where one's beginning begins the other's: both
 * are ranges of the arrays, or one look per character of the beginning.
 */
#include "topologies/makers.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

struct family {
    struct bh_maker maker;
    const char *pattern;
    char *start; /* what stands before the first star */
};

struct families { /* with one beginning */
    struct family **items;
    size_t len, cap;
};

struct bh_makers {
    struct bh_arena *arena;
    struct bh_map *exact; /* literal → struct bh_maker_list */
    struct bh_maker **names;
    size_t n_names, cap_names;
    struct family **families;
    size_t n_families, cap_families;
    struct bh_map *by_start; /* beginning → struct families */
    struct bh_map *globs;    /* pattern → struct bh_maker_list, made once */
    size_t work;
};

struct bh_makers *bh_makers_new(struct bh_arena *arena)
{
    struct bh_makers *m = bh_alloc(sizeof(*m));
    m->arena = arena;
    m->exact = bh_map_new(NULL);
    m->by_start = bh_map_new(NULL);
    m->globs = bh_map_new(NULL);
    return m;
}

void bh_makers_free(struct bh_makers *m)
{
    if (!m)
        return;
    bh_map_free(m->exact);
    bh_map_free(m->by_start);
    bh_map_free(m->globs);
    bh_free(m->names);
    bh_free(m->families);
    bh_free(m);
}

static void list_add(struct bh_arena *arena, struct bh_maker_list *list, const struct bh_maker *maker)
{
    *BH_ARENA_PUSH(arena, list->items, list->len, list->cap) = maker;
}

static void add_exact(struct bh_makers *m, const struct bh_maker *maker)
{
    struct bh_maker_list *list = bh_map_get(m->exact, maker->name);
    if (!list) {
        list = bh_arena_alloc(m->arena, sizeof(*list));
        (void)bh_map_put(m->exact, maker->name, list);
    }
    list_add(m->arena, list, maker);
}

static void add_family(struct bh_makers *m, struct family *f)
{
    *BH_PUSH(m->families, m->n_families, m->cap_families) = f;
    struct families *same = bh_map_get(m->by_start, f->start);
    if (!same) {
        same = bh_arena_alloc(m->arena, sizeof(*same));
        (void)bh_map_put(m->by_start, f->start, same);
    }
    *BH_ARENA_PUSH(m->arena, same->items, same->len, same->cap) = f;
}

static size_t start_len(const char *pattern)
{
    return strcspn(pattern, "*?");
}

void bh_makers_add(struct bh_makers *m, const char *literal, const char *pattern, size_t agent)
{
    struct family *f = bh_arena_alloc(m->arena, sizeof(*f));
    f->maker = (struct bh_maker){literal, bh_glob_is(pattern), agent};
    add_exact(m, &f->maker);
    if (!f->maker.is_family) {
        *BH_PUSH(m->names, m->n_names, m->cap_names) = &f->maker;
        return;
    }
    f->pattern = pattern;
    f->start = bh_arena_strndup(m->arena, pattern, start_len(pattern));
    add_family(m, f);
}

static int by_name(const void *a, const void *b)
{
    const struct bh_maker *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order ? order : ((*x)->agent > (*y)->agent) - ((*x)->agent < (*y)->agent);
}

static int by_start(const void *a, const void *b)
{
    const struct family *const *x = a, *const *y = b;
    return strcmp((*x)->start, (*y)->start);
}

void bh_makers_seal(struct bh_makers *m)
{
    if (m->n_names)
        qsort(m->names, m->n_names, sizeof(*m->names), by_name);
    if (m->n_families)
        qsort(m->families, m->n_families, sizeof(*m->families), by_start);
}

const struct bh_maker_list *bh_makers_exact(const struct bh_makers *m, const char *literal)
{
    return bh_map_get(m->exact, literal);
}

/* The first of a sorted array that is not less than `start` in its first n characters. */
static size_t first_name(const struct bh_makers *m, const char *start, size_t n)
{
    size_t lo = 0, hi = m->n_names;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strncmp(m->names[mid]->name, start, n) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static size_t first_family(const struct bh_makers *m, const char *start, size_t n)
{
    size_t lo = 0, hi = m->n_families;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strncmp(m->families[mid]->start, start, n) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t bh_makers_work(struct bh_makers *m)
{
    size_t work = m->work;
    m->work = 0;
    return work;
}

/* Families whose beginning is a proper part of text's first n characters, or (whole) all of them. */
static void add_shorter(struct bh_makers *m, const char *text, size_t n, bool whole, bool is_glob,
                        struct bh_maker_list *list)
{
    BH_CLEANUP_FREE char *start = bh_strndup(text, n);
    for (size_t len = 0; len < n + (whole ? 1 : 0); len++) {
        char kept = start[len];
        start[len] = '\0';
        const struct families *same = bh_map_get(m->by_start, start);
        start[len] = kept;
        m->work++;
        for (size_t i = 0; same && i < same->len; i++) {
            const struct family *f = same->items[i];
            m->work++;
            if (is_glob ? bh_glob_may_intersect(f->pattern, text) : bh_glob_match(f->pattern, text))
                list_add(m->arena, list, &f->maker);
        }
    }
}

static int by_agent(const void *a, const void *b)
{
    const struct bh_maker *const *x = a, *const *y = b;
    int order = ((*x)->agent > (*y)->agent) - ((*x)->agent < (*y)->agent);
    return order ? order : strcmp((*x)->name, (*y)->name);
}

static void finish_list(struct bh_arena *arena, struct bh_maker_list *list)
{
    if (list->len == 0)
        return;
    qsort(list->items, list->len, sizeof(*list->items), by_agent);
    list->agents = bh_arena_alloc(arena, list->len * sizeof(*list->agents));
    for (size_t i = 0; i < list->len; i++) {
        size_t agent = list->items[i]->agent;
        if (list->n_agents == 0 || list->agents[list->n_agents - 1] != agent)
            list->agents[list->n_agents++] = agent;
    }
}

const struct bh_maker_list *bh_makers_of_glob(struct bh_makers *m, const char *pattern)
{
    struct bh_maker_list *list = bh_map_get(m->globs, pattern);
    if (list)
        return list;
    list = bh_arena_alloc(m->arena, sizeof(*list));
    size_t n = start_len(pattern);
    for (size_t i = first_name(m, pattern, n); i < m->n_names && strncmp(m->names[i]->name, pattern, n) == 0; i++) {
        m->work++;
        if (bh_glob_match(pattern, m->names[i]->name))
            list_add(m->arena, list, m->names[i]);
    }
    for (size_t i = first_family(m, pattern, n); i < m->n_families && strncmp(m->families[i]->start, pattern, n) == 0;
         i++) {
        m->work++;
        if (bh_glob_may_intersect(m->families[i]->pattern, pattern))
            list_add(m->arena, list, &m->families[i]->maker);
    }
    add_shorter(m, pattern, n, false, true, list);
    finish_list(m->arena, list);
    (void)bh_map_put(m->globs, pattern, list);
    return list;
}

const struct bh_maker_list *bh_makers_of_name(struct bh_makers *m, const char *name)
{
    if (m->n_families == 0)
        return NULL;
    struct bh_maker_list *list = bh_arena_alloc(m->arena, sizeof(*list));
    add_shorter(m, name, strlen(name), true, false, list);
    finish_list(m->arena, list);
    return list;
}
