/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the stages: their keys, and the agents in them.
 */
#include "base/mem.h"
#include "base/text.h"
#include "topologies/load_priv.h"
#include "topologies/names.h"

/* --- for_each --- */

static void read_artifact(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str name;
    (void)field;
    if (!bh_read_filled(r, n, "the name of an artifact", BH_HOLDS_NONE, &name))
        return;
    const char *problem = bh_artifact_name_problem(name.s);
    if (problem)
        bh_read_error(r, n, BH_E_BAD_NAME, NULL, "'%s' is not a name of an artifact: it %s", name.s, problem);
}

static void read_max(struct bh_reader *r, struct bh_node *n, void *field)
{
    int64_t count;
    (void)field;
    (void)bh_read_int(r, n, 1, BH_COUNT_MAX, &count);
}

static const struct bh_key for_each_keys[] = {
    {"artifact", read_artifact, 0, BH_KEY_REQUIRED},
    {"max", read_max, 0, BH_KEY_REQUIRED},
};
const struct bh_key_table bh_for_each_table = {"for_each", "'for_each'", for_each_keys, BH_ARRAY_LEN(for_each_keys), 0};

static void read_for_each(struct bh_reader *r, struct bh_node *n, void *field)
{
    *(const struct bh_node **)field = n;
    (void)bh_read_map(r, n, &bh_for_each_table, field);
}

/* --- repeat --- */

static void read_until(struct bh_reader *r, struct bh_node *n, void *field)
{
    const struct bh_node *kept;
    (void)field;
    bh_read_predicate(r, n, &kept);
}

static void read_else(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"fail", "keep"};
    size_t i;
    (void)field;
    (void)bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i);
}

static const struct bh_key repeat_keys[] = {
    {"max", read_max, 0, BH_KEY_REQUIRED},
    {"until", read_until, 0, BH_KEY_REQUIRED},
    {"else", read_else, 0, 0},
};
const struct bh_key_table bh_repeat_table = {"repeat", "'repeat'", repeat_keys, BH_ARRAY_LEN(repeat_keys), 0};

static void read_repeat(struct bh_reader *r, struct bh_node *n, void *field)
{
    *(const struct bh_node **)field = n;
    (void)bh_read_map(r, n, &bh_repeat_table, field);
}

/* --- stages --- */

struct stage {
    struct bh_stage model;
    struct bh_node *agents; /* read when the stage has its place in the model */
};

static void read_name(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_name(r, n, &((struct stage *)field)->model.name);
}

static void read_agents(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)r;
    ((struct stage *)field)->agents = n;
}

#define FIELD(name) offsetof(struct stage, model) + offsetof(struct bh_stage, name)
static const struct bh_key stage_keys[] = {
    {"name", read_name, 0, BH_KEY_REQUIRED},
    {"agents", read_agents, 0, BH_KEY_REQUIRED},
    {"when", bh_read_predicate, FIELD(when), BH_KEY_LATER},
    {"gate", bh_read_gate, FIELD(gate), 0},
    {"for_each", read_for_each, FIELD(for_each), BH_KEY_LATER},
    {"repeat", read_repeat, FIELD(repeat), BH_KEY_LATER},
    {"ask", NULL, 0, BH_KEY_RESERVED},
    {"use", NULL, 0, BH_KEY_RESERVED},
};
#undef FIELD
const struct bh_key_table bh_stage_table = {"stage", "a stage", stage_keys, BH_ARRAY_LEN(stage_keys), 0};

void bh_load_stages(struct bh_reader *r, struct bh_node *stages, struct bh_node *defaults, const struct bh_agents *into)
{
    struct bh_pipeline *p = r->p;
    size_t cap = 0;
    if (!bh_expect(r, stages, BH_NODE_LIST, "a list of stages"))
        return;
    if (bh_node_len(stages) == 0)
        bh_read_error(r, stages, BH_E_BAD_VALUE, NULL, "the list has no stage");
    for (size_t i = 0; i < bh_node_len(stages); i++) {
        struct bh_node *n = bh_node_at(stages, i);
        struct stage stage = {.model = {.path = bh_node_path(n, r->arena), .pos = bh_node_pos(n)}};
        if (!bh_read_map(r, n, &bh_stage_table, &stage))
            continue;
        int index = (int)p->n_stages;
        *BH_ARENA_PUSH(r->arena, p->stages, p->n_stages, cap) = stage.model;
        if (stage.agents)
            bh_load_agents(r, stage.agents, defaults, index, into);
    }
}
