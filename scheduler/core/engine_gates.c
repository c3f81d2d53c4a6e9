/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gates: questions to a person that nodes wait for. Owns their states and when one is asked.
 *
 *              ask               on_gate_decided
 *      shut ─────────► asked ─────────────────────► open
 *        ▲               │ on_gate_decided, on_gate_expired
 *        │               └────────────────────────► refused
 *        ├── bh_gates_new_owner, bh_gates_reopen ──── asked, open, refused
 *        └── bh_gate_await ────────────────────────── refused
 *
 *   shut      nobody was asked, or the answer is to be found anew: a person resumed, another process drives the run
 *   asked     the effect ASK has been given; `expires` as soon as the question is on record
 *   open      for ever, unless what waits for it is opened again
 *   refused   everybody who waited for it has failed
 * A gate of a stage is asked when all that its nodes wait for outside of the stage has ended, that of a node when the
 * node would be ready; neither where nobody waits any more. Who waits for a gate is `waiting`.
 */
#include "scheduler/core/engine_priv.h"

void bh_gates_init(struct bh_engine *e)
{
    e->gates = bh_calloc(e->spec->n_gates, sizeof(*e->gates));
}

void bh_gates_fini(struct bh_engine *e)
{
    bh_free(e->gates);
    bh_free(e->due_gates.items);
}

bool bh_gate_is_open(const struct bh_engine *e, size_t gate)
{
    return gate == 0 || e->gates[gate - 1].pub.state == BH_GATE_OPEN;
}

void bh_gate_due(struct bh_engine *e, size_t gate)
{
    struct bh_engine_gate *g = &e->gates[gate];
    if (g->due || g->pub.state != BH_GATE_SHUT)
        return;
    g->due = true;
    *BH_PUSH(e->due_gates.items, e->due_gates.len, e->due_gates.cap) = gate;
}

/* Somebody waits for nothing else, or (a stage) for nothing outside. */
static bool is_wanted(const struct bh_engine *e, size_t gate)
{
    const struct bh_spec_gate *s = &e->spec->gates[gate];
    if (e->gates[gate].unmet > 0)
        return false;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct bh_engine_node *n = &e->nodes[s->nodes[i]];
        if (n->pub.state == BH_NODE_WAITING && (s->of_stage || n->unmet == 0))
            return true;
    }
    return false;
}

void bh_gates_ask(struct bh_engine *e, struct bh_effects *fx)
{
    for (size_t i = 0; i < e->due_gates.len; i++) {
        size_t gate = e->due_gates.items[i];
        struct bh_engine_gate *g = &e->gates[gate];
        g->due = false;
        if (g->pub.state != BH_GATE_SHUT || !is_wanted(e, gate))
            continue;
        g->pub.state = BH_GATE_ASKED;
        g->pub.expires = (struct bh_wall){0};
        bh_effects_add(fx, BH_EFFECT_ASK)->gate = gate;
    }
    e->due_gates.len = 0;
}

void bh_gate_await(struct bh_engine *e, size_t gate)
{
    if (bh_gate_is_open(e, gate))
        return;
    struct bh_engine_gate *g = &e->gates[gate - 1];
    if (g->pub.state == BH_GATE_REFUSED)
        g->pub.state = BH_GATE_SHUT;
    if (g->unmet == 0)
        bh_gate_due(e, gate - 1);
}

/* Nodes of a stage and what they wait for, from scratch. */
static void count_unmet(struct bh_engine *e, size_t gate)
{
    const struct bh_spec_gate *s = &e->spec->gates[gate];
    e->gates[gate].unmet = 0;
    for (size_t i = 0; i < s->n_after; i++)
        e->gates[gate].unmet += !bh_node_has_ended(e, s->after[i]);
}

void bh_gates_count(struct bh_engine *e)
{
    for (size_t g = 0; g < e->spec->n_gates; g++)
        count_unmet(e, g);
}

void bh_gates_start(struct bh_engine *e)
{
    for (size_t g = 0; g < e->spec->n_gates; g++) {
        if (e->spec->gates[g].of_stage && e->gates[g].unmet == 0)
            bh_gate_due(e, g);
    }
}

