/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a lease, part by part. Everything that an agent finds in its box is decided here; the worker only carries it
 * out. */
#include "scheduler/dispatch/lease_make.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "scheduler/dispatch/attempt_text.h"
#include "scheduler/dispatch/images.h"
#include "scheduler/dispatch/lease_endpoints.h"
#include "scheduler/dispatch/lease_gates.h"
#include "scheduler/dispatch/lease_inputs.h"
#include "scheduler/dispatch/lease_reach.h"
#include "scheduler/dispatch/lease_secrets.h"
#include "scheduler/dispatch/snapshot_key.h"
#include "scheduler/dispatch/submission.h"

struct maker {
    const struct bh_live_run *run;
    const struct bh_plan *plan;
    const struct bh_plan_agent *agent;
    const struct bh_lease_order *order;
    struct bh_lease *lease;
    struct bh_image image; /* no layers: the base `host` */
};

static char **copy_texts(const char *const *items, size_t n)
{
    char **copy = bh_calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = bh_strdup(items[i]);
    return copy;
}

static char *json_text(const struct bh_val *v)
{
    struct bh_buf buf = BH_BUF_INIT;
    bh_json_format(v, &buf);
    return bh_buf_take(&buf);
}

/* Whether attempts start from what was made once, or this is what makes it. */
static bool forks(const struct maker *m)
{
    return m->agent->forks;
}

static bool is_run(const struct maker *m)
{
    return m->order->kind == BH_EXECUTION_RUN;
}

/* A text of the plan as this attempt has it. */
static char *own_text(const struct maker *m, const char *text)
{
    return forks(m) && is_run(m) ? bh_attempt_text(text, m->order->attempt) : bh_strdup(text);
}

static char **own_texts(const struct maker *m, const char *const *items, size_t n)
{
    char **copy = bh_calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = own_text(m, items[i]);
    return copy;
}

/* --- environment --- */

static void set_env(struct bh_lease *lease, struct bh_map *index, const char *name, const char *value)
{
    uintptr_t at = (uintptr_t)bh_map_get(index, name);
    if (at > 0) { /* the document's own value wins over ours */
        bh_free(lease->env[at - 1].value);
        lease->env[at - 1].value = bh_strdup(value);
        return;
    }
    lease->env = bh_realloc_array(lease->env, lease->n_env + 1, sizeof(*lease->env));
    lease->env[lease->n_env++] = (struct bh_lease_env){.name = bh_strdup(name), .value = bh_strdup(value)};
    bh_map_put(index, name, (void *)(uintptr_t)lease->n_env);
}

/* "pages-per-day" → "BULKHEAD_PARAM_PAGES_PER_DAY". */
static char *env_name(const char *prefix, const char *name)
{
    struct bh_buf buf = BH_BUF_INIT;
    bh_buf_adds(&buf, prefix);
    for (const char *p = name; *p; p++)
        bh_buf_addc(&buf, *p == '-' ? '_' : (*p >= 'a' && *p <= 'z') ? (char)(*p - 'a' + 'A') : *p);
    return bh_buf_take(&buf);
}

/* Of a tainted box an agent is told only what its document puts there. */
static bool knows_param(const struct maker *m, const char *name)
{
    bool knows = m->plan->boxes[m->agent->box].label != BH_TAINTED;
    for (size_t i = 0; !knows && i < m->agent->n_params; i++)
        knows = bh_streq(m->agent->params[i], name);
    return knows;
}

static void set_params_env(const struct maker *m, struct bh_map *index)
{
    for (size_t i = 0; i < m->plan->n_params; i++) {
        if (!knows_param(m, m->plan->params[i].name))
            continue;
        BH_CLEANUP_FREE char *name = env_name("BULKHEAD_PARAM_", m->plan->params[i].name);
        set_env(m->lease, index, name, m->plan->params[i].value);
    }
}

/* Of an image: in the place of our defaults, below everything that is about this run. */
static void set_image_env(const struct maker *m, struct bh_map *index)
{
    for (size_t i = 0; i < m->image.n_env; i++) {
        const char *eq = strchr(m->image.env[i], '=');
        BH_CLEANUP_FREE char *name = bh_strndup(m->image.env[i], (size_t)(eq - m->image.env[i]));
        if (!bh_starts_with(name, "BULKHEAD_"))
            set_env(m->lease, index, name, eq + 1);
    }
}

/*
 * What a setup or preparation makes may be found by another run, and a setup by another agent: it is told neither who
 * it is made for nor when.
 */
