/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what makes many of one agent: attempts with their check and the state they are forked from, and the matrix.
 */
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "topologies/load_priv.h"

/* --- attempts --- */

bool bh_agent_numbered(const struct bh_agent *a)
{
    return a->attempts.count > 1 || a->attempts.each || a->attempts.select != BH_SELECT_FIRST_PASS;
}

bool bh_agent_forks(const struct bh_agent *a)
{
    return bh_agent_numbered(a) || a->prepare.set || a->check.set;
}

static void read_count(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_int(r, n, 1, BH_ATTEMPTS_MAX, &((struct bh_attempts *)field)->count);
}

static void read_each(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_attempts *a = field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of maps of variables"))
        return;
    size_t len = bh_node_len(n);
    if (len == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, "give one map of variables for each attempt",
                      "the list asks for no attempt at all");
    if (len > BH_ATTEMPTS_MAX) {
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the list asks for %zu attempts; the most is %d", len,
                      BH_ATTEMPTS_MAX);
        len = BH_ATTEMPTS_MAX;
    }
    a->each = bh_arena_alloc(r->arena, (len + 1) * sizeof(*a->each));
    a->count = (int64_t)len;
    for (size_t i = 0; i < len; i++)
        bh_read_env(r, bh_node_at(n, i), &a->each[i]);
}

static void read_select(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"first-pass", "best", "all"};
    size_t i;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        ((struct bh_attempts *)field)->select = (enum bh_select)i;
}

static void read_score(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_attempts *a = field;
    struct bh_str path;
    if (bh_read_filled(r, n, "a path in /workspace", BH_HOLDS_NONE, &path))
        (void)bh_clean_path(r, n, path.s, "/workspace", false, &a->score);
}

static void read_order(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"max", "min"};
    size_t i;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        ((struct bh_attempts *)field)->order_min = i == 1;
}

static void read_stop_losers(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, &((struct bh_attempts *)field)->stop_losers);
}

static void read_min_success(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_int(r, n, 1, BH_COUNT_MAX, &((struct bh_attempts *)field)->min_success);
}

static const struct bh_key attempts_keys[] = {
    {"count", read_count, 0, 0},
    {"each", read_each, 0, 0},
    {"select", read_select, 0, 0},
    {"score", read_score, 0, 0},
    {"order", read_order, 0, 0},
    {"stop_losers", read_stop_losers, 0, 0},
    {"min_success", read_min_success, 0, 0},
};
const struct bh_key_table bh_attempts_table = {"attempts", "attempts", attempts_keys, BH_ARRAY_LEN(attempts_keys), 0};

/* What holds between the keys of a map of attempts. */
static void check_attempts(struct bh_reader *r, const struct bh_node *n, const struct bh_attempts *a)
{
    const struct bh_node *each = bh_node_get(n, "each"), *count = bh_node_get(n, "count");
    if (each && count)
        bh_read_key_error(r, each, BH_E_INVALID, NULL, "'each' beside 'count': its length is the number of attempts");
    if (!each && !count)
        bh_read_missing(r, n, "count", NULL, "attempts need 'count' or 'each'");
    if (a->select == BH_SELECT_BEST && !bh_node_get(n, "score"))
        bh_read_missing(r, n, "score", "name the file that holds one number", "'select: best' needs 'score'");
    if (bh_node_get(n, "order") && !bh_node_get(n, "score"))
        bh_read_missing(r, n, "score", NULL, "'order' needs 'score'");
    if (a->stop_losers && a->select != BH_SELECT_FIRST_PASS)
        bh_read_key_error(r, bh_node_get(n, "stop_losers"), BH_E_INVALID, NULL,
                          "'stop_losers' is for 'select: first-pass' alone");
    if (a->count > 0 && a->min_success > a->count)
        bh_read_error(r, bh_node_get(n, "min_success"), BH_E_INVALID, NULL, "%lld of %lld attempts cannot succeed",
                      (long long)a->min_success, (long long)a->count);
}

void bh_read_attempts(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *agent = field;
    struct bh_attempts a = {.min_success = 1};
    if (bh_node_kind(n) != BH_NODE_MAP) {
        read_count(r, n, &a);
    } else if (bh_read_map(r, n, &bh_attempts_table, &a)) {
        check_attempts(r, n, &a);
    }
    if (a.count < 1)
        a.count = 1;
    agent->attempts = a;
}

