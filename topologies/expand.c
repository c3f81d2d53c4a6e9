/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what {{ }} stands for. The scanner (placeholder.h) finds the places; here they are filled, once, from left to
 * right, never twice. Must never read an artifact, a file or the environment.
 */
#include "topologies/expand.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/placeholder.h"
#include "topologies/plan_priv.h"

/* A place and what goes there: `value`, or (open) whatever the style says. */
struct filling {
    const char *value;
    bool open;
    const char *sample;
};

static const char *place_name(const struct bh_placeholder *p, char buf[static 64])
{
    size_t n = p->name_len < 63 ? p->name_len : 63;
    memcpy(buf, p->name, n);
    buf[n] = '\0';
    return buf;
}

static void hint_param(const struct bh_scope *scope, const char *name, struct bh_err **err)
{
    size_t n = 0, it = 0;
    const char *key;
    void *value;
    BH_CLEANUP_FREE const char **names = bh_calloc(bh_map_len(scope->params) + 1, sizeof(*names));
    while (bh_map_next(scope->params, &it, &key, &value))
        names[n++] = key;
    const char *nearest = bh_nearest(name, names, n);
    if (nearest)
        bh_err_hint(err, "did you mean '{{params.%s}}'?", nearest);
    else
        bh_err_hint(err, "declare it under 'params'");
}

static int fill_param(const struct bh_scope *scope, const struct bh_placeholder *p, struct filling *ret,
                      struct bh_err **err)
{
    BH_CLEANUP_FREE char *name = bh_strndup(p->name, p->name_len);
    struct bh_param_slot *slot = bh_map_get(scope->params, name);
    if (!slot) {
        int rc = bh_err_set(err, BH_E_UNDEFINED, 0, "parameter '%s' is undefined", name);
        hint_param(scope, name, err);
        return rc;
    }
    slot->used = true;
    if (scope->named)
        (void)bh_map_put(scope->named, name, slot);
    ret->value = slot->value;
    ret->open = !slot->value;
    ret->sample = "x";
    return 0;
}

static int fill_matrix(const struct bh_scope *scope, const struct bh_placeholder *p, struct filling *ret,
                       struct bh_err **err)
{
    char name[64];
    (void)place_name(p, name);
    BH_CLEANUP_FREE const char **names = bh_calloc(scope->n_matrix + 1, sizeof(*names));
    for (size_t i = 0; i < scope->n_matrix; i++) {
        names[i] = scope->matrix[i].name.s;
        if (strcmp(names[i], name) == 0) {
            ret->value = scope->matrix[i].value.s;
            return 0;
        }
    }
    int rc = bh_err_set(err, BH_E_UNDEFINED, 0, "matrix value '%s' is undefined", name);
    const char *nearest = bh_nearest(name, names, scope->n_matrix);
    if (nearest)
        bh_err_hint(err, "did you mean '{{matrix.%s}}'?", nearest);
    else if (scope->n_matrix == 0)
        bh_err_hint(err, "the agent has no 'matrix'");
    return rc;
}

/* item, round, attempt. */
static int fill_number(bool exists, const char *what, const char *missing, const char *sample, struct filling *ret,
                       struct bh_err **err)
{
    if (!exists)
        return bh_err_set(err, BH_E_UNDEFINED, 0, "'{{%s}}' is undefined here: the stage has no '%s'", what, missing);
    ret->open = true;
    ret->sample = sample;
    return 0;
}

static int refuse(const struct bh_placeholder *p, struct bh_err **err)
{
    char name[64];
    if (p->kind == BH_HOLD_OPEN)
        return bh_err_set(err, BH_E_SYNTAX, 0, "'{{' is never closed by '}}'");
    if (p->kind == BH_HOLD_SECRET) {
        int rc = bh_err_set(err, BH_E_UNDEFINED, 0, "secret '%s' is not put into text", place_name(p, name));
        bh_err_hint(err, "list it under 'secrets' of the agent and read its variable, or use an endpoint");
        return rc;
    }
    int rc = bh_err_set(err, BH_E_UNDEFINED, 0, "'{{%s}}' is undefined", place_name(p, name));
    bh_err_hint(err, "{{ }} holds params.NAME, matrix.NAME, item, round or attempt");
    return rc;
}

