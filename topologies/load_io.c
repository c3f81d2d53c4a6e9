/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what an agent declares: inputs, needs, outputs. Which producer an input is bound to, and whose names collide, is
 * the plan's.
 */
#include <ctype.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/load_priv.h"
#include "topologies/names.h"
#include "topologies/placeholder.h"

/* The name of one attempt or round: `name@2`, `name@r2`, `name@*`, `name@{{round}}`. Cuts a good suffix off. */
static void cut_attempt(const char *text, struct bh_buf *name)
{
    char *at = strrchr(name->data, '@');
    if (!at)
        return;
    const char *s = at + 1;
    s += *s == 'r';
    size_t digits = strspn(s, "0123456789"), stars = strspn(s, "*?");
    bool good = (digits > 0 && s[digits] == '\0') || (stars > 0 && s[stars] == '\0') ||
                (*s == 'x' && s[1] == '\0' && strstr(text, "@{{"));
    if (!good)
        return;
    name->len = (size_t)(at - name->data);
    *at = '\0';
}

/* Checks a name or a glob whose {{ }} may stand for anything that is good. */
static bool check_artifact(struct bh_reader *r, const struct bh_node *n, const char *text, bool input, bool glob)
{
    BH_CLEANUP_BUF struct bh_buf blank = BH_BUF_INIT;
    bh_placeholder_blank(text, &blank);
    if (input)
        cut_attempt(text, &blank);
    const char *problem = glob ? bh_artifact_glob_problem(blank.data) : bh_artifact_name_problem(blank.data);
    if (!problem)
        return true;
    const char *hint = !glob && bh_glob_is(blank.data)
                           ? bh_arena_printf(r->arena, "many files are declared as {glob: \"%s\"}", text)
                           : NULL;
    bh_read_error(r, n, BH_E_BAD_NAME, hint, "'%s' is not a name of an artifact: it %s", text, problem);
    return false;
}

/* --- inputs --- */

struct input {
    struct bh_input model;
    struct bh_str path;
};

static void read_input_name(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct input *in = field;
    struct bh_str name;
    if (bh_read_filled(r, n, "the name of an artifact", BH_HOLDS_AGENT, &name) &&
        check_artifact(r, n, name.s, true, bh_glob_is(name.s)))
        in->model.name = name;
}

static void read_input_path(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct input *in = field;
    if (bh_read_filled(r, n, "a path below /workspace/in", BH_HOLDS_AGENT, &in->path))
        (void)bh_clean_path(r, n, in->path.s, "/workspace/in", false, &in->model.path);
}

static void read_input_optional(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, &((struct input *)field)->model.optional);
}

static const struct bh_key input_keys[] = {
    {"name", read_input_name, 0, BH_KEY_REQUIRED},
    {"path", read_input_path, 0, 0},
    {"optional", read_input_optional, 0, 0},
};
const struct bh_key_table bh_input_table = {"input", "an input", input_keys, BH_ARRAY_LEN(input_keys), 0};

static void read_input(struct bh_reader *r, struct bh_node *n, struct input *in)
{
    if (bh_node_kind(n) != BH_NODE_MAP) {
        if (bh_node_text(n))
            read_input_name(r, n, in);
        else
            bh_read_wrong(r, n, "an input as a name or a map", NULL);
        return;
    }
    if (bh_read_map(r, n, &bh_input_table, in) && in->path.s && in->model.name.s && bh_glob_is(in->model.name.s))
        bh_read_error(r, bh_node_get(n, "path"), BH_E_INVALID, NULL,
                      "'path' beside a glob: each artifact that it finds keeps its name");
}

/* Two artifacts cannot lie at one place below /workspace/in. */
static void claim_place(struct bh_reader *r, const struct bh_node *n, const struct bh_input *in, struct bh_map *places)
{
    const char *place = in->path.s ? in->path.s : in->name.s;
    const char *first = bh_map_get(places, place);
    if (first)
        bh_read_error(r, n, BH_E_INVALID, NULL, "the input '%s' already lies at in/%s", first, place);
    else if (!bh_glob_is(in->name.s))
        bh_map_put(places, place, (void *)in->name.s);
}

void bh_read_inputs(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    size_t cap = 0;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of artifact names"))
        return;
    a->has_inputs = true;
    BH_CLEANUP_MAP struct bh_map *names = bh_map_new(NULL), *places = bh_map_new(NULL);
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct input in = {0};
        read_input(r, bh_node_at(n, i), &in);
        if (!in.model.name.s)
            continue;
        if (!bh_map_put(names, in.model.name.s, r))
            bh_read_error(r, bh_node_at(n, i), BH_E_INVALID, NULL, "the input '%s' is here already", in.model.name.s);
        else
            claim_place(r, bh_node_at(n, i), &in.model, places);
        *BH_ARENA_PUSH(r->arena, a->inputs, a->n_inputs, cap) = in.model;
    }
}

