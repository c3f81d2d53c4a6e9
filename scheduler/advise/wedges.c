/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rule of the shared wedge: what one agent did to a shared box (its memory, its disk, its processes) ended
 * agents that were fine. Who it was is what the kernel told the worker; else who wrote most of what filled the disk;
 * else who met the limit itself, where the others were only killed or lost their box; else nobody is named. What went
 * down with bulkhead itself is no wedge.
 */
#include <signal.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "base/val.h"
#include "scheduler/advise/advise_run_priv.h"
#include "topologies/editor.h"

struct wedge {
    const struct bh_run_question *q;
    const struct bh_plan_box *box;
    size_t *bad; /* rows of the box that ended by it, by time of their end */
    size_t n_bad, cap_bad;
    const char *culprit; /* name of an agent, or NULL */
};

static const struct bh_attempt_row *row_at(const struct wedge *w, size_t i)
{
    return &w->q->record->attempts[w->bad[i]];
}

static bool is_reason(const struct bh_attempt_row *row, const char *reason)
{
    return row->reason && strncmp(row->reason, reason, strlen(reason)) == 0;
}

static bool met_a_limit(const struct bh_attempt_row *row)
{
    return is_reason(row, "oom") || is_reason(row, "disk-full") || is_reason(row, "pids");
}

/* Who caused it, as the kernel tells (docs/watch.md); NULL where it does not, or where it was no wedge. */
static const char *told_culprit(const struct wedge *w, const struct bh_attempt_row *row)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    if (!row->evidence || bh_json_parse(row->evidence, strlen(row->evidence), &v, NULL) != 0 ||
        !bh_streq(bh_val_str_of(v, "kind"), "wedge"))
        return NULL;
    return bh_arena_strdup(w->q->list->arena, bh_val_str_of(v, "caused_by"));
}

/* It could not go on because of another: that alone is a wedge, also where the other went on. */
static bool is_told_victim(const struct wedge *w, const struct bh_attempt_row *row)
{
    const char *culprit = told_culprit(w, row);
    return culprit && !bh_streq(culprit, row->agent);
}

static bool is_wedged(const struct wedge *w, size_t i)
{
    const struct bh_attempt_row *row = &w->q->record->attempts[i];
    if (!bh_streq(row->box, w->box->id) || !bh_attempt_ended_badly(row) || w->q->record->spans[i].died_with_bulkhead)
        return false;
    return is_reason(row, "box-lost") || met_a_limit(row) || told_culprit(w, row);
}

/* The rows that ended while the others of the wedge were there. */
static void collect(struct wedge *w)
{
    const struct bh_run_record *r = w->q->record;
    for (size_t i = 0; i < r->n_attempts; i++) {
        bool together = is_wedged(w, i) && is_told_victim(w, &r->attempts[i]);
        for (size_t k = 0; is_wedged(w, i) && k < r->n_attempts && !together; k++)
            together = !bh_streq(r->attempts[k].agent, r->attempts[i].agent) && is_wedged(w, k) &&
                       bh_spans_overlap(&r->attempts[i], &r->attempts[k]);
        if (together)
            *BH_PUSH(w->bad, w->n_bad, w->cap_bad) = i;
    }
}

/* --- who it was --- */

static const char *told(const struct wedge *w)
{
    for (size_t i = 0; i < w->n_bad; i++) {
        if (is_told_victim(w, row_at(w, i)))
            return told_culprit(w, row_at(w, i));
    }
    for (size_t i = 0; i < w->n_bad; i++) {
        const char *culprit = told_culprit(w, row_at(w, i));
        if (culprit)
            return culprit;
    }
    return NULL;
}

struct writers { /* of the box: who had written most when somebody looked, and the next one */
    const char *first;
    int64_t most, next;
    bool unknown; /* of somebody it is not known */
};

