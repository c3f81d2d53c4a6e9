/* SPDX-License-Identifier: Apache-2.0 */
/* Which attempt becomes the result of its agent. Pure: the same attempts give the same verdict. */
#pragma once

#include "topologies/pipeline.h"

struct bh_select_rule {
    enum bh_select kind;
    bool order_min;      /* of BEST: the least wins */
    bool stop_losers;    /* of FIRST_PASS: the first to pass wins */
    int64_t min_success; /* at least so many must pass */
};

struct bh_select_attempt {
    enum bh_select_state {
        BH_SELECT_OPEN,    /* may still pass */
        BH_SELECT_PASSED,  /* its check did, or without one its `run` */
        BH_SELECT_FAILED,  /* did not, and is not tried again */
        BH_SELECT_STOPPED, /* was stopped as a loser */
    } state;
    bool has_score;
    double score;
    uint64_t passed_as; /* PASSED: greater than those of all who passed before it */
};

enum bh_select_answer {
    BH_SELECT_WAIT,
    BH_SELECT_TAKE, /* `winner`; of ALL there is none: all who passed are taken */
    BH_SELECT_LOST, /* fewer passed than had to, or (`unscored`) none of those who passed has a score */
};
struct bh_select_verdict {
    enum bh_select_answer answer;
    size_t winner; /* index; SIZE_MAX where there is none */
    bool unscored;
    bool stop; /* those who are open need not go on */
};

/*
 * Without `stop_losers` nothing is decided before every attempt has ended, so what is chosen does not depend on who was
 * faster. first-pass takes the lowest number, best the best score and of equal ones the lower number; an attempt
 * without a score does not compete. With `stop_losers` the first who passed is taken as soon as enough have.
 */
struct bh_select_verdict bh_select_decide(const struct bh_select_rule *rule, const struct bh_select_attempt *attempts,
                                          size_t n);
