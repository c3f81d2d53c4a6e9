/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead explain: why a run or an agent is as it is, and what to do. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/again_text.h"
#include "cli/commands.h"
#include "cli/evidence_text.h"
#include "cli/gate_facts.h"
#include "cli/log_tail.h"
#include "cli/network_signs.h"
#include "cli/run_facts.h"
#include "cli/run_plan.h"
#include "policies/reasons.h"
#include "scheduler/dispatch/submission.h"

/* One agent, in sentences: what happened, why, and what mends it. */
struct story {
    const struct bh_cli_run *run;
    const struct bh_run_facts *facts;
    const struct bh_gate_facts *gates;
    const struct bh_plan *plan;          /* NULL where the document cannot be planned any more */
    struct bh_val *submission, *failure; /* owned; failure: of the run, a null value where it has none */
};

enum { TAIL = 5 };

static const struct bh_plan_agent *plan_agent(const struct story *s, const char *name)
{
    for (size_t i = 0; s->plan && i < s->plan->n_agents; i++) {
        if (bh_streq(s->plan->agents[i].name, name))
            return &s->plan->agents[i];
    }
    return NULL;
}

static const char *status_of(const struct story *s, const char *name)
{
    for (size_t i = 0; i < s->facts->n_agents; i++) {
        if (bh_streq(s->facts->agents[i].name, name))
            return s->facts->agents[i].status;
    }
    return "unknown";
}

static bool is_tainted(const struct story *s, const char *agent)
{
    for (size_t i = 0; i < s->facts->n_agents; i++) {
        if (bh_streq(s->facts->agents[i].name, agent))
            return bh_streq(s->facts->agents[i].label, "tainted");
    }
    return true;
}

/* A shared box's setup writes into the log of the agent for whom the box was made. */
static const struct bh_attempt_row *who_has_lines(const struct story *s, const struct bh_attempt_row *attempt)
{
    for (size_t i = 0; i < s->facts->n_attempts; i++) {
        const struct bh_attempt_row *other = &s->facts->attempts[i];
        BH_CLEANUP_BUF struct bh_buf lines = BH_BUF_INIT;
        if (bh_streq(other->detail, attempt->detail) && bh_streq(other->box, attempt->box) &&
            bh_log_tail(s->run, other->instance, 1, "", &lines) > 0)
            return other;
    }
    return NULL;
}

/* In some phase it was outside of what is said of boxes without one. */
static bool is_on_host(const struct story *s, const char *name)
{
    const struct bh_plan_agent *agent = plan_agent(s, name);
    const struct bh_plan_box *box = agent ? &s->plan->boxes[agent->box] : NULL;
    for (size_t i = 0; box && i < box->n_powers; i++) {
        if (bh_streq(box->powers[i], "network host"))
            return true;
    }
    return false;
}

static void tell_lines(const struct story *s, const struct bh_attempt_row *attempt, struct bh_buf *out)
{
    BH_CLEANUP_BUF struct bh_buf lines = BH_BUF_INIT;
    const struct bh_attempt_row *writer = attempt;
    size_t n = bh_log_tail(s->run, attempt->instance, TAIL, "    | ", &lines);
    if (n == 0 && attempt->detail && bh_starts_with(attempt->detail, "setup of box ")) {
        writer = who_has_lines(s, attempt);
        n = writer ? bh_log_tail(s->run, writer->instance, TAIL, "    | ", &lines) : 0;
    }
    if (n == 0)
        return;
    if (is_tainted(s, writer->agent)) {
        bh_buf_addf(out, "  its last lines are withheld: '%s' is tainted\n", writer->agent);
        return;
    }
    if (writer == attempt)
        bh_buf_adds(out, "  its last lines:\n");
    else
        bh_buf_addf(out, "  the last lines are in the log of '%s', for whom the box was made:\n", writer->agent);
    bh_buf_add(out, lines.data, lines.len);
    if (bh_lines_want_network(lines.data) && !is_on_host(s, writer->agent))
        bh_buf_adds(out,
                    "  boxes have no network but what 'network: {allow: [\"host:port\"]}' says of the phase; programs "
                    "find it by HTTPS_PROXY and its like, and no name is resolved in a box\n");
}

