/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper thread. Two lists under one lock: jobs to run and jobs that have run. An eventfd wakes the loop, which
 * takes the whole second list. The thread blocks every signal and knows nothing of what its jobs do.
 */
#include "workers/helper.h"

#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"

struct bh_job {
    struct bh_list link;
    const struct bh_job_ops *ops;
    void *owner; /* NULL: forgotten; the loop's thread alone reads and writes it */
    void *data;
};

struct bh_helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct bh_list queued, finished; /* under the lock */
    bool stopping;                   /* under the lock */
    int wake_fd;
    struct event *wake_event;
};

static struct bh_job *first_of(struct bh_list *list)
{
    struct bh_job *job = BH_CONTAINER(list->next, struct bh_job, link);
    bh_list_remove(&job->link);
    return job;
}

static void *helper_main(void *arg)
{
    struct bh_helper *h = arg;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (bh_list_empty(&h->queued) && !h->stopping)
            pthread_cond_wait(&h->work, &h->lock);
        if (h->stopping)
            break;
        struct bh_job *job = first_of(&h->queued);
        pthread_mutex_unlock(&h->lock);
        job->ops->run(job->data);
        pthread_mutex_lock(&h->lock);
        bool wake = bh_list_empty(&h->finished);
        bh_list_append(&h->finished, &job->link);
        if (wake)
            (void)eventfd_write(h->wake_fd, 1);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void end_job(struct bh_job *job, bool call_owner)
{
    if (job->owner && call_owner)
        job->ops->done(job->owner, job->data);
    job->ops->dispose(job->data);
    bh_free(job);
}

/* Moves all of `from`, which another thread may be adding to, into the empty list `to`. */
static void take_all(struct bh_helper *h, struct bh_list *from, struct bh_list *to)
{
    bh_list_init(to);
    pthread_mutex_lock(&h->lock);
    while (!bh_list_empty(from))
        bh_list_append(to, &first_of(from)->link);
    pthread_mutex_unlock(&h->lock);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct bh_helper *h = arg;
    struct bh_list finished;
    eventfd_t count;
    (void)what;
    (void)eventfd_read(fd, &count);
    take_all(h, &h->finished, &finished);
    while (!bh_list_empty(&finished))
        end_job(first_of(&finished), true);
}

static int start_thread(struct bh_helper *h)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&h->thread, NULL, helper_main, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void free_parts(struct bh_helper *h)
{
    if (h->wake_event)
        event_free(h->wake_event);
    bh_close(h->wake_fd);
    pthread_cond_destroy(&h->work);
    pthread_mutex_destroy(&h->lock);
    bh_free(h);
}

int bh_helper_new(struct event_base *loop, struct bh_helper **ret, struct bh_err **err)
{
    struct bh_helper *h = bh_alloc(sizeof(*h));
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->work, NULL);
    bh_list_init(&h->queued);
    bh_list_init(&h->finished);
    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->wake_fd < 0) {
        int rc = bh_err_set(err, BH_E_IO, errno, "cannot make an eventfd");
        free_parts(h);
        return rc;
    }
    h->wake_event = event_new(loop, h->wake_fd, EV_READ | EV_PERSIST, on_wake, h);
    int failed = h->wake_event && event_add(h->wake_event, NULL) == 0 ? start_thread(h) : ENOMEM;
    if (failed) {
        free_parts(h);
        return bh_err_set(err, BH_E_HOST, failed, "cannot start the helper thread");
    }
    *ret = h;
    return 0;
}

void bh_helper_free(struct bh_helper *h)
{
    struct bh_list left;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    take_all(h, &h->finished, &left);
    while (!bh_list_empty(&left))
        end_job(first_of(&left), false);
    take_all(h, &h->queued, &left);
    while (!bh_list_empty(&left))
        end_job(first_of(&left), false);
    free_parts(h);
}

struct bh_job *bh_helper_submit(struct bh_helper *h, const struct bh_job_ops *ops, void *owner, void *data)
{
    struct bh_job *job = bh_alloc(sizeof(*job));
    *job = (struct bh_job){.ops = ops, .owner = owner, .data = data};
    bh_list_init(&job->link);
    pthread_mutex_lock(&h->lock);
    bh_list_append(&h->queued, &job->link);
    pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->lock);
    return job;
}

void bh_job_forget(struct bh_job *job)
{
    if (job)
        job->owner = NULL;
}
