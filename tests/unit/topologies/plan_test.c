/* SPDX-License-Identifier: Apache-2.0 */
/* The whole plan: its JSON, warnings, what it asks, what this version refuses, and ten thousand agents. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/val.h"
#include "plan_support.h"

#define HEAD "version: 1\nname: t\n"

/* --- JSON --- */

static const char story[] = "version: 1\n"
                            "name: story\n"
                            "secrets: {k: {env: KEY}}\n"
                            "stages:\n"
                            "  - name: gather\n"
                            "    agents:\n"
                            "      - {name: pages, untrusted: true, network: {run: {allow: ['example.org:443']}}, run: "
                            "x, outputs: [pages.jsonl]}\n"
                            "      - {name: schema, run: x, outputs: [schema.json]}\n"
                            "  - name: model\n"
                            "    agents:\n"
                            "      - {name: model, inputs: [pages.jsonl, schema.json], when: {artifact: pages.jsonl, "
                            "not: ''}, run: x, outputs: [{glob: 'm/*'}]}\n"
                            "      - {name: report, run: x}\n";

static const char story_json[] =
    "{\"name\":\"story\",\"asks\":[\"variable KEY\",\"network example.org:443\"],\"sources\":[],"
    "\"boxes\":["
    "{\"id\":\"pages\",\"topology\":\"per-agent\",\"agents\":[\"pages\"],\"base\":\"host\","
    "\"network\":{\"run\":{\"allow\":[\"example.org:443\"]}},\"label\":\"tainted\",\"private\":false,\"powers\":[],"
    "\"limits\":{},"
    "\"reason\":\"reads untrusted content, so it stands alone\"},"
    "{\"id\":\"crew\",\"topology\":\"shared-box\",\"agents\":[\"schema\",\"report\"],\"base\":\"host\",\"network\":"
    "\"none\","
    "\"label\":\"trusted\",\"private\":false,\"powers\":[],\"limits\":{},"
    "\"reason\":\"one box for the crew: nothing in the document asks for a wall\"},"
    "{\"id\":\"model\",\"topology\":\"per-agent\",\"agents\":[\"model\"],\"base\":\"host\",\"network\":\"none\","
    "\"label\":\"tainted\",\"private\":false,\"powers\":[],\"limits\":{},"
    "\"reason\":\"declares its outputs by the glob 'm/*', so nobody else may write there\"}],"
    "\"agents\":["
    "{\"name\":\"pages\",\"stage\":\"gather\",\"box\":\"pages\",\"after\":[],\"inputs\":[],\"left_out\":[],"
    "\"outputs\":[\"pages.jsonl\"],\"label\":\"tainted\",\"why\":\"untrusted: true\","
    "\"private\":false,\"private_why\":null,\"tainted_inputs\":[],\"gates\":[],\"gated\":false,"
    "\"steered_by\":[],\"steered_why\":[],\"limits\":{},\"attempts\":null,\"action\":\"run\","
    "\"reason\":\"reads untrusted content, so it stands alone\"},"
    "{\"name\":\"schema\",\"stage\":\"gather\",\"box\":\"crew\",\"after\":[],\"inputs\":[],\"left_out\":[],"
    "\"outputs\":[\"schema.json\"],\"label\":\"trusted\",\"why\":null,"
    "\"private\":false,\"private_why\":null,\"tainted_inputs\":[],\"gates\":[],\"gated\":false,"
    "\"steered_by\":[],\"steered_why\":[],\"limits\":{},\"attempts\":"
    "null,\"action\":"
    "\"run\","
    "\"reason\":\"shares the crew box: nothing in the document asks for a wall\"},"
    "{\"name\":\"model\",\"stage\":\"model\",\"box\":\"model\",\"after\":[\"pages\",\"schema\"],"
    "\"inputs\":[\"pages.jsonl\",\"schema.json\"],\"left_out\":[],\"outputs\":[\"m/*\"],\"label\":\"tainted\","
    "\"why\":\"pages.jsonl ← pages (untrusted: "
    "true)\","
    "\"private\":false,\"private_why\":null,\"tainted_inputs\":[\"pages.jsonl\"],\"gates\":[],\"gated\":false,"
    "\"steered_by\":[\"pages.jsonl\"],\"steered_why\":[\"pages.jsonl ← pages (untrusted: "
    "true)\"],\"limits\":{},\"attempts\":null,\"action\":\"run\","
    "\"reason\":\"declares its outputs by the glob 'm/*', so nobody else may write there\"},"
    "{\"name\":\"report\",\"stage\":\"model\",\"box\":\"crew\",\"after\":[\"pages\",\"schema\"],"
    "\"inputs\":[\"schema.json\"],\"left_out\":[\"pages.jsonl\"],\"outputs\":[],\"label\":\"trusted\",\"why\":null,"
    "\"private\":false,\"private_why\":null,\"tainted_inputs\":[],\"gates\":[],\"gated\":false,"
    "\"steered_by\":[],\"steered_why\":[],\"limits\":{},\"attempts\":null,\"action\":\"run\",\"reason\":\"shares the "
    "crew box: nothing in "
    "the document asks "
    "for a "
    "wall\"}],"
    "\"warnings\":[]}";

