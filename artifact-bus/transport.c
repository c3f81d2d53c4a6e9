/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and replies over nng 1.5, which is used here and nowhere else.
 *
 * Both ends use contexts with one aio each. An aio's callback runs on a thread of the library: it touches its own slot
 * alone, puts it into the done queue and is gone; all else happens on the caller's thread. (The one step a callback
 * makes by itself is from "sent" to "receive the reply", which needs no state of ours.)
 *
 *   server slot:  idle → receiving → [done queue] → open (at the caller) → replying → [done queue] → idle
 *   client slot:  idle → sending → receiving → [done queue] → idle
 *
 * Raw sockets are not used because raw REP drops replies beyond 64 without a word. Nothing is ever sent again by the
 * library (RESENDTIME -1): a lost connection ends the calls that were out on it. A slot is taken down in one order:
 * nng_aio_stop (waits for its callback), then its messages, its context, its aio; the socket goes last. nng starts
 * threads on first use and panics in a forked child: nothing in this process may fork after the first call here.
 */
#include "artifact-bus/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/transport/ipc/ipc.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "artifact-bus/done_queue_priv.h"
#include "artifact-bus/wire.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"

#define SERVER_MAGIC 0x42555353u
#define REQUEST_MAGIC 0x42555352u
#define CLIENT_MAGIC 0x42555343u
#define CALL_MAGIC 0x4255534cu

enum {
    RECEIVING = 16,       /* contexts of a server that wait for a request at any time */
    MAX_SLOTS = 65536,    /* contexts of one end: parked requests, or calls outstanding; about 1 kB each */
    REPLY_MS = 30 * 1000, /* a peer that takes no replies for so long gets none */
    RECONNECT_MIN_MS = 10,
    RECONNECT_MAX_MS = 200,
    REDIAL_MS = 200,
    HEADER_ROOM = 64, /* of the library, in front of a message */
};

#define MAX_TIMEOUT_NS (7 * 24 * 3600 * BH_NS_PER_S) /* so that no sum overflows */

/* --- what both ends share --- */

static enum bh_code code_of(int nng_error)
{
    switch (nng_error) {
    case NNG_ENOMEM:
        return BH_E_NOMEM;
    case NNG_EADDRINUSE:
        return BH_E_BUSY;
    case NNG_EADDRINVAL:
        return BH_E_BAD_VALUE;
    case NNG_EPERM:
        return BH_E_PERMISSION;
    case NNG_ETIMEDOUT:
    case NNG_ECONNREFUSED:
    case NNG_ECONNRESET:
    case NNG_ECONNABORTED:
    case NNG_ECLOSED:
    case NNG_ECANCELED:
        return BH_E_UNREACHABLE;
    default:
        return BH_E_HOST;
    }
}

static int set_nng(struct bh_err **err, int nng_error, const char *what, const char *url)
{
    return bh_err_set(err, code_of(nng_error), 0, "%s '%s': %s", what, url, nng_strerror(nng_error));
}

static const char *ipc_path(const char *url)
{
    return bh_starts_with(url, "ipc://") ? url + strlen("ipc://") : NULL;
}

static int check_url(const char *url, struct bh_err **err)
{
    const char *path = ipc_path(url);
    size_t room = sizeof(((struct sockaddr_un *)0)->sun_path);
    if (!path && !bh_starts_with(url, "inproc://"))
        return bh_err_set(err, BH_E_NOT_SUPPORTED, 0, "the bus address '%s' is neither inproc:// nor ipc://", url);
    if (path && strlen(path) < room)
        return 0;
    if (!path)
        return strlen(url) < NNG_MAXADDRLEN ? 0 : bh_err_set(err, BH_E_BAD_VALUE, 0, "the name '%s' is too long", url);
    int rc = bh_err_set(err, BH_E_BAD_VALUE, 0, "the socket path '%s' is longer than the %zu bytes of the kernel", path,
                        room - 1);
    bh_err_hint(err, "use a --home with a shorter path");
    return rc;
}

