/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead explain: why a run or an agent is as it is, and what to do. */
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/run_facts.h"
#include "policies/reasons.h"

/* One agent, in sentences: what happened, why, and what mends it. */
struct story {
    const struct bh_cli_run *run;
    const struct bh_run_facts *facts;
    const struct bh_plan *plan; /* NULL where the document cannot be planned any more */
};

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

/* RUN and AGENT in a remedy are the reader's own. */
static void add_remedy(struct bh_buf *out, const struct story *s, const char *agent, const char *remedy)
{
    for (const char *p = remedy; *p;) {
        if (strncmp(p, "RUN", 3) == 0) {
            bh_buf_adds(out, s->run->id);
            p += 3;
        } else if (strncmp(p, "AGENT", 5) == 0) {
            bh_buf_adds(out, agent);
            p += 5;
        } else {
            bh_buf_addc(out, *p++);
        }
    }
}

static void tell_ending(const struct story *s, const struct bh_attempt_row *attempt, struct bh_buf *out)
{
    bh_buf_addf(out, "attempt %lld, try %lld (%s) %s", (long long)attempt->attempt, (long long)attempt->try_,
                attempt->instance, attempt->status);
    if (attempt->reason)
        bh_buf_addf(out, " by %s", attempt->reason);
    if (attempt->exit_code >= 0)
        bh_buf_addf(out, ", exit status %lld", (long long)attempt->exit_code);
    if (attempt->signal > 0)
        bh_buf_addf(out, ", signal %lld", (long long)attempt->signal);
    bh_buf_addc(out, '\n');
    if (attempt->detail)
        bh_buf_addf(out, "  what: %s\n", attempt->detail);
    if (attempt->reason && !bh_streq(attempt->status, "succeeded")) {
        const char *remedy = bh_reason_info(bh_reason_parse(attempt->reason))->remedy;
        if (*remedy) {
            bh_buf_adds(out, "  remedy: ");
            add_remedy(out, s, attempt->agent, remedy);
            bh_buf_addc(out, '\n');
        }
    }
    if (attempt->kept_box)
        bh_buf_addf(out, "  its box is kept: %s\n", attempt->kept_box);
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
    else if (bh_streq(row->status, "ready"))
        bh_buf_adds(out, "  waits for a free slot (max_parallel, or what this host holds)\n");
}

static void tell_skipped(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    if (row->reason)
        bh_buf_addf(out, "  skipped because '%s' is %s\n", row->reason, status_of(s, row->reason));
    else
        bh_buf_adds(out, "  not started: the run stopped starting agents before its turn\n");
}

static void tell_agent(const struct story *s, const struct bh_agent_row *row, struct bh_buf *out)
{
    size_t n = 0;
    const struct bh_attempt_row *attempts = bh_run_facts_attempts(s->facts, row->name, &n);
    bh_buf_addf(out, "%s: %s\n", row->name, row->status);
    const struct bh_plan_agent *agent = plan_agent(s, row->name);
    if (agent && agent->reason)
        bh_buf_addf(out, "  box %s: %s\n", row->box, agent->reason);
    for (size_t i = 0; i < n; i++) {
        bh_buf_adds(out, "  ");
        tell_ending(s, &attempts[i], out);
        if (i + 1 < n)
            bh_buf_addf(out, "  run again because it was %s%s\n", attempts[i].status,
                        bh_streq(attempts[i].status, "lost") ? " together with its box or with bulkhead itself" : "");
    }
    if (bh_streq(row->status, "waiting") || bh_streq(row->status, "ready"))
        tell_waiting(s, row, out);
    if (bh_streq(row->status, "skipped") || bh_streq(row->status, "cancelled"))
        tell_skipped(s, row, out);
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
                    "its process is gone: 'bulkhead run --resume %s' goes on; what had succeeded is not run again\n",
                    s->run->id);
    for (size_t i = 0; i < s->facts->n_agents; i++) {
        const struct bh_agent_row *row = &s->facts->agents[i];
        size_t n = 0;
        (void)bh_run_facts_attempts(s->facts, row->name, &n);
        if (!bh_streq(row->status, "done") || n > 1) {
            bh_buf_addc(out, '\n');
            tell_agent(s, row, out);
        }
    }
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

/* The plan as it was; without it the rest can still be told. */
static void replan(const struct bh_cli_run *run, struct bh_cli_document *doc)
{
    struct bh_errlist errors = {0};
    BH_CLEANUP_VAL struct bh_val *params = NULL;
    if (!run->row.document || !run->row.params ||
        bh_json_parse(run->row.params, strlen(run->row.params), &params, NULL) != 0)
        return;
    size_t n = bh_val_len(params);
    BH_CLEANUP_FREE struct bh_param_value *values = bh_calloc(n + 1, sizeof(*values));
    for (size_t i = 0; i < n; i++)
        values[i] = (struct bh_param_value){bh_val_key_at(params, i), bh_val_get_str(bh_val_at(params, i))};
    struct bh_plan_options options = {.params = values, .n_params = n};
    int rc = bh_pipeline_load(run->row.file, run->row.document, strlen(run->row.document), &doc->pipeline, &errors);
    if (rc == 0)
        rc = bh_plan_make(doc->pipeline, &options, &doc->plan, &errors);
    (void)rc;
    bh_errlist_fini(&errors);
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
    struct bh_cli_document doc = {0};
    struct bh_err *err = NULL;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    int rc = bh_cli_run_open(args, args->operands[0], &run, &err);
    if (rc == 0)
        rc = bh_run_facts_read(&run, &facts, &err);
    if (rc == 0) {
        replan(&run, &doc);
        struct story story = {.run = &run, .facts = &facts, .plan = doc.plan};
        if (args->n_operands > 1)
            rc = tell_named(&story, args->operands[1], &text, &err);
        else
            tell_run(&story, &text);
    }
    if (rc == 0 && bh_args_json(args)) {
        BH_CLEANUP_VAL struct bh_val *v = bh_run_facts_to_val(&run, &facts);
        bh_val_set_str(v, "explanation", text.data);
        bh_cli_print_json(v);
    } else if (rc == 0) {
        print_lines(&text);
    }
    bh_cli_document_fini(&doc);
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