void bh_gates_node_ended(struct bh_engine *e, size_t node)
{
    for (size_t i = e->graph.gates_behind.off[node]; i < e->graph.gates_behind.off[node + 1]; i++) {
        size_t g = e->graph.gates_behind.items[i];
        if (--e->gates[g].unmet == 0)
            bh_gate_due(e, g);
    }
}

/* Questions that were open are asked again, by who knows how to ask now. */
void bh_gates_new_owner(struct bh_engine *e)
{
    for (size_t g = 0; g < e->spec->n_gates; g++) {
        if (e->gates[g].pub.state != BH_GATE_ASKED)
            continue;
        e->gates[g].pub.state = BH_GATE_SHUT;
        bh_gate_due(e, g);
    }
}

/* Whether somebody will wait for it (again): who is ready may have to as well, where what comes before was opened. */
static bool is_unpassed(const struct bh_engine *e, size_t gate)
{
    const struct bh_spec_gate *s = &e->spec->gates[gate];
    for (size_t i = 0; i < s->n_nodes; i++) {
        size_t n = s->nodes[i];
        enum bh_node_state state = e->nodes[n].pub.state;
        if (state == BH_NODE_WAITING)
            return true;
        if (state == BH_NODE_READY && (e->gates[gate].unmet > 0 || (!s->of_stage && bh_node_unmet(e, n) > 0)))
            return true;
    }
    return false;
}

static void shut(struct bh_engine *e, size_t gate)
{
    if (!is_unpassed(e, gate))
        return;
    e->gates[gate].pub.state = BH_GATE_SHUT;
    if (e->spec->gates[gate].of_stage && e->gates[gate].unmet == 0)
        bh_gate_due(e, gate);
}

/* Those of stages first: who was ready in such a stage waits again, and that may shut a gate of its own. */
void bh_gates_reopen(struct bh_engine *e)
{
    bh_gates_count(e);
    for (size_t g = 0; g < e->spec->n_gates; g++) {
        if (e->spec->gates[g].of_stage)
            shut(e, g);
    }
    for (size_t g = 0; g < e->spec->n_gates; g++) {
        if (!e->spec->gates[g].of_stage)
            shut(e, g);
    }
}

/* --- events --- */

static bool is_asked(const struct bh_engine *e, size_t gate)
{
    return gate < e->spec->n_gates && e->gates[gate].pub.state == BH_GATE_ASKED && is_wanted(e, gate);
}

bool bh_gate_asked(struct bh_engine *e, size_t gate, struct bh_wall now, struct bh_effects *fx)
{
    if (!is_asked(e, gate) || e->gates[gate].pub.expires.us != 0)
        return false;
    e->gates[gate].pub.expires = (struct bh_wall){.us = now.us + e->spec->gates[gate].timeout_ms * 1000};
    struct bh_effect *f = bh_effects_add(fx, BH_EFFECT_EXPIRY);
    f->gate = gate;
    f->at = e->gates[gate].pub.expires;
    return true;
}

bool bh_gate_open(struct bh_engine *e, size_t gate)
{
    const struct bh_spec_gate *s = &e->spec->gates[gate];
    if (!is_asked(e, gate))
        return false;
    e->gates[gate].pub.state = BH_GATE_OPEN;
    for (size_t i = 0; i < s->n_nodes; i++) {
        if (s->of_stage)
            bh_node_met_one(e, s->nodes[i]);
        else if (e->nodes[s->nodes[i]].pub.state == BH_NODE_WAITING)
            bh_node_all_met(e, s->nodes[i]);
    }
    return true;
}

bool bh_gate_refuse(struct bh_engine *e, size_t gate)
{
    if (!is_asked(e, gate))
        return false;
    e->gates[gate].pub.state = BH_GATE_REFUSED;
    return true;
}

const struct bh_gate *bh_engine_gate(const struct bh_engine *e, size_t gate)
{
    BH_ASSERT(gate < e->spec->n_gates);
    return &e->gates[gate].pub;
}
