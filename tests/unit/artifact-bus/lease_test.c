/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/lease.h"

#include <math.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"

#define RUN "01k8h3z5v7x9abcdefghjkmnpq"
#define OTHER_RUN "01k8h3z5v7x9abcdefghjkmnpr"
#define DIGEST "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define KEY "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define VALIDATE                                                                                               \
    "\"validate\":{\"kind\":\"jsonl\",\"max_size\":9,\"max_lines\":8,\"max_files\":-1,\"paths\":[\"src/**\"]," \
    "\"command\":[\"check\",\"--strict\"]}"
#define OBJECT "{\"digest\":\"" DIGEST "\",\"size\":3,\"executable\":false}"

/* Every field that the lease has, so that each can be taken away or spoilt. */
static const char lease_json[] =
    "{\"kind\":\"run\",\"run\":\"" RUN "\",\"instance\":\"" RUN
    "-000007\",\"epoch\":3,\"agent\":\"modeling\",\"stage\":\"model\","
    "\"attempt\":1,\"try_\":2,"
    "\"box\":{\"id\":\"crew\",\"key\":\"crew-1\",\"shared\":true,\"writable_usr\":true,\"base\":\"host\","
    "\"base_digest\":\"sha256:ff\",\"base_layers\":[\"sha256-2\",\"sha256-1\"],\"agent_uid\":33,\"agent_gid\":34,"
    "\"limits\":{\"memory\":1048576,\"cpus\":500,\"pids\":64,\"disk\":65536,\"inodes\":100,\"nofile\":32,\"output\":0,"
    "\"asked\":15},\"best_effort\":true,\"tainted\":true,"
    "\"layers\":[\"layer-2\",\"layer-1\"],\"snapshots\":[\"" KEY
    "\",\"base-1\"],\"setup\":[\"/bin/sh\",\"-ceu\",\"true\"],"
    "\"files\":[{\"path\":\"tools/x.py\",\"object\":" OBJECT "}]},"
    "\"setup\":[\"pip\",\"install\",\"\"],\"prepare\":[\"npm\",\"ci\"],\"warm\":true,\"snapshot_key\":\"" KEY "\","
    "\"check\":{\"argv\":[\"npm\",\"test\"],\"files\":[{\"path\":\"t/x.js\",\"object\":" OBJECT "}],\"fresh\":true,"
    "\"score\":\"out/score\"},\"run_argv\":[\"/bin/sh\",\"-ceu\",\"echo hi\"],"
    "\"env\":[{\"name\":\"A\",\"value\":\"\"},{\"name\":\"B\",\"value\":\"x=y\\nz\"}],"
    "\"tainted\":true,\"network_setup\":{\"kind\":\"public\",\"allow\":[]},"
    "\"network_prepare\":{\"kind\":\"none\",\"allow\":[]},"
    "\"network_run\":{\"kind\":\"allow\",\"allow\":[\"pypi.org:443\",\"*.example.org:80\"]},"
    "\"network_check\":{\"kind\":\"host\",\"allow\":[]},\"ranges\":[\"10.0.0.0/8\"],"
    "\"endpoints\":[{\"name\":\"llm\",\"upstream\":\"https://api.example.org\","
    "\"headers\":[{\"name\":\"x-api-key\",\"value\":\"{{secrets.KEY}}\"}],"
    "\"secrets\":[{\"variable\":\"V\",\"name\":\"KEY\",\"env\":\"LLM_KEY\",\"file\":null,\"command\":[]}],"
    "\"allow\":[\"POST /v1/messages\"],\"env\":[{\"name\":\"BASE_URL\",\"value\":\"{{url}}\"}],"
    "\"max_parallel\":8,\"tainted\":true}],"
    "\"secrets\":[{\"variable\":\"TOKEN\",\"name\":\"GIT_TOKEN\",\"env\":null,\"file\":null,"
    "\"command\":[\"pass\",\"show\"]}],"
    "\"gates\":[{\"artifact\":\"pages.jsonl\"," VALIDATE "}],\"max_requests\":10,\"max_tokens\":1000,"
    "\"user\":\"agent\",\"workdir\":\"/workspace\",\"prompt\":\"Do it.\",\"params_json\":\"{}\",\"needs_json\":\"[]\","
    "\"files\":[{\"path\":\"a/b\",\"object\":" OBJECT "}],"
    "\"inputs\":[{\"path\":\"pages.jsonl\",\"object\":" OBJECT ",\"name\":\"pages.jsonl\",\"provenance\":\"{}\"}],"
    "\"outputs\":[{\"name\":\"scores.csv\",\"glob\":null,\"path\":\"out/scores.csv\",\"optional\":false,"
    "\"max_size\":-1,\"max_files\":1000," VALIDATE "},"
    "{\"name\":null,\"glob\":\"parts/**\",\"path\":\"out\",\"optional\":true,\"max_size\":5,\"max_files\":7," VALIDATE
    "}],"
    "\"setup_ns\":3600000000000,\"prepare_ns\":2,\"run_ns\":1,\"check_ns\":3,\"grace_ns\":0,"
    "\"limits\":{\"memory\":1048576,\"cpus\":0,\"pids\":0,\"disk\":0,\"inodes\":0,\"nofile\":32,\"output\":4096,"
    "\"asked\":65},\"keep\":\"always\"}";