/* A log of its own: the command of a gate has read what is tainted, whatever the agent is. */
static void tell_gate_lines(const struct story *s, const struct bh_attempt_row *attempt, struct bh_buf *out)
{
    BH_CLEANUP_FREE char *log = bh_asprintf("%s.gate", attempt->instance);
    BH_CLEANUP_BUF struct bh_buf lines = BH_BUF_INIT;
    if (bh_log_tail(s->run, log, 1, "", &lines) > 0)
        bh_buf_addf(out,
                    "  what the command of its gate printed is withheld: 'bulkhead logs %s -a %s --content' shows it\n",
                    s->run->id, attempt->agent);
}

static void tell_remedy(const struct story *s, const char *agent, const char *lead, const char *remedy,
                        struct bh_buf *out)
{
    if (!remedy || !*remedy)
        return;
    bh_buf_adds(out, lead);
    bh_run_facts_add_remedy(out, s->run->id, agent, remedy);
    bh_buf_addc(out, '\n');
}

/* What held it, and what of its output was too much. */
static void tell_limits(const struct bh_attempt_row *attempt, struct bh_buf *out)
{
    if (attempt->limits)
        bh_buf_addf(out, "  limits held by: %s\n", attempt->limits);
    if (attempt->output_dropped > 0)
        bh_buf_addf(out, "  %lld bytes of its output were dropped: the log has its head and its tail (limits.output)\n",
                    (long long)attempt->output_dropped);
}

/* The number by which commands find the attempt; -1 where there is no other. */
static int64_t number_of(const struct story *s, const struct bh_attempt_row *attempt)
{
    return attempt->kind ? 0 : bh_run_facts_sum(s->facts, attempt->agent).n > 1 ? attempt->attempt : -1;
}

/* Which commands look into the box that was kept. */
static void tell_box(const struct story *s, const struct bh_attempt_row *attempt, struct bh_buf *out)
{
    int64_t number = number_of(s, attempt);
    BH_CLEANUP_FREE char *option = number < 0 ? bh_strdup("") : bh_asprintf(" --attempt %lld", (long long)number);
    bh_buf_addf(out,
                "  'bulkhead diff %s %s%s%s' says what changed in it, 'bulkhead shell %s %s%s' enters a fork of it\n",
                s->run->id, attempt->agent, option, is_tainted(s, attempt->agent) ? " --content" : "", s->run->id,
                attempt->agent, option);
}

static void tell_ending(const struct story *s, const struct bh_attempt_row *attempt, bool last, struct bh_buf *out)
{
    bool failed = bh_streq(attempt->status, "failed") || bh_streq(attempt->status, "lost");
    if (attempt->kind)
        bh_buf_addf(out, "  %s, try %lld (%s) %s", attempt->kind, (long long)attempt->try_, attempt->instance,
                    attempt->snapshot_reused ? "was found as an earlier run or agent had made it" : attempt->status);
    else
        bh_buf_addf(out, "  attempt %lld, try %lld (%s) %s", (long long)attempt->attempt, (long long)attempt->try_,
                    attempt->instance, attempt->status);
    if (attempt->reason)
        bh_buf_addf(out, " by %s", attempt->reason);
    if (attempt->exit_code >= 0)
        bh_buf_addf(out, ", exit status %lld", (long long)attempt->exit_code);
    if (attempt->signal > 0)
        bh_buf_addf(out, ", signal %lld", (long long)attempt->signal);
    bh_buf_addc(out, '\n');
    if (attempt->detail && !bh_streq(attempt->detail, attempt->status))
        bh_buf_addf(out, "  what: %s\n", attempt->detail);
    bh_evidence_tell(attempt->evidence, out);
    if (failed && last) {
        BH_CLEANUP_FREE char *general =
            bh_reason_remedy_of(bh_reason_parse(attempt->reason), attempt->exit_code, attempt->detail);
        BH_CLEANUP_FREE char *shown =
            is_tainted(s, attempt->agent) ? bh_remedy_of_tainted(general) : bh_strdup(general);
        BH_CLEANUP_FREE char *remedy = bh_remedy_of_attempt(shown, number_of(s, attempt));
        tell_remedy(s, attempt->agent, "  remedy: ", remedy, out);
        tell_lines(s, attempt, out);
        tell_gate_lines(s, attempt, out);
    }
    if (last)
        tell_limits(attempt, out);
    if (attempt->kept_box) {
        BH_CLEANUP_FREE char *path = bh_home_path(&s->run->home, attempt->kept_box);
        bool there = faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
        bh_buf_addf(out, there ? "  its box is kept: %s\n" : "  its box was kept in %s, and is gone since\n", path);
        if (there && last)
            tell_box(s, attempt, out);
    }
}

