/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead show: one run. */
#include <stdio.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/gate_facts.h"
#include "cli/run_facts.h"
#include "cli/run_plan.h"
#include "scheduler/run_limits.h"

static void print_line(const char *key, const char *value)
{
    printf("%-9s ", key);
    bh_cli_print_escaped(value ? value : "-");
    putchar('\n');
}

static void print_head(const struct bh_cli_run *run)
{
    char created[BH_WALL_TEXT], took[BH_UNIT_TEXT];
    print_line("run", run->id);
    print_line("name", run->row.name);
    print_line("status", bh_run_facts_abandoned(run)
                             ? "running, but its process is gone: 'bulkhead run --resume' goes on"
                             : run->row.status);
    print_line("file", run->row.file);
    print_line("created", bh_wall_format(run->row.created, created));
    if (run->row.started.us && run->row.ended.us)
        print_line("took", bh_format_duration((run->row.ended.us - run->row.started.us) * 1000, took));
    BH_CLEANUP_FREE char *watched = bh_run_limits_list(run->row.limits);
    BH_CLEANUP_FREE char *limits = watched ? bh_asprintf("best-effort: this host cannot enforce %s", watched) : NULL;
    if (limits)
        print_line("limits", limits);
    if (run->row.params && !bh_streq(run->row.params, "{}"))
        print_line("params", run->row.params);
}

/* "2/1": attempt and try; "setup", "prepare/2": what comes before. */
static void format_number(const struct bh_attempt_row *attempt, char text[static BH_UNIT_TEXT])
{
    if (!attempt->kind)
        snprintf(text, BH_UNIT_TEXT, "%lld/%lld", (long long)attempt->attempt, (long long)attempt->try_);
    else if (attempt->try_ > 1)
        snprintf(text, BH_UNIT_TEXT, "%s/%lld", attempt->kind, (long long)attempt->try_);
    else
        snprintf(text, BH_UNIT_TEXT, "%s", attempt->kind);
}

static void add_attempt(struct bh_table *table, const struct bh_agent_row *agent, const struct bh_attempt_row *attempt,
                        bool first, bool scores)
{
    char took[BH_UNIT_TEXT] = "", number[BH_UNIT_TEXT], code[BH_UNIT_TEXT] = "";
    format_number(attempt, number);
    const char *status = attempt->snapshot_reused                                ? "found"
                         : bh_run_facts_has_attempts(agent) && attempt->selected ? "selected"
                                                                                 : attempt->status;
    if (attempt->started.us && attempt->ended.us)
        bh_format_duration((attempt->ended.us - attempt->started.us) * 1000, took);
    if (attempt->exit_code >= 0)
        snprintf(code, sizeof(code), "%lld", (long long)attempt->exit_code);
    else if (attempt->signal > 0)
        snprintf(code, sizeof(code), "signal %lld", (long long)attempt->signal);
    const char *cells[] = {first ? agent->name : "",
                           first ? agent->stage : "",
                           attempt->box,
                           number,
                           status,
                           attempt->reason,
                           code,
                           took,
                           scores ? attempt->score : NULL};
    bh_table_row(table, cells);
}

static void print_agents(const struct bh_run_facts *facts)
{
    static const char *const heads[] = {"AGENT", "STAGE", "BOX", "TRY", "STATUS", "REASON", "EXIT", "TOOK", "SCORE"};
    bool scores = false;
    for (size_t i = 0; i < facts->n_attempts; i++)
        scores = scores || facts->attempts[i].score;
    struct bh_table *table = bh_table_new(heads, BH_ARRAY_LEN(heads) - !scores);
    for (size_t i = 0; i < facts->n_agents; i++) {
        const struct bh_agent_row *agent = &facts->agents[i];
        size_t n = 0;
        const struct bh_attempt_row *attempts = bh_run_facts_attempts(facts, agent->name, &n);
        for (size_t k = 0; k < n; k++)
            add_attempt(table, agent, &attempts[k], k == 0, scores);
        if (n == 0) {
            const char *cells[] = {agent->name, agent->stage, agent->box, "", agent->status, agent->reason, "", "", ""};
            bh_table_row(table, cells);
        }
    }
    bh_table_print(table);
}