/* --- needs --- */

void bh_read_needs(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of agent names"))
        return;
    a->has_needs = true;
    BH_CLEANUP_MAP struct bh_map *names = bh_map_new(NULL);
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str name;
        if (!bh_read_name(r, bh_node_at(n, i), &name))
            continue;
        if (bh_map_put(names, name.s, r))
            *BH_ARENA_PUSH(r->arena, a->needs.items, a->needs.len, a->needs.cap) = name;
        else
            bh_read_error(r, bh_node_at(n, i), BH_E_INVALID, NULL, "'%s' is needed already", name.s);
    }
}

/* --- outputs --- */

static void read_output_name(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_output *out = field;
    struct bh_str name;
    if (bh_read_filled(r, n, "the name of an artifact", BH_HOLDS_AGENT, &name) &&
        check_artifact(r, n, name.s, false, false))
        out->name = name;
}

static void read_output_glob(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_output *out = field;
    struct bh_str glob;
    if (!bh_read_filled(r, n, "a glob of artifact names", BH_HOLDS_AGENT, &glob) ||
        !check_artifact(r, n, glob.s, false, true))
        return;
    if (!bh_glob_is(glob.s))
        bh_read_error(r, n, BH_E_BAD_VALUE, "one file is declared as {name: ...}", "'%s' has none of * ** ?", glob.s);
    out->glob = glob;
}

static void read_output_path(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_output *out = field;
    struct bh_str path;
    if (bh_read_filled(r, n, "a path below /workspace", BH_HOLDS_AGENT, &path))
        (void)bh_clean_path(r, n, path.s, "/workspace", false, &out->path);
}

static void read_output_kind(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"file", "dir"};
    struct bh_output *out = field;
    size_t i;
    if (!bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        return;
    out->kind = i == 0 ? BH_KIND_FILE : BH_KIND_DIR;
    if (out->kind == BH_KIND_DIR)
        bh_read_later(r, n, "kind: dir");
}

static void read_output_optional(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, &((struct bh_output *)field)->optional);
}

static void read_max_size(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_size(r, n, &((struct bh_output *)field)->max_size);
}

static void read_max_files(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_int(r, n, 1, BH_COUNT_MAX, &((struct bh_output *)field)->max_files);
}

#define VALIDATE                                                              \
    {                                                                         \
        "validate", bh_read_validate, offsetof(struct bh_output, validate), 0 \
    }
static const struct bh_key output_keys[] = {
    {"name", read_output_name, 0, BH_KEY_REQUIRED},
    {"path", read_output_path, 0, 0},
    {"kind", read_output_kind, 0, 0},
    {"optional", read_output_optional, 0, 0},
    VALIDATE,
    {"max_size", read_max_size, 0, 0},
    {"max_files", read_max_files, 0, 0},
};
static const struct bh_key output_glob_keys[] = {
    {"glob", read_output_glob, 0, BH_KEY_REQUIRED},
    {"optional", read_output_optional, 0, 0},
    VALIDATE,
    {"max_size", read_max_size, 0, 0},
    {"max_files", read_max_files, 0, 0},
};
#undef VALIDATE
const struct bh_key_table bh_output_table = {"output", "an output", output_keys, BH_ARRAY_LEN(output_keys), 0};
const struct bh_key_table bh_output_glob_table = {"output_glob", "a glob output", output_glob_keys,
                                                  BH_ARRAY_LEN(output_glob_keys), 0};

static bool read_output(struct bh_reader *r, struct bh_node *n, struct bh_output *out)
{
    if (bh_node_text(n)) {
        read_output_name(r, n, out);
        return out->name.s != NULL;
    }
    if (bh_node_kind(n) != BH_NODE_MAP) {
        bh_read_wrong(r, n, "an output as a name or a map", NULL);
        return false;
    }
    bool glob = bh_node_get(n, "glob") && !bh_node_get(n, "name");
    (void)bh_read_map(r, n, glob ? &bh_output_glob_table : &bh_output_table, out);
    if (!glob && out->kind == BH_KIND_FILE && bh_node_get(n, "max_files"))
        bh_read_key_error(r, bh_node_get(n, "max_files"), BH_E_INVALID, NULL,
                          "'max_files' is for 'kind: dir' and globs: this output is one file");
    return out->name.s || out->glob.s;
}

void bh_read_outputs(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    size_t cap = 0;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of outputs"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_output out = {.max_size = -1, .max_files = -1};
        if (read_output(r, bh_node_at(n, i), &out))
            *BH_ARENA_PUSH(r->arena, a->outputs, a->n_outputs, cap) = out;
    }
}
