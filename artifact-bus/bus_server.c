/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's end of the bus: takes connections, decodes what comes, hands out requests, sends replies.
 *
 * A request belongs to the caller until it is answered or dropped, and outlives its connection: an answer to a peer
 * that has gone goes nowhere. What does not decode is answered with an error and never seen. Limits: MAX_PEERS
 * connections, MAX_REQUESTS unanswered requests; whoever goes beyond loses the connection.
 */
#include "artifact-bus/transport.h"

#include "artifact-bus/bus_conn_priv.h"
#include "artifact-bus/wire.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/val.h"

#define SERVER_MAGIC 0x42555353u
#define REQUEST_MAGIC 0x42555352u
#define PAUSE_NS (100 * BH_NS_PER_MS) /* after an accept that failed, for want of descriptors say */

enum { MAX_PEERS = 4096, MAX_REQUESTS = 65536 };

struct peer {
    struct bh_list link;
    struct bh_bus_server *server;
    struct bh_bus_conn *conn;
    uint32_t id;
    struct bh_list requests;
};

struct bh_bus_request {
    uint32_t magic;
    struct bh_done_item item;
    struct bh_bus_server *server;
    struct bh_list all; /* of the server */
    struct bh_list of_peer;
    struct peer *peer; /* NULL: gone */
    uint32_t peer_id;
    uint64_t number;
    struct bh_val *body;
};

struct bh_bus_server {
    uint32_t magic;
    struct bh_done_queue done;
    struct bh_bus_listener *listener;
    struct bh_bus_op *accept, *pause;
    struct bh_list peers, requests;
    size_t n_peers, n_requests;
    uint32_t last_id;
};

/* --- requests --- */

static void free_request(struct bh_bus_request *r)
{
    bh_done_queue_remove(&r->server->done, &r->item);
    bh_list_remove(&r->all);
    bh_list_remove(&r->of_peer);
    r->server->n_requests--;
    bh_val_free(r->body);
    r->magic = 0;
    bh_free(r);
}

static void add_request(struct peer *p, uint64_t number, struct bh_val *body)
{
    struct bh_bus_request *r = bh_alloc(sizeof(*r));
    *r = (struct bh_bus_request){
        .magic = REQUEST_MAGIC, .server = p->server, .peer = p, .peer_id = p->id, .number = number, .body = body};
    bh_list_init(&r->item.link);
    bh_list_append(&p->server->requests, &r->all);
    bh_list_append(&p->requests, &r->of_peer);
    p->server->n_requests++;
    bh_done_queue_push(&p->server->done, &r->item);
}

static void send_error(struct bh_bus_conn *conn, uint64_t number, const struct bh_err *why)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_wire_encode_error(bh_err_message(why), &text);
    bh_bus_conn_send(conn, number, text.data, text.len);
}

/* --- connections --- */

static bool peer_frame(void *arg, uint64_t number, const void *data, size_t len)
{
    struct peer *p = arg;
    struct bh_val *body = NULL;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (p->server->n_requests == MAX_REQUESTS)
        return false;
    if (bh_wire_decode(data, len, &body, &err) == 0)
        add_request(p, number, body);
    else
        send_error(p->conn, number, err);
    return true;
}

static void free_peer(struct peer *p)
{
    while (!bh_list_empty(&p->requests)) {
        struct bh_bus_request *r = BH_CONTAINER(p->requests.next, struct bh_bus_request, of_peer);
        r->peer = NULL;
        bh_list_remove(&r->of_peer);
    }
    bh_list_remove(&p->link);
    p->server->n_peers--;
    bh_bus_conn_free(p->conn);
    bh_free(p);
}

static void peer_lost(void *arg)
{
    free_peer(arg);
}

static void add_peer(struct bh_bus_server *s, struct bh_bus_stream *stream)
{
    static const struct bh_bus_conn_ops ops = {.frame = peer_frame, .lost = peer_lost};
    if (s->n_peers == MAX_PEERS) {
        bh_bus_stream_free(stream);
        return;
    }
    struct peer *p = bh_alloc(sizeof(*p));
    p->server = s;
    p->id = ++s->last_id;
    bh_list_init(&p->requests);
    bh_list_append(&s->peers, &p->link);
    s->n_peers++;
    p->conn = bh_bus_conn_new(&s->done, stream, &ops, p);
    if (!p->conn)
        free_peer(p);
}