static void print_about(bool *first, const char *key, const char *who, const char *what)
{
    BH_CLEANUP_FREE char *text = bh_asprintf("%s: %s", who, what);
    if (*first)
        putchar('\n');
    *first = false;
    print_line(key, text);
}

/* Of the last attempts: what was held by best effort (who was held alike is one line), what of their output is missing,
 * whose box is there to be looked at. */
static void print_notes(const struct bh_cli_run *run, const struct bh_run_facts *facts)
{
    struct bh_map *said = bh_map_new(NULL);
    bool first = true;
    for (size_t i = 0; i < facts->n_attempts; i++) {
        const struct bh_attempt_row *row = &facts->attempts[i];
        if (!bh_run_facts_is_newest(facts, row))
            continue;
        if (row->limits && strstr(row->limits, "+best-effort") && bh_map_put(said, row->limits, said))
            print_about(&first, "held by", row->agent, row->limits);
        if (row->output_dropped > 0) {
            BH_CLEANUP_FREE char *what =
                bh_asprintf("%lld bytes of its output (limits.output)", (long long)row->output_dropped);
            print_about(&first, "dropped", row->agent, what);
        }
        BH_CLEANUP_FREE char *kept = row->kept_box ? bh_home_path(&run->home, row->kept_box) : NULL;
        if (kept && bh_map_put(said, kept, said))
            print_about(&first, "kept box", row->agent, kept);
    }
    bh_map_free(said);
}

/* Who is waited for, and who decided. */
static void print_gates(const struct bh_cli_run *run, const struct bh_gate_facts *gates)
{
    bool first = true;
    for (size_t i = 0; i < gates->len; i++) {
        const struct bh_gate_fact *g = &gates->items[i];
        BH_CLEANUP_BUF struct bh_buf what = BH_BUF_INIT;
        const char *by = bh_val_str_of(g->facts, "by"), *reason = bh_val_str_of(g->facts, "reason");
        if (bh_gate_is_waiting(run, g)) {
            bh_gate_tell_size(g, &what);
            bh_buf_addf(&what, " would pass; 'bulkhead approve %s %s' decides", run->id, g->name);
        } else if (bh_gate_pending(g)) {
            bh_gate_tell_pending(run, g, &what);
        } else {
            bh_buf_addf(&what, "%s%s%s%s%s", bh_gate_status_text(g->status), by ? " by " : "", by ? by : "",
                        reason ? ": " : "", reason ? reason : "");
        }
        print_about(&first, bh_gate_is_waiting(run, g) ? "asks" : "gate", g->name, what.data);
    }
}

static bool has_ended(const char *status)
{
    return bh_streq(status, "done") || bh_streq(status, "failed") || bh_streq(status, "skipped") ||
           bh_streq(status, "cancelled");
}

/* Of each agent with attempts: who was chosen, and whether they started from the same state. */
static void print_choices(const struct bh_run_facts *facts)
{
    bool first = true;
    for (size_t i = 0; i < facts->n_agents; i++) {
        const struct bh_agent_row *row = &facts->agents[i];
        struct bh_attempt_sum sum = bh_run_facts_sum(facts, row->name);
        if (!bh_run_facts_has_attempts(row) || sum.n == 0)
            continue;
        BH_CLEANUP_FREE char *chosen = bh_run_facts_selected(facts, row->name);
        const char *which = chosen ? chosen : has_ended(row->status) ? "nobody" : "nobody yet";
        BH_CLEANUP_FREE char *choice =
            bh_asprintf("%s; %zu of %zu attempt%s passed", which, sum.passed, sum.n, sum.n == 1 ? "" : "s");
        if (sum.n > 1)
            print_about(&first, "selected", row->name, choice);
        BH_CLEANUP_FREE char *state = sum.differ  ? bh_strdup("its attempts did not start from the same state")
                                      : sum.n > 1 ? bh_asprintf("all %zu attempts started from %s", sum.n, sum.snapshot)
                                                  : bh_asprintf("it started from %s", sum.snapshot);
        if (sum.snapshot || sum.differ)
            print_about(&first, "snapshot", row->name, state);
        BH_CLEANUP_FREE char *cold = bh_run_facts_cold(&sum);
        if (cold)
            print_about(&first, "not warm", row->name, cold);
    }
}

