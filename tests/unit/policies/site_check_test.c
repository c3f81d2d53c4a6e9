/* SPDX-License-Identifier: Apache-2.0 */
/* Plans against site policies: what each rule refuses, with its line, and what several say together. */
#include "policies/site.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "topologies/plan.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = t_tmpdir();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    t_tmpdir_free(dir);
    return 0;
}

static void read_site(struct bh_policy *policy, const char *text)
{
    struct bh_errlist errors = {0};
    BH_CLEANUP_FREE char *file = bh_asprintf("%s/%zu.yaml", dir, policy->n);
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    T_INT(fclose(f), 0);
    T_INT(chmod(file, 0600), 0);
    if (bh_site_read(file, true, &policy->sites[policy->n++], &errors) != 0)
        fail_msg("%s: %s", text, bh_err_message(errors.items[0]));
}

struct planned {
    struct bh_pipeline *pipeline;
    struct bh_plan *plan;
};

static struct planned plan_of(const char *yaml)
{
    struct planned p = {0};
    struct bh_errlist errors = {0};
    const struct bh_plan_options options = {0};
    BH_CLEANUP_FREE char *text = bh_asprintf("version: 1\nname: nightly-crew\n%s", yaml);
    if (bh_pipeline_load("p.yaml", text, strlen(text), &p.pipeline, &errors) != 0 ||
        bh_plan_make(p.pipeline, &options, &p.plan, &errors) != 0)
        fail_msg("%s: %s", yaml, bh_err_message(errors.items[0]));
    return p;
}

static void planned_fini(struct planned *p)
{
    bh_plan_free(p->plan);
    bh_pipeline_free(p->pipeline);
}

#define AGENT(more) "agents: [{name: a, run: x" more "}]\n"
#define SECRET "secrets: {k: {env: API_KEY}, f: {file: /etc/k}, c: {command: [pass, show]}}\n"
#define ENDPOINT                                                                                                 \
    SECRET "endpoints: {m: {upstream: 'https://api.example.com', headers: {x-api-key: '{{secrets.k}}'}, allow: " \
           "['GET /']}}\n"