static void set_identity_env(const struct maker *m, struct bh_map *index)
{
    struct bh_lease *lease = m->lease;
    char number[BH_UNIT_TEXT];
    if (lease->kind != BH_LEASE_SETUP) {
        set_env(lease, index, "BULKHEAD_AGENT", lease->agent);
        set_env(lease, index, "BULKHEAD_STAGE", lease->stage);
    }
    if (lease->kind != BH_LEASE_RUN)
        return;
    set_env(lease, index, "BULKHEAD_RUN", lease->run.s);
    set_env(lease, index, "BULKHEAD_INSTANCE", lease->instance.s);
    snprintf(number, sizeof(number), "%d", lease->attempt);
    set_env(lease, index, "BULKHEAD_ATTEMPT", number);
    snprintf(number, sizeof(number), "%d", lease->try_);
    set_env(lease, index, "BULKHEAD_TRY", number);
}

static void set_own_env(const struct maker *m, struct bh_map *index, const struct bh_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        BH_CLEANUP_FREE char *value = own_text(m, pairs[i].value.s);
        set_env(m->lease, index, pairs[i].name.s, value);
    }
}

/* {{attempt}} in a value is known to attempts alone: what is made once does not have such a variable. */
static void set_agent_env(const struct maker *m, struct bh_map *index)
{
    const struct bh_plan_agent *a = m->agent;
    for (size_t i = 0; i < a->n_env; i++) {
        if (is_run(m) || !strstr(a->env[i].value.s, "{{"))
            set_own_env(m, index, &a->env[i], 1);
    }
    if (is_run(m) && a->each)
        set_own_env(m, index, a->each[m->order->attempt - 1], a->doc->attempts.each[m->order->attempt - 1].len);
}

static void fill_env(const struct maker *m)
{
    struct bh_lease *lease = m->lease;
    BH_CLEANUP_MAP struct bh_map *index = bh_map_new(NULL);
    set_env(lease, index, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    set_env(lease, index, "LANG", "C.UTF-8");
    set_env(lease, index, "TMPDIR", "/tmp");
    set_image_env(m, index);
    set_env(lease, index, "HOME", bh_streq(lease->user, "root") ? "/root" : "/home/agent");
    set_identity_env(m, index);
    if (lease->prompt)
        set_env(lease, index, "BULKHEAD_PROMPT_FILE", "/workspace/prompt.md");
    set_params_env(m, index);
    set_agent_env(m, index);
}

/* --- params.json, needs.json --- */

static void fill_params(const struct maker *m)
{
    const struct bh_pipeline *p = m->plan->pipeline;
    BH_CLEANUP_VAL struct bh_val *map = bh_val_map();
    for (size_t i = 0; i < m->plan->n_params; i++) {
        enum bh_param_type type = i < p->n_params ? p->params[i].type : BH_PARAM_STRING;
        if (!knows_param(m, m->plan->params[i].name))
            continue;
        bh_val_set(map, m->plan->params[i].name, bh_param_to_val(type, m->plan->params[i].value));
    }
    m->lease->params_json = json_text(map);
}

/* An empty list where there is nothing to say: an agent may always read the file. */
static void fill_needs(const struct maker *m)
{
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < m->agent->n_after; i++) {
        if (m->agent->after[i].kind != BH_EDGE_NEEDS)
            continue;
        size_t at = m->agent->after[i].agent;
        const struct bh_node *node = bh_engine_node(bh_live_run_engine(m->run), at);
        struct bh_val *entry = bh_val_add(list, bh_val_map());
        bh_val_set_str(entry, "name", m->plan->agents[at].name);
        bh_val_set_str(entry, "status", bh_node_state_text(node->state));
        bh_val_set_str(entry, "reason",
                       node->reason == BH_REASON_NONE ? NULL : bh_reason_text(node->reason, node->phase));
    }
    m->lease->needs_json = json_text(list);
}

/* --- files and inputs --- */

static int add_files(const struct bh_val *submission, const struct bh_pair *pairs, size_t n, struct bh_lease_file **ret,
                     size_t *ret_n, struct bh_err **err)
{
    size_t cap = 0;
    for (size_t i = 0; i < n; i++) {
        const struct bh_val *list = bh_submission_files(submission, pairs[i].value.s);
        if (!list)
            return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the submission lacks the file '%s'", pairs[i].value.s);
        for (size_t k = 0; k < bh_val_len(list); k++) {
            const struct bh_val *entry = bh_val_at(list, k);
            const char *below = bh_val_str_of(entry, "path");
            struct bh_lease_file *file = BH_PUSH(*ret, *ret_n, cap);
            file->path = below && *below ? bh_asprintf("%s/%s", pairs[i].name.s, below) : bh_strdup(pairs[i].name.s);
            if (!bh_submission_object(entry, &file->object))
                return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the submission's entry of '%s' is unreadable",
                                  pairs[i].value.s);
        }
    }
    return 0;
}

