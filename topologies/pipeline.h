/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline document as a model: what the file says, with positions, after `defaults` were merged into the agents,
 * before parameters are put in. Everything in it lives as long as the pipeline (one arena) and is read-only.
 *
 * Text that may hold {{ }} is kept as written; topologies/plan.h expands it. Every key of the grammar is checked and
 * kept here; keys whose behaviour this version lacks are also listed in `later`.
 */
#pragma once

#include "base/err.h"
#include "topologies/limits.h"

struct bh_node; /* a node of the positioned tree, topologies/yaml_tree.h */

struct bh_pos {
    int line, column; /* 1-based; 0 where unknown */
};

struct bh_str {    /* a text and where it stands */
    const char *s; /* NULL where the key is absent */
    struct bh_pos pos;
};

struct bh_strs {
    struct bh_str *items;
    size_t len, cap;
};

enum bh_topology {
    BH_TOPOLOGY_UNSET,
    BH_TOPOLOGY_AUTO,
    BH_TOPOLOGY_SHARED_BOX,
    BH_TOPOLOGY_PER_AGENT,
    BH_TOPOLOGY_PER_ATTEMPT
};
const char *bh_topology_text(enum bh_topology t); /* "shared-box" */

/* A command: a list is argv as it stands, a string is one item for `/bin/sh -ceu`. */
struct bh_command {
    bool set, is_list;
    struct bh_strs args; /* one item where it is a string */
    struct bh_pos pos;
};

enum bh_param_type { BH_PARAM_STRING, BH_PARAM_INT, BH_PARAM_NUMBER, BH_PARAM_BOOL };
struct bh_param {
    struct bh_str name;
    enum bh_param_type type;
    struct bh_str def; /* default as text, .s NULL: required */
    struct bh_str min, max, pattern, description;
    struct bh_strs allowed; /* `enum` */
};

struct bh_source {
    struct bh_str name;
    struct bh_str file, dir; /* both NULL: --source must give it */
    bool untrusted, private_, mount;
    struct bh_pos pos;
};

struct bh_pair { /* an entry of env, labels, files: name → value */
    struct bh_str name, value;
};
struct bh_pairs {
    struct bh_pair *items;
    size_t len, cap;
};

enum bh_kind { BH_KIND_FILE, BH_KIND_DIR };

struct bh_input {
    struct bh_str name; /* an artifact name or a glob */
    struct bh_str path; /* below /workspace/in; NULL: the name */
    bool optional;
};
struct bh_output {
    struct bh_str name; /* NULL where it is a glob */
    struct bh_str glob; /* NULL where it is a name */
    struct bh_str path; /* relative to /workspace; NULL: out/NAME */
    enum bh_kind kind;
    bool optional;
    int64_t max_size;               /* bytes; -1: none said */
    int64_t max_files;              /* -1: none said */
    const struct bh_node *validate; /* NULL: none */
};

/* Which of the attempts that passed becomes the agent's result. */
enum bh_select { BH_SELECT_FIRST_PASS, BH_SELECT_BEST, BH_SELECT_ALL };

struct bh_attempts {
    int64_t count; /* 1 where absent; with `each` its length */
    enum bh_select select;
    struct bh_str score;   /* relative to /workspace; NULL: none */
    bool order_min;        /* of BEST: the least wins */
    bool stop_losers;      /* of FIRST_PASS: the first to pass wins, and the others are stopped */
    int64_t min_success;   /* 1 where absent: fewer that passed make the agent fail */
    struct bh_pairs *each; /* `count` of them, or NULL */
};

struct bh_timeouts { /* nanoseconds */
    int64_t setup, prepare, run, check, grace;
};

/*
 * `{{ }}`-free canonical text of structured keys that placement only compares; NULL where the key is absent. (`base` of
 * an agent may hold {{ }}.) In an agent with `box:` the `defaults` are not merged into base, network, user and
 * box_limits: what stands there the agent itself said, and the box has its own.
 */
struct bh_traits {
    struct bh_str base;       /* "host", "dir:PATH", … */
    struct bh_str network;    /* "none", "public", "host", or canonical JSON of the map */
    struct bh_str user;       /* "agent", "root" */
    struct bh_str limits;     /* canonical JSON of the limits other than memory, cpus, pids; NULL where there is none */
    struct bh_str box_limits; /* of those the ones a box has once: disk, inodes, nofile; the rest of them (output,
                                 requests, tokens) count per agent */
    struct bh_str crew_limits;        /* canonical JSON of memory, cpus, pids */
    struct bh_limits said;            /* all of them as numbers; where nothing is said 0 */
    int64_t max_requests, max_tokens; /* 0: none said */
};

