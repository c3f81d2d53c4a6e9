/* SPDX-License-Identifier: Apache-2.0 */
/* References to secrets in leases, and whether they could be had before anything runs. */
#include "scheduler/dispatch/lease_secrets.h"

#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"
#include "topologies/plan.h"

static const char text[] = "version: 1\nname: x\n"
                           "secrets:\n"
                           "  by-env: {env: BH_TEST_SECRET}\n"
                           "  near: {file: keys/near}\n"
                           "  far: {file: /etc/far}\n"
                           "  found: {command: [bh-no-such-pass, show, ./x]}\n"
                           "  own: {command: [./get, key]}\n"
                           "  unused: {env: BH_NEVER_SET}\n"
                           "  header: {env: BH_TEST_HEADER}\n"
                           "endpoints: {m: {upstream: 'https://m.org', allow: ['GET /x'], headers: {k: 'Bearer "
                           "{{secrets.header}}'}}}\n"
                           "agents:\n"
                           "  - {name: a, run: x, secrets: [by-env, near, far, found, own]}\n"
                           "  - {name: b, run: x, secrets: {TOKEN: by-env}}\n"
                           "  - {name: c, run: x, endpoints: [m]}\n";

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
    unsetenv("BH_TEST_SECRET");
    unsetenv("BH_TEST_HEADER");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_plan_free(plan);
    bh_pipeline_free(pipeline);
    return 0;
}

static void what_a_lease_says(void **state)
{
    (void)state;
    struct bh_lease lease = {0};
    bh_lease_fill_secrets(pipeline, "/work/of/p.yaml", &pipeline->agents[0], &lease);
    T_INT(lease.n_secrets, 5);
    T_STR(lease.secrets[0].variable, "BY_ENV");
    T_STR(lease.secrets[0].name, "by-env");
    T_STR(lease.secrets[0].env, "BH_TEST_SECRET");
    assert_null(lease.secrets[0].file);
    T_INT(lease.secrets[0].n_command, 0);
    T_STR(lease.secrets[1].file, "/work/of/keys/near");
    T_STR(lease.secrets[2].file, "/etc/far");
    T_INT(lease.secrets[3].n_command, 3);
    T_STR(lease.secrets[3].command[0], "bh-no-such-pass"); /* looked for in PATH */
    T_STR(lease.secrets[3].command[2], "./x");             /* an argument is the program's */
    T_STR(lease.secrets[4].command[0], "/work/of/./get");
    bh_lease_fini(&lease);
    bh_lease_fill_secrets(pipeline, "/work/of/p.yaml", &pipeline->agents[1], &lease);
    T_INT(lease.n_secrets, 1);
    T_STR(lease.secrets[0].variable, "TOKEN");
    bh_lease_fini(&lease);
}

static struct bh_val *only(const char *agent)
{
    struct bh_val *submission = bh_val_map();
    struct bh_val *options = bh_val_set(submission, "options", bh_val_map());
    bh_val_add(bh_val_set(options, "only", bh_val_list()), bh_val_str(agent));
    return submission;
}

static void check(const char *agent, int code, size_t n, const char *first, int line)
{
    struct bh_errlist errors = {0};
    BH_CLEANUP_VAL struct bh_val *submission = only(agent);
    T_INT(bh_lease_secrets_check(plan, "/work/of/p.yaml", submission, &errors), code);
    T_INT(errors.len, n);
    if (n > 0) {
        assert_non_null(strstr(bh_err_message(errors.items[0]), first));
        T_INT(bh_err_line(errors.items[0]), line);
    }
    bh_errlist_fini(&errors);
}

static void whether_they_are_there(void **state)
{
    (void)state;
    check("a", -BH_E_HOST, 5, "variable 'BH_TEST_SECRET' is not set", 4); /* and two files and programs */
    check("b", -BH_E_HOST, 1, "secret 'by-env' cannot be had", 4);
    check("c", -BH_E_HOST, 1, "variable 'BH_TEST_HEADER' is not set", 10);
    setenv("BH_TEST_SECRET", "x", 1);
    check("b", 0, 0, NULL, 0);
    check("a", -BH_E_HOST, 4, "file '/work/of/keys/near' cannot be read", 5);
    setenv("BH_TEST_HEADER", "x", 1);
    check("c", 0, 0, NULL, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(what_a_lease_says), T(whether_they_are_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
