/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints plans as graphs. Labels stand in the nodes and colour them; an edge along which tainted data goes is red.
 * Names are safe by their grammar.
 */
#include <stdio.h>

#include "cli/plan_text.h"

enum { LISTED = 8 };

static bool carries_data(enum bh_edge_kind kind)
{
    return kind == BH_EDGE_DATA || kind == BH_EDGE_OPTIONAL;
}

/* Name, labels, what it does not see, and its gates; `br` breaks the line. */
static void print_node(const struct bh_plan_agent *a, const char *br)
{
    printf("%s", a->name);
    if (a->label == BH_TAINTED || a->private_why)
        printf("%s%s%s%s", br, a->label == BH_TAINTED ? "tainted" : "",
               a->label == BH_TAINTED && a->private_why ? ", " : "", a->private_why ? "private" : "");
    if (a->n_left_out > 0)
        printf("%sleft out: ", br);
    for (size_t i = 0; i < a->n_left_out && i < LISTED; i++)
        printf("%s%s", i > 0 ? ", " : "", a->left_out[i]);
    if (a->n_left_out > LISTED)
        printf(" and %zu more", a->n_left_out - LISTED);
    if (a->gated)
        printf("%sgate: a person approves", br);
    for (size_t i = 0; i < a->n_gates && i < LISTED; i++)
        printf("%sgate: %s, by %s", br, a->gates[i].artifact, bh_gate_kind_text(a->gates[i].kind));
    if (a->n_gates > LISTED)
        printf("%sand %zu gates more", br, a->n_gates - LISTED);
}

/* What a box is and may. */
static void print_box(const struct bh_plan_box *box, const char *br)
{
    printf("%s (%s%s)", box->id, bh_label_text(box->label), box->private_ ? ", private" : "");
    for (size_t i = 0; i < box->n_powers && i < LISTED; i++)
        printf("%spower: %s", br, box->powers[i]);
    if (box->n_powers > LISTED)
        printf("%sand %zu powers more", br, box->n_powers - LISTED);
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
        printf("  subgraph \"cluster_%zu\" {\n    label=\"", i);
        print_box(box, "\\n");
        printf("\";\n");
        for (size_t k = 0; k < box->n_agents; k++) {
            const struct bh_plan_agent *a = &plan->agents[box->agents[k]];
            printf("    a%zu [label=\"", box->agents[k]);
            print_node(a, "\\n");
            printf("\"%s];\n", a->label == BH_TAINTED ? ", color=red" : "");
        }
        printf("  }\n");
    }
    for (size_t i = 0; i < plan->n_agents; i++) {
        for (size_t k = 0; k < plan->agents[i].n_after; k++) {
            const struct bh_edge *edge = &plan->agents[i].after[k];
            bool red = carries_data(edge->kind) && plan->agents[edge->agent].label == BH_TAINTED;
            printf("  a%zu -> a%zu [style=%s%s];\n", edge->agent, i, edge_style(edge->kind), red ? ", color=red" : "");
        }
    }
    printf("}\n");
}

void bh_plan_print_mermaid(const struct bh_plan *plan)
{
    printf("flowchart LR\n  classDef tainted stroke:#c00\n");
    for (size_t i = 0; i < plan->n_boxes; i++) {
        const struct bh_plan_box *box = &plan->boxes[i];
        printf("  subgraph box%zu[\"", i);
        print_box(box, "<br/>");
        printf("\"]\n");
        for (size_t k = 0; k < box->n_agents; k++) {
            const struct bh_plan_agent *a = &plan->agents[box->agents[k]];
            printf("    a%zu[\"", box->agents[k]);
            print_node(a, "<br/>");
            printf("\"]%s\n", a->label == BH_TAINTED ? ":::tainted" : "");
        }
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