/* Where the agent stands, or stood, at this gate. */
static void tell_gate(const struct story *s, const struct bh_gate_fact *gate, struct bh_buf *out)
{
    char when[BH_WALL_TEXT];
    const char *by = bh_val_str_of(gate->facts, "by"), *reason = bh_val_str_of(gate->facts, "reason");
    bh_buf_addf(out, "  gate%s '%s' ", gate->of_stage ? " of stage" : "", gate->name);
    if (bh_gate_pending(gate)) {
        bh_buf_addf(out, "was decided at %s: ", bh_wall_format(bh_gate_pending(gate)->at, when));
        bh_gate_tell_pending(s->run, gate, out);
        bh_buf_addc(out, '\n');
        return;
    }
    if (gate->status == BH_GATE_IS_ASKED) {
        bh_buf_addf(out, "waits for a decision since %s: ", bh_wall_format(gate->asked, when));
        bh_gate_tell_size(gate, out);
        bh_buf_addf(out, " would pass; 'bulkhead approve %s %s' shows and asks, 'bulkhead reject %s %s' refuses\n",
                    s->run->id, gate->name, s->run->id, gate->name);
        return;
    }
    bh_buf_addf(out, "%s at %s",
                gate->status == BH_GATE_IS_EXPIRED    ? "was not decided in time: it expired"
                : gate->status == BH_GATE_IS_APPROVED ? "was opened"
                                                      : "was rejected",
                bh_wall_format(gate->ended, when));
    if (by)
        bh_buf_addf(out, " by %s", by);
    else if (gate->status == BH_GATE_IS_APPROVED && bh_val_str_of(gate->facts, "how"))
        bh_buf_addf(out, ": %s", bh_val_str_of(gate->facts, "how"));
    bh_buf_addf(out, "%s%s\n", reason ? ": " : "", reason ? reason : "");
}

/* Whether the agent is behind it: the gate is its own, or its stage's. */
static bool is_before(const struct bh_gate_fact *gate, const struct bh_agent_row *row)
{
    return bh_streq(gate->name, gate->of_stage ? row->stage : row->name);
}

static void tell_gates(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    for (size_t i = 0; i < s->gates->len; i++) {
        const struct bh_gate_fact *gate = &s->gates->items[i];
        if (is_before(gate, row))
            tell_gate(s, gate, out);
    }
}

/* Whether a gate that it stands at waits for somebody. */
static bool is_asked(const struct story *s, const struct bh_agent_row *row)
{
    for (size_t i = 0; i < s->gates->len; i++) {
        const struct bh_gate_fact *gate = &s->gates->items[i];
        if (is_before(gate, row) && bh_gate_is_waiting(s->run, gate))
            return true;
    }
    return false;
}

static void tell_waiting(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    const struct bh_plan_agent *agent = plan_agent(s, row->name);
    size_t waits = 0;
    for (size_t i = 0; agent && i < agent->n_after; i++) {
        const char *other = s->plan->agents[agent->after[i].agent].name;
        const char *status = status_of(s, other);
        bool ended = bh_streq(status, "done") || bh_streq(status, "failed") || bh_streq(status, "skipped") ||
                     bh_streq(status, "cancelled");
        if (!ended)
            bh_buf_addf(out, "%s%s (%s)", waits++ == 0 ? "  waits for " : ", ", other, status);
    }
    if (waits > 0)
        bh_buf_addc(out, '\n');
    else if (bh_run_facts_abandoned(s->run))
        bh_buf_addf(out, "  waits because no process drives the run: 'bulkhead run --resume %s' goes on\n", s->run->id);
    else if (bh_streq(row->status, "ready") && !is_asked(s, row))
        bh_buf_adds(out, "  waits for a free slot (max_parallel, or what this host holds)\n");
}

