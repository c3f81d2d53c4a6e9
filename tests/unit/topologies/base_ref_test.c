/* SPDX-License-Identifier: Apache-2.0 */
#include "topologies/base_ref.h"

#include "base/mem.h"
#include "tests/support/t.h"

static void test_good(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum bh_base_kind kind;
        const char *path, *ref;
        bool outside;
    } rows[] = {
        {"host", BH_BASE_HOST, NULL, NULL, false},
        {"dir:root", BH_BASE_DIR, "root", NULL, false},
        {"dir:a:b", BH_BASE_DIR, "a:b", NULL, false},
        {"dir:./a/../b", BH_BASE_DIR, "./a/../b", NULL, false},
        {"dir:..a/b..", BH_BASE_DIR, "..a/b..", NULL, false},
        {"dir:a/../../b", BH_BASE_DIR, "a/../../b", NULL, true},
        {"dir:..", BH_BASE_DIR, "..", NULL, true},
        {"dir:/srv", BH_BASE_DIR, "/srv", NULL, true},
        {"oci:img", BH_BASE_OCI, "img", NULL, false},
        {"oci:img:latest", BH_BASE_OCI, "img", "latest", false},
        {"oci:../img:docker.io/x:1.2", BH_BASE_OCI, "../img", "docker.io/x:1.2", true},
        {"oci-archive:x:1.tar", BH_BASE_ARCHIVE, "x:1.tar", NULL, false},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_base_ref ref;
        assert_null(bh_base_parse(rows[i].text, &ref));
        BH_CLEANUP_FREE char *path = ref.path ? bh_strndup(ref.path, ref.path_len) : NULL;
        T_INT(ref.kind, rows[i].kind);
        T_TRUE((!path && !rows[i].path) || strcmp(path, rows[i].path) == 0);
        T_TRUE((!ref.ref && !rows[i].ref) || strcmp(ref.ref, rows[i].ref) == 0);
        T_INT(ref.outside, rows[i].outside);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const texts[] = {"",     "Host", "hosts",        "ubuntu", "docker:x",
                                        "dir:", "oci:", "oci-archive:", "oci::x", "oci:img:"};
    struct bh_base_ref ref;
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++)
        assert_non_null(bh_base_parse(texts[i], &ref));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
