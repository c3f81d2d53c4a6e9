/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's parts, by subject: for load_*.c and tables.c alone. */
#pragma once

#include "topologies/read.h"
#include "topologies/scalar.h"

struct bh_val;

/* What a document is read into before its parts are put in order: maps and lists that need each other. */
struct bh_document {
    struct bh_node *defaults, *stages, *agents, *finally;
};

extern const struct bh_key_table bh_pipeline_table, bh_agent_table, bh_defaults_table, bh_stage_table, bh_box_table,
    bh_limits_table, bh_network_allow_table, bh_network_phases_table, bh_param_table, bh_secret_table,
    bh_endpoint_table, bh_source_table, bh_input_table, bh_output_table, bh_output_glob_table, bh_prompt_table,
    bh_timeout_table, bh_retries_table, bh_attempts_table, bh_check_table, bh_prepare_table, bh_hands_table,
    bh_for_each_table, bh_repeat_table, bh_predicate_table, bh_accept_table, bh_validate_table;

/*
 * load.c: the steps of bh_pipeline_load, for whoever wants the tree of a document with errors as well. init makes r->p
 * with its arena, which the caller frees with bh_pipeline_free; text reads into it, as much as there is.
 */
void bh_reader_init(struct bh_reader *r, const char *file, struct bh_errlist *errors);
void bh_load_text(struct bh_reader *r, const char *text, size_t len);
void bh_load_document(struct bh_reader *r, struct bh_node *root);
void bh_reader_fini(struct bh_reader *r);

/* load_params.c, load_world.c, load_box.c: the maps at the top level. */
bh_read_fn bh_load_params, bh_load_secrets, bh_load_endpoints, bh_load_sources, bh_load_boxes;

/* load_agent.c: a list of agents, appended to *agents. `stage` is -1 where there are none. */
struct bh_agents {
    struct bh_agent **items; /* the pipeline's fields */
    size_t *len, *cap;
};
void bh_load_agents(struct bh_reader *r, struct bh_node *list, struct bh_node *defaults, int stage,
                    const struct bh_agents *into);
/* load_stage.c */
void bh_load_stages(struct bh_reader *r, struct bh_node *stages, struct bh_node *defaults,
                    const struct bh_agents *into);
/* Reads `defaults` as an agent of which only some keys are there. */
void bh_load_defaults(struct bh_reader *r, struct bh_node *defaults, struct bh_agent *ret);

/* load_defaults.c: the agent's map with what it lacks from `defaults` (NULL: none). */
struct bh_node *bh_merge_defaults(struct bh_reader *r, struct bh_node *agent, struct bh_node *defaults);

/* load_refs.c: names that must be unique, and names that must exist. */
void bh_check_refs(struct bh_reader *r, const struct bh_node *root);

/* load_box.c. The field is a struct bh_traits, or a struct bh_pairs. */
bh_read_fn bh_read_base_top, bh_read_base_agent, bh_read_network, bh_read_user, bh_read_limits;
bh_read_fn bh_read_files, bh_read_files_top;
/* A network of one phase as a value; NULL where it is no good. The caller owns it. */
struct bh_val *bh_read_network_value(struct bh_reader *r, struct bh_node *n);
/* As struct bh_traits has it. */
struct bh_str bh_read_network_text(struct bh_reader *r, const struct bh_node *n, const struct bh_val *v);

/* load_io.c. The field is a struct bh_agent. */
bh_read_fn bh_read_inputs, bh_read_outputs, bh_read_needs;

/* load_time.c. The field is a struct bh_timeouts, and the agent's `retries`. */
bh_read_fn bh_read_timeout, bh_read_retries;

/* load_attempts.c. The field is a struct bh_agent. */
bh_read_fn bh_read_attempts, bh_read_check, bh_read_prepare, bh_read_matrix;

/* load_gate.c. The field is a `const struct bh_node *`. */
bh_read_fn bh_read_predicate, bh_read_gate, bh_read_accept, bh_read_validate;

/* load_agent.c. The field is a struct bh_pairs. */
bh_read_fn bh_read_env;

/* Positive integers of the engine: large enough for everything, small enough to add up. */
enum { BH_COUNT_MAX = 1000000000 };
