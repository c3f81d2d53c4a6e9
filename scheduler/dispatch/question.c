/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a gate's question together. */
#include "scheduler/dispatch/question.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "scheduler/dispatch/lease_inputs.h"
#include "topologies/names.h"

struct list { /* of artifacts, each once */
    const struct bh_artifact **items;
    size_t len, cap;
    struct bh_map *seen;
    const struct bh_plan_input *newest; /* agents behind one stage share what they are shown */
};

/* Whether the document says that a person must approve this input. */
static bool is_to_be_approved(const struct bh_plan_agent *agent, const char *artifact)
{
    for (size_t i = 0; i < agent->n_gates; i++) {
        const struct bh_plan_gate *gate = &agent->gates[i];
        if (gate->kind == BH_GATE_APPROVE && bh_plan_gate_fits(gate, artifact))
            return true;
    }
    return false;
}

static bool is_inside(const struct bh_live_run *run, const struct bh_spec_gate *gate, const struct bh_artifact *a)
{
    const struct bh_plan *plan = bh_live_run_plan(run);
    for (size_t i = 0; gate->of_stage && i < gate->n_nodes; i++) {
        if (bh_streq(plan->agents[gate->nodes[i]].name, a->agent))
            return true;
    }
    return false;
}

static void add_inputs(const struct bh_live_run *run, const struct bh_spec_gate *gate, size_t node, struct list *list)
{
    struct bh_found_inputs found = {0};
    const struct bh_plan_agent *agent = &bh_live_run_plan(run)->agents[node];
    bool all = gate->of_stage || agent->doc->gate;
    if (agent->inputs == list->newest || bh_find_inputs(run, node, true, &found, NULL) != 0)
        return;
    list->newest = agent->inputs;
    for (size_t i = 0; i < found.len; i++) {
        const struct bh_artifact *a = found.items[i].artifact;
        if ((all || is_to_be_approved(agent, a->name)) && bh_map_put(list->seen, a->name, list) &&
            !is_inside(run, gate, a))
            *BH_PUSH(list->items, list->len, list->cap) = a;
    }
    bh_found_inputs_fini(&found);
}

static int by_name(const void *a, const void *b)
{
    const struct bh_artifact *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Why it has its label, as its own record tells it: the names that taint came by. */
static void set_why(struct bh_val *v, const struct bh_artifact *a)
{
    BH_CLEANUP_VAL struct bh_val *record = NULL;
    if (bh_json_parse(a->provenance, strlen(a->provenance), &record, NULL) != 0)
        record = NULL;
    bh_val_set_str(v, "why", bh_val_str_of(record, "why"));
}

static struct bh_val *artifact_to_val(const struct bh_artifact *a)
{
    char digest[BH_DIGEST_TEXT];
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "name", a->name);
    bh_val_set_str(v, "digest", bh_digest_format(&a->object.digest, digest));
    bh_val_set_int(v, "size", a->object.size);
    bh_val_set_str(v, "label", a->tainted ? "tainted" : "trusted");
    bh_val_set_bool(v, "private", a->private_);
    bh_val_set_str(v, "agent", *a->agent ? a->agent : NULL);
    bh_val_set_int(v, "attempt", a->attempt);
    set_why(v, a);
    return v;
}

/* Of what a decision is about, and of nothing else: sizes and labels follow from it. */
static void set_digest(struct bh_val *question, const char *run)
{
    char text[BH_DIGEST_TEXT];
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    BH_CLEANUP_BUF struct bh_buf json = BH_BUF_INIT;
    const struct bh_val *artifacts = bh_val_get(question, "artifacts");
    bh_val_set_str(v, "run", run);
    bh_val_set_str(v, "name", bh_val_str_of(question, "name"));
    bh_val_set_str(v, "of", bh_val_str_of(question, "of"));
    struct bh_val *list = bh_val_set(v, "artifacts", bh_val_list());
    for (size_t i = 0; i < bh_val_len(artifacts); i++) {
        struct bh_val *pair = bh_val_add(list, bh_val_list());
        bh_val_add(pair, bh_val_str(bh_val_str_of(bh_val_at(artifacts, i), "name")));
        bh_val_add(pair, bh_val_str(bh_val_str_of(bh_val_at(artifacts, i), "digest")));
    }
    bh_json_format_canonical(v, &json);
    struct bh_digest digest = bh_digest_of(json.data, json.len);
    bh_val_set_str(question, "digest", bh_digest_format(&digest, text));
}

struct bh_val *bh_question_make(const struct bh_live_run *run, size_t gate)
{
    const struct bh_spec_gate *spec = &bh_live_run_spec(run)->gates[gate];
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    struct list list = {.seen = seen};
    for (size_t i = 0; i < spec->n_nodes; i++)
        add_inputs(run, spec, spec->nodes[i], &list);
    if (list.len > 0)
        qsort(list.items, list.len, sizeof(*list.items), by_name);
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "name", spec->id);
    bh_val_set_str(v, "of", spec->of_stage ? "stage" : "agent");
    struct bh_val *artifacts = bh_val_set(v, "artifacts", bh_val_list());
    for (size_t i = 0; i < list.len; i++)
        bh_val_add(artifacts, artifact_to_val(list.items[i]));
    set_digest(v, bh_live_run_id(run));
    bh_free(list.items);
    return v;
}

bool bh_question_is_new(const struct bh_live_run *run, size_t gate, const struct bh_val *question,
                        const struct bh_val **ret_before)
{
    const struct bh_spec_gate *spec = &bh_live_run_spec(run)->gates[gate];
    const struct bh_val *artifacts = bh_val_get(question, "artifacts"), *before = NULL;
    if (spec->of_stage || bh_live_run_plan(run)->agents[spec->nodes[0]].doc->gate)
        return true;
    for (size_t i = 0; i < bh_val_len(artifacts); i++) {
        const struct bh_val *a = bh_val_at(artifacts, i);
        before = bh_live_run_approval(run, bh_val_str_of(a, "name"), bh_val_str_of(a, "digest"));
        if (!before)
            return true;
    }
    *ret_before = before;
    return false;
}

void bh_question_set_answer(struct bh_val *v, const char *how, const char *by, const char *at, const char *reason)
{
    bh_val_set_str(v, "how", how);
    bh_val_set_str(v, "by", by);
    bh_val_set_str(v, "at", at);
    bh_val_set_str(v, "reason", reason);
}

void bh_question_repeat_answer(struct bh_val *v, const char *how, const struct bh_val *from)
{
    bh_question_set_answer(v, how, bh_val_str_of(from, "by"), bh_val_str_of(from, "at"), bh_val_str_of(from, "reason"));
}
