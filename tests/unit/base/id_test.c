/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/map.h"
#include "tests/support/t.h"

#define PER_THREAD 20000
#define THREADS 4

static void test_order_and_uniqueness(void **state)
{
    (void)state;
    struct bh_run_id last = bh_run_id_new();
    for (int i = 0; i < 100000; i++) {
        struct bh_run_id next = bh_run_id_new();
        assert_true(strcmp(last.s, next.s) < 0);
        T_TRUE(bh_run_id_valid(next.s));
        last = next;
    }
}

static void *make_many(void *arg)
{
    struct bh_run_id *ids = arg;
    for (int i = 0; i < PER_THREAD; i++)
        ids[i] = bh_run_id_new();
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static struct bh_run_id ids[THREADS][PER_THREAD];
    pthread_t threads[THREADS];
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    for (int t = 0; t < THREADS; t++)
        T_INT(pthread_create(&threads[t], NULL, make_many, ids[t]), 0);
    for (int t = 0; t < THREADS; t++)
        T_INT(pthread_join(threads[t], NULL), 0);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < PER_THREAD; i++) {
            T_TRUE(bh_map_put(seen, ids[t][i].s, seen));
            assert_true(i == 0 || strcmp(ids[t][i - 1].s, ids[t][i].s) < 0);
        }
    }
}

/* A forked child starts from the state of its parent and must not give the same ids. */
static void test_fork(void **state)
{
    (void)state;
    int ends[2];
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    struct bh_run_id id;
    (void)bh_run_id_new();
    T_INT(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 500; i++) {
            id = bh_run_id_new();
            if (write(ends[1], id.s, sizeof(id.s)) != (ssize_t)sizeof(id.s))
                _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    for (int i = 0; i < 500; i++)
        T_TRUE(bh_map_put(seen, bh_run_id_new().s, seen));
    for (int i = 0; i < 500; i++) {
        T_INT(read(ends[0], id.s, sizeof(id.s)), sizeof(id.s));
        T_TRUE(bh_map_put(seen, id.s, seen));
    }
    close(ends[0]);
    int status;
    T_INT(waitpid(pid, &status, 0), pid);
    T_INT(status, 0);
}

static void test_time_is_in_the_id(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    struct bh_run_id id = bh_run_id_new();
    int64_t ms = 0, now = bh_wall_now().us / 1000;
    for (int i = 0; i < 10; i++)
        ms = ms * 32 + (strchr(alphabet, id.s[i]) - alphabet);
    assert_true(ms <= now + 1000 && ms > now - 60000);
}

static void test_validity(void **state)
{
    (void)state;
    static const char *const good[] = {"00000000000000000000000000", "7zzzzzzzzzzzzzzzzzzzzzzzzz",
                                       "01jdxyq9z3abcdefghjkmnpqrs"};
    static const char *const bad[] = {
        "",
        "0",
        "0000000000000000000000000",   /* 25 */
        "000000000000000000000000000", /* 27 */
        "80000000000000000000000000",  /* more than 128 bits */
        "0000000000000000000000000i",
        "0000000000000000000000000l",
        "0000000000000000000000000o",
        "0000000000000000000000000u",
        "0000000000000000000000000A",
        "0000000000000000000000000/",
        "0000000000000000000000000\n",
        "../../../../../../../etc/x",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++)
        T_TRUE(bh_run_id_valid(good[i]));
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        assert_false(bh_run_id_valid(bad[i]));
}

static void test_instances(void **state)
{
    (void)state;
    struct bh_run_id run = {.s = "01jdxyq9z3abcdefghjkmnpqrs"};
    T_STR(bh_instance_id_make(run, 1).s, "01jdxyq9z3abcdefghjkmnpqrs-000001");
    T_STR(bh_instance_id_make(run, 999999).s, "01jdxyq9z3abcdefghjkmnpqrs-999999");
    T_TRUE(bh_instance_id_valid(bh_instance_id_make(run, 42).s));
    static const char *const bad[] = {
        "",
        "01jdxyq9z3abcdefghjkmnpqrs",
        "01jdxyq9z3abcdefghjkmnpqrs-",
        "01jdxyq9z3abcdefghjkmnpqrs-00001",
        "01jdxyq9z3abcdefghjkmnpqrs-0000001",
        "01jdxyq9z3abcdefghjkmnpqrs-000000",
        "01jdxyq9z3abcdefghjkmnpqrs-00000a",
        "01jdxyq9z3abcdefghjkmnpqrs_000001",
        "01jdxyq9z3abcdefghjkmnpqr-0000001",
        "01jdxyq9z3abcdefghjkmnpqrs--00001",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        assert_false(bh_instance_id_valid(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_uniqueness), cmocka_unit_test(test_threads),  cmocka_unit_test(test_fork),
        cmocka_unit_test(test_time_is_in_the_id),    cmocka_unit_test(test_validity), cmocka_unit_test(test_instances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
