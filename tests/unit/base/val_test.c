/* SPDX-License-Identifier: Apache-2.0 */
#include "base/val.h"

#include <math.h>

#include "tests/support/t.h"

static void test_scalars(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
    struct bh_val *b = bh_val_add(list, bh_val_bool(true));
    struct bh_val *i = bh_val_add(list, bh_val_int(INT64_MIN));
    struct bh_val *d = bh_val_add(list, bh_val_num(-2.75));
    struct bh_val *s = bh_val_add(list, bh_val_strn("a\0b", 3));
    struct bh_val *n = bh_val_add(list, bh_val_str(NULL));
    T_TRUE(bh_val_get_bool(b));
    T_INT(bh_val_get_int(i), INT64_MIN);
    assert_true(bh_val_get_num(i) < -9e18);
    T_INT(bh_val_get_int(d), -2);
    assert_true(fabs(bh_val_get_num(d) + 2.75) < 1e-15);
    T_INT(bh_val_str_len(s), 3);
    assert_memory_equal(bh_val_get_str(s), "a\0b", 4);
    T_INT(bh_val_type(n), BH_VAL_NULL);
    T_INT(bh_val_len(list), 5);
    assert_ptr_equal(bh_val_at(list, 2), d);
    assert_null(bh_val_at(list, 5));
}

/* Every getter on every type and on NULL: the empty answer, never a crash. */
static void test_getters_never_fail(void **state)
{
    (void)state;
    struct bh_val *all[] = {NULL,          bh_val_null(),  bh_val_bool(false), bh_val_int(0),
                            bh_val_num(0), bh_val_str(""), bh_val_list(),      bh_val_map()};
    for (size_t k = 0; k < BH_ARRAY_LEN(all); k++) {
        const struct bh_val *v = all[k];
        T_INT(bh_val_type(v), k ? k - 1 : BH_VAL_NULL);
        assert_false(bh_val_get_bool(v));
        T_INT(bh_val_get_int(v), 0);
        assert_false(bh_val_get_num(v) < 0 || bh_val_get_num(v) > 0);
        T_INT(bh_val_get_str(v) != NULL, bh_val_type(v) == BH_VAL_STR);
        T_INT(bh_val_str_len(v), 0);
        T_INT(bh_val_len(v), 0);
        assert_null(bh_val_at(v, 0));
        assert_null(bh_val_key_at(v, 0));
        assert_null(bh_val_get(v, "x"));
        assert_null(bh_val_str_of(v, "x"));
        T_INT(bh_val_int_of(v, "x"), 0);
        assert_false(bh_val_bool_of(v, "x"));
    }
    for (size_t k = 0; k < BH_ARRAY_LEN(all); k++)
        bh_val_free(all[k]);
}

static void test_truncation(void **state)
{
    (void)state;
    static const struct {
        double d;
        int64_t want;
    } samples[] = {
        {1e300, INT64_MAX},
        {-1e300, INT64_MIN},
        {9223372036854775808.0, INT64_MAX},
        {-9223372036854775808.0, INT64_MIN},
        {(double)NAN, 0},
        {(double)INFINITY, INT64_MAX},
        {-(double)INFINITY, INT64_MIN},
        {2.9, 2},
        {-0.5, 0},
    };
    for (size_t k = 0; k < BH_ARRAY_LEN(samples); k++) {
        BH_CLEANUP_VAL struct bh_val *v = bh_val_num(samples[k].d);
        T_INT(bh_val_get_int(v), samples[k].want);
    }
}

static void test_maps(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *map = bh_val_map();
    bh_val_set_str(map, "z", "last letter");
    bh_val_set_int(map, "a", 5);
    bh_val_set_bool(map, "m", true);
    bh_val_set_str(map, "none", NULL);
    bh_val_set(map, "null", NULL);
    bh_val_set_int(map, "z", 26); /* replaces in its place */
    T_INT(bh_val_len(map), 5);
    T_STR(bh_val_key_at(map, 0), "z");
    T_STR(bh_val_key_at(map, 1), "a");
    T_STR(bh_val_key_at(map, 4), "null");
    assert_null(bh_val_key_at(map, 5));
    T_INT(bh_val_get_int(bh_val_at(map, 0)), 26);
    T_INT(bh_val_int_of(map, "a"), 5);
    T_TRUE(bh_val_bool_of(map, "m"));
    assert_null(bh_val_str_of(map, "a"));
    assert_non_null(bh_val_get(map, "none"));
    T_INT(bh_val_type(bh_val_get(map, "null")), BH_VAL_NULL);
    struct bh_val *inner = bh_val_set(map, "inner", bh_val_map());
    bh_val_set_int(inner, "deep", 1);
    T_INT(bh_val_int_of(bh_val_get(map, "inner"), "deep"), 1);
}

