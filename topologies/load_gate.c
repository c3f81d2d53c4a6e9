/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what decides whether something starts or is let in: predicates (`when`, `until`), gates, `accept`, `validate`.
 * They are kept as nodes; here they are only checked, completely.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/load_priv.h"
#include "topologies/names.h"

static void keep(struct bh_node *n, void *field)
{
    *(const struct bh_node **)field = n;
}

static bool check_artifact_text(struct bh_reader *r, const struct bh_node *n, const char *text, bool at_key, bool globs)
{
    const char *problem = globs ? bh_artifact_glob_problem(text) : bh_artifact_name_problem(text);
    if (!problem)
        return true;
    (at_key ? bh_read_key_error : bh_read_error)(r, n, BH_E_BAD_NAME, NULL, "'%s' is not a name of an artifact: it %s",
                                                 text, problem);
    return false;
}

/* --- predicates --- */

static void read_param_name(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str name;
    (void)field;
    (void)bh_read_filled(r, n, "the name of a param", BH_HOLDS_NONE, &name);
}

static void read_artifact(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str name;
    (void)field;
    if (bh_read_filled(r, n, "the name of an artifact", BH_HOLDS_NONE, &name))
        (void)check_artifact_text(r, n, name.s, false, false);
}

/* '' or /segment..., with ~0 and ~1 for ~ and /. */
static bool is_pointer(const char *s)
{
    if (*s != '\0' && *s != '/')
        return false;
    for (; (s = strchr(s, '~')); s++) {
        if (s[1] != '0' && s[1] != '1')
            return false;
    }
    return true;
}

static void read_at(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str pointer;
    (void)field;
    if (bh_read_text(r, n, "a JSON pointer", BH_HOLDS_NONE, &pointer) && !is_pointer(pointer.s))
        bh_read_bad(r, n, "a JSON pointer like /verdict/valid", NULL);
}

static void read_values(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str value;
    (void)field;
    if (bh_node_kind(n) != BH_NODE_LIST) {
        (void)bh_read_text(r, n, "a text or a list of texts", BH_HOLDS_NONE, &value);
        return;
    }
    if (bh_node_len(n) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the list has no value to compare with");
    for (size_t i = 0; i < bh_node_len(n); i++)
        (void)bh_read_text(r, bh_node_at(n, i), "a text", BH_HOLDS_NONE, &value);
}

static const struct bh_key predicate_keys[] = {
    {"param", read_param_name, 0, 0}, {"artifact", read_artifact, 0, 0}, {"at", read_at, 0, 0},
    {"is", read_values, 0, 0},        {"not", read_values, 0, 0},
};
const struct bh_key_table bh_predicate_table = {"predicate", "a predicate", predicate_keys,
                                                BH_ARRAY_LEN(predicate_keys), 0};

static void need_one(struct bh_reader *r, const struct bh_node *map, const char *a, const char *b, const char *what)
{
    const struct bh_node *second = bh_node_get(map, b);
    if (bh_node_get(map, a) && second)
        bh_read_key_error(r, second, BH_E_INVALID, NULL, "%s has '%s' or '%s', not both", what, a, b);
    else if (!bh_node_get(map, a) && !second)
        bh_read_missing(r, map, a, NULL, "%s needs '%s' or '%s'", what, a, b);
}

void bh_read_predicate(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"succeeded", "failed", "always"};
    size_t i;
    keep(n, field);
    if (bh_node_text(n)) {
        (void)bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i);
        return;
    }
    if (bh_node_kind(n) != BH_NODE_MAP) {
        bh_read_wrong(r, n, "succeeded, failed, always or a map", NULL);
        return;
    }
    if (!bh_read_map(r, n, &bh_predicate_table, field))
        return;
    need_one(r, n, "param", "artifact", "a predicate");
    need_one(r, n, "is", "not", "a predicate");
    if (bh_node_get(n, "at") && bh_node_get(n, "param"))
        bh_read_key_error(r, bh_node_get(n, "at"), BH_E_INVALID, NULL,
                          "'at' looks into an artifact: a param is one value");
}

/* --- gates --- */

void bh_read_gate(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"approve"};
    size_t i;
    keep(n, field);
    (void)bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i);
}

/* --- validate --- */