static int fill_inputs(const struct maker *m, struct bh_err **err)
{
    struct bh_found_inputs found = {0};
    int rc = bh_find_inputs(m->run, m->order->node, false, &found, err);
    m->lease->inputs = bh_calloc(found.len, sizeof(*m->lease->inputs));
    for (size_t i = 0; i < found.len && rc == 0; i++) {
        const struct bh_artifact *artifact = found.items[i].artifact;
        m->lease->inputs[m->lease->n_inputs++] = (struct bh_lease_file){
            .path = bh_strdup(found.items[i].path),
            .name = bh_strdup(artifact->name),
            .object = artifact->object,
            .provenance = bh_strdup(artifact->provenance),
        };
    }
    bh_found_inputs_fini(&found);
    return rc == 0 ? bh_lease_add_gates(m->run, m->order->node, m->lease, err) : rc;
}

/* --- the rest --- */

/* Where the document gives no max_size: what the box's disk may hold, so that a file of holes cannot claim more. */
static int64_t largest_output(const struct maker *m)
{
    int64_t disk = m->plan->boxes[m->agent->box].limits.of[BH_LIMIT_DISK];
    return disk > 0 ? disk : bh_limit_usual(BH_LIMIT_DISK);
}

static void fill_outputs(const struct maker *m)
{
    struct bh_lease *lease = m->lease;
    lease->n_outputs = is_run(m) ? m->agent->n_outputs : 0;
    lease->outputs = bh_calloc(lease->n_outputs, sizeof(*lease->outputs));
    for (size_t i = 0; i < lease->n_outputs; i++) {
        const struct bh_plan_output *out = &m->agent->outputs[i];
        lease->outputs[i] = (struct bh_lease_output){
            .name = own_text(m, out->name),
            .glob = own_text(m, out->glob),
            .path = own_text(m, out->path),
            .optional = out->optional,
            .max_size = out->max_size >= 0 ? out->max_size : largest_output(m),
            .max_files = out->max_files,
            .validate =
                bh_lease_validate_of(out->validate, out->validate_command, out->n_validate_command, m->order->attempt),
        };
    }
}

/* What a box has where nobody says anything is enough for most agents; where one asks for more the box is as large. */
static void make_room(struct bh_limits *limits, const struct bh_limits *room)
{
    struct bh_limits usual = {0};
    int64_t memory;
    int cpus;
    bh_limits_host(&memory, &cpus);
    bh_limits_fill(&usual, memory);
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (limits->of[i] == 0 && room->of[i] > usual.of[i])
            limits->of[i] = room->of[i];
    }
}

/* Those of the box, and of the agent what counts for itself; open files are a process's own, so they go with it. */
static void fill_limits(const struct maker *m)
{
    const struct bh_plan_box *box = &m->plan->boxes[m->agent->box];
    struct bh_lease *lease = m->lease;
    lease->box.limits = box->limits;
    make_room(&lease->box.limits, &box->room);
    lease->box.best_effort = bh_live_run_limits(m->run) != NULL;
    lease->limits = m->agent->limits;
    lease->limits.of[BH_LIMIT_NOFILE] = box->limits.of[BH_LIMIT_NOFILE];
    lease->limits.asked |= box->limits.asked & 1u << BH_LIMIT_NOFILE;
}

