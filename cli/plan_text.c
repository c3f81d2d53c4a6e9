/* SPDX-License-Identifier: Apache-2.0 */
/* Prints plans. Text from the document is escaped for the terminal; names are safe by their grammar. */
#include "cli/plan_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/text.h"
#include "cli/common.h"

static const char *label_text(enum bh_label label)
{
    return label == BH_TAINTED ? "tainted" : "trusted";
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
    printf("  %s (%s, %s, base %s, network ", box->id, bh_topology_text(box->topology), label_text(box->label),
           box->base);
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
        printf("%s%s%s", i == 0 ? "    reads " : ", ", agent->inputs[i].name,
               agent->inputs[i].optional ? " (if there)" : "");
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
    printf("  %s%s%s%s: box %s, %s", agent->name, stage ? " [" : "", stage ? stage : "", stage ? "]" : "",
           plan->boxes[agent->box].id, label_text(agent->label));
    if (agent->why) {
        printf(" (");
        bh_cli_print_escaped(agent->why);
        printf(")");
    }
    printf("\n");
    if (plan->boxes[agent->box].shared) /* else it has a box of its own, and they are said there */
        print_limits(&agent->limits);
    print_after(plan, agent);
    print_inputs(agent);
    print_outputs(agent);
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

static const char *edge_style(enum bh_edge_kind kind)
{
    switch (kind) {
    case BH_EDGE_BARRIER:
        return "dotted";
    case BH_EDGE_OPTIONAL:
        return "dashed";
    case BH_EDGE_NEEDS:
    case BH_EDGE_DATA:
        return "solid";
    }
    return "solid";
}

void bh_plan_print_dot(const struct bh_plan *plan)
{
    printf("digraph \"%s\" {\n  rankdir=LR;\n  node [shape=box];\n", plan->pipeline->name.s);
    for (size_t i = 0; i < plan->n_boxes; i++) {
        const struct bh_plan_box *box = &plan->boxes[i];
        printf("  subgraph \"cluster_%zu\" {\n    label=\"%s (%s)\";\n", i, box->id, label_text(box->label));
        for (size_t k = 0; k < box->n_agents; k++)
            printf("    a%zu [label=\"%s\"%s];\n", box->agents[k], plan->agents[box->agents[k]].name,
                   plan->agents[box->agents[k]].label == BH_TAINTED ? ", color=red" : "");
        printf("  }\n");
    }
    for (size_t i = 0; i < plan->n_agents; i++) {
        for (size_t k = 0; k < plan->agents[i].n_after; k++)
            printf("  a%zu -> a%zu [style=%s];\n", plan->agents[i].after[k].agent, i,
                   edge_style(plan->agents[i].after[k].kind));
    }
    printf("}\n");
}

void bh_plan_print_mermaid(const struct bh_plan *plan)
{
    printf("flowchart LR\n");
    for (size_t i = 0; i < plan->n_boxes; i++) {
        const struct bh_plan_box *box = &plan->boxes[i];
        printf("  subgraph box%zu[\"%s (%s)\"]\n", i, box->id, label_text(box->label));
        for (size_t k = 0; k < box->n_agents; k++)
            printf("    a%zu[\"%s\"]\n", box->agents[k], plan->agents[box->agents[k]].name);
        printf("  end\n");
    }
    for (size_t i = 0; i < plan->n_agents; i++) {
        for (size_t k = 0; k < plan->agents[i].n_after; k++) {
            enum bh_edge_kind kind = plan->agents[i].after[k].kind;
            bool strict = kind == BH_EDGE_DATA || kind == BH_EDGE_NEEDS;
            printf("  a%zu %s a%zu\n", plan->agents[i].after[k].agent, strict ? "-->" : "-.->", i);
        }
    }
}
