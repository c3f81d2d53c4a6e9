/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/provenance.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"

#define RUN "01k8h3z5v7x9abcdefghjkmnpq"

#define S(literal) ((char *)(literal)) /* where a struct owns its texts; nothing here frees or writes them */

static char *run_argv[] = {S("/bin/sh"), S("-ceu"), S("make scores.csv")};
static char *setup_argv[] = {S("pip"), S("install"), S("networkx")};
static char *layers[] = {S("layer-2"), S("layer-1")};

static struct bh_object object_of(const char *content)
{
    return (struct bh_object){.digest = bh_digest_of(content, strlen(content)), .size = (int64_t)strlen(content)};
}

static struct bh_lease make_lease(struct bh_lease_file *files, struct bh_lease_file *inputs)
{
    return (struct bh_lease){
        .run = {RUN},
        .instance = {RUN "-000003"},
        .agent = S("modeling"),
        .stage = S("model"),
        .attempt = 1,
        .try_ = 2,
        .box = {.id = S("crew"), .base = S("host"), .layers = layers, .n_layers = 2},
        .setup = setup_argv,
        .n_setup = 3,
        .run_argv = run_argv,
        .n_run = 3,
        .files = files,
        .n_files = 1,
        .inputs = inputs,
        .n_inputs = 2,
    };
}

static void test_output_record(void **state)
{
    (void)state;
    struct bh_lease_file files[] = {{.path = S("x.py"), .object = object_of("file")}};
    struct bh_lease_file inputs[] = {
        {.path = S("p"),
         .name = S("pages.jsonl"),
         .object = object_of("in"),
         .provenance = S("{\"agent\":\"retrieval\"}")},
        {.path = S("s"), .name = S("status"), .object = object_of("src"), .provenance = S("{\"source\":\"/var/x\"}")},
    };
    struct bh_lease lease = make_lease(files, inputs);
    struct bh_result result = {.started = {1764423223000123}, .ended = {1764423224000000}, .exit_code = 0};
    struct bh_result_output output = {.name = S("scores.csv"), .object = object_of("abc")};
    BH_CLEANUP_VAL struct bh_val *v =
        bh_provenance_of_output(&lease, &result, &output, true, "pages.jsonl ← retrieval (untrusted: true)");
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(v, &text);
    T_STR(text.data,
          "{\"name\":\"scores.csv\",\"digest\":\"sha256:"
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\","
          "\"size\":3,\"run\":\"" RUN "\",\"agent\":\"modeling\",\"stage\":\"model\",\"attempt\":1,\"try\":2,"
          "\"instance\":\"" RUN
          "-000003\",\"box\":\"crew\",\"base\":\"host\",\"base_digest\":null,\"layers\":[\"layer-2\",\"layer-1\"],"
          "\"command\":\"sha256:d48235d9ac8acf24cf256f9388d9713d57cc316238ff3d50ad797ea3ee755148\","
          "\"argv\":[\"/bin/sh\",\"-ceu\",\"make scores.csv\"],"
          "\"setup\":\"sha256:bbc4653f074af234fe29fcb7606d948733460fe2bcb21552d3605221231ece93\","
          "\"box_setup\":null,\"prepare\":null,\"check\":null,\"snapshot\":null,\"snapshot_key\":null,\"prompt\":null,"
          "\"params\":null,"
          "\"env\":\"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\",\"user\":null,"
          "\"files\":[{\"path\":\"x.py\",\"digest\":\"sha256:"
          "3b9c358f36f0a31b6ad3e14f309c7cf198ac9246e8316f9ce543d5b19ac02b80\"}],"
          "\"inputs\":[{\"name\":\"pages.jsonl\",\"digest\":\"sha256:"
          "582967534d0f909d196b97f9e6921342777aea87b46fa52df165389db1fb8ccf\",\"agent\":\"retrieval\"},"
          "{\"name\":\"status\",\"digest\":\"sha256:25a6634263c1b1f6fc4697a04e2b9904ea4b042a89af59dc93ec1f5d44848a26\","
          "\"agent\":null}],"
          "\"label\":\"tainted\",\"why\":\"pages.jsonl ← retrieval (untrusted: true)\","
          "\"started\":\"2025-11-29T13:33:43.000123Z\",\"ended\":\"2025-11-29T13:33:44.000000Z\",\"exit_code\":0}");
}

static void test_no_setup_and_no_label(void **state)
{
    (void)state;
    struct bh_lease lease = make_lease(NULL, NULL);
    struct bh_result result = {.exit_code = -1};
    struct bh_result_output output = {.name = S("x"), .object = object_of("")};
    lease.n_setup = lease.n_files = lease.n_inputs = 0;
    BH_CLEANUP_VAL struct bh_val *v = bh_provenance_of_output(&lease, &result, &output, false, NULL);
    T_INT(bh_val_type(bh_val_get(v, "setup")), BH_VAL_NULL);
    assert_non_null(bh_val_get(v, "setup"));
    T_INT(bh_val_len(bh_val_get(v, "files")), 0);
    T_INT(bh_val_type(bh_val_get(v, "inputs")), BH_VAL_LIST);
    T_STR(bh_val_str_of(v, "label"), "trusted");
    T_INT(bh_val_type(bh_val_get(v, "why")), BH_VAL_NULL);
    T_INT(bh_val_int_of(v, "exit_code"), -1);
}

