/* SPDX-License-Identifier: Apache-2.0 */
/* Prints plans as text. What comes from the document is escaped for the terminal; names are safe by their grammar. */
#include "cli/plan_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/text.h"
#include "cli/common.h"

/* ", private (mine.txt (private source))" */
static void print_private(const char *why)
{
    if (!why)
        return;
    printf(", private (");
    bh_cli_print_escaped(why);
    printf(")");
}

static void print_sources(const struct bh_plan *plan)
{
    const struct bh_pipeline *p = plan->pipeline;
    for (size_t i = 0; i < p->n_sources; i++) {
        const struct bh_source *s = &p->sources[i];
        printf("%s  %s: %s%s%s\n", i == 0 ? "\nsources:\n" : "", s->name.s,
               bh_label_text(plan->source_tainted[i] ? BH_TAINTED : BH_TRUSTED),
               !plan->source_tainted[i] ? ""
               : s->untrusted           ? " (untrusted: true)"
                                        : " (an earlier run knows its content)",
               s->private_ ? ", private" : "");
    }
}

static void print_asks(const struct bh_plan *plan)
{
    printf("asks of this host:");
    if (plan->n_asks == 0)
        printf(" nothing beyond the pipeline's folder");
    printf("\n");
    for (size_t i = 0; i < plan->n_asks; i++) {
        printf("  ");
        bh_cli_print_escaped(plan->asks[i].s);
        printf("\n");
    }
}

static void print_limits(const struct bh_limits *limits)
{
    char text[BH_LIMIT_TEXT];
    bool any = false;
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (!(limits->asked & 1u << i))
            continue;
        printf("%s%s %s", any ? ", " : "    limits ", bh_limit_name((enum bh_limit)i),
               bh_limit_format((enum bh_limit)i, limits->of[i], text));
        any = true;
    }
    if (any)
        printf("\n");
}

static void print_box(const struct bh_plan *plan, const struct bh_plan_box *box)
{
    printf("  %s (%s, %s%s, base %s, network ", box->id, bh_topology_text(box->topology), bh_label_text(box->label),
           box->private_ ? ", private" : "", box->base);
    bh_cli_print_escaped(box->network);
    printf(", user %s):", box->user);
    for (size_t i = 0; i < box->n_agents; i++)
        printf(" %s", plan->agents[box->agents[i]].name);
    printf("\n    why: ");
    bh_cli_print_escaped(box->reason);
    printf("\n");
    print_limits(&box->limits);
    for (size_t i = 0; i < box->n_powers; i++)
        printf("    power: %s\n", box->powers[i]);
}

static void print_inputs(const struct bh_plan_agent *agent)
{
    for (size_t i = 0; i < agent->n_inputs; i++)
        printf("%s%s%s%s", i == 0 ? "    reads " : ", ", agent->inputs[i].name,
               agent->inputs[i].tainted ? " (tainted)" : "", agent->inputs[i].optional ? " (if there)" : "");
    if (agent->n_inputs > 0)
        printf("\n");
    for (size_t i = 0; i < agent->n_left_out; i++)
        printf("%s%s", i == 0 ? "    left out (tainted, not named): " : ", ", agent->left_out[i]);
    if (agent->n_left_out > 0)
        printf("\n");
}

static void print_outputs(const struct bh_plan_agent *agent)
{
    for (size_t i = 0; i < agent->n_outputs; i++)
        printf("%s%s", i == 0 ? "    writes " : ", ",
               agent->outputs[i].name ? agent->outputs[i].name : agent->outputs[i].glob);
    if (agent->n_outputs > 0)
        printf("%s%s\n", agent->label == BH_TAINTED ? " (tainted)" : "", agent->private_why ? " (private)" : "");
}

/* What lets tainted things in, and what tainted things decide. */
static void print_gates(const struct bh_plan *plan, const struct bh_plan_agent *agent)
{
    if (agent->gated)
        printf("    gate: a person approves before it starts\n");
    for (size_t i = 0; i < agent->n_gates; i++)
        printf("    gate: %s, by %s%s\n", agent->gates[i].artifact, bh_gate_kind_text(agent->gates[i].kind),
               agent->gates[i].kind == BH_GATE_VALIDATE ? "" : ", which clears the label");
    for (size_t i = 0; i < agent->n_steered_by; i++) {
        printf("    steered by ");
        bh_cli_print_escaped(agent->steered_why[i]);
        printf("\n");
    }
    if (plan->boxes[agent->box].label != BH_TAINTED || plan->n_params == 0)
        return;
    printf("    parameters that it is told: %s", agent->n_params == 0 ? "none" : "");
    for (size_t i = 0; i < agent->n_params; i++)
        printf("%s%s", i == 0 ? "" : ", ", agent->params[i]);
    printf("\n");
}

