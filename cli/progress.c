/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ways of telling the same events. The terminal block holds at most TERMINAL_ROWS agents that are at work now and a
 * summary line, never more than the window, no row wider than it (a row that wraps would be left behind by the next
 * redraw); what has ended scrolls away above it as plain lines.
 */
#include "cli/progress.h"

#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "base/val.h"
#include "cli/common.h"
#include "cli/gate_facts.h"
#include "scheduler/run_limits.h"

enum { US_PER_S = 1000000, TERMINAL_ROWS = 8, DEFAULT_COLUMNS = 80, DEFAULT_LINES = 24 };

struct agent_view {
    enum bh_node_state node;
    enum bh_attempt_state attempt;
    bool active, said; /* said: its start has a line of its own */
    bool prepared;     /* the same of what comes before its attempts */
    struct bh_mono since;
    char *failed; /* quiet: the line that was not said, of one that failed */
};

struct bh_progress {
    bool quiet, live, colour;
    char *run;
    const struct bh_plan *plan;
    const struct bh_engine *engine;
    struct agent_view *agents;
    size_t counts[BH_NODE_CANCELLED + 1]; /* of agents, by state */
    bool cancelling;
    size_t n_agents, unfinished;
    int drawn; /* rows of the block on the screen */
    struct bh_mono began;
};

struct bh_progress *bh_progress_new(bool quiet)
{
    struct bh_progress *p = bh_alloc(sizeof(*p));
    p->quiet = quiet;
    p->colour = bh_cli_colour(STDERR_FILENO);
    p->live = p->colour;
    p->began = bh_mono_now();
    return p;
}

void bh_progress_free(struct bh_progress *p)
{
    if (!p)
        return;
    bh_free(p->run);
    for (size_t i = 0; i < p->n_agents; i++)
        bh_free(p->agents[i].failed);
    bh_free(p->agents);
    bh_free(p);
}

const char *bh_progress_run(const struct bh_progress *p)
{
    return p->run;
}

size_t bh_progress_agents(const struct bh_progress *p)
{
    return p->n_agents;
}

size_t bh_progress_unfinished(const struct bh_progress *p)
{
    return p->unfinished;
}

static const char *elapsed(struct bh_mono since, char buf[static BH_UNIT_TEXT])
{
    return bh_format_duration(bh_mono_now().ns - since.ns, buf);
}

static void erase(struct bh_progress *p)
{
    if (p->drawn > 0)
        fprintf(stderr, "\r\x1b[%dA\x1b[J", p->drawn);
    p->drawn = 0;
}

static const char *stage_of(const struct bh_progress *p, size_t agent)
{
    int stage = p->plan->agents[agent].stage;
    return stage >= 0 ? p->plan->pipeline->stages[stage].name.s : "";
}

struct window {
    int columns, lines;
};

static struct window window_of(int fd)
{
    struct winsize size;
    struct window w = {DEFAULT_COLUMNS, DEFAULT_LINES};
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
        w = (struct window){size.ws_col, size.ws_row};
    return w;
}

/* The row's first `columns` - 1 characters: the last column is left free, some terminals wrap there. */
static void draw_row(struct bh_progress *p, const char *text, int columns)
{
    size_t len = 0;
    for (int n = 0; text[len]; len++) {
        bool begins = ((unsigned char)text[len] & 0xc0) != 0x80;
        if (begins && ++n >= columns)
            break;
    }
    fprintf(stderr, "%.*s\n", (int)len, text);
    p->drawn++;
}

static void draw_agent(struct bh_progress *p, size_t i, int columns)
{
    char took[BH_UNIT_TEXT];
    BH_CLEANUP_FREE char *row =
        bh_asprintf("  %-24s %-12s %-10s %s", p->plan->agents[i].name, stage_of(p, i),
                    bh_attempt_state_text(p->agents[i].attempt), elapsed(p->agents[i].since, took));
    draw_row(p, row, columns);
}

static void draw_summary(struct bh_progress *p, int columns)
{
    char took[BH_UNIT_TEXT];
    BH_CLEANUP_FREE char *row =
        bh_asprintf("  %s%zu of %zu agents done%s, %s", p->cancelling ? "cancelling, " : "", p->counts[BH_NODE_DONE],
                    p->plan->n_agents, p->counts[BH_NODE_FAILED] ? ", some failed" : "", elapsed(p->began, took));
    draw_row(p, row, columns);
}

