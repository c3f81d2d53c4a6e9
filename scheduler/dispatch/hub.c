/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bus server, a table of workers, two lanes per worker: `work` and `control`. A lane holds at most one parked
 * request and a queue of bodies; whenever it has both, the oldest body answers the request. A request that found
 * nothing for PARK_S seconds is answered "none" and comes again.
 */
#include "scheduler/dispatch/hub.h"

#include <event2/event.h>

#include "artifact-bus/transport.h"
#include "base/mem.h"
#include "base/text.h"

enum { PARK_S = 20, MAX_WORKERS = 1024, MAX_SLOTS = 100000, REQUESTS_PER_TURN = 256 };

struct lane {
    struct bh_hub *hub;
    struct bh_bus_request *parked;
    struct event *timer; /* of the parked request */
    struct bh_val **queue;
    size_t n_queue, cap_queue;
};

struct hub_worker {
    uint32_t peer;
    struct lane work, control;
};

struct bh_hub {
    struct event_base *loop;
    struct bh_bus_server *server;
    struct event *readable;
    char *token;
    struct bh_hub_owner owner;
    struct hub_worker **workers;
    size_t n_workers, cap_workers;
};

static struct bh_val *kind_only(const char *kind)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "kind", kind);
    return v;
}

static void answer_error(struct bh_bus_request *request, const char *text)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "error", text);
    bh_bus_reply(request, v);
}

/* --- lanes --- */

static void lane_answer(struct lane *lane, struct bh_val *body)
{
    (void)event_del(lane->timer);
    bh_bus_reply(BH_TAKE(lane->parked), body);
}

static void lane_pump(struct lane *lane)
{
    if (!lane->parked || lane->n_queue == 0)
        return;
    struct bh_val *body = lane->queue[0];
    lane->n_queue--;
    memmove(lane->queue, lane->queue + 1, lane->n_queue * sizeof(*lane->queue));
    lane_answer(lane, body);
}

static void on_park_over(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    struct lane *lane = arg;
    if (lane->parked)
        lane_answer(lane, kind_only("none"));
}

static void lane_park(struct lane *lane, struct bh_bus_request *request)
{
    if (lane->parked) /* the worker gave up on the earlier one */
        lane_answer(lane, kind_only("none"));
    lane->parked = request;
    struct timeval park = {.tv_sec = PARK_S};
    (void)event_add(lane->timer, &park);
    lane_pump(lane);
}

static void lane_init(struct lane *lane, struct bh_hub *hub)
{
    lane->hub = hub;
    lane->timer = evtimer_new(hub->loop, on_park_over, lane);
}

static void lane_fini(struct lane *lane)
{
    if (lane->parked)
        bh_bus_request_drop(lane->parked);
    if (lane->timer)
        event_free(lane->timer);
    for (size_t i = 0; i < lane->n_queue; i++)
        bh_val_free(lane->queue[i]);
    bh_free(lane->queue);
}

static void lane_queue(struct lane *lane, struct bh_val *body)
{
    *BH_PUSH(lane->queue, lane->n_queue, lane->cap_queue) = body;
    lane_pump(lane);
}

/* --- workers --- */

static int worker_of_peer(const struct bh_hub *hub, uint32_t peer)
{
    for (size_t i = 0; i < hub->n_workers; i++) {
        if (hub->workers[i]->peer == peer)
            return (int)i;
    }
    return -1;
}

/* Compares without telling by its time how much was right. */
static bool same_token(const char *want, const char *got)
{
    size_t n = strlen(want);
    if (!got || strlen(got) != n)
        return false;
    unsigned differs = 0;
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)want[i] ^ (unsigned char)got[i];
    return differs == 0;
}

