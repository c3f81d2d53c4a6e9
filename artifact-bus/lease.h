/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine and a worker tell each other about one execution: the lease (all that is needed to carry it out) and
 * the result. Both are plain structs that own their texts and turn into values for the wire; decoding checks every
 * field, because a worker is another host.
 */
#pragma once

#include "artifact-bus/cas.h"
#include "base/clock.h"
#include "base/id.h"
#include "topologies/limits.h"

struct bh_val;

struct bh_lease_file { /* files, inputs: content that must lie in the box */
    char *path;        /* files: in /workspace; inputs: below /workspace/in */
    struct bh_object object;
    char *name;       /* inputs: artifact name; files: NULL */
    char *provenance; /* inputs: JSON text, a member of in/.provenance.json; files: NULL */
};
/* What an artifact must be before it passes; -1 and an empty list: not asked. Zeroed it lets nothing pass: begin with
 * BH_LEASE_VALIDATE_NOTHING. */
struct bh_lease_validate {
    enum bh_validate_kind {
        BH_VALIDATE_ANY,
        BH_VALIDATE_JSON,
        BH_VALIDATE_JSONL,
        BH_VALIDATE_CSV,
        BH_VALIDATE_TEXT,
        BH_VALIDATE_BINARY,
        BH_VALIDATE_DIR,
        BH_VALIDATE_PATCH,
    } kind;
    int64_t max_size, max_lines, max_files;
    char **paths; /* of a folder or a patch: globs */
    size_t n_paths;
    char **command; /* in a box of its own, without network, over the artifact */
    size_t n_command;
};
#define BH_LEASE_VALIDATE_NOTHING                                                 \
    (struct bh_lease_validate)                                                    \
    {                                                                             \
        .kind = BH_VALIDATE_ANY, .max_size = -1, .max_lines = -1, .max_files = -1 \
    }
struct bh_lease_output {
    char *name, *glob; /* exactly one */
    char *path;        /* relative to /workspace; for a glob the output root, "out" */
    bool optional;
    int64_t max_size;  /* bytes, -1: none */
    int64_t max_files; /* globs */
    struct bh_lease_validate validate;
};
struct bh_lease_gate { /* `accept … validate`: looked at before the agent's box gets its input */
    char *artifact;    /* the name of an input */
    struct bh_lease_validate validate;
};
struct bh_lease_env {
    char *name, *value;
};

/* The ways out of a box; phases in this order in `network`. */
enum bh_net_phase { BH_NET_SETUP, BH_NET_PREPARE, BH_NET_RUN, BH_NET_CHECK, BH_N_NET_PHASES };
struct bh_lease_network {
    enum bh_net_kind { BH_NET_NONE, BH_NET_PUBLIC, BH_NET_HOST, BH_NET_ALLOW } kind;
    char **allow; /* of ALLOW: "host:port", "*.suffix:port" */
    size_t n_allow;
};
struct bh_lease_secret { /* a reference, never the value: whoever needs the value resolves it at the last moment */
    char *variable;      /* in the environment of `run`, NULL in endpoints */
    char *name;
    char *env, *file; /* exactly one of env, file and command */
    char **command;
    size_t n_command;
};
struct bh_lease_endpoint {
    char *name, *upstream;
    struct bh_lease_env *headers; /* values may hold {{secrets.NAME}} */
    size_t n_headers;
    struct bh_lease_secret *secrets; /* those that the headers name */
    size_t n_secrets;
    char **allow; /* "POST /v1/messages" */
    size_t n_allow;
    struct bh_lease_env *env; /* for `run`; values may hold {{url}} */
    size_t n_env;
    int64_t max_parallel; /* over the run; 0: none said */
    bool tainted;         /* tainted agents may have it */
};

struct bh_lease_box {
    char *id;  /* "crew" */
    char *key; /* folder below runs/RUN/boxes; a new one for every incarnation */
    bool shared;
    bool writable_usr;
    char *base;         /* "host", "oci:…", …: as the document has it, for the record */
    char *base_digest;  /* of an image: "sha256:…"; NULL: the base `host` */
    char **base_layers; /* folders below bases/images, newest first; none: the base `host` */
    size_t n_base_layers;
    int64_t agent_uid, agent_gid; /* of an image's user; 0: the usual 1000 */
    struct bh_limits limits;      /* of the whole box; what is not said has a default that the worker fills in */
    bool best_effort;             /* the site allows limits that are only watched */
    bool tainted;                 /* what no gate let in is in it: it holds no power */
    char **layers;                /* frozen layers, newest first; names below runs/RUN/layers */
    size_t n_layers;
    char **snapshots; /* folders below $BULKHEAD_HOME/snapshots, newest first: above the base and below `layers` */
    size_t n_snapshots;
    char **setup; /* boxes.NAME.setup as argv; carried out when the box is made without layers */
    size_t n_setup;
    struct bh_lease_file *files; /* boxes.NAME.files, delivered before that setup */
    size_t n_files;
};

/* The verdict on an attempt, after every process of it is dead. */
struct bh_lease_check {
    char **argv;
    size_t n_argv;               /* 0: none, the exit status of `run` is the verdict */
    struct bh_lease_file *files; /* arrive only now and replace what is there; below /workspace */
    size_t n_files;
    bool fresh;  /* in a new box from the state before `run`, with the declared outputs below /workspace/in */
    char *score; /* of `select: best`: the file, relative to /workspace, that is removed before the check and read after
                    it (without a check: read after `run`); NULL: none */
};