/* The wire size is checked by our decoder as well: inproc enforces no limit. */
static int set_limits(nng_socket sock)
{
    return nng_socket_set_size(sock, NNG_OPT_RECVMAXSZ, BH_WIRE_MAX_CONTROL + HEADER_ROOM);
}

static nng_msg *make_msg(const struct bh_buf *text)
{
    nng_msg *msg;
    if (nng_msg_alloc(&msg, text->len) != 0)
        return NULL;
    memcpy(nng_msg_body(msg), text->data, text->len);
    return msg;
}

/* After a failed send the message is still with the aio, and ours. */
static void free_unsent(nng_aio *aio)
{
    nng_msg_free(nng_aio_get_msg(aio));
    nng_aio_set_msg(aio, NULL);
}

static int open_slot(nng_socket sock, void (*done)(void *), void *arg, nng_ctx *ret_ctx, nng_aio **ret_aio)
{
    int e = nng_ctx_open(ret_ctx, sock);
    if (e != 0)
        return e;
    e = nng_aio_alloc(ret_aio, done, arg);
    if (e != 0)
        nng_ctx_close(*ret_ctx);
    return e;
}

/* --- server --- */

enum request_state { REQUEST_IDLE, REQUEST_RECEIVING, REQUEST_OPEN, REQUEST_REPLYING };

struct bh_bus_request {
    uint32_t magic;
    struct bh_bus_server *server;
    struct bh_list all;  /* of the server */
    struct bh_list link; /* in the done queue, or idle */
    nng_ctx ctx;
    nng_aio *aio;
    enum request_state state; /* changed by the owner's thread only */
    int result;               /* of the receive, set by the callback before the slot is queued */
    nng_msg *msg;
    struct bh_val *body;
    uint32_t peer;
};

struct bh_bus_server {
    uint32_t magic;
    nng_socket sock;
    bool open;
    bool deaf; /* the library refused a receive: it is closing */
    char *lock_path;
    int lock_fd;
    struct bh_done_queue done;
    struct bh_list all, idle;
    size_t slots, receiving;
};

static void request_done(void *arg)
{
    struct bh_bus_request *r = arg;
    BH_ASSERT(r->magic == REQUEST_MAGIC);
    r->result = nng_aio_result(r->aio);
    if (r->state == REQUEST_RECEIVING && r->result == 0)
        r->msg = nng_aio_get_msg(r->aio);
    else if (r->state == REQUEST_REPLYING && r->result != 0)
        free_unsent(r->aio);
    bh_done_queue_push(&r->server->done, &r->link);
}

static struct bh_bus_request *new_request(struct bh_bus_server *s)
{
    if (s->slots == MAX_SLOTS)
        return NULL;
    struct bh_bus_request *r = bh_alloc(sizeof(*r));
    r->magic = REQUEST_MAGIC;
    r->server = s;
    bh_list_init(&r->link);
    if (open_slot(s->sock, request_done, r, &r->ctx, &r->aio) != 0) {
        bh_free(r);
        return NULL;
    }
    bh_list_append(&s->all, &r->all);
    s->slots++;
    return r;
}

/* No callback of it may run any more. */
static void free_request(struct bh_bus_request *r)
{
    bh_list_remove(&r->all);
    r->magic = 0;
    nng_msg_free(r->msg);
    bh_val_free(r->body);
    nng_ctx_close(r->ctx);
    nng_aio_free(r->aio);
    bh_free(r);
}

/*
 * Parked requests keep their contexts, so whenever one is taken another is opened: a server all of whose contexts are
 * parked hears nothing, heartbeats included. Where none can be had, the next reply that is done frees one.
 */