static void hello(struct bh_hub *hub, struct bh_bus_request *request)
{
    const struct bh_val *body = bh_bus_request_body(request);
    int64_t slots = bh_val_int_of(body, "slots");
    if (!same_token(hub->token, bh_val_str_of(body, "token"))) {
        answer_error(request, "the token is wrong");
        return;
    }
    if (slots < 1 || slots > MAX_SLOTS || hub->n_workers >= MAX_WORKERS) {
        answer_error(request, "the number of slots or of workers is out of range");
        return;
    }
    struct hub_worker *w = bh_alloc(sizeof(*w));
    w->peer = bh_bus_request_peer(request);
    lane_init(&w->work, hub);
    lane_init(&w->control, hub);
    *BH_PUSH(hub->workers, hub->n_workers, hub->cap_workers) = w;
    int id = (int)hub->n_workers - 1;
    struct bh_val *answer = bh_val_map();
    bh_val_set_bool(answer, "ok", true);
    bh_val_set_int(answer, "worker", id);
    bh_bus_reply(request, answer);
    hub->owner.worker_up(hub->owner.arg, id, (int)slots);
}

static void route(struct bh_hub *hub, struct bh_bus_request *request)
{
    static const char *const for_owner[] = {"state", "done", "frozen", "released"};
    const char *kind = bh_val_str_of(bh_bus_request_body(request), "kind");
    int worker = worker_of_peer(hub, bh_bus_request_peer(request));
    if (bh_streq(kind, "hello")) {
        hello(hub, request);
        return;
    }
    if (worker < 0 || !kind) {
        answer_error(request, "say hello first");
        return;
    }
    if (bh_streq(kind, "work")) {
        lane_park(&hub->workers[worker]->work, request);
        return;
    }
    if (bh_streq(kind, "control")) {
        lane_park(&hub->workers[worker]->control, request);
        return;
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(for_owner); i++) {
        if (bh_streq(kind, for_owner[i])) {
            hub->owner.said(hub->owner.arg, worker, kind, request);
            return;
        }
    }
    answer_error(request, "unknown kind of message");
}

static void on_readable(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    struct bh_hub *hub = arg;
    struct bh_bus_request *request;
    for (int i = 0; i < REQUESTS_PER_TURN && (request = bh_bus_server_next(hub->server)) != NULL; i++)
        route(hub, request);
    hub->owner.turn_over(hub->owner.arg);
}

int bh_hub_new(struct event_base *loop, const char *url, const char *token, struct bh_hub_owner owner,
               struct bh_hub **ret, struct bh_err **err)
{
    struct bh_bus_server *server = NULL;
    int rc = bh_bus_server_new(url, &server, err);
    if (rc != 0)
        return rc;
    struct bh_hub *hub = bh_alloc(sizeof(*hub));
    hub->loop = loop;
    hub->server = server;
    hub->token = bh_strdup(token);
    hub->owner = owner;
    hub->readable = event_new(loop, bh_bus_server_fd(server), EV_READ | EV_PERSIST, on_readable, hub);
    if (!hub->readable || event_add(hub->readable, NULL) != 0) {
        bh_hub_free(hub);
        return bh_err_set(err, BH_E_INTERNAL, 0, "cannot watch the bus");
    }
    *ret = hub;
    return 0;
}

void bh_hub_free(struct bh_hub *hub)
{
    if (!hub)
        return;
    for (size_t i = 0; i < hub->n_workers; i++) {
        lane_fini(&hub->workers[i]->work);
        lane_fini(&hub->workers[i]->control);
        bh_free(hub->workers[i]);
    }
    bh_free(hub->workers);
    if (hub->readable)
        event_free(hub->readable);
    bh_bus_server_free(hub->server);
    bh_free(hub->token);
    bh_free(hub);
}

void bh_hub_send_work(struct bh_hub *hub, int worker, struct bh_val *body)
{
    BH_ASSERT(worker >= 0 && (size_t)worker < hub->n_workers);
    lane_queue(&hub->workers[worker]->work, body);
}

void bh_hub_send_control(struct bh_hub *hub, int worker, struct bh_val *body)
{
    BH_ASSERT(worker >= 0 && (size_t)worker < hub->n_workers);
    lane_queue(&hub->workers[worker]->control, body);
}
