/* SPDX-License-Identifier: Apache-2.0 */
/* From plans made by hand: what becomes of edges, budgets and numbers. */
#include "base/mem.h"
#include "scheduler/core/spec.h"
#include "tests/support/t.h"
#include "topologies/plan.h"

enum { AGENTS = 6 };

struct by_hand {
    struct bh_pipeline pipeline;
    struct bh_agent docs[AGENTS];
    struct bh_plan_agent agents[AGENTS];
    struct bh_plan_box boxes[2];
    struct bh_plan plan;
};

static void make(struct by_hand *h, size_t n)
{
    static const char *const names[AGENTS] = {"a", "b", "c", "d", "e", "f"};
    memset(h, 0, sizeof(*h));
    h->pipeline.max_failures = -1;
    for (size_t i = 0; i < n; i++) {
        h->agents[i].name = names[i];
        h->agents[i].doc = &h->docs[i];
        h->agents[i].stage = -1;
    }
    h->boxes[0] = (struct bh_plan_box){.id = "crew", .shared = true};
    h->boxes[1] = (struct bh_plan_box){.id = "b"};
    h->plan =
        (struct bh_plan){.pipeline = &h->pipeline, .agents = h->agents, .n_agents = n, .boxes = h->boxes, .n_boxes = 2};
}

static void nodes_and_boxes_keep_their_places(void **state)
{
    struct by_hand h;
    struct bh_stage stages[4] = {{.name = {.s = "none"}}};
    (void)state;
    make(&h, 2);
    h.pipeline.stages = stages;
    h.pipeline.n_stages = BH_ARRAY_LEN(stages);
    h.agents[1].box = 1;
    h.agents[1].stage = 3;
    h.docs[1].continue_on_failure = true;
    h.docs[1].retries = 4;
    h.pipeline.max_parallel = 5;
    struct bh_spec *spec BH_CLEANUP_SPEC = bh_spec_from_plan(&h.plan);
    T_INT(spec->n_nodes, 2);
    T_STR(spec->nodes[0].name, "a");
    T_INT(spec->nodes[0].stage, -1);
    T_INT(spec->nodes[0].box, 0);
    T_TRUE(!spec->nodes[0].continue_on_failure);
    T_STR(spec->nodes[1].name, "b");
    T_INT(spec->nodes[1].stage, 3);
    T_INT(spec->nodes[1].box, 1);
    T_TRUE(spec->nodes[1].continue_on_failure);
    T_INT(spec->nodes[1].retries, 4);
    T_INT(spec->n_boxes, 2);
    T_STR(spec->boxes[0].id, "crew");
    T_TRUE(spec->boxes[0].shared && !spec->boxes[1].shared);
    T_INT(spec->max_parallel, 5);
    T_INT(spec->failures_allowed, 0);
    T_INT(spec->deadline_ms, 0);
    T_TRUE(!spec->keep_going);
}

static void every_kind_of_edge(void **state)
{
    struct by_hand h;
    size_t b[] = {1}, c[] = {2};
    struct bh_edge after[] = {
        {0, BH_EDGE_NEEDS}, {1, BH_EDGE_OPTIONAL}, {2, BH_EDGE_OPTIONAL}, {3, BH_EDGE_DATA}, {4, BH_EDGE_BARRIER}};
    struct bh_plan_input inputs[] = {
        {.name = "b.txt", .optional = true, .producers = b, .n_producers = 1},
        {.name = "*.txt", .is_glob = true, .producers = c, .n_producers = 1},
    };
    static const enum bh_dep_kind want[] = {BH_DEP_REQUIRED, BH_DEP_OPTIONAL, BH_DEP_BARRIER, BH_DEP_REQUIRED,
                                            BH_DEP_BARRIER}; /* a glob waits, it handles nothing */
    (void)state;
    make(&h, 6);
    h.agents[5].after = after;
    h.agents[5].n_after = 5;
    h.agents[5].inputs = inputs;
    h.agents[5].n_inputs = 2;
    struct bh_spec *spec BH_CLEANUP_SPEC = bh_spec_from_plan(&h.plan);
    T_INT(spec->nodes[5].n_deps, 5);
    for (size_t i = 0; i < 5; i++) {
        T_INT(spec->nodes[5].deps[i].node, i);
        T_INT(spec->nodes[5].deps[i].kind, want[i]);
    }
    T_INT(spec->nodes[5].group, 0);
    T_INT(spec->nodes[4].n_deps, 0);
}