static int fill_box(const struct maker *m, struct bh_err **err)
{
    const struct bh_plan_box *box = &m->plan->boxes[m->agent->box];
    struct bh_lease_box *out = &m->lease->box;
    out->id = bh_strdup(box->id);
    out->key = bh_strdup(m->order->box_key);
    out->shared = box->shared;
    out->writable_usr = box->writable_usr && m->image.n_layers == 0; /* all of an image is writable */
    out->base = bh_strdup(box->base);
    out->base_digest = bh_strdup(m->image.digest);
    out->base_layers = copy_texts((const char *const *)m->image.layers, m->image.n_layers);
    out->n_base_layers = m->image.n_layers;
    out->agent_uid = m->image.uid;
    out->agent_gid = m->image.gid;
    if (m->order->box_layer) {
        out->layers = copy_texts(&m->order->box_layer, 1);
        out->n_layers = 1;
    }
    const struct bh_box_doc *doc = box->doc;
    if (!doc)
        return 0;
    if (doc->setup.set) {
        const char *shell[] = {"/bin/sh", "-ceu", doc->setup.args.items[0].s};
        size_t n = doc->setup.is_list ? doc->setup.args.len : BH_ARRAY_LEN(shell);
        BH_CLEANUP_FREE const char **argv = bh_calloc(n + 1, sizeof(*argv));
        for (size_t i = 0; i < n; i++)
            argv[i] = doc->setup.is_list ? doc->setup.args.items[i].s : shell[i];
        out->setup = copy_texts(argv, n);
        out->n_setup = n;
    }
    return add_files(bh_live_run_submission(m->run), doc->files.items, doc->files.len, &out->files, &out->n_files, err);
}

static void fill_identity(const struct maker *m)
{
    static const enum bh_lease_kind kinds[] = {[BH_EXECUTION_RUN] = BH_LEASE_RUN,
                                               [BH_EXECUTION_SETUP] = BH_LEASE_SETUP,
                                               [BH_EXECUTION_PREPARE] = BH_LEASE_PREPARE};
    const struct bh_agent *doc = m->agent->doc;
    const struct bh_plan_box *box = &m->plan->boxes[m->agent->box];
    struct bh_lease *lease = m->lease;
    snprintf(lease->run.s, sizeof(lease->run.s), "%s", bh_live_run_id(m->run));
    lease->instance = m->order->instance;
    lease->epoch = m->order->epoch;
    lease->agent = bh_strdup(m->agent->name);
    lease->stage = bh_strdup(m->agent->stage >= 0 ? m->plan->pipeline->stages[m->agent->stage].name.s : "");
    lease->kind = kinds[m->order->kind];
    lease->attempt = m->order->attempt;
    lease->try_ = m->order->try_;
    lease->user = bh_strdup(box->user);
    const char *workdir = m->image.workdir ? m->image.workdir : "/workspace";
    lease->workdir = bh_strdup(doc->workdir.s ? doc->workdir.s : workdir);
    lease->setup_ns = doc->timeouts.setup;
    lease->prepare_ns = doc->timeouts.prepare;
    lease->run_ns = doc->timeouts.run;
    lease->check_ns = doc->timeouts.check;
    lease->grace_ns = doc->timeouts.grace;
    lease->keep = doc->keep == BH_KEEP_ALWAYS  ? BH_LEASE_KEEP_ALWAYS
                  : doc->keep == BH_KEEP_NEVER ? BH_LEASE_KEEP_NEVER
                                               : BH_LEASE_KEEP_ON_FAILURE;
}

static void fill_commands(const struct maker *m)
{
    struct bh_lease *lease = m->lease;
    if (!forks(m) || lease->kind == BH_LEASE_SETUP) {
        lease->setup = copy_texts(m->agent->setup, m->agent->n_setup);
        lease->n_setup = m->agent->n_setup;
    }
    if (lease->kind != BH_LEASE_SETUP) {
        lease->prepare = copy_texts(m->agent->prepare, m->agent->n_prepare);
        lease->n_prepare = m->agent->n_prepare;
        lease->warm = m->agent->doc->warm;
    }
    if (!is_run(m))
        return;
    lease->run_argv = own_texts(m, m->agent->run, m->agent->n_run);
    lease->n_run = m->agent->n_run;
    lease->check.argv = own_texts(m, m->agent->check, m->agent->n_check);
    lease->check.n_argv = m->agent->n_check;
    lease->check.fresh = m->agent->doc->check_fresh;
    lease->check.score = bh_strdup(m->agent->doc->attempts.score.s);
    const char *prompt = m->agent->prompt;
    if (m->agent->prompt_file)
        prompt = bh_submission_prompt(bh_live_run_submission(m->run), m->agent->prompt_file);
    lease->prompt = m->agent->prompt_file ? bh_strdup(prompt) : own_text(m, prompt);
}

/* --- what attempts start from --- */

/* The last thing that was made before this execution. */
static const struct bh_val *made_before(const struct maker *m)
{
    size_t node = m->order->node;
    const struct bh_val *setup = bh_live_run_setup_of(m->run, node);
    const struct bh_val *prepared = is_run(m) ? bh_live_run_prepared_of(m->run, node) : NULL;
    return m->order->kind == BH_EXECUTION_SETUP ? NULL : prepared ? prepared : setup;
}

