/* SPDX-License-Identifier: Apache-2.0 */
/* The loop, what the worker asks of it, and the doors that connections come in by. */
#include "policies/broker/egress.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "policies/broker/egress_priv.h"
#include "policies/broker/pool.h"

enum { QUEUE_MAX = 65536 /* no listening socket has a longer one */ };
enum { LEAST_READ = 4096, LEAST_HEAD = 16384 };
enum { ACCEPT_AT_ONCE = 64, OVER_MAX = 64, AGAIN_MS = 100 };

static const struct bh_egress_limits usual = {
    .connections = 1000, .rate = 500, .head_ms = 30000, .connect_ms = 10000, .idle_ms = 600000, .total_ms = 86400000};

/* --- memory --- */

/* However many connections hostile boxes open, what they make us hold has a bound. */
void bh_egress_count(struct bh_egress *e, int change)
{
    e->n_conns += (size_t)change;
    e->at_once = bh_pool_share(BH_POOL_BYTES, e->n_conns, LEAST_READ, BH_HTTP_HEAD_MAX);
    e->head_max = bh_pool_share(BH_POOL_BYTES, e->n_conns, LEAST_HEAD, BH_HTTP_HEAD_MAX);
}

/* --- doors --- */

static void pause_all(struct bh_egress *e)
{
    e->paused = true;
    BH_LIST_FOREACH (it, next, &e->exits) {
        (void)event_del(BH_CONTAINER(it, struct bh_egress_exit, link)->acceptable);
    }
}

/* Above its limit a box is refused with a reason; far above, it waits. */
static bool has_room(const struct bh_egress_exit *x)
{
    return (int64_t)x->n_conns < x->limits.connections + OVER_MAX;
}

static void resume_all(struct bh_egress *e)
{
    if (bh_control_is_full(e->control) || e->n_conns >= e->max_conns)
        return;
    e->paused = false;
    BH_LIST_FOREACH (it, next, &e->exits) {
        struct bh_egress_exit *x = BH_CONTAINER(it, struct bh_egress_exit, link);
        if (has_room(x) && !evtimer_pending(x->later, NULL))
            (void)event_add(x->acceptable, NULL);
    }
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    resume_all(arg);
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
    struct bh_egress *e = arg;
    (void)fd;
    (void)what;
    BH_LIST_FOREACH (it, next, &e->dead) {
        bh_conn_free(BH_CONTAINER(it, struct bh_egress_conn, link));
    }
    resume_all(e);
}

/* A box that does nothing but connect takes neither this process nor the worker from others. */
static bool may_begin(struct bh_egress_exit *x)
{
    const struct timeval tv = {.tv_usec = AGAIN_MS * 1000};
    if (bh_rate_has(&x->arrivals, bh_mono_now()))
        return true;
    (void)event_del(x->acceptable);
    (void)event_add(x->later, &tv);
    return false;
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct bh_egress_exit *x = arg;
    (void)fd;
    (void)what;
    if (!x->e->paused && has_room(x))
        (void)event_add(x->acceptable, NULL);
}

/* No descriptors, no memory: others have to end first. */
static void on_accept_failed(struct bh_egress *e, int error)
{
    const struct timeval tv = {.tv_usec = AGAIN_MS * 1000};
    if (error == EAGAIN || error == EINTR || error == ECONNABORTED)
        return;
    pause_all(e);
    (void)event_add(e->again, &tv);
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
    struct bh_egress_exit *x = arg;
    struct bh_egress *e = x->e;
    (void)what;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        if (bh_control_is_full(e->control) || e->n_conns >= e->max_conns) {
            pause_all(e);
            return;
        }
        if (!has_room(x)) {
            (void)event_del(x->acceptable);
            return;
        }
        if (!may_begin(x))
            return;
        int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) {
            on_accept_failed(e, errno);
            return;
        }
        (void)bh_rate_take(&x->arrivals, bh_mono_now());
        bh_conn_begin(x, client);
    }
}