static const char result_json[] =
    "{\"instance\":\"" RUN "-000007\",\"epoch\":3,\"outcome\":\"succeeded\",\"reason\":null,\"detail\":\"fine\","
    "\"exit_code\":0,\"signal\":0,\"started\":1764423223000123,\"ended\":1764423224000000,"
    "\"outputs\":[{\"name\":\"scores.csv\",\"object\":" OBJECT "}],\"kept_box\":\"runs/x/boxes/y\","
    "\"cpu_ms\":10,\"max_rss_bytes\":4096,\"disk_bytes\":0,\"box_ms\":12,\"output_dropped\":7,"
    "\"requests\":5,\"tokens_in\":6,\"tokens_out\":8,"
    "\"limits\":\"memory=cgroup-v2 disk=watchdog +best-effort\","
    "\"evidence\":\"{\\\"kind\\\":\\\"collision\\\"}\",\"snapshot\":\"" DIGEST "\",\"snapshot_reused\":true,"
    "\"snapshots\":[\"" KEY "\",\"base-1\"],\"has_score\":true,\"score\":-2.5,\"passed\":true}";

static struct bh_val *from_json(const char *text)
{
    struct bh_val *v = NULL;
    T_OK(bh_json_parse(text, strlen(text), &v, &err));
    return v;
}

static void check_ways_out(const struct bh_lease *l)
{
    assert_true(l->tainted);
    T_INT(l->network[BH_NET_SETUP].kind, BH_NET_PUBLIC);
    T_INT(l->network[BH_NET_PREPARE].kind, BH_NET_NONE);
    T_INT(l->network[BH_NET_RUN].kind, BH_NET_ALLOW);
    T_STR(l->network[BH_NET_RUN].allow[1], "*.example.org:80");
    T_INT(l->network[BH_NET_CHECK].kind, BH_NET_HOST);
    T_STR(l->ranges[0], "10.0.0.0/8");
    T_STR(l->endpoints[0].headers[0].value, "{{secrets.KEY}}");
    T_STR(l->endpoints[0].secrets[0].env, "LLM_KEY");
    T_STR(l->endpoints[0].allow[0], "POST /v1/messages");
    T_STR(l->endpoints[0].env[0].name, "BASE_URL");
    T_INT(l->endpoints[0].max_parallel, 8);
    assert_true(l->endpoints[0].tainted);
    T_STR(l->secrets[0].command[1], "show");
    T_INT(l->max_requests, 10);
    T_INT(l->max_tokens, 1000);
}

