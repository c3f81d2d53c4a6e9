/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that make a plan share while they make it. The steps, in their order (plan.c): parameters, agents and
 * their matrix cells, outputs and collisions, inputs and edges, labels, stages, order, placement, asks, warnings. Each
 * step reports all that it finds and leaves the draft so that the next one can go on.
 */
#pragma once

#include "base/map.h"
#include "base/mem.h"
#include "topologies/expand.h"
#include "topologies/plan.h"
#include "topologies/yaml_tree.h"

enum {
    BH_PLAN_MAX_AGENTS = 100000,
    BH_PLAN_MAX_EDGES = 5000000,  /* those of stages, which are shared, do not count */
    BH_PLAN_MAX_WORK = 100000000, /* of bh_planner_may_work */
    BH_PLAN_MAX_HINTS = 20,       /* a nearest name is looked for in so many errors */
};

/* A text of a name with its {{ }} put in. What is known only at run time ({{item}}) leaves it open. */
struct bh_text {
    const char *s;      /* NULL where it could not be made: an error is reported */
    const char *sample; /* the same with examples in the open places: what the grammar is checked on */
    const char *glob;   /* the same with '*' there: what may be made of it */
    bool open;
};

/* How a label, taint or private, came to an agent. */
enum bh_via {
    BH_VIA_NOTHING,
    BH_VIA_SELF,     /* untrusted: true */
    BH_VIA_SOURCE,   /* reads a source that has it */
    BH_VIA_FILE,     /* one of its files has it: its content is known from a run before */
    BH_VIA_INPUT,    /* reads what an agent made that has it */
    BH_VIA_PREVIOUS, /* sees the round before, which holds it */
    BH_VIA_BOX,      /* shares a box with an agent that has it */
};
struct bh_cause {
    enum bh_via via;
    size_t agent;         /* INPUT, PREVIOUS, BOX: from whom; else the agent itself */
    size_t origin;        /* the agent at which it began */
    const char *artifact; /* INPUT, SOURCE, FILE */
};

/* Which keys an agent writes itself, not by `defaults`. */
struct bh_own_keys {
    bool base, network, user, limits, secrets, endpoints;
};

/* An artifact that is read otherwise than by `inputs`: a predicate's, a for_each's. */
struct bh_steer {
    const char *name;
    bool is_data;          /* for_each: its content reaches the agent */
    const char *untrusted; /* the untrusted source it is, else NULL */
    const size_t *producers;
    size_t n_producers;
};

/* What an agent without inputs and needs waits for, per stage. */
struct bh_barrier {
    struct bh_edge *edges;
    size_t n, cap;
};

/* What is known of an agent beside plan->agents[i] while the plan is made. */
struct bh_draft {
    const struct bh_node *node; /* its map in the document */
    struct bh_own_keys own;
    struct bh_text *input_names, *output_names; /* parallel to the document's inputs and outputs */
    const char **input_untrusted; /* parallel to inputs: the untrusted source that is read by it, else NULL */
    struct bh_str base;           /* of its own or by defaults, with {{ }} put in; NULL: none */
    struct bh_edge *edges;        /* but those of stages */
    size_t n_edges, cap_edges;
    struct bh_steer *steers;
    size_t n_steers, cap_steers;
    bool barrier;                    /* waits for all earlier stages */
    bool box_tainted;                /* its box is; where `accept` let the inputs in, only a shared one */
    bool admitted;                   /* some tainted input was let in by `accept` with `validate` */
    const char *private_source;      /* that it reads; NULL: none */
    struct bh_cause taint, private_; /* the first that came */
    struct bh_cause box_taint;       /* the first that no gate let in, or that the box had */
    long group;                      /* index into groups, -1: none */
};

/* Agents that share a box on purpose: by `box:`, or by `topology: shared-box` (then it is the crew's). */
struct bh_group {
    const char *id;
    const struct bh_box_doc *doc; /* NULL: none */
    size_t *agents;
    size_t n, cap;
};

struct bh_param_slot {
    const struct bh_param *doc;
    const char *value; /* NULL: none (lint) */
    bool used;
};

/* A growing list of texts in the plan's arena. */
struct bh_texts {
    const char **items;
    size_t len, cap;
};

struct bh_makers;

