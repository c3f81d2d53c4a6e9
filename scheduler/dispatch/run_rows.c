/* SPDX-License-Identifier: Apache-2.0 */
/* Turns engine state into rows; decides nothing. */
#include "scheduler/dispatch/run_rows.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* rows borrow on the way into the store: bh_store_commit only reads them */
}

static const char *stage_name(const struct bh_plan *plan, int stage)
{
    return stage >= 0 ? plan->pipeline->stages[stage].name.s : "";
}

static const char *node_reason(const struct bh_plan *plan, const struct bh_node *node)
{
    if (node->state == BH_NODE_FAILED)
        return bh_reason_text(node->reason, node->phase);
    if (node->state == BH_NODE_SKIPPED && node->blamed != SIZE_MAX)
        return plan->agents[node->blamed].name;
    return NULL;
}

struct bh_agent_row bh_row_of_node(const char *run, const struct bh_plan *plan, const struct bh_engine *engine,
                                   size_t i)
{
    const struct bh_plan_agent *agent = &plan->agents[i];
    const struct bh_node *node = bh_engine_node(engine, i);
    return (struct bh_agent_row){
        .run = text(run),
        .name = text(agent->name),
        .stage = text(stage_name(plan, agent->stage)),
        .topology = text(bh_topology_text(agent->topology)),
        .box = text(plan->boxes[agent->box].id),
        .status = text(bh_node_state_text(node->state)),
        .label = text(bh_label_text(agent->label)),
        .reason = text(node_reason(plan, node)),
        .position = (int64_t)i,
    };
}

static int64_t exit_code_of(const struct bh_val *ended)
{
    return bh_val_get(ended, "exit_code") ? bh_val_int_of(ended, "exit_code") : -1;
}

/* As the store keeps it; NULL for NULL. */
static char *json_of(const struct bh_val *v)
{
    struct bh_buf json = BH_BUF_INIT;
    if (!v)
        return NULL;
    bh_json_format(v, &json);
    return bh_buf_take(&json);
}

void bh_attempt_scratch_fini(struct bh_attempt_scratch *scratch)
{
    bh_free(scratch->usage);
    bh_free(scratch->score);
    *scratch = (struct bh_attempt_scratch){0};
}

struct bh_attempt_row bh_row_of_attempt(const char *run, const struct bh_plan *plan, const struct bh_attempt *attempt,
                                        const struct bh_attempt_facts *facts, struct bh_attempt_scratch *scratch)
{
    const struct bh_plan_agent *agent = &plan->agents[attempt->node];
    const struct bh_val *ended = facts->ended;
    const struct bh_val *usage = bh_val_get(ended, "usage");
    *scratch = (struct bh_attempt_scratch){.usage = json_of(usage), .score = json_of(bh_val_get(ended, "score"))};
    int64_t started = bh_val_int_of(ended, "started");
    return (struct bh_attempt_row){
        .run = text(run),
        .agent = text(agent->name),
        .instance = text(attempt->instance.s),
        .status = text(bh_attempt_state_text(attempt->state)),
        .reason = attempt->reason == BH_REASON_NONE ? NULL : text(bh_reason_text(attempt->reason, attempt->phase)),
        .detail = text(bh_val_str_of(ended, "detail")),
        .box = text(plan->boxes[agent->box].id),
        .attempt = attempt->attempt,
        .try_ = attempt->try_,
        .epoch = attempt->epoch,
        .exit_code = exit_code_of(ended),
        .signal = bh_val_int_of(ended, "signal"),
        .created = attempt->created,
        .started = started ? (struct bh_wall){started} : attempt->started,
        .ended = attempt->ended,
        .selected = attempt->selected,
        .usage = scratch->usage,
        .kept_box = text(bh_val_str_of(ended, "kept_box")),
        .limits = text(bh_val_str_of(ended, "limits")),
        .output_dropped = bh_val_int_of(ended, "output_dropped"),
        .kind = text(attempt->kind == BH_EXECUTION_SETUP     ? "setup"
                     : attempt->kind == BH_EXECUTION_PREPARE ? "prepare"
                                                             : NULL),
        .snapshot = text(bh_val_str_of(ended, "snapshot")),
        .snapshot_reused = bh_val_bool_of(ended, "snapshot_reused"),
        .score = scratch->score,
        .evidence = text(bh_val_str_of(ended, "evidence")),
    };
}

