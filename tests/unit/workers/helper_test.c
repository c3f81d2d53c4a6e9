/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread and the timers: order, forgetting, stopping in the middle. */
#include "workers/helper.h"

#include <event2/event.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "base/mem.h"
#include "tests/support/t.h"
#include "workers/deadline.h"

struct fixture {
    struct event_base *loop;
    struct bh_helper *helper;
    int log[16]; /* what was done, in order: N done, -N disposed of */
    int n;
    sem_t gate, running;
    pthread_t loop_thread;
};

struct work {
    struct fixture *f;
    int number;
    bool gated, ran, elsewhere, signals_blocked;
};

static void run(void *data)
{
    struct work *w = data;
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    w->signals_blocked = sigismember(&set, SIGTERM) && sigismember(&set, SIGINT);
    w->elsewhere = !pthread_equal(pthread_self(), w->f->loop_thread);
    w->ran = true;
    if (w->gated) {
        sem_post(&w->f->running);
        sem_wait(&w->f->gate);
    }
}

static void done(void *owner, void *data)
{
    struct work *w = data;
    assert_ptr_equal(owner, w->f);
    assert_true(w->ran && w->elsewhere && w->signals_blocked);
    assert_true(pthread_equal(pthread_self(), w->f->loop_thread));
    w->f->log[w->f->n++] = w->number;
}

static void dispose(void *data)
{
    struct work *w = data;
    assert_true(pthread_equal(pthread_self(), w->f->loop_thread));
    w->f->log[w->f->n++] = -w->number;
    bh_free(w);
}

static const struct bh_job_ops ops = {run, done, dispose};

static struct bh_job *submit(struct fixture *f, int number, bool gated)
{
    struct work *w = bh_alloc(sizeof(*w));
    *w = (struct work){.f = f, .number = number, .gated = gated};
    return bh_helper_submit(f->helper, &ops, f, w);
}

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->loop = event_base_new();
    f->loop_thread = pthread_self();
    sem_init(&f->gate, 0, 0);
    sem_init(&f->running, 0, 0);
    *state = f;
    return bh_helper_new(f->loop, &f->helper, NULL);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bh_helper_free(f->helper);
    event_base_free(f->loop);
    sem_destroy(&f->gate);
    sem_destroy(&f->running);
    bh_free(f);
    return 0;
}

static void turn_until(struct fixture *f, int n)
{
    while (f->n < n)
        event_base_loop(f->loop, EVLOOP_ONCE);
}

static void test_jobs_are_done_in_order(void **state)
{
    struct fixture *f = *state;
    for (int i = 1; i <= 3; i++)
        submit(f, i, false);
    T_INT(f->n, 0);
    turn_until(f, 6);
    const int want[] = {1, -1, 2, -2, 3, -3};
    assert_memory_equal(f->log, want, sizeof(want));
}

static void test_a_forgotten_job_is_only_disposed_of(void **state)
{
    struct fixture *f = *state;
    struct bh_job *first = submit(f, 1, true);
    struct bh_job *second = submit(f, 2, false);
    submit(f, 3, false);
    sem_wait(&f->running); /* one runs, two wait */
    bh_job_forget(first);
    bh_job_forget(second);
    bh_job_forget(NULL);
    sem_post(&f->gate);
    turn_until(f, 4);
    const int want[] = {-1, -2, 3, -3};
    assert_memory_equal(f->log, want, sizeof(want));
}

static void test_free_waits_for_the_one_that_runs(void **state)
{
    struct fixture *f = *state;
    submit(f, 1, true);
    submit(f, 2, false);
    sem_wait(&f->running);
    sem_post(&f->gate);
    bh_helper_free(BH_TAKE(f->helper));
    T_INT(f->n, 2); /* whether the second came to run or not: no done, and both are disposed of */
    T_INT(f->log[0], -1);
    T_INT(f->log[1], -2);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

static void test_deadlines(void **state)
{
    struct fixture *f = *state;
    int fired = 0;
    struct bh_deadline *d = bh_deadline_new(f->loop, count, &fired);
    bh_deadline_set(d, INT64_MAX); /* never, and no overflow */
    event_base_loop(f->loop, EVLOOP_NONBLOCK);
    T_INT(fired, 0);
    struct bh_mono before = bh_mono_now();
    bh_deadline_set(d, 3 * BH_NS_PER_MS); /* replaces */
    while (fired == 0)
        event_base_loop(f->loop, EVLOOP_ONCE);
    T_TRUE(bh_mono_now().ns - before.ns >= 3 * BH_NS_PER_MS);
    bh_deadline_set(d, -5);
    T_INT(fired, 1); /* not from inside */
    while (fired == 1)
        event_base_loop(f->loop, EVLOOP_ONCE);
    bh_deadline_set(d, 0);
    bh_deadline_clear(d);
    event_base_loop(f->loop, EVLOOP_NONBLOCK);
    T_INT(fired, 2);
    bh_deadline_free(d);
    bh_deadline_free(NULL);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_jobs_are_done_in_order),
        TEST(test_a_forgotten_job_is_only_disposed_of),
        TEST(test_free_waits_for_the_one_that_runs),
        TEST(test_deadlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