static void print_after(const struct bh_plan *plan, const struct bh_plan_agent *agent)
{
    enum { SHOWN = 8 };
    if (agent->n_after == 0)
        return;
    printf("    after ");
    for (size_t i = 0; i < agent->n_after && i < SHOWN; i++)
        printf("%s%s", i == 0 ? "" : ", ", plan->agents[agent->after[i].agent].name);
    if (agent->n_after > SHOWN)
        printf(" and %zu more", agent->n_after - SHOWN);
    printf("\n");
}

/* "    5 attempts from one frozen state (setup, prepare), the first to pass; checked in a fresh box" */
static void print_attempts(const struct bh_plan_agent *agent)
{
    static const char *const selects[] = {"the lowest that passes", "the best score", "all that pass"};
    const struct bh_attempts *a = &agent->doc->attempts;
    bool setup = agent->n_setup > 0, prepare = agent->n_prepare > 0;
    if (!agent->forks)
        return;
    printf("    %" PRId64 " attempt%s", a->count, a->count == 1 ? "" : "s");
    if (setup || prepare)
        printf(" from one frozen state (%s%s%s%s)", setup ? "setup" : "", setup && prepare ? ", " : "",
               prepare ? "prepare" : "", agent->doc->warm ? ", warm" : "");
    if (bh_agent_numbered(agent->doc))
        printf("; %s%s", a->stop_losers ? "the first to pass ends the others" : selects[a->select],
               a->order_min ? " (least)" : "");
    if (a->min_success > 1)
        printf("; at least %" PRId64 " must pass", a->min_success);
    if (agent->n_check > 0)
        printf("; checked in %s", agent->doc->check_fresh ? "a fresh box" : "its own box");
    printf("\n");
}

static void print_agent(const struct bh_plan *plan, const struct bh_plan_agent *agent)
{
    const char *stage = agent->stage >= 0 ? plan->pipeline->stages[agent->stage].name.s : NULL;
    /* Its label is that of what it makes: a gate with `validate` clears none, and keeps it from the box. */
    bool admitted = agent->label == BH_TAINTED && plan->boxes[agent->box].label == BH_TRUSTED && agent->n_gates > 0;
    printf("  %s%s%s%s: box %s, %s%s", agent->name, stage ? " [" : "", stage ? stage : "", stage ? "]" : "",
           plan->boxes[agent->box].id, admitted ? "what it makes is " : "", bh_label_text(agent->label));
    if (agent->why) {
        printf(" (");
        bh_cli_print_escaped(agent->why);
        printf(")");
    }
    print_private(agent->private_why);
    printf("%s\n", admitted ? "; its box is trusted: let in by validate" : "");
    if (plan->boxes[agent->box].shared) /* else it has a box of its own, and they are said there */
        print_limits(&agent->limits);
    print_after(plan, agent);
    print_inputs(agent);
    print_outputs(agent);
    print_gates(plan, agent);
    print_attempts(agent);
    if (agent->reason) {
        printf("    why there: ");
        bh_cli_print_escaped(agent->reason);
        printf("\n");
    }
}

void bh_plan_print_text(const struct bh_plan *plan)
{
    printf("%s: %zu agent%s in %zu box%s\n\n", plan->pipeline->name.s, plan->n_agents, plan->n_agents == 1 ? "" : "s",
           plan->n_boxes, plan->n_boxes == 1 ? "" : "es");
    print_asks(plan);
    print_sources(plan);
    printf("\nboxes:\n");
    for (size_t i = 0; i < plan->n_boxes; i++)
        print_box(plan, &plan->boxes[i]);
    printf("\nagents, in order:\n");
    for (size_t i = 0; i < plan->n_agents; i++)
        print_agent(plan, &plan->agents[plan->order[i]]);
    if (plan->n_warnings > 0)
        printf("\nwarnings:\n");
    for (size_t i = 0; i < plan->n_warnings; i++) {
        printf("  ");
        bh_cli_print_escaped(bh_err_message(plan->warnings[i]));
        if (bh_err_line(plan->warnings[i]) > 0)
            printf(" (line %d)", bh_err_line(plan->warnings[i]));
        printf("\n");
    }
}