static int refuse_attempt(struct bh_err **err)
{
    int rc =
        bh_err_set(err, BH_E_UNDEFINED, 0, "'{{attempt}}' is undefined here: all attempts start from the same state");
    bh_err_hint(err, "it is known in 'run', 'check', 'env', 'prompt' and 'outputs'");
    return rc;
}

static int find_filling(const struct bh_scope *scope, const struct bh_placeholder *p, struct filling *ret,
                        struct bh_err **err)
{
    switch (p->kind) {
    case BH_HOLD_PARAM:
        return fill_param(scope, p, ret, err);
    case BH_HOLD_MATRIX:
        return fill_matrix(scope, p, ret, err);
    case BH_HOLD_ITEM:
        return fill_number(scope->has_item, "item", "for_each", "0001", ret, err);
    case BH_HOLD_ROUND:
        return fill_number(scope->has_round, "round", "repeat", "1", ret, err);
    case BH_HOLD_ATTEMPT:
        if (scope->before_attempts)
            return refuse_attempt(err);
        *ret = scope->has_attempts ? (struct filling){.open = true, .sample = "1"} : (struct filling){.value = "1"};
        return 0;
    case BH_HOLD_MCP_CONFIG:
        if (!scope->is_brain)
            break;
        *ret = (struct filling){.open = true, .sample = "x"};
        return 0;
    case BH_HOLD_SECRET:
    case BH_HOLD_URL:
    case BH_HOLD_UNKNOWN:
    case BH_HOLD_OPEN:
        break;
    }
    return refuse(p, err);
}

static void put_in(const struct filling *f, enum bh_open_style style, const char *text, const struct bh_placeholder *p,
                   struct bh_buf *out)
{
    if (!f->open)
        bh_buf_adds(out, f->value);
    else if (style == BH_OPEN_KEEP)
        bh_buf_add(out, text + p->start, p->end - p->start);
    else
        bh_buf_adds(out, style == BH_OPEN_SAMPLE ? f->sample : "*");
}

static int check_size(const struct bh_scope *scope, size_t size, struct bh_err **err)
{
    if (size > BH_EXPAND_MAX)
        return bh_err_set(err, BH_E_TOO_LARGE, 0, "the text is larger than %d bytes once its {{ }} are put in",
                          BH_EXPAND_MAX);
    if (scope->budget && size > *scope->budget)
        return bh_err_set(err, BH_E_TOO_LARGE, 0, "the document is too large once its {{ }} are put in");
    return 0;
}

int bh_expand(const struct bh_scope *scope, const char *text, enum bh_open_style style, struct bh_arena *arena,
              const char **ret, bool *ret_open, struct bh_err **err)
{
    size_t offset = 0, done = 0;
    bool open = false;
    struct bh_placeholder p;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    while (bh_placeholder_next(text, &offset, &p)) {
        struct filling f = {0};
        int rc = find_filling(scope, &p, &f, err);
        if (rc < 0)
            return rc;
        open = open || f.open;
        bh_buf_add(&out, text + done, p.start - done);
        put_in(&f, style, text, &p, &out);
        done = p.end;
        rc = check_size(scope, out.len, err);
        if (rc < 0)
            return rc;
    }
    if (ret_open)
        *ret_open = open;
    if (done == 0) {
        *ret = text;
        return 0;
    }
    bh_buf_adds(&out, text + done);
    int rc = check_size(scope, out.len, err);
    if (rc < 0)
        return rc;
    if (scope->budget)
        *scope->budget -= out.len;
    *ret = bh_arena_strndup(arena, out.data, out.len);
    return 0;
}