/* Argument boundaries are part of the command. */
static void test_command_digest(void **state)
{
    (void)state;
    char *one[] = {S("a b")}, *two[] = {S("a"), S("b")};
    struct bh_lease lease = make_lease(NULL, NULL);
    struct bh_result result = {0};
    struct bh_result_output output = {.name = S("x"), .object = object_of("")};
    lease.n_files = lease.n_inputs = 0;
    lease.run_argv = one;
    lease.n_run = 1;
    BH_CLEANUP_VAL struct bh_val *a = bh_provenance_of_output(&lease, &result, &output, false, NULL);
    lease.run_argv = two;
    lease.n_run = 2;
    BH_CLEANUP_VAL struct bh_val *b = bh_provenance_of_output(&lease, &result, &output, false, NULL);
    BH_CLEANUP_VAL struct bh_val *c = bh_provenance_of_output(&lease, &result, &output, false, NULL);
    assert_string_not_equal(bh_val_str_of(a, "command"), bh_val_str_of(b, "command"));
    assert_true(bh_val_equal(b, c));
    char text[BH_DIGEST_TEXT];
    struct bh_digest want = bh_digest_of("[\"a\",\"b\"]", 9);
    T_STR(bh_val_str_of(b, "command"), bh_digest_format(&want, text));
}

/* What shapes an execution besides its command is told apart; what only names it is not. */
static void test_what_else_shapes_it(void **state)
{
    (void)state;
    struct bh_result result = {0};
    struct bh_result_output output = {.name = S("x"), .object = object_of("")};
    struct bh_lease_env one[] = {{S("A"), S("1")}, {S("BULKHEAD_TRY"), S("1")}},
                        again[] = {{S("BULKHEAD_TRY"), S("2")}, {S("A"), S("1")}}, other[] = {{S("A"), S("2")}};
    char *box_setup[] = {S("true")};
    struct bh_lease base = make_lease(NULL, NULL), l[5];
    base.n_files = base.n_inputs = 0;
    base.prompt = S("say one");
    base.params_json = S("{}");
    base.env = one;
    base.n_env = 2;
    for (size_t i = 0; i < 5; i++)
        l[i] = base;
    l[0].env = again;
    l[1].env = other;
    l[1].n_env = 1;
    l[2].prompt = S("say two");
    l[3].params_json = S("{\"q\":1}");
    l[4].box.setup = box_setup;
    l[4].box.n_setup = 1;
    static const char *const keys[] = {NULL, "env", "prompt", "params", "box_setup"};
    BH_CLEANUP_VAL struct bh_val *want = bh_provenance_of_output(&base, &result, &output, false, NULL);
    for (size_t i = 0; i < 5; i++) {
        BH_CLEANUP_VAL struct bh_val *got = bh_provenance_of_output(&l[i], &result, &output, false, NULL);
        assert_int_equal(bh_val_equal(want, got), keys[i] == NULL);
        if (keys[i])
            assert_false(bh_val_equal(bh_val_get(want, keys[i]), bh_val_get(got, keys[i])));
    }
}

static void test_a_long_command_is_only_a_digest(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    char *argv[] = {text};
    struct bh_lease lease = make_lease(NULL, NULL);
    struct bh_result result = {0};
    struct bh_result_output output = {.name = S("x"), .object = object_of("")};
    lease.n_files = lease.n_inputs = 0;
    lease.run_argv = argv;
    lease.n_run = 1;
    BH_CLEANUP_VAL struct bh_val *v = bh_provenance_of_output(&lease, &result, &output, false, NULL);
    T_INT(bh_val_type(bh_val_get(v, "argv")), BH_VAL_NULL);
    T_INT(bh_val_type(bh_val_get(v, "command")), BH_VAL_STR);
}

static void test_inputs_name_their_makers(void **state)
{
    (void)state;
    static const struct {
        const char *provenance;
        const char *agent; /* NULL: null */
    } cases[] = {
        {"{\"agent\":\"retrieval\"}", "retrieval"},
        {"{}", NULL},
        {"no json", NULL},
        {"{\"agent\":7}", NULL},
        {"[1]", NULL},
        {NULL, NULL},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct bh_lease_file input = {.name = S("n"), .object = object_of("x"), .provenance = S(cases[i].provenance)};
        struct bh_lease lease = make_lease(NULL, &input);
        struct bh_result result = {0};
        struct bh_result_output output = {.name = S("x"), .object = object_of("")};
        lease.n_files = 0;
        lease.n_inputs = 1;
        BH_CLEANUP_VAL struct bh_val *v = bh_provenance_of_output(&lease, &result, &output, false, NULL);
        const char *agent = bh_val_str_of(bh_val_at(bh_val_get(v, "inputs"), 0), "agent");
        if (cases[i].agent)
            T_STR(agent, cases[i].agent);
        else
            assert_null(agent);
    }
}

static void test_source_record(void **state)
{
    (void)state;
    struct bh_object object = object_of("abc");
    BH_CLEANUP_VAL struct bh_val *v = bh_provenance_of_source("status", &object, "/var/lib/dpkg/status", false);
    BH_CLEANUP_VAL struct bh_val *t = bh_provenance_of_source("status", &object, "x", true);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(v, &text);
    T_STR(text.data,
          "{\"name\":\"status\","
          "\"digest\":\"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\"size\":3,"
          "\"source\":\"/var/lib/dpkg/status\",\"label\":\"trusted\",\"why\":null}");
    T_STR(bh_val_str_of(t, "label"), "tainted");
    T_STR(bh_val_str_of(t, "why"), "untrusted: true");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_record),
        cmocka_unit_test(test_no_setup_and_no_label),
        cmocka_unit_test(test_command_digest),
        cmocka_unit_test(test_what_else_shapes_it),
        cmocka_unit_test(test_a_long_command_is_only_a_digest),
        cmocka_unit_test(test_inputs_name_their_makers),
        cmocka_unit_test(test_source_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
