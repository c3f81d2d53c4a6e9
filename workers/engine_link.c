/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line to the engine.
 *
 *   DOWN --say_hello--> GREETING --on_welcome--> UP --go_down (a call without an answer, or refused)--> DOWN
 *                          \--go_down--> DOWN
 *
 * In DOWN a timer runs that says hello again; it waits longer each time, until some other call is answered. Only in UP
 * are calls sent. Calls that were sent before the line was lost still end one by one.
 */
#include "workers/engine_link.h"

#include <event2/event.h>

#include "artifact-bus/transport.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/val.h"

#define HELLO_TIMEOUT_NS (5 * BH_NS_PER_S)
#define WAIT_FIRST_MS 20
#define WAIT_MOST_MS 2000

struct call {
    struct bh_list link;
    uint64_t id;
    bh_answer_fn fn;
    void *arg;
};

struct bh_engine_link {
    enum { DOWN, GREETING, UP } state;
    struct bh_bus_client *client;
    struct event *readable, *timer;
    char *token;
    int slots;
    void (*up)(void *arg);
    void *arg;
    struct bh_list calls;
    uint64_t last_id;
    long wait_ms;
};

static void arm_timer(struct bh_engine_link *link, long ms)
{
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    (void)event_add(link->timer, &tv);
}

static void go_down(struct bh_engine_link *link)
{
    if (link->state == DOWN)
        return;
    link->state = DOWN;
    arm_timer(link, link->wait_ms);
    link->wait_ms = link->wait_ms * 2 < WAIT_MOST_MS ? link->wait_ms * 2 : WAIT_MOST_MS;
}

static bool send_call(struct bh_engine_link *link, struct bh_val *body, int64_t timeout_ns, bh_answer_fn fn, void *arg)
{
    struct call *call = bh_alloc(sizeof(*call));
    *call = (struct call){.id = ++link->last_id, .fn = fn, .arg = arg};
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (bh_bus_call(link->client, call->id, body, timeout_ns, &err) != 0) {
        bh_log(BH_LOG_DEBUG, "worker.send", "error", bh_err_message(err), NULL);
        bh_free(call);
        return false;
    }
    bh_list_append(&link->calls, &call->link);
    return true;
}

static void on_welcome(void *arg, const struct bh_val *answer)
{
    struct bh_engine_link *link = arg;
    if (!answer || link->state != GREETING)
        return;
    link->state = UP;
    link->up(link->arg);
}

static void say_hello(evutil_socket_t fd, short what, void *arg)
{
    struct bh_engine_link *link = arg;
    struct bh_val *body = bh_val_map();
    (void)fd;
    (void)what;
    bh_val_set_str(body, "kind", "hello");
    bh_val_set_str(body, "token", link->token);
    bh_val_set_int(body, "slots", link->slots);
    bh_val_set_int(body, "epoch", 0);
    link->state = GREETING;
    if (!send_call(link, body, HELLO_TIMEOUT_NS, on_welcome, link))
        go_down(link);
}

/* The engine does not know us (any more). With an "ok" beside it an error is about the one message only. */
static bool is_refusal(const struct bh_val *answer)
{
    const char *text = bh_val_str_of(answer, "error");
    if (text)
        bh_log(BH_LOG_WARN, "worker.refused", "error", text, NULL);
    return text && !bh_val_get(answer, "ok");
}

static struct call *take_call(struct bh_engine_link *link, uint64_t id)
{
    BH_LIST_FOREACH (it, tmp, &link->calls) {
        struct call *call = BH_CONTAINER(it, struct call, link);
        if (call->id != id)
            continue;
        bh_list_remove(&call->link);
        return call;
    }
    return NULL;
}

static void on_answer(struct bh_engine_link *link, const struct bh_bus_answer *answer)
{
    struct call *call = take_call(link, answer->id);
    if (!call)
        return;
    bool good = answer->code == 0 && !is_refusal(answer->body);
    if (!good)
        go_down(link);
    else if (call->fn != on_welcome)
        link->wait_ms = WAIT_FIRST_MS;
    call->fn(call->arg, good ? answer->body : NULL);
    bh_free(call);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct bh_engine_link *link = arg;
    struct bh_bus_answer answer;
    (void)fd;
    (void)what;
    while (bh_bus_client_next(link->client, &answer)) {
        on_answer(link, &answer);
        bh_val_free(answer.body);
    }
}

int bh_engine_link_new(struct event_base *loop, const struct bh_engine_link_options *options,
                       struct bh_engine_link **ret, struct bh_err **err)
{
    struct bh_engine_link *link = bh_alloc(sizeof(*link));
    link->token = bh_strdup(options->token);
    link->slots = options->slots;
    link->up = options->up;
    link->arg = options->arg;
    link->wait_ms = WAIT_FIRST_MS;
    bh_list_init(&link->calls);
    int rc = bh_bus_client_new(options->url, &link->client, err);
    if (rc != 0) {
        bh_engine_link_free(link);
        return bh_err_wrap(err, rc, "reaching the engine at '%s'", options->url);
    }
    link->timer = evtimer_new(loop, say_hello, link);
    link->readable = event_new(loop, bh_bus_client_fd(link->client), EV_READ | EV_PERSIST, on_readable, link);
    if (!link->timer || !link->readable || event_add(link->readable, NULL) < 0) {
        bh_engine_link_free(link);
        return bh_err_set(err, BH_E_HOST, 0, "the event loop takes no more descriptors");
    }
    arm_timer(link, 0);
    *ret = link;
    return 0;
}

bool bh_engine_link_call(struct bh_engine_link *link, struct bh_val *body, int64_t timeout_ns, bh_answer_fn fn,
                         void *arg)
{
    if (link->state != UP) {
        bh_val_free(body);
        return false;
    }
    if (send_call(link, body, timeout_ns, fn, arg))
        return true;
    go_down(link);
    return false;
}

bool bh_engine_link_is_up(const struct bh_engine_link *link)
{
    return link->state == UP;
}

void bh_engine_link_free(struct bh_engine_link *link)
{
    if (!link)
        return;
    if (link->readable)
        event_free(link->readable);
    if (link->timer)
        event_free(link->timer);
    if (link->client)
        bh_bus_client_free(link->client);
    BH_LIST_FOREACH (it, tmp, &link->calls) {
        bh_free(BH_CONTAINER(it, struct call, link));
    }
    bh_free(link->token);
    bh_free(link);
}
