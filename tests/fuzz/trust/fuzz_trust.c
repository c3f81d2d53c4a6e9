/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any document through plan and trust check: the bytes as they are, and a document that is made by them as if they were
 * dice, which nearly always loads. What holds of every one that is accepted is looked at here in the simplest
 * way, edge by edge: nobody reads what is tainted and is trusted but through a gate, no tainted box has a power, and
 * nothing private is beside untrusted content with a way out.
 */
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "policies/trust.h"
#include "topologies/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_tainted(const struct bh_plan *plan, size_t agent)
{
    return plan->agents[agent].label == BH_TAINTED;
}

static void check_input(const struct bh_plan *plan, const struct bh_plan_agent *a, const struct bh_plan_input *in)
{
    bool tainted = in->source >= 0 && plan->source_tainted[in->source];
    bool private_ = in->source >= 0 && plan->pipeline->sources[in->source].private_;
    for (size_t p = 0; p < in->n_producers; p++) {
        tainted = tainted || is_tainted(plan, in->producers[p]);
        private_ = private_ || plan->agents[in->producers[p]].private_why;
    }
    const struct bh_plan_gate *gate = bh_plan_gate_of(a->gates, a->n_gates, in->name);
    if (tainted && (!gate || gate->kind == BH_GATE_VALIDATE) && !in->is_glob)
        BH_ASSERT(a->label == BH_TAINTED);
    if (tainted && !gate && !in->is_glob)
        BH_ASSERT(plan->boxes[a->box].label == BH_TAINTED);
    BH_ASSERT(!tainted || !a->implicit_inputs);
    BH_ASSERT(!private_ || a->private_why);
}

static void check_box(const struct bh_plan *plan, const struct bh_plan_box *box)
{
    bool tainted = false, private_ = false;
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_plan_agent *a = &plan->agents[box->agents[i]];
        tainted = tainted || a->label == BH_TAINTED;
        private_ = private_ || a->private_why;
    }
    BH_ASSERT(box->label != BH_TAINTED || (tainted && box->n_powers == 0));
    BH_ASSERT(box->private_ == private_);
    /* a gate lets in for one agent alone */
    BH_ASSERT(box->n_agents == 1 || !tainted || box->label == BH_TAINTED);
    /* what one in the box has, all have */
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_plan_agent *a = &plan->agents[box->agents[i]];
        BH_ASSERT(!tainted || a->label == BH_TAINTED);
        BH_ASSERT(!private_ || a->private_why);
    }
    if (tainted && private_)
        BH_ASSERT(bh_streq(box->network, "none") ||
                  (!box->shared && bh_starts_with(box->network, "{\"setup\":") && !strstr(box->network, "\"run\":") &&
                   !strstr(box->network, "\"prepare\":")));
}

/* The round before lies before all. */
static void check_rounds(const struct bh_plan *plan, size_t from, size_t reader)
{
    const struct bh_plan_agent *a = &plan->agents[from], *b = &plan->agents[reader];
    bool repeats = a->stage >= 0 && a->stage == b->stage && plan->pipeline->stages[a->stage].repeat;
    if (!repeats || from == reader)
        return;
    BH_ASSERT(!a->private_why || b->private_why);
    if (a->label == BH_TAINTED && a->n_outputs > 0 && b->n_gates == 0)
        BH_ASSERT(plan->boxes[b->box].label == BH_TAINTED);
}

static void check_plan(const struct bh_plan *plan)
{
    for (size_t i = 0; i < plan->n_agents; i++) {
        const struct bh_plan_agent *a = &plan->agents[i];
        BH_ASSERT((a->label == BH_TAINTED) == (a->why != NULL));
        BH_ASSERT(!a->doc->untrusted || (a->label == BH_TAINTED && plan->boxes[a->box].label == BH_TAINTED));
        for (size_t k = 0; k < a->n_inputs; k++)
            check_input(plan, a, &a->inputs[k]);
        for (size_t k = 0; k < a->n_steered_by; k++)
            BH_ASSERT(plan->boxes[a->box].n_powers == 0 || a->gated ||
                      bh_plan_gate_of(a->gates, a->n_gates, a->steered_by[k]));
    }
    for (size_t i = 0; plan->n_agents <= 32 && i < plan->n_agents * plan->n_agents; i++)
        check_rounds(plan, i / plan->n_agents, i % plan->n_agents);
    for (size_t b = 0; b < plan->n_boxes; b++)
        check_box(plan, &plan->boxes[b]);
}

static void look_at(const char *text, size_t len)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *p = NULL;
    struct bh_plan *plan = NULL;
    const struct bh_plan_options options = {.lint = true};
    int rc = bh_pipeline_load("fuzz.yaml", text, len, &p, &errors);
    if (rc == 0)
        rc = bh_plan_make(p, &options, &plan, &errors);
    if (rc == 0)
        rc = bh_trust_check(plan, NULL, &errors);
    BH_ASSERT((rc == 0) == (errors.len == 0));
    if (rc == 0)
        check_plan(plan);
    bh_errlist_fini(&errors);
    bh_plan_free(plan);
    bh_pipeline_free(p);
}

/* --- a document by dice --- */