/* --- check --- */

static void read_check_run(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_command(r, n, BH_HOLDS_AGENT, field);
}

static void read_check_box(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"same", "fresh"};
    size_t i;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        *(bool *)field = i == 1;
}

static void read_check_network(struct bh_reader *r, struct bh_node *n, void *field)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_read_network_value(r, n);
    struct bh_str *network = field;
    if (v)
        *network = bh_read_network_text(r, n, v);
}

#define FIELD(name) offsetof(struct bh_agent, name)
static const struct bh_key check_keys[] = {
    {"run", read_check_run, FIELD(check), BH_KEY_REQUIRED},
    {"files", bh_read_files, FIELD(check_files), 0},
    {"box", read_check_box, FIELD(check_fresh), 0},
    {"network", read_check_network, FIELD(check_network), 0},
};
const struct bh_key_table bh_check_table = {"check", "a check", check_keys, BH_ARRAY_LEN(check_keys), 0};

void bh_read_check(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    if (bh_node_kind(n) == BH_NODE_MAP)
        (void)bh_read_map(r, n, &bh_check_table, a);
    else
        read_check_run(r, n, &a->check);
}

/* --- prepare --- */

static void read_warm(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, field);
}

static const struct bh_key prepare_keys[] = {
    {"run", read_check_run, FIELD(prepare), BH_KEY_REQUIRED},
    {"warm", read_warm, FIELD(warm), 0},
};
#undef FIELD
const struct bh_key_table bh_prepare_table = {"prepare", "a preparation", prepare_keys, BH_ARRAY_LEN(prepare_keys), 0};

void bh_read_prepare(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    if (bh_node_kind(n) == BH_NODE_MAP)
        (void)bh_read_map(r, n, &bh_prepare_table, a);
    else
        read_check_run(r, n, &a->prepare);
}

/* --- matrix --- */

static bool is_axis(const char *key)
{
    return !bh_streq(key, "include") && !bh_streq(key, "exclude");
}

static void read_axis(struct bh_reader *r, struct bh_node *n)
{
    (void)bh_check_identifier_key(r, n, "an axis");
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of values"))
        return;
    if (bh_node_len(n) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the axis has no value");
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str value;
        const struct bh_node *item = bh_node_at(n, i);
        if (bh_read_text(r, item, "a text", BH_HOLDS_NONE, &value) && !bh_map_put(seen, value.s, r))
            bh_read_error(r, item, BH_E_INVALID, NULL, "the value '%s' is here already", value.s);
    }
}

/* `axes` holds the names that may stand here; NULL: any. */
static void read_cell(struct bh_reader *r, struct bh_node *n, const struct bh_map *axes)
{
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of axis to value"))
        return;
    if (bh_node_len(n) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the map names no axis");
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str value;
        const struct bh_node *item = bh_node_at(n, i);
        (void)bh_read_text(r, item, "a text", BH_HOLDS_NONE, &value);
        if (bh_check_identifier_key(r, item, "an axis") && axes && !bh_map_has(axes, bh_node_key(item)))
            bh_read_key_error(r, item, BH_E_UNDEFINED, NULL, "'%s' is no axis of this matrix", bh_node_key(item));
    }
}

static void read_cells(struct bh_reader *r, struct bh_node *n, const struct bh_map *axes)
{
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of maps of axis to value"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++)
        read_cell(r, bh_node_at(n, i), axes);
}

void bh_read_matrix(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    a->matrix = n;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of axis to list of values"))
        return;
    BH_CLEANUP_MAP struct bh_map *axes = bh_map_new(NULL);
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_node *item = bh_node_at(n, i);
        if (!is_axis(bh_node_key(item)))
            continue;
        bh_map_put(axes, bh_node_key(item), item);
        read_axis(r, item);
    }
    struct bh_node *include = bh_node_get(n, "include"), *exclude = bh_node_get(n, "exclude");
    if (include)
        read_cells(r, include, NULL); /* may bring axes of its own */
    if (exclude)
        read_cells(r, exclude, axes);
    if (bh_map_len(axes) == 0 && bh_node_len(include) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the matrix has no axis");
}