/* Why: of the run, and of each agent whose last attempt did not succeed. */
static void print_failures(const struct bh_cli_run *run, const struct bh_run_facts *facts)
{
    BH_CLEANUP_VAL struct bh_val *failure = bh_run_facts_failure(run);
    const char *keys[] = {"detail", "remedy"};
    const char *culprit = bh_val_str_of(failure, "agent");
    bool any = false;
    for (size_t i = 0; i < facts->n_agents; i++) {
        size_t n = 0;
        const struct bh_attempt_row *attempts = bh_run_facts_attempts(facts, facts->agents[i].name, &n);
        const struct bh_attempt_row *last = n > 0 ? &attempts[n - 1] : NULL;
        if (last && bh_run_facts_has_attempts(&facts->agents[i])) {
            struct bh_attempt_sum sum = bh_run_facts_sum(facts, facts->agents[i].name);
            last = !bh_streq(facts->agents[i].status, "failed") ? NULL : sum.once ? sum.once : sum.failed;
        }
        if (!last || !last->detail || !bh_streq(last->status, "failed") || bh_streq(culprit, facts->agents[i].name))
            continue;
        BH_CLEANUP_FREE char *what = bh_asprintf("%s: %s", facts->agents[i].name, last->detail);
        if (!any)
            putchar('\n');
        any = true;
        print_line("failed", what);
    }
    if (bh_val_type(failure) != BH_VAL_MAP)
        return;
    if (!any)
        putchar('\n');
    BH_CLEANUP_FREE char *what =
        bh_asprintf("%s%s%s", culprit ? culprit : "", culprit ? ", " : "", bh_val_str_of(failure, "reason"));
    print_line("failure", what);
    if (bh_val_str_of(failure, "caused_by"))
        print_line("caused by", bh_val_str_of(failure, "caused_by"));
    for (size_t i = 0; i < BH_ARRAY_LEN(keys); i++) {
        const char *text = bh_val_str_of(failure, keys[i]);
        if (text && *text)
            print_line(keys[i], text);
    }
}

static int show(const struct bh_args *args)
{
    struct bh_cli_run run;
    struct bh_run_facts facts = {0};
    struct bh_gate_facts gates = {0};
    struct bh_cli_document doc = {0};
    struct bh_err *err = NULL;
    int rc = bh_cli_run_open(args, args->operands[0], &run, &err);
    if (rc == 0)
        rc = bh_run_facts_read(&run, &facts, &err);
    if (rc == 0)
        rc = bh_gate_facts_read(&run, &gates, &err);
    if (rc == 0 && bh_args_json(args)) {
        bh_run_plan_again(&run, &doc);
        BH_CLEANUP_VAL struct bh_val *v = bh_run_facts_to_val(&run, &facts, doc.plan);
        bh_val_set(v, "gates", bh_gate_facts_to_val(&run, &gates));
        bh_cli_print_json(v);
    } else if (rc == 0) {
        print_head(&run);
        putchar('\n');
        print_agents(&facts);
        print_gates(&run, &gates);
        print_choices(&facts);
        print_notes(&run, &facts);
        print_failures(&run, &facts);
    }
    bh_cli_document_fini(&doc);
    bh_gate_facts_fini(&gates);
    bh_run_facts_fini(&facts);
    bh_cli_run_close(&run);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

const struct bh_cmd bh_cmd_show = {
    .name = "show",
    .operands = "RUN",
    .summary = "one run: its agents, attempts, endings",
    .example = "bulkhead show @latest -o json",
    .min_operands = 1,
    .max_operands = 1,
    .run = show,
};
