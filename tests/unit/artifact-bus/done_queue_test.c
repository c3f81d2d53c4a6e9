/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/done_queue_priv.h"

#include <poll.h>

#include "base/mem.h"
#include "tests/support/t.h"

enum { THREADS = 4, EACH = 5000 };

struct item {
    struct bh_done_item done; /* first */
    int from, n;
};

static void init_item(struct item *item)
{
    *item = (struct item){0};
    bh_list_init(&item->done.link);
}

static bool readable(const struct bh_done_queue *q, int timeout_ms)
{
    struct pollfd pfd = {.fd = q->fd, .events = POLLIN};
    return poll(&pfd, 1, timeout_ms) == 1;
}

static void test_readable_exactly_while_not_empty(void **state)
{
    (void)state;
    struct bh_done_queue q;
    struct item items[3];
    T_OK(bh_done_queue_init(&q, &err));
    assert_false(readable(&q, 0));
    assert_null(bh_done_queue_next(&q));
    for (int i = 0; i < 3; i++)
        init_item(&items[i]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            bh_done_queue_push(&q, &items[i].done);
            assert_true(readable(&q, 0));
        }
        for (int i = 0; i < 3; i++) {
            assert_true(readable(&q, 0));
            assert_ptr_equal(bh_done_queue_next(&q), &items[i].done);
        }
        assert_false(readable(&q, 0));
        assert_null(bh_done_queue_next(&q));
    }
    bh_done_queue_fini(&q);
    bh_done_queue_fini(&q);
}

static void test_remove(void **state)
{
    (void)state;
    struct bh_done_queue q;
    struct item items[3];
    T_OK(bh_done_queue_init(&q, &err));
    for (int i = 0; i < 3; i++) {
        init_item(&items[i]);
        bh_done_queue_push(&q, &items[i].done);
    }
    bh_done_queue_remove(&q, &items[1].done);
    bh_done_queue_remove(&q, &items[1].done); /* no longer in it */
    assert_ptr_equal(bh_done_queue_next(&q), &items[0].done);
    assert_true(readable(&q, 0));
    bh_done_queue_remove(&q, &items[2].done);
    assert_false(readable(&q, 0));
    bh_done_queue_push(&q, &items[1].done);
    assert_ptr_equal(bh_done_queue_next(&q), &items[1].done);
    bh_done_queue_fini(&q);
}

static int runs;

static void count_and_free(struct bh_done_item *item)
{
    runs++;
    bh_free(BH_CONTAINER(item, struct item, done));
}

/* Items with a function are run on the way to one without, and may free themselves. */
static void test_items_that_run(void **state)
{
    (void)state;
    struct bh_done_queue q;
    struct item mine;
    T_OK(bh_done_queue_init(&q, &err));
    init_item(&mine);
    for (int i = 0; i < 4; i++) {
        struct item *item = bh_alloc(sizeof(*item));
        init_item(item);
        item->done.run = count_and_free;
        bh_done_queue_push(&q, &item->done);
        if (i == 1)
            bh_done_queue_push(&q, &mine.done);
    }
    assert_ptr_equal(bh_done_queue_next(&q), &mine.done);
    T_INT(runs, 2);
    assert_true(readable(&q, 0));
    assert_null(bh_done_queue_next(&q));
    T_INT(runs, 4);
    assert_false(readable(&q, 0));
    bh_done_queue_fini(&q);
}

struct pusher {
    struct bh_done_queue *q;
    struct item *items;
    int from;
};

static void *push_all(void *arg)
{
    struct pusher *p = arg;
    for (int i = 0; i < EACH; i++) {
        init_item(&p->items[i]);
        p->items[i].from = p->from;
        p->items[i].n = i;
        bh_done_queue_push(p->q, &p->items[i].done);
    }
    return NULL;
}

/* Nothing is lost, nothing overtakes within a thread, and every wait is ended by a wake-up. */
static void test_threads(void **state)
{
    (void)state;
    struct bh_done_queue q;
    struct pusher pushers[THREADS];
    pthread_t threads[THREADS];
    int next[THREADS] = {0};
    T_OK(bh_done_queue_init(&q, &err));
    for (int t = 0; t < THREADS; t++) {
        pushers[t] = (struct pusher){.q = &q, .items = bh_calloc(EACH, sizeof(struct item)), .from = t};
        T_INT(pthread_create(&threads[t], NULL, push_all, &pushers[t]), 0);
    }
    for (int got = 0; got < THREADS * EACH; got++) {
        if (!readable(&q, 20000))
            fail_msg("a wake-up was lost after %d items", got);
        struct bh_done_item *done = bh_done_queue_next(&q);
        assert_non_null(done);
        struct item *item = BH_CONTAINER(done, struct item, done);
        T_INT(item->n, next[item->from]++);
    }
    assert_false(readable(&q, 0));
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        bh_free(pushers[t].items);
    }
    bh_done_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readable_exactly_while_not_empty),
        cmocka_unit_test(test_remove),
        cmocka_unit_test(test_items_that_run),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