struct bh_artifact_row bh_row_of_artifact(const char *run, const struct bh_artifact *artifact, char *digest_text)
{
    return (struct bh_artifact_row){
        .run = text(run),
        .name = text(artifact->name),
        .digest = bh_digest_format(&artifact->object.digest, digest_text),
        .kind = text("file"),
        .agent = text(artifact->agent),
        .instance = text(artifact->instance),
        .label = text(artifact->tainted ? "tainted" : "trusted"),
        .provenance = text(artifact->provenance),
        .size = artifact->object.size,
        .attempt = artifact->attempt,
        .executable = artifact->object.executable,
        .private_ = artifact->private_,
        .published = artifact->published,
    };
}

/* The one failure that no agent caused. */
static void set_deadline(struct bh_val *v, const struct bh_plan *plan)
{
    char limit[BH_UNIT_TEXT];
    bh_format_duration(plan->pipeline->deadline_ns, limit);
    if (bh_ends_with(limit, ".0s")) /* 2s, as people write it */
        memcpy(limit + strlen(limit) - 3, "s", 2);
    BH_CLEANUP_FREE char *detail = bh_asprintf("the run's deadline of %s passed", limit);
    bh_val_set_str(v, "agent", NULL);
    bh_val_set_str(v, "reason", bh_reason_text(BH_REASON_TIMEOUT, BH_PHASE_NONE));
    bh_val_set_str(v, "detail", detail);
    bh_val_set_str(v, "remedy", "raise 'deadline', or make the agents shorter");
}

/* What was found out about it, and the one agent that it blames, where it blames one. */
static void set_evidence(struct bh_val *v, const char *json)
{
    struct bh_val *evidence = NULL;
    const char *blamed = NULL;
    if (!json || bh_json_parse(json, strlen(json), &evidence, NULL) != 0)
        evidence = bh_val_null();
    const struct bh_val *writers = bh_val_get(evidence, "writers");
    blamed = bh_val_str_of(evidence, "caused_by");
    if (!blamed && bh_val_len(writers) == 1)
        blamed = bh_val_str_of(bh_val_at(writers, 0), "agent");
    bh_val_set_str(v, "caused_by", blamed);
    bh_val_set(v, "evidence", evidence);
}

/* Of several attempts the detail sums up: what mends it is told by the end of the one that is blamed ("cause"). */
static char *remedy_of(enum bh_reason reason, const struct bh_val *ended)
{
    const char *cause = bh_val_str_of(ended, "cause");
    const struct bh_val *attempt = bh_val_get(ended, "attempt");
    BH_CLEANUP_FREE char *remedy =
        bh_reason_remedy_of(reason, exit_code_of(ended), cause ? cause : bh_val_str_of(ended, "detail"));
    return bh_remedy_of_attempt(remedy, attempt ? bh_val_get_int(attempt) : -1);
}

struct bh_val *bh_failure_of_run(const struct bh_plan *plan, const struct bh_engine *engine, const struct bh_val *ended)
{
    size_t node = 0;
    enum bh_reason reason = bh_engine_failure(engine, &node);
    if (reason == BH_REASON_NONE)
        return NULL;
    struct bh_val *v = bh_val_map();
    if (node >= plan->n_agents && reason == BH_REASON_TIMEOUT) {
        set_deadline(v, plan);
        return v;
    }
    if (node >= plan->n_agents) { /* a shared box that could not be frozen */
        bh_val_set_str(v, "agent", NULL);
        bh_val_set_str(v, "reason", bh_reason_text(reason, BH_PHASE_NONE));
        bh_val_set_str(v, "detail", bh_val_str_of(ended, "detail"));
        bh_val_set_str(v, "remedy", bh_reason_info(reason)->remedy);
        return v;
    }
    bh_val_set_str(v, "agent", plan->agents[node].name);
    bh_val_set_str(v, "reason", bh_reason_text(reason, bh_engine_node(engine, node)->phase));
    bh_val_set_str(v, "detail", bh_val_str_of(ended, "detail"));
    BH_CLEANUP_FREE char *remedy = remedy_of(reason, ended);
    bh_val_set_str(v, "remedy", remedy);
    set_evidence(v, bh_val_str_of(ended, "evidence"));
    return v;
}