static void test_lease_round_trip(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = from_json(lease_json), *back = NULL;
    struct bh_lease l;
    T_OK(bh_lease_from_val(v, &l, &err));
    T_STR(l.run.s, RUN);
    T_STR(l.instance.s, RUN "-000007");
    T_INT(l.epoch, 3);
    T_STR(l.agent, "modeling");
    T_INT(l.attempt, 1);
    T_INT(l.try_, 2);
    assert_true(l.box.shared);
    T_INT(l.box.n_layers, 2);
    T_STR(l.box.layers[1], "layer-1");
    T_STR(l.box.files[0].path, "tools/x.py");
    T_INT(l.n_setup, 3);
    T_STR(l.setup[2], "");
    T_STR(l.run_argv[2], "echo hi");
    T_STR(l.env[1].value, "x=y\nz");
    T_STR(l.prompt, "Do it.");
    assert_null(l.files[0].name);
    T_STR(l.inputs[0].name, "pages.jsonl");
    T_INT(l.inputs[0].object.size, 3);
    assert_null(l.outputs[1].name);
    T_STR(l.outputs[1].glob, "parts/**");
    T_INT(l.outputs[0].max_size, -1);
    T_INT(l.setup_ns, 3600 * BH_NS_PER_S);
    T_INT(l.keep, BH_LEASE_KEEP_ALWAYS);
    T_STR(l.box.base_digest, "sha256:ff");
    T_INT(l.box.n_base_layers, 2);
    T_STR(l.box.base_layers[0], "sha256-2");
    T_INT(l.box.agent_uid, 33);
    T_INT(l.box.agent_gid, 34);
    assert_true(l.box.best_effort && l.box.tainted);
    T_INT(l.box.limits.of[BH_LIMIT_CPUS], 500);
    T_INT(l.box.limits.asked, 15);
    T_INT(l.limits.of[BH_LIMIT_OUTPUT], 4096);
    T_INT(l.limits.asked, 1u << BH_LIMIT_MEMORY | 1u << BH_LIMIT_OUTPUT);
    T_INT(l.kind, BH_LEASE_RUN);
    T_INT(l.n_prepare, 2);
    T_STR(l.prepare[1], "ci");
    assert_true(l.warm);
    T_STR(l.snapshot_key, KEY);
    T_INT(l.box.n_snapshots, 2);
    T_STR(l.box.snapshots[0], KEY);
    T_STR(l.check.argv[1], "test");
    T_STR(l.check.files[0].path, "t/x.js");
    assert_true(l.check.fresh);
    T_STR(l.check.score, "out/score");
    T_INT(l.prepare_ns, 2);
    T_INT(l.check_ns, 3);
    check_ways_out(&l);
    T_INT(l.outputs[1].validate.kind, BH_VALIDATE_JSONL);
    T_INT(l.outputs[1].validate.max_lines, 8);
    T_STR(l.outputs[1].validate.paths[0], "src/**");
    T_STR(l.gates[0].artifact, "pages.jsonl");
    T_STR(l.gates[0].validate.command[1], "--strict");
    back = bh_lease_to_val(&l);
    assert_true(bh_val_equal(v, back));
    bh_lease_fini(&l);
    assert_null(l.agent);
    T_INT(l.n_env, 0);
    bh_lease_fini(&l); /* zeroed is fine */
}

static void test_the_least_lease(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = from_json(lease_json), *back = NULL;
    static const char *const lists[] = {"setup", "env", "files", "inputs", "outputs"};
    struct bh_lease l;
    for (size_t i = 0; i < BH_ARRAY_LEN(lists); i++)
        bh_val_set(v, lists[i], bh_val_list());
    bh_val_set(v, "prompt", bh_val_null());
    bh_val_set(v, "needs_json", bh_val_null());
    bh_val_set_str(v, "stage", "");
    T_OK(bh_lease_from_val(v, &l, &err));
    T_INT(l.n_inputs, 0);
    assert_null(l.prompt);
    back = bh_lease_to_val(&l);
    assert_true(bh_val_equal(v, back));
    bh_lease_fini(&l);
}

/* What makes a snapshot has no command of `run` and no number of an attempt. */
static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *empty, *part;
        int attempt;
    } cases[] = {
        {"run", "setup", NULL, 1},
        {"run", "setup", "has no number of an attempt", 0},
        {"run", "run_argv", "the lease has no command", 1},
        {"setup", "run_argv", NULL, 0},
        {"setup", "setup", "the lease has no command", 0},
        {"prepare", "run_argv", NULL, 0},
        {"prepare", "prepare", "the lease has no command", 0},
        {"freeze", "setup", "'kind' of the lease is none of the known words", 0},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        BH_CLEANUP_VAL struct bh_val *v = from_json(lease_json);
        struct bh_lease l = {0};
        bh_val_set_str(v, "kind", cases[i].kind);
        bh_val_set(v, cases[i].empty, bh_val_list());
        bh_val_set(v, "attempt", bh_val_int(cases[i].attempt));
        if (!cases[i].part)
            T_OK(bh_lease_from_val(v, &l, &err));
        else
            T_ERR(bh_lease_from_val(v, &l, &err), BH_E_PROTOCOL, cases[i].part);
        bh_lease_fini(&l);
    }
}

static void test_a_snapshot_needs_a_key(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = from_json(lease_json);
    struct bh_lease l = {0};
    bh_val_set(v, "snapshot_key", bh_val_null());
    T_OK(bh_lease_from_val(v, &l, &err)); /* of `run` alone */
    bh_lease_fini(&l);
    bh_val_set_str(v, "kind", "setup");
    T_ERR(bh_lease_from_val(v, &l, &err), BH_E_PROTOCOL, "the lease has no key for its snapshot");
}