static bool is_left_out(const struct story *s, const char *name)
{
    BH_CLEANUP_FREE bool *wanted = bh_calloc((s->plan ? s->plan->n_agents : 0) + 1, sizeof(*wanted));
    if (s->plan)
        bh_submission_wanted(s->plan, s->submission, wanted);
    for (size_t i = 0; s->plan && i < s->plan->n_agents; i++) {
        if (bh_streq(s->plan->agents[i].name, name))
            return !wanted[i];
    }
    return false;
}

/* "'bad' failed", "'late' was skipped" */
static const char *ended_as(const char *status)
{
    return bh_streq(status, "failed") ? "failed" : bh_streq(status, "done") ? "ended without it" : "did not run";
}

/* What failed the run without being an agent's failure: its deadline, or a shared box that could not be kept. NULL
 * where nothing did. */
static const char *nobodys_failure(const struct story *s)
{
    return bh_val_str_of(s->failure, "agent") ? NULL : bh_val_str_of(s->failure, "detail");
}

static void tell_skipped(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    if (row->reason)
        bh_buf_addf(out, "  skipped because '%s' %s\n", row->reason, ended_as(status_of(s, row->reason)));
    else if (is_left_out(s, row->name))
        bh_buf_adds(out, "  left out by --only\n");
    else if (nobodys_failure(s))
        bh_buf_addf(out, "  not started: %s\n", nobodys_failure(s));
    else
        bh_buf_adds(out, "  not started: the run stopped starting agents before its turn, because others had failed\n");
}

static void tell_cancelled(const struct story *s, bool ran, struct bh_buf *out)
{
    bh_buf_adds(out, ran ? "  stopped while it ran: " : "  not started: ");
    const char *why = nobodys_failure(s);
    if (why)
        bh_buf_addf(out, "%s\n", why);
    else
        bh_buf_adds(out, ran ? "the run was cancelled\n" : "the run was cancelled before its turn\n");
}

/* What was run in the place of this one; NULL: nothing. */
static const struct bh_attempt_row *next_of(const struct bh_attempt_row *rows, size_t n, size_t at)
{
    for (size_t i = at + 1; i < n; i++) {
        if (rows[i].attempt == rows[at].attempt && bh_streq(rows[i].kind, rows[at].kind))
            return &rows[i];
    }
    return NULL;
}

/* Of several attempts: what they started from, and what became of the choice. */
static void tell_choice(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    struct bh_attempt_sum sum = bh_run_facts_sum(s->facts, row->name);
    if (sum.differ)
        bh_buf_adds(out, "  its attempts did not start from the same state: what they read was made anew in between\n");
    else if (sum.snapshot)
        bh_buf_addf(out, "  its attempts started from one frozen state, %s\n", sum.snapshot);
    BH_CLEANUP_FREE char *chosen = bh_run_facts_selected(s->facts, row->name);
    if (sum.n > 1 && chosen)
        bh_buf_addf(out, "  %s %s selected; %zu of %zu passed\n", chosen,
                    bh_starts_with(chosen, "attempts") ? "were" : "was", sum.passed, sum.n);
    else if (sum.n > 1)
        bh_buf_addf(out, "  %zu of %zu attempts passed\n", sum.passed, sum.n);
    BH_CLEANUP_FREE char *cold = bh_run_facts_cold(&sum);
    const struct bh_plan_agent *agent = plan_agent(s, row->name);
    if (cold)
        bh_buf_addf(out, "  %s\n", cold);
    else if (agent && agent->doc->warm && sum.forked > 0)
        bh_buf_addf(out, "  %zu of %zu attempts were forked from the warm process\n", sum.forked, sum.n);
}

/* Nothing of the loser says why it was stopped. */
static void tell_loser(const struct bh_attempt_row *attempt, const struct bh_attempt_row *winner, struct bh_buf *out)
{
    if (winner && !attempt->kind && bh_streq(attempt->status, "cancelled") && winner->ended.us <= attempt->ended.us)
        bh_buf_addf(out, "  it was stopped because attempt %lld had passed (stop_losers)\n",
                    (long long)winner->attempt);
}

