/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for people: text, and graphs for dot and mermaid. All print to stdout. */
#pragma once

#include "topologies/plan.h"

void bh_plan_print_text(const struct bh_plan *plan);
void bh_plan_print_dot(const struct bh_plan *plan);
void bh_plan_print_mermaid(const struct bh_plan *plan);
