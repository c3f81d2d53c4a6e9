/* SPDX-License-Identifier: Apache-2.0 */
/* Owns what `accept` says: its entries as gates, and which of them an input meets. */
#include "base/text.h"
#include "topologies/plan_priv.h"

const char *bh_gate_kind_text(enum bh_gate_kind kind)
{
    static const char *const texts[] = {"validate", "endorse", "approve"};
    return texts[kind];
}

static bool says_true(const struct bh_node *map, const char *key)
{
    return bh_streq(bh_node_text(bh_node_get(map, key)), "true");
}

void bh_plan_gates(struct bh_planner *pl, const struct bh_scope *scope, struct bh_plan_agent *agent)
{
    const struct bh_node *accept = agent->doc->accept, *stage_gate = NULL;
    size_t n = bh_node_len(accept);
    if (agent->stage >= 0)
        stage_gate = pl->doc->stages[agent->stage].gate;
    agent->gated = agent->doc->gate || stage_gate;
    struct bh_plan_gate *gates = bh_arena_alloc(pl->arena, n * sizeof(*gates) + 1);
    for (size_t i = 0; i < n; i++) {
        const struct bh_node *entry = bh_node_at(accept, i);
        gates[i] = (struct bh_plan_gate){
            .artifact = bh_node_key_at(accept, i),
            .kind = says_true(entry, "approve")   ? BH_GATE_APPROVE
                    : says_true(entry, "endorse") ? BH_GATE_ENDORSE
                                                  : BH_GATE_VALIDATE,
            .validate = bh_node_get(entry, "validate"),
        };
        const char *owner = bh_arena_printf(pl->arena, "%s.accept.%s", agent->doc->path, gates[i].artifact);
        gates[i].command = bh_plan_validate_command(pl, scope, gates[i].validate, owner, &gates[i].n_command);
    }
    agent->gates = gates;
    agent->n_gates = n;
}

bool bh_plan_gate_fits(const struct bh_plan_gate *gate, const char *artifact)
{
    return bh_streq(gate->artifact, artifact) || bh_glob_match(gate->artifact, artifact);
}

/* Whether all that the name or glob of an input may stand for fits the gate's. */
static bool covers(const char *gate, const char *artifact)
{
    if (bh_streq(gate, artifact) || bh_streq(gate, "**"))
        return true;
    if (!bh_glob_is(artifact))
        return bh_glob_match(gate, artifact);
    /* a star of the artifact, read as a character, is taken by a star of the gate alone */
    return !strchr(gate, '?') && !strstr(artifact, "**") && bh_glob_match(gate, artifact);
}

const struct bh_plan_gate *bh_plan_gate_of(const struct bh_plan_gate *gates, size_t n, const char *artifact)
{
    const struct bh_plan_gate *found = NULL;
    for (size_t i = 0; i < n; i++) {
        if ((!found || found->kind == BH_GATE_VALIDATE) && covers(gates[i].artifact, artifact))
            found = &gates[i];
    }
    return found;
}