/* --- ways out --- */

static struct bh_egress_exit *find_exit(const struct bh_egress *e, int64_t id)
{
    BH_LIST_FOREACH (it, next, &e->exits) {
        struct bh_egress_exit *x = BH_CONTAINER(it, struct bh_egress_exit, link);
        if (x->id == id)
            return x;
    }
    return NULL;
}

static void end_conns(struct bh_egress_exit *x, enum bh_egress_reason reason)
{
    BH_LIST_FOREACH (it, next, &x->conns) {
        bh_conn_end(BH_CONTAINER(it, struct bh_egress_conn, link), reason);
    }
}

static void free_exit(struct bh_egress_exit *x)
{
    end_conns(x, BH_EGRESS_CLOSED);
    bh_list_remove(&x->link);
    event_free(x->acceptable);
    event_free(x->later);
    bh_close(x->listener);
    bh_egress_policy_fini(&x->policy);
    bh_free(x->agent);
    bh_free(x->phase);
    bh_free(x);
}

static void read_limit(const struct bh_val *limits, const char *name, int64_t *to)
{
    int64_t value = bh_val_int_of(limits, name);
    if (value > 0)
        *to = value;
}

static struct bh_egress_limits read_limits(const struct bh_val *v)
{
    struct bh_egress_limits limits = usual;
    read_limit(v, "connections", &limits.connections);
    read_limit(v, "rate", &limits.rate);
    read_limit(v, "head_ms", &limits.head_ms);
    read_limit(v, "connect_ms", &limits.connect_ms);
    read_limit(v, "idle_ms", &limits.idle_ms);
    read_limit(v, "total_ms", &limits.total_ms);
    return limits;
}

static int check_listener(int fd, struct bh_err **err)
{
    int listens = 0;
    socklen_t len = sizeof(listens);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || !listens)
        return bh_err_set(err, BH_E_PROTOCOL, 0, "no listening socket came with 'open'");
    return bh_fd_set_nonblock(fd, true) < 0 ? bh_err_set(err, BH_E_HOST, errno, "cannot use the socket") : 0;
}

static char *copy_text(const struct bh_val *msg, const char *key)
{
    const char *text = bh_val_str_of(msg, key);
    return bh_strdup(text ? text : "");
}

static int on_open(struct bh_egress *e, int64_t id, const struct bh_val *msg, int *fd, struct bh_err **err)
{
    struct bh_egress_policy policy = {0};
    int rc = find_exit(e, id) ? bh_err_set(err, BH_E_PROTOCOL, 0, "'open' of what is open") : check_listener(*fd, err);
    rc = rc < 0 ? rc : bh_egress_policy_read(bh_val_get(msg, "policy"), &policy, err);
    if (rc < 0)
        return rc;
    struct bh_egress_exit *x = bh_alloc(sizeof(*x));
    *x = (struct bh_egress_exit){.e = e, .id = id, .policy = policy, .listener = BH_TAKE_FD(*fd)};
    x->agent = copy_text(msg, "agent");
    x->phase = copy_text(msg, "phase");
    x->limits = read_limits(bh_val_get(msg, "limits"));
    x->notes = bh_val_bool_of(msg, "notes");
    bh_list_init(&x->conns);
    bh_list_init(&x->link);
    bh_list_append(&e->exits, &x->link);
    x->acceptable = event_new(e->loop, x->listener, EV_READ | EV_PERSIST, on_acceptable, x);
    x->later = evtimer_new(e->loop, on_later, x);
    BH_ASSERT(x->acceptable && x->later);
    bh_rate_init(&x->arrivals, x->limits.rate, bh_mono_now());
    if (!e->paused)
        (void)event_add(x->acceptable, NULL);
    return 0;
}

