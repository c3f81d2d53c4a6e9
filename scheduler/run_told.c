/* SPDX-License-Identifier: Apache-2.0 */
/* What the front end is told as a run goes: from the run's events to the members of bh_run_watch. */
#include "scheduler/run_priv.h"

#include "base/mem.h"

/*
 * Of a node of several executions: the one that was chosen, or that is to blame, with the time that all of them took;
 * and why it failed.
 */
static char *sum_up(const struct bh_session *s, size_t node, struct bh_attempt *ret)
{
    const struct bh_engine *engine = bh_live_run_engine(s->run);
    const struct bh_attempt *blamed = NULL, *chosen = NULL;
    struct bh_wall first = {0}, last = {0};
    bool failed = bh_engine_node(engine, node)->state == BH_NODE_FAILED;
    char *detail = failed ? bh_live_run_attempts_detail(s->run, node, &blamed) : NULL;
    for (size_t i = 0; i < bh_engine_n_attempts(engine); i++) {
        const struct bh_attempt *a = bh_engine_attempt(engine, i);
        if (a->node != node)
            continue;
        first = first.us == 0 ? a->created : first;
        last = a->ended.us > last.us ? a->ended : last;
        chosen = a->selected || !chosen ? a : chosen;
    }
    chosen = blamed ? blamed : chosen;
    if (chosen)
        *ret = *chosen;
    ret->created = first;
    ret->ended = last;
    if (failed) { /* which may be no attempt's own: all of them passed, and none had a score */
        ret->reason = bh_engine_node(engine, node)->reason;
        ret->phase = bh_engine_node(engine, node)->phase;
    }
    return detail;
}

/* It never began: what it failed by stands at its gate. */
static bool told_of_gate(struct bh_session *s, size_t node)
{
    const struct bh_run_watch *watch = &s->options->watch;
    const struct bh_node *n = bh_engine_node(bh_live_run_engine(s->run), node);
    BH_CLEANUP_FREE char *detail = bh_live_run_gate_detail(s->run, node);
    struct bh_attempt none = {.node = node, .reason = n->reason, .phase = n->phase};
    if (detail && watch->node)
        watch->node(watch->arg, node, n->state, &none, detail);
    return detail != NULL;
}

void bh_session_tell_gate(void *arg, size_t gate)
{
    struct bh_session *s = arg;
    const struct bh_run_watch *watch = &s->options->watch;
    const struct bh_gate *state = bh_engine_gate(bh_live_run_engine(s->run), gate);
    if (watch->gate)
        watch->gate(watch->arg, state,
                    state->state == BH_GATE_ASKED ? bh_live_run_question(s->run, gate)
                                                  : bh_live_run_decision(s->run, gate));
}

void bh_session_tell_node(void *arg, size_t node)
{
    struct bh_session *s = arg;
    if (told_of_gate(s, node))
        return;
    const struct bh_engine *engine = bh_live_run_engine(s->run);
    const struct bh_attempt *last = NULL;
    for (size_t i = bh_engine_n_attempts(engine); i > 0 && !last; i--) {
        if (bh_engine_attempt(engine, i - 1)->node == node)
            last = bh_engine_attempt(engine, i - 1);
    }
    const struct bh_run_watch *watch = &s->options->watch;
    if (watch->node && last && bh_live_run_plan(s->run)->agents[node].forks) {
        struct bh_attempt whole = *last;
        BH_CLEANUP_FREE char *detail = sum_up(s, node, &whole);
        watch->node(watch->arg, node, bh_engine_node(engine, node)->state, &whole, detail);
        return;
    }
    if (watch->node)
        watch->node(watch->arg, node, bh_engine_node(engine, node)->state, last,
                    last ? bh_live_run_detail(s->run, last->instance) : NULL);
}

void bh_session_tell_attempt(void *arg, size_t index)
{
    struct bh_session *s = arg;
    const struct bh_attempt *attempt = bh_engine_attempt(bh_live_run_engine(s->run), index);
    const struct bh_run_watch *watch = &s->options->watch;
    bool once = attempt->kind != BH_EXECUTION_RUN; /* a setup from its start to its end, then the agent itself */
    if (watch->attempt && once && attempt->state < BH_ATTEMPT_SUCCEEDED)
        watch->attempt(watch->arg, attempt->node,
                       attempt->state > BH_ATTEMPT_LEASED ? BH_ATTEMPT_SETUP : attempt->state);
    else if (watch->attempt && !once)
        watch->attempt(watch->arg, attempt->node, attempt->state);
}
