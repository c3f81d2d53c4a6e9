/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints and limits on calls in leases, and what of them a prepared state depends on. */
#include "scheduler/dispatch/lease_endpoints.h"

#include "base/mem.h"
#include "scheduler/dispatch/snapshot_key.h"
#include "tests/support/t.h"
#include "topologies/plan.h"

static const char text[] =
    "version: 1\nname: x\n"
    "secrets: {key: {env: K}, other: {file: keys/o}}\n"
    "endpoints:\n"
    "  m: {upstream: 'https://m.org', allow: ['GET /x', 'POST /y/*'], max_parallel: 3, tainted: true,\n"
    "      headers: {k: 'Bearer {{ secrets.key }}', l: '{{secrets.other}} and {{secrets.key}}', n: plain},\n"
    "      env: {URL: '{{ url }}/v1', KEY: unused}}\n"
    "  n: {upstream: 'https://n.org', allow: ['GET /']}\n"
    "boxes: {lab: {limits: {requests: 7, tokens: 70}}}\n"
    "agents:\n"
    "  - {name: a, run: x, endpoints: [n, m], limits: {requests: 5}}\n"
    "  - {name: b, run: x, box: lab, limits: {tokens: 9}}\n";

static struct bh_pipeline *pipeline;
static struct bh_plan *plan;

static int setup(void **state)
{
    struct bh_errlist errors = {0};
    const struct bh_plan_options options = {0};
    (void)state;
    T_INT(bh_pipeline_load("p.yaml", text, sizeof(text) - 1, &pipeline, &errors), 0);
    T_INT(bh_plan_make(pipeline, &options, &plan, &errors), 0);
    bh_errlist_fini(&errors);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_plan_free(plan);
    bh_pipeline_free(pipeline);
    return 0;
}

static const struct bh_plan_agent *agent(const char *name)
{
    for (size_t i = 0; i < plan->n_agents; i++) {
        if (strcmp(plan->agents[i].name, name) == 0)
            return &plan->agents[i];
    }
    return NULL;
}

static void what_a_lease_says(void **state)
{
    (void)state;
    struct bh_lease lease = {0};
    bh_lease_fill_endpoints(plan, "/work/of/p.yaml", agent("a"), &lease);
    T_INT(lease.n_endpoints, 2);
    T_STR(lease.endpoints[0].name, "n");
    T_INT(lease.endpoints[0].n_secrets + lease.endpoints[0].n_headers + lease.endpoints[0].n_env, 0);
    const struct bh_lease_endpoint *m = &lease.endpoints[1];
    T_STR(m->upstream, "https://m.org");
    T_INT(m->max_parallel, 3);
    T_TRUE(m->tainted);
    T_INT(m->n_allow, 2);
    T_STR(m->allow[1], "POST /y/*");
    T_INT(m->n_headers, 3);
    T_STR(m->headers[0].value, "Bearer {{secrets.key}}");
    T_STR(m->headers[1].value, "{{secrets.other}} and {{secrets.key}}");
    T_STR(m->headers[2].value, "plain");
    T_STR(m->env[0].value, "{{url}}/v1");
    T_STR(m->env[1].value, "unused");
    T_INT(m->n_secrets, 2); /* each once */
    T_STR(m->secrets[0].name, "key");
    T_STR(m->secrets[0].env, "K");
    T_STR(m->secrets[1].file, "/work/of/keys/o");
    bh_lease_fini(&lease);
}

static void limits_are_the_agents_or_its_boxs(void **state)
{
    (void)state;
    struct bh_lease a = {0}, b = {0};
    bh_lease_fill_endpoints(plan, "/p.yaml", agent("a"), &a);
    bh_lease_fill_endpoints(plan, "/p.yaml", agent("b"), &b);
    T_INT(a.max_requests, 5);
    T_INT(a.max_tokens, 0);
    T_INT(b.max_requests, 7);
    T_INT(b.max_tokens, 9);
    bh_lease_fini(&a);
    bh_lease_fini(&b);
}

static char *key_with(const char *upstream, const char *path)
{
    const struct bh_snapshot_world world = {.host = "h", .network = "none"};
    struct bh_lease lease = {.kind = BH_LEASE_PREPARE, .box = {.base = bh_strdup("host")}};
    bh_lease_fill_endpoints(plan, "/p.yaml", agent("a"), &lease);
    bh_free(lease.endpoints[0].upstream);
    bh_free(lease.endpoints[0].allow[0]);
    lease.endpoints[0].upstream = bh_strdup(upstream);
    lease.endpoints[0].allow[0] = bh_strdup(path);
    char *key = bh_snapshot_key(&lease, NULL, &world);
    bh_lease_fini(&lease);
    return key;
}

static void a_prepared_state_depends_on_them(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *one = key_with("https://n.org", "GET /"), *same = key_with("https://n.org", "GET /");
    BH_CLEANUP_FREE char *elsewhere = key_with("https://o.org", "GET /"), *more = key_with("https://n.org", "GET /**");
    T_STR(one, same);
    assert_string_not_equal(one, elsewhere);
    assert_string_not_equal(one, more);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(what_a_lease_says), T(limits_are_the_agents_or_its_boxs),
                                       T(a_prepared_state_depends_on_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
