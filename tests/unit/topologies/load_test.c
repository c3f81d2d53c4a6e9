/* SPDX-License-Identifier: Apache-2.0 */
/* What good documents become: the model, its defaults, and the keys of later versions. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "tests/unit/topologies/load_support.h"
#include "topologies/yaml_tree.h"

static void check_pos(struct bh_pos pos, int line, int column)
{
    if (pos.line != line || pos.column != column)
        fail_msg("%d:%d instead of %d:%d", pos.line, pos.column, line, column);
}

static void test_least(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(AGENT);
    assert_string_equal(p->file, "p.yaml");
    assert_string_equal(p->name.s, "x");
    check_pos(p->name.pos, 2, 7);
    assert_null(p->description.s);
    assert_int_equal(p->topology, BH_TOPOLOGY_AUTO);
    assert_int_equal(p->n_agents, 1);
    assert_int_equal(p->n_stages, 0);
    assert_int_equal(p->n_later, 0);
    assert_int_equal(p->max_parallel, 0);
    assert_int_equal(p->max_failures, -1);
    assert_int_equal(p->deadline_ns, 0);
    const struct bh_agent *a = &p->agents[0];
    assert_string_equal(a->name.s, "a");
    assert_string_equal(a->path, "agents[0]");
    assert_int_equal(a->stage, -1);
    assert_true(a->run.set);
    assert_false(a->run.is_list);
    assert_int_equal(a->run.args.len, 1);
    assert_string_equal(a->run.args.items[0].s, "b");
    assert_false(a->setup.set || a->prepare.set || a->check.set || a->brain.set);
    assert_int_equal(a->topology, BH_TOPOLOGY_UNSET);
    assert_false(a->has_inputs || a->has_needs || a->untrusted || a->continue_on_failure);
    assert_int_equal(a->keep, BH_KEEP_ON_FAILURE);
    assert_int_equal(a->attempts.count, 1);
    assert_int_equal(a->retries, 0);
    assert_int_equal(a->timeouts.setup, 3600 * BH_NS_PER_S);
    assert_int_equal(a->timeouts.prepare, 3600 * BH_NS_PER_S);
    assert_int_equal(a->timeouts.run, 3600 * BH_NS_PER_S);
    assert_int_equal(a->timeouts.check, 3600 * BH_NS_PER_S);
    assert_int_equal(a->timeouts.grace, 10 * BH_NS_PER_S);
    assert_null(a->traits.base.s);
    assert_null(a->traits.network.s);
    assert_null(a->matrix);
}

static void test_top_level(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(
        AGENT "description: |\n  two\n  lines\ntopology: per-agent\nbase: host\nmax_parallel: 8\nmax_failures: 10%\n"
              "deadline: 1h30m\nx-mine: {any: [thing], run: 5}\nx-: y\n");
    assert_string_equal(p->description.s, "two\nlines\n");
    assert_int_equal(p->topology, BH_TOPOLOGY_PER_AGENT);
    assert_string_equal(p->traits.base.s, "host");
    assert_int_equal(p->max_parallel, 8);
    assert_int_equal(p->max_failures, 10);
    assert_true(p->max_failures_percent);
    assert_int_equal(p->deadline_ns, 5400 * BH_NS_PER_S);
    assert_int_equal(p->n_later, 0);
    assert_int_equal(bh_node_len(p->root), 11); /* the root keeps what the model leaves out */
    BH_CLEANUP_PIPELINE struct bh_pipeline *q = t_load(AGENT "max_failures: 3\ntopology: shared-box\n");
    assert_int_equal(q->max_failures, 3);
    assert_false(q->max_failures_percent);
    assert_int_equal(q->topology, BH_TOPOLOGY_SHARED_BOX);
}

/* Strings stay strings, whatever other tools make of them. */
static void test_scalars(void **state)
{
    static const char *const values[] = {"no",    "yes",  "true",      "null", "~",
                                         "1e3",   "0o17", "08",        "0x1f", "12:30",
                                         "1_000", "2.50", "20200219",  ".inf", "99999999999999999999",
                                         "=",     "-0",   "2020-02-19"};
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, AGENT "  env:\n");
    for (size_t i = 0; i < BH_ARRAY_LEN(values); i++)
        bh_buf_addf(&text, "    V%zu: %s\n", i, values[i]);
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(text.data);
    assert_int_equal(p->agents[0].env.len, BH_ARRAY_LEN(values));
    for (size_t i = 0; i < BH_ARRAY_LEN(values); i++) {
        assert_string_equal(p->agents[0].env.items[i].value.s, values[i]);
        check_pos(p->agents[0].env.items[i].value.pos, (int)i + 7, i < 10 ? 9 : 10);
    }
    bh_buf_fini(&text);
    /* names are text as well */
    BH_CLEANUP_PIPELINE struct bh_pipeline *q = t_load("version: 1\nname: no\nagents: [{name: 1e3, run: 08}]\n");
    assert_string_equal(q->name.s, "no");
    assert_string_equal(q->agents[0].name.s, "1e3");
    assert_string_equal(q->agents[0].run.args.items[0].s, "08");
}