static void test_result_round_trip(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = from_json(result_json), *back = NULL;
    struct bh_result r;
    T_OK(bh_result_from_val(v, &r, &err));
    T_INT(r.outcome, BH_OUTCOME_SUCCEEDED);
    T_INT(r.started.us, INT64_C(1764423223000123));
    T_STR(r.outputs[0].name, "scores.csv");
    T_STR(r.kept_box, "runs/x/boxes/y");
    T_INT(r.box_ms, 12);
    T_INT(r.output_dropped, 7);
    T_INT(r.requests, 5);
    T_INT(r.tokens_in, 6);
    T_INT(r.tokens_out, 8);
    T_STR(r.limits, "memory=cgroup-v2 disk=watchdog +best-effort");
    T_STR(r.evidence, "{\"kind\":\"collision\"}");
    T_STR(r.snapshot, DIGEST);
    assert_true(r.snapshot_reused && r.has_score && r.passed);
    T_INT(r.n_snapshots, 2);
    T_STR(r.snapshots[1], "base-1");
    assert_true(r.score == -2.5);
    back = bh_result_to_val(&r);
    assert_true(bh_val_equal(v, back));
    bh_result_fini(&r);
    bh_result_fini(&r);
}

static void test_result_outcomes(void **state)
{
    (void)state;
    static const struct {
        const char *outcome, *reason;
        bool outputs, good;
    } cases[] = {
        {"succeeded", NULL, true, true},
        {"succeeded", NULL, false, true},
        {"succeeded", "exit", false, false},
        {"failed", "exit", false, true},
        {"failed", "timeout(run)", false, true},
        {"failed", NULL, false, false},
        {"failed", "check", true, true},
        {"cancelled", NULL, false, true},
        {"cancelled", NULL, true, false},
        {"lost", "box-lost", false, true},
        {"lost", NULL, true, false},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        BH_CLEANUP_VAL struct bh_val *v = from_json(result_json);
        struct bh_result r = {0};
        bh_val_set_str(v, "outcome", cases[i].outcome);
        bh_val_set_str(v, "reason", cases[i].reason);
        if (!cases[i].outputs)
            bh_val_set(v, "outputs", bh_val_list());
        if (cases[i].good)
            T_OK(bh_result_from_val(v, &r, &err));
        else
            T_ERR(bh_result_from_val(v, &r, &err), BH_E_PROTOCOL, "the result ");
        bh_result_fini(&r);
    }
}

static void test_score_is_finite(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = from_json(result_json);
    struct bh_result r = {0};
    bh_val_set(v, "score", bh_val_int(7));
    T_OK(bh_result_from_val(v, &r, &err));
    assert_true(r.score == 7);
    bh_result_fini(&r);
    bh_val_set(v, "score", bh_val_num(INFINITY));
    T_ERR(bh_result_from_val(v, &r, &err), BH_E_PROTOCOL, "'score' of the result is not finite");
}

/* --- hostile input: every field missing, and of every wrong type --- */

typedef int decode_fn(const struct bh_val *v, struct bh_err **err);

static int decode_lease(const struct bh_val *v, struct bh_err **err)
{
    struct bh_lease l = {.epoch = 4711};
    int rc = bh_lease_from_val(v, &l, err);
    if (rc != 0)
        T_INT(l.epoch, 4711); /* untouched */
    else
        bh_lease_fini(&l);
    return rc;
}

static int decode_result(const struct bh_val *v, struct bh_err **err)
{
    struct bh_result r = {.epoch = 4711};
    int rc = bh_result_from_val(v, &r, err);
    if (rc != 0)
        T_INT(r.epoch, 4711);
    else
        bh_result_fini(&r);
    return rc;
}

/* What is done to the n-th field of a value, counted from the outside in. */
enum { OMIT = BH_VAL_MAP + 1, MUTATIONS };

struct mutation {
    int target, kind; /* kind: OMIT, or the type that the field gets */
    int seen;
    char key[32]; /* of the field that was hit, "" where there was none */
    enum bh_val_type type;
};

static struct bh_val *of_type(int type)
{
    struct bh_val *list;
    switch (type) {
    case BH_VAL_NULL:
        return bh_val_null();
    case BH_VAL_BOOL:
        return bh_val_bool(true);
    case BH_VAL_INT:
        return bh_val_int(1);
    case BH_VAL_NUM:
        return bh_val_num(1.0);
    case BH_VAL_STR:
        return bh_val_str("\x01");
    case BH_VAL_LIST:
        list = bh_val_list();
        bh_val_add(list, bh_val_bool(true));
        return list;
    default:
        return bh_val_map();
    }
}