/* The gate that has shut before the agent: its stage's, or its own. */
static const char *shut_gate(const struct story *s, const struct bh_agent_row *row)
{
    for (size_t i = 0; i < s->gates->len; i++) {
        const struct bh_gate_fact *gate = &s->gates->items[i];
        bool shut = gate->status == BH_GATE_IS_REJECTED || gate->status == BH_GATE_IS_EXPIRED;
        if (shut && is_before(gate, row))
            return gate->name;
    }
    return row->name;
}

/* It failed before anything of it was started: at a gate. */
static void tell_unbegun(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    bool late = bh_streq(row->reason, "timeout(gate)");
    BH_CLEANUP_FREE char *detail =
        bh_asprintf("gate '%s' was %s", shut_gate(s, row), late ? "not decided within" : "rejected by ");
    BH_CLEANUP_FREE char *remedy = bh_reason_remedy_of(bh_reason_parse(row->reason), -1, detail);
    bh_buf_addf(out, "  it never started: failed by %s\n", row->reason);
    tell_remedy(s, row->name, "  remedy: ", remedy, out);
}

static void tell_agent(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    size_t n = 0;
    const struct bh_attempt_row *attempts = bh_run_facts_attempts(s->facts, row->name, &n);
    bh_buf_addf(out, "%s: %s\n", row->name, row->status);
    const struct bh_plan_agent *agent = plan_agent(s, row->name);
    if (agent && agent->reason)
        bh_buf_addf(out, "  box %s: %s\n", row->box, agent->reason);
    if (bh_run_facts_has_attempts(row) && n > 0)
        tell_choice(s, row, out);
    tell_gates(s, row, out);
    if (n == 0 && bh_streq(row->status, "failed") && row->reason)
        tell_unbegun(s, row, out);
    const struct bh_attempt_row *winner = bh_run_facts_sum(s->facts, row->name).selected;
    for (size_t i = 0; i < n; i++) {
        bool newest = bh_run_facts_is_newest(s->facts, &attempts[i]);
        tell_ending(s, &attempts[i], newest, out);
        if (newest)
            tell_loser(&attempts[i], winner, out);
        if (!newest)
            bh_again_tell(&attempts[i], next_of(attempts, n, i), out);
    }
    if (bh_streq(row->status, "waiting") || bh_streq(row->status, "ready"))
        tell_waiting(s, row, out);
    if (bh_streq(row->status, "skipped"))
        tell_skipped(s, row, out);
    if (bh_streq(row->status, "cancelled"))
        tell_cancelled(s, n > 0 && bh_streq(attempts[n - 1].status, "cancelled"), out);
}

static void tell_failure(const struct story *s, struct bh_buf *out)
{
    const char *agent = bh_val_str_of(s->failure, "agent"), *reason = bh_val_str_of(s->failure, "reason"),
               *detail = bh_val_str_of(s->failure, "detail");
    if (bh_val_type(s->failure) != BH_VAL_MAP)
        return;
    if (agent)
        bh_buf_addf(out, "it failed because '%s' did, by %s%s%s\n", agent, reason ? reason : "?", detail ? ": " : "",
                    detail ? detail : "");
    else
        bh_buf_addf(out, "it failed because %s\n", detail ? detail : reason);
    tell_remedy(s, agent ? agent : "AGENT", "remedy: ", bh_val_str_of(s->failure, "remedy"), out);
}

static void tell_resume(const struct story *s, struct bh_buf *out)
{
    const char *status = s->run->row.status;
    if (bh_streq(status, "failed") || bh_streq(status, "cancelled"))
        bh_buf_addf(
            out,
            "\n'bulkhead run --resume %s' goes on with the files as they were submitted; after a change start a "
            "new run: bulkhead run %s\n",
            s->run->id, bh_run_file_from_here(s->run));
}

/* Of what has gone well the one thing that nobody would notice. */
static void tell_cold(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    struct bh_attempt_sum sum = bh_run_facts_sum(s->facts, row->name);
    BH_CLEANUP_FREE char *cold = bh_run_facts_cold(&sum);
    if (cold)
        bh_buf_addf(out, "'%s' is done, but %s\n", row->name, cold);
}