static void test_agent(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(AGENT "  setup: [make, '', \"{{params.x}}\"]\n  prompt: {file: \"./p/{{matrix.a}}.md\"}\n  user: root\n"
                     "  workdir: sub/./dir\n  keep: never\n  on_failure: continue\n  topology: per-agent\n"
                     "  labels: {team: red, n: 5}\n  box: crew\n  env: {A: '', B: \"{{item}}\"}\n"
                     "  files: {/workspace/a/b: ./x, \"c-{{attempt}}\": d/../e}\n");
    const struct bh_agent *a = &p->agents[0];
    assert_true(a->setup.is_list);
    assert_int_equal(a->setup.args.len, 3);
    assert_string_equal(a->setup.args.items[1].s, "");
    assert_string_equal(a->setup.args.items[2].s, "{{params.x}}");
    check_pos(a->setup.pos, 6, 10);
    assert_null(a->prompt.s);
    assert_string_equal(a->prompt_file.s, "./p/{{matrix.a}}.md");
    assert_string_equal(a->traits.user.s, "root");
    assert_string_equal(a->workdir.s, "/workspace/sub/dir");
    assert_int_equal(a->keep, BH_KEEP_NEVER);
    assert_true(a->continue_on_failure);
    assert_int_equal(a->topology, BH_TOPOLOGY_PER_AGENT);
    assert_int_equal(a->labels.len, 2);
    assert_string_equal(a->labels.items[1].value.s, "5");
    assert_string_equal(a->box.s, "crew");
    assert_string_equal(a->env.items[0].value.s, "");
    assert_string_equal(a->env.items[1].value.s, "{{item}}");
    assert_string_equal(a->files.items[0].name.s, "a/b");
    assert_string_equal(a->files.items[0].value.s, "./x");
    assert_string_equal(a->files.items[1].name.s, "c-{{attempt}}");
    assert_int_equal(p->n_later, 0);
}

static void test_workdirs(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {{"/", "/"},
                {"/workspace", "/workspace"},
                {"/workspace/", "/workspace"},
                {".", "/workspace"},
                {"/opt//x/", "/opt/x"},
                {"a", "/workspace/a"},
                {"./a", "/workspace/a"},
                {"/workspace/a", "/workspace/a"}};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_buf text = BH_BUF_INIT;
        bh_buf_addf(&text, AGENT "  workdir: %s\n", rows[i].text);
        BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(text.data);
        assert_string_equal(p->agents[0].workdir.s, rows[i].want);
        bh_buf_fini(&text);
    }
}

static void test_io(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(HEAD "agents:\n"
                    "- name: a\n  run: b\n"
                    "  inputs: [x, 'y/*', {name: z, path: ./d/e, optional: true}, {name: v, path: /workspace/in/w}, "
                    "n@2, n@r3, 'n@*', \"m@{{attempt}}\", \"s-{{item}}\"]\n"
                    "  needs: [c]\n"
                    "  outputs:\n"
                    "  - plain.txt\n"
                    "  - {name: deep/one, path: /workspace/p/q, kind: file, optional: true, max_size: 1MiB}\n"
                    "  - {glob: 'g/**', max_files: 7, max_size: 2kB, optional: false}\n"
                    "  - \"r-{{matrix.m}}\"\n"
                    "- {name: c, run: d, inputs: [], needs: []}\n");
    const struct bh_agent *a = &p->agents[0];
    static const char *const inputs[] = {"x", "y/*", "z", "v", "n@2", "n@r3", "n@*", "m@{{attempt}}", "s-{{item}}"};
    assert_int_equal(a->n_inputs, BH_ARRAY_LEN(inputs));
    for (size_t i = 0; i < BH_ARRAY_LEN(inputs); i++)
        assert_string_equal(a->inputs[i].name.s, inputs[i]);
    assert_false(a->inputs[0].optional);
    assert_null(a->inputs[0].path.s);
    assert_true(a->inputs[2].optional);
    assert_string_equal(a->inputs[2].path.s, "d/e");
    assert_string_equal(a->inputs[3].path.s, "w");
    assert_string_equal(a->needs.items[0].s, "c");
    assert_int_equal(a->n_outputs, 4);
    const struct bh_output *o = a->outputs;
    assert_string_equal(o[0].name.s, "plain.txt");
    assert_null(o[0].path.s);
    assert_int_equal(o[0].max_size, -1);
    assert_int_equal(o[0].max_files, -1);
    assert_string_equal(o[1].name.s, "deep/one");
    assert_string_equal(o[1].path.s, "p/q");
    assert_int_equal(o[1].kind, BH_KIND_FILE);
    assert_true(o[1].optional);
    assert_int_equal(o[1].max_size, 1 << 20);
    assert_null(o[2].name.s);
    assert_string_equal(o[2].glob.s, "g/**");
    assert_int_equal(o[2].max_files, 7);
    assert_int_equal(o[2].max_size, 2000);
    assert_string_equal(o[3].name.s, "r-{{matrix.m}}");
    check_pos(o[3].name.pos, 12, 5);
    const struct bh_agent *c = &p->agents[1];
    assert_true(c->has_inputs && c->has_needs);
    assert_int_equal(c->n_inputs + c->needs.len, 0);
    assert_int_equal(p->n_later, 0);
}