static void accept_ended(void *arg)
{
    struct bh_bus_server *s = arg;
    BH_ASSERT(s->magic == SERVER_MAGIC);
    if (bh_bus_op_result(s->accept) != 0) {
        bh_bus_op_sleep(s->pause, PAUSE_NS);
        return;
    }
    struct bh_bus_stream *stream = bh_bus_op_take_stream(s->accept);
    if (stream)
        add_peer(s, stream);
    bh_bus_op_accept(s->accept, s->listener);
}

static void pause_ended(void *arg)
{
    struct bh_bus_server *s = arg;
    BH_ASSERT(s->magic == SERVER_MAGIC);
    bh_bus_op_accept(s->accept, s->listener);
}

/* --- life --- */

static int start_server(struct bh_bus_server *s, const char *url, struct bh_err **err)
{
    int rc = bh_done_queue_init(&s->done, err);
    if (rc == 0)
        rc = bh_bus_listener_new(url, &s->listener, err);
    if (rc != 0)
        return rc;
    s->accept = bh_bus_op_new(&s->done, accept_ended, s);
    s->pause = bh_bus_op_new(&s->done, pause_ended, s);
    if (!s->accept || !s->pause)
        return bh_err_set(err, BH_E_NOMEM, 0, "no memory to listen at '%s'", url);
    bh_bus_op_accept(s->accept, s->listener);
    return 0;
}

int bh_bus_server_new(const char *url, struct bh_bus_server **ret, struct bh_err **err)
{
    struct bh_bus_server *s = bh_alloc(sizeof(*s));
    s->magic = SERVER_MAGIC;
    s->done.fd = -1;
    bh_list_init(&s->peers);
    bh_list_init(&s->requests);
    int rc = start_server(s, url, err);
    if (rc != 0)
        bh_bus_server_free(s);
    else
        *ret = s;
    return rc;
}

void bh_bus_server_free(struct bh_bus_server *s)
{
    if (!s)
        return;
    BH_ASSERT(s->magic == SERVER_MAGIC);
    bh_bus_op_free(s->accept);
    bh_bus_op_free(s->pause);
    bh_bus_listener_free(s->listener);
    while (!bh_list_empty(&s->peers))
        free_peer(BH_CONTAINER(s->peers.next, struct peer, link));
    while (!bh_list_empty(&s->requests))
        free_request(BH_CONTAINER(s->requests.next, struct bh_bus_request, all));
    bh_done_queue_fini(&s->done);
    s->magic = 0;
    bh_free(s);
}

int bh_bus_server_fd(const struct bh_bus_server *s)
{
    BH_ASSERT(s && s->magic == SERVER_MAGIC);
    return s->done.fd;
}

struct bh_bus_request *bh_bus_server_next(struct bh_bus_server *s)
{
    BH_ASSERT(s && s->magic == SERVER_MAGIC);
    struct bh_done_item *item = bh_done_queue_next(&s->done);
    return item ? BH_CONTAINER(item, struct bh_bus_request, item) : NULL;
}

/* --- for the caller --- */

const struct bh_val *bh_bus_request_body(const struct bh_bus_request *r)
{
    BH_ASSERT(r && r->magic == REQUEST_MAGIC);
    return r->body;
}

uint32_t bh_bus_request_peer(const struct bh_bus_request *r)
{
    BH_ASSERT(r && r->magic == REQUEST_MAGIC);
    return r->peer_id;
}

void bh_bus_reply(struct bh_bus_request *r, struct bh_val *body)
{
    BH_ASSERT(r && r->magic == REQUEST_MAGIC);
    BH_CLEANUP_VAL struct bh_val *owned = body;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (r->peer && bh_wire_encode(owned, &text, &err) == 0)
        bh_bus_conn_send(r->peer->conn, r->number, text.data, text.len);
    else if (r->peer)
        send_error(r->peer->conn, r->number, err);
    free_request(r);
}

void bh_bus_request_drop(struct bh_bus_request *r)
{
    BH_ASSERT(r && r->magic == REQUEST_MAGIC);
    free_request(r);
}
