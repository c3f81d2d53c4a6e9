/* SPDX-License-Identifier: Apache-2.0 */
/* A connection from its beginning to its decision, and its end. */
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "policies/broker/egress_priv.h"

/* --- life --- */

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct bh_egress_conn *c = arg;
    int64_t now = bh_mono_now().ns;
    (void)fd;
    (void)what;
    if (c->state == BH_CONN_HEAD && c->in.len == 0)
        bh_conn_end(c, BH_EGRESS_HEAD_TIMEOUT); /* it never said a word: nobody wants to read of it */
    else if (c->state == BH_CONN_HEAD)
        bh_conn_refuse(c, BH_EGRESS_HEAD_TIMEOUT);
    else if (c->state == BH_CONN_LINGER)
        bh_conn_end(c, c->reason);
    else if (c->state == BH_CONN_FLOW && now - c->began.ns >= c->exit->limits.total_ms * BH_NS_PER_MS)
        bh_conn_end(c, BH_EGRESS_TOTAL_TIMEOUT);
    else if (c->state == BH_CONN_FLOW && now - c->last.ns >= c->exit->limits.idle_ms * BH_NS_PER_MS)
        bh_conn_end(c, BH_EGRESS_IDLE_TIMEOUT);
    else if (c->state == BH_CONN_FLOW)
        bh_conn_time(c, 0);
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void bh_conn_time(struct bh_egress_conn *c, int64_t ms)
{
    if (c->state == BH_CONN_FLOW) {
        int64_t now = bh_mono_now().ns;
        ms = lesser(c->exit->limits.idle_ms - (now - c->last.ns) / BH_NS_PER_MS,
                    c->exit->limits.total_ms - (now - c->began.ns) / BH_NS_PER_MS);
        ms = ms < 1 ? 1 : ms;
    }
    const struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    (void)event_add(c->timer, &tv);
}

void bh_conn_begin(struct bh_egress_exit *x, int client)
{
    struct bh_egress_conn *c = bh_alloc(sizeof(*c));
    const int on = 1;
    *c = (struct bh_egress_conn){.exit = x, .client = client, .upstream = -1, .in = BH_BUF_INIT};
    c->answer_head = c->request.head = BH_BUF_INIT;
    c->began = c->last = bh_mono_now();
    c->over = (int64_t)x->n_conns >= x->limits.connections;
    c->timer = evtimer_new(x->e->loop, on_time, c);
    BH_ASSERT(c->timer);
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    bh_list_init(&c->link);
    bh_list_append(&x->conns, &c->link);
    x->n_conns++;
    bh_egress_count(x->e, 1);
    bh_conn_time(c, x->limits.head_ms);
    bh_conn_listen(c);
}

void bh_conn_end(struct bh_egress_conn *c, enum bh_egress_reason reason)
{
    struct bh_egress *e = c->exit->e;
    if (c->state == BH_CONN_DEAD)
        return;
    if (c->let)
        bh_egress_decision(c, reason);
    c->let = false;
    c->state = BH_CONN_DEAD;
    bh_lookup_cancel(BH_TAKE(c->lookup));
    bh_pipe_stop(&c->up);
    bh_pipe_stop(&c->down);
    (void)event_del(c->timer);
    if (c->readable)
        (void)event_del(c->readable);
    if (c->connected)
        (void)event_del(c->connected);
    c->exit->n_conns--;
    bh_egress_count(e, -1);
    bh_list_remove(&c->link);
    bh_list_append(&e->dead, &c->link);
    (void)event_active(e->reaper, EV_TIMEOUT, 0);
}

void bh_conn_free(struct bh_egress_conn *c)
{
    bh_list_remove(&c->link);
    bh_pipe_fini(&c->up);
    bh_pipe_fini(&c->down);
    event_free(c->timer);
    if (c->readable)
        event_free(c->readable);
    if (c->connected)
        event_free(c->connected);
    bh_close(c->client);
    bh_close(c->upstream);
    bh_buf_fini(&c->in);
    bh_buf_fini(&c->answer_head);
    bh_buf_fini(&c->request.head);
    bh_free(c);
}

/* --- the decision --- */

void bh_conn_refuse(struct bh_egress_conn *c, enum bh_egress_reason reason)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (c->state == BH_CONN_DEAD)
        return;
    bh_egress_decision(c, reason);
    c->let = false;
    c->reason = reason;
    bh_egress_reply(c, reason, &text);
    bh_conn_linger(c, text.data, text.len);
}

static enum bh_egress_reason decide_address(const struct bh_egress_policy *p, const unsigned char *address)
{
    enum bh_egress_reason reason = bh_egress_decide_address(p, address);
    bool by_site = bh_address_is_permitted(address, p->ranges, p->n_ranges);
    return reason == BH_EGRESS_PUBLIC && !by_site && bh_address_is_own(address) ? BH_EGRESS_OWN_HOST : reason;
}

/* Of what the name has, what may be reached; the first of what may not gives the reason. */
static void on_addresses(struct bh_egress_conn *c, const unsigned char addresses[][BH_ADDRESS_LEN], int n)
{
    enum bh_egress_reason denied = BH_EGRESS_UNRESOLVED;
    for (int i = 0; i < n; i++) {
        enum bh_egress_reason reason = decide_address(&c->exit->policy, addresses[i]);
        if (reason == BH_EGRESS_PUBLIC) {
            memcpy(c->addresses[c->n_addresses++], addresses[i], BH_ADDRESS_LEN);
        } else if (denied == BH_EGRESS_UNRESOLVED) {
            denied = reason;
            memcpy(c->addresses[BH_LOOKUP_MAX - 1], addresses[i], BH_ADDRESS_LEN);
        }
    }
    if (c->n_addresses > 0) {
        c->let = true;
        bh_conn_connect(c);
        return;
    }
    if (n > 0) /* told to the worker, not to the box */
        memcpy(c->addresses[0], c->addresses[BH_LOOKUP_MAX - 1], BH_ADDRESS_LEN);
    c->next_address = n > 0 ? 1 : 0;
    bh_conn_refuse(c, n < 0 ? BH_EGRESS_LOOKUP_FAILED : denied);
}

static void on_lookup(void *arg, const unsigned char addresses[][BH_ADDRESS_LEN], int n)
{
    struct bh_egress_conn *c = arg;
    c->lookup = NULL;
    on_addresses(c, addresses, n);
}

void bh_conn_connected(struct bh_egress_conn *c)
{
    if (!c->exit->notes) {
        bh_conn_flow(c);
        return;
    }
    c->number = ++c->exit->n_opened;
    c->state = BH_CONN_NOTE;
    bh_egress_opened(c);
}

void bh_conn_noted(struct bh_egress_conn *c, bool ok)
{
    if (ok)
        bh_conn_flow(c);
    else
        bh_conn_refuse(c, BH_EGRESS_NOT_NOTED);
}

void bh_conn_asked(struct bh_egress_conn *c)
{
    const struct bh_host *host = &c->request.host;
    c->reason = c->over ? BH_EGRESS_CONNECTIONS : bh_egress_decide_name(&c->exit->policy, host, c->request.port);
    (void)event_del(c->timer);
    (void)event_del(c->readable);
    if (bh_egress_is_denial(c->reason)) {
        bh_conn_refuse(c, c->reason);
        return;
    }
    c->state = BH_CONN_LOOKUP;
    if (host->is_address)
        on_addresses(c, (const unsigned char(*)[BH_ADDRESS_LEN])host->address, 1);
    else
        c->lookup = bh_lookup_ask(c->exit->e->lookups, c->exit, host->name, on_lookup, c);
}
