/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice among attempts. Sees numbers and verdicts, never content; knows nothing of nodes, boxes or time.
 */
#include "policies/select.h"

struct count {
    size_t open, passed;
};

static struct count count(const struct bh_select_attempt *attempts, size_t n)
{
    struct count c = {0};
    for (size_t i = 0; i < n; i++) {
        c.open += attempts[i].state == BH_SELECT_OPEN;
        c.passed += attempts[i].state == BH_SELECT_PASSED;
    }
    return c;
}

static bool enough(const struct bh_select_rule *rule, size_t passed)
{
    return passed > 0 && (int64_t)passed >= rule->min_success;
}

/* Whether `a` comes before `b`, which stands before it in number. */
static bool beats(const struct bh_select_rule *rule, const struct bh_select_attempt *a,
                  const struct bh_select_attempt *b)
{
    if (rule->kind == BH_SELECT_BEST)
        return rule->order_min ? a->score < b->score : a->score > b->score;
    return rule->stop_losers && a->passed_as < b->passed_as;
}

static size_t winner_of(const struct bh_select_rule *rule, const struct bh_select_attempt *attempts, size_t n)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        bool competes =
            attempts[i].state == BH_SELECT_PASSED && (rule->kind != BH_SELECT_BEST || attempts[i].has_score);
        if (competes && (best == SIZE_MAX || beats(rule, &attempts[i], &attempts[best])))
            best = i;
    }
    return best;
}

struct bh_select_verdict bh_select_decide(const struct bh_select_rule *rule, const struct bh_select_attempt *attempts,
                                          size_t n)
{
    struct bh_select_verdict v = {.winner = SIZE_MAX};
    struct count c = count(attempts, n);
    bool hopeless = !enough(rule, c.passed + c.open);
    bool early = rule->stop_losers && (enough(rule, c.passed) || hopeless);
    if (c.open > 0 && !early)
        return v;
    v.stop = c.open > 0;
    v.answer = enough(rule, c.passed) ? BH_SELECT_TAKE : BH_SELECT_LOST;
    if (v.answer == BH_SELECT_TAKE && rule->kind != BH_SELECT_ALL) {
        v.winner = winner_of(rule, attempts, n);
        v.unscored = v.winner == SIZE_MAX;
        v.answer = v.unscored ? BH_SELECT_LOST : BH_SELECT_TAKE;
    }
    return v;
}
