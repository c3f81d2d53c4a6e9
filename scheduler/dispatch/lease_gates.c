/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An input that several entries of `accept` fit has to satisfy all of them. What an execution is only validated for
 * counts as passed in the provenance that is delivered with it: where it does not pass, nothing is delivered.
 */
#include "scheduler/dispatch/lease_gates.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "scheduler/dispatch/attempt_text.h"
#include "scheduler/dispatch/question.h"
#include "topologies/names.h"
#include "topologies/yaml_tree.h"

/* The loader has looked at it: what cannot be read is not there. */
static int64_t number(const struct bh_node *map, const char *key, int (*parse)(const char *text, int64_t *ret))
{
    int64_t n;
    const char *text = bh_node_text(bh_node_get(map, key));
    return text && parse(text, &n) == 0 ? n : -1;
}

struct bh_lease_validate bh_lease_validate_of(const struct bh_node *validate, const char *const *command, size_t n,
                                              int attempt)
{
    struct bh_lease_validate v = BH_LEASE_VALIDATE_NOTHING;
    const struct bh_node *paths = bh_node_get(validate, "paths");
    if (!validate)
        return v;
    v.kind = bh_validate_kind_parse(bh_node_text(bh_node_get(validate, "kind")));
    v.max_size = number(validate, "max_size", bh_parse_size);
    v.max_lines = number(validate, "max_lines", bh_parse_int);
    v.max_files = number(validate, "max_files", bh_parse_int);
    v.n_paths = bh_node_len(paths);
    v.paths = bh_calloc(v.n_paths + 1, sizeof(*v.paths));
    for (size_t i = 0; i < v.n_paths; i++)
        v.paths[i] = bh_strdup(bh_node_text(bh_node_at(paths, i)));
    v.n_command = n;
    v.command = bh_calloc(n + 1, sizeof(*v.command));
    for (size_t i = 0; i < n; i++)
        v.command[i] = bh_attempt_text(command[i], attempt);
    return v;
}

struct adding {
    const struct bh_live_run *run;
    size_t node;
    struct bh_lease *lease;
    size_t cap;
};

/* An attempt starts from a preparation, which did not begin before they had passed. */
static bool is_validated_before(const struct adding *a)
{
    return a->lease->kind == BH_LEASE_RUN && a->lease->n_prepare > 0;
}

static void add_validation(struct adding *a, const struct bh_lease_file *input, const struct bh_plan_gate *gate,
                           bool before, struct bh_val *passed)
{
    char now[BH_WALL_TEXT];
    if (!before)
        *BH_PUSH(a->lease->gates, a->lease->n_gates, a->cap) = (struct bh_lease_gate){
            .artifact = bh_strdup(input->name),
            .validate = bh_lease_validate_of(gate->validate, gate->command, gate->n_command, a->lease->attempt),
        };
    struct bh_val *pass = bh_val_add(passed, bh_val_map());
    bh_val_set_str(pass, "gate", a->lease->agent);
    bh_question_set_answer(pass, bh_gate_kind_text(gate->kind), "the document", bh_wall_format(bh_wall_now(), now),
                           NULL);
}

static int check_approved(const struct adding *a, const struct bh_artifact *artifact, struct bh_err **err)
{
    char digest[BH_DIGEST_TEXT];
    if (bh_live_run_approval(a->run, artifact->name, bh_digest_format(&artifact->object.digest, digest)))
        return 0;
    return bh_err_set(err, BH_E_POLICY, 0, "the input '%s' was not approved as it is now", artifact->name);
}

static void set_passed(struct bh_lease_file *input, struct bh_val *passed)
{
    BH_CLEANUP_VAL struct bh_val *record = NULL;
    struct bh_buf json = BH_BUF_INIT;
    if (bh_val_len(passed) == 0 || bh_json_parse(input->provenance, strlen(input->provenance), &record, NULL) != 0)
        return;
    bh_val_set(record, "passed", bh_val_copy(passed));
    bh_json_format(record, &json);
    bh_free(input->provenance);
    input->provenance = bh_buf_take(&json);
}

static int add_input(struct adding *a, struct bh_lease_file *input, struct bh_err **err)
{
    const struct bh_plan_agent *agent = &bh_live_run_plan(a->run)->agents[a->node];
    const struct bh_artifact *artifact = bh_registry_get(bh_live_run_registry(a->run), input->name);
    BH_CLEANUP_VAL struct bh_val *passed = bh_val_list();
    int rc = 0;
    for (size_t i = 0; i < agent->n_gates && rc == 0; i++) {
        const struct bh_plan_gate *gate = &agent->gates[i];
        if (!bh_plan_gate_fits(gate, input->name))
            continue;
        if (gate->kind == BH_GATE_APPROVE)
            rc = check_approved(a, artifact, err);
        else
            add_validation(a, input, gate, is_validated_before(a), passed);
    }
    bh_live_run_add_passes(a->run, a->node, artifact, passed);
    set_passed(input, passed);
    return rc;
}

int bh_lease_add_gates(const struct bh_live_run *run, size_t node, struct bh_lease *lease, struct bh_err **err)
{
    struct adding a = {.run = run, .node = node, .lease = lease};
    int rc = 0;
    for (size_t i = 0; i < lease->n_inputs && rc == 0; i++)
        rc = add_input(&a, &lease->inputs[i], err);
    return rc;
}
