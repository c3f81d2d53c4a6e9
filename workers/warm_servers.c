/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fork servers (warm_servers.h).
 *
 *   READY --nobody holds it for a minute, or it was bad--> STOPPED --its command ended--> GONE
 *     \______________________its command ended_____________________________________________/
 *
 * GONE and held by nobody: its box is dropped. A box that is lost has ended its command before.
 */
#include "workers/warm_servers.h"

#include <event2/event.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#define IDLE_S 60

struct bh_warm_servers {
    struct event_base *loop;
    struct bh_list list;
};

struct bh_warm_server {
    struct bh_list link;
    struct bh_warm_servers *all;
    char *run, *key;
    bool root;
    enum { READY, STOPPED, GONE } state;
    size_t held;
    struct bh_box_handle *box;
    struct bh_command *command;
    struct event *idle;
};

#define SERVER(it) BH_CONTAINER(it, struct bh_warm_server, link)

struct bh_warm_servers *bh_warm_servers_new(struct event_base *loop)
{
    struct bh_warm_servers *s = bh_alloc(sizeof(*s));
    s->loop = loop;
    bh_list_init(&s->list);
    return s;
}

static void free_server(struct bh_warm_server *w)
{
    bh_list_remove(&w->link);
    event_free(w->idle);
    bh_command_free(w->command);
    (void)bh_box_handle_drop(w->box, false, NULL, NULL);
    bh_free(w->run);
    bh_free(w->key);
    bh_free(w);
}

void bh_warm_servers_free(struct bh_warm_servers *s)
{
    if (!s)
        return;
    while (!bh_list_empty(&s->list))
        free_server(SERVER(s->list.next));
    bh_free(s);
}

static void wait_idle(struct bh_warm_server *w)
{
    const struct timeval minute = {IDLE_S, 0};
    if (w->held > 0)
        (void)event_del(w->idle);
    else if (w->state == READY)
        (void)event_add(w->idle, &minute);
    else
        free_server(w);
}

static void stop(struct bh_warm_server *w)
{
    if (w->state == READY) {
        w->state = STOPPED;
        bh_command_stop(w->command);
    }
}

static void on_idle(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    stop(arg);
    wait_idle(arg);
}

static void on_ended(void *arg, const struct bh_command_end *end)
{
    struct bh_warm_server *w = arg;
    (void)end;
    if (w->state == READY)
        bh_log(BH_LOG_WARN, "warm.ended", "run", w->run, "key", w->key, NULL);
    w->state = GONE;
    bh_command_free(BH_TAKE(w->command));
    wait_idle(w);
}

static void on_lost(void *arg)
{
    (void)arg; /* its command has told */
}

static void on_created(void *arg, int code, const struct bh_err *err)
{
    (void)arg;
    (void)code;
    (void)err;
    BH_ASSERT(false); /* it was, long ago */
}

void bh_warm_servers_add(struct bh_warm_servers *s, const char *run, const char *key, bool root,
                         struct bh_box_handle *box, struct bh_command *command)
{
    static const struct bh_box_events events = {on_created, on_lost};
    struct bh_warm_server *w = bh_alloc(sizeof(*w));
    *w = (struct bh_warm_server){
        .all = s, .run = bh_strdup(run), .key = bh_strdup(key), .root = root, .box = box, .command = command};
    bh_list_init(&w->link);
    bh_list_append(&s->list, &w->link);
    w->idle = evtimer_new(s->loop, on_idle, w);
    BH_ASSERT(w->idle);
    bh_box_handle_give(box, &events, w);
    bh_command_give(command, on_ended, w);
    wait_idle(w);
}

struct bh_warm_server *bh_warm_servers_hold(struct bh_warm_servers *s, const char *run, const char *key, bool root)
{
    BH_LIST_FOREACH (it, tmp, &s->list) {
        struct bh_warm_server *w = SERVER(it);
        if (w->state != READY || w->root != root || !bh_streq(w->run, run) || !bh_streq(w->key, key))
            continue;
        w->held++;
        wait_idle(w);
        return w;
    }
    return NULL;
}

struct bh_exec *bh_warm_server_exec(const struct bh_warm_server *w)
{
    return w->state == READY ? bh_command_server(w->command) : NULL;
}

void bh_warm_server_leave(struct bh_warm_server *w, bool bad)
{
    w->held--;
    if (bad)
        stop(w);
    wait_idle(w);
}