static void test_json(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, story);
    struct bh_val *v = bh_plan_to_val(x.plan);
    T_TRUE(bh_val_len(bh_val_get(v, "warnings")) > 0);
    bh_val_set(v, "warnings", bh_val_list());
    struct bh_buf json = BH_BUF_INIT;
    bh_json_format(v, &json);
    T_STR(json.data, story_json);
    bh_buf_fini(&json);
    bh_val_free(v);
    plan_free(&x);
}

static void test_json_of_warnings(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "agents: [{name: a, run: x, retries: 1}]\n");
    struct bh_val *v = bh_plan_to_val(x.plan);
    const struct bh_val *w = bh_val_at(bh_val_get(v, "warnings"), 0);
    T_INT(bh_val_len(bh_val_get(v, "warnings")), 1);
    T_STR(bh_val_str_of(w, "code"), "not-supported");
    T_STR(bh_val_str_of(w, "message"), "'retries' is not supported by this version");
    T_STR(bh_val_str_of(w, "path"), "agents[0].retries");
    T_INT(bh_val_int_of(w, "line"), 3);
    T_INT(bh_val_type(bh_val_get(bh_val_at(bh_val_get(v, "agents"), 0), "stage")), BH_VAL_NULL);
    bh_val_free(v);
    plan_free(&x);
}

/* --- later keys --- */

static void test_not_supported(void **state)
{
    (void)state;
    struct planned x;
    struct bh_errlist errors = {0};
    plan_good(&x, HEAD "agents:\n  - {name: a, run: x, retries: 1}\n  - {name: b, run: x, when: always, needs: [a]}\n"
                       "  - {name: c, run: x, matrix: {m: [1]}}\n");
    T_INT(bh_plan_check_supported(x.plan, &errors), -BH_E_NOT_SUPPORTED);
    T_INT(errors.len, x.pipeline->n_later);
    T_TRUE(errors.len >= 3);
    for (size_t i = 0; i < errors.len; i++) {
        T_INT(bh_err_code(errors.items[i]), BH_E_NOT_SUPPORTED);
        T_STR(bh_err_file(errors.items[i]), "p.yaml");
        T_TRUE(bh_err_line(errors.items[i]) > 0);
        T_TRUE(bh_err_path(errors.items[i]) != NULL);
        T_INT(bh_code_info((int)bh_err_code(errors.items[i]))->exit_status, 3);
    }
    T_STR(bh_err_message(errors.items[0]), "'retries' is not supported by this version");
    bh_errlist_fini(&errors);
    plan_free(&x);
    plan_good(&x, HEAD "agents: [{name: a, run: x}]\n");
    errors = (struct bh_errlist){0};
    T_INT(bh_plan_check_supported(x.plan, &errors), 0);
    T_INT(errors.len, 0);
    plan_free(&x);
}

/* --- warnings --- */