static struct bh_val *mutated(const struct bh_val *v, struct mutation *m)
{
    if (bh_val_type(v) != BH_VAL_MAP && bh_val_type(v) != BH_VAL_LIST)
        return bh_val_copy(v);
    bool map = bh_val_type(v) == BH_VAL_MAP;
    struct bh_val *copy = map ? bh_val_map() : bh_val_list();
    for (size_t i = 0; i < bh_val_len(v); i++) {
        const struct bh_val *item = bh_val_at(v, i);
        if (!map) {
            bh_val_add(copy, mutated(item, m));
        } else if (m->seen++ != m->target) {
            bh_val_set(copy, bh_val_key_at(v, i), mutated(item, m));
        } else {
            snprintf(m->key, sizeof(m->key), "%s", bh_val_key_at(v, i));
            m->type = bh_val_type(item);
            if (m->kind != OMIT)
                bh_val_set(copy, m->key, of_type(m->kind));
        }
    }
    return copy;
}

static bool is_optional(const char *key, enum bh_val_type type)
{
    if (strcmp(key, "limits") == 0 || strcmp(key, "score") == 0)
        return type == BH_VAL_STR; /* of the result, of the check */
    if (strcmp(key, "env") == 0)
        return type != BH_VAL_LIST; /* of a secret */
    static const char *const optional[] = {"base_digest", "prompt",   "needs_json", "reason",
                                           "detail",      "kept_box", "snapshot",   "snapshot_key",
                                           "evidence",    "variable", "file"};
    for (size_t i = 0; i < BH_ARRAY_LEN(optional); i++) {
        if (strcmp(key, optional[i]) == 0)
            return true;
    }
    return false;
}

/* Returns how many refusals were seen. */
static int spoil_every_field(const char *json, decode_fn *decode)
{
    BH_CLEANUP_VAL struct bh_val *good = from_json(json);
    int refused = 0;
    for (int target = 0, more = 1; more; target++) {
        for (int kind = 0; kind < MUTATIONS; kind++) {
            struct mutation m = {.target = target, .kind = kind};
            BH_CLEANUP_VAL struct bh_val *bad = mutated(good, &m);
            BH_CLEANUP_ERR struct bh_err *err = NULL;
            more = m.key[0] != '\0';
            bool number = m.type == BH_VAL_NUM && kind == BH_VAL_INT;
            if (!more || number || kind == (int)m.type || (kind == BH_VAL_NULL && is_optional(m.key, m.type)))
                continue;
            int rc = decode(bad, &err);
            bool pair = strcmp(m.key, "name") == 0 || strcmp(m.key, "glob") == 0; /* the pair is named by its parent */
            if (rc != -BH_E_PROTOCOL || (!pair && !strstr(bh_err_message(err), m.key)))
                fail_msg("'%s' with mutation %d gave %d: %s", m.key, kind, rc, err ? bh_err_message(err) : "");
            if (kind == OMIT && !strstr(bh_err_message(err), "is missing"))
                fail_msg("'%s' left out: %s", m.key, bh_err_message(err));
            refused++;
        }
    }
    return refused;
}

static void test_every_field_of_the_lease(void **state)
{
    (void)state;
    assert_in_range(spoil_every_field(lease_json, decode_lease), 500, 2500);
}

static void test_every_field_of_the_result(void **state)
{
    (void)state;
    assert_in_range(spoil_every_field(result_json, decode_result), 150, 300);
}

static void test_what_is_no_map(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list(), *map = bh_val_map();
    T_ERR(decode_lease(NULL, &err), BH_E_PROTOCOL, "the lease is no map");
    T_ERR(decode_lease(list, &err), BH_E_PROTOCOL, "the lease is no map");
    T_ERR(decode_lease(map, &err), BH_E_PROTOCOL, "'kind' of the lease is missing");
    T_ERR(decode_result(map, &err), BH_E_PROTOCOL, "'instance' of the result is missing");
}

/* --- values that are of the right type and still wrong --- */

struct edit {
    const char *from, *to, *part;
};

