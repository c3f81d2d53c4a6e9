/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the order in which the rules of a run are asked, and what they share. */
#include "scheduler/advise/advise_run.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "scheduler/advise/advise_run_priv.h"

const struct bh_plan_agent *bh_question_agent(const struct bh_run_question *q, const char *name)
{
    return bh_map_get(q->agents, name);
}

static struct bh_map *index_agents(const struct bh_plan *plan)
{
    struct bh_map *map = bh_map_new(NULL);
    for (size_t i = 0; plan && i < plan->n_agents; i++)
        bh_map_put(map, plan->agents[i].name, &plan->agents[i]);
    return map;
}

const struct bh_plan_box *bh_question_shared_box(const struct bh_run_question *q, const char *id)
{
    const struct bh_plan *plan = q->subject->plan;
    for (size_t i = 0; plan && i < plan->n_boxes; i++) {
        if (bh_streq(plan->boxes[i].id, id))
            return plan->boxes[i].shared && plan->boxes[i].n_agents > 1 ? &plan->boxes[i] : NULL;
    }
    return NULL;
}

struct bh_evidence *bh_question_cite(const struct bh_run_question *q, struct bh_advice *advice,
                                     const struct bh_attempt_row *row, const char *fmt, ...)
{
    va_list ap;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    va_start(ap, fmt);
    bh_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    struct bh_evidence *e = bh_advice_cite(q->list, advice, (struct bh_pos){0}, row->agent, "%s", text.data);
    e->instance = bh_arena_strdup(q->list->arena, row->instance);
    e->at = bh_attempt_ended_badly(row) && row->ended.us ? row->ended : row->started;
    return e;
}

int bh_advise_run(const struct bh_home *home, struct bh_store *store, const struct bh_run_row *run,
                  const struct bh_advise_subject *subject, struct bh_advices *list, struct bh_err **err)
{
    struct bh_run_record record;
    int rc = bh_run_record_read(store, run, &record, err);
    struct bh_run_question q = {
        .home = home, .record = &record, .subject = subject, .list = list, .agents = index_agents(subject->plan)};
    list->no_concession = rc != 0 || !bh_streq(run->status, "succeeded");
    for (size_t i = 0; rc == 0 && i < record.n_attempts; i++)
        list->no_concession = list->no_concession || bh_attempt_ended_badly(&record.attempts[i]);
    if (rc == 0 && subject->plan) {
        bh_advise_packages(&q);
        bh_advise_wedges(&q);
        bh_advise_producers(&q);
        bh_advise_setups(&q);
    }
    bh_map_free(q.agents);
    bh_run_record_fini(&record);
    return rc;
}
