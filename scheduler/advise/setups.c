/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rule of the repeated setup: executions that each made the same environment for themselves, longer than they
 * then worked in it. Equal is what one snapshot could have served: the command, files, variables, base, network, user
 * and label. Attempts that start from a snapshot already are none of its business.
 */
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "scheduler/advise/advise_run_priv.h"

enum { CITED = 8 };
#define WORTH_IT_NS INT64_C(1000000000)

struct group {    /* executions of equal setups */
    size_t *rows; /* into the record */
    size_t n, cap;
    int64_t setup_us, longest_us, run_us;
    const struct bh_plan_agent *first;
    bool other_env; /* cells of a matrix, whose variables differ: no two of them have one snapshot */
};

/* "" where a snapshot could not serve it. */
static char *key_of(const struct bh_run_question *q, const struct bh_plan_agent *a)
{
    const struct bh_plan_box *box = &q->subject->plan->boxes[a->box];
    struct bh_buf key = BH_BUF_INIT;
    if (box->shared || a->n_setup == 0 || a->topology == BH_TOPOLOGY_PER_ATTEMPT)
        return bh_buf_take(&key);
    bh_buf_addf(&key, "%s\n%s\n%s\n%d\n", box->base, box->network, box->user, box->label);
    for (size_t i = 0; i < a->n_setup; i++)
        bh_buf_addf(&key, "%zu:%s", strlen(a->setup[i]), a->setup[i]);
    for (size_t i = 0; i < a->n_files; i++)
        bh_buf_addf(&key, "f%s=%s\n", a->files[i].name.s, a->files[i].value.s);
    for (size_t i = 0; i < a->n_env && !a->doc->matrix; i++)
        bh_buf_addf(&key, "e%s=%s\n", a->env[i].name.s, a->env[i].value.s);
    if (a->doc->matrix)
        bh_buf_adds(&key, a->doc->path);
    return bh_buf_take(&key);
}

/* How long its setup took, and its run; false where it has not ended or no setup was seen. */
static bool times_of(const struct bh_run_record *record, size_t i, int64_t *ret_setup, int64_t *ret_run)
{
    const struct bh_attempt_row *row = &record->attempts[i];
    const struct bh_execution_span *span = &record->spans[i];
    if (!row->ended.us || !span->setup.us || span->died_with_bulkhead)
        return false;
    int64_t until = span->running.us ? span->running.us : row->ended.us;
    *ret_setup = until - span->setup.us;
    *ret_run = row->ended.us - until;
    return *ret_setup > 0;
}

static bool same_env(const struct bh_plan_agent *a, const struct bh_plan_agent *b)
{
    bool same = a->n_env == b->n_env;
    for (size_t i = 0; same && i < a->n_env; i++)
        same = bh_streq(a->env[i].name.s, b->env[i].name.s) && bh_streq(a->env[i].value.s, b->env[i].value.s);
    return same;
}

static void add_row(struct group *g, const struct bh_run_record *record, const struct bh_plan_agent *a, size_t i)
{
    int64_t setup, run;
    if (!times_of(record, i, &setup, &run))
        return;
    *BH_PUSH(g->rows, g->n, g->cap) = i;
    g->first = g->first ? g->first : a;
    g->other_env = g->other_env || !same_env(g->first, a);
    g->setup_us += setup;
    g->run_us += run;
    g->longest_us = setup > g->longest_us ? setup : g->longest_us;
}

static int64_t saved_ns(const struct group *g)
{
    return (g->setup_us - g->longest_us) * 1000;
}