/*
 * What waits at the door came in the former phase: nobody can tell it from what comes in the next one once that has
 * begun. Who goes on connecting meanwhile keeps nobody here: there is an end to it.
 */
static int clear_queue(const struct bh_egress_exit *x, struct bh_err **err)
{
    for (int i = 0; i <= QUEUE_MAX; i++) {
        BH_CLEANUP_FD int client = accept4(x->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0 && errno == EAGAIN)
            return 0;
        if (client < 0 && errno != EINTR && errno != ECONNABORTED)
            return bh_err_set(err, BH_E_HOST, errno, "cannot end what the former phase has begun");
    }
    return 0;
}

/* Another phase: what the former one has begun ends with it. With a policy that cannot be read there is no way out. */
static int on_policy(struct bh_egress *e, int64_t id, const struct bh_val *msg, int *fd, struct bh_err **err)
{
    struct bh_egress_exit *x = find_exit(e, id);
    (void)fd;
    if (!x)
        return bh_err_set(err, BH_E_PROTOCOL, 0, "'policy' of what is not open");
    end_conns(x, BH_EGRESS_PHASE);
    int rc = clear_queue(x, err);
    bh_egress_policy_fini(&x->policy);
    bh_free(x->phase);
    x->phase = copy_text(msg, "phase");
    if (rc == 0)
        rc = bh_egress_policy_read(bh_val_get(msg, "policy"), &x->policy, err);
    if (rc < 0)
        free_exit(x);
    return rc;
}

static int on_close(struct bh_egress *e, int64_t id, const struct bh_val *msg, int *fd, struct bh_err **err)
{
    struct bh_egress_exit *x = find_exit(e, id);
    (void)msg;
    (void)fd;
    if (!x)
        return bh_err_set(err, BH_E_PROTOCOL, 0, "'close' of what is not open");
    free_exit(x);
    return 0;
}

/* All up to this one are in the audit log, or could not be written. What is closed by now was waiting for nothing. */
static int on_noted(struct bh_egress *e, int64_t id, const struct bh_val *msg, int *fd, struct bh_err **err)
{
    struct bh_egress_exit *x = find_exit(e, id);
    int64_t number = bh_val_int_of(msg, "connection");
    bool ok = bh_val_bool_of(msg, "ok");
    (void)fd;
    (void)err;
    if (!x)
        return 0;
    BH_LIST_FOREACH (it, next, &x->conns) {
        struct bh_egress_conn *c = BH_CONTAINER(it, struct bh_egress_conn, link);
        if (c->state == BH_CONN_NOTE && c->number <= number)
            bh_conn_noted(c, ok);
    }
    return 0;
}

/* --- the worker --- */

static const struct {
    const char *op;
    int (*carry_out)(struct bh_egress *e, int64_t id, const struct bh_val *msg, int *fd, struct bh_err **err);
    const char *answer;
} ops[] = {{"open", on_open, "ready"},
           {"policy", on_policy, "ready"},
           {"noted", on_noted, NULL}, /* it is an answer itself */
           {"close", on_close, "closed"}};

static void on_message(void *arg, const char *op, const struct bh_val *msg, int *fd)
{
    struct bh_egress *e = arg;
    int64_t id = bh_val_int_of(msg, "id");
    for (size_t i = 0; i < BH_ARRAY_LEN(ops); i++) {
        BH_CLEANUP_ERR struct bh_err *err = NULL;
        if (!bh_streq(ops[i].op, op))
            continue;
        int rc = ops[i].carry_out(e, id, msg, fd, &err);
        if (rc == 0 && !ops[i].answer)
            return;
        struct bh_val *answer = bh_control_message(rc < 0 ? "failed" : ops[i].answer, id);
        if (rc < 0)
            bh_val_set_str(answer, "message", bh_err_message(err));
        bh_control_send(e->control, answer);
        return;
    }
    bh_log(BH_LOG_ERROR, "egress.message", "unknown", op, NULL);
    e->status = 1;
    (void)event_base_loopbreak(e->loop);
}

