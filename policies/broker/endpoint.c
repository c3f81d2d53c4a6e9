/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what the worker opened: endpoints with their listening sockets, the services and budgets that they share, and
 * what is told of them. Assumes that the worker is ours. Must never hold a connection up for another one.
 */
#include "policies/broker/endpoint.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "policies/broker/control.h"
#include "policies/broker/endpoint_priv.h"
#include "policies/broker/pool.h"

enum {
    ACCEPT_AT_ONCE = 32,
    TEXT_MAX = 1024, /* of what a box wrote, in a message */
    HELD_MS = 100,
    FEED_MS = 10,
};

/* --- what is told --- */

static void set_cut(struct bh_val *msg, const char *key, const char *text)
{
    if (text)
        bh_val_set(msg, key, bh_val_strn(text, strnlen(text, TEXT_MAX)));
}

static struct bh_val *new_message(const struct bh_endpoint_of *e, const char *op)
{
    char time[BH_WALL_TEXT];
    struct bh_val *msg = bh_control_message(op, e->id);
    bh_val_set_str(msg, "time", bh_wall_format(bh_wall_now(), time));
    return msg;
}

static bool is_denial(const char *reason)
{
    static const char *const denials[] = {"not-allowed", "bad-request", "budget", "address", "leak"};
    for (size_t i = 0; i < BH_ARRAY_LEN(denials); i++) {
        if (bh_streq(denials[i], reason))
            return true;
    }
    return false;
}

static void tell(struct bh_endpoint_of *e, struct bh_val *msg)
{
    bh_control_send_for(e->owner->control, msg, &e->waiting);
}

/* A refusal costs a box nothing, so it may not cost others much: beyond a rate they are only counted. */
static bool is_only_counted(struct bh_endpoint_of *e, const char *reason)
{
    struct bh_mono now = bh_mono_now();
    if (!is_denial(reason) || bh_streq(reason, "leak"))
        return false;
    (void)bh_rate_take(&e->refusals, now);
    if (bh_rate_take(&e->told, now))
        return false;
    e->untold++;
    return true;
}

static void tell_sum(struct bh_endpoint_of *e)
{
    if (e->untold == 0)
        return;
    struct bh_val *msg = new_message(e, "call");
    bh_val_set_str(msg, "verdict", "deny");
    bh_val_set_str(msg, "reason", "many");
    bh_val_set_int(msg, "times", e->untold);
    e->untold = 0;
    tell(e, msg);
}

void bh_endpoint_report(struct bh_endpoint_of *e, const struct bh_http_request *req, const struct bh_call *call,
                        const char *path, long status, const char *reason)
{
    if (is_only_counted(e, reason))
        return;
    struct bh_val *msg = new_message(e, "call");
    set_cut(msg, "method", req && req->method ? req->method : "");
    set_cut(msg, "path", path ? path : "");
    bh_val_set_int(msg, "status", status);
    bh_val_set_str(msg, "verdict", is_denial(reason) ? "deny" : "allow");
    bh_val_set_str(msg, "reason", reason ? reason : "");
    bh_val_set_int(msg, "up", call ? call->up : 0);
    bh_val_set_int(msg, "down", call ? call->down : 0);
    bh_val_set_int(msg, "tokens_in", call ? call->tokens_in : 0);
    bh_val_set_int(msg, "tokens_out", call ? call->tokens_out : 0);
    if (call && call->leaked)
        bh_val_set_str(msg, "leaked", call->leaked);
    tell(e, msg);
}

static bool asks_too_much(struct bh_endpoint_of *e)
{
    return e->waiting >= bh_control_share(e->owner->n_endpoints) || !bh_rate_has(&e->refusals, bh_mono_now());
}

static void hold(struct bh_endpoint_of *e)
{
    const struct timeval when = {.tv_usec = HELD_MS * 1000};
    e->held = true;
    (void)event_add(e->later, &when);
}

bool bh_endpoint_is_busy(struct bh_endpoint_of *e)
{
    if (!e->held && asks_too_much(e))
        hold(e);
    return e->held;
}

/* --- budgets --- */

static void tell_budget(struct bh_endpoint_of *e, const char *what)
{
    if (e->budget->told)
        return;
    e->budget->told = true;
    struct bh_val *msg = new_message(e, "budget");
    bh_val_set_str(msg, "what", what);
    bh_control_send(e->owner->control, msg);
}

