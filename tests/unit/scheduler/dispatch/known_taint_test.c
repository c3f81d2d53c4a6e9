/* SPDX-License-Identifier: Apache-2.0 */
/* What comes back from outside and is known as tainted. */
#include "scheduler/dispatch/known_taint.h"

#include "artifact-bus/digest.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

#define PROMPT "do what the page says"
#define TEXT(s) ((char *)(uintptr_t)(s))

static struct kit_home home;
static struct bh_store *store;

static int setup(void **state)
{
    struct bh_err *err = NULL;
    struct bh_run_id id = kit_run_id(1);
    char prompt[BH_DIGEST_TEXT];
    struct bh_digest of_prompt = bh_digest_of(PROMPT, sizeof(PROMPT) - 1);
    struct bh_run_row run = kit_run_row(id.s, "succeeded");
    (void)state;
    kit_home_make(&home);
    T_INT(bh_store_open(&home.home, BH_STORE_WRITE, &store, &err), 0);
    struct bh_artifact_row artifacts[] = {
        {.run = id.s,
         .name = TEXT("pages"),
         .digest = TEXT("sha256:aa"),
         .label = TEXT("tainted"),
         .size = 30,
         .published = {5000}},
        {.run = id.s, .name = TEXT("notes"), .digest = TEXT("sha256:bb"), .label = TEXT("trusted"), .size = 3},
        {.run = id.s, .name = TEXT("void"), .digest = TEXT("sha256:00"), .label = TEXT("tainted")},
        {.run = id.s,
         .name = TEXT("said"),
         .digest = bh_digest_format(&of_prompt, prompt),
         .label = TEXT("tainted"),
         .size = 21,
         .published = {5000}},
    };
    struct bh_store_batch batch = {.run = id.s, .run_row = &run, .artifacts = artifacts, .n_artifacts = 4};
    T_INT(bh_store_commit(store, &batch, &err), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_store_close(store);
    kit_home_remove(&home);
    return 0;
}

static struct bh_val *submission(const char *json)
{
    struct bh_val *v = NULL;
    T_INT(bh_json_parse(json, strlen(json), &v, NULL), 0);
    return v;
}

static void what_is_known_is_found(void **state)
{
    struct bh_err *err = NULL;
    bool any = false;
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = submission(
        "{\"files\":{\"a\":[{\"digest\":\"sha256:bb\",\"size\":30}],\"b\":[{\"digest\":\"sha256:bb\",\"size\":30},"
        "{\"digest\":\"sha256:aa\",\"size\":30}],\"c\":[{\"digest\":\"sha256:00\",\"size\":0}]},"
        "\"prompts\":{\"p.md\":\"" PROMPT "\",\"q.md\":\"do not\"},"
        "\"sources\":{\"s\":{\"digest\":\"sha256:aa\",\"size\":30},\"t\":{\"digest\":\"sha256:cc\",\"size\":30}}}");
    T_INT(bh_known_taint_find(store, v, &any, &err), 0);
    T_TRUE(any);
    struct bh_plan_options options = {0};
    bh_known_taint_options(v, &options);
    T_INT(options.n_tainted_files, 2);
    T_STR(options.tainted_files[0], "b");
    T_STR(options.tainted_files[1], "p.md");
    T_INT(options.n_tainted_sources, 1);
    T_STR(options.tainted_sources[0], "s");
    const struct bh_val *why = bh_val_get(bh_val_get(v, "tainted"), "why");
    BH_CLEANUP_FREE char *want = bh_asprintf("'pages' of run %s", kit_run_id(1).s);
    T_STR(bh_val_str_of(why, "s"), want);
    bh_known_taint_options_fini(&options);
}

/* Else a tainted agent could lock its readers out of their own files by writing the same. */
static void what_was_here_before_is_not_its_making(void **state)
{
    static const struct {
        const char *json;
        bool found;
    } rows[] = {
        {"{\"files\":{\"a\":[{\"digest\":\"sha256:aa\",\"size\":30}]},\"since\":{\"a\":4999}}", false},
        {"{\"files\":{\"a\":[{\"digest\":\"sha256:aa\",\"size\":30}]},\"since\":{\"a\":5000}}", true},
        {"{\"files\":{\"a\":[{\"digest\":\"sha256:aa\",\"size\":30}]},\"since\":{\"b\":1}}", true},
        {"{\"sources\":{\"a\":{\"digest\":\"sha256:aa\",\"size\":30}},\"since\":{\"a\":1}}", false},
        {"{\"prompts\":{\"a\":\"" PROMPT "\"},\"since\":{\"a\":1}}", false},
        {"{\"files\":{\"a\":[{\"digest\":\"sha256:aa\",\"size\":15}]}}", false}, /* everybody's */
        {"{\"files\":{\"a\":[{\"digest\":\"sha256:aa\",\"size\":16}]}}", true},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_err *err = NULL;
        bool any = false;
        BH_CLEANUP_VAL struct bh_val *v = submission(rows[i].json);
        T_INT(bh_known_taint_find(store, v, &any, &err), 0);
        if (any != rows[i].found)
            fail_msg("%s", rows[i].json);
    }
}

static void its_refusal_says_whose_it_is(void **state)
{
    struct bh_err *err = NULL;
    struct bh_errlist errors = {0};
    bool any = false;
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = submission("{\"files\":{\"./a\":[{\"digest\":\"sha256:aa\",\"size\":30}]}}");
    T_INT(bh_known_taint_find(store, v, &any, &err), 0);
    bh_err_set(&err, BH_E_TRUST, 0, "no");
    bh_err_detail(&err, "tainted: ./a (file)");
    bh_errlist_add(&errors, BH_TAKE(err));
    bh_err_set(&err, BH_E_INVALID, 0, "no");
    bh_err_detail(&err, "tainted: ./a (file)");
    bh_errlist_add(&errors, BH_TAKE(err));
    bh_known_taint_tell(v, &errors);
    BH_CLEANUP_FREE char *want =
        bh_asprintf("tainted: ./a (file); './a' has the content of 'pages' of run %s", kit_run_id(1).s);
    T_STR(bh_err_get_detail(errors.items[0]), want);
    T_TRUE(strstr(bh_err_get_hint(errors.items[0]), "let it in by 'accept'") != NULL);
    T_STR(bh_err_get_detail(errors.items[1]), "tainted: ./a (file)");
    bh_errlist_fini(&errors);
}

static void nothing_known_notes_nothing(void **state)
{
    struct bh_err *err = NULL;
    bool any = true;
    struct bh_plan_options options = {0};
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v =
        submission("{\"files\":{\"a\":[{\"digest\":\"sha256:bb\",\"size\":30}]},\"prompts\":{},\"sources\":{}}");
    T_INT(bh_known_taint_find(store, v, &any, &err), 0);
    T_TRUE(!any);
    T_TRUE(bh_val_get(v, "tainted") == NULL);
    bh_known_taint_options(v, &options);
    T_INT(options.n_tainted_files + options.n_tainted_sources, 0);
    bh_known_taint_options_fini(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_known_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_here_before_is_not_its_making, setup, teardown),
        cmocka_unit_test_setup_teardown(its_refusal_says_whose_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_known_notes_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