static const struct row {
    const char *site, *yaml;
    const char *part; /* of the message; NULL: the site allows it */
    int line;         /* of the rule; 0: none gives leave */
} rows[] = {
    {"", AGENT(""), NULL, 0},
    {"allow: {bases: ['oci:*']}\n", AGENT(""), "base 'host'", 1},
    {"allow: {bases: [host]}\n", AGENT(""), NULL, 0},
    {"allow:\n  bases: ['oci:images/**']\n", "base: oci:images/a\n" AGENT(""), NULL, 0},
    {"", AGENT(", network: public"), NULL, 0},
    {"allow: {hosts: ['a.org:443']}\n", AGENT(", network: public"), "network 'public'", 1},
    {"allow: {hosts: [public]}\n", AGENT(", network: public"), NULL, 0},
    {"\nallow: {hosts: ['*.a.org:443']}\n", AGENT(", network: {allow: ['x.a.org:443', 'b.org:443']}"),
     "network 'b.org:443'", 2},
    {"allow: {hosts: ['*.a.org:443']}\n", AGENT(", network: {allow: ['x.a.org:443', '*.a.org:443']}"), NULL, 0},
    {"allow: {hosts: []}\n", AGENT(", network: {setup: {allow: ['b.org:443']}}"), "network 'b.org:443'", 1},
    {"allow: {hosts: []}\n", AGENT(", network: none"), NULL, 0},
    {"", AGENT(", network: host"), "the host's network", 0},
    {"allow: {host_network: false}\n", AGENT(", network: host"), "the host's network", 1},
    {"allow: {host_network: true}\n", AGENT(", network: host"), NULL, 0},
    {"", AGENT(", check: {run: y, network: host}"), "the host's network", 0},
    {"", "boxes: {lab: {network: {setup: host}}}\n" AGENT(", box: lab"), "the host's network", 0},
    {"pipelines:\n  - {name: 'nightly-*', allow: {host_network: true}}\n", AGENT(", network: host"), NULL, 0},
    {"pipelines:\n  - {name: 'daily-*', allow: {host_network: true}}\n", AGENT(", network: host"), "the host's network",
     0},
    {"", AGENT(", user: root"), NULL, 0},
    {"allow: {root: false}\n", AGENT(", user: root"), "agent 'a' to be root", 1},
    {"allow: {root: true}\n", AGENT(", user: root"), NULL, 0},
    {"allow: {secrets: []}\n", SECRET AGENT(""), NULL, 0}, /* nobody uses them */
    {"allow: {secrets: ['env:API_*']}\n", SECRET AGENT(", secrets: [k]"), NULL, 0},
    {"allow: {secrets: ['env:OTHER']}\n", SECRET AGENT(", secrets: [k]"), "secret 'env:API_KEY'", 1},
    {"allow: {secrets: ['env:*']}\n", SECRET AGENT(", secrets: [f]"), "secret 'file:/etc/k'", 1},
    {"allow: {secrets: ['file:/etc/*']}\n", SECRET AGENT(", secrets: [f]"), NULL, 0},
    {"allow: {secrets: ['env:*']}\n", SECRET AGENT(", secrets: [c]"), "secret 'command:pass'", 1},
    {"allow: {endpoints: ['https://api.example.com']}\n", ENDPOINT AGENT(", endpoints: [m]"), NULL, 0},
    {"allow: {endpoints: ['https://other.example.com']}\n", ENDPOINT AGENT(", endpoints: [m]"),
     "upstream 'https://api.example.com'", 1},
    {"allow: {secrets: []}\n", ENDPOINT AGENT(", endpoints: [m]"), "secret 'env:API_KEY'", 1},
    {"allow: {secrets: []}\n", /* as everybody else reads it, white space does not count */
     SECRET "endpoints: {m: {upstream: 'https://a.org', headers: {h: 'x {{  secrets.k }}'}, allow: ['GET /']}}\n" AGENT(
         ", endpoints: [m]"),
     "secret 'env:API_KEY'", 1},
    {"caps: {limits: {memory: 1GiB}}\n", AGENT(", limits: {memory: 2GiB}"), "more than limits.memory 1GiB", 1},
    {"caps: {limits: {memory: 2GiB}}\n", AGENT(", limits: {memory: 2GiB}"), NULL, 0},
    {"caps: {limits: {disk: 1GiB}}\n", AGENT(""), "nothing is said, and the default is: 10GiB", 1},
    {"caps:\n  limits:\n    cpus: 1\n    pids: 9\n", AGENT(", topology: per-agent, limits: {cpus: 2, pids: 9}"),
     "limits.cpus 1", 3},
    {"caps: {timeout: 10m}\n", AGENT(", timeout: 20m"), "a timeout of more than", 1},
    {"caps: {timeout: 10m}\n", AGENT(", timeout: {run: 5m}"), NULL, 0},
    {"caps: {timeout: 10m}\n", AGENT(", timeout: {run: 5m}, setup: y"), "setup", 1},
    {"caps: {attempts: 3}\n", AGENT(", attempts: 4"), "more than 3 attempts", 1},
    {"caps: {attempts: 3}\n", AGENT(", attempts: 3"), NULL, 0},
    {"allow: {root: true}\npipelines:\n  - {name: 'nightly-*', allow: {root: false}}\n", AGENT(", user: root"),
     "to be root", 3},
    {"allow: {root: true}\npipelines:\n  - {name: 'daily-*', allow: {root: false}}\n", AGENT(", user: root"), NULL, 0},
    {"allow: {root: false}\npipelines:\n  - {labels: {team: ops}, allow: {root: true}}\n",
     AGENT(", user: root, labels: {team: ops}"), NULL, 0},
    {"allow: {root: false}\npipelines:\n  - {labels: {team: ops}, allow: {root: true}}\n",
     AGENT(", user: root, labels: {team: dev}"), "to be root", 1},
    {"pipelines:\n  - {allow: {root: true}}\n  - {allow: {root: false}}\n", AGENT(", user: root"), "to be root", 3},
};

