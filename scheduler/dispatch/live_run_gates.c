/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was asked at the gates of a run and how it was decided, as the events tell it: from the same event whether it
 * has just happened or is replayed.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "scheduler/dispatch/live_run_priv.h"
#include "scheduler/dispatch/question.h"

/* No name has a line end. */
static char *key_of(const char *name, const char *digest)
{
    return bh_asprintf("%s\n%s", digest ? digest : "", name ? name : "");
}

static void remember_approval(struct bh_live_run *run, size_t gate, const struct bh_val *payload)
{
    static const char *const fields[] = {"name", "by", "at", "reason"};
    struct bh_map *let_in = run->gates[gate].let_in = bh_map_new(NULL);
    const struct bh_val *artifacts = bh_val_get(payload, "artifacts");
    for (size_t i = 0; i < bh_val_len(artifacts); i++) {
        const struct bh_val *a = bh_val_at(artifacts, i);
        BH_CLEANUP_FREE char *key = key_of(bh_val_str_of(a, "name"), bh_val_str_of(a, "digest"));
        struct bh_val *v = bh_val_map();
        for (size_t k = 0; k < BH_ARRAY_LEN(fields); k++)
            bh_val_set_str(v, fields[k], bh_val_str_of(payload, fields[k]));
        (void)bh_map_put(let_in, key, let_in);
        bh_map_put(run->approvals, key, v);
    }
}

void bh_live_run_remember_gate(struct bh_live_run *run, const struct bh_event *event, const struct bh_val *payload)
{
    bool asked = event->kind == BH_EV_GATE_ASKED;
    struct bh_val **place = asked ? &run->gates[event->gate].asked : &run->gates[event->gate].decided;
    bh_val_free(*place);
    *place = bh_val_copy(payload);
    if (!asked)
        bh_map_free(BH_TAKE(run->gates[event->gate].let_in));
    if (event->kind == BH_EV_GATE_DECIDED && event->approved)
        remember_approval(run, event->gate, payload);
}

const struct bh_val *bh_live_run_question(const struct bh_live_run *run, size_t gate)
{
    return run->gates[gate].asked;
}

const struct bh_val *bh_live_run_decision(const struct bh_live_run *run, size_t gate)
{
    return run->gates[gate].decided;
}

const struct bh_val *bh_live_run_approval(const struct bh_live_run *run, const char *name, const char *digest)
{
    BH_CLEANUP_FREE char *key = key_of(name, digest);
    return bh_map_get(run->approvals, key);
}

/* The gate that the node has failed by, or SIZE_MAX. */
static size_t refused_gate(const struct bh_live_run *run, size_t node)
{
    const struct bh_spec_node *s = &run->spec->nodes[node];
    const struct bh_node *n = bh_engine_node(run->engine, node);
    const size_t gates[] = {s->stage_gate, s->gate};
    for (size_t i = 0; i < BH_ARRAY_LEN(gates) && n->state == BH_NODE_FAILED; i++) {
        if (gates[i] > 0 && bh_engine_gate(run->engine, gates[i] - 1)->state == BH_GATE_REFUSED)
            return gates[i] - 1;
    }
    return SIZE_MAX;
}

char *bh_live_run_gate_detail(const struct bh_live_run *run, size_t node)
{
    char limit[BH_UNIT_TEXT];
    size_t gate = refused_gate(run, node);
    if (gate == SIZE_MAX)
        return NULL;
    const struct bh_spec_gate *spec = &run->spec->gates[gate];
    const struct bh_val *decided = run->gates[gate].decided;
    const char *by = bh_val_str_of(decided, "by"), *reason = bh_val_str_of(decided, "reason");
    if (bh_engine_node(run->engine, node)->phase == BH_PHASE_GATE)
        return bh_asprintf("gate '%s' was not decided within %s", spec->id,
                           bh_format_duration(spec->timeout_ms * BH_NS_PER_MS, limit));
    return bh_asprintf("gate '%s' was rejected by %s%s%s", spec->id, by ? by : "somebody", reason ? ": " : "",
                       reason ? reason : "");
}

static void add_pass(struct bh_val *list, const char *gate, const char *how, const struct bh_val *approval)
{
    struct bh_val *v = bh_val_add(list, bh_val_map());
    bh_val_set_str(v, "gate", gate);
    bh_question_repeat_answer(v, how, approval);
}

void bh_live_run_add_passes(const struct bh_live_run *run, size_t node, const struct bh_artifact *artifact,
                            struct bh_val *list)
{
    char digest[BH_DIGEST_TEXT];
    const struct bh_spec_node *s = &run->spec->nodes[node];
    const size_t gates[] = {s->stage_gate, s->gate};
    BH_CLEANUP_FREE char *key = key_of(artifact->name, bh_digest_format(&artifact->object.digest, digest));
    for (size_t i = 0; i < BH_ARRAY_LEN(gates); i++) {
        const struct bh_gate_facts *facts = gates[i] > 0 ? &run->gates[gates[i] - 1] : NULL;
        if (facts && facts->let_in && bh_map_has(facts->let_in, key) &&
            bh_engine_gate(run->engine, gates[i] - 1)->state == BH_GATE_OPEN)
            add_pass(list, run->spec->gates[gates[i] - 1].id, "approve", facts->decided);
    }
}

const struct bh_spec *bh_live_run_spec(const struct bh_live_run *run)
{
    return run->spec;
}