static void test_timeouts(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(
        HEAD "agents:\n- {name: a, run: b, timeout: 90s}\n"
             "- {name: c, run: d, timeout: {run: 2d, setup: 500ms, grace: 0s}}\n- {name: e, run: f, timeout: '5m'}\n");
    assert_int_equal(p->agents[0].timeouts.setup, 90 * BH_NS_PER_S);
    assert_int_equal(p->agents[0].timeouts.check, 90 * BH_NS_PER_S);
    assert_int_equal(p->agents[0].timeouts.grace, 10 * BH_NS_PER_S);
    assert_int_equal(p->agents[1].timeouts.run, 172800 * BH_NS_PER_S);
    assert_int_equal(p->agents[1].timeouts.setup, BH_NS_PER_S / 2);
    assert_int_equal(p->agents[1].timeouts.prepare, 3600 * BH_NS_PER_S);
    assert_int_equal(p->agents[1].timeouts.grace, 0);
    assert_int_equal(p->agents[2].timeouts.run, 300 * BH_NS_PER_S);
    assert_int_equal(p->n_later, 0);
}

static void test_stages(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(
        HEAD
        "stages:\n"
        "- {name: one, agents: [{name: one, run: b}, {name: c, run: d}]}\n"
        "- name: two\n  for_each: {artifact: items.jsonl, max: 3}\n  repeat: {max: 2, until: succeeded, else: keep}\n"
        "  when: {artifact: v.json, at: /a/0, not: [x, y]}\n  gate: approve\n  agents: [{name: e, run: f}]\n");
    assert_int_equal(p->n_stages, 2);
    assert_int_equal(p->n_agents, 3);
    assert_string_equal(p->stages[0].name.s, "one"); /* a stage and an agent may share a name */
    assert_string_equal(p->stages[1].path, "stages[1]");
    check_pos(p->stages[1].pos, 5, 3);
    assert_int_equal(p->agents[1].stage, 0);
    assert_int_equal(p->agents[2].stage, 1);
    assert_string_equal(p->agents[2].path, "stages[1].agents[0]");
    assert_string_equal(bh_node_text(bh_node_get(p->stages[1].for_each, "artifact")), "items.jsonl");
    assert_int_equal(bh_node_len(p->stages[1].repeat), 3);
    assert_int_equal(bh_node_len(bh_node_get(p->stages[1].when, "not")), 2);
    assert_non_null(p->stages[1].gate);
}

static void test_param_kinds(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(AGENT "params:\n  s: {default: no, enum: [no, yes], description: d}\n"
                     "  i: {min: -5, max: 80, default: 0, type: int}\n  n: {type: number, default: 1e3}\n"
                     "  b: {type: bool, default: false}\n  must: {type: string, pattern: '[a-z]+'}\n  any: {}\n");
    assert_int_equal(p->n_params, 6);
    assert_int_equal(p->params[0].type, BH_PARAM_STRING);
    assert_string_equal(p->params[0].def.s, "no");
    assert_int_equal(p->params[0].allowed.len, 2);
    assert_string_equal(p->params[0].description.s, "d");
    assert_int_equal(p->params[1].type, BH_PARAM_INT);
    assert_string_equal(p->params[1].min.s, "-5");
    assert_string_equal(p->params[1].max.s, "80");
    assert_string_equal(p->params[2].def.s, "1e3");
    assert_int_equal(p->params[3].type, BH_PARAM_BOOL);
    assert_null(p->params[4].def.s);
    assert_string_equal(p->params[4].pattern.s, "[a-z]+");
    assert_null(p->params[5].def.s);
    check_pos(p->params[1].name.pos, 8, 3);
}