/* Quadratic code would need minutes for each. */
static void test_large_map(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *map = bh_val_map();
    char key[16];
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i);
        bh_val_set_int(map, key, i);
    }
    T_INT(bh_val_len(map), 100000);
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i);
        T_INT(bh_val_int_of(map, key), i);
        T_STR(bh_val_key_at(map, (size_t)i), key);
    }
    BH_CLEANUP_VAL struct bh_val *copy = bh_val_copy(map);
    T_TRUE(bh_val_equal(map, copy));
}

static void mended_is(const char *in, size_t n, const char *want)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_strn(in, n);
    T_STR(bh_val_get_str(v), want);
    T_INT(bh_val_str_len(v), strlen(want));
}

static void test_text_is_always_utf8(void **state)
{
    (void)state;
    mended_is("gr\xc3\xbcn", 5, "gr\xc3\xbcn");
    mended_is("\xff", 1, "\xef\xbf\xbd");
    mended_is("a\xff"
              "b\xc3",
              4,
              "a\xef\xbf\xbd"
              "b\xef\xbf\xbd");
    mended_is("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    BH_CLEANUP_VAL struct bh_val *map = bh_val_map();
    bh_val_set_int(map, "k\xfe", 1);
    T_STR(bh_val_key_at(map, 0), "k\xef\xbf\xbd");
}

static struct bh_val *sample(void)
{
    struct bh_val *map = bh_val_map();
    struct bh_val *list = bh_val_set(map, "list", bh_val_list());
    bh_val_add(list, bh_val_int(1));
    bh_val_add(list, bh_val_str("two"));
    bh_val_add(list, bh_val_map());
    bh_val_add(list, NULL);
    bh_val_set(map, "num", bh_val_num(0.5));
    bh_val_set_bool(map, "bool", true);
    return map;
}

static void test_copy_and_equal(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *a = sample(), *b = bh_val_copy(a), *c = bh_val_map();
    T_TRUE(bh_val_equal(a, b));
    bh_val_set_bool(c, "bool", true);
    bh_val_set(c, "num", bh_val_num(0.5));
    bh_val_set(c, "list", bh_val_copy(bh_val_get(a, "list")));
    T_TRUE(bh_val_equal(a, c)); /* the order of keys does not count */
    bh_val_add(bh_val_get(b, "list"), bh_val_int(2));
    assert_false(bh_val_equal(a, b));
    bh_val_set_int(c, "more", 1);
    assert_false(bh_val_equal(a, c));
    assert_false(bh_val_equal(c, a));
    T_TRUE(bh_val_equal(NULL, NULL));
    assert_false(bh_val_equal(a, NULL));
}

static void test_equal_is_exact(void **state)
{
    (void)state;
    struct bh_val *all[] = {
        bh_val_null(),   bh_val_bool(false), bh_val_bool(true),      bh_val_int(0),          bh_val_int(1),
        bh_val_num(0.5), bh_val_num(1),      bh_val_str(""),         bh_val_str("a"),        bh_val_strn("a\0", 2),
        bh_val_list(),   bh_val_map(),       bh_val_strn("a\0b", 3), bh_val_strn("a\0c", 3),
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(all); i++) {
        for (size_t j = 0; j < BH_ARRAY_LEN(all); j++)
            T_INT(bh_val_equal(all[i], all[j]), i == j);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(all); i++) {
        BH_CLEANUP_VAL struct bh_val *copy = bh_val_copy(all[i]);
        T_TRUE(bh_val_equal(copy, all[i]));
        bh_val_free(all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),        cmocka_unit_test(test_getters_never_fail),
        cmocka_unit_test(test_truncation),     cmocka_unit_test(test_maps),
        cmocka_unit_test(test_large_map),      cmocka_unit_test(test_text_is_always_utf8),
        cmocka_unit_test(test_copy_and_equal), cmocka_unit_test(test_equal_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