struct bh_planner {
    const struct bh_pipeline *doc;
    const struct bh_plan_options *options;
    struct bh_arena *arena; /* the plan's */
    struct bh_plan *plan;
    struct bh_errlist *errors;
    struct bh_errlist warnings;
    struct bh_map *reported; /* one error of a kind per position */
    size_t n_hints;
    size_t budget;                /* bytes that {{ }} may still make */
    struct bh_map *params;        /* name → struct bh_param_slot */
    struct bh_map *by_name;       /* agent → struct bh_namesakes */
    struct bh_map *sources;       /* name → struct bh_source */
    struct bh_map *endpoints;     /* name → struct bh_endpoint */
    struct bh_map *tainted_files; /* paths whose content is known as tainted */
    bool *source_used, *source_tainted;
    struct bh_draft *drafts; /* parallel to plan->agents */
    size_t cap_agents, cap_drafts, cap_boxes;
    size_t *stage_start;         /* index of the first agent of each stage; n_stages + 1 entries */
    struct bh_barrier *barriers; /* per stage */
    struct bh_makers *makers;
    struct bh_group *groups;
    size_t n_groups, cap_groups;
    struct bh_map *group_index;   /* id → index of the group + 1, as a pointer */
    struct bh_map *box_docs;      /* name → struct bh_box_doc */
    struct bh_texts *known_names; /* of artifacts, for hints; made on first use */
    size_t n_edges;
    size_t work;
    bool too_large; /* was reported: what follows would cost more than it could say */
};

/* The agents that a name in `needs` stands for: one, or all cells of a matrix. */
struct bh_namesakes {
    size_t *agents;
    size_t n, cap;
};

/* Puts an error (taken) on the list. `path` is copied. An error of the same code at the same place is dropped. */
void bh_planner_report(struct bh_planner *pl, struct bh_err *err, struct bh_pos pos, const char *path);
void bh_planner_warn(struct bh_planner *pl, struct bh_err *err, struct bh_pos pos, const char *path);
/*
 * Counts work of a kind that a document can drive beyond its own size, in units of about ten nanoseconds. False where
 * it has become too much: then an error is reported, and the plan goes no further.
 */
bool bh_planner_may_work(struct bh_planner *pl, size_t n);
/* Reports once that the plan is too large. */
void bh_planner_too_large(struct bh_planner *pl, const char *what, int most);
/* The same for an error without detail and hint. */
void bh_planner_fail(struct bh_planner *pl, enum bh_code code, struct bh_pos pos, const char *path, const char *fmt,
                     ...) BH_PRINTF(5, 6);

void bh_texts_add(struct bh_planner *pl, struct bh_texts *list, const char *s);

/* params.c */
void bh_plan_params(struct bh_planner *pl);

/* matrix.c: the cells of an agent; one empty cell where it has no matrix. Errors are reported; then there is none. */
struct bh_cell {
    struct bh_pair *values;
    size_t n;
    const char *suffix; /* "-a-b", "" without matrix */
};
size_t bh_matrix_cells(struct bh_planner *pl, const struct bh_agent *doc, struct bh_cell **ret);

/* agents.c */
void bh_plan_agents(struct bh_planner *pl);
/* What {{ }} may name outside of agents: parameters. */
struct bh_scope bh_planner_scope(struct bh_planner *pl);

/* collisions.c */
void bh_plan_name_collisions(struct bh_planner *pl); /* before inputs are bound */
void bh_plan_box_collisions(struct bh_planner *pl);  /* after placement */

/* placement.c: who shares a box on purpose (before labels, which flow through it), and all boxes (after them). */
void bh_placement_join(struct bh_planner *pl);
void bh_placement_make(struct bh_planner *pl);

/* plan_limits.c: after placement. */
void bh_plan_limits(struct bh_planner *pl);

/* gates.c: what `accept` and `gate` say. */
void bh_plan_gates(struct bh_planner *pl, const struct bh_scope *scope, struct bh_plan_agent *agent);
/* validations.c: NULL, 0 where `validate` (may be NULL) has no command. */
const char **bh_plan_validate_command(struct bh_planner *pl, const struct bh_scope *scope,
                                      const struct bh_node *validate, const char *owner, size_t *ret_n);
/* labels.c: taint; needs bound inputs and draft->group. */
void bh_plan_labels(struct bh_planner *pl);
/* labels_private.c: needs the implicit inputs, and all boxes with their members. */
void bh_plan_private(struct bh_planner *pl);
/* cause.c: "pages.jsonl ← retrieval (untrusted: true)". In the plan's arena. */
const char *bh_plan_taint_path(struct bh_planner *pl, size_t agent);
const char *bh_plan_tainted_source(const struct bh_planner *pl, const char *name); /* "untrusted source" */
const char *bh_plan_box_taint_path(struct bh_planner *pl, size_t agent); /* how its box came to be tainted by it */
const char *bh_plan_private_path(struct bh_planner *pl, size_t agent);
/* "verdict ← retrieval (untrusted: true)": of an artifact that a tainted agent made. */
const char *bh_plan_taint_path_of(struct bh_planner *pl, const char *artifact, size_t producer);

/* asks.c */
void bh_plan_asks(struct bh_planner *pl);
/* warnings.c */
void bh_plan_warnings(struct bh_planner *pl);
