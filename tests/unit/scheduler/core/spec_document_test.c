/* SPDX-License-Identifier: Apache-2.0 */
/* From documents as people write them to specs: the plan's promises that the engine relies on. */
#include "base/buf.h"
#include "base/mem.h"
#include "scheduler/core/engine.h"
#include "tests/support/t.h"
#include "topologies/plan.h"

struct made {
    struct bh_pipeline *pipeline;
    struct bh_plan *plan;
    struct bh_spec *spec;
};

static void free_made(struct made *m)
{
    bh_spec_free(m->spec);
    bh_plan_free(m->plan);
    bh_pipeline_free(m->pipeline);
}

static struct made make(const char *text)
{
    struct made m = {0};
    struct bh_errlist errors = {0};
    struct bh_plan_options options = {0};
    struct bh_buf out = BH_BUF_INIT;
    int rc = bh_pipeline_load("pipeline.yaml", text, strlen(text), &m.pipeline, &errors);
    if (rc == 0)
        rc = bh_plan_make(m.pipeline, &options, &m.plan, &errors);
    for (size_t i = 0; i < errors.len; i++)
        bh_err_format(errors.items[i], &out);
    if (rc != 0)
        fail_msg("%s", out.data);
    bh_buf_fini(&out);
    bh_errlist_fini(&errors);
    m.spec = bh_spec_from_plan(m.plan);
    bh_engine_free(bh_engine_new((struct bh_run_id){.s = "01hzzzzzzzzzzzzzzzzzzzzzzz"}, m.spec)); /* no cycle */
    return m;
}

static void stages_data_and_budget(void **state)
{
    (void)state;
    struct made m = make("version: 1\n"
                         "name: x\n"
                         "max_failures: 50%\n"
                         "max_parallel: 3\n"
                         "deadline: 90s\n"
                         "stages:\n"
                         "  - name: gather\n"
                         "    agents:\n"
                         "      - {name: a, run: [true], outputs: [a.txt], topology: per-agent}\n"
                         "      - {name: b, run: [true], outputs: [b.txt], on_failure: continue}\n"
                         "  - name: work\n"
                         "    agents:\n"
                         "      - {name: c, run: [true]}\n"
                         "      - {name: d, run: [true]}\n"
                         "      - {name: e, run: [true], inputs: [a.txt, {name: b.txt, optional: true}]}\n"
                         "      - {name: f, run: [true], needs: [e]}\n");
    const struct bh_spec *s = m.spec;
    T_INT(s->n_nodes, 6);
    T_INT(s->failures_allowed, 3);
    T_INT(s->max_parallel, 3);
    T_INT(s->deadline_ms, 90000);
    T_TRUE(s->nodes[1].continue_on_failure && !s->nodes[0].continue_on_failure);
    T_TRUE(!s->boxes[s->nodes[0].box].shared && s->boxes[s->nodes[1].box].shared);
    T_INT(s->nodes[2].stage, 1);
    T_INT(s->n_groups, 1); /* c and d wait for the stage as one */
    T_INT(s->groups[0].n_nodes, 2);
    T_INT(s->nodes[2].group, 1);
    T_INT(s->nodes[3].group, 1);
    T_INT(s->nodes[4].n_deps, 2);
    T_INT(s->nodes[4].deps[0].kind, BH_DEP_REQUIRED);
    T_INT(s->nodes[4].deps[1].kind, BH_DEP_OPTIONAL);
    T_INT(s->nodes[5].n_deps, 1);
    T_INT(s->nodes[5].deps[0].node, 4);
    T_INT(s->nodes[5].deps[0].kind, BH_DEP_REQUIRED);
    free_made(&m);
}

static void agents_without_stages(void **state)
{
    (void)state;
    struct made m = make("version: 1\n"
                         "name: x\n"
                         "agents:\n"
                         "  - {name: last, run: [true], inputs: ['*.csv']}\n"
                         "  - {name: first, run: [true], outputs: [a.csv]}\n");
    T_INT(m.spec->nodes[0].stage, -1);
    T_INT(m.spec->nodes[0].n_deps, 1);
    T_INT(m.spec->nodes[0].deps[0].node, 1);
    T_INT(m.spec->nodes[0].deps[0].kind, BH_DEP_BARRIER); /* a glob waits, and handles nothing */
    T_INT(m.spec->failures_allowed, 0);
    free_made(&m);
}

/* Two stages of many agents: what the engine is given stays as long as the document. */
static void many_behind_many(void **state)
{
    enum { EACH = 1000 };
    struct bh_buf text = BH_BUF_INIT;
    (void)state;
    bh_buf_adds(&text, "version: 1\nname: x\nstages:\n");
    for (int k = 0; k < 3; k++) {
        bh_buf_addf(&text, "  - name: s%d\n    agents:\n", k);
        for (int i = 0; i < EACH; i++)
            bh_buf_addf(&text, "      - {name: a%d-%d, run: [true]}\n", k, i);
    }
    struct made m = make(text.data);
    size_t edges = 0;
    for (size_t i = 0; i < m.spec->n_nodes; i++)
        edges += m.spec->nodes[i].n_deps;
    for (size_t g = 0; g < m.spec->n_groups; g++)
        edges += m.spec->groups[g].n_nodes;
    T_INT(m.spec->n_groups, 2);
    T_INT(edges, 2 * EACH);
    free_made(&m);
    bh_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_data_and_budget),
        cmocka_unit_test(agents_without_stages),
        cmocka_unit_test(many_behind_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