static void draw(struct bh_progress *p)
{
    struct window w = window_of(STDERR_FILENO);
    size_t active = 0, shown = 0, room = TERMINAL_ROWS;
    for (size_t i = 0; i < p->plan->n_agents; i++)
        active += p->agents[i].active;
    if (w.lines < TERMINAL_ROWS + 3) /* beside the summary, the "more" row and the line of the cursor */
        room = w.lines > 3 ? (size_t)w.lines - 3 : 0;
    for (size_t i = 0; i < p->plan->n_agents && shown < room; i++) {
        if (p->agents[i].active) {
            draw_agent(p, i, w.columns);
            shown++;
        }
    }
    BH_CLEANUP_FREE char *more = bh_asprintf("  \u2026 and %zu more", active - shown);
    if (active > shown && w.lines > 2)
        draw_row(p, more, w.columns);
    draw_summary(p, w.columns);
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

static void on_limits(void *arg, const char *watched)
{
    struct bh_progress *p = arg;
    BH_CLEANUP_FREE char *list = bh_run_limits_list(watched);
    if (!p->quiet && list)
        fprintf(stderr, "warning: not enforced on this host, with the site's leave (limits: best-effort): %s\n", list);
}

static void on_importing(void *arg, const char *base)
{
    const struct bh_progress *p = arg;
    if (p->quiet || !p->live)
        return;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_escape_terminal(&text, base, strlen(base));
    fprintf(stderr, "unpacking %s\n", text.data);
}

static void on_started(void *arg, const char *run, const struct bh_plan *plan, const struct bh_engine *engine)
{
    struct bh_progress *p = arg;
    p->run = bh_strdup(run);
    p->plan = plan;
    p->n_agents = plan->n_agents;
    p->engine = engine;
    p->agents = bh_calloc(plan->n_agents, sizeof(*p->agents));
    for (size_t i = 0; i < plan->n_agents; i++) { /* what a resumed run had reached before counts */
        p->agents[i].node = bh_engine_node(engine, i)->state;
        p->counts[p->agents[i].node]++;
    }
    size_t before = p->counts[BH_NODE_DONE];
    if (p->quiet)
        return;
    fprintf(stderr, "run %s: %s, %zu agent%s in %zu box%s", run, plan->pipeline->name.s, plan->n_agents,
            plan->n_agents == 1 ? "" : "s", plan->n_boxes, plan->n_boxes == 1 ? "" : "es");
    if (before > 0)
        fprintf(stderr, ", %zu done before", before);
    fputc('\n', stderr);
}

static char *end_line(const struct bh_progress *p, size_t agent, enum bh_node_state state,
                      const struct bh_attempt *attempt, const char *detail)
{
    char took[BH_UNIT_TEXT] = "";
    BH_CLEANUP_BUF struct bh_buf line = BH_BUF_INIT;
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
    return bh_buf_take(&line);
}

/* Quiet, only a failure is worth a line, and only when it is known whether the run bears it. */
static void say_end(struct bh_progress *p, size_t agent, enum bh_node_state state, const struct bh_attempt *attempt,
                    const char *detail)
{
    BH_CLEANUP_FREE char *line = end_line(p, agent, state, attempt, detail);
    if (p->quiet) {
        bh_free(p->agents[agent].failed);
        p->agents[agent].failed = state == BH_NODE_FAILED ? BH_TAKE(line) : NULL;
        return;
    }
    erase(p);
    fprintf(stderr, "%s\n", line);
}

static void on_node(void *arg, size_t agent, enum bh_node_state state, const struct bh_attempt *attempt,
                    const char *detail)
{
    struct bh_progress *p = arg;
    struct agent_view *view = &p->agents[agent];
    bool over =
        state == BH_NODE_DONE || state == BH_NODE_FAILED || state == BH_NODE_SKIPPED || state == BH_NODE_CANCELLED;
    if (over && state != view->node)
        say_end(p, agent, state, attempt, detail);
    p->counts[view->node]--;
    p->counts[state]++;
    view->node = state;
    if (over)
        view->active = false;
}

/* Elsewhere than on a terminal: a line when a setup begins, and one when the agent itself does. */
static void say_start(struct bh_progress *p, size_t agent, enum bh_attempt_state state, bool several)
{
    struct agent_view *view = &p->agents[agent];
    const char *stage = stage_of(p, agent);
    bool setup = state == BH_ATTEMPT_SETUP;
    bool at_work = state >= BH_ATTEMPT_RUNNING && state <= BH_ATTEMPT_SUCCEEDED; /* some pass too fast to be seen */
    if (view->said || !(setup || at_work) || (several && setup && view->prepared))
        return;
    view->prepared = setup;
    view->said = at_work;
    fprintf(stderr, "%-9s %s%s%s%s\n", setup ? "setup" : "running", p->plan->agents[agent].name, *stage ? " [" : "",
            stage, *stage ? "]" : "");
}

static void on_attempt(void *arg, size_t agent, enum bh_attempt_state state)
{
    struct bh_progress *p = arg;
    struct agent_view *view = &p->agents[agent];
    bool was = view->active, several = p->plan->agents[agent].topology == BH_TOPOLOGY_PER_ATTEMPT;
    bool live = state > BH_ATTEMPT_QUEUED && state < BH_ATTEMPT_SUCCEEDED;
    if (several && !live)
        return; /* others of it may be at work; its own end is said by its node */
    view->active = live;
    view->attempt = state;
    if (view->active && !was)
        view->since = bh_mono_now();
    if (!p->live && !p->quiet)
        say_start(p, agent, state, several);
    if (!view->active)
        view->said = false; /* the next try says so again */
}

/* Also where nothing else is said: the run stands still until somebody answers. */
static void say_question(struct bh_progress *p, const struct bh_gate *gate, const struct bh_val *facts)
{
    char limit[BH_UNIT_TEXT];
    const struct bh_val *artifacts = bh_val_get(facts, "artifacts");
    const char *name = bh_val_str_of(facts, "name");
    size_t n = bh_val_len(artifacts), tainted = bh_gate_count_tainted(artifacts);
    BH_CLEANUP_FREE char *of_them = tainted > 0 ? bh_asprintf(", %zu of them tainted", tainted) : bh_strdup("");
    bh_format_duration((gate->expires.us - bh_wall_now().us + US_PER_S - 1) / US_PER_S * BH_NS_PER_S, limit);
    fprintf(stderr, "asking    %s: %zu artifact%s would pass%s; decide within %s with\n", name, n, n == 1 ? "" : "s",
            of_them, limit);
    fprintf(stderr, "          bulkhead approve %s %s   or   bulkhead reject %s %s\n", p->run, name, p->run, name);
}

static void on_gate(void *arg, const struct bh_gate *gate, const struct bh_val *facts)
{
    struct bh_progress *p = arg;
    const char *by = bh_val_str_of(facts, "by");
    erase(p);
    if (gate->state == BH_GATE_ASKED)
        say_question(p, gate, facts);
    else if (gate->state == BH_GATE_OPEN && !p->quiet)
        fprintf(stderr, "approved  %s  by %s\n", bh_val_str_of(facts, "name"), by ? by : bh_val_str_of(facts, "how"));
    redraw(p);
}

static void on_interrupted(void *arg, int signal)
{
    struct bh_progress *p = arg;
    p->cancelling = true;
    if (p->quiet)
        return;
    erase(p);
    fprintf(stderr, "cancelling; %s kills\n", signal == SIGINT ? "Ctrl-C again" : "a second signal");
    redraw(p);
}

static void on_tick(void *arg)
{
    redraw(arg);
}

static const char *nobodys_failure(enum bh_reason reason)
{
    return reason == BH_REASON_TIMEOUT ? "the run's deadline passed" : "a shared box could not be kept";
}

/* The one thing that is said of a run when nothing is to be said. */
static void say_failure(const struct bh_progress *p, enum bh_run_status status)
{
    size_t node = SIZE_MAX;
    enum bh_reason reason = bh_engine_failure(p->engine, &node);
    if (status != BH_RUN_FAILED || reason == BH_REASON_NONE)
        return;
    if (node == SIZE_MAX)
        fprintf(stderr, "failed: %s\n", nobodys_failure(reason));
    else if (p->agents[node].failed)
        fprintf(stderr, "%s\n", p->agents[node].failed);
}

static void on_ended(void *arg, enum bh_run_status status)
{
    static const enum bh_node_state told[] = {BH_NODE_FAILED, BH_NODE_SKIPPED, BH_NODE_CANCELLED};
    struct bh_progress *p = arg;
    char took[BH_UNIT_TEXT];
    size_t node = 0;
    p->unfinished = p->counts[BH_NODE_FAILED] + p->counts[BH_NODE_CANCELLED];
    for (size_t i = 0; i < p->plan->n_agents; i++) /* without a culprit: left out */
        p->unfinished += p->agents[i].node == BH_NODE_SKIPPED && bh_engine_node(p->engine, i)->blamed != SIZE_MAX;
    if (p->quiet) {
        say_failure(p, status);
        return;
    }
    erase(p);
    fprintf(stderr, "%s: %zu done", bh_run_status_text(status), p->counts[BH_NODE_DONE]);
    for (size_t i = 0; i < BH_ARRAY_LEN(told); i++) {
        if (p->counts[told[i]] > 0)
            fprintf(stderr, ", %zu %s", p->counts[told[i]], bh_node_state_text(told[i]));
    }
    fprintf(stderr, ", %s", elapsed(p->began, took));
    enum bh_reason reason = bh_engine_failure(p->engine, &node);
    if (reason != BH_REASON_NONE && node == SIZE_MAX)
        fprintf(stderr, "; %s", nobodys_failure(reason));
    fputc('\n', stderr);
}

struct bh_run_watch bh_progress_watch(struct bh_progress *p)
{
    return (struct bh_run_watch){.arg = p,
                                 .limits = on_limits,
                                 .importing = on_importing,
                                 .started = on_started,
                                 .node = on_node,
                                 .attempt = on_attempt,
                                 .gate = on_gate,
                                 .interrupted = on_interrupted,
                                 .tick = p->live && !p->quiet ? on_tick : NULL,
                                 .ended = on_ended};
}