static void test_param_check(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(
        AGENT
        "params:\n  s: {enum: [a, 'b c']}\n  i: {type: int, min: -5, max: 80}\n  n: {type: number, enum: [1, 2.5]}\n"
        "  b: {type: bool}\n  m: {pattern: 'a|ab'}\n  q: {pattern: '[]{}]{2}x\\{9999\\}'}\n");
    static const struct {
        size_t param;
        const char *value, *part;
    } rows[] = {
        {0, "a", NULL},
        {0, "b c", NULL},
        {0, "", "not in its enum"},
        {1, "-5", NULL},
        {1, "80", NULL},
        {1, "81", "at most 80, not 81"},
        {1, "-6", "at least -5"},
        {1, "1e1", "takes an integer, not '1e1'"},
        {1, "08", "takes an integer"},
        {1, "99999999999999999999", "takes an integer"},
        {2, "2.50", NULL},
        {2, "1e0", NULL},
        {2, "3", "not in its enum"},
        {2, "nan", "takes a number"},
        {3, "true", NULL},
        {3, "True", "takes true or false"},
        {4, "ab", NULL},
        {4, "a", NULL},
        {4, "abc", "its pattern is a|ab"},
        {4, "xab", "its pattern"},
        {4, "ab\n", "its pattern"},
        {5, "{]x{9999}", NULL},
        {5, "{]x", "its pattern"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        if (rows[i].part)
            T_ERR(bh_param_check(&p->params[rows[i].param], rows[i].value, &err), BH_E_BAD_VALUE, rows[i].part);
        else
            T_OK(bh_param_check(&p->params[rows[i].param], rows[i].value, &err));
    }
}

static void test_long_params(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(AGENT "params: {s: {}, m: {pattern: 'x*'}}\n");
    size_t len = 128 * 1024;
    char *value = malloc(len + 2);
    memset(value, 'x', len + 1);
    value[len + 1] = '\0';
    T_ERR(bh_param_check(&p->params[0], value, &err), BH_E_BAD_VALUE, "longer than 128 KiB");
    value[len] = '\0';
    T_OK(bh_param_check(&p->params[0], value, &err));
    T_ERR(bh_param_check(&p->params[1], value, &err), BH_E_BAD_VALUE, "its pattern is x*"); /* too long for a pattern */
    value[4096] = '\0';
    T_OK(bh_param_check(&p->params[1], value, &err));
    free(value);
}

static void test_sources(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(AGENT "sources:\n  given:\n  null: null\n  a/b.txt: {file: ./x}\n  d: {dir: d, untrusted: true, "
                     "private: true, mount: true}\n"
                     "  calm: {untrusted: false, private: false, mount: false}\n");
    assert_int_equal(p->n_sources, 5);
    assert_string_equal(p->sources[0].name.s, "given");
    assert_null(p->sources[0].file.s);
    assert_string_equal(p->sources[1].name.s, "null");
    assert_string_equal(p->sources[2].file.s, "./x");
    const struct bh_source *d = &p->sources[3];
    assert_string_equal(d->dir.s, "d");
    assert_true(d->untrusted && d->private_ && d->mount);
    assert_int_equal(p->n_later, 2);
    assert_string_equal(p->later[0].key, "sources.NAME.dir");
    assert_string_equal(p->later[0].path, "sources.d.dir");
    check_pos(p->later[0].pos, 10, 7);
    assert_string_equal(p->later[1].key, "sources.NAME.mount");
}

static void test_endpoints(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(
        AGENT "  endpoints: [e]\n  secrets: [k]\nsecrets: {k: {env: K}, f: {file: /etc/k}, c: {command: [pass, k]}}\n"
              "endpoints:\n  e: {upstream: 'https://x.org', allow: [\"GET /v1/**\", \"* /\"], headers: {a: \"Bearer "
              "{{secrets.k}}\"}, env: {U: \"{{url}}/v1\"}, tainted: true, max_parallel: 3}\n"
              "  o: {upstream: 'http://h:80', allow: [\"POST /\"]}\n");
    assert_int_equal(p->n_secrets, 3);
    assert_string_equal(p->secrets[0].env.s, "K");
    assert_string_equal(p->secrets[1].name.s, "f");
    assert_string_equal(p->secrets[1].file.s, "/etc/k");
    assert_null(p->secrets[1].env.s);
    assert_int_equal(p->secrets[2].command.args.len, 2);
    assert_int_equal(p->n_endpoints, 2);
    assert_true(p->endpoints[0].tainted && p->endpoints[0].has_secret);
    assert_string_equal(p->endpoints[0].upstream.s, "https://x.org");
    assert_string_equal(p->endpoints[0].allow.items[1].s, "* /");
    assert_string_equal(p->endpoints[0].headers.items[0].name.s, "a");
    assert_string_equal(p->endpoints[0].headers.items[0].value.s, "Bearer {{secrets.k}}");
    assert_string_equal(p->endpoints[0].env.items[0].value.s, "{{url}}/v1");
    assert_int_equal(p->endpoints[0].max_parallel, 3);
    assert_false(p->endpoints[1].tainted || p->endpoints[1].has_secret);
    assert_string_equal(p->agents[0].endpoints.items[0].s, "e");
    assert_string_equal(p->agents[0].secrets.items[0].s, "k");
    assert_string_equal(p->agents[0].secret_variables[0], "K");
    BH_CLEANUP_PIPELINE struct bh_pipeline *q = t_load(AGENT "  secrets: {TOKEN: k}\nsecrets: {k: {env: K}}\n");
    assert_string_equal(q->agents[0].secrets.items[0].s, "k");
    assert_string_equal(q->agents[0].secret_variables[0], "TOKEN");
}

static void test_traits(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(HEAD "base: dir:/srv/root\n"
                    "boxes:\n  lab: {network: {run: public, setup: {allow: [\"b:1\", \"a:2\"]}, check: none}, limits: "
                    "{disk: 1GiB, tokens: 5, memory: 1GiB, cpus: 0.5},\n"
                    "        setup: [make], files: {a: b}, user: agent, base: oci:x:y}\n"
                    "agents:\n- {name: a, run: b, network: {allow: [\"x.org:443\", \"*.y.org:80\", \"10.0.0.1:1\", "
                    "\"[::1]:65535\"]}}\n"
                    "- {name: c, run: d, network: {run: none}, limits: {}}\n- {name: e, run: f, network: host, limits: "
                    "{output: 1MiB, pids: 7}}\n");
    assert_string_equal(p->traits.base.s, "dir:/srv/root");
    const struct bh_box_doc *lab = &p->boxes[0];
    assert_string_equal(lab->name.s, "lab");
    assert_string_equal(lab->traits.network.s, "{\"run\":\"public\",\"setup\":{\"allow\":[\"b:1\",\"a:2\"]}}");
    assert_string_equal(lab->traits.limits.s, "{\"disk\":1073741824,\"tokens\":5}");
    assert_string_equal(lab->traits.box_limits.s, "{\"disk\":1073741824}");
    assert_string_equal(lab->traits.crew_limits.s, "{\"cpus\":0.5,\"memory\":1073741824}");
    assert_string_equal(lab->traits.base.s, "oci:x:y");
    assert_true(lab->setup.is_list);
    assert_int_equal(lab->files.len, 1);
    assert_string_equal(p->agents[0].traits.network.s,
                        "{\"allow\":[\"x.org:443\",\"*.y.org:80\",\"10.0.0.1:1\",\"[::1]:65535\"]}");
    assert_string_equal(p->agents[1].traits.network.s, "none");
    assert_null(p->agents[1].traits.limits.s);
    assert_string_equal(p->agents[2].traits.network.s, "host");
    assert_null(p->agents[2].traits.box_limits.s);
    assert_string_equal(p->agents[2].traits.limits.s, "{\"output\":1048576}");
    assert_string_equal(p->agents[2].traits.crew_limits.s, "{\"pids\":7}");
}

static void test_defaults(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(
        HEAD
        "defaults:\n  timeout: {run: 5m, setup: 1m}\n  env: {A: default, B: default}\n  user: root\n  keep: always\n"
        "  files: {f: g}\n  prompt: {file: p.md}\n"
        "agents:\n- {name: a, run: b}\n"
        "- {name: c, run: d, timeout: {run: 9m}, env: {B: own, C: own}, user: agent, keep: never, prompt: own}\n"
        "- {name: e, run: f, timeout: 2m, files: {}}\n");
    const struct bh_agent *a = &p->agents[0], *c = &p->agents[1], *e = &p->agents[2];
    assert_int_equal(a->timeouts.run, 300 * BH_NS_PER_S);
    assert_int_equal(a->timeouts.check, 3600 * BH_NS_PER_S);
    assert_int_equal(a->env.len, 2);
    assert_string_equal(a->traits.user.s, "root");
    assert_int_equal(a->keep, BH_KEEP_ALWAYS);
    assert_string_equal(a->prompt_file.s, "p.md");
    assert_int_equal(c->timeouts.run, 540 * BH_NS_PER_S); /* maps merge one level deep */
    assert_int_equal(c->timeouts.setup, 60 * BH_NS_PER_S);
    assert_int_equal(c->env.len, 3);
    assert_string_equal(c->env.items[0].value.s, "own");
    assert_string_equal(c->env.items[2].name.s, "A");
    assert_string_equal(c->traits.user.s, "agent");
    assert_string_equal(c->prompt.s, "own");
    assert_null(c->prompt_file.s);
    assert_int_equal(e->timeouts.setup, 120 * BH_NS_PER_S); /* a plain value is no map: it is the agent's alone */
    assert_int_equal(e->files.len, 1);
    assert_string_equal(p->traits.user.s, "root");
    assert_int_equal(p->n_later, 0);
}

/* The traits of a shared box are the box's; what `defaults` say of them is not the agent's own wish. */
static void test_defaults_in_boxes(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(HEAD "base: host\ndefaults: {user: root, network: public, base: dir:x, env: {A: b}, limits: {disk: "
                    "1GiB, memory: 1GiB, tokens: 5}}\n"
                    "boxes: {lab: {}}\n"
                    "agents:\n- {name: a, run: b}\n- {name: c, run: d, box: lab}\n- {name: e, run: f, box: lab, user: "
                    "agent, limits: {inodes: 700, memory: 2GiB}}\n");
    const struct bh_agent *a = &p->agents[0], *c = &p->agents[1], *e = &p->agents[2];
    assert_string_equal(p->traits.base.s, "dir:x"); /* defaults before the top level */
    assert_string_equal(p->traits.network.s, "public");
    assert_string_equal(a->traits.network.s, "public");
    assert_string_equal(a->traits.limits.s, "{\"disk\":1073741824,\"tokens\":5}");
    assert_null(c->traits.network.s);
    assert_null(c->traits.user.s);
    assert_null(c->traits.base.s);
    assert_null(c->traits.box_limits.s);
    assert_string_equal(c->traits.limits.s, "{\"tokens\":5}");
    assert_string_equal(c->traits.crew_limits.s, "{\"memory\":1073741824}");
    assert_int_equal(c->env.len, 1);
    assert_string_equal(e->traits.user.s, "agent");
    assert_string_equal(e->traits.box_limits.s, "{\"inodes\":700}");
    assert_string_equal(e->traits.crew_limits.s, "{\"memory\":2147483648}");
    BH_CLEANUP_PIPELINE struct bh_pipeline *q =
        t_load(HEAD "defaults: {box: crew, network: public}\nagents: [{name: a, run: b}]\n");
    assert_null(q->agents[0].traits.network.s); /* the box may come from the defaults too */
}

static void test_networks_merge_by_phase(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(HEAD "defaults: {network: {setup: public}}\nagents:\n- {name: a, run: b, network: {run: host}}\n"
                    "- {name: c, run: d, network: {allow: [\"x:1\"]}}\n- {name: e, run: f, network: none}\n");
    assert_string_equal(p->agents[0].traits.network.s, "{\"run\":\"host\",\"setup\":\"public\"}");
    assert_string_equal(p->agents[1].traits.network.s, "{\"allow\":[\"x:1\"]}");
    assert_string_equal(p->agents[2].traits.network.s, "none");
}

/* It is no key of a later version, wherever it stands. */
static void test_the_network_of_the_host(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(HEAD "boxes: {lab: {network: {setup: host}}}\nagents:\n- {name: a, run: b, network: host}\n"
                    "- {name: c, run: d, network: {setup: public, run: host}}\n"
                    "- {name: e, run: f, check: {run: x, network: host}}\n");
    assert_int_equal(p->n_later, 0);
    assert_string_equal(p->boxes[0].traits.network.s, "{\"setup\":\"host\"}");
    assert_string_equal(p->agents[0].traits.network.s, "host");
    assert_string_equal(p->agents[1].traits.network.s, "{\"run\":\"host\",\"setup\":\"public\"}");
    assert_string_equal(p->agents[2].check_network.s, "host");
}

static void test_attempts(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(HEAD "agents:\n- {name: a, run: b, attempts: 5}\n"
                    "- {name: c, run: d, attempts: {each: [{A: b}, {A: c}], select: all, score: s.txt, order: min}}\n"
                    "- {name: e, run: f, attempts: {count: 1}, retries: 0}\n- {name: g, run: h, retries: {max: 2, "
                    "backoff: 1s, on: [exit, oom]}}\n"
                    "- {name: i, run: j, prepare: {run: [x], warm: true}, check: {run: y, files: {h: t}, box: fresh, "
                    "network: none}}\n"
                    "- {name: k, brain: [l, \"{{mcp_config}}\"], hands: {mode: per-call, tools: [exec], max_calls: 5, "
                    "idle: 1m, place: here, approve: [rm]}}\n");
    const struct bh_agent *a = p->agents;
    assert_int_equal(a[0].attempts.count, 5);
    assert_int_equal(a[1].attempts.count, 2);
    assert_true(a[1].attempts.select == BH_SELECT_ALL && a[1].attempts.order_min && !a[1].attempts.stop_losers);
    assert_string_equal(a[1].attempts.score.s, "s.txt");
    assert_string_equal(a[1].attempts.each[1].items[0].value.s, "c");
    assert_int_equal(a[1].attempts.min_success, 1);
    assert_true(bh_agent_numbered(&a[0]) && bh_agent_numbered(&a[1]) && !bh_agent_numbered(&a[2]));
    assert_true(bh_agent_forks(&a[4]) && !bh_agent_numbered(&a[4]) && !bh_agent_forks(&a[3]));
    assert_true(a[4].warm && a[4].check_fresh);
    assert_string_equal(a[4].check_files.items[0].name.s, "h");
    assert_int_equal(a[2].attempts.count, 1);
    assert_int_equal(a[3].retries, 2);
    assert_true(a[4].prepare.is_list && a[4].check.set && !a[4].check.is_list);
    assert_true(a[5].brain.is_list && !a[5].run.set);
    assert_non_null(a[5].hands);
    static const char *const later[] = {"retries", "brain", "hands"};
    assert_int_equal(p->n_later, BH_ARRAY_LEN(later));
    for (size_t i = 0; i < BH_ARRAY_LEN(later); i++)
        assert_string_equal(p->later[i].key, later[i]);
}

/* Values that say what is so anyway ask for nothing. */
static void test_not_later(void **state)
{
    static const char *const texts[] = {
        "  network: none\n",
        "  network: public\n",
        "  network: {setup: {allow: ['x.org:1']}, check: public}\n",
        "  check: {run: x, network: public}\n",
        "  network: {run: none, setup: none}\n",
        "  untrusted: true\n",
        "  attempts: 1\n",
        "  retries: 0\n",
        "  retries: {max: 0}\n",
        "  secrets: []\n",
        "  secrets: {}\n",
        "  endpoints: []\n",
        "  endpoints: [e]\nendpoints: {e: {upstream: 'https://x.org', allow: [GET /]}}\n",
        "  limits: {}\n",
        "  limits: {requests: 5, tokens: 1000}\n",
        "  limits: {memory: 1GiB, cpus: 1, pids: 5, disk: 1MiB, inodes: 100, nofile: 64, output: 1MiB}\n",
        "boxes: {b: {limits: {pids: 5, requests: 5}}}\n",
        "defaults: {limits: {pids: 5}}\n",
        "  accept: {}\n",
        "  base: host\n",
        "  outputs: [{name: x, kind: file}]\n",
        "secrets: {}\n",
        "endpoints: {}\n",
        "sources: {x: {file: y}}\n",
        "boxes: {lab: {base: host, network: none, user: root, setup: x}}\n",
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        struct bh_buf text = BH_BUF_INIT;
        bh_buf_addf(&text, AGENT "%s", texts[i]);
        BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(text.data);
        if (p->n_later != 0)
            fail_msg("%s asks for '%s'", texts[i], p->later[0].key);
        bh_buf_fini(&text);
    }
}

static void test_later(void **state)
{
    static const struct {
        const char *text, *key, *path;
    } rows[] = {
        {"  matrix: {m: [a]}\n", "matrix", "agents[0].matrix"},
        {"  matrix: {include: [{m: a}]}\n", "matrix", "agents[0].matrix"},
        {"  when: always\n", "when", "agents[0].when"},
        {"  retries: 1\n", "retries", "agents[0].retries"},
        {"  accept: {x: {validate: {kind: dir, max_files: 2}}}\n", "validate.kind: dir",
         "agents[0].accept.x.validate.kind"},
        {"  outputs: [{name: x, kind: dir, max_files: 3}]\n", "kind: dir", "agents[0].outputs[0].kind"},
        {"  outputs: [{name: x, validate: {kind: dir}}]\n", "validate.kind: dir", "agents[0].outputs[0].validate.kind"},
        {"finally: [{name: z, run: y}]\n", "finally", "finally"},
        {"defaults: {retries: 1}\n", "retries", "defaults.retries"}, /* once, where it is written */
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_buf text = BH_BUF_INIT;
        bh_buf_addf(&text, AGENT "%s", rows[i].text);
        BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(text.data);
        if (p->n_later != 1 || !bh_streq(p->later[0].key, rows[i].key) || !bh_streq(p->later[0].path, rows[i].path))
            fail_msg("%s gave %zu, %s", rows[i].text, p->n_later, p->n_later ? p->later[0].path : "-");
        bh_buf_fini(&text);
    }
}

static void test_finally(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p =
        t_load(AGENT "defaults: {keep: never}\nfinally: [{name: z, run: y, needs: [a]}]\n");
    assert_int_equal(p->n_agents, 1);
    assert_int_equal(p->n_finally, 1);
    assert_string_equal(p->finally[0].path, "finally[0]");
    assert_int_equal(p->finally[0].keep, BH_KEEP_NEVER);
}

static void test_anchors(void **state)
{
    (void)state;
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(HEAD "x-agent: &base\n  run: make\n  env: {A: b}\nagents:\n- "
                                                            "{<<: *base, name: a}\n- {<<: *base, name: c, run: d}\n");
    assert_int_equal(p->n_agents, 2);
    assert_string_equal(p->agents[0].run.args.items[0].s, "make");
    check_pos(p->agents[0].run.pos, 4, 8);
    assert_string_equal(p->agents[1].run.args.items[0].s, "d");
    assert_string_equal(p->agents[1].env.items[0].value.s, "b");
}

/* Linear in the number of agents, and no error in a large document is far from the first. */
static void test_many_agents(void **state)
{
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, HEAD "defaults: {env: {A: b}, timeout: 5m}\nagents:\n");
    for (int i = 0; i < 10000; i++)
        bh_buf_addf(&text, "- {name: a%d, run: [x, '{{params.p}}'], outputs: [o%d], needs: [a%d]}\n", i, i, i / 2);
    struct bh_mono start = bh_mono_now();
    BH_CLEANUP_PIPELINE struct bh_pipeline *p = t_load(text.data);
    int64_t ms = (bh_mono_now().ns - start.ns) / BH_NS_PER_MS;
    print_message("10,000 agents in %lld ms\n", (long long)ms);
    assert_int_equal(p->n_agents, 10000);
    assert_string_equal(p->agents[9999].needs.items[0].s, "a4999");
    bh_buf_fini(&text);
}