struct dice {
    const uint8_t *data;
    size_t size, at;
    uint32_t state;
};

static unsigned roll(struct dice *d, unsigned sides)
{
    d->state = d->state * 1103515245u + 12345u + d->data[d->at++ % d->size];
    return (d->state >> 16) % sides;
}

static const char *pick(struct dice *d, const char *const *words, size_t n)
{
    return words[roll(d, (unsigned)n)];
}
#define PICK(d, ...) \
    pick(d, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* An artifact that there may be: of an agent before this one, or a source. */
static void add_artifact(struct dice *d, unsigned agent, struct bh_buf *out)
{
    if (agent > 0 && roll(d, 3) > 0)
        bh_buf_addf(out, "o%u%s", roll(d, agent), roll(d, 6) == 0 ? "@1" : "");
    else
        bh_buf_adds(out, PICK(d, "bad", "own", "mine", "'*'", "'o*'", "both"));
}

static void add_accept(struct dice *d, unsigned agent, struct bh_buf *out)
{
    bh_buf_adds(out, ", accept: {");
    add_artifact(d, agent, out);
    bh_buf_addf(out, ": {%s}}",
                PICK(d, "approve: true", "validate: {kind: json}", "validate: {kind: json}, endorse: true"));
}

static void add_agent(struct dice *d, unsigned agent, const char *indent, struct bh_buf *out)
{
    bh_buf_addf(out, "%s- {name: a%u, run: x, outputs: [o%u]", indent, agent, agent);
    if (roll(d, 4) > 0) {
        bh_buf_adds(out, ", inputs: [");
        add_artifact(d, agent, out);
        if (roll(d, 2) == 0) {
            bh_buf_adds(out, ", ");
            add_artifact(d, agent, out);
        }
        bh_buf_addc(out, ']');
    }
    if (roll(d, 6) == 0)
        bh_buf_adds(out, ", untrusted: true");
    if (roll(d, 6) == 0)
        bh_buf_adds(out, PICK(d, ", attempts: 2", ", attempts: {count: 2, select: all}", ", prepare: y"));
    if (roll(d, 3) == 0)
        add_accept(d, agent, out);
    if (roll(d, 5) == 0)
        bh_buf_adds(out, PICK(d, ", secrets: [k]", ", endpoints: [e]"));
    if (roll(d, 3) == 0)
        bh_buf_adds(out, PICK(d, ", box: lab", ", box: den", ", box: crew", ", box: crew-tainted",
                              ", topology: per-agent", ", topology: shared-box"));
    if (roll(d, 8) == 0)
        bh_buf_adds(out, PICK(d, ", network: public", ", network: {setup: public}", ", network: {run: public}",
                              ", network: {setup: public, prepare: {allow: ['x.org:443']}}",
                              ", network: {allow: ['x.org:443']}"));
    if (roll(d, 8) == 0) {
        bh_buf_adds(out, ", when: {artifact: ");
        add_artifact(d, agent, out);
        bh_buf_adds(out, ", is: y}");
    }
    bh_buf_adds(out, roll(d, 10) == 0 ? ", gate: approve}\n" : "}\n");
}

static void add_stages(struct dice *d, struct bh_buf *out)
{
    unsigned agent = 0;
    bh_buf_adds(out, "stages:\n");
    for (unsigned s = 0; s < 1 + roll(d, 3); s++) {
        bh_buf_addf(out, "  - name: s%u\n", s);
        if (roll(d, 3) == 0)
            bh_buf_addf(out, "    repeat: {max: 2, until: {artifact: o%u, is: y}}\n", agent);
        else if (roll(d, 4) == 0)
            bh_buf_addf(out, "    for_each: {artifact: %s, max: 2}\n", PICK(d, "bad", "own", "mine", "o0"));
        bh_buf_adds(out, "    agents:\n");
        for (unsigned last = agent + 1 + roll(d, 3); agent < last; agent++)
            add_agent(d, agent, "      ", out);
    }
}

static void look_at_dice(const uint8_t *data, size_t size)
{
    struct dice d = {.data = data, .size = size};
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_buf_addf(&out,
                "version: 1\nname: t\nsecrets: {k: {env: K}}\nboxes: {lab: {}, den: {network: public}, crew: {}, "
                "crew-tainted: {}}\n"
                "endpoints: {e: {upstream: 'https://e.org', allow: ['POST /x'], tainted: %s}}\n"
                "sources: {bad: {file: b, untrusted: true}, own: {file: o}, mine: {file: m, private: true},\n"
                "  both: {file: z, untrusted: true, private: true}}\n%s",
                PICK(&d, "true", "false"), PICK(&d, "", "", "topology: per-agent\n", "defaults: {network: public}\n"));
    if (roll(&d, 2) == 0) {
        add_stages(&d, &out);
    } else {
        bh_buf_adds(&out, "agents:\n");
        for (unsigned agent = 0; agent < 2 + roll(&d, 6); agent++)
            add_agent(&d, agent, "  ", &out);
    }
    look_at(out.data, out.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    look_at(size ? (const char *)data : "", size);
    if (size > 0)
        look_at_dice(data, size);
    return 0;
}
