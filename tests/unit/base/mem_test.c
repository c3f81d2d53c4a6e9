/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/t.h"

static void test_allocations_are_zeroed(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *p = bh_alloc(1000);
    for (int i = 0; i < 1000; i++)
        T_INT(p[i], 0);
    BH_CLEANUP_FREE int *q = bh_calloc(10, sizeof(int));
    T_INT(q[9], 0);
    BH_CLEANUP_FREE void *none = bh_alloc(0);
    BH_CLEANUP_FREE void *other = bh_alloc(0);
    assert_non_null(none);
    assert_ptr_not_equal(none, other);
}

static void test_copies(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *dup = bh_strdup("text");
    BH_CLEANUP_FREE char *part = bh_strndup("text", 2);
    BH_CLEANUP_FREE char *longer = bh_strndup("text", 100);
    BH_CLEANUP_FREE char *printed = bh_asprintf("%s-%d", "n", 5);
    BH_CLEANUP_FREE char *bytes = bh_memdup("a\0b", 3);
    T_STR(dup, "text");
    T_STR(part, "te");
    T_STR(longer, "text");
    T_STR(printed, "n-5");
    assert_memory_equal(bytes, "a\0b", 3);
    assert_null(bh_strdup(NULL));
}

static void test_free_keeps_errno(void **state)
{
    (void)state;
    errno = EXDEV;
    bh_free(bh_alloc(1));
    bh_free(NULL);
    T_INT(errno, EXDEV);
}

static void test_push(void **state)
{
    (void)state;
    struct item {
        int a, b;
    } *items = NULL;
    size_t len = 0, cap = 0;
    for (int i = 0; i < 1000; i++) {
        struct item *it = BH_PUSH(items, len, cap);
        T_INT(it->a, 0);
        T_INT(it->b, 0);
        *it = (struct item){i, -i};
    }
    T_INT(len, 1000);
    assert_true(cap >= len);
    for (int i = 0; i < 1000; i++)
        T_INT(items[i].a + items[i].b, 0);
    bh_free(items);
}

static void test_take(void **state)
{
    (void)state;
    char *p = bh_strdup("x");
    char *q = BH_TAKE(p);
    assert_null(p);
    T_STR(q, "x");
    bh_free(q);
    int fd = 7, other = BH_TAKE_FD(fd);
    T_INT(fd, -1);
    T_INT(other, 7);
}

static void test_try_alloc_fails_on_demand(void **state)
{
    (void)state;
    bh_mem_fail_nth(2);
    BH_CLEANUP_FREE void *first = bh_try_alloc(10);
    BH_CLEANUP_FREE void *second = bh_try_alloc(10);
    BH_CLEANUP_FREE void *third = bh_try_alloc(10);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    bh_mem_fail_nth(1);
    bh_mem_fail_nth(0);
    BH_CLEANUP_FREE void *fourth = bh_try_alloc(0);
    assert_non_null(fourth);
}

static void test_arena(void **state)
{
    (void)state;
    struct bh_arena *arena = bh_arena_new();
    char *texts[500];
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        char *p = bh_arena_alloc(arena, i);
        T_INT((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < i; k++)
            T_INT(p[k], 0);
        memset(p, 0xff, i);
        texts[i] = bh_arena_printf(arena, "number %zu", i);
    }
    char *large = bh_arena_alloc(arena, 1000000);
    memset(large, 0xff, 1000000);
    T_STR(bh_arena_strdup(arena, "after"), "after");
    T_STR(bh_arena_strndup(arena, "after", 2), "af");
    assert_null(bh_arena_strdup(arena, NULL));
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        char want[32];
        (void)snprintf(want, sizeof(want), "number %zu", i);
        T_STR(texts[i], want);
    }
    bh_arena_free(arena);
    bh_arena_free(NULL);
}

static void test_arena_push(void **state)
{
    (void)state;
    struct bh_arena *arena = bh_arena_new();
    int *numbers = NULL;
    size_t len = 0, cap = 0;
    for (int i = 0; i < 1000; i++) {
        int *slot = BH_ARENA_PUSH(arena, numbers, len, cap);
        T_INT(*slot, 0);
        *slot = i;
    }
    T_INT(len, 1000);
    for (int i = 0; i < 1000; i++)
        T_INT(numbers[i], i);
    bh_arena_free(arena);
}

static void overflow(void)
{
    bh_free(bh_calloc(SIZE_MAX / 2, 3));
}

static void overflow_realloc(void)
{
    bh_free(bh_realloc_array(NULL, SIZE_MAX, 2));
}

static void overflow_arena(void)
{
    struct bh_arena *arena = bh_arena_new();
    (void)bh_arena_alloc(arena, SIZE_MAX - 4);
}

static void broken_assertion(void)
{
    BH_ASSERT(1 + 1 == 3);
}

/* Runs `act` in a child, which must abort after it said `want` in one line. */
static void check_dies(void (*act)(void), const char *want)
{
    int out[2];
    char text[512] = "";
    T_INT(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(out[1], STDERR_FILENO);
        act();
        _exit(0);
    }
    close(out[1]);
    size_t have = 0;
    for (ssize_t n; have < sizeof(text) - 1 && (n = read(out[0], text + have, sizeof(text) - 1 - have)) > 0;)
        have += (size_t)n;
    close(out[0]);
    int status;
    T_INT(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFSIGNALED(status));
    T_INT(WTERMSIG(status), SIGABRT);
    if (!strstr(text, want) || strchr(text, '\n') != text + strlen(text) - 1)
        fail_msg("it said '%s'", text);
}

static void test_what_cannot_be_had_aborts(void **state)
{
    (void)state;
    check_dies(overflow, "bulkhead: out of memory");
    check_dies(overflow_realloc, "bulkhead: out of memory");
    check_dies(overflow_arena, "bulkhead: out of memory");
}

static void test_assertion_aborts(void **state)
{
    (void)state;
    check_dies(broken_assertion, "bulkhead: assertion failed: 1 + 1 == 3 (");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_are_zeroed),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_free_keeps_errno),
        cmocka_unit_test(test_push),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_try_alloc_fails_on_demand),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_push),
        cmocka_unit_test(test_what_cannot_be_had_aborts),
        cmocka_unit_test(test_assertion_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