struct bh_agent {
    struct bh_str name;
    const char *path; /* "stages[1].agents[0]" */
    int stage;        /* index into stages, -1 in an `agents:` document */
    struct bh_command run, setup, prepare, check, brain;
    struct bh_str prompt, prompt_file; /* at most one is set */
    struct bh_str box;
    enum bh_topology topology; /* UNSET where the agent says nothing */
    struct bh_traits traits;
    struct bh_input *inputs;
    size_t n_inputs;
    bool has_inputs; /* `inputs` was written, even if empty */
    struct bh_strs needs;
    bool has_needs;
    struct bh_output *outputs;
    size_t n_outputs;
    struct bh_pairs files, env, labels;
    struct bh_strs secrets, endpoints; /* names of the top-level maps */
    const char **secret_variables;     /* one for each of `secrets`: where `run` finds it */
    struct bh_timeouts timeouts;       /* defaults filled in */
    struct bh_str workdir;
    bool untrusted;
    bool continue_on_failure; /* on_failure: continue */
    enum bh_keep { BH_KEEP_ON_FAILURE, BH_KEEP_ALWAYS, BH_KEEP_NEVER } keep;
    struct bh_attempts attempts;
    bool warm; /* prepare: {warm: true} */
    struct bh_pairs check_files;
    bool check_fresh;             /* check: {box: fresh} */
    struct bh_str check_network;  /* check: {network: …}, as traits.network of one phase; NULL: nothing is said */
    int64_t retries;              /* 0 where absent */
    const struct bh_node *matrix; /* NULL: none */
    const struct bh_node *when, *accept, *gate, *hands;
};

/* Whether it starts from a frozen state and is judged: with several attempts, `prepare` or `check`. */
bool bh_agent_forks(const struct bh_agent *a);
/* Whether its outputs are on the bus as name@N before one attempt's get the plain names. */
bool bh_agent_numbered(const struct bh_agent *a);

/* The most attempts of one agent. */
enum { BH_ATTEMPTS_MAX = 10000 };

struct bh_stage {
    struct bh_str name;
    const char *path;
    const struct bh_node *when, *gate, *for_each, *repeat;
    struct bh_pos pos;
};

struct bh_box_doc { /* boxes.NAME */
    struct bh_str name;
    struct bh_traits traits;
    struct bh_command setup;
    struct bh_pairs files;
};

/* A key that the grammar has and this version cannot do. */
struct bh_later {
    const char *key;  /* "attempts", "sources.NAME.dir" */
    const char *path; /* "stages[0].agents[1].attempts" */
    struct bh_pos pos;
};

struct bh_pipeline {
    const char *file; /* as named in messages */
    struct bh_str name, description;
    enum bh_topology topology; /* AUTO where absent */
    struct bh_traits traits;   /* top level, with `defaults` behind it: what the crew has when nothing else is said */
    struct bh_param *params;
    size_t n_params;
    struct bh_source *sources;
    size_t n_sources;
    struct bh_secret_doc {
        struct bh_str name;
        struct bh_str env, file;   /* exactly one of these and command is set; the file as it is written */
        struct bh_command command; /* a list */
    } * secrets;
    size_t n_secrets;
    struct bh_endpoint {
        struct bh_str name;
        bool tainted;
        struct bh_str upstream;
        struct bh_pairs headers, env; /* with their {{secrets.NAME}} and {{url}} */
        struct bh_strs allow;         /* "POST /v1/messages" */
        int64_t max_parallel;         /* 0: none said */
        bool has_secret;
    } * endpoints;
    size_t n_endpoints;
    struct bh_stage *stages;
    size_t n_stages;         /* 0 in an `agents:` document */
    struct bh_agent *agents; /* all, in order of the document; those of `finally` are not among them */
    size_t n_agents;
    struct bh_agent *finally;
    size_t n_finally;
    struct bh_box_doc *boxes;
    size_t n_boxes;
    int64_t max_parallel; /* 0: none said */
    int64_t max_failures; /* -1: none said */
    bool max_failures_percent;
    int64_t deadline_ns; /* 0: none */
    struct bh_later *later;
    size_t n_later;
    struct bh_arena *arena;
    struct bh_node *root; /* the positioned tree, owned */
};

/* The largest document in bytes. */
#define BH_PIPELINE_MAX_BYTES (4 * 1024 * 1024)
/* How many errors of one document are listed; a last one says that there are more. */
enum { BH_PIPELINE_MAX_ERRORS = 1000 };
/* How many agents a document may have, and how many keys and values `defaults` may bring into them in sum. */
enum { BH_PIPELINE_MAX_AGENTS = 100000, BH_PIPELINE_MAX_INHERITED = 4000000 };

/*
 * Reads a document. `file` names it in messages and is copied. Nothing but `text` is read: files that the document
 * names are not looked at. All errors go to `errors` (syntax: the first only); returns 0, or the negative code of the
 * first error. On failure *ret is NULL. Does not block; takes linear time and memory bounded by the size (budgets on
 * depth, nodes, aliases).
 */
int bh_pipeline_load(const char *file, const char *text, size_t len, struct bh_pipeline **ret,
                     struct bh_errlist *errors) BH_MUST_CHECK;
void bh_pipeline_free(struct bh_pipeline *p); /* NULL is fine */

/*
 * Whether `value` (from the command line, a file of parameters, or the document's default) is one that `param` allows:
 * type, min, max, enum, pattern (a POSIX extended expression that must match the whole value). Else -BH_E_BAD_VALUE.
 */
int bh_param_check(const struct bh_param *param, const char *value, struct bh_err **err) BH_MUST_CHECK;

static inline void bh_pipeline_freep(struct bh_pipeline **p)
{
    bh_pipeline_free(*p);
}
#define BH_CLEANUP_PIPELINE BH_CLEANUP(bh_pipeline_freep)
