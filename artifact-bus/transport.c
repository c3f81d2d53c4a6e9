/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte streams over nng 1.5, which is used here and nowhere else.
 *
 * Its streams are used and not its sockets: those lose connections, stop listening or never finish closing when a peer
 * goes at the wrong moment (docs/adr/0007). An operation is one aio whose callback runs on a thread of the library: it
 * takes down the result in its own slot, puts the slot into the done queue and is gone. An operation is taken down in
 * one order: nng_aio_stop (which waits for the callback), out of the queue, what it may have brought, the aio.
 *
 * nng starts threads on first use and panics in a forked child: nothing in this process may fork after the first call
 * here.
 */
#include "artifact-bus/transport_priv.h"

#include <nng/nng.h>
#include <nng/transport/ipc/ipc.h>

#include "artifact-bus/bus_address_priv.h"
#include "base/mem.h"

#define OP_MAGIC 0x42555350u

enum { DIAL_MS = 5000 };

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
    case NNG_ENOFILES:
    case NNG_ENOSPC:
        return BH_E_HOST;
    default:
        return BH_E_UNREACHABLE;
    }
}

static int set_nng(struct bh_err **err, int nng_error, const char *what, const char *url)
{
    return bh_err_set(err, code_of(nng_error), 0, "%s '%s': %s", what, url, nng_strerror(nng_error));
}

/* --- ends --- */

struct bh_bus_listener {
    nng_stream_listener *nng;
    struct bh_bus_path path;
    bool own_process; /* inproc: nobody else may connect */
};