bool bh_endpoint_spend_request(struct bh_endpoint_of *e)
{
    struct bh_budget *b = e->budget;
    if (b->max_requests > 0 && b->requests >= b->max_requests)
        tell_budget(e, "requests");
    if (b->told)
        return false;
    b->requests++;
    e->requests++;
    return true;
}

void bh_endpoint_spend_tokens(struct bh_endpoint_of *e, int64_t in, int64_t out)
{
    e->tokens_in += in;
    e->tokens_out += out;
    e->budget->tokens += in + out;
    if (e->budget->max_tokens > 0 && e->budget->tokens > e->budget->max_tokens)
        tell_budget(e, "tokens");
}

static struct bh_budget *take_budget(struct bh_endpoints *all, const char *instance, const struct bh_val *limits)
{
    struct bh_budget *b = bh_map_get(all->budgets, instance);
    if (!b) {
        b = bh_alloc(sizeof(*b));
        b->max_requests = bh_val_int_of(limits, "requests");
        b->max_tokens = bh_val_int_of(limits, "tokens");
        bh_list_init(&b->waiting);
        (void)bh_map_put(all->budgets, instance, b);
    }
    b->refs++;
    return b;
}

static void drop_budget(struct bh_endpoints *all, const char *instance, struct bh_budget *b)
{
    if (--b->refs == 0)
        (void)bh_map_del(all->budgets, instance);
}

/* --- services --- */

void bh_endpoint_let_in(struct bh_shared_service *shared)
{
    struct bh_gate *gate = &shared->service->gate;
    struct bh_mono now = bh_mono_now();
    struct bh_gate_call *turn;
    while ((turn = bh_gate_next(gate, now)))
        bh_call_send(BH_CONTAINER(turn, struct bh_call, turn));
    int64_t wait = bh_gate_wait_ns(gate, now);
    if (wait < 0)
        return;
    const struct timeval when = {.tv_sec = wait / BH_NS_PER_S, .tv_usec = wait % BH_NS_PER_S / 1000 + 1};
    (void)event_add(shared->wake, &when);
}

void bh_endpoint_let_in_soon(struct bh_shared_service *shared)
{
    event_active(shared->wake, EV_TIMEOUT, 0);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bh_endpoint_let_in(arg);
}

static void free_shared(void *arg)
{
    struct bh_shared_service *shared = arg;
    event_free(shared->wake);
    bh_service_free(shared->service);
    bh_free(shared);
}

static struct bh_shared_service *find_service(struct bh_endpoints *all, const struct bh_val *msg)
{
    BH_CLEANUP_FREE char *key = bh_service_key(msg);
    return bh_map_get(all->services, key);
}

void bh_endpoint_add_service(struct bh_endpoints *all, struct bh_service *service)
{
    struct bh_shared_service *shared = bh_alloc(sizeof(*shared));
    shared->service = service;
    shared->wake = event_new(all->loop, -1, 0, on_wake, shared);
    BH_ASSERT(shared->wake);
    (void)bh_map_put(all->services, service->key, shared);
}

static int take_service(struct bh_endpoints *all, const struct bh_val *msg, struct bh_shared_service **ret,
                        struct bh_err **err)
{
    struct bh_shared_service *shared = find_service(all, msg);
    if (!shared) {
        struct bh_service *service;
        int rc = bh_service_new(msg, 0, &service, err);
        if (rc < 0)
            return rc;
        bh_endpoint_add_service(all, service);
        shared = find_service(all, msg);
    }
    shared->service->refs++;
    *ret = shared;
    return 0;
}

static void drop_service(struct bh_endpoints *all, struct bh_shared_service *shared)
{
    if (--shared->service->refs > 0)
        return;
    BH_CLEANUP_FREE char *key = bh_strdup(shared->service->key);
    (void)bh_map_del(all->services, key);
}

/* --- what all boxes share --- */

/* When half of all descriptors are used, the other half is for each box alike. */
static bool has_room(const struct bh_endpoint_of *e)
{
    const struct bh_endpoints *all = e->owner;
    if (e->n_conns >= BH_CONNS_MAX || all->n_conns >= all->max_conns)
        return false;
    return all->n_conns < all->max_conns / 2 ||
           e->n_conns < bh_pool_share(all->max_conns / 2, all->n_endpoints, 1, BH_CONNS_MAX);
}

