/* SPDX-License-Identifier: Apache-2.0 */
/* A plan from YAML text, and looks into it by name. For the tests of the plan. */
#pragma once

#include "tests/support/t.h"
#include "topologies/plan.h"

struct planned {
    struct bh_pipeline *pipeline;
    struct bh_plan *plan; /* NULL: there were errors */
    struct bh_errlist errors;
    int rc;
};

/* The document must load. `params` are name, value pairs ended by NULL; NULL is lint. */
void plan_make(struct planned *x, const char *yaml, const char *const *params);
void plan_free(struct planned *x);
/* A plan that must succeed. */
void plan_good(struct planned *x, const char *yaml);

/* Fails the test where there is none. */
const struct bh_plan_agent *plan_agent(const struct planned *x, const char *name);
const struct bh_plan_box *plan_box(const struct planned *x, const char *id);
const char *plan_box_of(const struct planned *x, const char *agent);
bool plan_has_agent(const struct planned *x, const char *name);

/* "a:data b:barrier", in order. */
char *plan_after(const struct planned *x, const char *agent);
/* Names of its inputs, outputs, left out artifacts, joined by spaces; the caller frees. */
char *plan_inputs(const struct planned *x, const char *agent);
char *plan_left_out(const struct planned *x, const char *agent);
/* "box: a b\nbox: c\n" for all boxes. */
char *plan_boxes(const struct planned *x);
/* Names of all agents in plan->order. */
char *plan_order(const struct planned *x);

/* One document and the only error that it must give. */
struct bad_plan {
    const char *yaml;
    enum bh_code code;
    int line, column;
    const char *path;
    const char *message;
    const char *detail; /* NULL: not looked at */
    const char *hint;   /* NULL: not looked at */
};
void plan_must_fail(const struct bad_plan *b, const char *const *params);

/* The only warning with this code: its message; NULL where there is none. */
const char *plan_warning(const struct planned *x, enum bh_code code);
