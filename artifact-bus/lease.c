/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease as tables: which fields it has, of what kind, within which limits (shape_priv.h does the rest).
 *
 * A field added here is written, read, checked and freed at once. A lease is believed only as far as these tables go:
 * paths stay below their folders and names are names, whoever sent it.
 */
#include "artifact-bus/lease.h"

#include <limits.h>

#include "artifact-bus/lease_priv.h"
#include "artifact-bus/text_rules_priv.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/names.h"

enum {
    ARG_MAX_BYTES = 131072, /* MAX_ARG_STRLEN of the kernel: one argument or variable */
    ARGS_MAX = 65536,
    ENV_MAX = 16384,
    FILES_MAX = 100000,
    LAYERS_MAX = 1000,
    COUNT_MAX = 1000000, /* attempts and tries */
    ENDPOINTS_MAX = 1000,
    ALLOW_MAX = 65536, /* entries of an allow-list */
};
#define TEXT_MAX (4 * 1024 * 1024) /* what lies in the box as a file of its own: prompt, parameters, needs */

/* --- objects --- */

static const struct bh_field object_fields[] = {
    FIELD(bh_object, digest, .kind = BH_FIELD_DIGEST),
    FIELD(bh_object, size, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_object, executable, .kind = BH_FIELD_BOOL),
};
const struct bh_shape bh_object_shape = SHAPE("object", bh_object, object_fields);

/* --- files and inputs: one struct, two shapes --- */

static const struct bh_field file_fields[] = {
    FIELD(bh_lease_file, path, .kind = BH_FIELD_TEXT, .max = BH_PATH_TEXT_MAX, .problem = bh_rule_path),
    FIELD(bh_lease_file, object, .kind = BH_FIELD_STRUCT, .sub = &bh_object_shape),
};
static const struct bh_shape file_shape = SHAPE("file", bh_lease_file, file_fields);

static const struct bh_field input_fields[] = {
    FIELD(bh_lease_file, path, .kind = BH_FIELD_TEXT, .max = BH_PATH_TEXT_MAX, .problem = bh_rule_path),
    FIELD(bh_lease_file, object, .kind = BH_FIELD_STRUCT, .sub = &bh_object_shape),
    FIELD(bh_lease_file, name, .kind = BH_FIELD_TEXT, .max = BH_ARTIFACT_MAX, .problem = bh_published_name_problem),
    FIELD(bh_lease_file, provenance, .kind = BH_FIELD_TEXT, .min = 1, .max = TEXT_MAX),
};
static const struct bh_shape input_shape = SHAPE("input", bh_lease_file, input_fields);

/* --- what an artifact must be --- */

static const char *const validate_words[] = {
    [BH_VALIDATE_ANY] = "any", [BH_VALIDATE_JSON] = "json",   [BH_VALIDATE_JSONL] = "jsonl",
    [BH_VALIDATE_CSV] = "csv", [BH_VALIDATE_TEXT] = "text",   [BH_VALIDATE_BINARY] = "binary",
    [BH_VALIDATE_DIR] = "dir", [BH_VALIDATE_PATCH] = "patch", NULL,
};

enum bh_validate_kind bh_validate_kind_parse(const char *text)
{
    for (size_t i = 0; text && validate_words[i]; i++) {
        if (bh_streq(validate_words[i], text))
            return (enum bh_validate_kind)i;
    }
    return BH_VALIDATE_ANY;
}

static const struct bh_field validate_fields[] = {
    FIELD(bh_lease_validate, kind, .kind = BH_FIELD_WORD, .words = validate_words),
    FIELD(bh_lease_validate, max_size, .kind = BH_FIELD_INT64, .min = -1, .max = INT64_MAX),
    FIELD(bh_lease_validate, max_lines, .kind = BH_FIELD_INT64, .min = -1, .max = INT64_MAX),
    FIELD(bh_lease_validate, max_files, .kind = BH_FIELD_INT64, .min = -1, .max = INT64_MAX),
    LIST(bh_lease_validate, paths, n_paths, .kind = BH_FIELD_TEXTS, .max = BH_PATH_TEXT_MAX, .max_items = ALLOW_MAX),
    LIST(bh_lease_validate, command, n_command, .kind = BH_FIELD_TEXTS, .max = ARG_MAX_BYTES, .max_items = ARGS_MAX),
};
static const struct bh_shape validate_shape = SHAPE("validation", bh_lease_validate, validate_fields);

