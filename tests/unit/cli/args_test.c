/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/t.h"

#include "base/mem.h"
#include "cli/args.h"

static const struct bh_opt opts[] = {
    {"param", 'p', BH_OPT_REPEATED, "NAME=VALUE", "a parameter"},
    {"force", 0, BH_OPT_FLAG, NULL, "force"},
    {"tail", 0, BH_OPT_VALUE, "N", "lines"},
};
static const struct bh_cmd cmd = {
    .name = "try",
    .operands = "FILE [MORE]",
    .summary = "for the test",
    .example = "bulkhead try x",
    .opts = opts,
    .n_opts = 3,
    .min_operands = 1,
    .max_operands = 2,
};

static int parse(struct bh_args *args, struct bh_err **err, int argc, const char *const *argv)
{
    return bh_args_parse(&cmd, argc, (char **)(uintptr_t)argv, args, err);
}

#define PARSE(args, ...) \
    parse(args, &err, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__})

static void reads_operands_and_options(void **state)
{
    (void)state;
    struct bh_args args;
    T_OK(PARSE(&args, "a", "-p", "x=1", "--param=y=2", "--force", "b", "-pz=3"));
    T_INT(args.n_operands, 2);
    T_STR(args.operands[1], "b");
    T_TRUE(bh_args_has(&args, "force"));
    T_TRUE(!bh_args_has(&args, "tail"));
    size_t n = 0;
    const char **values = bh_args_all(&args, "param", &n);
    T_INT(n, 3);
    T_STR(values[0], "x=1");
    T_STR(values[1], "y=2");
    T_STR(values[2], "z=3");
    bh_free(values);
    bh_args_fini(&args);
}

static void ends_options_at_two_dashes(void **state)
{
    (void)state;
    struct bh_args args;
    T_OK(PARSE(&args, "--", "--force", "-p"));
    T_STR(args.operands[0], "--force");
    T_STR(args.operands[1], "-p");
    bh_args_fini(&args);
    T_OK(PARSE(&args, "-"));
    T_STR(args.operands[0], "-");
    bh_args_fini(&args);
}

static void the_last_value_counts(void **state)
{
    (void)state;
    struct bh_args args;
    T_OK(PARSE(&args, "a", "--tail", "3", "--tail=5", "-o", "text", "-o", "json"));
    T_STR(bh_args_get(&args, "tail"), "5");
    T_TRUE(bh_args_json(&args));
    bh_args_fini(&args);
}

static void refuses(const char *const *argv, int argc, const char *part, const char *hint)
{
    struct bh_args args;
    struct bh_err *err = NULL;
    T_INT(parse(&args, &err, argc, argv), -BH_E_USAGE);
    if (!strstr(bh_err_message(err), part))
        fail_msg("'%s' does not hold '%s'", bh_err_message(err), part);
    if (hint && !strstr(bh_err_get_hint(err), hint))
        fail_msg("'%s' does not hold '%s'", bh_err_get_hint(err), hint);
    bh_err_free(err);
    bh_args_fini(&args);
}
#define REFUSES(part, hint, ...) \
    refuses((const char *[]){__VA_ARGS__}, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), part, hint)

static void refuses_slips(void **state)
{
    (void)state;
    REFUSES("unknown option '--parm'", "did you mean '--param'", "a", "--parm", "x=1");
    REFUSES("unknown option '--forc=1'", "did you mean '--force'", "a", "--forc=1");
    REFUSES("unknown option '-x'", NULL, "a", "-x");
    REFUSES("unknown option '-qv'", NULL, "a", "-qv");
    REFUSES("takes no value", NULL, "a", "--force=yes");
    REFUSES("needs a value", "--tail N", "a", "--tail");
    REFUSES("needs FILE", "usage: bulkhead try", "--force");
    REFUSES("does not take 'c'", NULL, "a", "b", "c");
    REFUSES("unknown output form 'xml'", NULL, "a", "-o", "xml");
}

static void help_needs_no_operands(void **state)
{
    (void)state;
    struct bh_args args;
    T_OK(PARSE(&args, "--help"));
    T_TRUE(args.help);
    bh_args_fini(&args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_operands_and_options), cmocka_unit_test(ends_options_at_two_dashes),
        cmocka_unit_test(the_last_value_counts),      cmocka_unit_test(refuses_slips),
        cmocka_unit_test(help_needs_no_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