static void keep_receiving(struct bh_bus_server *s)
{
    while (!s->deaf && s->receiving < RECEIVING) {
        struct bh_bus_request *r;
        if (bh_list_empty(&s->idle)) {
            r = new_request(s);
        } else {
            r = BH_CONTAINER(s->idle.next, struct bh_bus_request, link);
            bh_list_remove(&r->link);
        }
        if (!r)
            return;
        r->state = REQUEST_RECEIVING;
        s->receiving++;
        nng_aio_set_timeout(r->aio, NNG_DURATION_INFINITE);
        nng_ctx_recv(r->ctx, r->aio);
    }
}

static void rest(struct bh_bus_request *r)
{
    bh_val_free(BH_TAKE(r->body));
    r->state = REQUEST_IDLE;
    bh_list_append(&r->server->idle, &r->link);
}

static int check_folder(const char *path, struct bh_err **err)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(path);
    struct stat st;
    if (stat(folder, &st) != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot look at the folder '%s' of the bus socket", folder);
    if ((st.st_mode & 077) == 0)
        return 0;
    int rc = bh_err_set(err, BH_E_PERMISSION, 0, "the folder '%s' of the bus socket is open to other users (mode %o)",
                        folder, (unsigned)st.st_mode & 07777u);
    bh_err_hint(err, "make it mode 0700");
    return rc;
}

static bool is_named(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * One server per path, known before the library looks: it would find out by connecting, and nng 1.5.2 stops accepting
 * for ever when a connection is closed again before it is greeted (nanomsg/nng issue 1518). Who frees the lock removes
 * its file, so one that was got may be of a file that has no name any more.
 */
static int take_path(struct bh_bus_server *s, const char *path, struct bh_err **err)
{
    s->lock_path = bh_asprintf("%s.lock", path);
    do {
        bh_close(s->lock_fd);
        s->lock_fd = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (s->lock_fd < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot make the lock '%s'", s->lock_path);
        if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
            bh_close(BH_TAKE_FD(s->lock_fd));
            return bh_err_set(err, BH_E_BUSY, 0, "another process listens at '%s'", path);
        }
    } while (!is_named(s->lock_fd, s->lock_path));
    if (unlink(path) != 0 && errno != ENOENT) /* of a server that was killed */
        return bh_err_set(err, BH_E_IO, errno, "cannot remove the old socket '%s'", path);
    return 0;
}

static void leave_path(struct bh_bus_server *s)
{
    if (s->lock_fd >= 0)
        (void)unlink(s->lock_path);
    bh_close(BH_TAKE_FD(s->lock_fd));
    bh_free(BH_TAKE(s->lock_path));
}

static int listen_at(struct bh_bus_server *s, const char *url, struct bh_err **err)
{
    nng_listener listener;
    int e = nng_listener_create(&listener, s->sock, url);
    if (e == 0 && ipc_path(url))
        e = nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, 0600);
    if (e == 0)
        e = nng_listener_start(listener, 0);
    return e == 0 ? 0 : set_nng(err, e, "cannot listen at", url);
}

static int start_server(struct bh_bus_server *s, const char *url, struct bh_err **err)
{
    int rc = check_url(url, err);
    if (rc == 0 && ipc_path(url))
        rc = check_folder(ipc_path(url), err);
    if (rc == 0 && ipc_path(url))
        rc = take_path(s, ipc_path(url), err);
    if (rc == 0)
        rc = bh_done_queue_init(&s->done, err);
    if (rc != 0)
        return rc;
    int e = nng_rep0_open(&s->sock);
    s->open = e == 0;
    if (e == 0)
        e = set_limits(s->sock);
    if (e != 0)
        return set_nng(err, e, "cannot open a socket for", url);
    rc = listen_at(s, url, err);
    if (rc != 0)
        return rc;
    keep_receiving(s);
    return s->receiving > 0 ? 0 : bh_err_set(err, BH_E_NOMEM, 0, "cannot receive at '%s'", url);
}