static const struct {
    const char *yaml, *warning; /* with the code 'invalid'; NULL: none */
} unused[] = {
    {HEAD "sources: {s: {file: s}}\nagents: [{name: a, run: x}]\n", "source 's' is used by no agent"},
    {HEAD "sources: {s: {file: s}}\nagents: [{name: a, run: x, inputs: [s]}]\n", NULL},
    {HEAD "sources: {s: {file: s}}\nagents: [{name: a, run: x, when: {artifact: s, is: y}}]\n", NULL},
    {HEAD "secrets: {k: {env: K}}\nagents: [{name: a, run: x}]\n", "secret 'k' is used by no agent"},
    {HEAD "secrets: {k: {env: K}}\nagents: [{name: a, run: x, secrets: [k]}]\n", NULL},
    {HEAD "secrets: {k: {env: K}}\nendpoints: {e: {upstream: 'https://e.org', allow: ['GET /'], headers: {a: 'b "
          "{{secrets.k}}'}}}\nagents: [{name: a, run: x, endpoints: [e]}]\n",
     NULL},
    {HEAD "boxes: {lab: {}}\nagents: [{name: a, run: x}]\n", "box 'lab' is used by no agent"},
    {HEAD "boxes: {lab: {}}\nagents: [{name: a, run: x, box: lab}]\n", NULL},
    {HEAD "boxes: {crew: {}}\nagents: [{name: a, run: x}]\n", NULL},
    {HEAD "params: {p-q: {type: string}}\nagents: [{name: a, run: x}]\n", "param 'p-q' is used by no agent"},
    {HEAD "params: {p-q: {type: string}}\nagents: [{name: a, run: [x, '{{params.p-q}}']}]\n", NULL},
    {HEAD "params: {p-q: {type: string}}\nagents: [{name: a, run: 'echo $BULKHEAD_PARAM_P_Q'}]\n", NULL},
    {HEAD "params: {p-q: {type: string}}\nagents: [{name: a, run: cat params.json}]\n", NULL},
    {HEAD "params: {p-q: {type: string}}\nagents: [{name: a, run: x, when: {param: p-q, is: y}}]\n", NULL},
    {HEAD "params: {p-q: {type: string}}\nagents: [{name: a, run: x, files: {x: ./x}}]\n", NULL},
    {HEAD "base: 'dir:./r'\nparams: {p-q: {type: string}}\nagents: [{name: a, run: x}]\n", NULL},
};

static void test_unused(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(unused); i++) {
        struct planned x;
        plan_good(&x, unused[i].yaml);
        const char *warning = plan_warning(&x, BH_E_INVALID);
        if ((warning != NULL) != (unused[i].warning != NULL) || (warning && strcmp(warning, unused[i].warning) != 0))
            fail_msg("%s of:\n%s", warning ? warning : "nothing", unused[i].yaml);
        plan_free(&x);
    }
}

static const struct {
    const char *yaml, *warning; /* with the code 'bad-value'; NULL: none */
} warm[] = {
    {HEAD "agents: [{name: a, prepare: {run: x, warm: true}, run: python3 try.py}]\n",
     "'run' of agent 'a' is a text, which a shell executes: nothing of its warm process is kept"},
    {HEAD "agents: [{name: a, prepare: {run: x, warm: true}, run: [python3, try.py]}]\n", NULL},
    {HEAD "agents: [{name: a, prepare: {run: x}, run: python3 try.py}]\n", NULL},
};

static void test_a_text_beside_a_warm_process(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(warm); i++) {
        struct planned x;
        plan_good(&x, warm[i].yaml);
        const char *warning = plan_warning(&x, BH_E_BAD_VALUE);
        if ((warning != NULL) != (warm[i].warning != NULL) || (warning && strcmp(warning, warm[i].warning) != 0))
            fail_msg("%s of:\n%s", warning ? warning : "nothing", warm[i].yaml);
        plan_free(&x);
    }
}

#define OWN(host) "ordinary clients do not reach '" host "': NO_PROXY of a box holds it, so they ask the box itself"

static const struct {
    const char *yaml, *warning; /* with the code 'bad-value'; NULL: none */
} own_hosts[] = {
    {HEAD "agents: [{name: a, run: x, network: {allow: ['localhost:80']}}]\n", OWN("localhost:80")},
    {HEAD "agents: [{name: a, run: x, network: {setup: {allow: ['127.0.0.1:80']}}}]\n", OWN("127.0.0.1:80")},
    {HEAD "agents: [{name: a, run: x, network: {allow: ['[::1]:80']}}]\n", OWN("[::1]:80")},
    {HEAD "defaults: {network: {allow: ['x.localhost:80']}}\nagents: [{name: a, run: x}, {name: b, run: x}]\n",
     OWN("x.localhost:80")},
    {HEAD "agents: [{name: a, run: x, network: {allow: ['127.0.0.2:80', 'localhost.example.org:80']}}]\n", NULL},
};

static void test_hosts_that_clients_look_for_in_the_box(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(own_hosts); i++) {
        struct planned x;
        plan_good(&x, own_hosts[i].yaml);
        const char *warning = plan_warning(&x, BH_E_BAD_VALUE);
        if ((warning != NULL) != (own_hosts[i].warning != NULL) ||
            (warning && strcmp(warning, own_hosts[i].warning) != 0))
            fail_msg("%s of:\n%s", warning ? warning : "nothing", own_hosts[i].yaml);
        plan_free(&x);
    }
}

