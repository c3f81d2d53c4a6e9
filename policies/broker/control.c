/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the control socket: one read event, and a queue of packets with a write event for when the socket takes no more.
 * Must never drop a message or wait for the worker.
 */
#include "policies/broker/control.h"

#include <errno.h>
#include <event2/event.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/val.h"

/* Where the worker is so many messages behind, nothing new is begun. */
enum { FULL = 1024, LEAST_SHARE = 4 };

struct packet {
    struct bh_list link;
    size_t len, *waiting;
    char data[];
};

struct bh_control {
    int fd;
    struct event_base *loop;
    struct event *readable, *writable;
    const struct bh_control_ops *ops;
    void *arg;
    struct bh_list queue;
    size_t n_queued;
    char *room; /* of one packet */
};

/* Without its worker, or with one that it does not understand, a broker has nothing to do. */
static void end(const struct bh_control *c, const char *why)
{
    if (why)
        bh_log(BH_LOG_ERROR, "broker.control", "why", why, NULL);
    (void)event_base_loopbreak(c->loop);
}

static void on_packet(struct bh_control *c, size_t len, int *fd)
{
    BH_CLEANUP_VAL struct bh_val *msg = NULL;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (bh_json_parse(c->room, len, &msg, &err) < 0) {
        end(c, bh_err_message(err));
        return;
    }
    const char *op = bh_val_str_of(msg, "op");
    if (op)
        c->ops->on_message(c->arg, op, msg, fd);
    else
        end(c, "a message without 'op'");
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct bh_control *c = arg;
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    (void)what;
    ssize_t n = bh_msg_recv(fd, c->room, BH_CONTROL_MAX, fds, &nfds);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        end(c, n < 0 && errno != ECONNRESET ? "a packet that cannot be read" : NULL);
        return;
    }
    int came = nfds > 0 ? fds[0] : -1;
    for (size_t i = 1; i < nfds; i++)
        bh_close(fds[i]);
    on_packet(c, (size_t)n, &came);
    bh_close(came);
}

/* Whether the packet is off our hands. */
static bool send_now(struct bh_control *c, const char *data, size_t len)
{
    if (bh_msg_send(c->fd, data, len, NULL, 0) == 0)
        return true;
    if (errno == EAGAIN || errno == ENOBUFS)
        return false;
    end(c, errno == EPIPE || errno == ECONNRESET ? NULL : "a packet that cannot be sent");
    return true;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct bh_control *c = arg;
    bool was_full = bh_control_is_full(c), sent = false;
    (void)fd;
    (void)what;
    BH_LIST_FOREACH (it, next, &c->queue) {
        struct packet *p = BH_CONTAINER(it, struct packet, link);
        if (!send_now(c, p->data, p->len))
            break;
        bh_list_remove(it);
        c->n_queued--;
        if (p->waiting)
            --*p->waiting;
        bh_free(p);
        sent = true;
    }
    if (bh_list_empty(&c->queue))
        (void)event_del(c->writable);
    if (was_full && !bh_control_is_full(c) && c->ops->on_drained)
        c->ops->on_drained(c->arg);
    if (sent && c->ops->on_sent)
        c->ops->on_sent(c->arg);
}

int bh_control_new(struct event_base *loop, int fd, const struct bh_control_ops *ops, void *arg,
                   struct bh_control **ret, struct bh_err **err)
{
    struct bh_control *c = bh_alloc(sizeof(*c));
    *c = (struct bh_control){.fd = fd, .loop = loop, .ops = ops, .arg = arg};
    c->room = bh_alloc(BH_CONTROL_MAX);
    bh_list_init(&c->queue);
    int rc = bh_fd_set_nonblock(fd, true);
    c->readable = event_new(loop, fd, EV_READ | EV_PERSIST, on_readable, c);
    c->writable = event_new(loop, fd, EV_WRITE | EV_PERSIST, on_writable, c);
    if (rc < 0 || !c->readable || !c->writable || event_add(c->readable, NULL) < 0) {
        bh_control_free(c);
        return bh_err_set(err, BH_E_HOST, 0, "cannot listen to the worker");
    }
    *ret = c;
    return 0;
}

void bh_control_free(struct bh_control *c)
{
    if (!c)
        return;
    if (c->readable)
        event_free(c->readable);
    if (c->writable)
        event_free(c->writable);
    BH_LIST_FOREACH (it, next, &c->queue) {
        bh_free(BH_CONTAINER(it, struct packet, link));
    }
    bh_close(c->fd);
    bh_free(c->room);
    bh_free(c);
}

void bh_control_send(struct bh_control *c, struct bh_val *msg)
{
    bh_control_send_for(c, msg, NULL);
}

void bh_control_send_for(struct bh_control *c, struct bh_val *msg, size_t *waiting)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(msg, &text);
    bh_val_free(msg);
    BH_ASSERT(text.len <= BH_CONTROL_MAX);
    if (bh_list_empty(&c->queue) && send_now(c, text.data, text.len))
        return;
    struct packet *p = bh_alloc(sizeof(*p) + text.len);
    p->len = text.len;
    p->waiting = waiting;
    memcpy(p->data, text.data, text.len);
    bh_list_init(&p->link);
    bh_list_append(&c->queue, &p->link);
    c->n_queued++;
    if (waiting)
        ++*waiting;
    (void)event_add(c->writable, NULL);
}

void bh_control_forget(struct bh_control *c, const size_t *waiting)
{
    if (*waiting == 0)
        return;
    BH_LIST_FOREACH (it, next, &c->queue) {
        struct packet *p = BH_CONTAINER(it, struct packet, link);
        if (p->waiting == waiting)
            p->waiting = NULL;
    }
}

size_t bh_control_share(size_t n)
{
    size_t each = n > 0 ? FULL / n : FULL;
    return each < LEAST_SHARE ? LEAST_SHARE : each;
}

bool bh_control_is_full(const struct bh_control *c)
{
    return c->n_queued >= FULL;
}

struct bh_val *bh_control_message(const char *op, int64_t id)
{
    struct bh_val *msg = bh_val_map();
    bh_val_set_str(msg, "op", op);
    bh_val_set_int(msg, "id", id);
    return msg;
}