int bh_bus_server_new(const char *url, struct bh_bus_server **ret, struct bh_err **err)
{
    struct bh_bus_server *s = bh_alloc(sizeof(*s));
    s->magic = SERVER_MAGIC;
    s->done.fd = s->lock_fd = -1;
    bh_list_init(&s->all);
    bh_list_init(&s->idle);
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
    for (struct bh_list *l = s->all.next; l != &s->all; l = l->next)
        nng_aio_stop(BH_CONTAINER(l, struct bh_bus_request, all)->aio);
    while (!bh_list_empty(&s->all))
        free_request(BH_CONTAINER(s->all.next, struct bh_bus_request, all));
    if (s->open)
        nng_close(s->sock);
    leave_path(s);
    bh_done_queue_fini(&s->done);
    s->magic = 0;
    bh_free(s);
}

int bh_bus_server_fd(const struct bh_bus_server *s)
{
    BH_ASSERT(s && s->magic == SERVER_MAGIC);
    return s->done.fd;
}

static void send_reply(struct bh_bus_request *r, const struct bh_buf *text)
{
    nng_msg *msg = make_msg(text);
    if (!msg) { /* the caller at the other end runs into its deadline */
        rest(r);
        return;
    }
    bh_val_free(BH_TAKE(r->body));
    r->state = REQUEST_REPLYING;
    nng_aio_set_msg(r->aio, msg);
    nng_aio_set_timeout(r->aio, REPLY_MS);
    nng_ctx_send(r->ctx, r->aio);
}

static void refuse(struct bh_bus_request *r, const struct bh_err *why)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_wire_encode_error(bh_err_message(why), &text);
    send_reply(r, &text);
}

/* Whether a request came of it that the caller should see. */
static bool accept_request(struct bh_bus_request *r)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    nng_msg *msg = BH_TAKE(r->msg);
    r->peer = (uint32_t)nng_pipe_id(nng_msg_get_pipe(msg));
    int rc = bh_wire_decode(nng_msg_body(msg), nng_msg_len(msg), &r->body, &err);
    nng_msg_free(msg);
    if (rc != 0)
        refuse(r, err);
    else
        r->state = REQUEST_OPEN;
    return rc == 0;
}

struct bh_bus_request *bh_bus_server_next(struct bh_bus_server *s)
{
    BH_ASSERT(s && s->magic == SERVER_MAGIC);
    for (;;) {
        keep_receiving(s);
        struct bh_list *item = bh_done_queue_pop(&s->done);
        if (!item)
            return NULL;
        struct bh_bus_request *r = BH_CONTAINER(item, struct bh_bus_request, link);
        if (r->state == REQUEST_REPLYING) {
            rest(r);
            continue;
        }
        s->receiving--;
        if (r->result != 0) {
            s->deaf = true;
            rest(r);
        } else if (accept_request(r)) {
            keep_receiving(s);
            return r;
        }
    }
}

const struct bh_val *bh_bus_request_body(const struct bh_bus_request *r)
{
    BH_ASSERT(r && r->magic == REQUEST_MAGIC && r->state == REQUEST_OPEN);
    return r->body;
}

uint32_t bh_bus_request_peer(const struct bh_bus_request *r)
{
    BH_ASSERT(r && r->magic == REQUEST_MAGIC && r->state == REQUEST_OPEN);
    return r->peer;
}

void bh_bus_reply(struct bh_bus_request *r, struct bh_val *body)
{
    BH_ASSERT(r && r->magic == REQUEST_MAGIC && r->state == REQUEST_OPEN);
    BH_CLEANUP_VAL struct bh_val *owned = body;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (bh_wire_encode(owned, &text, &err) == 0)
        send_reply(r, &text);
    else
        refuse(r, err);
}

void bh_bus_request_drop(struct bh_bus_request *r)
{
    BH_ASSERT(r && r->magic == REQUEST_MAGIC && r->state == REQUEST_OPEN);
    rest(r);
    keep_receiving(r->server);
}

/* --- client --- */