static int start_listener(struct bh_bus_listener *l, const char *url, struct bh_err **err)
{
    int rc = bh_bus_url_check(url, err);
    if (rc == 0)
        rc = bh_bus_threads_check(err);
    if (rc == 0 && bh_bus_ipc_path(url))
        rc = bh_bus_path_take(&l->path, bh_bus_ipc_path(url), err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FREE char *stream_url = bh_bus_stream_url(url);
    l->own_process = !bh_bus_ipc_path(url);
    int e = nng_stream_listener_alloc(&l->nng, stream_url);
    if (e == 0)
        e = nng_stream_listener_set_int(l->nng, NNG_OPT_IPC_PERMISSIONS, 0600);
    if (e == 0)
        e = nng_stream_listener_listen(l->nng);
    return e == 0 ? 0 : set_nng(err, e, "cannot listen at", url);
}

int bh_bus_listener_new(const char *url, struct bh_bus_listener **ret, struct bh_err **err)
{
    struct bh_bus_listener *l = bh_alloc(sizeof(*l));
    l->path.lock_fd = -1;
    int rc = start_listener(l, url, err);
    if (rc != 0)
        bh_bus_listener_free(l);
    else
        *ret = l;
    return rc;
}

void bh_bus_listener_free(struct bh_bus_listener *l)
{
    if (!l)
        return;
    if (l->nng) {
        nng_stream_listener_close(l->nng); /* removes the socket */
        nng_stream_listener_free(l->nng);
    }
    bh_bus_path_leave(&l->path);
    bh_free(l);
}

struct bh_bus_dialer {
    nng_stream_dialer *nng;
    bool own_process;
};

int bh_bus_dialer_new(const char *url, struct bh_bus_dialer **ret, struct bh_err **err)
{
    int rc = bh_bus_url_check(url, err);
    if (rc == 0)
        rc = bh_bus_threads_check(err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FREE char *stream_url = bh_bus_stream_url(url);
    nng_stream_dialer *nng;
    int e = nng_stream_dialer_alloc(&nng, stream_url);
    if (e != 0)
        return set_nng(err, e, "cannot connect to", url);
    struct bh_bus_dialer *d = bh_alloc(sizeof(*d));
    d->nng = nng;
    d->own_process = !bh_bus_ipc_path(url);
    *ret = d;
    return 0;
}

void bh_bus_dialer_free(struct bh_bus_dialer *d)
{
    if (!d)
        return;
    nng_stream_dialer_free(d->nng);
    bh_free(d);
}

/* A stream of ours is the library's. */
static nng_stream *nng_of(struct bh_bus_stream *s)
{
    return (nng_stream *)(void *)s;
}

void bh_bus_stream_close(struct bh_bus_stream *s)
{
    nng_stream_close(nng_of(s));
}

void bh_bus_stream_free(struct bh_bus_stream *s)
{
    if (!s)
        return;
    nng_stream_close(nng_of(s));
    nng_stream_free(nng_of(s));
}

static bool is_own_process(nng_stream *s)
{
    uint64_t pid;
    return nng_stream_get_uint64(s, NNG_OPT_IPC_PEER_PID, &pid) == 0 && pid == (uint64_t)getpid();
}

/* --- operations --- */

struct bh_bus_op {
    struct bh_done_item item; /* first: the queue gives it back */
    uint32_t magic;
    struct bh_done_queue *done;
    void (*ended)(void *arg);
    void *arg;
    nng_aio *aio;
    bool busy;
    bool gives_stream, own_process;
    /* the callback's until the slot is queued */
    int result;
    size_t count;
    nng_stream *stream;
};

static void op_callback(void *arg)
{
    struct bh_bus_op *op = arg;
    BH_ASSERT(op->magic == OP_MAGIC);
    op->result = nng_aio_result(op->aio);
    op->count = nng_aio_count(op->aio);
    if (op->gives_stream && op->result == 0)
        op->stream = nng_aio_get_output(op->aio, 0);
    bh_done_queue_push(op->done, &op->item);
}

static void op_run(struct bh_done_item *item)
{
    struct bh_bus_op *op = BH_CONTAINER(item, struct bh_bus_op, item);
    BH_ASSERT(op->magic == OP_MAGIC && op->busy);
    op->busy = false;
    op->ended(op->arg);
}

struct bh_bus_op *bh_bus_op_new(struct bh_done_queue *done, void (*ended)(void *arg), void *arg)
{
    struct bh_bus_op *op = bh_alloc(sizeof(*op));
    op->magic = OP_MAGIC;
    op->done = done;
    op->ended = ended;
    op->arg = arg;
    op->item.run = op_run;
    bh_list_init(&op->item.link);
    if (nng_aio_alloc(&op->aio, op_callback, op) == 0)
        return op;
    bh_free(op);
    return NULL;
}

static void drop_stream(struct bh_bus_op *op)
{
    bh_bus_stream_free((struct bh_bus_stream *)(void *)BH_TAKE(op->stream));
}

void bh_bus_op_free(struct bh_bus_op *op)
{
    if (!op)
        return;
    BH_ASSERT(op->magic == OP_MAGIC);
    nng_aio_stop(op->aio);
    bh_done_queue_remove(op->done, &op->item);
    drop_stream(op);
    nng_aio_free(op->aio);
    op->magic = 0;
    bh_free(op);
}

bool bh_bus_op_busy(const struct bh_bus_op *op)
{
    return op->busy;
}

int bh_bus_op_result(const struct bh_bus_op *op)
{
    return op->result == 0 ? 0 : -(int)code_of(op->result);
}

size_t bh_bus_op_count(const struct bh_bus_op *op)
{
    return op->count;
}

void bh_bus_op_cancel(struct bh_bus_op *op)
{
    if (op->busy)
        nng_aio_cancel(op->aio);
}

static nng_duration to_ms(int64_t ns)
{
    int64_t ms = (ns + BH_NS_PER_MS - 1) / BH_NS_PER_MS;
    if (ms < 1)
        return 1; /* 0 and negative numbers mean other things to the library */
    return ms < INT32_MAX ? (nng_duration)ms : INT32_MAX;
}

static void start(struct bh_bus_op *op, nng_duration timeout)
{
    BH_ASSERT(op->magic == OP_MAGIC && !op->busy);
    op->busy = true;
    op->gives_stream = false;
    nng_aio_set_timeout(op->aio, timeout);
}

void bh_bus_op_sleep(struct bh_bus_op *op, int64_t ns)
{
    start(op, NNG_DURATION_INFINITE);
    nng_sleep_aio(to_ms(ns), op->aio);
}

void bh_bus_op_accept(struct bh_bus_op *op, struct bh_bus_listener *l)
{
    start(op, NNG_DURATION_INFINITE);
    op->gives_stream = true;
    op->own_process = l->own_process;
    nng_stream_listener_accept(l->nng, op->aio);
}

void bh_bus_op_dial(struct bh_bus_op *op, struct bh_bus_dialer *d)
{
    start(op, DIAL_MS);
    op->gives_stream = true;
    op->own_process = d->own_process;
    nng_stream_dialer_dial(d->nng, op->aio);
}

struct bh_bus_stream *bh_bus_op_take_stream(struct bh_bus_op *op)
{
    if (op->stream && op->own_process && !is_own_process(op->stream))
        drop_stream(op);
    return (struct bh_bus_stream *)(void *)BH_TAKE(op->stream);
}

static void set_iov(struct bh_bus_op *op, const void *data, size_t len)
{
    nng_iov iov = {.iov_buf = (void *)data, .iov_len = len};
    BH_ASSERT(nng_aio_set_iov(op->aio, 1, &iov) == 0);
}

void bh_bus_op_recv(struct bh_bus_op *op, struct bh_bus_stream *s, void *data, size_t len)
{
    start(op, NNG_DURATION_INFINITE);
    set_iov(op, data, len);
    nng_stream_recv(nng_of(s), op->aio);
}

void bh_bus_op_send(struct bh_bus_op *op, struct bh_bus_stream *s, const void *data, size_t len, int64_t timeout_ns)
{
    start(op, to_ms(timeout_ns));
    set_iov(op, data, len);
    nng_stream_send(nng_of(s), op->aio);
}