bool bh_endpoint_is_short(const struct bh_endpoint_of *e)
{
    const struct bh_endpoints *all = e->owner;
    return all->bytes >= BH_POOL_BYTES &&
           e->bytes >= bh_pool_share(BH_POOL_BYTES, all->n_endpoints, BH_CONN_IN_MAX, BH_POOL_BYTES);
}

static void feed(struct bh_endpoint_of *e)
{
    if (!e->hungry || bh_endpoint_is_short(e))
        return;
    e->hungry = false;
    BH_LIST_FOREACH (it, next, &e->conns)
        bh_conn_watch(BH_CONTAINER(it, struct bh_conn, link));
}

void bh_endpoint_count_bytes(struct bh_endpoint_of *e, size_t before, size_t now)
{
    const struct timeval soon = {.tv_usec = FEED_MS * 1000};
    e->bytes += now - before;
    e->owner->bytes += now - before;
    if (now < before && e->hungry && !e->held && !bh_endpoint_is_short(e) && !event_pending(e->later, EV_TIMEOUT, NULL))
        (void)event_add(e->later, &soon);
}

/* --- turns --- */

void bh_endpoint_take_turn(struct bh_conn *c)
{
    struct bh_endpoints *all = c->endpoint->owner;
    const struct timeval now = {0};
    bh_list_remove(&c->turn);
    bh_list_append(&all->turns, &c->turn);
    if (!event_pending(all->turn, EV_TIMEOUT, NULL))
        (void)event_add(all->turn, &now);
}

/* Who takes one more meanwhile comes in the next turn of the loop; and any of them may be gone by then. */
static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct bh_endpoints *all = arg;
    struct bh_list these = {all->turns.prev, all->turns.next};
    (void)fd;
    (void)what;
    if (bh_list_empty(&all->turns))
        return;
    these.prev->next = these.next->prev = &these;
    bh_list_init(&all->turns);
    while (!bh_list_empty(&these)) {
        struct bh_conn *c = BH_CONTAINER(these.next, struct bh_conn, turn);
        bh_list_remove(&c->turn);
        bh_conn_turn(c);
    }
}

/* --- listening --- */

static void accept_again(struct bh_endpoint_of *e)
{
    if (!e->full || e->closing || !has_room(e) || bh_endpoint_is_busy(e))
        return;
    e->full = false;
    (void)event_add(e->acceptable, NULL);
}

static void stop_accepting(struct bh_endpoint_of *e)
{
    e->full = true;
    (void)event_del(e->acceptable);
}

static void on_acceptable(evutil_socket_t listener, short what, void *arg)
{
    struct bh_endpoint_of *e = arg;
    (void)what;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        if (!has_room(e) || bh_endpoint_is_busy(e)) {
            stop_accepting(e);
            return;
        }
        if (!bh_rate_take(&e->arrivals, bh_mono_now())) {
            stop_accepting(e);
            hold(e);
            return;
        }
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
            return;
        if (fd < 0) { /* no descriptors, no memory: the sweep tries again */
            stop_accepting(e);
            return;
        }
        bh_conn_new(e, fd);
    }
}

static void let_go_on(struct bh_endpoint_of *e)
{
    if (asks_too_much(e)) {
        hold(e);
        return;
    }
    e->held = false;
    (void)event_del(e->later);
    BH_LIST_FOREACH (it, next, &e->conns)
        bh_conn_wake(BH_CONTAINER(it, struct bh_conn, link));
    accept_again(e);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct bh_endpoint_of *e = arg;
    (void)fd;
    (void)what;
    feed(e);
    if (e->held)
        let_go_on(e);
}

void bh_endpoint_conn_gone(struct bh_endpoint_of *e)
{
    e->n_conns--;
    e->owner->n_conns--;
    if (!e->closing)
        accept_again(e);
}

/* Those that still wait go first, so that none of them gets its turn from one that is ended. */
static void close_conns(struct bh_endpoint_of *e)
{
    e->closing = true;
    stop_accepting(e);
    bh_close(BH_TAKE_FD(e->listener));
    BH_LIST_FOREACH (it, next, &e->conns) {
        struct bh_conn *c = BH_CONTAINER(it, struct bh_conn, link);
        if (c->call && c->call->turn.place == BH_GATE_WAITS)
            bh_conn_close(c);
    }
    BH_LIST_FOREACH (it, next, &e->conns)
        bh_conn_close(BH_CONTAINER(it, struct bh_conn, link));
    bh_call_read_no_more(e);
}

