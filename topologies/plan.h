/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: a pipeline with its parameters put in, its matrix cells told apart, its edges drawn and its agents placed
 * in boxes, each split with its reason. Pure: depends on the document and the parameters alone, touches no file.
 * Everything in it lives in one arena and is read-only; the pipeline must outlive it.
 */
#pragma once

#include "topologies/pipeline.h"

enum bh_edge_kind {
    BH_EDGE_BARRIER,  /* an earlier stage: waits until it has ended, however */
    BH_EDGE_NEEDS,    /* needs: the other must have succeeded */
    BH_EDGE_DATA,     /* a required input: the other must have succeeded */
    BH_EDGE_OPTIONAL, /* an optional or glob input: waits until it has ended, however */
};
struct bh_edge {
    size_t agent; /* index into plan->agents */
    enum bh_edge_kind kind;
};

struct bh_plan_input {
    const char *name; /* artifact name or glob, expanded */
    bool is_glob;
    const char *path; /* below /workspace/in; the name where the document says nothing; NULL for a glob (each match
                         keeps its name) */
    bool optional;
    int source;        /* index into pipeline->sources where a source is bound (of a glob: the first), else -1 */
    size_t *producers; /* indices into plan->agents */
    size_t n_producers;
    bool tainted; /* what it stands for is, before any gate */
};

struct bh_plan_output {
    const char *name, *glob; /* exactly one is set */
    const char *path;        /* relative to /workspace: "out/NAME" where nothing is said; for a glob "out" */
    enum bh_kind kind;
    bool optional;
    int64_t max_size;               /* -1: none */
    int64_t max_files;              /* globs: 1000 where nothing is said */
    const struct bh_node *validate; /* NULL: none */
    const char **validate_command;  /* n_validate_command 0: none */
    size_t n_validate_command;
    struct bh_pos pos;
};

enum bh_label { BH_TRUSTED, BH_TAINTED };
const char *bh_label_text(enum bh_label label); /* "tainted" */

/* What `accept` says of an artifact, or of all that a glob fits. */
enum bh_gate_kind {
    BH_GATE_VALIDATE, /* what passes the check reaches this agent; the label stays on what the agent makes */
    BH_GATE_ENDORSE,  /* the same check, and the label is cleared */
    BH_GATE_APPROVE,  /* a person decides, and the label is cleared */
};
struct bh_plan_gate {
    const char *artifact; /* as the document has it: a name or a glob */
    enum bh_gate_kind kind;
    const struct bh_node *validate; /* NULL: APPROVE */
    const char **command;           /* of `validate`; n_command 0: none */
    size_t n_command;
};
const char *bh_gate_kind_text(enum bh_gate_kind kind); /* "validate" */
/* Whether the gate stands before this artifact, which is no glob. */
bool bh_plan_gate_fits(const struct bh_plan_gate *gate, const char *artifact);
/* The gate of an agent for an input as its plan names it, a glob too: one that clears before one that does not. NULL:
 * none. */
const struct bh_plan_gate *bh_plan_gate_of(const struct bh_plan_gate *gates, size_t n, const char *artifact);

struct bh_plan_agent {
    const char *name; /* with matrix values appended */
    const struct bh_agent *doc;
    int stage;
    size_t box;                /* index into plan->boxes */
    bool forks;                /* starts from a state that was made before, or is judged: executions of several kinds */
    enum bh_topology topology; /* what placement made of it */
    /*
     * Sorted by agent, one per agent (the strictest kind; NEEDS before DATA, which the inputs tell too). Barriers are
     * reduced: who waits for a whole stage does not list the stages that this one waited for. Agents that wait for the
     * same stage share one array (the same pointer), so that 5,000 agents behind 5,000 others cost 5,000 edges: whoever
     * copies edges should share them too.
     */
    struct bh_edge *after;
    size_t n_after;
    /* Explicit; where the document gives none: the implicit ones of earlier stages, in an array that is shared too. */
    struct bh_plan_input *inputs;
    size_t n_inputs;
    const char **left_out; /* tainted artifacts of earlier stages that an implicit input does not show */
    size_t n_left_out;
    struct bh_plan_output *outputs;
    size_t n_outputs;
    const char **run; /* argv; a string command is {"/bin/sh","-ceu",TEXT} */
    size_t n_run;
    const char **setup; /* n_setup 0: none */
    size_t n_setup;
    const char **prepare, **check; /* 0: none */
    size_t n_prepare, n_check;
    struct bh_pair *check_files;
    size_t n_check_files;
    struct bh_pair **each;   /* by attempt: variables that are added to env; NULL: none */
    const char *prompt;      /* text, or NULL */
    const char *prompt_file; /* path as in the document, or NULL */
    struct bh_pair *files;   /* name: path in /workspace; value: path beneath the pipeline's folder */
    size_t n_files;
    struct bh_pair *env;
    size_t n_env;
    enum bh_label label;
    const char *why;         /* of the label: "pages.jsonl ← retrieval (untrusted: true)"; NULL where trusted */
    const char *private_why; /* "mine.txt (private source)"; NULL where it has nothing private */
    const struct bh_plan_gate *gates; /* `accept` */
    size_t n_gates;
    bool gated;          /* a person is asked before it starts: `gate: approve`, of itself or of its stage */
    const char **params; /* of its keys' {{ }}: the only ones that it holds where its box is tainted */
    size_t n_params;
    const char *reason;           /* why it stands in its box */
    const struct bh_pair *matrix; /* the values of its cell */
    size_t n_matrix;
    const char **steered_by;  /* tainted artifacts that decide whether, or how often, it runs */
    const char **steered_why; /* of each: "verdict ← reader (untrusted: true)" */
    size_t n_steered_by;
    /* What the document says of it: in a box of its own everything; in a shared one MEMORY, CPUS and PIDS where they
     * are less than the box's (a group of its own inside), and OUTPUT. */
    struct bh_limits limits;
    bool implicit_inputs; /* `inputs` are those of the earlier stages, not the document's */
};

