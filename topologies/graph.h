/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom. bind.c binds inputs, needs and predicates to those who make what they name, and draws an edge for
 * each; stages.c adds the walls between stages and finishes the edges; order.c finds cycles and the order.
 */
#pragma once

#include "topologies/plan_priv.h"

/* Binds everything that is named. Errors: UNBOUND_INPUT, UNDEFINED, CYCLE (of one agent with itself), TOO_LARGE. */
void bh_graph_bind(struct bh_planner *pl);

/* Adds an edge to the draft of `agent`. */
void bh_graph_edge(struct bh_planner *pl, size_t agent, size_t producer, enum bh_edge_kind kind);

/* Needs labels: an implicit input is never a tainted artifact. Sets after, inputs and left_out of all agents. */
void bh_graph_stages(struct bh_planner *pl);

/* Sets plan->order, or reports each cycle with its members. */
void bh_graph_order(struct bh_planner *pl);