static void free_endpoint(struct bh_endpoint_of *e)
{
    close_conns(e);
    event_free(e->acceptable);
    event_free(e->later);
    bh_control_forget(e->owner->control, &e->waiting);
    bh_list_remove(&e->link);
    e->owner->n_endpoints--;
    drop_service(e->owner, e->shared);
    drop_budget(e->owner, e->instance, e->budget);
    bh_free(e->instance);
    bh_free(e);
}

/* --- messages --- */

static int64_t or_else(int64_t n, int64_t otherwise)
{
    return n > 0 ? n : otherwise;
}

static int open_endpoint(struct bh_endpoints *all, const struct bh_val *msg, int *fd, struct bh_err **err)
{
    const struct bh_val *limits = bh_val_get(msg, "limits");
    const char *instance = bh_val_str_of(msg, "instance");
    struct bh_shared_service *shared;
    if (*fd < 0 || bh_fd_set_nonblock(*fd, true) < 0)
        return bh_err_set(err, BH_E_PROTOCOL, 0, "an endpoint came without a socket to listen on");
    int rc = take_service(all, msg, &shared, err);
    if (rc < 0)
        return rc;
    struct bh_endpoint_of *e = bh_alloc(sizeof(*e));
    *e = (struct bh_endpoint_of){.owner = all,
                                 .id = bh_val_int_of(msg, "id"),
                                 .instance = bh_strdup(instance ? instance : ""),
                                 .shared = shared,
                                 .listener = BH_TAKE_FD(*fd),
                                 .idle_s = or_else(bh_val_int_of(limits, "idle_s"), BH_IDLE_S),
                                 .total_s = or_else(bh_val_int_of(limits, "total_s"), BH_TOTAL_S)};
    e->budget = take_budget(all, e->instance, limits);
    bh_gate_box_init(&e->turn);
    bh_list_init(&e->conns);
    bh_list_init(&e->read_on);
    bh_list_init(&e->link);
    bh_list_append(&all->endpoints, &e->link);
    all->n_endpoints++;
    struct bh_mono now = bh_mono_now();
    bh_rate_init(&e->refusals, or_else(bh_val_int_of(limits, "refusals"), BH_REFUSALS), now);
    bh_rate_init(&e->told, BH_TOLD, now);
    bh_rate_init(&e->arrivals, BH_ARRIVALS, now);
    e->later = evtimer_new(all->loop, on_later, e);
    e->acceptable = event_new(all->loop, e->listener, EV_READ | EV_PERSIST, on_acceptable, e);
    BH_ASSERT(e->acceptable && e->later);
    (void)event_add(e->acceptable, NULL);
    return 0;
}

void bh_endpoint_say_failed(struct bh_endpoints *all, int64_t id, const struct bh_err *err)
{
    struct bh_val *failed = bh_control_message("failed", id);
    set_cut(failed, "message", bh_err_message(err));
    set_cut(failed, "hint", bh_err_get_hint(err));
    bh_control_send(all->control, failed);
}

void bh_endpoint_open(struct bh_endpoints *all, const struct bh_val *msg, int *fd)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int64_t id = bh_val_int_of(msg, "id");
    if (open_endpoint(all, msg, fd, &err) == 0)
        bh_control_send(all->control, bh_control_message("ready", id));
    else
        bh_endpoint_say_failed(all, id, err);
}

static void on_open(struct bh_endpoints *all, const struct bh_val *msg, int *fd)
{
    if (!find_service(all, msg) && bh_service_is_slow(msg))
        bh_endpoint_open_slowly(all, msg, fd);
    else
        bh_endpoint_open(all, msg, fd);
}

static void say_closed(struct bh_endpoints *all, int64_t id, const struct bh_endpoint_of *e)
{
    struct bh_val *closed = bh_control_message("closed", id);
    bh_val_set_int(closed, "requests", e ? e->requests : 0);
    bh_val_set_int(closed, "tokens_in", e ? e->tokens_in : 0);
    bh_val_set_int(closed, "tokens_out", e ? e->tokens_out : 0);
    bh_control_send(all->control, closed);
}