static void fill_snapshots(const struct maker *m)
{
    struct bh_lease *lease = m->lease;
    const struct bh_val *made = forks(m) ? made_before(m) : NULL, *list = bh_val_get(made, "snapshots");
    lease->box.n_snapshots = bh_val_len(list);
    lease->box.snapshots = bh_calloc(lease->box.n_snapshots + 1, sizeof(char *));
    for (size_t i = 0; i < lease->box.n_snapshots; i++)
        lease->box.snapshots[i] = bh_strdup(bh_val_get_str(bh_val_at(list, i)));
    const char *below = bh_val_str_of(made, "snapshot_key");
    if (is_run(m)) {
        lease->snapshot_key = bh_strdup(below);
        return;
    }
    const struct bh_plan_box *box = &m->plan->boxes[m->agent->box];
    /* what a gate lets in comes after the setup */
    bool tainted = lease->kind == BH_LEASE_SETUP ? box->label == BH_TAINTED : m->agent->label == BH_TAINTED;
    struct bh_snapshot_world world = {.network = box->network, .tainted = tainted, .host = m->order->host};
    lease->snapshot_key = bh_snapshot_key(lease, below, &world);
}

/* `files` arrive with whatever comes first; what they have become since is part of the state. */
static int fill_files(const struct maker *m, struct bh_err **err)
{
    const struct bh_val *submission = bh_live_run_submission(m->run);
    struct bh_lease *lease = m->lease;
    int rc = 0;
    if (!forks(m) || !made_before(m))
        rc = add_files(submission, m->agent->files, m->agent->n_files, &lease->files, &lease->n_files, err);
    if (rc == 0 && is_run(m))
        rc = add_files(submission, m->agent->check_files, m->agent->n_check_files, &lease->check.files,
                       &lease->check.n_files, err);
    return rc;
}

static int find_image(struct maker *m, struct bh_err **err)
{
    const char *base = m->plan->boxes[m->agent->box].base;
    const struct bh_val *v = bh_images_get(bh_live_run_submission(m->run), base);
    if (bh_streq(base, "host") || (v && bh_image_from_val(v, &m->image) == 0))
        return 0;
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the submission lacks the base '%s'", base);
}

/* Of several in a box, what one has read the others can reach, whatever let it in. */
static bool is_box_tainted(const struct maker *m)
{
    const struct bh_plan_box *box = &m->plan->boxes[m->agent->box];
    bool tainted = box->label == BH_TAINTED;
    for (size_t i = 0; box->n_agents > 1 && i < box->n_agents; i++)
        tainted = tainted || m->plan->agents[box->agents[i]].label == BH_TAINTED;
    return tainted;
}

int bh_lease_make(const struct bh_live_run *run, const struct bh_lease_order *order, struct bh_lease *ret,
                  struct bh_err **err)
{
    const struct bh_plan *plan = bh_live_run_plan(run);
    struct bh_lease lease = {0};
    struct maker m = {.run = run, .plan = plan, .agent = &plan->agents[order->node], .order = order, .lease = &lease};
    int rc = find_image(&m, err);
    if (rc != 0)
        return rc;
    fill_identity(&m);
    fill_commands(&m);
    fill_env(&m);
    fill_params(&m);
    if (order->kind != BH_EXECUTION_SETUP)
        fill_needs(&m);
    fill_outputs(&m);
    if (is_run(&m)) /* the only phase that has any */
        bh_lease_fill_secrets(plan->pipeline, bh_live_run_file(run), m.agent->doc, &lease);
    bh_lease_fill_endpoints(plan, bh_live_run_file(run), m.agent, &lease);
    lease.tainted = m.agent->label == BH_TAINTED;
    lease.box.tainted = is_box_tainted(&m);
    fill_limits(&m);
    bh_lease_reach(&lease, plan->boxes[m.agent->box].network, bh_live_run_ranges(run, m.agent->name));
    rc = fill_box(&m, err);
    bh_image_fini(&m.image);
    if (rc == 0)
        rc = bh_lease_check_powers(&lease, err);
    if (rc == 0)
        rc = fill_files(&m, err);
    if (rc == 0 && order->kind != BH_EXECUTION_SETUP)
        rc = fill_inputs(&m, err);
    if (rc == 0)
        fill_snapshots(&m);
    if (rc != 0)
        bh_lease_fini(&lease);
    else
        *ret = lease;
    return rc;
}