struct call {
    uint32_t magic;
    struct bh_bus_client *client;
    struct bh_list all;
    struct bh_list link; /* in the done queue, or idle */
    nng_ctx ctx;
    nng_aio *aio;
    /* set before the call is sent, read by the callback */
    uint64_t id;
    struct bh_mono deadline;
    /* of the callback until the slot is queued */
    bool sent;
    int result;
    nng_msg *reply;
};

struct bh_bus_client {
    uint32_t magic;
    char *url;
    nng_socket sock;
    nng_dialer dialer;
    struct bh_mono dialed;
    bool open;
    struct bh_done_queue done;
    struct bh_list all, idle;
    size_t slots;
};

/* At least 1 ms, so that "nothing left" is a timeout and not "for ever" or "now". */
static nng_duration ms_until(struct bh_mono deadline)
{
    int64_t ms = (deadline.ns - bh_mono_now().ns) / BH_NS_PER_MS + 1;
    if (ms < 1)
        return 1;
    return ms < INT32_MAX ? (nng_duration)ms : INT32_MAX;
}

static void call_done(void *arg)
{
    struct call *c = arg;
    BH_ASSERT(c->magic == CALL_MAGIC);
    c->result = nng_aio_result(c->aio);
    if (c->result == 0 && !c->sent) {
        c->sent = true;
        nng_aio_set_timeout(c->aio, ms_until(c->deadline));
        nng_ctx_recv(c->ctx, c->aio);
        return;
    }
    if (!c->sent)
        free_unsent(c->aio);
    else if (c->result == 0)
        c->reply = nng_aio_get_msg(c->aio);
    bh_done_queue_push(&c->client->done, &c->link);
}

static struct call *new_call(struct bh_bus_client *client)
{
    struct call *c = bh_alloc(sizeof(*c));
    c->magic = CALL_MAGIC;
    c->client = client;
    bh_list_init(&c->link);
    if (open_slot(client->sock, call_done, c, &c->ctx, &c->aio) != 0) {
        bh_free(c);
        return NULL;
    }
    bh_list_append(&client->all, &c->all);
    client->slots++;
    return c;
}

static void free_call(struct call *c)
{
    bh_list_remove(&c->all);
    c->magic = 0;
    nng_msg_free(c->reply);
    nng_ctx_close(c->ctx);
    nng_aio_free(c->aio);
    bh_free(c);
}

static int dial(struct bh_bus_client *c)
{
    c->dialed = bh_mono_now();
    return nng_dial(c->sock, c->url, &c->dialer, NNG_FLAG_NONBLOCK);
}

/*
 * nng 1.5.2 gives up dialling for ever when a server goes between accepting and greeting (the other half of issue
 * 1518). A call that was never sent says that there was no connection all that time.
 */
static void redial(struct bh_bus_client *c)
{
    if (bh_mono_now().ns - c->dialed.ns < REDIAL_MS * BH_NS_PER_MS)
        return;
    (void)nng_dialer_close(c->dialer);
    int e = dial(c);
    if (e != 0)
        bh_log(BH_LOG_DEBUG, "bus.redial", "url", c->url, "failed", nng_strerror(e), NULL);
}