static void weigh(const struct wedge *w, const struct bh_val *agents, struct writers *sum)
{
    for (size_t i = 0; i < bh_val_len(agents); i++) {
        const struct bh_val *v = bh_val_at(agents, i);
        const char *agent = bh_val_str_of(v, "agent");
        int64_t bytes = bh_val_int_of(v, "written_bytes");
        bool known = bh_val_type(bh_val_get(v, "written_bytes")) == BH_VAL_INT;
        sum->unknown = sum->unknown || !agent || !known;
        if (!agent || !known)
            continue;
        if (bh_streq(agent, sum->first)) {
            sum->most = bytes > sum->most ? bytes : sum->most;
        } else if (bytes > sum->most) {
            sum->next = sum->most;
            sum->most = bytes;
            sum->first = bh_arena_strdup(w->q->list->arena, agent);
        } else if (bytes > sum->next) {
            sum->next = bytes;
        }
    }
}

/* Who had written more than twice as much as anybody else; NULL where it is not known of all. */
static const char *largest_writer(const struct wedge *w)
{
    struct writers sum = {0};
    for (size_t i = 0; i < w->n_bad; i++) {
        BH_CLEANUP_VAL struct bh_val *v = NULL;
        const char *text = row_at(w, i)->evidence;
        if (text && bh_json_parse(text, strlen(text), &v, NULL) == 0 && bh_streq(bh_val_str_of(v, "kind"), "wedge") &&
            bh_streq(bh_val_str_of(v, "what"), "disk") && bh_val_len(bh_val_get(v, "agents")) > 1)
            weigh(w, bh_val_get(v, "agents"), &sum);
    }
    return !sum.unknown && sum.most / 2 > sum.next ? sum.first : NULL;
}

/* One file of it was as large as the disk may be. */
static bool wrote_to_the_limit(const struct bh_attempt_row *row)
{
    return is_reason(row, "disk-full") && (row->signal == SIGXFSZ || row->exit_code == 128 + SIGXFSZ);
}

/* It ended by itself when a write failed: who was only there when the disk was full is killed. */
static bool gave_up_at_the_limit(const struct bh_attempt_row *row)
{
    return is_reason(row, "disk-full") && row->signal != SIGKILL && row->exit_code >= 0 &&
           row->exit_code != 128 + SIGKILL;
}

/* The one agent of which this holds, or NULL. */
static const char *only_one(const struct wedge *w, bool (*holds)(const struct bh_attempt_row *row))
{
    const char *found = NULL;
    for (size_t i = 0; i < w->n_bad; i++) {
        if (!holds(row_at(w, i)) || bh_streq(row_at(w, i)->agent, found))
            continue;
        if (found)
            return NULL;
        found = row_at(w, i)->agent;
    }
    return found;
}

static void find_culprit(struct wedge *w)
{
    bool (*const signs[])(const struct bh_attempt_row *row) = {met_a_limit, wrote_to_the_limit, gave_up_at_the_limit};
    bool disk = true;
    for (size_t i = 0; i < w->n_bad; i++)
        disk = disk && (is_reason(row_at(w, i), "disk-full") || !met_a_limit(row_at(w, i)));
    w->culprit = told(w);
    if (!w->culprit && disk)
        w->culprit = largest_writer(w);
    for (size_t i = 0; i < (disk ? BH_ARRAY_LEN(signs) : 1) && !w->culprit; i++)
        w->culprit = only_one(w, signs[i]);
}

/* --- timeouts that nobody set --- */

static bool says_timeout(const struct wedge *w, const struct bh_agent *doc)
{
    const struct bh_advise_subject *s = w->q->subject;
    struct bh_editor ed;
    bh_editor_init(&ed, s->text, s->len, s->pipeline->root);
    bool said = bh_node_get(bh_editor_agent(&ed, doc->name.s), "timeout") ||
                bh_node_get(bh_node_get(s->pipeline->root, "defaults"), "timeout");
    bh_editor_fini(&ed);
    return said;
}

/* Ten times the longest that any of them took and was fine, in round numbers. */
static const char *suggestion(const struct wedge *w)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } steps[] = {{60, "1m"}, {300, "5m"}, {600, "10m"}, {1800, "30m"}};
    int64_t longest = 0;
    for (size_t i = 0; i < w->q->record->n_attempts; i++) {
        const struct bh_attempt_row *row = &w->q->record->attempts[i];
        int64_t took = row->ended.us - row->started.us;
        if (bh_streq(row->status, "succeeded") && row->started.us && took > longest)
            longest = took;
    }
    if (longest == 0)
        return "10m";
    for (size_t i = 0; i < BH_ARRAY_LEN(steps); i++) {
        if (longest * 10 <= steps[i].seconds * 1000000)
            return steps[i].text;
    }
    return NULL; /* an hour is what it has */
}

