/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the params of a document and the check of a value against one: at load of the default, at submission of what was
 * given. A value is text; its type says which texts are good.
 */
#include <ctype.h>
#include <regex.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "topologies/load_priv.h"

static const char *const type_words[] = {"string", "int", "number", "bool"};

/* --- patterns: POSIX extended expressions, within what the C library can compile without harm --- */

enum { PATTERN_MAX = 1000, PATTERN_MAX_REPEATS = 1000, PATTERN_MAX_VALUE = 4096 };

/* Skips a bracket expression; ']' as its first member does not end it. */
static const char *skip_brackets(const char *p)
{
    p++;
    p += *p == '^';
    p += *p == ']';
    while (*p && *p != ']') {
        bool class = *p == '[' && (p[1] == ':' || p[1] == '.' || p[1] == '=');
        const char *end = class ? strchr(p + 2, ']') : NULL;
        p = end ? end + 1 : p + 1;
    }
    return *p ? p + 1 : p;
}

/* The larger number of {m,n} at `p`. */
static int64_t bound_at(const char *p)
{
    int64_t most = 1, value = 0;
    for (p++; *p && *p != '}'; p++) {
        value = isdigit((unsigned char)*p) && value <= PATTERN_MAX_REPEATS ? value * 10 + (*p - '0') : 0;
        most = value > most ? value : most;
    }
    return most;
}

/* NULL where the expression is one that costs what it looks like. */
static const char *pattern_problem(const char *pattern)
{
    int64_t repeats = 1;
    if (strlen(pattern) > PATTERN_MAX)
        return "is longer than 1000 characters";
    for (const char *p = pattern; *p;) {
        if (*p == '[') {
            p = skip_brackets(p);
            continue;
        }
        if (*p == '\\' && isdigit((unsigned char)p[1]))
            return "refers back to a group";
        if (*p == '{')
            repeats *= bound_at(p);
        if (repeats > PATTERN_MAX_REPEATS)
            return "repeats more than 1000 times";
        p += *p == '\\' && p[1] ? 2 : 1;
    }
    return NULL;
}

/* Whether the whole value matches. A pattern that does not compile matches nothing, and no pattern a long text. */
static bool pattern_matches(const char *pattern, const char *value)
{
    regex_t re;
    regmatch_t m;
    if (strlen(value) > PATTERN_MAX_VALUE)
        return false;
    if (regcomp(&re, pattern, REG_EXTENDED) != 0)
        return false;
    /* the longest of the leftmost matches: if any covers the whole value, this one does */
    bool good = regexec(&re, value, 1, &m, 0) == 0 && m.rm_so == 0 && (size_t)m.rm_eo == strlen(value);
    regfree(&re);
    return good;
}

/* --- values --- */

static bool is_of_type(enum bh_param_type type, const char *value)
{
    int64_t i;
    double d;
    switch (type) {
    case BH_PARAM_STRING:
        return true;
    case BH_PARAM_INT:
        return bh_parse_int(value, &i) == 0;
    case BH_PARAM_NUMBER:
        return bh_parse_number(value, &d) == 0;
    case BH_PARAM_BOOL:
        return bh_streq(value, "true") || bh_streq(value, "false");
    }
    return false;
}

/* Exact for integers, which doubles are not. */
static int compare(enum bh_param_type type, const char *a, const char *b)
{
    int64_t x = 0, y = 0;
    if (type == BH_PARAM_INT && bh_parse_int(a, &x) == 0 && bh_parse_int(b, &y) == 0)
        return x < y ? -1 : x > y;
    double p = 0, q = 0;
    if (bh_parse_number(a, &p) < 0 || bh_parse_number(b, &q) < 0)
        return 0;
    return p < q ? -1 : p > q;
}

static bool is_allowed(const struct bh_param *param, const char *value)
{
    for (size_t i = 0; i < param->allowed.len; i++) {
        const char *other = param->allowed.items[i].s;
        bool number = param->type == BH_PARAM_INT || param->type == BH_PARAM_NUMBER;
        if (number ? compare(param->type, value, other) == 0 : bh_streq(value, other))
            return true;
    }
    return param->allowed.len == 0;
}

int bh_param_check(const struct bh_param *param, const char *value, struct bh_err **err)
{
    static const char *const what[] = {"a string", "an integer", "a number", "true or false"};
    const char *name = param->name.s;
    if (!is_of_type(param->type, value))
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the param '%s' takes %s, not '%s'", name, what[param->type], value);
    if (strlen(value) > BH_ENV_MAX)
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the value of the param '%s' is longer than 128 KiB", name);
    if (!is_allowed(param, value))
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the param '%s' does not allow '%s': it is not in its enum", name,
                          value);
    if (param->min.s && compare(param->type, value, param->min.s) < 0)
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the param '%s' is at least %s, not %s", name, param->min.s, value);
    if (param->max.s && compare(param->type, value, param->max.s) > 0)
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the param '%s' is at most %s, not %s", name, param->max.s, value);
    if (param->pattern.s && !pattern_matches(param->pattern.s, value))
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the param '%s' does not allow '%s': its pattern is %s", name, value,
                          param->pattern.s);
    return 0;
}

/* --- the document --- */

static void read_type(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_param *param = field;
    size_t i;
    if (bh_read_word(r, n, type_words, BH_ARRAY_LEN(type_words), &i))
        param->type = (enum bh_param_type)i;
}

static void read_description(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_param *param = field;
    (void)bh_read_text(r, n, "a description as a text", BH_HOLDS_NONE, &param->description);
}