static void read_kind(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"json", "jsonl", "csv", "text", "binary", "dir", "patch"};
    size_t i;
    (void)field;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i) && bh_streq(words[i], "dir"))
        bh_read_later(r, n, "validate.kind: dir");
}

static void read_size(struct bh_reader *r, struct bh_node *n, void *field)
{
    int64_t bytes;
    (void)field;
    (void)bh_read_size(r, n, &bytes);
}

static void read_count(struct bh_reader *r, struct bh_node *n, void *field)
{
    int64_t count;
    (void)field;
    (void)bh_read_int(r, n, 1, BH_COUNT_MAX, &count);
}

static void read_paths(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of globs"))
        return;
    if (bh_node_len(n) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the list allows no path at all");
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str glob, clean;
        const struct bh_node *item = bh_node_at(n, i);
        if (!bh_read_filled(r, item, "a glob", BH_HOLDS_NONE, &glob))
            continue;
        if (*glob.s == '/')
            bh_read_error(r, item, BH_E_BAD_VALUE, NULL, "the path '%s' is absolute", glob.s);
        else
            (void)bh_clean_path(r, item, glob.s, "", false, &clean);
    }
}

static void read_argv(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_command cmd;
    (void)field;
    if (bh_expect(r, n, BH_NODE_LIST, "a command as a list of strings"))
        (void)bh_read_command(r, n, BH_HOLDS_AGENT, &cmd);
}

static const struct bh_key validate_keys[] = {
    {"kind", read_kind, 0, 0},       {"max_size", read_size, 0, 0}, {"max_lines", read_count, 0, 0},
    {"max_files", read_count, 0, 0}, {"paths", read_paths, 0, 0},   {"command", read_argv, 0, 0},
};
const struct bh_key_table bh_validate_table = {"validate", "a validation", validate_keys, BH_ARRAY_LEN(validate_keys),
                                               0};

/* What asks nothing of content of another kind would be taken for a check. */
static void need_files(struct bh_reader *r, const struct bh_node *validate, const char *key)
{
    const struct bh_node *value = bh_node_get(validate, key);
    const char *kind = bh_node_text(bh_node_get(validate, "kind"));
    if (value && !bh_streq(kind, "patch") && !bh_streq(kind, "dir"))
        bh_read_key_error(r, value, BH_E_INVALID, "say 'kind: patch'", "'%s' is about the files of a patch or a folder",
                          key);
}

void bh_read_validate(struct bh_reader *r, struct bh_node *n, void *field)
{
    keep(n, field);
    if (!bh_read_map(r, n, &bh_validate_table, field))
        return;
    if (bh_node_len(n) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the map checks nothing");
    need_files(r, n, "paths");
    need_files(r, n, "max_files");
}

/* --- accept --- */

struct accept {
    const struct bh_node *validate;
    bool endorse, approve;
};

static void read_endorse(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, &((struct accept *)field)->endorse);
}

static void read_approve(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, &((struct accept *)field)->approve);
}

static const struct bh_key accept_keys[] = {
    {"validate", bh_read_validate, offsetof(struct accept, validate), 0},
    {"endorse", read_endorse, 0, 0},
    {"approve", read_approve, 0, 0},
};
const struct bh_key_table bh_accept_table = {"accept", "an acceptance", accept_keys, BH_ARRAY_LEN(accept_keys), 0};

static void read_acceptance(struct bh_reader *r, struct bh_node *n)
{
    struct accept a = {0};
    if (!bh_read_map(r, n, &bh_accept_table, &a))
        return;
    if (!bh_node_get(n, "validate") && !a.approve)
        bh_read_missing(r, n, "validate", NULL, "an acceptance needs 'validate', or 'approve: true'");
    else if (bh_node_get(n, "validate") && a.approve)
        bh_read_key_error(r, bh_node_get(n, "approve"), BH_E_INVALID, NULL,
                          "an acceptance has 'validate' or 'approve', not both");
}

void bh_read_accept(struct bh_reader *r, struct bh_node *n, void *field)
{
    keep(n, field);
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of artifact to what is asked of it"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_node *item = bh_node_at(n, i);
        if (bh_check_holds(r, item, bh_node_key(item), BH_HOLDS_NONE, true))
            (void)check_artifact_text(r, item, bh_node_key(item), true, true);
        read_acceptance(r, item);
    }
}