static void on_close(struct bh_endpoints *all, const struct bh_val *msg, int *fd)
{
    int64_t id = bh_val_int_of(msg, "id");
    (void)fd;
    BH_LIST_FOREACH (it, next, &all->endpoints) {
        struct bh_endpoint_of *e = BH_CONTAINER(it, struct bh_endpoint_of, link);
        if (e->id != id)
            continue;
        close_conns(e); /* what is told of them comes first */
        tell_sum(e);
        say_closed(all, id, e);
        free_endpoint(e);
        return;
    }
    if (bh_endpoint_slow_forget(all, id))
        say_closed(all, id, NULL);
}

static void on_message(void *arg, const char *op, const struct bh_val *msg, int *fd)
{
    static const struct {
        const char *op;
        void (*fn)(struct bh_endpoints *all, const struct bh_val *msg, int *fd);
    } table[] = {{"open", on_open}, {"close", on_close}};
    for (size_t i = 0; i < BH_ARRAY_LEN(table); i++) {
        if (bh_streq(table[i].op, op)) {
            table[i].fn(arg, msg, fd);
            return;
        }
    }
    bh_log(BH_LOG_ERROR, "endpoints.control", "op", op, NULL);
}

static void on_sent(void *arg)
{
    struct bh_endpoints *all = arg;
    BH_LIST_FOREACH (it, next, &all->endpoints) {
        struct bh_endpoint_of *e = BH_CONTAINER(it, struct bh_endpoint_of, link);
        if (e->held && !asks_too_much(e) && bh_rate_has(&e->arrivals, bh_mono_now()))
            let_go_on(e);
    }
}

/* --- deadlines --- */

static void look_at(struct bh_conn *c, struct bh_mono now)
{
    if (bh_conn_is_late(c, now))
        bh_conn_close(c);
    else if (c->call && bh_call_is_late(c->call, now))
        bh_call_time_out(c->call);
    else if (c->call && bh_call_is_in_the_way(c->call, now))
        bh_call_give_up(c->call);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct bh_endpoints *all = arg;
    struct bh_mono now = bh_mono_now();
    (void)fd;
    (void)what;
    BH_LIST_FOREACH (it, next, &all->endpoints) {
        struct bh_endpoint_of *e = BH_CONTAINER(it, struct bh_endpoint_of, link);
        BH_LIST_FOREACH (at, after, &e->conns)
            look_at(BH_CONTAINER(at, struct bh_conn, link), now);
        tell_sum(e);
        feed(e);
        accept_again(e);
    }
}

/* --- the process --- */

static const struct bh_control_ops control_ops = {.on_message = on_message, .on_sent = on_sent};

static int serve(struct bh_endpoints *all, int control_fd, struct bh_err **err)
{
    const struct timeval second = {.tv_sec = 1};
    int rc = bh_control_new(all->loop, control_fd, &control_ops, all, &all->control, err);
    if (rc == 0)
        rc = bh_transfers_new(all->loop, &all->transfers, err);
    if (rc < 0)
        return rc;
    all->sweep = event_new(all->loop, -1, EV_PERSIST, on_sweep, all);
    all->turn = evtimer_new(all->loop, on_turn, all);
    BH_ASSERT(all->sweep && all->turn);
    (void)event_add(all->sweep, &second);
    (void)event_base_dispatch(all->loop);
    return 0;
}

static void end(struct bh_endpoints *all)
{
    bh_endpoint_slow_end(all);
    BH_LIST_FOREACH (it, next, &all->endpoints)
        free_endpoint(BH_CONTAINER(it, struct bh_endpoint_of, link));
    bh_transfers_free(all->transfers);
    if (all->sweep)
        event_free(all->sweep);
    if (all->turn)
        event_free(all->turn);
    bh_control_free(all->control);
    bh_map_free(all->services);
    bh_map_free(all->budgets);
    event_base_free(all->loop);
}

int bh_endpoints_main(int control_fd)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    struct bh_endpoints all = {.loop = event_base_new()};
    if (!all.loop) {
        bh_close(control_fd);
        return 1;
    }
    bh_list_init(&all.endpoints);
    bh_list_init(&all.slow);
    bh_list_init(&all.turns);
    all.max_conns = bh_pool_conns();
    all.give_up = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    all.services = bh_map_new(free_shared);
    all.budgets = bh_map_new(bh_free);
    int rc = serve(&all, control_fd, &err);
    if (rc < 0)
        bh_log(BH_LOG_ERROR, "endpoints.start", "why", bh_err_message(err), NULL);
    end(&all);
    return rc < 0 ? 1 : 0;
}
