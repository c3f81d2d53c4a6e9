/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands between an execution and its inputs, and between its outputs and the bus: `accept … validate` before
 * anything of it is made, `outputs[].validate` when all of them are in the store.
 *
 *   bh_x_pass_gates: GATES --on_passed--> bh_x_begin      bh_x_prove_outputs: PROVING --on_proved--> bh_x_collected
 *
 * What does not pass ends the execution: an input by `policy`, an output by `output-invalid`, and then none of its
 * outputs is given.
 */
#include "base/mem.h"
#include "base/text.h"
#include "workers/execution_priv.h"

static struct bh_validation *start(struct bh_execution *e, const struct bh_validation_item *items, size_t n,
                                   bh_validation_fn fn)
{
    bool inputs = e->state == BH_X_GATES;
    const struct bh_validation_spec spec = {
        .host = e->host,
        .run = e->run,
        .lease = &e->lease,
        .capture = inputs ? e->gate_log : e->capture,
        .items = items,
        .n_items = n,
        .is_gate = inputs,
    };
    return bh_validation_start(&spec, fn, e);
}

/* --- inputs --- */

static void on_passed(void *arg, struct bh_verdict *verdict)
{
    struct bh_execution *e = bh_x_check(arg);
    bh_validation_free(BH_TAKE(e->validation));
    if (verdict->outcome != BH_OUTCOME_SUCCEEDED) {
        bh_x_end(e, verdict);
        return;
    }
    bh_verdict_fini(verdict);
    bh_x_begin(e);
}

void bh_x_pass_gates(struct bh_execution *e)
{
    struct bh_verdict verdict;
    size_t n = 0;
    struct bh_validation_item *items = bh_arena_alloc(e->arena, (e->lease.n_gates + 1) * sizeof(*items));
    for (; n < e->lease.n_gates; n++) {
        const struct bh_lease_gate *gate = &e->lease.gates[n];
        const struct bh_lease_file *input = bh_lease_input(&e->lease, gate->artifact);
        if (!input) { /* so there is one that nothing guards */
            bh_verdict_failed(&verdict, BH_REASON_POLICY, "the gate for input '%s' is shut: there is no such input",
                              gate->artifact);
            bh_x_end(e, &verdict);
            return;
        }
        items[n] = (struct bh_validation_item){.name = input->name,
                                               .object = &input->object,
                                               .validate = &gate->validate,
                                               .provenance = input->provenance};
    }
    if (n > 0)
        e->validation = start(e, items, n, on_passed);
    else
        bh_x_begin(e);
}

/* --- outputs --- */

static void drop_outputs(struct bh_execution *e)
{
    for (size_t i = 0; i < e->n_outputs; i++)
        bh_free(e->outputs[i].name);
    bh_free(BH_TAKE(e->outputs));
    e->n_outputs = 0;
}

static void on_proved(void *arg, struct bh_verdict *verdict)
{
    struct bh_execution *e = bh_x_check(arg);
    bh_validation_free(BH_TAKE(e->validation));
    if (verdict->outcome != BH_OUTCOME_SUCCEEDED) {
        drop_outputs(e);
        bh_x_end(e, verdict);
        return;
    }
    bh_verdict_fini(verdict);
    bh_x_collected(e);
}

/* A declared name goes before a glob that fits it as well, as in collecting. */
static const struct bh_lease_output *declared(const struct bh_execution *e, const char *name)
{
    const struct bh_lease_output *glob = NULL;
    for (size_t i = 0; i < e->lease.n_outputs; i++) {
        const struct bh_lease_output *o = &e->lease.outputs[i];
        if (bh_streq(o->name, name))
            return o;
        if (!glob && o->glob && bh_glob_match(o->glob, name))
            glob = o;
    }
    return glob;
}

void bh_x_prove_outputs(struct bh_execution *e)
{
    size_t n = 0;
    struct bh_validation_item *items = bh_arena_alloc(e->arena, (e->n_outputs + 1) * sizeof(*items));
    for (size_t i = 0; i < e->n_outputs; i++) {
        const struct bh_lease_output *o = declared(e, e->outputs[i].name);
        if (o && bh_validate_asks(&o->validate))
            items[n++] = (struct bh_validation_item){
                .name = e->outputs[i].name, .object = &e->outputs[i].object, .validate = &o->validate};
    }
    if (n == 0) {
        bh_x_collected(e);
        return;
    }
    bh_x_enter(e, BH_X_PROVING, NULL);
    e->validation = start(e, items, n, on_proved);
}
