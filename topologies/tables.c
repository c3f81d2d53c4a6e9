/* SPDX-License-Identifier: Apache-2.0 */
/* The list of all key tables: what the test walks that holds the JSON Schema to the loader. */
#include "topologies/load_priv.h"

const struct bh_key_table *const bh_key_tables[] = {
    &bh_pipeline_table,  &bh_agent_table,   &bh_defaults_table,      &bh_stage_table,
    &bh_box_table,       &bh_limits_table,  &bh_network_allow_table, &bh_network_phases_table,
    &bh_param_table,     &bh_secret_table,  &bh_endpoint_table,      &bh_source_table,
    &bh_input_table,     &bh_output_table,  &bh_output_glob_table,   &bh_prompt_table,
    &bh_timeout_table,   &bh_retries_table, &bh_attempts_table,      &bh_check_table,
    &bh_prepare_table,   &bh_hands_table,   &bh_for_each_table,      &bh_repeat_table,
    &bh_predicate_table, &bh_accept_table,  &bh_validate_table,      NULL,
};
