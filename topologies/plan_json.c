/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the JSON of a plan. Every field is there. Lists that stages make long are written short: an agent that waits for
 * a large stage names the stage, one that sees all earlier artifacts says so by a glob, and the JSON of 10,000 agents
 * stays as long as 10,000 agents.
 */
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "base/val.h"
#include "topologies/plan.h"

/* The most that is listed one by one of what comes from stages. */
enum { LISTED = 50 };

static struct bh_val *texts(const char *const *items, size_t n)
{
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < n; i++)
        bh_val_add(list, bh_val_str(items[i]));
    return list;
}

/* A word, or the map that the document has. */
static struct bh_val *network_value(const char *network)
{
    struct bh_val *v = NULL;
    if (*network == '{' && bh_json_parse(network, strlen(network), &v, NULL) == 0)
        return v;
    return bh_val_str(network);
}

/* What the document says; cpus are a number, the others integers. */
static struct bh_val *limits_value(const struct bh_limits *limits)
{
    struct bh_val *v = bh_val_map();
    for (int i = 0; i < BH_N_LIMITS; i++) {
        const char *name = bh_limit_name((enum bh_limit)i);
        if (!(limits->asked & 1u << i))
            continue;
        if (i == BH_LIMIT_CPUS)
            bh_val_set(v, name, bh_val_num((double)limits->of[i] / 1000));
        else
            bh_val_set_int(v, name, limits->of[i]);
    }
    return v;
}

static struct bh_val *box_value(const struct bh_plan *plan, const struct bh_plan_box *box)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "id", box->id);
    bh_val_set_str(v, "topology", bh_topology_text(box->topology));
    struct bh_val *agents = bh_val_set(v, "agents", bh_val_list());
    for (size_t i = 0; i < box->n_agents; i++)
        bh_val_add(agents, bh_val_str(plan->agents[box->agents[i]].name));
    bh_val_set_str(v, "base", box->base);
    bh_val_set(v, "network", network_value(box->network));
    bh_val_set_str(v, "label", bh_label_text(box->label));
    bh_val_set_bool(v, "private", box->private_);
    bh_val_set(v, "powers", texts(box->powers, box->n_powers));
    bh_val_set(v, "limits", limits_value(&box->limits));
    bh_val_set_str(v, "reason", box->reason);
    return v;
}

/* Names; of a stage that is waited for as a whole, and is large, "stage:NAME". */
static struct bh_val *after_value(const struct bh_plan *plan, const struct bh_plan_agent *a)
{
    struct bh_val *list = bh_val_list();
    size_t barriers = 0;
    for (size_t i = 0; i < a->n_after && barriers <= LISTED; i++)
        barriers += a->after[i].kind == BH_EDGE_BARRIER;
    int said = -1;
    for (size_t i = 0; i < a->n_after; i++) {
        const struct bh_plan_agent *other = &plan->agents[a->after[i].agent];
        if (a->after[i].kind != BH_EDGE_BARRIER || barriers <= LISTED) {
            bh_val_add(list, bh_val_str(other->name));
        } else if (other->stage != said) {
            said = other->stage;
            BH_CLEANUP_FREE char *text = bh_asprintf("stage:%s", plan->pipeline->stages[said].name.s);
            bh_val_add(list, bh_val_str(text));
        }
    }
    return list;
}

static struct bh_val *inputs_value(const struct bh_plan_agent *a)
{
    struct bh_val *list = bh_val_list();
    if (a->implicit_inputs && a->n_inputs > LISTED) {
        bh_val_add(list, bh_val_str("**"));
        return list;
    }
    for (size_t i = 0; i < a->n_inputs; i++)
        bh_val_add(list, bh_val_str(a->inputs[i].name));
    return list;
}

static struct bh_val *tainted_inputs_value(const struct bh_plan_agent *a)
{
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; !a->implicit_inputs && i < a->n_inputs; i++) {
        if (a->inputs[i].tainted)
            bh_val_add(list, bh_val_str(a->inputs[i].name));
    }
    return list;
}

static struct bh_val *gates_value(const struct bh_plan_agent *a)
{
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < a->n_gates; i++) {
        struct bh_val *gate = bh_val_add(list, bh_val_map());
        bh_val_set_str(gate, "artifact", a->gates[i].artifact);
        bh_val_set_str(gate, "kind", bh_gate_kind_text(a->gates[i].kind));
    }
    return list;
}

static struct bh_val *source_value(const struct bh_plan *plan, size_t i)
{
    const struct bh_source *s = &plan->pipeline->sources[i];
    struct bh_val *v = bh_val_map();
    bool tainted = plan->source_tainted[i];
    bh_val_set_str(v, "name", s->name.s);
    bh_val_set_str(v, "label", bh_label_text(tainted ? BH_TAINTED : BH_TRUSTED));
    bh_val_set_str(v, "why", !tainted ? NULL : s->untrusted ? "untrusted: true" : "an earlier run knows its content");
    bh_val_set_bool(v, "private", s->private_);
    return v;
}

static struct bh_val *left_out_value(const struct bh_plan_agent *a)
{
    size_t n = a->n_left_out > LISTED ? LISTED : a->n_left_out;
    struct bh_val *list = texts(a->left_out, n);
    if (a->n_left_out > n) {
        BH_CLEANUP_FREE char *text = bh_asprintf("… and %zu more", a->n_left_out - n);
        bh_val_add(list, bh_val_str(text));
    }
    return list;
}

