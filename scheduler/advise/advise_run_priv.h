/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that read a run: for scheduler/advise alone. */
#pragma once

#include "scheduler/advise/run_record.h"
#include "topologies/advise.h"

struct bh_home;
struct bh_map;

struct bh_run_question {
    const struct bh_home *home; /* NULL: nothing on the disk is looked at */
    const struct bh_run_record *record;
    const struct bh_advise_subject *subject;
    struct bh_advices *list;
    struct bh_map *agents; /* name → struct bh_plan_agent */
};

/* The same setup over and over. */
void bh_advise_setups(const struct bh_run_question *q);
/* One agent took others of its box down. */
void bh_advise_wedges(const struct bh_run_question *q);
/* A wrong artifact of a shared box. */
void bh_advise_producers(const struct bh_run_question *q);
/* Package directories of shared boxes that changed under an agent, or are not what it asked for. */
void bh_advise_packages(const struct bh_run_question *q);

/* The agent of the plan; NULL where it has none of that name. */
const struct bh_plan_agent *bh_question_agent(const struct bh_run_question *q, const char *name);
/* The box that several agents share; NULL where it is one agent's. */
const struct bh_plan_box *bh_question_shared_box(const struct bh_run_question *q, const char *id);
/* Cites an execution: its time is that of its end where it ended badly, else of its start. */
struct bh_evidence *bh_question_cite(const struct bh_run_question *q, struct bh_advice *advice,
                                     const struct bh_attempt_row *row, const char *fmt, ...) BH_PRINTF(4, 5);