static void on_drained(void *arg)
{
    resume_all(arg);
}

static const struct bh_control_ops control_ops = {.on_message = on_message, .on_drained = on_drained};

static struct bh_val *decision(const struct bh_egress_conn *c, enum bh_egress_reason reason)
{
    char time[BH_WALL_TEXT], address[BH_ADDRESS_TEXT];
    struct bh_val *msg = bh_control_message("decision", c->exit->id);
    bool known = c->next_address > 0;
    bh_val_set_str(msg, "time", bh_wall_format(bh_wall_now(), time));
    bh_val_set_str(msg, "phase", c->exit->phase);
    bh_val_set_str(msg, "host", c->request.host.name);
    bh_val_set_int(msg, "port", c->request.port);
    bh_val_set_str(msg, "address", known ? bh_address_format(c->addresses[c->next_address - 1], address) : NULL);
    bh_val_set_str(msg, "verdict", bh_egress_is_denial(reason) ? "deny" : "allow");
    bh_val_set_str(msg, "reason", bh_egress_reason_text(reason));
    if (c->number > 0)
        bh_val_set_int(msg, "connection", c->number);
    return msg;
}

void bh_egress_opened(const struct bh_egress_conn *c)
{
    struct bh_val *msg = decision(c, c->reason);
    bh_val_set_str(msg, "state", "open");
    bh_control_send(c->exit->e->control, msg);
}

void bh_egress_decision(const struct bh_egress_conn *c, enum bh_egress_reason reason)
{
    struct bh_val *msg = decision(c, reason);
    if (c->number > 0)
        bh_val_set_str(msg, "state", "closed");
    bh_val_set_int(msg, "up", (int64_t)c->up.bytes);
    bh_val_set_int(msg, "down", (int64_t)c->down.bytes);
    bh_control_send(c->exit->e->control, msg);
}

/* --- the process --- */

static int set_up(struct bh_egress *e, int control_fd, bh_lookup_fn *look_up, struct bh_err **err)
{
    bh_list_init(&e->exits);
    bh_list_init(&e->dead);
    e->max_conns = bh_pool_conns();
    bh_egress_count(e, 0);
    e->loop = event_base_new();
    if (!e->loop) {
        bh_close(control_fd);
        return bh_err_set(err, BH_E_HOST, errno, "cannot make a loop of events");
    }
    e->reaper = evtimer_new(e->loop, on_reap, e);
    e->again = evtimer_new(e->loop, on_again, e);
    BH_ASSERT(e->reaper && e->again);
    e->lookups = bh_lookups_new(e->loop, look_up, BH_LOOKUP_PATIENCE_MS);
    return bh_control_new(e->loop, control_fd, &control_ops, e, &e->control, err);
}

static void tear_down(struct bh_egress *e)
{
    BH_LIST_FOREACH (it, next, &e->exits) {
        free_exit(BH_CONTAINER(it, struct bh_egress_exit, link));
    }
    BH_LIST_FOREACH (it, next, &e->dead) {
        bh_conn_free(BH_CONTAINER(it, struct bh_egress_conn, link));
    }
    bh_control_free(e->control);
    if (!e->loop)
        return;
    bh_lookups_free(e->lookups);
    event_free(e->reaper);
    event_free(e->again);
    event_base_free(e->loop);
}

int bh_egress_serve(int control_fd, bh_lookup_fn *look_up)
{
    struct bh_egress e = {0};
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (set_up(&e, control_fd, look_up, &err) < 0) {
        bh_log(BH_LOG_ERROR, "egress.start", "why", bh_err_message(err), NULL);
        e.status = 1;
    } else {
        (void)event_base_dispatch(e.loop);
    }
    tear_down(&e);
    return e.status;
}

int bh_egress_main(int control_fd)
{
    return bh_egress_serve(control_fd, bh_lookup_host);
}
