/* SPDX-License-Identifier: Apache-2.0 */
/* From what a document says of networks to the rules of each phase in a lease. */
#include "scheduler/dispatch/lease_reach.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"
#include "topologies/plan.h"

/* "public none allow(a:1,b:2) none": of setup, prepare, run, check. */
static char *text_of(const struct bh_lease *l)
{
    static const char *const kinds[] = {
        [BH_NET_NONE] = "none", [BH_NET_PUBLIC] = "public", [BH_NET_HOST] = "host", [BH_NET_ALLOW] = "allow"};
    struct bh_buf out = BH_BUF_INIT;
    for (int i = 0; i < BH_N_NET_PHASES; i++) {
        const struct bh_lease_network *n = &l->network[i];
        bh_buf_addf(&out, "%s%s", i ? " " : "", kinds[n->kind]);
        for (size_t k = 0; k < n->n_allow; k++)
            bh_buf_addf(&out, "%s%s", k ? "," : ":", n->allow[k]);
    }
    return bh_buf_take(&out);
}

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *network, *want;
    } rows[] = {
        {"none", "none none none none"},
        {"public", "public public public none"},
        {"host", "host host host none"},
        {"{\"allow\":[\"a.org:1\",\"*.b.org:2\"]}",
         "allow:a.org:1,*.b.org:2 allow:a.org:1,*.b.org:2 allow:a.org:1,*.b.org:2 none"},
        {"{\"run\":\"public\"}", "none none public none"},
        {"{\"check\":{\"allow\":[\"c.org:3\"]},\"setup\":\"public\"}", "public none none allow:c.org:3"},
        {"{\"run\":\"open\"}", "none none none none"},
        {"{\"run\":", "none none none none"}, /* what cannot be read lets nothing out */
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_lease l = {0};
        bh_lease_reach(&l, rows[i].network, NULL);
        BH_CLEANUP_FREE char *got = text_of(&l);
        T_STR(got, rows[i].want);
        T_INT(l.n_ranges, 0);
        bh_lease_fini(&l);
    }
}

static void test_ranges(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *ranges = bh_val_list();
    struct bh_lease l = {0};
    bh_val_add(ranges, bh_val_str("10.0.0.0/8"));
    bh_lease_reach(&l, "none", ranges);
    T_INT(l.n_ranges, 1);
    T_STR(l.ranges[0], "10.0.0.0/8");
    bh_lease_fini(&l);
}

/* A check has its own network, which is the phase's whatever stands in `network`. */
static void test_checks(void **state)
{
    (void)state;
    static const struct {
        const char *agent, *want;
    } rows[] = {
        {"network: public, check: x", "public public public none"},
        {"check: {run: x, network: public}", "none none none public"},
        {"network: public, check: {run: x, network: {allow: ['c.org:3']}}", "public public public allow:c.org:3"},
        {"network: {run: public, check: public}, check: {run: x, network: none}", "none none public none"},
        {"network: {check: {allow: ['c.org:3']}}, check: x", "none none none allow:c.org:3"},
        {"network: {allow: ['a.org:1']}, check: {run: x, network: none}",
         "allow:a.org:1 allow:a.org:1 allow:a.org:1 none"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        BH_CLEANUP_PIPELINE struct bh_pipeline *p = NULL;
        BH_CLEANUP_PLAN struct bh_plan *plan = NULL;
        struct bh_plan_options options = {0};
        struct bh_errlist errors = {0};
        bh_buf_addf(&text, "version: 1\nname: t\nagents: [{name: a, run: 'true', %s}]\n", rows[i].agent);
        T_INT(bh_pipeline_load("t.yaml", text.data, text.len, &p, &errors), 0);
        T_INT(bh_plan_make(p, &options, &plan, &errors), 0);
        struct bh_lease l = {0};
        bh_lease_reach(&l, plan->boxes[0].network, NULL);
        BH_CLEANUP_FREE char *got = text_of(&l);
        T_STR(got, rows[i].want);
        T_INT(p->n_later, 0);
        bh_lease_fini(&l);
        bh_errlist_fini(&errors);
    }
}

/* The plan would have to be wrong for this; then it is still no power. */
static void test_powers_of_a_tainted_box(void **state BH_UNUSED)
{
    struct bh_lease_endpoint endpoints[] = {{.name = (char[]){"open"}, .tainted = true}, {.name = (char[]){"shut"}}};
    struct bh_lease_secret secret = {.name = (char[]){"k"}};
    struct bh_lease lease = {.agent = (char[]){"a"}, .endpoints = endpoints, .n_endpoints = 1};
    lease.box.tainted = true;
    lease.network[BH_NET_RUN].kind = BH_NET_PUBLIC;
    T_OK(bh_lease_check_powers(&lease, &err));
    lease.n_endpoints = 2;
    T_ERR(bh_lease_check_powers(&lease, &err), BH_E_POLICY, "no power: endpoint shut");
    lease.network[BH_NET_CHECK].kind = BH_NET_HOST;
    T_ERR(bh_lease_check_powers(&lease, &err), BH_E_POLICY, "no power: network host");
    lease.secrets = &secret;
    lease.n_secrets = 1;
    T_ERR(bh_lease_check_powers(&lease, &err), BH_E_POLICY,
          "the box of agent 'a' is tainted, and is given no power: secret k");
    lease.box.tainted = false;
    lease.tainted = true; /* what a gate let in */
    T_OK(bh_lease_check_powers(&lease, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_powers_of_a_tainted_box),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