static void check_too_large(const char *text, size_t len, const char *part)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *p = NULL;
    assert_int_equal(bh_pipeline_load("p.yaml", text, len, &p, &errors), -BH_E_TOO_LARGE);
    assert_int_equal(errors.len, 1);
    assert_non_null(strstr(bh_err_message(errors.items[0]), part));
    bh_errlist_fini(&errors);
}

static void test_bounds(void **state)
{
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, HEAD "agents:\n");
    for (int i = 0; i <= BH_PIPELINE_MAX_AGENTS; i++)
        bh_buf_addf(&text, "- {name: a%d, run: x}\n", i);
    check_too_large(text.data, text.len, "more than 100000 agents");
    bh_buf_clear(&text);
    bh_buf_adds(&text, HEAD "defaults: {env: {");
    for (int i = 0; i < 20000; i++)
        bh_buf_addf(&text, "A%d: b, ", i);
    bh_buf_adds(&text, "}}\nagents:\n");
    for (int i = 0; i < 300; i++)
        bh_buf_addf(&text, "- {name: a%d, run: x}\n", i);
    check_too_large(text.data, text.len, "more than 4000000 keys and values from 'defaults'");
    bh_buf_fini(&text);
}

static void test_topology_text(void **state)
{
    (void)state;
    assert_string_equal(bh_topology_text(BH_TOPOLOGY_AUTO), "auto");
    assert_string_equal(bh_topology_text(BH_TOPOLOGY_SHARED_BOX), "shared-box");
    assert_string_equal(bh_topology_text(BH_TOPOLOGY_PER_AGENT), "per-agent");
    assert_string_equal(bh_topology_text(BH_TOPOLOGY_PER_ATTEMPT), "per-attempt");
    bh_pipeline_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_top_level),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_agent),
        cmocka_unit_test(test_workdirs),
        cmocka_unit_test(test_io),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_param_kinds),
        cmocka_unit_test(test_param_check),
        cmocka_unit_test(test_long_params),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_traits),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_defaults_in_boxes),
        cmocka_unit_test(test_networks_merge_by_phase),
        cmocka_unit_test(test_the_network_of_the_host),
        cmocka_unit_test(test_attempts),
        cmocka_unit_test(test_not_later),
        cmocka_unit_test(test_later),
        cmocka_unit_test(test_finally),
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_many_agents),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_topology_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
