/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the comparison of variables, and a `run` that sets them itself. */
#include "scheduler/advise/setup_env.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/editor.h"

static const char *value_of(const struct bh_plan_agent *a, const char *name)
{
    for (size_t i = 0; i < a->n_env; i++) {
        if (bh_streq(a->env[i].name.s, name))
            return a->env[i].value.s;
    }
    return NULL;
}

static bool same_env(const struct bh_plan_agent *a, const struct bh_plan_agent *b)
{
    bool same = a->n_env == b->n_env;
    for (size_t i = 0; same && i < a->n_env; i++)
        same = bh_streq(a->env[i].value.s, value_of(b, a->env[i].name.s));
    return same;
}

static bool same_files(const struct bh_plan_agent *a, const struct bh_plan_agent *b)
{
    bool same = a->n_files == b->n_files;
    for (size_t i = 0; same && i < a->n_files; i++)
        same = bh_streq(a->files[i].name.s, b->files[i].name.s) && bh_streq(a->files[i].value.s, b->files[i].value.s);
    return same;
}

bool bh_setup_env_differs(const struct bh_run_question *q, const size_t *rows, size_t n)
{
    const struct bh_plan_agent *first = bh_question_agent(q, q->record->attempts[rows[0]].agent);
    bool differs = false;
    for (size_t i = 1; i < n; i++) {
        const struct bh_plan_agent *a = bh_question_agent(q, q->record->attempts[rows[i]].agent);
        if (!same_files(first, a))
            return false;
        differs = differs || !same_env(first, a);
    }
    return differs;
}

/* --- the change --- */

static bool is_own(const struct bh_run_question *q, const struct bh_advice *advice, const char *name)
{
    const struct bh_plan_agent *first = bh_question_agent(q, advice->agents[0]);
    for (size_t i = 1; i < advice->n_agents; i++) {
        if (!bh_streq(value_of(first, name), value_of(bh_question_agent(q, advice->agents[i]), name)))
            return true;
    }
    return false;
}

/* 'it'\''s' */
static void add_quoted(struct bh_buf *out, const char *value)
{
    bh_buf_addc(out, '\'');
    for (; *value; value++)
        bh_buf_adds(out, *value == '\'' ? "'\\''" : (char[]){*value, '\0'});
    bh_buf_addc(out, '\'');
}

/* A line of a shell, with variables that its own entry of `env` has and that the setup does not name. */
static bool can_move(const struct bh_run_question *q, const struct bh_advice *advice, const struct bh_plan_agent *a)
{
    const struct bh_agent *doc = a->doc;
    struct bh_editor ed;
    if (doc->matrix || doc->run.is_list || !doc->run.set || bh_agent_numbered(doc))
        return false;
    bh_editor_init(&ed, q->subject->text, q->subject->len, q->subject->pipeline->root);
    const struct bh_node *env = bh_node_get(bh_editor_agent(&ed, doc->name.s), "env");
    bool good = true;
    for (size_t i = 0; i < a->n_env && good; i++) {
        const char *name = a->env[i].name.s;
        if (!is_own(q, advice, name))
            continue;
        good = bh_node_get(env, name) && !strstr(a->env[i].value.s, "{{");
        for (size_t k = 0; k < a->n_setup; k++)
            good = good && !strstr(a->setup[k], name);
    }
    bh_editor_fini(&ed);
    return good;
}

static void move(const struct bh_run_question *q, struct bh_advice *advice, const struct bh_plan_agent *a)
{
    BH_CLEANUP_BUF struct bh_buf run = BH_BUF_INIT;
    size_t moved = 0;
    for (size_t i = 0; i < a->n_env; i++) {
        if (!is_own(q, advice, a->env[i].name.s))
            continue;
        bh_buf_addf(&run, "%s%s=", moved++ > 0 ? " " : "export ", a->env[i].name.s);
        add_quoted(&run, a->env[i].value.s);
    }
    if (moved == 0)
        return;
    bh_buf_addf(&run, "; %s", a->doc->run.args.items[0].s);
    BH_CLEANUP_FREE char *text = bh_editor_quote(run.data);
    bh_advice_change(q->list, advice, a->doc->name.s, "run", text);
    if (moved == a->n_env)
        bh_advice_change(q->list, advice, a->doc->name.s, "env", NULL);
    for (size_t i = 0; i < a->n_env && moved < a->n_env; i++) {
        if (is_own(q, advice, a->env[i].name.s))
            bh_advice_change_inner(q->list, advice, a->doc->name.s, "env", a->env[i].name.s);
    }
}

/* [{K: "1"}, {K: "2"}] */
static const char *each_of(const struct bh_run_question *q, const struct bh_advice *advice)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < advice->n_agents; i++) {
        const struct bh_plan_agent *a = bh_question_agent(q, advice->agents[i]);
        size_t n = 0;
        bh_buf_adds(&text, i > 0 ? ", {" : "[{");
        for (size_t k = 0; k < a->n_env; k++) {
            BH_CLEANUP_FREE char *value = bh_editor_quote(a->env[k].value.s);
            if (is_own(q, advice, a->env[k].name.s))
                bh_buf_addf(&text, "%s%s: %s", n++ > 0 ? ", " : "", a->env[k].name.s, value);
        }
        bh_buf_addc(&text, '}');
    }
    bh_buf_addc(&text, ']');
    return bh_arena_strdup(q->list->arena, text.data);
}

void bh_setup_env_change(const struct bh_run_question *q, struct bh_advice *advice)
{
    bool good = true;
    for (size_t i = 0; i < advice->n_agents; i++)
        good = good && can_move(q, advice, bh_question_agent(q, advice->agents[i]));
    if (!good) {
        advice->action = bh_arena_printf(q->list->arena,
                                         "they can be attempts of one agent, forked from one snapshot: 'attempts: "
                                         "{each: %s, select: all}'; their outputs are NAME@1, NAME@2 and so on",
                                         each_of(q, advice));
        return;
    }
    for (size_t i = 0; i < advice->n_agents; i++)
        move(q, advice, bh_question_agent(q, advice->agents[i]));
    advice->action =
        "variables that the setup does not need are part of the environment that is made all the same; set "
        "by 'run' they are not, and one snapshot serves all";
}
