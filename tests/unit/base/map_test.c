/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/mem.h"
#include "tests/support/t.h"

static unsigned freed;

static void count_free(void *value)
{
    freed++;
    bh_free(value);
}

static void *number(int n)
{
    return bh_memdup(&n, sizeof(n));
}

static int number_of(const struct bh_map *map, const char *key)
{
    const int *n = bh_map_get(map, key);
    return n ? *n : -1;
}

static void test_put_get_del(void **state)
{
    (void)state;
    BH_CLEANUP_MAP struct bh_map *map = bh_map_new(NULL);
    int one = 1, two = 2;
    T_INT(bh_map_len(map), 0);
    assert_null(bh_map_get(map, "a"));
    T_TRUE(bh_map_put(map, "a", &one));
    T_TRUE(bh_map_put(map, "", &two));
    assert_false(bh_map_put(map, "a", &two));
    assert_ptr_equal(bh_map_get(map, "a"), &two);
    assert_ptr_equal(bh_map_get(map, ""), &two);
    T_INT(bh_map_len(map), 2);
    T_TRUE(bh_map_put(map, "null", NULL));
    T_TRUE(bh_map_has(map, "null"));
    assert_null(bh_map_get(map, "null"));
    T_TRUE(bh_map_del(map, "a"));
    assert_false(bh_map_del(map, "a"));
    assert_false(bh_map_has(map, "a"));
    T_INT(bh_map_len(map), 2);
    bh_map_free(NULL);
    T_INT(bh_map_len(NULL), 0);
    assert_null(bh_map_get(NULL, "a"));
}

static void test_keys_are_copied_and_values_freed(void **state)
{
    (void)state;
    struct bh_map *map = bh_map_new(count_free);
    char key[] = "key";
    freed = 0;
    T_TRUE(bh_map_put(map, key, number(1)));
    key[0] = 'x';
    T_INT(number_of(map, "key"), 1);
    assert_false(bh_map_put(map, "key", number(2)));
    T_INT(freed, 1);
    T_INT(number_of(map, "key"), 2);
    assert_false(bh_map_put(map, "key", bh_map_get(map, "key"))); /* its own value is kept */
    T_INT(freed, 1);
    T_TRUE(bh_map_put(map, "other", number(3)));
    T_TRUE(bh_map_del(map, "key"));
    T_INT(freed, 2);
    bh_map_free(map);
    T_INT(freed, 3);
}

static void test_order_is_that_of_insertion(void **state)
{
    (void)state;
    BH_CLEANUP_MAP struct bh_map *map = bh_map_new(count_free);
    char key[16];
    for (int i = 0; i < 100; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i * 7919 % 100);
        T_TRUE(bh_map_put(map, key, number(i)));
    }
    for (int i = 0; i < 100; i += 3) {
        (void)snprintf(key, sizeof(key), "k%d", i * 7919 % 100);
        T_TRUE(bh_map_del(map, key));
    }
    assert_false(bh_map_put(map, "k19", number(1))); /* 7919 % 100: replaced in its place */
    size_t it = 0;
    const char *got;
    void *value;
    int last = -1, seen = 0;
    while (bh_map_next(map, &it, &got, &value)) {
        int n = *(int *)value;
        assert_true(n > last && n % 3 != 0);
        last = n;
        seen++;
    }
    T_INT(seen, bh_map_len(map));
    assert_false(bh_map_next(map, &it, &got, &value));
    it = 0;
    T_TRUE(bh_map_next(map, &it, NULL, NULL));
    it = 0;
    assert_false(bh_map_next(NULL, &it, NULL, NULL));
}

#define KEYS 64

/* Random operations beside a plain array; every state is compared. */
static void test_against_a_model(void **state)
{
    (void)state;
    BH_CLEANUP_MAP struct bh_map *map = bh_map_new(count_free);
    int model[KEYS], live = 0;
    uint32_t random = 12345;
    for (int i = 0; i < KEYS; i++)
        model[i] = -1;
    for (int step = 0; step < 20000; step++) {
        char key[16];
        random = random * 1664525 + 1013904223;
        int k = (int)(random >> 20) % KEYS;
        (void)snprintf(key, sizeof(key), "key-%d", k);
        if (random >> 31) {
            T_INT(bh_map_put(map, key, number(step)), model[k] < 0);
            live += model[k] < 0;
            model[k] = step;
        } else {
            T_INT(bh_map_del(map, key), model[k] >= 0);
            live -= model[k] >= 0;
            model[k] = -1;
        }
        T_INT(bh_map_len(map), live);
        T_INT(number_of(map, key), model[k]);
    }
    for (int k = 0; k < KEYS; k++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "key-%d", k);
        T_INT(number_of(map, key), model[k]);
    }
}

/* Quadratic code would take minutes for either. */
static void test_many_keys(void **state)
{
    (void)state;
    BH_CLEANUP_MAP struct bh_map *map = bh_map_new(NULL);
    char key[32];
    for (int i = 0; i < 200000; i++) {
        (void)snprintf(key, sizeof(key), "some/longer/key/%d", i);
        T_TRUE(bh_map_put(map, key, map));
    }
    for (int i = 0; i < 200000; i++) {
        (void)snprintf(key, sizeof(key), "some/longer/key/%d", i);
        T_TRUE(bh_map_has(map, key));
    }
    assert_false(bh_map_has(map, "some/longer/key/200000"));
}

static void test_used_as_a_queue(void **state)
{
    (void)state;
    BH_CLEANUP_MAP struct bh_map *map = bh_map_new(NULL);
    char key[32];
    for (int i = 0; i < 200000; i++) {
        (void)snprintf(key, sizeof(key), "%d", i);
        T_TRUE(bh_map_put(map, key, map));
        (void)snprintf(key, sizeof(key), "%d", i - 20);
        T_INT(bh_map_del(map, key), i >= 20);
    }
    T_INT(bh_map_len(map), 20);
    size_t it = 0;
    const char *first;
    T_TRUE(bh_map_next(map, &it, &first, NULL));
    T_STR(first, "199980");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_get_del),
        cmocka_unit_test(test_keys_are_copied_and_values_freed),
        cmocka_unit_test(test_order_is_that_of_insertion),
        cmocka_unit_test(test_against_a_model),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_used_as_a_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