/*
 * What an execution is for. SETUP and PREPARE make a snapshot and no outputs: SETUP carries out `setup` over the base,
 * PREPARE delivers the inputs and carries out `prepare` over the snapshot of the setup. RUN is everything else; in an
 * agent with `setup` in a box of its own it starts from a snapshot and has no `setup` left to do.
 */
enum bh_lease_kind { BH_LEASE_RUN, BH_LEASE_SETUP, BH_LEASE_PREPARE };

struct bh_lease {
    enum bh_lease_kind kind;
    struct bh_run_id run;
    struct bh_instance_id instance;
    int64_t epoch;
    char *agent, *stage; /* stage "" where there is none */
    int attempt, try_;   /* attempt 0: SETUP and PREPARE, which come before the attempts */
    struct bh_lease_box box;
    char **setup, **prepare, **run_argv; /* SETUP carries out `setup` alone, PREPARE `prepare` alone */
    size_t n_setup, n_prepare, n_run;
    bool warm;          /* `prepare` ends as a fork server, and attempts are forks of it */
    char *snapshot_key; /* 64 hex digits. SETUP, PREPARE: what the snapshot is kept under, the address of all that it
                           was made of. RUN: the one of the snapshot that it starts from, NULL where there is none */
    struct bh_lease_check check;
    struct bh_lease_env *env; /* complete: BULKHEAD_*, parameters, the agent's own */
    size_t n_env;
    bool tainted; /* the label of the agent and what it makes; a gate may have let into its box what taints */
    struct bh_lease_network network[BH_N_NET_PHASES];
    char **ranges; /* addresses that the site permits beyond public ones: "10.0.0.0/8" */
    size_t n_ranges;
    struct bh_lease_endpoint *endpoints;
    size_t n_endpoints;
    struct bh_lease_secret *secrets; /* in the environment of `run` alone */
    size_t n_secrets;
    struct bh_lease_gate *gates;
    size_t n_gates;
    int64_t max_requests, max_tokens; /* of all endpoints of the attempt; 0: none said */
    char *user, *workdir;
    char *prompt;      /* text or NULL */
    char *params_json; /* /workspace/params.json */
    char *needs_json;  /* /workspace/needs.json or NULL */
    struct bh_lease_file *files, *inputs;
    size_t n_files, n_inputs;
    struct bh_lease_output *outputs;
    size_t n_outputs;
    int64_t setup_ns, prepare_ns, run_ns, check_ns, grace_ns; /* timeouts */
    struct bh_limits limits; /* of this agent: in a shared box inside those of the box; OUTPUT */
    enum bh_lease_keep { BH_LEASE_KEEP_ON_FAILURE, BH_LEASE_KEEP_ALWAYS, BH_LEASE_KEEP_NEVER } keep;
};

void bh_lease_fini(struct bh_lease *lease);                                                 /* zeroes it */
const struct bh_lease_file *bh_lease_input(const struct bh_lease *lease, const char *name); /* borrowed, or NULL */
enum bh_validate_kind bh_validate_kind_parse(const char *text); /* "json"; ANY where it is none, or NULL */
const char *bh_net_phase_text(enum bh_net_phase phase);         /* "setup" */
struct bh_val *bh_lease_to_val(const struct bh_lease *lease);
int bh_lease_from_val(const struct bh_val *v, struct bh_lease *ret, struct bh_err **err) BH_MUST_CHECK;

struct bh_result_output {
    char *name;
    struct bh_object object;
};
enum bh_outcome { BH_OUTCOME_SUCCEEDED, BH_OUTCOME_FAILED, BH_OUTCOME_CANCELLED, BH_OUTCOME_LOST };

struct bh_result {
    struct bh_instance_id instance;
    int64_t epoch;
    enum bh_outcome outcome;
    char *reason;  /* "timeout(run)"; NULL where it succeeded */
    char *detail;  /* for people: "declared output 'x' is missing; /workspace/out holds: y.csv" ; never text an agent
                      wrote, except names, escaped */
    int exit_code; /* -1 where it did not exit */
    int signal;    /* 0 where there was none */
    struct bh_wall started, ended;
    struct bh_result_output *outputs; /* of a failed attempt too: what was collected before the check refused it */
    size_t n_outputs;
    char *kept_box;                                    /* path of the kept box below home, or NULL */
    int64_t cpu_ms, max_rss_bytes, disk_bytes, box_ms; /* disk_bytes -1: nobody has looked */
    int64_t output_dropped;                            /* bytes of stdout and stderr beyond the output limit */
    int64_t requests, tokens_in, tokens_out;           /* of endpoints */
    char *limits;         /* what held the limits: "memory=cgroup-v2 disk=watchdog …", NULL where it never ran */
    char *evidence;       /* JSON object: what is known of a collision or a wedge (docs/watch.md), or NULL */
    char *snapshot;       /* digest of what it started from (RUN) or made, or NULL */
    bool snapshot_reused; /* SETUP, PREPARE: it lay there under its key; nothing was run */
    char **snapshots;     /* SETUP, PREPARE: box.snapshots of the leases that start from it, newest first */
    size_t n_snapshots;
    bool has_score; /* the score file held one finite decimal */
    double score;
    bool passed; /* RUN: the check passed, or without one `run` did */
};
void bh_result_fini(struct bh_result *r);
struct bh_val *bh_result_to_val(const struct bh_result *r);
int bh_result_from_val(const struct bh_val *v, struct bh_result *ret, struct bh_err **err) BH_MUST_CHECK;
