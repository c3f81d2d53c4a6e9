/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's end of the bus: keeps one connection, sends calls over it, matches replies, minds deadlines.
 *
 *   call:  idle → waiting (no connection yet) → sent → done [queue] → idle
 *
 * A call that waits survives any number of failed connections until its deadline; one that was sent ends with its
 * connection, since nobody knows whether it arrived: at most once. Calls live in slots that are used again; a slot's
 * number changes with every use, so a late reply finds nobody. One timer serves all deadlines: it is set for the
 * earliest one it was told of, and looks at all of them when it rings.
 */
#include "artifact-bus/transport.h"

#include "artifact-bus/bus_conn_priv.h"
#include "artifact-bus/wire.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/val.h"

#define CLIENT_MAGIC 0x4255534cu
#define BACKOFF_MIN (10 * BH_NS_PER_MS)
#define BACKOFF_MAX (200 * BH_NS_PER_MS)
#define TIMEOUT_MAX (7 * 24 * 3600 * BH_NS_PER_S) /* so that no sum overflows */

enum { MAX_CALLS = 65536 };

enum call_state { CALL_IDLE, CALL_WAITING, CALL_SENT, CALL_DONE };

struct call {
    struct bh_done_item item;
    struct bh_list link; /* in idle or waiting */
    enum call_state state;
    uint32_t slot, generation;
    uint64_t id; /* the caller's */
    struct bh_mono deadline;
    struct bh_buf text; /* while it waits */
    int code;
    struct bh_val *body;
};

struct bh_bus_client {
    uint32_t magic;
    struct bh_done_queue done;
    struct bh_bus_dialer *dialer;
    struct bh_bus_conn *conn; /* NULL: none now */
    struct bh_bus_op *dial, *pause, *timer;
    int64_t backoff;
    struct bh_mono rings; /* the timer, while it is busy */
    struct call **calls;
    size_t len, cap;
    struct bh_list idle, waiting;
};

/* --- calls --- */

static void finish(struct bh_bus_client *c, struct call *call, int code, struct bh_val *body)
{
    bh_list_remove(&call->link);
    bh_buf_fini(&call->text);
    call->state = CALL_DONE;
    call->code = code;
    call->body = body;
    bh_done_queue_push(&c->done, &call->item);
}

static uint64_t number_of(const struct call *call)
{
    return (uint64_t)call->generation << 32 | call->slot;
}

static void send_call(struct bh_bus_client *c, struct call *call)
{
    bh_list_remove(&call->link);
    call->state = CALL_SENT;
    bh_bus_conn_send(c->conn, number_of(call), call->text.data, call->text.len);
    bh_buf_fini(&call->text);
}

static int take_slot(struct bh_bus_client *c, struct call **ret, struct bh_err **err)
{
    if (!bh_list_empty(&c->idle)) {
        *ret = BH_CONTAINER(c->idle.next, struct call, link);
        bh_list_remove(&(*ret)->link);
        return 0;
    }
    if (c->len == MAX_CALLS)
        return bh_err_set(err, BH_E_AGAIN, 0, "%d calls are outstanding on the bus already", MAX_CALLS);
    struct call *call = bh_alloc(sizeof(*call));
    call->slot = (uint32_t)c->len;
    bh_list_init(&call->item.link);
    bh_list_init(&call->link);
    bh_buf_init(&call->text);
    *BH_PUSH(c->calls, c->len, c->cap) = call;
    *ret = call;
    return 0;
}

/* --- deadlines --- */

static bool is_open(const struct call *call)
{
    return call->state == CALL_WAITING || call->state == CALL_SENT;
}

static void set_timer(struct bh_bus_client *c, struct bh_mono deadline)
{
    if (!bh_bus_op_busy(c->timer)) {
        c->rings = deadline;
        bh_bus_op_sleep(c->timer, deadline.ns - bh_mono_now().ns);
    } else if (deadline.ns < c->rings.ns) {
        bh_bus_op_cancel(c->timer); /* timer_ended sets it anew */
    }
}

static void timer_ended(void *arg)
{
    struct bh_bus_client *c = arg;
    BH_ASSERT(c->magic == CLIENT_MAGIC);
    struct bh_mono now = bh_mono_now(), next = {.ns = INT64_MAX};
    for (size_t i = 0; i < c->len; i++) {
        struct call *call = c->calls[i];
        if (!is_open(call))
            continue;
        if (call->deadline.ns <= now.ns)
            finish(c, call, -BH_E_UNREACHABLE, NULL);
        else if (call->deadline.ns < next.ns)
            next = call->deadline;
    }
    if (next.ns < INT64_MAX)
        set_timer(c, next);
}

/* --- the connection --- */

static bool reply_came(void *arg, uint64_t number, const void *data, size_t len)
{
    struct bh_bus_client *c = arg;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    uint32_t slot = (uint32_t)number;
    c->backoff = BACKOFF_MIN;
    if (slot >= c->len || number_of(c->calls[slot]) != number || c->calls[slot]->state != CALL_SENT)
        return true; /* too late, or to nothing we asked */
    struct bh_val *body = NULL;
    int code = bh_wire_decode(data, len, &body, &err);
    if (code != 0)
        bh_log(BH_LOG_DEBUG, "bus.reply", "refused", bh_err_message(err), NULL);
    finish(c, c->calls[slot], code, body);
    return true;
}