static const struct edit lease_edits[] = {
    {"\"kind\":\"run\"", "\"kind\":\"Run\"", "'kind' of the lease is none of the known words"},
    {"\"" KEY "\",\"base-1\"", "\"..\"", "'box.snapshots[0]' of the lease is no folder name"},
    {"\"snapshot_key\":\"ba", "\"snapshot_key\":\"BA", "'snapshot_key' of the lease is no key of a snapshot"},
    {"\"snapshot_key\":\"ba", "\"snapshot_key\":\"a", "'snapshot_key' of the lease is no key of a snapshot"},
    {"t/x.js", "../x.js", "'check.files[0].path' of the lease is no path"},
    {"out/score", "/etc/passwd", "'check.score' of the lease is no path"},
    {"\"prepare_ns\":2", "\"prepare_ns\":-2", "'prepare_ns' of the lease is out of range"},
    {"\"check_ns\":3", "\"check_ns\":-3", "'check_ns' of the lease is out of range"},
    {"\"run\":\"0", "\"run\":\"u", "'run' of the lease is no run id"},
    {"\"run\":\"" RUN, "\"run\":\"" OTHER_RUN, "the lease names an instance of another run"},
    {"\"run\":\"" RUN, "\"run\":\"" RUN "0", "'run' of the lease is too long"},
    {"-000007", "-00007", "'instance' of the lease is no instance id"},
    {"-000007", "-000007\\u0000", "'instance' of the lease has a NUL in it"},
    {"\"epoch\":3", "\"epoch\":-1", "'epoch' of the lease is out of range"},
    {"\"modeling\"", "\"\"", "'agent' of the lease is no name"},
    {"\"modeling\"", "\"../x\"", "'agent' of the lease is no name"},
    {"\"modeling\"", "\"Modeling\"", "'agent' of the lease is no name"},
    {"\"model\"", "\"mo del\"", "'stage' of the lease is no name"},
    {"\"attempt\":1", "\"attempt\":-1", "'attempt' of the lease is out of range"},
    {"\"attempt\":1", "\"attempt\":4294967297", "'attempt' of the lease is out of range"},
    {"\"try_\":2", "\"try_\":0", "'try_' of the lease is out of range"},
    {"\"id\":\"crew\"", "\"id\":\"\"", "'box.id' of the lease is too short"},
    {"\"key\":\"crew-1\"", "\"key\":\"a/b\"", "'box.key' of the lease is no folder name"},
    {"\"key\":\"crew-1\"", "\"key\":\"..\"", "'box.key' of the lease is no folder name"},
    {"\"key\":\"crew-1\"", "\"key\":\"\"", "'box.key' of the lease is no folder name"},
    {"\"base\":\"host\"", "\"base\":\"\"", "'box.base' of the lease is too short"},
    {"\"layer-1\"", "\"../layer-1\"", "'box.layers[1]' of the lease is no folder name"},
    {"\"layer-1\"", "7", "'box.layers[1]' of the lease is no text"},
    {"tools/x.py", "/etc/passwd", "'box.files[0].path' of the lease is no path that stays below"},
    {"tools/x.py", "tools/../../x", "'box.files[0].path' of the lease is no path that stays below"},
    {"\"echo hi\"", "\"echo\\u0000hi\"", "'run_argv[2]' of the lease has a NUL in it"},
    {"[\"/bin/sh\",\"-ceu\",\"echo hi\"]", "[]", "the lease has no command"},
    {"\"name\":\"A\"", "\"name\":\"\"", "'env[0].name' of the lease is too short"},
    {"\"name\":\"A\"", "\"name\":\"A=B\"", "'env[0].name' of the lease has a '=' in it"},
    {"\"user\":\"agent\"", "\"user\":\"\"", "'user' of the lease is too short"},
    {"\"params_json\":\"{}\"", "\"params_json\":\"\"", "'params_json' of the lease is too short"},
    {"\"a/b\"", "\"a//b\"", "'files[0].path' of the lease is no path"},
    {"\"path\":\"pages.jsonl\"", "\"path\":\"..\"", "'inputs[0].path' of the lease is no path"},
    {"\"name\":\"pages.jsonl\"", "\"name\":\"pages@x\"", "'inputs[0].name' of the lease does not end in the number"},
    {"sha256:ba7816bf", "sha256:BA7816BF", "'box.files[0].object.digest' of the lease is no sha256 digest"},
    {"\"size\":3", "\"size\":-1", "'box.files[0].object.size' of the lease is out of range"},
    {"\"glob\":null", "\"glob\":\"*\"", "'outputs[0]' of the lease has not exactly one of name and glob"},
    {"\"name\":\"scores.csv\"", "\"name\":null", "'outputs[0]' of the lease has not exactly one of name and glob"},
    {"\"name\":\"scores.csv\"", "\"name\":\"a//b\"", "'outputs[0].name' of the lease has an empty segment"},
    {"parts/**", "/parts", "'outputs[1].glob' of the lease begins with '/'"},
    {"out/scores.csv", "out/../../x", "'outputs[0].path' of the lease is no path"},
    {"\"max_size\":-1", "\"max_size\":-2", "'outputs[0].max_size' of the lease is out of range"},
    {"\"setup_ns\":3600000000000", "\"setup_ns\":-1", "'setup_ns' of the lease is out of range"},
    {"sha256-1", "../x", "'box.base_layers[1]' of the lease is no path that stays below"},
    {"\"agent_uid\":33", "\"agent_uid\":65536", "'box.agent_uid' of the lease is out of range"},
    {"\"agent_gid\":34", "\"agent_gid\":-1", "'box.agent_gid' of the lease is out of range"},
    {"\"memory\":1048576", "\"memory\":-1", "'box.limits.memory' of the lease is out of range"},
    {"\"memory\":1048576", "\"memory\":0", "'box.limits' of the lease asks for a limit that it does not give"},
    {"\"asked\":15", "\"asked\":128", "'box.limits.asked' of the lease is out of range"},
    {"\"asked\":15", "\"asked\":-1", "'box.limits.asked' of the lease is out of range"},
    {"\"output\":4096", "\"output\":0", "'limits' of the lease asks for a limit that it does not give"},
    {"\"kind\":\"host\"", "\"kind\":\"open\"", "'network_check.kind' of the lease is none of the known words"},
    {"\"kind\":\"allow\"", "\"kind\":\"public\"", "'network_run' of the lease has an allow-list that is not asked for"},
    {"\"pypi.org:443\"", "\"\"", "'network_run.allow[0]' of the lease is too short"},
    {"\"LLM_KEY\"", "null", "'endpoints[0].secrets[0]' of the lease has not exactly one of env, file and command"},
    {"\"LLM_KEY\"", "\"A=B\"", "'endpoints[0].secrets[0].env' of the lease has a '=' in it"},
    {"\"file\":null,\"command\":[\"pass", "\"file\":\"/x\",\"command\":[\"pass",
     "'secrets[0]' of the lease has not exactly one of env, file and command"},
    {"\"max_parallel\":8", "\"max_parallel\":-8", "'endpoints[0].max_parallel' of the lease is out of range"},
    {"\"max_tokens\":1000", "\"max_tokens\":-1", "'max_tokens' of the lease is out of range"},
    {"\"artifact\":\"pages.jsonl\"", "\"artifact\":\"../x\"", "'gates[0].artifact' of the lease"},
    {"\"max_lines\":8", "\"max_lines\":-2", "'gates[0].validate.max_lines' of the lease is out of range"},
    {"\"always\"", "\"sometimes\"", "'keep' of the lease is none of the known words"},
    {"\"always\"", "\"always\\u0000\"", "'keep' of the lease is none of the known words"},
};