static const struct bh_field gate_fields[] = {
    FIELD(bh_lease_gate, artifact, .kind = BH_FIELD_TEXT, .max = BH_ARTIFACT_MAX, .problem = bh_published_name_problem),
    FIELD(bh_lease_gate, validate, .kind = BH_FIELD_STRUCT, .sub = &validate_shape),
};
static const struct bh_shape gate_shape = SHAPE("gate", bh_lease_gate, gate_fields);

/* --- outputs --- */

static const char *output_problem(const void *s)
{
    const struct bh_lease_output *o = s;
    return !o->name == !o->glob ? "has not exactly one of name and glob" : NULL;
}

static const struct bh_field output_fields[] = {
    FIELD(bh_lease_output, name, .kind = BH_FIELD_OPT_TEXT, .max = BH_ARTIFACT_MAX,
          .problem = bh_artifact_name_problem),
    FIELD(bh_lease_output, glob, .kind = BH_FIELD_OPT_TEXT, .max = BH_ARTIFACT_MAX,
          .problem = bh_artifact_glob_problem),
    FIELD(bh_lease_output, path, .kind = BH_FIELD_TEXT, .max = BH_PATH_TEXT_MAX, .problem = bh_rule_path),
    FIELD(bh_lease_output, optional, .kind = BH_FIELD_BOOL),
    FIELD(bh_lease_output, max_size, .kind = BH_FIELD_INT64, .min = -1, .max = INT64_MAX),
    FIELD(bh_lease_output, max_files, .kind = BH_FIELD_INT64, .min = -1, .max = INT64_MAX),
    FIELD(bh_lease_output, validate, .kind = BH_FIELD_STRUCT, .sub = &validate_shape),
};
static const struct bh_shape output_shape = SHAPE("output", bh_lease_output, output_fields, .problem = output_problem);

/* --- environment --- */

static const struct bh_field env_fields[] = {
    FIELD(bh_lease_env, name, .kind = BH_FIELD_TEXT, .min = 1, .max = ARG_MAX_BYTES, .problem = bh_rule_env_name),
    FIELD(bh_lease_env, value, .kind = BH_FIELD_TEXT, .max = ARG_MAX_BYTES),
};
static const struct bh_shape env_shape = SHAPE("variable", bh_lease_env, env_fields);

/* --- ways out --- */

static const char *const network_words[] = {
    [BH_NET_NONE] = "none", [BH_NET_PUBLIC] = "public", [BH_NET_HOST] = "host", [BH_NET_ALLOW] = "allow", NULL,
};

static const char *network_problem(const void *s)
{
    const struct bh_lease_network *n = s;
    return n->kind != BH_NET_ALLOW && n->n_allow > 0 ? "has an allow-list that is not asked for" : NULL;
}

static const struct bh_field network_fields[] = {
    FIELD(bh_lease_network, kind, .kind = BH_FIELD_WORD, .words = network_words),
    LIST(bh_lease_network, allow, n_allow, .kind = BH_FIELD_TEXTS, .min = 1, .max = BH_NAME_MAX * 2,
         .max_items = ALLOW_MAX),
};
static const struct bh_shape network_shape =
    SHAPE("network", bh_lease_network, network_fields, .problem = network_problem);

static const char *secret_problem(const void *s)
{
    const struct bh_lease_secret *secret = s;
    int ways = (secret->env ? 1 : 0) + (secret->file ? 1 : 0) + (secret->n_command > 0 ? 1 : 0);
    return ways != 1 ? "has not exactly one of env, file and command" : NULL;
}

static const struct bh_field secret_fields[] = {
    FIELD(bh_lease_secret, variable, .kind = BH_FIELD_OPT_TEXT, .min = 1, .max = BH_NAME_MAX,
          .problem = bh_rule_env_name),
    FIELD(bh_lease_secret, name, .kind = BH_FIELD_TEXT, .min = 1, .max = BH_NAME_MAX),
    FIELD(bh_lease_secret, env, .kind = BH_FIELD_OPT_TEXT, .min = 1, .max = BH_PATH_TEXT_MAX,
          .problem = bh_rule_env_name),
    FIELD(bh_lease_secret, file, .kind = BH_FIELD_OPT_TEXT, .min = 1, .max = BH_PATH_TEXT_MAX),
    LIST(bh_lease_secret, command, n_command, .kind = BH_FIELD_TEXTS, .max = ARG_MAX_BYTES, .max_items = ARGS_MAX),
};
static const struct bh_shape secret_shape = SHAPE("secret", bh_lease_secret, secret_fields, .problem = secret_problem);