/* Agents that wait for the same stage share one array: what was made of it for the last one is taken again. */
struct last_after {
    const struct bh_edge *edges;
    size_t n;
    const struct bh_val *value; /* borrowed from the agent before */
};

static struct bh_val *shared_after_value(const struct bh_plan *plan, const struct bh_plan_agent *a,
                                         struct last_after *last)
{
    bool same = last->value && last->edges == a->after && last->n == a->n_after;
    struct bh_val *v = same ? bh_val_copy(last->value) : after_value(plan, a);
    *last = (struct last_after){a->after, a->n_after, v};
    return v;
}

/* How many there are, what they start from and how one is chosen; of an agent that just runs null. */
static struct bh_val *attempts_value(const struct bh_plan_agent *a)
{
    static const char *const selects[] = {"first-pass", "best", "all"};
    const struct bh_attempts *doc = &a->doc->attempts;
    if (!a->forks)
        return bh_val_null();
    struct bh_val *v = bh_val_map();
    bh_val_set_int(v, "count", doc->count);
    bh_val_set_str(v, "select", selects[doc->select]);
    bh_val_set_bool(v, "stop_losers", doc->stop_losers);
    bh_val_set_int(v, "min_success", doc->min_success);
    bh_val_set_str(v, "score", doc->score.s);
    bh_val_set_bool(v, "setup", a->n_setup > 0);
    bh_val_set_bool(v, "prepare", a->n_prepare > 0);
    bh_val_set_bool(v, "warm", a->doc->warm);
    bh_val_set_str(v, "check", a->n_check == 0 ? NULL : a->doc->check_fresh ? "fresh" : "same");
    return v;
}

static struct bh_val *agent_value(const struct bh_plan *plan, const struct bh_plan_agent *a, struct last_after *last)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "name", a->name);
    bh_val_set_str(v, "stage", a->stage < 0 ? NULL : plan->pipeline->stages[a->stage].name.s);
    bh_val_set_str(v, "box", plan->boxes[a->box].id);
    bh_val_set(v, "after", shared_after_value(plan, a, last));
    bh_val_set(v, "inputs", inputs_value(a));
    bh_val_set(v, "left_out", left_out_value(a));
    struct bh_val *outputs = bh_val_set(v, "outputs", bh_val_list());
    for (size_t i = 0; i < a->n_outputs; i++)
        bh_val_add(outputs, bh_val_str(a->outputs[i].name ? a->outputs[i].name : a->outputs[i].glob));
    bh_val_set_str(v, "label", bh_label_text(a->label));
    bh_val_set_str(v, "why", a->why);
    bh_val_set_bool(v, "private", a->private_why != NULL);
    bh_val_set_str(v, "private_why", a->private_why);
    bh_val_set(v, "tainted_inputs", tainted_inputs_value(a));
    bh_val_set(v, "gates", gates_value(a));
    bh_val_set_bool(v, "gated", a->gated);
    bh_val_set(v, "steered_by", texts(a->steered_by, a->n_steered_by));
    bh_val_set(v, "steered_why", texts(a->steered_why, a->n_steered_by));
    bh_val_set(v, "limits", limits_value(&a->limits));
    bh_val_set(v, "attempts", attempts_value(a));
    bh_val_set_str(v, "action", "run");
    bh_val_set_str(v, "reason", a->reason);
    return v;
}

struct bh_val *bh_plan_to_val(const struct bh_plan *plan)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "name", plan->pipeline->name.s);
    struct bh_val *asks = bh_val_set(v, "asks", bh_val_list());
    for (size_t i = 0; i < plan->n_asks; i++)
        bh_val_add(asks, bh_val_str(plan->asks[i].s));
    struct bh_val *sources = bh_val_set(v, "sources", bh_val_list());
    for (size_t i = 0; i < plan->pipeline->n_sources; i++)
        bh_val_add(sources, source_value(plan, i));
    struct bh_val *boxes = bh_val_set(v, "boxes", bh_val_list());
    for (size_t i = 0; i < plan->n_boxes; i++)
        bh_val_add(boxes, box_value(plan, &plan->boxes[i]));
    struct bh_val *agents = bh_val_set(v, "agents", bh_val_list());
    struct last_after last = {0};
    for (size_t i = 0; i < plan->n_agents; i++)
        bh_val_add(agents, agent_value(plan, &plan->agents[i], &last));
    struct bh_val *warnings = bh_val_set(v, "warnings", bh_val_list());
    for (size_t i = 0; i < plan->n_warnings; i++)
        bh_val_add(warnings, bh_err_to_val(plan->warnings[i]));
    return v;
}

struct bh_val *bh_param_to_val(enum bh_param_type type, const char *text)
{
    int64_t i;
    double d;
    if (type == BH_PARAM_INT && bh_parse_int(text, &i) == 0)
        return bh_val_int(i);
    if (type == BH_PARAM_NUMBER && bh_parse_number(text, &d) == 0)
        return bh_val_num(d);
    if (type == BH_PARAM_BOOL)
        return bh_val_bool(bh_streq(text, "true"));
    return bh_val_str(text);
}