static const struct edit result_edits[] = {
    {"-000007", "", "'instance' of the result is no instance id"},
    {"\"epoch\":3", "\"epoch\":-3", "'epoch' of the result is out of range"},
    {"\"succeeded\"", "\"Succeeded\"", "'outcome' of the result is none of the known words"},
    {"\"reason\":null", "\"reason\":\"exit\"", "the result succeeded and gives a reason"},
    {"\"reason\":null", "\"reason\":\"\"", "'reason' of the result is no reason"},
    {"\"reason\":null", "\"reason\":\"timeout(\"", "'reason' of the result is no reason"},
    {"\"reason\":null", "\"reason\":\"timeout()\"", "'reason' of the result is no reason"},
    {"\"reason\":null", "\"reason\":\"timeout(run)x\"", "'reason' of the result is no reason"},
    {"\"reason\":null", "\"reason\":\"<b>\"", "'reason' of the result is no reason"},
    {"\"exit_code\":0", "\"exit_code\":256", "'exit_code' of the result is out of range"},
    {"\"exit_code\":0", "\"exit_code\":-2", "'exit_code' of the result is out of range"},
    {"\"signal\":0", "\"signal\":65", "'signal' of the result is out of range"},
    {"\"started\":1764423223000123", "\"started\":-1", "'started' of the result is out of range"},
    {"\"name\":\"scores.csv\"", "\"name\":\"../scores.csv\"", "'outputs[0].name' of the result has '..' as a segment"},
    {"\"size\":3", "\"size\":-3", "'outputs[0].object.size' of the result is out of range"},
    {"runs/x/boxes/y", "/etc", "'kept_box' of the result is no path"},
    {"\"cpu_ms\":10", "\"cpu_ms\":-1", "'cpu_ms' of the result is out of range"},
    {"\"disk_bytes\":0", "\"disk_bytes\":-2", "'disk_bytes' of the result is out of range"},
    {"\"output_dropped\":7", "\"output_dropped\":-1", "'output_dropped' of the result is out of range"},
    {"\"snapshot\":\"sha256:ba", "\"snapshot\":\"sha256:b", "'snapshot' of the result is no sha256 digest"},
    {"\"base-1\"", "\"a/b\"", "'snapshots[1]' of the result is no folder name"},
    {"\"score\":-2.5", "\"score\":\"NaN\"", "'score' of the result is no number"},
    {"\\\"collision\\\"}", "\\\"collision\\\"", "'evidence' of the result is no JSON object"},
    {"{\\\"kind\\\":\\\"collision\\\"}", "[]", "'evidence' of the result is no JSON object"},
    {"disk=watchdog", "disk=\\u001b[1m", "'limits' of the result is no list of limits"},
    {"\"memory=cgroup-v2 disk=watchdog +best-effort\"", "\"\"", "'limits' of the result is too short"},
};

