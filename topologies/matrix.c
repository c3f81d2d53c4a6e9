/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the cells of a matrix: every combination of its lists in the order of the document (the last list turns
 * fastest), without those of `exclude`, then those of `include`. Assumes that the loader has checked the shape. Must
 * never make more cells than a plan may have agents.
 */
#include <ctype.h>

#include "base/buf.h"
#include "base/text.h"
#include "topologies/plan_priv.h"

struct axis {
    const char *name;
    const struct bh_node *values;
};

struct axes {
    struct axis *items;
    size_t len, cap;
};

struct cells {
    struct bh_cell *items;
    size_t len, cap;
};

static const char *matrix_path(struct bh_planner *pl, const struct bh_agent *doc)
{
    return bh_arena_printf(pl->arena, "%s.matrix", doc->path);
}

/* "GPT-4 Turbo" becomes "gpt-4-turbo": one '-' per character that a name may not hold. */
static void add_to_suffix(struct bh_buf *suffix, const char *value)
{
    bh_buf_addc(suffix, '-');
    for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
        if ((*p & 0xc0) == 0x80)
            continue; /* the rest of a character */
        bool good = isascii(*p) && (isalnum(*p) || *p == '_' || *p == '-');
        bh_buf_addc(suffix, good ? (char)tolower(*p) : '-');
    }
}

static void finish_cell(struct bh_planner *pl, struct bh_cell *cell)
{
    BH_CLEANUP_BUF struct bh_buf suffix = BH_BUF_INIT;
    for (size_t i = 0; i < cell->n; i++)
        add_to_suffix(&suffix, cell->values[i].value.s);
    cell->suffix = bh_arena_strdup(pl->arena, suffix.data);
}

static struct bh_pair pair_of(const char *name, const struct bh_node *value)
{
    const char *text = bh_node_text(value);
    struct bh_pos pos = bh_node_pos(value);
    return (struct bh_pair){.name = {name, pos}, .value = {text ? text : "", pos}};
}

static const char *value_in(const struct bh_cell *cell, const char *name)
{
    for (size_t i = 0; i < cell->n; i++) {
        if (strcmp(cell->values[i].name.s, name) == 0)
            return cell->values[i].value.s;
    }
    return NULL;
}

/* Whether one map of `exclude` fits: all that it names is so. */
static bool fits(const struct bh_node *entry, const struct bh_cell *cell)
{
    for (size_t i = 0; i < bh_node_len(entry); i++) {
        const char *want = bh_node_text(bh_node_at(entry, i));
        if (!want || !bh_streq(value_in(cell, bh_node_key_at(entry, i)), want))
            return false;
    }
    return bh_node_len(entry) > 0;
}

static bool is_excluded(struct bh_planner *pl, const struct bh_node *exclude, const struct bh_cell *cell)
{
    for (size_t i = 0; i < bh_node_len(exclude) && bh_planner_may_work(pl, 10); i++) {
        if (fits(bh_node_at(exclude, i), cell))
            return true;
    }
    return false;
}

static void read_axes(const struct bh_node *matrix, struct axes *axes)
{
    for (size_t i = 0; i < bh_node_len(matrix); i++) {
        const char *key = bh_node_key_at(matrix, i);
        if (strcmp(key, "include") != 0 && strcmp(key, "exclude") != 0)
            *BH_PUSH(axes->items, axes->len, axes->cap) = (struct axis){key, bh_node_at(matrix, i)};
    }
}

/* How many combinations; more than a plan may hold counts as one too many. */
static size_t count_product(const struct axes *axes)
{
    size_t n = axes->len > 0 ? 1 : 0;
    for (size_t i = 0; i < axes->len; i++) {
        n *= bh_node_len(axes->items[i].values);
        if (n > BH_PLAN_MAX_AGENTS)
            return BH_PLAN_MAX_AGENTS + 1;
    }
    return n;
}

/* The k-th combination, as digits of a number whose bases are the lengths of the lists. */
static struct bh_cell combination(struct bh_planner *pl, const struct axes *axes, size_t k)
{
    struct bh_cell cell = {.values = bh_arena_alloc(pl->arena, axes->len * sizeof(struct bh_pair)), .n = axes->len};
    for (size_t i = axes->len; i-- > 0;) {
        const struct axis *a = &axes->items[i];
        size_t len = bh_node_len(a->values);
        cell.values[i] = pair_of(a->name, bh_node_at(a->values, k % len));
        k /= len;
    }
    return cell;
}

static struct bh_cell included(struct bh_planner *pl, const struct bh_node *entry)
{
    size_t n = bh_node_len(entry);
    struct bh_cell cell = {.values = bh_arena_alloc(pl->arena, (n + 1) * sizeof(struct bh_pair)), .n = n};
    for (size_t i = 0; i < n; i++)
        cell.values[i] = pair_of(bh_node_key_at(entry, i), bh_node_at(entry, i));
    return cell;
}

static void add_cell(struct bh_planner *pl, struct cells *cells, struct bh_cell cell)
{
    finish_cell(pl, &cell);
    *BH_ARENA_PUSH(pl->arena, cells->items, cells->len, cells->cap) = cell;
}

size_t bh_matrix_cells(struct bh_planner *pl, const struct bh_agent *doc, struct bh_cell **ret)
{
    struct cells cells = {0};
    if (!doc->matrix) {
        add_cell(pl, &cells, (struct bh_cell){0});
        *ret = cells.items;
        return 1;
    }
    struct axes axes = {0};
    read_axes(doc->matrix, &axes);
    const struct bh_node *include = bh_node_get(doc->matrix, "include");
    const struct bh_node *exclude = bh_node_get(doc->matrix, "exclude");
    size_t n = count_product(&axes);
    bool too_many = n + bh_node_len(include) > BH_PLAN_MAX_AGENTS;
    for (size_t k = 0; k < n && !too_many && !pl->too_large; k++) {
        struct bh_cell cell = combination(pl, &axes, k);
        if (!is_excluded(pl, exclude, &cell))
            add_cell(pl, &cells, cell);
    }
    for (size_t i = 0; i < bh_node_len(include) && !too_many; i++)
        add_cell(pl, &cells, included(pl, bh_node_at(include, i)));
    bh_free(axes.items);
    if (too_many)
        bh_planner_fail(pl, BH_E_TOO_LARGE, bh_node_pos(doc->matrix), matrix_path(pl, doc),
                        "the matrix of agent '%s' has more than %d cells", doc->name.s, BH_PLAN_MAX_AGENTS);
    else if (cells.len == 0 && !pl->too_large)
        bh_planner_fail(pl, BH_E_BAD_VALUE, bh_node_pos(doc->matrix), matrix_path(pl, doc),
                        "the matrix of agent '%s' leaves no cell", doc->name.s);
    *ret = cells.items;
    return cells.len;
}