static void test_a_gate_for_a_slip_in_a_name(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "agents:\n  - {name: r, run: x, untrusted: true, outputs: [scores.csv]}\n"
                       "  - {name: a, run: x, inputs: [scores.csv], accept: {score.csv: {approve: true}}}\n");
    T_STR(plan_warning(&x, BH_E_INVALID), "agent 'a' accepts 'score.csv', which it does not name as an input");
    T_STR(bh_err_get_hint(x.plan->warnings[0]), "did you mean 'scores.csv'?");
    plan_free(&x);
}

static void test_warnings_stand_in_order(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD
              "sources:\n  s: {file: s}\n"
              "agents:\n  - {name: a, run: x, retries: 1}\n  - {name: b, run: x, inputs: [{name: n, optional: true}]}\n"
              "boxes:\n  lab: {}\n");
    static const int lines[] = {4, 6, 7, 9};
    T_INT(x.plan->n_warnings, BH_ARRAY_LEN(lines));
    for (size_t i = 0; i < BH_ARRAY_LEN(lines); i++)
        T_INT(bh_err_line(x.plan->warnings[i]), lines[i]);
    plan_free(&x);
}

/* --- what it asks --- */

static void test_asks(void **state)
{
    (void)state;
    struct planned x;
    plan_good(
        &x, HEAD
        "secrets: {a: {env: A_KEY}, b: {file: /etc/key}, c: {command: [pass, show, c]}}\n"
        "endpoints: {m: {upstream: 'https://m.org', allow: ['GET /x'], headers: {h: "
        "'{{secrets.b}}'}}}\n"
        "base: 'oci-archive:/images/x.tar'\n"
        "boxes: {lab: {network: public}}\n"
        "agents:\n"
        "  - {name: one, run: x, secrets: [a, c], network: {setup: public, run: {allow: ['a.org:443', 'b.org:80']}}}\n"
        "  - {name: two, run: x, network: {allow: ['a.org:443']}, base: 'dir:./inside'}\n"
        "  - {name: three, run: x, network: host}\n"
        "  - {name: four, brain: [think]}\n"
        "  - {name: five, run: x, box: lab}\n");
    static const char *const want[] = {"variable A_KEY",
                                       "file /etc/key",
                                       "command pass show c",
                                       "upstream https://m.org",
                                       "secret b to https://m.org",
                                       "base oci-archive:/images/x.tar",
                                       "network public",
                                       "secret a in agent one",
                                       "secret c in agent one",
                                       "network a.org:443",
                                       "network b.org:80",
                                       "network host",
                                       "brain of agent four"};
    for (size_t i = 0; i < x.plan->n_asks && i < BH_ARRAY_LEN(want); i++)
        T_STR(x.plan->asks[i].s, want[i]);
    T_INT(x.plan->n_asks, BH_ARRAY_LEN(want));
    T_INT(x.plan->asks[5].pos.line, 5);
    plan_free(&x);
}

/* --- many --- */

enum { MANY = 10000, FEWER = 3000, LIMIT_MS = 10000 }; /* far above what it takes: a busy machine, sanitizers */

static double plan_ms(const char *yaml, size_t n_agents)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *pipeline = NULL;
    struct bh_plan *plan = NULL;
    struct bh_plan_options options = {0};
    T_INT(bh_pipeline_load("p.yaml", yaml, strlen(yaml), &pipeline, &errors), 0);
    struct bh_mono start = bh_mono_now();
    T_INT(bh_plan_make(pipeline, &options, &plan, &errors), 0);
    struct bh_val *v = bh_plan_to_val(plan);
    double ms = (double)(bh_mono_now().ns - start.ns) / (double)BH_NS_PER_MS;
    T_INT(plan->n_agents, n_agents);
    T_INT(bh_val_len(bh_val_get(v, "agents")), n_agents);
    bh_val_free(v);
    bh_plan_free(plan);
    bh_pipeline_free(pipeline);
    return ms;
}

static void add_chain(struct bh_buf *out)
{
    bh_buf_adds(out, HEAD "agents:\n  - {name: a0, run: x, untrusted: true, outputs: [o0]}\n");
    for (int i = 1; i < MANY; i++)
        bh_buf_addf(out, "  - {name: a%d, run: x, inputs: [o%d], outputs: [o%d]}\n", i, i - 1, i);
}

