/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what each kind of key makes of a filled text. What the loader has seen as it stands is not looked at again: only
 * what {{ }} made of it.
 */
#include "topologies/fill.h"

#include "base/path.h"
#include "base/text.h"
#include "topologies/names.h"

enum { MAX_ENV = 128 * 1024 };

const char *bh_where_path(struct bh_planner *pl, struct bh_where at)
{
    const char *dot = *at.owner ? "." : "";
    if (at.in_list)
        return bh_arena_printf(pl->arena, "%s%s%s[%zu]", at.owner, dot, at.key, at.index);
    if (at.in_map)
        return bh_arena_printf(pl->arena, "%s%s%s.%s", at.owner, dot, at.key, at.entry);
    return bh_arena_printf(pl->arena, "%s%s%s", at.owner, dot, at.key);
}

const char *bh_fill_text(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text, struct bh_where at)
{
    const char *out;
    struct bh_err *err = NULL;
    if (!text.s)
        return NULL;
    if (bh_expand(scope, text.s, BH_OPEN_KEEP, pl->arena, &out, NULL, &err) == 0)
        return out;
    bh_planner_report(pl, err, text.pos, bh_where_path(pl, at));
    return text.s;
}

/* All three forms of a text that is a name or a path. Where it fails, it is one that fits anything. */
static struct bh_text fill_forms(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text,
                                 struct bh_where at)
{
    struct bh_text t = {0};
    struct bh_err *err = NULL;
    int rc = bh_expand(scope, text.s, BH_OPEN_KEEP, pl->arena, &t.s, &t.open, &err);
    t.sample = t.glob = t.s;
    if (rc == 0 && t.open)
        rc = bh_expand(scope, text.s, BH_OPEN_SAMPLE, pl->arena, &t.sample, NULL, &err);
    if (rc == 0 && t.open)
        rc = bh_expand(scope, text.s, BH_OPEN_GLOB, pl->arena, &t.glob, NULL, &err);
    if (rc == 0)
        return t;
    bh_planner_report(pl, err, text.pos, bh_where_path(pl, at));
    return (struct bh_text){.s = text.s, .sample = "x", .glob = "**", .open = true};
}

static bool was_filled(struct bh_str doc, const struct bh_text *t)
{
    return t->s != doc.s;
}

/* An input may end in the number of an attempt or a round: name@2, name@r2, name@*. */
static const char *without_number(struct bh_arena *arena, const char *name)
{
    const char *at = strrchr(name, '@');
    if (!at)
        return name;
    const char *number = at + 1 + (at[1] == 'r');
    bool good = *number != '\0' && number[strspn(number, "0123456789*?")] == '\0';
    return good ? bh_arena_strndup(arena, name, (size_t)(at - name)) : name;
}

struct bh_text bh_fill_artifact(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text, bool is_glob,
                                bool is_input, struct bh_where at)
{
    struct bh_text t = fill_forms(pl, scope, text, at);
    if (!was_filled(text, &t))
        return t;
    const char *sample = is_input ? without_number(pl->arena, t.sample) : t.sample;
    const char *why = is_glob ? bh_artifact_glob_problem(sample) : bh_artifact_name_problem(sample);
    if (why)
        bh_planner_fail(pl, BH_E_BAD_NAME, text.pos, bh_where_path(pl, at),
                        "'%.200s' is not a name of an artifact: it %s", t.s, why);
    return t;
}

const char *bh_fill_path(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text, struct bh_where at)
{
    if (!text.s)
        return NULL;
    struct bh_text t = fill_forms(pl, scope, text, at);
    if (was_filled(text, &t) && !bh_path_is_clean(t.sample))
        bh_planner_fail(pl, BH_E_BAD_VALUE, text.pos, bh_where_path(pl, at),
                        "the path '%.200s' is not one below its folder", t.s);
    return t.s;
}

const char *bh_fill_host_path(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text,
                              struct bh_where at)
{
    if (!text.s)
        return NULL;
    struct bh_text t = fill_forms(pl, scope, text, at);
    if (was_filled(text, &t) && (*t.sample == '/' || *t.sample == '\0' || bh_path_escapes(t.sample, strlen(t.sample))))
        bh_planner_fail(pl, BH_E_BAD_VALUE, text.pos, bh_where_path(pl, at),
                        "the path '%.200s' leads out of the folder of this file", t.s);
    return t.s;
}

const char **bh_fill_command(struct bh_planner *pl, const struct bh_scope *scope, const struct bh_command *cmd,
                             const char *owner, const char *key, size_t *ret_n)
{
    *ret_n = 0;
    if (!cmd->set)
        return NULL;
    const char **argv = bh_arena_alloc(pl->arena, (cmd->args.len + 3) * sizeof(*argv));
    if (!cmd->is_list) {
        argv[0] = "/bin/sh";
        argv[1] = "-ceu";
        argv[2] = cmd->args.items[0].s;
        *ret_n = 3;
        return argv;
    }
    for (size_t i = 0; i < cmd->args.len; i++)
        argv[i] = bh_fill_text(pl, scope, cmd->args.items[i], BH_AT_INDEX(owner, key, i));
    *ret_n = cmd->args.len;
    return argv;
}

static bool has_holes(const struct bh_pairs *pairs)
{
    for (size_t i = 0; i < pairs->len; i++) {
        if (strstr(pairs->items[i].name.s, "{{") || strstr(pairs->items[i].value.s, "{{"))
            return true;
    }
    return false;
}

struct bh_pair *bh_fill_files(struct bh_planner *pl, const struct bh_scope *scope, const struct bh_pairs *files,
                              const char *owner)
{
    if (!has_holes(files))
        return files->items;
    struct bh_pair *out = bh_arena_alloc(pl->arena, files->len * sizeof(*out));
    for (size_t i = 0; i < files->len; i++) {
        struct bh_where at = BH_AT_ENTRY(owner, "files", files->items[i].name.s);
        out[i] = files->items[i];
        out[i].name.s = bh_fill_path(pl, scope, files->items[i].name, at);
        out[i].value.s = bh_fill_host_path(pl, scope, files->items[i].value, at);
    }
    return out;
}

struct bh_pair *bh_fill_env(struct bh_planner *pl, const struct bh_scope *scope, const struct bh_pairs *env,
                            const char *owner)
{
    if (!has_holes(env))
        return env->items;
    struct bh_pair *out = bh_arena_alloc(pl->arena, env->len * sizeof(*out));
    for (size_t i = 0; i < env->len; i++) {
        struct bh_where at = BH_AT_ENTRY(owner, "env", env->items[i].name.s);
        out[i] = env->items[i];
        out[i].value.s = bh_fill_text(pl, scope, env->items[i].value, at);
        if (strlen(out[i].value.s) > MAX_ENV)
            bh_planner_fail(pl, BH_E_BAD_VALUE, out[i].value.pos, bh_where_path(pl, at),
                            "the value of variable '%s' is larger than 128 KiB", out[i].name.s);
    }
    return out;
}