static void tell_run(const struct story *s, struct bh_buf *out)
{
    size_t done = 0, rest = 0;
    for (size_t i = 0; i < s->facts->n_agents; i++)
        done += bh_streq(s->facts->agents[i].status, "done");
    rest = s->facts->n_agents - done;
    bh_buf_addf(out, "run %s (%s): %s, %zu of %zu agents done\n", s->run->id, s->run->row.name, s->run->row.status,
                done, s->facts->n_agents);
    if (bh_run_facts_abandoned(s->run))
        bh_buf_addf(out,
                    "its process is gone: 'bulkhead run --resume %s' goes on, with the files as they were submitted; "
                    "what had succeeded is not run again\n",
                    s->run->id);
    tell_failure(s, out);
    for (size_t i = 0; i < s->facts->n_agents; i++) {
        const struct bh_agent_row *row = &s->facts->agents[i];
        size_t n = 0;
        (void)bh_run_facts_attempts(s->facts, row->name, &n);
        if (!bh_streq(row->status, "done") || (n > 1 && !bh_run_facts_has_attempts(row))) {
            bh_buf_addc(out, '\n');
            tell_agent(s, row, out);
        } else {
            tell_cold(s, row, out);
        }
    }
    tell_resume(s, out);
    if (rest == 0)
        bh_buf_addf(out,
                    "nothing is wrong; 'bulkhead artifacts %s' lists what was made, 'bulkhead explain %s AGENT' says "
                    "why an agent ran where it did\n",
                    s->run->id, s->run->id);
}

static int tell_named(const struct story *s, const char *name, struct bh_buf *out, struct bh_err **err)
{
    BH_CLEANUP_FREE const char **names = bh_calloc(s->facts->n_agents + 1, sizeof(*names));
    for (size_t i = 0; i < s->facts->n_agents; i++) {
        names[i] = s->facts->agents[i].name;
        if (bh_streq(names[i], name)) {
            tell_agent(s, &s->facts->agents[i], out);
            return 0;
        }
    }
    const char *near = bh_nearest(name, names, s->facts->n_agents);
    int rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "run '%s' has no agent '%s'", s->run->id, name);
    bh_err_hint(err, near ? "did you mean '%s'?" : "'bulkhead show %s' lists the agents", near ? near : s->run->id);
    return rc;
}

static void print_lines(const struct bh_buf *text)
{
    for (const char *p = text->data; *p;) {
        size_t len = strcspn(p, "\n");
        BH_CLEANUP_FREE char *line = bh_strndup(p, len);
        bh_cli_print_escaped(line);
        putchar('\n');
        p += len + (p[len] == '\n');
    }
}

static int explain(const struct bh_args *args)
{
    struct bh_cli_run run;
    struct bh_run_facts facts = {0};
    struct bh_gate_facts gates = {0};
    struct bh_cli_document doc = {0};
    struct bh_err *err = NULL;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    int rc = bh_cli_run_open(args, args->operands[0], &run, &err);
    if (rc == 0)
        rc = bh_run_facts_read(&run, &facts, &err);
    if (rc == 0)
        rc = bh_gate_facts_read(&run, &gates, &err);
    if (rc == 0) {
        bh_run_plan_again(&run, &doc);
        struct story story = {.run = &run, .facts = &facts, .gates = &gates, .plan = doc.plan};
        story.submission = bh_run_submission(&run);
        story.failure = bh_run_facts_failure(&run);
        if (args->n_operands > 1)
            rc = tell_named(&story, args->operands[1], &text, &err);
        else
            tell_run(&story, &text);
        bh_val_free(story.submission);
        bh_val_free(story.failure);
    }
    if (rc == 0 && bh_args_json(args)) {
        BH_CLEANUP_VAL struct bh_val *v = bh_run_facts_to_val(&run, &facts, doc.plan);
        bh_val_set(v, "gates", bh_gate_facts_to_val(&run, &gates));
        bh_val_set_str(v, "explanation", text.data);
        bh_cli_print_json(v);
    } else if (rc == 0) {
        print_lines(&text);
    }
    bh_cli_document_fini(&doc);
    bh_gate_facts_fini(&gates);
    bh_run_facts_fini(&facts);
    bh_cli_run_close(&run);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

const struct bh_cmd bh_cmd_explain = {
    .name = "explain",
    .operands = "RUN [AGENT]",
    .summary = "why an agent waits, ran again, was skipped or failed, and the remedy",
    .example = "bulkhead explain @latest\nbulkhead explain @latest modeling",
    .min_operands = 1,
    .max_operands = 2,
    .run = explain,
};