static void refuse_edits(const char *json, const struct edit *edits, size_t n, decode_fn *decode)
{
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(json, edits[i].from);
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        assert_non_null(at);
        bh_buf_add(&text, json, (size_t)(at - json));
        bh_buf_adds(&text, edits[i].to);
        bh_buf_adds(&text, at + strlen(edits[i].from));
        BH_CLEANUP_VAL struct bh_val *bad = from_json(text.data);
        T_ERR(decode(bad, &err), BH_E_PROTOCOL, edits[i].part);
    }
}

static void test_wrong_values_of_the_lease(void **state)
{
    (void)state;
    refuse_edits(lease_json, lease_edits, BH_ARRAY_LEN(lease_edits), decode_lease);
}

static void test_wrong_values_of_the_result(void **state)
{
    (void)state;
    refuse_edits(result_json, result_edits, BH_ARRAY_LEN(result_edits), decode_result);
}

/* --- limits --- */

static const struct {
    const char *key;
    size_t most;
} text_limits[] = {
    {"agent", 255},
    {"stage", 255},
    {"user", 255},
    {"workdir", 4095},
    {"prompt", 4 * 1024 * 1024},
    {"params_json", 4 * 1024 * 1024},
    {"needs_json", 4 * 1024 * 1024},
};

static void test_long_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(text_limits); i++) {
        BH_CLEANUP_VAL struct bh_val *v = from_json(lease_json);
        BH_CLEANUP_FREE char *s = bh_alloc(text_limits[i].most + 2);
        memset(s, 'x', text_limits[i].most + 1);
        bh_val_set(v, text_limits[i].key, bh_val_strn(s, text_limits[i].most));
        T_OK(decode_lease(v, &err));
        bh_val_set_str(v, text_limits[i].key, s);
        T_ERR(decode_lease(v, &err), BH_E_PROTOCOL, "of the lease is too long");
    }
}

static void test_long_variable(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = from_json(lease_json);
    BH_CLEANUP_FREE char *s = bh_alloc(131072 + 2);
    struct bh_val *variable = bh_val_at(bh_val_get(v, "env"), 1);
    memset(s, 'x', 131072 + 1);
    bh_val_set(variable, "value", bh_val_strn(s, 131072));
    T_OK(decode_lease(v, &err));
    bh_val_set_str(variable, "value", s);
    T_ERR(decode_lease(v, &err), BH_E_PROTOCOL, "'env[1].value' of the lease is too long");
}

static void test_long_lists(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = from_json(lease_json);
    struct bh_val *list = bh_val_set(v, "run_argv", bh_val_list());
    for (int i = 0; i < 65536; i++)
        bh_val_add(list, bh_val_str("x"));
    T_OK(decode_lease(v, &err));
    bh_val_add(list, bh_val_str("x"));
    T_ERR(decode_lease(v, &err), BH_E_PROTOCOL, "'run_argv' of the lease has too many items");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lease_round_trip),
        cmocka_unit_test(test_the_least_lease),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_a_snapshot_needs_a_key),
        cmocka_unit_test(test_score_is_finite),
        cmocka_unit_test(test_result_round_trip),
        cmocka_unit_test(test_result_outcomes),
        cmocka_unit_test(test_every_field_of_the_lease),
        cmocka_unit_test(test_every_field_of_the_result),
        cmocka_unit_test(test_what_is_no_map),
        cmocka_unit_test(test_wrong_values_of_the_lease),
        cmocka_unit_test(test_wrong_values_of_the_result),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_long_variable),
        cmocka_unit_test(test_long_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