static int start_client(struct bh_bus_client *c, const char *url, struct bh_err **err)
{
    int rc = check_url(url, err);
    if (rc == 0)
        rc = bh_done_queue_init(&c->done, err);
    if (rc != 0)
        return rc;
    int e = nng_req0_open(&c->sock);
    c->open = e == 0;
    if (e == 0)
        e = set_limits(c->sock);
    if (e == 0)
        e = nng_socket_set_ms(c->sock, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
    if (e == 0)
        e = nng_socket_set_ms(c->sock, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS);
    if (e == 0)
        e = nng_socket_set_ms(c->sock, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS);
    if (e == 0)
        e = dial(c);
    return e == 0 ? 0 : set_nng(err, e, "cannot connect to", url);
}

int bh_bus_client_new(const char *url, struct bh_bus_client **ret, struct bh_err **err)
{
    struct bh_bus_client *c = bh_alloc(sizeof(*c));
    c->magic = CLIENT_MAGIC;
    c->url = bh_strdup(url);
    c->done.fd = -1;
    bh_list_init(&c->all);
    bh_list_init(&c->idle);
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
    for (struct bh_list *l = c->all.next; l != &c->all; l = l->next)
        nng_aio_stop(BH_CONTAINER(l, struct call, all)->aio);
    while (!bh_list_empty(&c->all))
        free_call(BH_CONTAINER(c->all.next, struct call, all));
    if (c->open)
        nng_close(c->sock);
    bh_done_queue_fini(&c->done);
    c->magic = 0;
    bh_free(c->url);
    bh_free(c);
}

int bh_bus_client_fd(const struct bh_bus_client *c)
{
    BH_ASSERT(c && c->magic == CLIENT_MAGIC);
    return c->done.fd;
}

static int take_slot(struct bh_bus_client *client, struct call **ret, struct bh_err **err)
{
    if (!bh_list_empty(&client->idle)) {
        *ret = BH_CONTAINER(client->idle.next, struct call, link);
        bh_list_remove(&(*ret)->link);
        return 0;
    }
    if (client->slots == MAX_SLOTS)
        return bh_err_set(err, BH_E_AGAIN, 0, "%d calls are outstanding on the bus already", MAX_SLOTS);
    *ret = new_call(client);
    return *ret ? 0 : bh_err_set(err, BH_E_NOMEM, 0, "no memory for another call on the bus");
}

int bh_bus_call(struct bh_bus_client *client, uint64_t id, struct bh_val *body, int64_t timeout_ns, struct bh_err **err)
{
    BH_ASSERT(client && client->magic == CLIENT_MAGIC && timeout_ns > 0);
    BH_CLEANUP_VAL struct bh_val *owned = body;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct call *c;
    int rc = bh_wire_encode(owned, &text, err);
    if (rc == 0)
        rc = take_slot(client, &c, err);
    if (rc != 0)
        return rc;
    nng_msg *msg = make_msg(&text);
    if (!msg) {
        bh_list_append(&client->idle, &c->link);
        return bh_err_set(err, BH_E_NOMEM, 0, "no memory for a message of %zu bytes", text.len);
    }
    c->id = id;
    c->deadline.ns = bh_mono_now().ns + (timeout_ns < MAX_TIMEOUT_NS ? timeout_ns : MAX_TIMEOUT_NS);
    c->sent = false;
    c->result = 0;
    nng_aio_set_msg(c->aio, msg);
    nng_aio_set_timeout(c->aio, ms_until(c->deadline));
    nng_ctx_send(c->ctx, c->aio);
    return 0;
}

static void read_answer(struct call *c, struct bh_bus_answer *ret)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    nng_msg *reply = BH_TAKE(c->reply);
    *ret = (struct bh_bus_answer){.id = c->id, .code = -BH_E_UNREACHABLE};
    if (c->result == 0)
        ret->code = bh_wire_decode(nng_msg_body(reply), nng_msg_len(reply), &ret->body, &err);
    nng_msg_free(reply);
    if (ret->code != 0)
        bh_log(BH_LOG_DEBUG, "bus.call", "failed", err ? bh_err_message(err) : nng_strerror(c->result), NULL);
}

bool bh_bus_client_next(struct bh_bus_client *client, struct bh_bus_answer *ret)
{
    BH_ASSERT(client && client->magic == CLIENT_MAGIC);
    struct bh_list *item = bh_done_queue_pop(&client->done);
    if (!item)
        return false;
    struct call *c = BH_CONTAINER(item, struct call, link);
    read_answer(c, ret);
    if (c->result == NNG_ETIMEDOUT && !c->sent)
        redial(client);
    bh_list_append(&client->idle, &c->link);
    return true;
}
