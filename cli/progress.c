/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ways of telling the same events. The terminal block is at most TERMINAL_ROWS rows: a summary line and the agents
 * that are at work now; what has ended scrolls away above it as plain lines.
 */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"

enum { TERMINAL_ROWS = 8 };

struct agent_view {
    enum bh_node_state node;
    enum bh_attempt_state attempt;
    bool active;
    struct bh_mono since;
};

struct bh_progress {
    bool quiet, live, colour;
    char *run;
    const struct bh_plan *plan;
    struct agent_view *agents;
    size_t done, failed, skipped;
    int drawn; /* rows of the block on the screen */
    struct bh_mono began;
};

struct bh_progress *bh_progress_new(bool quiet)
{
    struct bh_progress *p = bh_alloc(sizeof(*p));
    const char *term = getenv("TERM");
    p->quiet = quiet;
    p->colour = bh_cli_colour(STDERR_FILENO);
    p->live = p->colour && !(term && bh_streq(term, "dumb"));
    p->began = bh_mono_now();
    return p;
}

void bh_progress_free(struct bh_progress *p)
{
    if (!p)
        return;
    bh_free(p->run);
    bh_free(p->agents);
    bh_free(p);
}

const char *bh_progress_run(const struct bh_progress *p)
{
    return p->run;
}

static const char *elapsed(struct bh_mono since, char buf[static BH_UNIT_TEXT])
{
    return bh_format_duration(bh_mono_now().ns - since.ns, buf);
}

static void erase(struct bh_progress *p)
{
    for (; p->drawn > 0; p->drawn--)
        fputs("\x1b[1A\x1b[2K", stderr);
}

static const char *stage_of(const struct bh_progress *p, size_t agent)
{
    int stage = p->plan->agents[agent].stage;
    return stage >= 0 ? p->plan->pipeline->stages[stage].name.s : "";
}

static void draw(struct bh_progress *p)
{
    char took[BH_UNIT_TEXT];
    int rows = 0;
    for (size_t i = 0; i < p->plan->n_agents && rows < TERMINAL_ROWS; i++) {
        if (!p->agents[i].active)
            continue;
        fprintf(stderr, "  %-24s %-12s %-10s %s\n", p->plan->agents[i].name, stage_of(p, i),
                bh_attempt_state_text(p->agents[i].attempt), elapsed(p->agents[i].since, took));
        rows++;
    }
    fprintf(stderr, "  %zu of %zu agents done%s, %s\n", p->done, p->plan->n_agents, p->failed ? ", some failed" : "",
            elapsed(p->began, took));
    p->drawn = rows + 1;
}

/* Only ticks and ends draw: a run of thousands of agents must not spend itself on its picture. */
static void redraw(struct bh_progress *p)
{
    if (!p->live || p->quiet)
        return;
    erase(p);
    draw(p);
    fflush(stderr);
}

static void on_started(void *arg, const char *run, const struct bh_plan *plan)
{
    struct bh_progress *p = arg;
    p->run = bh_strdup(run);
    p->plan = plan;
    p->agents = bh_calloc(plan->n_agents, sizeof(*p->agents));
    if (!p->quiet)
        fprintf(stderr, "run %s: %s, %zu agent%s in %zu box%s\n", run, plan->pipeline->name.s, plan->n_agents,
                plan->n_agents == 1 ? "" : "s", plan->n_boxes, plan->n_boxes == 1 ? "" : "es");
}

static void count(struct bh_progress *p, enum bh_node_state from, enum bh_node_state to)
{
    p->done += (to == BH_NODE_DONE) - (from == BH_NODE_DONE);
    p->failed += (to == BH_NODE_FAILED) - (from == BH_NODE_FAILED);
    p->skipped += (to == BH_NODE_SKIPPED) - (from == BH_NODE_SKIPPED);
}

static void say_end(struct bh_progress *p, size_t agent, enum bh_node_state state, const struct bh_attempt *attempt,
                    const char *detail)
{
    char took[BH_UNIT_TEXT] = "";
    BH_CLEANUP_BUF struct bh_buf line = BH_BUF_INIT;
    if (p->live)
        erase(p);
    bool good = state == BH_NODE_DONE;
    const char *colour = !p->colour ? "" : good ? "\x1b[32m" : state == BH_NODE_FAILED ? "\x1b[31m" : "\x1b[33m";
    bh_buf_addf(&line, "%s%-9s%s %s", colour, bh_node_state_text(state), p->colour ? "\x1b[0m" : "",
                p->plan->agents[agent].name);
    if (attempt && attempt->ended.us > attempt->created.us && attempt->created.us)
        bh_buf_addf(&line, "  %s", bh_format_duration((attempt->ended.us - attempt->created.us) * 1000, took));
    if (state == BH_NODE_FAILED && attempt && attempt->reason != BH_REASON_NONE)
        bh_buf_addf(&line, "  %s", bh_reason_text(attempt->reason, attempt->phase));
    if (!good && detail) {
        bh_buf_adds(&line, ": ");
        bh_escape_terminal(&line, detail, strlen(detail));
    }
    fprintf(stderr, "%s\n", line.data);
}

static void on_node(void *arg, size_t agent, enum bh_node_state state, const struct bh_attempt *attempt,
                    const char *detail)
{
    struct bh_progress *p = arg;
    struct agent_view *view = &p->agents[agent];
    bool over =
        state == BH_NODE_DONE || state == BH_NODE_FAILED || state == BH_NODE_SKIPPED || state == BH_NODE_CANCELLED;
    if (over && state != view->node && !p->quiet)
        say_end(p, agent, state, attempt, detail);
    count(p, view->node, state);
    view->node = state;
    if (over)
        view->active = false;
}

static void on_attempt(void *arg, size_t agent, enum bh_attempt_state state)
{
    struct bh_progress *p = arg;
    struct agent_view *view = &p->agents[agent];
    bool was = view->active;
    view->active = state > BH_ATTEMPT_QUEUED && state < BH_ATTEMPT_SUCCEEDED;
    view->attempt = state;
    if (view->active && !was)
        view->since = bh_mono_now();
    if (!p->live && !p->quiet && state == BH_ATTEMPT_RUNNING) {
        const char *stage = stage_of(p, agent);
        fprintf(stderr, "running   %s%s%s%s\n", p->plan->agents[agent].name, *stage ? " [" : "", stage,
                *stage ? "]" : "");
    }
}

static void on_tick(void *arg)
{
    redraw(arg);
}

static void on_ended(void *arg, enum bh_run_status status)
{
    struct bh_progress *p = arg;
    char took[BH_UNIT_TEXT];
    if (p->quiet)
        return;
    if (p->live)
        erase(p);
    fprintf(stderr, "%s: %zu done", bh_run_status_text(status), p->done);
    if (p->failed)
        fprintf(stderr, ", %zu failed", p->failed);
    if (p->skipped)
        fprintf(stderr, ", %zu skipped", p->skipped);
    fprintf(stderr, ", %s\n", elapsed(p->began, took));
}

struct bh_run_watch bh_progress_watch(struct bh_progress *p)
{
    return (struct bh_run_watch){.arg = p,
                                 .started = on_started,
                                 .node = on_node,
                                 .attempt = on_attempt,
                                 .tick = p->live && !p->quiet ? on_tick : NULL,
                                 .ended = on_ended};
}