static void each_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        struct bh_policy policy = {0};
        struct bh_errlist errors = {0};
        read_site(&policy, row->site);
        struct planned p = plan_of(row->yaml);
        int rc = bh_policy_check(&policy, p.plan, &errors);
        const char *first = errors.len > 0 ? bh_err_message(errors.items[0]) : "";
        if (rc != (row->part ? -BH_E_POLICY : 0) || errors.len != (row->part ? 1 : 0) ||
            (row->part && !strstr(first, row->part)))
            fail_msg("%s%s gave %d, %zu errors: %s", row->site, row->yaml, rc, errors.len, first);
        if (row->part) {
            BH_CLEANUP_FREE char *rule = row->line > 0 ? bh_asprintf("rule: %s:%d", policy.sites[0].file, row->line)
                                                       : bh_strdup("no rule of the site gives leave for it");
            T_STR(bh_err_get_detail(errors.items[0]), rule);
            T_STR(bh_err_file(errors.items[0]), "p.yaml");
            T_TRUE(bh_err_line(errors.items[0]) >= 3);
        }
        bh_errlist_fini(&errors);
        planned_fini(&p);
        bh_policy_fini(&policy);
    }
}

/* The host's network needs somebody's leave, and nobody has given any; everything else is the document's to ask. */
static void without_a_policy(void **state)
{
    struct bh_policy policy = {0};
    struct bh_errlist errors = {0};
    (void)state;
    struct planned all = plan_of(AGENT(", network: public, user: root, attempts: 900"));
    T_INT(bh_policy_check(&policy, all.plan, &errors), 0);
    struct planned host = plan_of(AGENT(", network: {setup: host}"));
    T_INT(bh_policy_check(&policy, host.plan, &errors), -BH_E_POLICY);
    T_INT(errors.len, 1);
    T_STR(bh_err_message(errors.items[0]), "the site does not allow the host's network (network: host)");
    T_STR(bh_err_get_hint(errors.items[0]), "change the document, or give leave by 'allow: {host_network: true}' in "
                                            "/etc/bulkhead/site.yaml or your own file (BULKHEAD_SITE, else "
                                            "~/.config/bulkhead/site.yaml)");
    bh_errlist_fini(&errors);
    planned_fini(&all);
    planned_fini(&host);
}

static void the_stricter_wins(void **state)
{
    struct bh_policy policy = {0};
    struct bh_errlist errors = {0};
    const char *file = NULL;
    (void)state;
    read_site(&policy, "limits: best-effort\ndisk_budget: 2GiB\ncaps: {parallel: 4}\nallow: {root: true}\n");
    struct planned p = plan_of(AGENT(", user: root"));
    T_TRUE(bh_policy_best_effort(&policy));
    T_INT(bh_policy_parallel(&policy, p.plan), 4);
    T_INT(bh_policy_check(&policy, p.plan, &errors), 0);
    read_site(&policy, "disk_budget: 1GiB\ncaps: {parallel: 2}\nallow: {root: false}\n");
    T_TRUE(!bh_policy_best_effort(&policy));
    T_INT(bh_policy_disk_budget(&policy, &file), INT64_C(1) << 30);
    T_STR(file, policy.sites[1].file);
    T_INT(bh_policy_parallel(&policy, p.plan), 2);
    T_INT(bh_policy_check(&policy, p.plan, &errors), -BH_E_POLICY);
    bh_errlist_fini(&errors);
    planned_fini(&p);
    bh_policy_fini(&policy);
    T_TRUE(!bh_policy_best_effort(&policy)); /* nobody says so */
}

static void check_ranges(const struct bh_policy *policy, const struct bh_plan *plan, const char *const *want, size_t n)
{
    char **texts;
    size_t got;
    bh_policy_ranges(policy, plan, 0, &texts, &got);
    T_INT(got, n);
    for (size_t i = 0; i < got; i++) {
        T_STR(texts[i], want[i]);
        bh_free(texts[i]);
    }
    bh_free(texts);
}

static void ranges_of_all(void **state)
{
    struct bh_policy policy = {0};
    (void)state;
    struct planned p = plan_of(AGENT(""));
    check_ranges(&policy, p.plan, NULL, 0);
    read_site(&policy, "allow: {ranges: [10.0.0.0/8, 192.168.0.0/16]}\n");
    check_ranges(&policy, p.plan, (const char *const[]){"10.0.0.0/8", "192.168.0.0/16"}, 2);
    read_site(&policy, "allow: {ranges: [10.1.0.0/16, 172.16.0.0/12]}\n");
    check_ranges(&policy, p.plan, (const char *const[]){"10.1.0.0/16"}, 1);
    planned_fini(&p);
    bh_policy_fini(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_rule, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_policy, setup, teardown),
        cmocka_unit_test_setup_teardown(the_stricter_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(ranges_of_all, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
