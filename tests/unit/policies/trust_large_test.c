/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ten thousand agents: what taint costs of a plan, by comparison with the same plan without any, and the check behind
 * it. CPU time of this process.
 */
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "policies/trust.h"
#include "tests/support/t.h"
#include "topologies/plan.h"

enum { AGENTS = 10000, TURNS = 20 };
#ifdef __OPTIMIZE__
enum { MOST_MS = 100 };
#else
enum { MOST_MS = 1000 }; /* no promise of a build for debugging; what is quadratic takes longer */
#endif

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A document, and the least that it has cost so far. */
struct cost {
    struct bh_pipeline *pipeline;
    double plan, check; /* ms */
    size_t tainted, private_;
};

static void load(struct cost *c, const struct bh_buf *yaml)
{
    struct bh_errlist errors = {0};
    *c = (struct cost){.plan = 1e9, .check = 1e9};
    T_INT(bh_pipeline_load("p.yaml", yaml->data, yaml->len, &c->pipeline, &errors), 0);
}

static void measure(struct cost *c)
{
    struct bh_errlist errors = {0};
    BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
    const struct bh_plan_options options = {.lint = true};
    double start = cpu_ms();
    T_INT(bh_plan_make(c->pipeline, &options, &plan, &errors), 0);
    double made = cpu_ms();
    T_INT(bh_trust_check(plan, NULL, &errors), 0);
    double end = cpu_ms();
    c->plan = made - start < c->plan ? made - start : c->plan;
    c->check = end - made < c->check ? end - made : c->check;
    c->tainted = c->private_ = 0;
    for (size_t a = 0; a < plan->n_agents; a++) {
        c->tainted += plan->agents[a].label == BH_TAINTED;
        c->private_ += plan->agents[a].private_why != NULL;
    }
}

static void add_head(struct bh_buf *out, bool labels)
{
    bh_buf_addf(out,
                "version: 1\nname: t\nsecrets: {k: {env: K}}\n"
                "sources: {bad: {file: b, untrusted: %s}, mine: {file: m, private: %s}}\n",
                labels ? "true" : "false", labels ? "true" : "false");
}

/* Each reads what the one before it made. */
static void chain(struct bh_buf *out, bool labels)
{
    add_head(out, labels);
    bh_buf_adds(out, "topology: per-agent\nagents:\n  - {name: a0, run: x, inputs: [bad, mine], outputs: [o0]}\n");
    for (int i = 1; i < AGENTS; i++)
        bh_buf_addf(out, "  - {name: a%d, run: x, inputs: [o%d], outputs: [o%d]}\n", i, i - 1, i);
}

/* Half of them readers, whom the others read, each through a gate. */
static void gates(struct bh_buf *out, bool labels)
{
    add_head(out, labels);
    bh_buf_adds(out, "agents:\n");
    for (int i = 0; i < AGENTS / 2; i++) {
        bh_buf_addf(out, "  - {name: r%d, run: x, inputs: [bad], outputs: [p%d]}\n", i, i);
        bh_buf_addf(out,
                    "  - {name: u%d, run: x, inputs: [p%d, mine], topology: per-agent, secrets: [k], when: {artifact: "
                    "p%d, is: y}, accept: {p%d: {validate: {kind: json}}}}\n",
                    i, i, i, i);
    }
}

/* Ten stages, each of which sees all before it; half of the agents are tainted, the others private. */
static void stages(struct bh_buf *out, bool labels)
{
    add_head(out, labels);
    bh_buf_adds(out, "stages:\n");
    for (int s = 0; s < 10; s++) {
        bh_buf_addf(out, "  - name: s%d\n    agents:\n", s);
        for (int i = 0; i < AGENTS / 20; i++) {
            bh_buf_addf(out, "      - {name: r%d-%d, run: x, inputs: [bad], outputs: [r%d-%d]}\n", s, i, s, i);
            bh_buf_addf(out, "      - {name: u%d-%d, run: x, outputs: [u%d-%d]%s}\n", s, i, s, i,
                        s == 0 ? ", inputs: [mine]" : "");
        }
    }
}

/* One box, and a stage that repeats: everybody tells everybody. */
static void crowd(struct bh_buf *out, bool labels)
{
    add_head(out, labels);
    bh_buf_adds(out, "boxes: {lab: {}}\nstages:\n  - name: s\n    repeat: {max: 2, until: {artifact: o0, is: y}}\n"
                     "    agents:\n");
    for (int i = 0; i < AGENTS; i++)
        bh_buf_addf(out, "      - {name: a%d, run: x, box: lab, inputs: [%s], outputs: [o%d]}\n", i,
                    i % 2 ? "bad" : "mine", i);
}

/* Neighbours on the machine make it look slower, never faster: so it is tried until it was fast enough. */
static void check(const char *what, void (*write)(struct bh_buf *, bool), size_t tainted, size_t private_)
{
    BH_CLEANUP_BUF struct bh_buf with = BH_BUF_INIT, without = BH_BUF_INIT;
    struct cost a, b;
    double trust = MOST_MS;
    write(&with, true);
    write(&without, false);
    load(&a, &with);
    load(&b, &without);
    for (int i = 0; i < TURNS && (i < 2 || trust >= MOST_MS); i++) {
        measure(&a);
        measure(&b);
        trust = a.plan - b.plan + a.check;
    }
    print_message("%s: plan %.1f ms, without labels %.1f ms, check %.1f ms: trust costs %.1f ms\n", what, a.plan,
                  b.plan, a.check, trust);
    bh_pipeline_free(a.pipeline);
    bh_pipeline_free(b.pipeline);
    T_INT(a.tainted, tainted);
    T_INT(a.private_, private_);
    T_INT(b.tainted + b.private_, 0);
    assert_true(trust < MOST_MS);
}

static void test_chain(void **state)
{
    (void)state;
    check("a chain", chain, AGENTS, AGENTS);
}

static void test_gates(void **state)
{
    (void)state;
    check("gates", gates, AGENTS, AGENTS / 2);
}

static void test_stages(void **state)
{
    (void)state;
    check("stages", stages, AGENTS / 2, AGENTS / 2);
}

static void test_crowd(void **state)
{
    (void)state;
    check("one box", crowd, AGENTS, AGENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