static const struct bh_field endpoint_fields[] = {
    FIELD(bh_lease_endpoint, name, .kind = BH_FIELD_TEXT, .min = 1, .max = BH_NAME_MAX),
    FIELD(bh_lease_endpoint, upstream, .kind = BH_FIELD_TEXT, .min = 1, .max = BH_PATH_TEXT_MAX),
    LIST(bh_lease_endpoint, headers, n_headers, .kind = BH_FIELD_STRUCTS, .sub = &env_shape,
         .max_items = ENDPOINTS_MAX),
    LIST(bh_lease_endpoint, secrets, n_secrets, .kind = BH_FIELD_STRUCTS, .sub = &secret_shape,
         .max_items = ENDPOINTS_MAX),
    LIST(bh_lease_endpoint, allow, n_allow, .kind = BH_FIELD_TEXTS, .min = 1, .max = BH_PATH_TEXT_MAX,
         .max_items = ALLOW_MAX),
    LIST(bh_lease_endpoint, env, n_env, .kind = BH_FIELD_STRUCTS, .sub = &env_shape, .max_items = ENV_MAX),
    FIELD(bh_lease_endpoint, max_parallel, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease_endpoint, tainted, .kind = BH_FIELD_BOOL),
};
static const struct bh_shape endpoint_shape = SHAPE("endpoint", bh_lease_endpoint, endpoint_fields);

