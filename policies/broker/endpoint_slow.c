/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns services whose secrets come from commands, until they are there: a thread makes the service, which nobody else
 * has meanwhile, and an eventfd hands it over. Assumes that a thread touches nothing but its own. Must never hold up
 * the loop, or run a command twice for boxes that open the same service at once.
 */
#include <event2/event.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "policies/broker/endpoint_priv.h"

struct slow {
    struct bh_list link; /* of bh_endpoints.slow */
    struct bh_endpoints *all;
    char *key;
    struct bh_list waiting;
    int done; /* an eventfd */
    struct event *event;
    pthread_t thread;
    /* the thread's, until `done` can be read */
    struct bh_val *msg;
    int give_up, rc;
    struct bh_service *service;
    struct bh_err *err;
};

struct waiting { /* an endpoint that is to be opened */
    struct bh_list link;
    struct bh_val *msg;
    int fd;
};

static void free_waiting(struct waiting *w)
{
    bh_list_remove(&w->link);
    bh_val_free(w->msg);
    bh_close(w->fd);
    bh_free(w);
}

static void free_slow(struct slow *s)
{
    bh_list_remove(&s->link);
    BH_LIST_FOREACH (it, next, &s->waiting)
        free_waiting(BH_CONTAINER(it, struct waiting, link));
    if (s->event)
        event_free(s->event);
    bh_close(s->done);
    bh_service_free(s->service);
    bh_err_free(s->err);
    bh_val_free(s->msg);
    bh_free(s->key);
    bh_free(s);
}

static void *make(void *arg)
{
    struct slow *s = arg;
    s->rc = bh_service_new(s->msg, s->give_up, &s->service, &s->err);
    (void)eventfd_write(s->done, 1);
    return NULL;
}

/* Everybody who waited, in the order in which they came. The service is there as long as one of them has it. */
static void open_all(struct slow *s)
{
    struct bh_endpoints *all = s->all;
    if (s->rc == 0 && !bh_list_empty(&s->waiting))
        bh_endpoint_add_service(all, BH_TAKE(s->service));
    BH_LIST_FOREACH (it, next, &s->waiting) {
        struct waiting *w = BH_CONTAINER(it, struct waiting, link);
        if (s->rc == 0)
            bh_endpoint_open(all, w->msg, &w->fd);
        else
            bh_endpoint_say_failed(all, bh_val_int_of(w->msg, "id"), s->err);
        free_waiting(w);
    }
}

static void on_done(evutil_socket_t fd, short what, void *arg)
{
    struct slow *s = arg;
    (void)fd;
    (void)what;
    (void)pthread_join(s->thread, NULL);
    open_all(s);
    free_slow(s);
}

static struct slow *find(struct bh_endpoints *all, const char *key)
{
    BH_LIST_FOREACH (it, next, &all->slow) {
        struct slow *s = BH_CONTAINER(it, struct slow, link);
        if (bh_streq(s->key, key))
            return s;
    }
    return NULL;
}

static struct slow *start(struct bh_endpoints *all, const char *key, const struct bh_val *msg)
{
    struct slow *s = bh_alloc(sizeof(*s));
    *s = (struct slow){.all = all, .key = bh_strdup(key), .msg = bh_val_copy(msg), .give_up = all->give_up};
    bh_list_init(&s->waiting);
    bh_list_init(&s->link);
    s->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->done >= 0)
        s->event = event_new(all->loop, s->done, EV_READ, on_done, s);
    if (!s->event || event_add(s->event, NULL) < 0 || pthread_create(&s->thread, NULL, make, s) != 0) {
        free_slow(s);
        return NULL;
    }
    bh_list_append(&all->slow, &s->link);
    return s;
}

void bh_endpoint_open_slowly(struct bh_endpoints *all, const struct bh_val *msg, int *fd)
{
    BH_CLEANUP_FREE char *key = bh_service_key(msg);
    struct slow *s = find(all, key);
    if (!s)
        s = start(all, key, msg);
    if (!s) { /* no thread can be had: the loop waits itself */
        bh_endpoint_open(all, msg, fd);
        return;
    }
    struct waiting *w = bh_alloc(sizeof(*w));
    *w = (struct waiting){.msg = bh_val_copy(msg), .fd = BH_TAKE_FD(*fd)};
    bh_list_init(&w->link);
    bh_list_append(&s->waiting, &w->link);
}

bool bh_endpoint_slow_forget(struct bh_endpoints *all, int64_t id)
{
    BH_LIST_FOREACH (it, next, &all->slow) {
        struct slow *s = BH_CONTAINER(it, struct slow, link);
        BH_LIST_FOREACH (at, after, &s->waiting) {
            struct waiting *w = BH_CONTAINER(at, struct waiting, link);
            if (bh_val_int_of(w->msg, "id") != id)
                continue;
            free_waiting(w);
            return true;
        }
    }
    return false;
}

void bh_endpoint_slow_end(struct bh_endpoints *all)
{
    (void)eventfd_write(all->give_up, 1);
    BH_LIST_FOREACH (it, next, &all->slow) {
        struct slow *s = BH_CONTAINER(it, struct slow, link);
        (void)pthread_join(s->thread, NULL);
        free_slow(s);
    }
    bh_close(all->give_up);
}