static void add_stages(struct bh_buf *out, int stages, int n)
{
    bh_buf_adds(out, HEAD "stages:\n");
    for (int s = 0; s < stages; s++) {
        bh_buf_addf(out, "  - name: s%d\n    agents:\n", s);
        for (int i = 0; i < n / stages; i++)
            bh_buf_addf(out, "      - {name: a%d-%d, run: x, outputs: [o%d-%d]}\n", s, i, s, i);
    }
}

static void add_join(struct bh_buf *out)
{
    bh_buf_adds(out, HEAD "agents:\n");
    for (int i = 0; i < MANY - 2; i++)
        bh_buf_addf(out, "  - {name: a%d, run: x, outputs: ['p%d/o', {glob: 'g%d/*'}], files: {f: ./f}}\n", i, i, i);
    bh_buf_adds(out, "  - {name: j, run: x, inputs: ['*/o']}\n  - {name: k, run: x, inputs: [g77/x, '**']}\n");
}

static void test_many(void **state)
{
    (void)state;
    for (int shape = 0; shape < 5; shape++) {
        BH_CLEANUP_BUF struct bh_buf yaml = BH_BUF_INIT;
        int n = shape < 2 ? MANY : FEWER;
        switch (shape) {
        case 0:
            add_chain(&yaml);
            break;
        case 1:
            add_join(&yaml);
            break;
        case 2:
            add_stages(&yaml, 2, n);
            break;
        case 3:
            add_stages(&yaml, 100, n);
            break;
        default:
            add_stages(&yaml, n, n);
            break;
        }
        double ms = plan_ms(yaml.data, (size_t)n);
        print_message("shape %d: %.0f ms\n", shape, ms);
        if (ms > LIMIT_MS)
            fail_msg("shape %d took %.0f ms", shape, ms);
    }
}

/* Large stages are written short. */
static void test_json_of_large_stages(void **state)
{
    (void)state;
    struct planned x;
    struct bh_buf yaml = BH_BUF_INIT;
    bh_buf_adds(&yaml, HEAD "stages:\n  - name: one\n    agents:\n");
    for (int i = 0; i < 150; i++)
        bh_buf_addf(&yaml,
                    "      - {name: a%d, run: x, outputs: [a%d]}\n      - {name: b%d, run: x, untrusted: true, "
                    "outputs: [b%d]}\n",
                    i, i, i, i);
    bh_buf_adds(
        &yaml,
        "  - name: two\n    agents: [{name: c, run: x}, {name: d, run: x, inputs: ['a*']}, {name: e, run: x}]\n");
    plan_good(&x, yaml.data);
    T_INT(plan_agent(&x, "c")->n_after, 300);
    struct bh_val *v = bh_plan_to_val(x.plan);
    for (size_t i = 300; i <= 302; i += 2) {
        const struct bh_val *c = bh_val_at(bh_val_get(v, "agents"), i);
        T_INT(bh_val_len(bh_val_get(c, "after")), 1);
        T_STR(bh_val_get_str(bh_val_at(bh_val_get(c, "after"), 0)), "stage:one");
        T_INT(bh_val_len(bh_val_get(c, "inputs")), 1);
        T_STR(bh_val_get_str(bh_val_at(bh_val_get(c, "inputs"), 0)), "**");
        T_INT(bh_val_len(bh_val_get(c, "left_out")), 51);
        T_STR(bh_val_get_str(bh_val_at(bh_val_get(c, "left_out"), 50)), "… and 100 more");
    }
    /* what an agent names itself is never cut */
    T_INT(bh_val_len(bh_val_get(bh_val_at(bh_val_get(v, "agents"), 301), "after")), 150);
    bh_val_free(v);
    plan_free(&x);
    bh_buf_fini(&yaml);
}

static void test_free_nothing(void **state)
{
    (void)state;
    bh_plan_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_of_warnings),
        cmocka_unit_test(test_not_supported),
        cmocka_unit_test(test_unused),
        cmocka_unit_test(test_a_text_beside_a_warm_process),
        cmocka_unit_test(test_hosts_that_clients_look_for_in_the_box),
        cmocka_unit_test(test_a_gate_for_a_slip_in_a_name),
        cmocka_unit_test(test_warnings_stand_in_order),
        cmocka_unit_test(test_asks),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_json_of_large_stages),
        cmocka_unit_test(test_free_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
