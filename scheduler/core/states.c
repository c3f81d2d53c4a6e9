/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of states and events, and which moves the tables allow. Nothing but tables and searches in them; the moves
 * themselves are made in engine*.c.
 */
#include "base/text.h"
#include "scheduler/core/engine_priv.h"

static const char *const run_texts[] = {
#define BH_RUN_STATE(name, text) text,
#include "scheduler/core/states.def"
};
static const char *const node_texts[] = {
#define BH_NODE_STATE(name, text) text,
#include "scheduler/core/states.def"
};
static const char *const attempt_texts[] = {
#define BH_ATTEMPT_STATE(name, text) text,
#include "scheduler/core/states.def"
};
static const char *const event_texts[] = {
#define BH_EVENT(name, text, handler, statuses) text,
#include "scheduler/core/events.def"
#undef BH_EVENT
};

static const char *text_of(const char *const *texts, size_t n, size_t value)
{
    return value < n ? texts[value] : "";
}

static int parse(const char *const *texts, size_t n, const char *text)
{
    for (size_t i = 0; text && i < n; i++) {
        if (bh_streq(texts[i], text))
            return (int)i;
    }
    return -1;
}

const char *bh_run_status_text(enum bh_run_status s)
{
    return text_of(run_texts, BH_ARRAY_LEN(run_texts), (size_t)s);
}

const char *bh_node_state_text(enum bh_node_state s)
{
    return text_of(node_texts, BH_ARRAY_LEN(node_texts), (size_t)s);
}

const char *bh_attempt_state_text(enum bh_attempt_state s)
{
    return text_of(attempt_texts, BH_ARRAY_LEN(attempt_texts), (size_t)s);
}

const char *bh_event_kind_text(enum bh_event_kind k)
{
    return text_of(event_texts, BH_ARRAY_LEN(event_texts), (size_t)k);
}

int bh_attempt_state_parse(const char *text)
{
    return parse(attempt_texts, BH_ARRAY_LEN(attempt_texts), text);
}

int bh_event_kind_parse(const char *text)
{
    return parse(event_texts, BH_ARRAY_LEN(event_texts), text);
}

static const bool run_moves[BH_ARRAY_LEN(run_texts)][BH_ARRAY_LEN(run_texts)] = {
#define BH_RUN_MOVE(from, to, function) [BH_RUN_##from][BH_RUN_##to] = true,
#include "scheduler/core/states.def"
};
static const bool node_moves[BH_ARRAY_LEN(node_texts)][BH_ARRAY_LEN(node_texts)] = {
#define BH_NODE_MOVE(from, to, function) [BH_NODE_##from][BH_NODE_##to] = true,
#include "scheduler/core/states.def"
};
static const bool attempt_moves[BH_ARRAY_LEN(attempt_texts)][BH_ARRAY_LEN(attempt_texts)] = {
#define BH_ATTEMPT_MOVE(from, to, function) [BH_ATTEMPT_##from][BH_ATTEMPT_##to] = true,
#include "scheduler/core/states.def"
};

static const bool box_moves[BH_BOX_FREEZING + 1][BH_BOX_FREEZING + 1] = {
#define BH_BOX_MOVE(from, to, function) [BH_BOX_##from][BH_BOX_##to] = true,
#include "scheduler/core/states.def"
};

bool bh_run_may_move(enum bh_run_status from, enum bh_run_status to)
{
    return (size_t)from < BH_ARRAY_LEN(run_texts) && (size_t)to < BH_ARRAY_LEN(run_texts) && run_moves[from][to];
}

bool bh_node_may_move(enum bh_node_state from, enum bh_node_state to)
{
    return (size_t)from < BH_ARRAY_LEN(node_texts) && (size_t)to < BH_ARRAY_LEN(node_texts) && node_moves[from][to];
}

bool bh_attempt_may_move(enum bh_attempt_state from, enum bh_attempt_state to)
{
    return (size_t)from < BH_ARRAY_LEN(attempt_texts) && (size_t)to < BH_ARRAY_LEN(attempt_texts) &&
           attempt_moves[from][to];
}

bool bh_box_may_move(enum bh_box_mode from, enum bh_box_mode to)
{
    return (size_t)from <= BH_BOX_FREEZING && (size_t)to <= BH_BOX_FREEZING && box_moves[from][to];
}
