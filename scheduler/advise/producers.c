/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rule of the unknown producer: an artifact of a shared box that is wrong, or was changed under its owner,
 * while others were in the box. What the worker found out about it (workers/evidence.h) is told on; where it found
 * nothing, everybody who was there is a suspect.
 */
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "scheduler/advise/advise_run_priv.h"

static struct bh_val *parse(const char *json)
{
    struct bh_val *v = NULL;
    if (!json || bh_json_parse(json, strlen(json), &v, NULL) != 0)
        return bh_val_null();
    return v;
}

/* "'b', 'c'" of a list of {"agent":…} */
static const char *names(struct bh_arena *arena, const struct bh_val *list)
{
    const char *text = "";
    for (size_t i = 0; i < bh_val_len(list); i++) {
        const char *name = bh_val_str_of(bh_val_at(list, i), "agent");
        if (name)
            text = bh_arena_printf(arena, "%s%s'%s'", text, *text ? ", " : "", name);
    }
    return text;
}

static void own_box(const struct bh_run_question *q, struct bh_advice *advice, const char *name)
{
    const struct bh_plan_agent *agent = bh_question_agent(q, name);
    if (agent && q->subject->plan->boxes[agent->box].shared)
        bh_advice_own_box(q->subject, q->list, advice, agent->doc);
}

static void cite_others(const struct bh_run_question *q, struct bh_advice *advice, const struct bh_attempt_row *row)
{
    const struct bh_run_record *r = q->record;
    for (size_t i = 0; i < r->n_attempts; i++) {
        const struct bh_attempt_row *other = &r->attempts[i];
        if (bh_streq(other->agent, row->agent) || !bh_streq(other->box, row->box) || !bh_spans_overlap(row, other))
            continue;
        bh_advice_name(q->list, advice, other->agent);
        bh_question_cite(q, advice, other, "'%s' was in the box at the same time", other->agent);
    }
}

/* The worker saw that an output was written by somebody else, or changed after its agent had ended. */
static void report_collision(const struct bh_run_question *q, const struct bh_attempt_row *row, const struct bh_val *e)
{
    struct bh_arena *arena = q->list->arena;
    bool attributed = bh_val_bool_of(e, "attributed");
    const char *artifact = bh_val_str_of(e, "artifact");
    const struct bh_val *who = bh_val_get(e, attributed ? "writers" : "alive");
    struct bh_advice *advice = bh_advices_add(
        q->list, BH_ADVICE_PRODUCER, BH_TOPOLOGY_PER_AGENT,
        attributed ? "'%s' of '%s' is not its owner's alone: another agent of box '%s' wrote to it: %s"
                   : "'%s' of '%s' is not its owner's alone: another hand in box '%s' was on it, and whose it was "
                     "cannot be told; meanwhile there was %s",
        artifact ? artifact : "an output", row->agent, row->box, names(arena, who));
    advice->box = bh_arena_strdup(arena, row->box);
    bh_advice_name(q->list, advice, row->agent);
    bh_question_cite(q, advice, row, "'%s' failed by collision: %s", row->agent, row->detail ? row->detail : "");
    for (size_t i = 0; i < bh_val_len(who); i++) {
        const char *name = bh_val_str_of(bh_val_at(who, i), "agent");
        if (name)
            bh_advice_name(q->list, advice, name);
    }
    cite_others(q, advice, row);
    own_box(q, advice, row->agent);
    advice->action = "in a box of its own nobody else can write what an agent declares";
}

static void report_invalid(const struct bh_run_question *q, const struct bh_attempt_row *row)
{
    struct bh_advice *advice =
        bh_advices_add(q->list, BH_ADVICE_PRODUCER, BH_TOPOLOGY_PER_AGENT,
                       "an output of '%s' is wrong, and others were in box '%s' while it was made: whose work it is "
                       "cannot be told",
                       row->agent, row->box);
    advice->box = bh_arena_strdup(q->list->arena, row->box);
    bh_advice_name(q->list, advice, row->agent);
    bh_question_cite(q, advice, row, "'%s' failed by %s: %s", row->agent, row->reason, row->detail ? row->detail : "");
    cite_others(q, advice, row);
    own_box(q, advice, row->agent);
    advice->action = "in a box of its own nobody else can write what an agent declares";
}

static bool had_company(const struct bh_run_question *q, const struct bh_attempt_row *row)
{
    for (size_t i = 0; i < q->record->n_attempts; i++) {
        const struct bh_attempt_row *other = &q->record->attempts[i];
        if (!bh_streq(other->agent, row->agent) && bh_streq(other->box, row->box) && bh_spans_overlap(row, other))
            return true;
    }
    return false;
}

void bh_advise_producers(const struct bh_run_question *q)
{
    const char *last = NULL; /* one piece of advice for all tries of an agent */
    for (size_t i = 0; i < q->record->n_attempts; i++) {
        const struct bh_attempt_row *row = &q->record->attempts[i];
        if (bh_streq(row->agent, last) || !bh_attempt_ended_badly(row) || !bh_question_shared_box(q, row->box))
            continue;
        BH_CLEANUP_VAL struct bh_val *evidence = parse(row->evidence);
        if (bh_streq(bh_val_str_of(evidence, "kind"), "collision"))
            report_collision(q, row, evidence);
        else if (bh_streq(row->reason, "output-invalid") && had_company(q, row))
            report_invalid(q, row);
        else
            continue;
        last = row->agent;
    }
}
