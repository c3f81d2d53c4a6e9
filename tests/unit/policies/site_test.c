/* SPDX-License-Identifier: Apache-2.0 */
/* The site's policy file: what it says, and whose word is taken. */
#include "policies/site.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

static char *dir, *file;

static int setup(void **state)
{
    (void)state;
    dir = t_tmpdir();
    file = bh_path_join(dir, "site.yaml");
    unsetenv("BULKHEAD_SITE");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_free(file);
    t_tmpdir_free(dir);
    return 0;
}

static void write_site(const char *text, mode_t mode)
{
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    T_INT(fclose(f), 0);
    T_INT(chmod(file, mode), 0);
}

static void what_it_says(void **state)
{
    static const struct {
        const char *text;
        bool best_effort;
    } rows[] = {
        {"limits: best-effort\n", true},         {"limits: enforced\n", false}, {"# nothing\n\n", false}, {"", false},
        {"{limits: best-effort} # one\n", true},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_site site;
        struct bh_errlist errors = {0};
        write_site(rows[i].text, 0644);
        T_INT(bh_site_read(file, true, &site, &errors), 0);
        T_INT(site.best_effort, rows[i].best_effort);
        T_STR(site.file, file);
        bh_site_fini(&site);
        assert_null(site.file);
    }
}

static void what_it_allows_on_disk(void **state)
{
    struct bh_site site;
    struct bh_errlist errors = {0};
    (void)state;
    write_site("disk_budget: 50GiB\n", 0644);
    T_INT(bh_site_read(file, true, &site, &errors), 0);
    T_INT(site.disk_budget, INT64_C(50) << 30);
    bh_site_fini(&site);
    write_site("limits: enforced\n", 0644);
    T_INT(bh_site_read(file, true, &site, &errors), 0);
    T_INT(site.disk_budget, 0);
    bh_site_fini(&site);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text;
        int line, column;
        const char *part;
    } rows[] = {
        {"limit: best-effort\n", 1, 1, "'limit' is no key of a site policy"},
        {"limits: best-effort\nlimits: enforced\n", 2, 1, "limits"},
        {"\nlimits: maybe\n", 2, 9, "'maybe'"},
        {"limits: [best-effort]\n", 1, 9, "found a list"},
        {"- limits\n", 1, 1, "expected a site policy as a map"},
        {"disk_budget: much\n", 1, 14, "'much'"},
        {"disk_budget: 0B\n", 1, 14, ""},
        {"limits: {\n", 2, 1, ""},
        {"limits: \x01\n", 1, 9, ""},
        {"caps: {memory: 1GiB}\n", 1, 8, "'memory' is no key of the caps of a site"},
        {"caps: {limits: {memory: much}}\n", 1, 25, "'much'"},
        {"caps: {timeout: 0s}\n", 1, 17, ""},
        {"caps: {attempts: 0}\n", 1, 18, ""},
        {"allow: {hosts: public}\n", 1, 16, "a list of patterns"},
        {"allow: {hosts: ['']}\n", 1, 17, ""},
        {"allow: {ranges: [10.0.0.1/8]}\n", 1, 18, "a range of addresses"},
        {"allow: {ranges: [localhost]}\n", 1, 18, "a range of addresses"},
        {"allow: {mounts: [data]}\n", 1, 18, "a path from the root"},
        {"allow: {root: maybe}\n", 1, 15, ""},
        {"pipelines: {name: x}\n", 1, 12, "a list of rules"},
        {"pipelines: [{nmae: x}]\n", 1, 14, "'nmae'"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_site site = {.best_effort = true};
        struct bh_errlist errors = {0};
        write_site(rows[i].text, 0644);
        T_INT(bh_site_read(file, true, &site, &errors), -BH_E_POLICY);
        T_TRUE(errors.len >= 1);
        T_INT(bh_err_code(errors.items[0]), BH_E_POLICY);
        T_STR(bh_err_file(errors.items[0]), file);
        if (bh_err_line(errors.items[0]) != rows[i].line || bh_err_column(errors.items[0]) != rows[i].column ||
            !strstr(bh_err_message(errors.items[0]), rows[i].part))
            fail_msg("%s gave %d:%d: %s", rows[i].text, bh_err_line(errors.items[0]), bh_err_column(errors.items[0]),
                     bh_err_message(errors.items[0]));
        T_TRUE(site.best_effort); /* untouched */
        bh_errlist_fini(&errors);
    }
}

static void refuse(const char *part)
{
    struct bh_site site;
    struct bh_errlist errors = {0};
    T_INT(bh_site_read(file, true, &site, &errors), -BH_E_POLICY);
    T_INT(errors.len, 1);
    if (!strstr(bh_err_message(errors.items[0]), part))
        fail_msg("%s", bh_err_message(errors.items[0]));
    bh_errlist_fini(&errors);
}

static void whose_word_is_taken(void **state)
{
    (void)state;
    write_site("limits: best-effort\n", 0664);
    refuse("can be written by others");
    write_site("limits: best-effort\n", 0646);
    refuse("can be written by others");
    T_INT(unlink(file), 0);
    refuse("No such file");
    T_INT(mkdir(file, 0755), 0);
    refuse("is no regular file");
    T_INT(rmdir(file), 0);
    T_INT(mkfifo(file, 0644), 0);
    refuse("is no regular file");
}

static void another_user_is_not_believed(void **state)
{
    (void)state;
    if (geteuid() != 0)
        t_skip("root", "only root can make a file of another user");
    write_site("limits: best-effort\n", 0644);
    T_INT(chown(file, 4711, 4711), 0);
    refuse("belongs to user 4711");
    T_INT(chown(file, 65534, 65534), 0);
    refuse("belongs to user 65534");
}

static void too_large(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *text = bh_alloc(70000);
    memset(text, '#', 69999);
    text[69999] = '\0';
    write_site(text, 0644);
    refuse("larger than 64 KiB");
}

static void the_environment_names_it(void **state)
{
    struct bh_policy policy = {0};
    struct bh_site site;
    struct bh_errlist errors = {0};
    (void)state;
    write_site("limits: best-effort\n", 0600);
    T_INT(setenv("BULKHEAD_SITE", file, 1), 0);
    T_INT(bh_policy_load(NULL, &policy, &errors), 0);
    T_TRUE(policy.n >= 1 && policy.sites[policy.n - 1].best_effort);
    T_STR(policy.sites[policy.n - 1].file, file);
    bh_policy_fini(&policy);
    T_INT(unlink(file), 0);
    T_INT(bh_policy_load(NULL, &policy, &errors), -BH_E_POLICY);
    bh_errlist_fini(&errors);
    T_INT(unsetenv("BULKHEAD_SITE"), 0);
    T_INT(bh_policy_load(file, &policy, &errors), -BH_E_POLICY); /* who names one means it */
    bh_errlist_fini(&errors);
    /* a site that is not there, and need not be */
    T_INT(bh_site_read(file, false, &site, &errors), 0);
    T_TRUE(!site.best_effort && !site.file);
    bh_site_fini(&site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_it_says, setup, teardown),
        cmocka_unit_test_setup_teardown(what_it_allows_on_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(whose_word_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(another_user_is_not_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(too_large, setup, teardown),
        cmocka_unit_test_setup_teardown(the_environment_names_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