/* A number of executions of one agent is tries or cells of it; else they are agents that were written out. */
static struct bh_advice *report(const struct bh_run_question *q, const struct group *g)
{
    char setup[BH_UNIT_TEXT], run[BH_UNIT_TEXT];
    struct bh_advice *advice =
        bh_advices_add(q->list, BH_ADVICE_SETUP, BH_TOPOLOGY_PER_ATTEMPT,
                       "%zu executions made the same environment, each for itself: %s of setup for %s of work", g->n,
                       bh_format_duration(g->setup_us * 1000, setup), bh_format_duration(g->run_us * 1000, run));
    advice->saved_ns = saved_ns(g);
    for (size_t i = 0; i < g->n; i++) {
        const struct bh_attempt_row *row = &q->record->attempts[g->rows[i]];
        int64_t setup_us, run_us;
        bh_advice_name(q->list, advice, row->agent);
        if (i >= CITED || !times_of(q->record, g->rows[i], &setup_us, &run_us))
            continue;
        bh_question_cite(q, advice, row, "'%s', attempt %lld, try %lld: setup %s, run %s", row->agent,
                         (long long)row->attempt, (long long)row->try_, bh_format_duration(setup_us * 1000, setup),
                         bh_format_duration(run_us * 1000, run))
            ->at = q->record->spans[g->rows[i]].setup;
    }
    if (g->n > CITED)
        bh_advice_cite(q->list, advice, (struct bh_pos){0}, NULL, "and %zu more", g->n - CITED);
    return advice;
}

/* Cells with variables of their own: they can be attempts of one agent, which start from one snapshot all the same. */
static const char *each_of(const struct bh_run_question *q, const struct bh_advice *advice)
{
    struct bh_arena *arena = q->list->arena;
    const char *text = "";
    for (size_t i = 0; i < advice->n_agents; i++) {
        const struct bh_plan_agent *a = bh_question_agent(q, advice->agents[i]);
        const char *env = "";
        for (size_t k = 0; k < a->n_env; k++)
            env = bh_arena_printf(arena, "%s%s%s: \"%s\"", env, k > 0 ? ", " : "", a->env[k].name.s, a->env[k].value.s);
        text = bh_arena_printf(arena, "%s%s{%s}", text, i > 0 ? ", " : "", env);
    }
    return bh_arena_printf(arena,
                           "instead of the matrix 'attempts: {each: [%s], select: all}': they are forked from one "
                           "snapshot, and their outputs are NAME@1, NAME@2 and so on",
                           text);
}

/* With a `prepare`, whatever it does, the agent is forked from a snapshot, and equal setups make that once. */
static void change(const struct bh_run_question *q, const struct group *g, struct bh_advice *advice)
{
    if (g->other_env) {
        bh_advice_cite(q->list, advice, g->first->doc->setup.pos, NULL, "the setup of all of them");
        advice->action = each_of(q, advice);
        return;
    }
    for (size_t i = 0; i < advice->n_agents; i++) {
        const struct bh_agent *doc = bh_question_agent(q, advice->agents[i])->doc;
        struct bh_pos pos = doc->setup.pos;
        bool cited = false;
        for (size_t k = 0; k < advice->n_evidence; k++)
            cited = cited || (advice->evidence[k].pos.line == pos.line && advice->evidence[k].pos.column == pos.column);
        if (!cited)
            bh_advice_cite(q->list, advice, pos, doc->name.s, "the setup of '%s'", doc->name.s);
        bh_advice_change(q->list, advice, doc->name.s, "prepare", "'true'");
    }
    advice->action = "with a 'prepare' they are forked from one snapshot: equal setups run once, tries start at 'run'";
}

void bh_advise_setups(const struct bh_run_question *q)
{
    struct bh_map *groups = bh_map_new(NULL);
    const char *key;
    void *value;
    for (size_t i = 0; i < q->record->n_attempts; i++) {
        const struct bh_plan_agent *a = bh_question_agent(q, q->record->attempts[i].agent);
        BH_CLEANUP_FREE char *k = a ? key_of(q, a) : NULL;
        if (!k || !*k)
            continue;
        struct group *g = bh_map_get(groups, k);
        if (!g) {
            g = bh_alloc(sizeof(*g));
            bh_map_put(groups, k, g);
        }
        add_row(g, q->record, a, i);
    }
    for (size_t it = 0; bh_map_next(groups, &it, &key, &value);) {
        struct group *g = value;
        if (g->n > 1 && g->setup_us >= g->run_us && saved_ns(g) >= WORTH_IT_NS)
            change(q, g, report(q, g));
        bh_free(g->rows);
        bh_free(g);
    }
    bh_map_free(groups);
}
