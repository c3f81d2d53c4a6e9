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
#include "scheduler/dispatch/images.h"
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

static void set_params_env(const struct maker *m, struct bh_map *index)
{
    for (size_t i = 0; i < m->plan->n_params; i++) {
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

static void fill_env(const struct maker *m)
{
    struct bh_lease *lease = m->lease;
    BH_CLEANUP_MAP struct bh_map *index = bh_map_new(NULL);
    char number[BH_UNIT_TEXT];
    set_env(lease, index, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    set_env(lease, index, "LANG", "C.UTF-8");
    set_env(lease, index, "TMPDIR", "/tmp");
    set_image_env(m, index);
    set_env(lease, index, "HOME", bh_streq(lease->user, "root") ? "/root" : "/home/agent");
    set_env(lease, index, "BULKHEAD_RUN", lease->run.s);
    set_env(lease, index, "BULKHEAD_AGENT", lease->agent);
    set_env(lease, index, "BULKHEAD_STAGE", lease->stage);
    set_env(lease, index, "BULKHEAD_INSTANCE", lease->instance.s);
    snprintf(number, sizeof(number), "%d", lease->attempt);
    set_env(lease, index, "BULKHEAD_ATTEMPT", number);
    snprintf(number, sizeof(number), "%d", lease->try_);
    set_env(lease, index, "BULKHEAD_TRY", number);
    if (lease->prompt)
        set_env(lease, index, "BULKHEAD_PROMPT_FILE", "/workspace/prompt.md");
    set_params_env(m, index);
    for (size_t i = 0; i < m->agent->n_env; i++)
        set_env(lease, index, m->agent->env[i].name.s, m->agent->env[i].value.s);
}

/* --- params.json, needs.json --- */

static void fill_params(const struct maker *m)
{
    const struct bh_pipeline *p = m->plan->pipeline;
    BH_CLEANUP_VAL struct bh_val *map = bh_val_map();
    for (size_t i = 0; i < m->plan->n_params; i++) {
        enum bh_param_type type = i < p->n_params ? p->params[i].type : BH_PARAM_STRING;
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

static void add_input(struct bh_lease *lease, size_t *cap, struct bh_map *seen, const struct bh_artifact *artifact,
                      const char *path)
{
    if (!bh_map_put(seen, path, (void *)(uintptr_t)1))
        return;
    struct bh_lease_file *input = BH_PUSH(lease->inputs, lease->n_inputs, *cap);
    input->path = bh_strdup(path);
    input->name = bh_strdup(artifact->name);
    input->object = artifact->object;
    input->provenance = bh_strdup(artifact->provenance);
}

static bool made_by(const struct bh_plan *plan, const struct bh_plan_input *input, const char *agent)
{
    for (size_t i = 0; i < input->n_producers; i++) {
        if (bh_streq(plan->agents[input->producers[i]].name, agent))
            return true;
    }
    return false;
}

static void add_glob(const struct maker *m, const struct bh_plan_input *input, size_t *cap, struct bh_map *seen)
{
    const struct bh_registry *bus = bh_live_run_registry(m->run);
    for (size_t i = 0; i < bh_registry_len(bus); i++) {
        const struct bh_artifact *a = bh_registry_at(bus, i);
        bool wanted = *a->agent ? made_by(m->plan, input, a->agent) : input->source >= 0;
        if (wanted && bh_glob_match(input->name, a->name))
            add_input(m->lease, cap, seen, a, a->name);
    }
}

static int missing_input(const struct maker *m, const struct bh_plan_input *input, struct bh_err **err)
{
    const char *producer = input->n_producers > 0 ? m->plan->agents[input->producers[0]].name : NULL;
    int rc = bh_err_set(err, BH_E_UNBOUND_INPUT, 0, "the input '%s' was not published%s%s%s", input->name,
                        producer ? " by '" : "", producer ? producer : "", producer ? "'" : "");
    bh_err_hint(err, "mark the input 'optional: true' if the agent can do without it");
    return rc;
}

static int fill_inputs(const struct maker *m, struct bh_err **err)
{
    const struct bh_registry *bus = bh_live_run_registry(m->run);
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    size_t cap = 0;
    for (size_t i = 0; i < m->agent->n_inputs; i++) {
        const struct bh_plan_input *input = &m->agent->inputs[i];
        if (input->is_glob) {
            add_glob(m, input, &cap, seen);
            continue;
        }
        const struct bh_artifact *artifact = bh_registry_get(bus, input->name);
        if (artifact)
            add_input(m->lease, &cap, seen, artifact, input->path ? input->path : input->name);
        else if (!input->optional)
            return missing_input(m, input, err);
    }
    return 0;
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
    lease->n_outputs = m->agent->n_outputs;
    lease->outputs = bh_calloc(lease->n_outputs, sizeof(*lease->outputs));
    for (size_t i = 0; i < lease->n_outputs; i++) {
        const struct bh_plan_output *out = &m->agent->outputs[i];
        lease->outputs[i] = (struct bh_lease_output){
            .name = bh_strdup(out->name),
            .glob = bh_strdup(out->glob),
            .path = bh_strdup(out->path),
            .optional = out->optional,
            .max_size = out->max_size >= 0 ? out->max_size : largest_output(m),
            .max_files = out->max_files,
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
    const struct bh_agent *doc = m->agent->doc;
    const struct bh_plan_box *box = &m->plan->boxes[m->agent->box];
    struct bh_lease *lease = m->lease;
    snprintf(lease->run.s, sizeof(lease->run.s), "%s", bh_live_run_id(m->run));
    lease->instance = m->order->instance;
    lease->epoch = m->order->epoch;
    lease->agent = bh_strdup(m->agent->name);
    lease->stage = bh_strdup(m->agent->stage >= 0 ? m->plan->pipeline->stages[m->agent->stage].name.s : "");
    lease->attempt = m->order->attempt;
    lease->try_ = m->order->try_;
    lease->user = bh_strdup(box->user);
    const char *workdir = m->image.workdir ? m->image.workdir : "/workspace";
    lease->workdir = bh_strdup(doc->workdir.s ? doc->workdir.s : workdir);
    lease->setup_ns = doc->timeouts.setup;
    lease->run_ns = doc->timeouts.run;
    lease->grace_ns = doc->timeouts.grace;
    lease->keep = doc->keep == BH_KEEP_ALWAYS  ? BH_LEASE_KEEP_ALWAYS
                  : doc->keep == BH_KEEP_NEVER ? BH_LEASE_KEEP_NEVER
                                               : BH_LEASE_KEEP_ON_FAILURE;
}

static void fill_commands(const struct maker *m)
{
    struct bh_lease *lease = m->lease;
    lease->setup = copy_texts(m->agent->setup, m->agent->n_setup);
    lease->n_setup = m->agent->n_setup;
    lease->run_argv = copy_texts(m->agent->run, m->agent->n_run);
    lease->n_run = m->agent->n_run;
    const char *prompt = m->agent->prompt;
    if (m->agent->prompt_file)
        prompt = bh_submission_prompt(bh_live_run_submission(m->run), m->agent->prompt_file);
    lease->prompt = bh_strdup(prompt);
}

static int find_image(struct maker *m, struct bh_err **err)
{
    const char *base = m->plan->boxes[m->agent->box].base;
    const struct bh_val *v = bh_images_get(bh_live_run_submission(m->run), base);
    if (bh_streq(base, "host") || (v && bh_image_from_val(v, &m->image) == 0))
        return 0;
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the submission lacks the base '%s'", base);
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
    fill_needs(&m);
    fill_outputs(&m);
    fill_limits(&m);
    rc = fill_box(&m, err);
    bh_image_fini(&m.image);
    if (rc == 0)
        rc =
            add_files(bh_live_run_submission(run), m.agent->files, m.agent->n_files, &lease.files, &lease.n_files, err);
    if (rc == 0)
        rc = fill_inputs(&m, err);
    if (rc != 0)
        bh_lease_fini(&lease);
    else
        *ret = lease;
    return rc;
}