/* Inputs that the document does not name show what is there; they handle nothing. */
static void implicit_inputs_handle_nothing(void **state)
{
    struct by_hand h;
    size_t a[] = {0};
    struct bh_edge after[] = {{0, BH_EDGE_OPTIONAL}};
    struct bh_plan_input inputs[] = {{.name = "a.txt", .optional = true, .producers = a, .n_producers = 1}};
    (void)state;
    make(&h, 2);
    h.agents[1].after = after;
    h.agents[1].n_after = 1;
    h.agents[1].inputs = inputs;
    h.agents[1].n_inputs = 1;
    h.agents[1].implicit_inputs = true;
    struct bh_spec *spec BH_CLEANUP_SPEC = bh_spec_from_plan(&h.plan);
    T_INT(spec->nodes[1].deps[0].kind, BH_DEP_BARRIER);
}

static void shared_barriers_become_one_group(void **state)
{
    struct by_hand h;
    struct bh_edge first[] = {{0, BH_EDGE_BARRIER}, {1, BH_EDGE_BARRIER}};
    struct bh_edge data[] = {{0, BH_EDGE_DATA}};
    struct bh_edge second[] = {{2, BH_EDGE_BARRIER}, {3, BH_EDGE_BARRIER}, {4, BH_EDGE_BARRIER}};
    (void)state;
    make(&h, 6);
    h.agents[2].after = h.agents[4].after = first;
    h.agents[2].n_after = h.agents[4].n_after = 2;
    h.agents[3].after = data; /* between those who share */
    h.agents[3].n_after = 1;
    h.agents[5].after = second;
    h.agents[5].n_after = 3;
    struct bh_spec *spec BH_CLEANUP_SPEC = bh_spec_from_plan(&h.plan);
    T_INT(spec->n_groups, 2);
    T_INT(spec->groups[0].n_nodes, 2);
    T_INT(spec->groups[0].nodes[1], 1);
    T_INT(spec->groups[1].n_nodes, 3);
    T_INT(spec->nodes[2].group, 1);
    T_INT(spec->nodes[4].group, 1);
    T_INT(spec->nodes[3].group, 0);
    T_INT(spec->nodes[3].n_deps, 1);
    T_INT(spec->nodes[5].group, 2);
    T_INT(spec->nodes[2].n_deps, 0);
}

static void budget_and_deadline_become_numbers(void **state)
{
    struct by_hand h;
    (void)state;
    make(&h, 5);
    h.pipeline.max_failures = 50;
    h.pipeline.max_failures_percent = true;
    h.pipeline.deadline_ns = INT64_C(1500000001); /* rounded up: never early */
    struct bh_spec *spec = bh_spec_from_plan(&h.plan);
    T_INT(spec->failures_allowed, 2);
    T_INT(spec->deadline_ms, 1501);
    bh_spec_free(spec);
    h.pipeline.max_failures_percent = false;
    h.pipeline.max_failures = 3;
    h.pipeline.deadline_ns = 1;
    spec = bh_spec_from_plan(&h.plan);
    T_INT(spec->failures_allowed, 3);
    T_INT(spec->deadline_ms, 1);
    bh_spec_free(spec);
}

static void half_built_ones_are_freed(void **state)
{
    (void)state;
    bh_spec_free(NULL);
    struct bh_spec *spec = bh_alloc(sizeof(*spec));
    spec->n_nodes = spec->n_boxes = spec->n_groups = 7;
    bh_spec_free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_and_boxes_keep_their_places),  cmocka_unit_test(every_kind_of_edge),
        cmocka_unit_test(implicit_inputs_handle_nothing),     cmocka_unit_test(shared_barriers_become_one_group),
        cmocka_unit_test(budget_and_deadline_become_numbers), cmocka_unit_test(half_built_ones_are_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