static void read_pattern(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_param *param = field;
    struct bh_str pattern;
    if (!bh_read_filled(r, n, "a regular expression", BH_HOLDS_NONE, &pattern))
        return;
    regex_t re;
    const char *problem = pattern_problem(pattern.s);
    int rc = problem ? 0 : regcomp(&re, pattern.s, REG_EXTENDED | REG_NOSUB);
    if (!problem && rc == 0) {
        regfree(&re);
        param->pattern = pattern;
        return;
    }
    char text[128] = "";
    if (!problem)
        regerror(rc, NULL, text, sizeof(text));
    bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the pattern %s",
                  problem ? problem : bh_arena_printf(r->arena, "is no POSIX extended expression: %s", text));
}

/* Values wait for the type, which may stand behind them. */
static void read_nothing(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)r;
    (void)n;
    (void)field;
}

static const struct bh_key param_keys[] = {
    {"type", read_type, 0, 0},
    {"default", read_nothing, 0, 0},
    {"min", read_nothing, 0, 0},
    {"max", read_nothing, 0, 0},
    {"enum", read_nothing, 0, 0},
    {"pattern", read_pattern, 0, 0},
    {"description", read_description, 0, 0},
};
const struct bh_key_table bh_param_table = {"param", "a param", param_keys, BH_ARRAY_LEN(param_keys), 0};

/* A value of the param's type, as the document writes it: no quotes around integers, numbers and bools. */
static bool read_value(struct bh_reader *r, struct bh_node *n, enum bh_param_type type, struct bh_str *ret)
{
    static const enum bh_node_type as[] = {BH_NODE_AS_TEXT, BH_NODE_AS_INT, BH_NODE_AS_NUMBER, BH_NODE_AS_BOOL};
    static const char *const what[] = {"a text", "an integer", "a number", "true or false"};
    struct bh_str value;
    if (type == BH_PARAM_STRING)
        return bh_read_text(r, n, "a text", BH_HOLDS_NONE, ret);
    if (!bh_node_is_plain(n) || !is_of_type(type, bh_node_text(n))) {
        bool quoted = bh_node_text(n) && !bh_node_is_plain(n);
        bh_read_wrong(r, n, what[type], quoted ? "take the quotes off: what stands in quotes is a text" : NULL);
        return false;
    }
    if (!bh_read_text(r, n, what[type], BH_HOLDS_NONE, &value))
        return false;
    bh_node_set_type(n, as[type]);
    *ret = value;
    return true;
}

static void read_limit(struct bh_reader *r, struct bh_node *map, const char *key, struct bh_param *param,
                       struct bh_str *ret)
{
    struct bh_node *n = bh_node_get(map, key);
    if (!n)
        return;
    if (param->type == BH_PARAM_INT || param->type == BH_PARAM_NUMBER)
        (void)read_value(r, n, param->type, ret);
    else
        bh_read_key_error(r, n, BH_E_INVALID, NULL, "'%s' is for params of type int and number, not %s", key,
                          type_words[param->type]);
}

static void read_enum(struct bh_reader *r, struct bh_node *n, struct bh_param *param)
{
    if (!n || !bh_expect(r, n, BH_NODE_LIST, "a list of values"))
        return;
    if (bh_node_len(n) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the list allows no value at all");
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str value;
        if (read_value(r, bh_node_at(n, i), param->type, &value))
            *BH_ARENA_PUSH(r->arena, param->allowed.items, param->allowed.len, param->allowed.cap) = value;
    }
}

static void check_param(struct bh_reader *r, struct bh_node *map, struct bh_param *param)
{
    struct bh_node *pattern = bh_node_get(map, "pattern"), *def = bh_node_get(map, "default");
    if (pattern && param->type != BH_PARAM_STRING)
        bh_read_key_error(r, pattern, BH_E_INVALID, NULL, "'pattern' is for params of type string, not %s",
                          type_words[param->type]);
    if (param->min.s && param->max.s && compare(param->type, param->min.s, param->max.s) > 0)
        bh_read_error(r, bh_node_get(map, "max"), BH_E_INVALID, NULL, "max is %s, below min, which is %s", param->max.s,
                      param->min.s);
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (param->def.s && bh_param_check(param, param->def.s, &err) < 0)
        bh_read_error(r, def, BH_E_BAD_VALUE, NULL, "the default is not allowed: %s", bh_err_message(err));
}

static void read_param(struct bh_reader *r, struct bh_node *n, struct bh_param *param)
{
    if (!bh_read_map(r, n, &bh_param_table, param))
        return;
    struct bh_node *def = bh_node_get(n, "default");
    if (def)
        (void)read_value(r, def, param->type, &param->def);
    read_limit(r, n, "min", param, &param->min);
    read_limit(r, n, "max", param, &param->max);
    read_enum(r, bh_node_get(n, "enum"), param);
    check_param(r, n, param);
}

/* The variable BULKHEAD_PARAM_<NAME>, which two params may not share. */
static const char *variable_of(struct bh_reader *r, const char *name)
{
    char *v = bh_arena_strdup(r->arena, name);
    for (char *c = v; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    return v;
}

void bh_load_params(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    size_t cap = 0;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of name to param"))
        return;
    BH_CLEANUP_MAP struct bh_map *variables = bh_map_new(NULL);
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_node *item = bh_node_at(n, i);
        struct bh_param param = {.name = {.s = bh_node_key(item), .pos = bh_node_key_pos(item)}};
        const char *v = variable_of(r, param.name.s);
        struct bh_node *other = bh_map_get(variables, v);
        if (bh_check_identifier_key(r, item, "a param") && other)
            bh_read_key_error(r, item, BH_E_BAD_NAME, NULL,
                              "'%s' and '%s' are both the variable BULKHEAD_PARAM_%s in a box", param.name.s,
                              bh_node_key(other), v);
        bh_map_put(variables, v, item);
        read_param(r, item, &param);
        *BH_ARENA_PUSH(r->arena, r->p->params, r->p->n_params, cap) = param;
    }
}