struct bh_plan_box {
    const char *id; /* "crew", "crew-tainted", a name of `boxes`, or the agent's name */
    bool shared;
    enum bh_topology topology;
    const char *base, *network, *user;
    enum bh_label label;
    bool private_;
    const char **powers; /* "secret anthropic_key", "endpoint x", "network host" */
    size_t n_powers;
    const char *reason;
    size_t *agents;
    size_t n_agents;
    bool writable_usr;            /* some agent of it has a setup, prepare, or is root */
    const struct bh_box_doc *doc; /* NULL: none */
    const char **setup;           /* of boxes.NAME, as in an agent; n_setup 0: none */
    size_t n_setup;
    struct bh_pair *files; /* of boxes.NAME */
    size_t n_files;
    struct bh_limits limits; /* what the document says of the whole box, OUTPUT not among it */
    struct bh_limits room;   /* shared: of MEMORY, CPUS and PIDS the most that one of its agents asks for */
};

struct bh_param_value { /* given or defaulted; text as the agent sees it */
    const char *name, *value;
};

struct bh_plan {
    const struct bh_pipeline *pipeline;
    struct bh_param_value *params; /* in order of the document */
    size_t n_params;
    struct bh_plan_agent *agents;
    size_t n_agents;
    size_t *order;              /* topological, ties in order of the document; n_agents entries */
    const bool *source_tainted; /* parallel to pipeline->sources: untrusted, or by what it holds */
    struct bh_plan_box *boxes;
    size_t n_boxes;
    struct bh_str
        *asks; /* what the document asks of the host, for people: "variable ANTHROPIC_API_KEY", "upstream https://…" */
    size_t n_asks;
    struct bh_err **warnings; /* keys of a later version, unused params, optional inputs that nobody makes */
    size_t n_warnings;
    struct bh_arena *arena;
};

struct bh_plan_options {
    const struct bh_param_value *params; /* as given by -p */
    size_t n_params;
    bool lint; /* a required parameter without a value is no error; its {{ }} stay as they are */
    /* What is tainted by its content, which another run knows: paths of `files`, prompts and boxes' files as the plan
     * has them, and names of sources. */
    const char *const *tainted_files, *const *tainted_sources;
    size_t n_tainted_files, n_tainted_sources;
};

/*
 * Makes the plan. Errors (undefined references, cycles with their members, unbound inputs, collisions naming both
 * agents, topologies that cannot hold) go to `errors`, all of them; returns 0 or a negative code: of the first invalid
 * one, else -BH_E_COLLISION, else -BH_E_TRUST. *ret is NULL on failure. `not-supported` keys are warnings here: who
 * runs a plan refuses them.
 */
int bh_plan_make(const struct bh_pipeline *pipeline, const struct bh_plan_options *options, struct bh_plan **ret,
                 struct bh_errlist *errors) BH_MUST_CHECK;
void bh_plan_free(struct bh_plan *plan);

static inline void bh_plan_freep(struct bh_plan **p)
{
    bh_plan_free(*p);
}
#define BH_CLEANUP_PLAN BH_CLEANUP(bh_plan_freep)

/* Adds a -BH_E_NOT_SUPPORTED error for every key of a later version. Returns 0 where there is none. */
int bh_plan_check_supported(const struct bh_plan *plan, struct bh_errlist *errors) BH_MUST_CHECK;

struct bh_val;
/* The JSON of `plan` as docs/bulkhead.1 fixes it. The caller owns it. */
struct bh_val *bh_plan_to_val(const struct bh_plan *plan);
/* A parameter's text as a value of its type; text that is no such value stays text. The caller owns it. */
struct bh_val *bh_param_to_val(enum bh_param_type type, const char *text);