static void connection_lost(void *arg)
{
    struct bh_bus_client *c = arg;
    BH_ASSERT(c->magic == CLIENT_MAGIC);
    bh_bus_conn_free(BH_TAKE(c->conn));
    for (size_t i = 0; i < c->len; i++) {
        if (c->calls[i]->state == CALL_SENT)
            finish(c, c->calls[i], -BH_E_UNREACHABLE, NULL);
    }
    bh_bus_op_sleep(c->pause, c->backoff);
}

static void connected(struct bh_bus_client *c, struct bh_bus_stream *stream)
{
    static const struct bh_bus_conn_ops ops = {.frame = reply_came, .lost = connection_lost};
    c->conn = stream ? bh_bus_conn_new(&c->done, stream, &ops, c) : NULL;
    while (c->conn && !bh_list_empty(&c->waiting))
        send_call(c, BH_CONTAINER(c->waiting.next, struct call, link));
}

static void dial_ended(void *arg)
{
    struct bh_bus_client *c = arg;
    BH_ASSERT(c->magic == CLIENT_MAGIC);
    if (bh_bus_op_result(c->dial) == 0)
        connected(c, bh_bus_op_take_stream(c->dial));
    if (!c->conn)
        bh_bus_op_sleep(c->pause, c->backoff);
    c->backoff = c->backoff < BACKOFF_MAX / 2 ? 2 * c->backoff : BACKOFF_MAX;
}

static void pause_ended(void *arg)
{
    struct bh_bus_client *c = arg;
    BH_ASSERT(c->magic == CLIENT_MAGIC);
    bh_bus_op_dial(c->dial, c->dialer);
}

/* --- life --- */

static int start_client(struct bh_bus_client *c, const char *url, struct bh_err **err)
{
    int rc = bh_done_queue_init(&c->done, err);
    if (rc == 0)
        rc = bh_bus_dialer_new(url, &c->dialer, err);
    if (rc != 0)
        return rc;
    c->dial = bh_bus_op_new(&c->done, dial_ended, c);
    c->pause = bh_bus_op_new(&c->done, pause_ended, c);
    c->timer = bh_bus_op_new(&c->done, timer_ended, c);
    if (!c->dial || !c->pause || !c->timer)
        return bh_err_set(err, BH_E_NOMEM, 0, "no memory to connect to '%s'", url);
    bh_bus_op_dial(c->dial, c->dialer);
    return 0;
}

int bh_bus_client_new(const char *url, struct bh_bus_client **ret, struct bh_err **err)
{
    struct bh_bus_client *c = bh_alloc(sizeof(*c));
    c->magic = CLIENT_MAGIC;
    c->done.fd = -1;
    c->backoff = BACKOFF_MIN;
    bh_list_init(&c->idle);
    bh_list_init(&c->waiting);
    int rc = start_client(c, url, err);
    if (rc != 0)
        bh_bus_client_free(c);
    else
        *ret = c;
    return rc;
}

void bh_bus_client_free(struct bh_bus_client *c)
{
    if (!c)
        return;
    BH_ASSERT(c->magic == CLIENT_MAGIC);
    bh_bus_op_free(c->dial);
    bh_bus_op_free(c->pause);
    bh_bus_op_free(c->timer);
    bh_bus_conn_free(c->conn);
    bh_bus_dialer_free(c->dialer);
    for (size_t i = 0; i < c->len; i++) {
        bh_buf_fini(&c->calls[i]->text);
        bh_val_free(c->calls[i]->body);
        bh_free(c->calls[i]);
    }
    bh_free(c->calls);
    bh_done_queue_fini(&c->done);
    c->magic = 0;
    bh_free(c);
}

int bh_bus_client_fd(const struct bh_bus_client *c)
{
    BH_ASSERT(c && c->magic == CLIENT_MAGIC);
    return c->done.fd;
}

int bh_bus_call(struct bh_bus_client *c, uint64_t id, struct bh_val *body, int64_t timeout_ns, struct bh_err **err)
{
    BH_ASSERT(c && c->magic == CLIENT_MAGIC && timeout_ns > 0);
    BH_CLEANUP_VAL struct bh_val *owned = body;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct call *call = NULL;
    int rc = bh_wire_encode(owned, &text, err);
    if (rc == 0)
        rc = take_slot(c, &call, err);
    if (rc != 0)
        return rc;
    call->generation++;
    call->id = id;
    call->deadline.ns = bh_mono_now().ns + (timeout_ns < TIMEOUT_MAX ? timeout_ns : TIMEOUT_MAX);
    call->text = text;
    bh_buf_init(&text);
    call->state = CALL_WAITING;
    bh_list_append(&c->waiting, &call->link);
    if (c->conn)
        send_call(c, call);
    set_timer(c, call->deadline);
    return 0;
}

bool bh_bus_client_next(struct bh_bus_client *c, struct bh_bus_answer *ret)
{
    BH_ASSERT(c && c->magic == CLIENT_MAGIC);
    struct bh_done_item *item = bh_done_queue_next(&c->done);
    if (!item)
        return false;
    struct call *call = BH_CONTAINER(item, struct call, item);
    BH_ASSERT(call->state == CALL_DONE);
    *ret = (struct bh_bus_answer){.id = call->id, .code = call->code, .body = BH_TAKE(call->body)};
    call->state = CALL_IDLE;
    bh_list_append(&c->idle, &call->link);
    return true;
}
