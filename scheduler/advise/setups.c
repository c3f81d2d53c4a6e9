/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rule of the repeated setup: an environment that was made over and over, longer than anybody then worked in
 * it. In boxes of their own, agents with equal setups start from one snapshot already: what is left are setups that
 * differ by nothing but variables, and setups that agents of a shared box, who have nothing to do with each other, make
 * one after the other in the live box.
 */
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "scheduler/advise/advise_run_priv.h"
#include "scheduler/advise/setup_env.h"

enum { CITED = 8 };
#define WORTH_IT_NS INT64_C(1000000000)

struct group {    /* executions of one setup */
    size_t *rows; /* those that made it, into the record */
    size_t n, cap;
    int64_t setup_us, longest_us, run_us;
    const struct bh_plan_box *box; /* that they share, or NULL */
};

/* "" where it has no setup. */
static char *key_of(const struct bh_run_question *q, const struct bh_plan_agent *a)
{
    const struct bh_plan_box *box = &q->subject->plan->boxes[a->box];
    struct bh_buf key = BH_BUF_INIT;
    if (a->n_setup == 0)
        return bh_buf_take(&key);
    bh_buf_addf(&key, "%s\n%s\n%s\n%s\n%d\n", box->shared ? box->id : "", box->base, box->network, box->user,
                box->label);
    for (size_t i = 0; i < a->n_setup; i++)
        bh_buf_addf(&key, "%zu:%s", strlen(a->setup[i]), a->setup[i]);
    return bh_buf_take(&key);
}

/* How long it made its environment (0: it did not, or was not seen to), and how long it worked. */
static void times_of(const struct bh_run_record *record, size_t i, int64_t *ret_setup, int64_t *ret_run)
{
    const struct bh_attempt_row *row = &record->attempts[i];
    const struct bh_execution_span *span = &record->spans[i];
    bool made = bh_streq(row->status, "succeeded") || (span->running.us && !row->kind);
    *ret_setup = *ret_run = 0;
    if (!row->ended.us || !row->started.us || bh_streq(row->kind, "prepare") || row->snapshot_reused ||
        span->died_with_bulkhead)
        return;
    int64_t until = span->running.us ? span->running.us : span->setup.us ? row->ended.us : row->started.us;
    if (span->setup.us && made)
        *ret_setup = until - span->setup.us;
    if (!row->kind)
        *ret_run = row->ended.us - until;
}

static void add_row(struct group *g, const struct bh_run_record *record, size_t i)
{
    int64_t setup, run;
    times_of(record, i, &setup, &run);
    g->run_us += run;
    if (setup <= 0)
        return;
    *BH_PUSH(g->rows, g->n, g->cap) = i;
    g->setup_us += setup;
    g->longest_us = setup > g->longest_us ? setup : g->longest_us;
}

static int64_t saved_ns(const struct group *g)
{
    return (g->setup_us - g->longest_us) * 1000;
}

static bool is_member(const struct bh_run_question *q, const struct group *g, const char *name)
{
    for (size_t i = 0; i < g->n; i++) {
        if (bh_streq(q->record->attempts[g->rows[i]].agent, name))
            return true;
    }
    return false;
}

/* Agents that wait for each other work together: for them the box itself should have the setup. */
static bool are_strangers(const struct bh_run_question *q, const struct group *g)
{
    for (size_t i = 0; i < g->n; i++) {
        const struct bh_plan_agent *a = bh_question_agent(q, q->record->attempts[g->rows[i]].agent);
        for (size_t k = 0; k < a->n_after; k++) {
            if (is_member(q, g, q->subject->plan->agents[a->after[k].agent].name))
                return false;
        }
    }
    return true;
}

static struct bh_advice *report(const struct bh_run_question *q, const struct group *g)
{
    char setup[BH_UNIT_TEXT], run[BH_UNIT_TEXT];
    struct bh_advice *advice =
        bh_advices_add(q->list, BH_ADVICE_SETUP, BH_TOPOLOGY_PER_ATTEMPT,
                       "one environment was made %zu times: %s of setup for %s of work", g->n,
                       bh_format_duration(g->setup_us * 1000, setup), bh_format_duration(g->run_us * 1000, run));
    advice->saved_ns = saved_ns(g);
    advice->box = g->box ? bh_arena_strdup(q->list->arena, g->box->id) : NULL;
    for (size_t i = 0; i < g->n; i++) {
        const struct bh_attempt_row *row = &q->record->attempts[g->rows[i]];
        int64_t setup_us, run_us;
        times_of(q->record, g->rows[i], &setup_us, &run_us);
        bh_advice_name(q->list, advice, row->agent);
        if (i < CITED)
            bh_question_cite(q, advice, row, "the setup of '%s' took %s", row->agent,
                             bh_format_duration(setup_us * 1000, setup))
                ->at = q->record->spans[g->rows[i]].setup;
    }
    if (g->n > CITED)
        bh_advice_cite(q->list, advice, (struct bh_pos){0}, NULL, "and %zu more", g->n - CITED);
    return advice;
}

static void cite_setup(const struct bh_run_question *q, struct bh_advice *advice, const struct bh_agent *doc)
{
    for (size_t i = 0; i < advice->n_evidence; i++) {
        if (advice->evidence[i].pos.line == doc->setup.pos.line &&
            advice->evidence[i].pos.column == doc->setup.pos.column)
            return;
    }
    bh_advice_cite(q->list, advice, doc->setup.pos, doc->name.s, "the setup of '%s'", doc->name.s);
}

static void change(const struct bh_run_question *q, const struct group *g, struct bh_advice *advice)
{
    for (size_t i = 0; i < advice->n_agents; i++) {
        const struct bh_agent *doc = bh_question_agent(q, advice->agents[i])->doc;
        if (i < CITED)
            cite_setup(q, advice, doc);
        if (g->box)
            bh_advice_own_box(q->subject, q->list, advice, doc);
    }
    if (g->box)
        advice->action = "in boxes of their own they are forked from one snapshot, which is made once";
    else
        bh_setup_env_change(q, advice);
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
            const struct bh_plan_box *box = &q->subject->plan->boxes[a->box];
            g = bh_alloc(sizeof(*g));
            g->box = box->shared ? box : NULL;
            bh_map_put(groups, k, g);
        }
        add_row(g, q->record, i);
    }
    for (size_t it = 0; bh_map_next(groups, &it, &key, &value);) {
        struct group *g = value;
        bool over_and_over = g->n > 1 && g->setup_us >= g->run_us && saved_ns(g) >= WORTH_IT_NS;
        if (over_and_over && are_strangers(q, g) && (g->box || bh_setup_env_differs(q, g->rows, g->n)))
            change(q, g, report(q, g));
        bh_free(g->rows);
        bh_free(g);
    }
    bh_map_free(groups);
}