/* One line for each phase. */
#define NETWORK(name, phase)                                                                            \
    {                                                                                                   \
        .key = name, .kind = BH_FIELD_STRUCT, .at = offsetof(struct bh_lease, network[BH_NET_##phase]), \
        .sub = &network_shape                                                                           \
    }

/* --- limits --- */

enum { ID_MAX = 65535 }; /* of an image's user: what a range of ids holds */

#define LIMIT(name, which)                                                                                            \
    {                                                                                                                 \
        .key = name, .kind = BH_FIELD_INT64, .at = offsetof(struct bh_limits, of[BH_LIMIT_##which]), .max = INT64_MAX \
    }

static const char *limits_problem(const void *s)
{
    const struct bh_limits *l = s;
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (l->asked & 1u << i && l->of[i] == 0)
            return "asks for a limit that it does not give";
    }
    return NULL;
}

static const struct bh_field limits_fields[] = {
    LIMIT("memory", MEMORY), LIMIT("cpus", CPUS),
    LIMIT("pids", PIDS),     LIMIT("disk", DISK),
    LIMIT("inodes", INODES), LIMIT("nofile", NOFILE),
    LIMIT("output", OUTPUT), FIELD(bh_limits, asked, .kind = BH_FIELD_INT, .max = (1 << BH_N_LIMITS) - 1),
};
static const struct bh_shape limits_shape = SHAPE("limits", bh_limits, limits_fields, .problem = limits_problem);

/* --- the box --- */

static const struct bh_field box_fields[] = {
    FIELD(bh_lease_box, id, .kind = BH_FIELD_TEXT, .min = 1, .max = BH_NAME_MAX),
    FIELD(bh_lease_box, key, .kind = BH_FIELD_TEXT, .max = BH_NAME_MAX, .problem = bh_rule_segment),
    FIELD(bh_lease_box, shared, .kind = BH_FIELD_BOOL),
    FIELD(bh_lease_box, writable_usr, .kind = BH_FIELD_BOOL),
    FIELD(bh_lease_box, base, .kind = BH_FIELD_TEXT, .min = 1, .max = BH_PATH_TEXT_MAX),
    FIELD(bh_lease_box, base_digest, .kind = BH_FIELD_OPT_TEXT, .max = BH_DIGEST_TEXT),
    LIST(bh_lease_box, base_layers, n_base_layers, .kind = BH_FIELD_TEXTS, .max = BH_PATH_TEXT_MAX,
         .max_items = LAYERS_MAX, .problem = bh_rule_path),
    FIELD(bh_lease_box, agent_uid, .kind = BH_FIELD_INT64, .max = ID_MAX),
    FIELD(bh_lease_box, agent_gid, .kind = BH_FIELD_INT64, .max = ID_MAX),
    FIELD(bh_lease_box, limits, .kind = BH_FIELD_STRUCT, .sub = &limits_shape),
    FIELD(bh_lease_box, best_effort, .kind = BH_FIELD_BOOL),
    FIELD(bh_lease_box, tainted, .kind = BH_FIELD_BOOL),
    LIST(bh_lease_box, layers, n_layers, .kind = BH_FIELD_TEXTS, .max = BH_NAME_MAX, .max_items = LAYERS_MAX,
         .problem = bh_rule_segment),
    LIST(bh_lease_box, snapshots, n_snapshots, .kind = BH_FIELD_TEXTS, .max = BH_NAME_MAX, .max_items = LAYERS_MAX,
         .problem = bh_rule_segment),
    LIST(bh_lease_box, setup, n_setup, .kind = BH_FIELD_TEXTS, .max = ARG_MAX_BYTES, .max_items = ARGS_MAX),
    LIST(bh_lease_box, files, n_files, .kind = BH_FIELD_STRUCTS, .sub = &file_shape, .max_items = FILES_MAX),
};
static const struct bh_shape box_shape = SHAPE("box", bh_lease_box, box_fields);

/* --- the check --- */

static const struct bh_field check_fields[] = {
    LIST(bh_lease_check, argv, n_argv, .kind = BH_FIELD_TEXTS, .max = ARG_MAX_BYTES, .max_items = ARGS_MAX),
    LIST(bh_lease_check, files, n_files, .kind = BH_FIELD_STRUCTS, .sub = &file_shape, .max_items = FILES_MAX),
    FIELD(bh_lease_check, fresh, .kind = BH_FIELD_BOOL),
    FIELD(bh_lease_check, score, .kind = BH_FIELD_OPT_TEXT, .max = BH_PATH_TEXT_MAX, .problem = bh_rule_path),
};
static const struct bh_shape check_shape = SHAPE("check", bh_lease_check, check_fields);

/* --- the lease --- */

static const char *const keep_words[] = {
    [BH_LEASE_KEEP_ON_FAILURE] = "on-failure",
    [BH_LEASE_KEEP_ALWAYS] = "always",
    [BH_LEASE_KEEP_NEVER] = "never",
    NULL,
};

static const char *const kind_words[] = {
    [BH_LEASE_RUN] = "run",
    [BH_LEASE_SETUP] = "setup",
    [BH_LEASE_PREPARE] = "prepare",
    NULL,
};

static const char *lease_problem(const void *s)
{
    const struct bh_lease *l = s;
    if (strncmp(l->instance.s, l->run.s, BH_ID_LEN) != 0)
        return "names an instance of another run";
    if (l->kind == BH_LEASE_RUN && l->attempt == 0)
        return "has no number of an attempt";
    if (l->kind != BH_LEASE_RUN && !l->snapshot_key)
        return "has no key for its snapshot";
    size_t commands = l->kind == BH_LEASE_SETUP ? l->n_setup : l->kind == BH_LEASE_PREPARE ? l->n_prepare : l->n_run;
    return commands == 0 ? "has no command" : NULL;
}

static const struct bh_field lease_fields[] = {
    FIELD(bh_lease, kind, .kind = BH_FIELD_WORD, .words = kind_words),
    FIELD(bh_lease, run, .kind = BH_FIELD_CHARS, .max = BH_ID_LEN, .problem = bh_rule_run_id),
    FIELD(bh_lease, instance, .kind = BH_FIELD_CHARS, .max = BH_INSTANCE_LEN, .problem = bh_rule_instance_id),
    FIELD(bh_lease, epoch, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease, agent, .kind = BH_FIELD_TEXT, .max = BH_NAME_MAX, .problem = bh_rule_agent),
    FIELD(bh_lease, stage, .kind = BH_FIELD_TEXT, .max = BH_NAME_MAX, .problem = bh_rule_agent_or_empty),
    FIELD(bh_lease, attempt, .kind = BH_FIELD_INT, .max = COUNT_MAX),
    FIELD(bh_lease, try_, .kind = BH_FIELD_INT, .min = 1, .max = COUNT_MAX),
    FIELD(bh_lease, box, .kind = BH_FIELD_STRUCT, .sub = &box_shape),
    LIST(bh_lease, setup, n_setup, .kind = BH_FIELD_TEXTS, .max = ARG_MAX_BYTES, .max_items = ARGS_MAX),
    LIST(bh_lease, prepare, n_prepare, .kind = BH_FIELD_TEXTS, .max = ARG_MAX_BYTES, .max_items = ARGS_MAX),
    LIST(bh_lease, run_argv, n_run, .kind = BH_FIELD_TEXTS, .max = ARG_MAX_BYTES, .max_items = ARGS_MAX),
    FIELD(bh_lease, warm, .kind = BH_FIELD_BOOL),
    FIELD(bh_lease, snapshot_key, .kind = BH_FIELD_OPT_TEXT, .max = BH_NAME_MAX, .problem = bh_rule_snapshot_key),
    FIELD(bh_lease, check, .kind = BH_FIELD_STRUCT, .sub = &check_shape),
    LIST(bh_lease, env, n_env, .kind = BH_FIELD_STRUCTS, .sub = &env_shape, .max_items = ENV_MAX),
    FIELD(bh_lease, tainted, .kind = BH_FIELD_BOOL),
    NETWORK("network_setup", SETUP),
    NETWORK("network_prepare", PREPARE),
    NETWORK("network_run", RUN),
    NETWORK("network_check", CHECK),
    LIST(bh_lease, ranges, n_ranges, .kind = BH_FIELD_TEXTS, .min = 1, .max = BH_NAME_MAX, .max_items = ALLOW_MAX),
    LIST(bh_lease, endpoints, n_endpoints, .kind = BH_FIELD_STRUCTS, .sub = &endpoint_shape,
         .max_items = ENDPOINTS_MAX),
    LIST(bh_lease, secrets, n_secrets, .kind = BH_FIELD_STRUCTS, .sub = &secret_shape, .max_items = ENDPOINTS_MAX),
    LIST(bh_lease, gates, n_gates, .kind = BH_FIELD_STRUCTS, .sub = &gate_shape, .max_items = FILES_MAX),
    FIELD(bh_lease, max_requests, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease, max_tokens, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease, user, .kind = BH_FIELD_TEXT, .min = 1, .max = BH_NAME_MAX),
    FIELD(bh_lease, workdir, .kind = BH_FIELD_TEXT, .min = 1, .max = BH_PATH_TEXT_MAX),
    FIELD(bh_lease, prompt, .kind = BH_FIELD_OPT_TEXT, .max = TEXT_MAX),
    FIELD(bh_lease, params_json, .kind = BH_FIELD_TEXT, .min = 1, .max = TEXT_MAX),
    FIELD(bh_lease, needs_json, .kind = BH_FIELD_OPT_TEXT, .min = 1, .max = TEXT_MAX),
    LIST(bh_lease, files, n_files, .kind = BH_FIELD_STRUCTS, .sub = &file_shape, .max_items = FILES_MAX),
    LIST(bh_lease, inputs, n_inputs, .kind = BH_FIELD_STRUCTS, .sub = &input_shape, .max_items = FILES_MAX),
    LIST(bh_lease, outputs, n_outputs, .kind = BH_FIELD_STRUCTS, .sub = &output_shape, .max_items = BH_OUTPUTS_MAX),
    FIELD(bh_lease, setup_ns, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease, prepare_ns, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease, run_ns, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease, check_ns, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease, grace_ns, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_lease, limits, .kind = BH_FIELD_STRUCT, .sub = &limits_shape),
    FIELD(bh_lease, keep, .kind = BH_FIELD_WORD, .words = keep_words),
};
static const struct bh_shape lease_shape = SHAPE("lease", bh_lease, lease_fields, .problem = lease_problem);

const struct bh_lease_file *bh_lease_input(const struct bh_lease *lease, const char *name)
{
    for (size_t i = 0; i < lease->n_inputs; i++) {
        if (bh_streq(lease->inputs[i].name, name))
            return &lease->inputs[i];
    }
    return NULL;
}

const char *bh_net_phase_text(enum bh_net_phase phase)
{
    static const char *const words[] = {
        [BH_NET_SETUP] = "setup", [BH_NET_PREPARE] = "prepare", [BH_NET_RUN] = "run", [BH_NET_CHECK] = "check"};
    return words[phase];
}

void bh_lease_fini(struct bh_lease *lease)
{
    bh_shape_fini(&lease_shape, lease);
}

struct bh_val *bh_lease_to_val(const struct bh_lease *lease)
{
    return bh_shape_to_val(&lease_shape, lease);
}

int bh_lease_from_val(const struct bh_val *v, struct bh_lease *ret, struct bh_err **err)
{
    struct bh_lease lease = {0};
    int rc = bh_shape_from_val(&lease_shape, v, &lease, err);
    if (rc == 0)
        *ret = lease;
    return rc;
}