static void add_timeouts(const struct wedge *w, struct bh_advice *advice)
{
    const char *value = suggestion(w);
    for (size_t i = 0; value && i < advice->n_agents; i++) {
        const struct bh_plan_agent *agent = bh_question_agent(w->q, advice->agents[i]);
        if (!agent || says_timeout(w, agent->doc))
            continue;
        bh_advice_cite(w->q->list, advice, agent->doc->name.pos, agent->name,
                       "'%s' has no timeout of its own: it may hang for an hour", agent->name);
        bh_advice_change(w->q->list, advice, agent->doc->name.s, "timeout", value);
    }
}

/* --- the advice --- */

/* Who caused it may not have ended by it. */
static void cite_survivor(const struct wedge *w, struct bh_advice *advice)
{
    const struct bh_run_record *r = w->q->record;
    for (size_t i = 0; i < w->n_bad; i++) {
        if (!w->culprit || bh_streq(row_at(w, i)->agent, w->culprit))
            return;
    }
    for (size_t i = 0; i < r->n_attempts; i++) {
        if (!bh_streq(r->attempts[i].agent, w->culprit) || !bh_spans_overlap(&r->attempts[i], row_at(w, 0)))
            continue;
        bh_question_cite(w->q, advice, &r->attempts[i], "'%s' was at work in the box, and %s", w->culprit,
                         r->attempts[i].status);
    }
    bh_advice_name(w->q->list, advice, w->culprit);
}

static void cite(const struct wedge *w, struct bh_advice *advice)
{
    char took[BH_UNIT_TEXT];
    for (size_t i = 0; i < w->n_bad; i++) {
        const struct bh_attempt_row *row = row_at(w, i);
        bool lost = !bh_streq(row->agent, w->culprit);
        bh_format_duration((row->ended.us - row->started.us) * 1000, took);
        bh_question_cite(w->q, advice, row, "'%s' %s after %s by %s%s%s", row->agent,
                         lost && w->culprit ? "went down with it" : "ended", took, row->reason, row->detail ? ": " : "",
                         row->detail ? row->detail : "");
        bh_advice_name(w->q->list, advice, row->agent);
    }
    cite_survivor(w, advice);
}

static void report(const struct wedge *w)
{
    struct bh_advices *list = w->q->list;
    struct bh_advice *advice =
        w->culprit
            ? bh_advices_add(list, BH_ADVICE_WEDGE, BH_TOPOLOGY_PER_AGENT,
                             "'%s' took box '%s' down, and agents that were fine with it", w->culprit, w->box->id)
            : bh_advices_add(list, BH_ADVICE_WEDGE, BH_TOPOLOGY_PER_AGENT,
                             "one of several agents took box '%s' down, and the others with it; which one it "
                             "was cannot be told",
                             w->box->id);
    advice->box = bh_arena_strdup(list->arena, w->box->id);
    cite(w, advice);
    for (size_t i = 0; i < advice->n_agents; i++) {
        const struct bh_plan_agent *agent = bh_question_agent(w->q, advice->agents[i]);
        /* Where it is not known, all of them: whoever stayed might be who it was, or be left with who it was. */
        bool moves = !w->culprit || bh_streq(advice->agents[i], w->culprit);
        if (agent && moves)
            bh_advice_own_box(w->q->subject, list, advice, agent->doc);
    }
    add_timeouts(w, advice);
    advice->action = "with walls between them one agent's limits are its own, and with timeouts none waits for ever";
}

void bh_advise_wedges(const struct bh_run_question *q)
{
    for (size_t i = 0; i < q->subject->plan->n_boxes; i++) {
        struct wedge w = {.q = q, .box = bh_question_shared_box(q, q->subject->plan->boxes[i].id)};
        if (!w.box)
            continue;
        collect(&w);
        find_culprit(&w);
        if (w.n_bad > 1 || (w.n_bad == 1 && is_told_victim(&w, row_at(&w, 0))))
            report(&w);
        bh_free(w.bad);
    }
}
