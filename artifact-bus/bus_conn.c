/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over a byte stream. Reading and writing go on beside each other, each by one operation at a time. What the
 * peer claims is not believed: memory grows with the bytes that have come, and a frame longer than a message may be
 * ends the connection.
 */
#include "artifact-bus/bus_conn_priv.h"

#include "artifact-bus/wire.h"
#include "base/buf.h"
#include "base/mem.h"

#define CONN_MAGIC 0x42555343u
#define BACKLOG_MAX (4 * (size_t)BH_WIRE_MAX_CONTROL)
#define SEND_NS (30 * BH_NS_PER_S) /* without a byte taken by the peer */

enum {
    LENGTH_BYTES = 4,
    NUMBER_BYTES = 8,
    HEAD_BYTES = LENGTH_BYTES + NUMBER_BYTES,
    READ_LITTLE = 8 * 1024, /* the kept size of an idle connection */
    READ_MORE = 256 * 1024, /* while a peer has much to say */
    KEEP_CAP = 64 * 1024,
};

struct bh_bus_conn {
    uint32_t magic;
    struct bh_bus_stream *stream;
    const struct bh_bus_conn_ops *ops;
    void *arg;
    struct bh_bus_op *rx, *tx;
    struct bh_buf in;
    size_t asked;             /* bytes that the read under way may bring */
    struct bh_buf out, later; /* what is being written, and what comes after it */
    size_t written;           /* of out */
};

/* A buffer that a large message has grown is not kept. */
static void shrink(struct bh_buf *buf)
{
    if (buf->len == 0 && buf->cap > KEEP_CAP)
        bh_buf_fini(buf);
}

/* --- reading --- */

struct head {
    uint64_t number;
    size_t len;
};

static uint64_t get(const char *data, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | (unsigned char)data[i];
    return value;
}

static void put(struct bh_buf *out, uint64_t value, size_t bytes)
{
    while (bytes-- > 0)
        bh_buf_addc(out, (char)(value >> 8 * bytes));
}

static struct head read_head(const char *data)
{
    return (struct head){.len = (size_t)get(data, LENGTH_BYTES), .number = get(data + LENGTH_BYTES, NUMBER_BYTES)};
}

static bool take_frames(struct bh_bus_conn *c)
{
    size_t at = 0;
    while (c->in.len - at >= HEAD_BYTES) {
        struct head h = read_head(c->in.data + at);
        if (h.len > BH_WIRE_MAX_CONTROL)
            return false;
        if (c->in.len - at - HEAD_BYTES < h.len)
            break;
        if (!c->ops->frame(c->arg, h.number, c->in.data + at + HEAD_BYTES, h.len))
            return false;
        at += HEAD_BYTES + h.len;
    }
    bh_buf_consume(&c->in, at);
    shrink(&c->in);
    return true;
}

static void read_on(struct bh_bus_conn *c, bool more)
{
    c->asked = more ? READ_MORE : READ_LITTLE;
    bh_bus_op_recv(c->rx, c->stream, bh_buf_reserve(&c->in, c->asked), c->asked);
}

static void rx_ended(void *arg)
{
    struct bh_bus_conn *c = arg;
    BH_ASSERT(c->magic == CONN_MAGIC);
    size_t n = bh_bus_op_count(c->rx);
    bool good = bh_bus_op_result(c->rx) == 0 && n > 0;
    if (good) {
        c->in.len += n;
        good = take_frames(c);
    }
    if (good)
        read_on(c, n == c->asked);
    else
        c->ops->lost(c->arg);
}

/* --- writing --- */

static void write_on(struct bh_bus_conn *c)
{
    if (c->written == c->out.len) {
        struct bh_buf empty = c->out;
        bh_buf_clear(&empty);
        shrink(&empty);
        c->out = c->later;
        c->later = empty;
        c->written = 0;
    }
    if (c->out.len > 0)
        bh_bus_op_send(c->tx, c->stream, c->out.data + c->written, c->out.len - c->written, SEND_NS);
}

static void tx_ended(void *arg)
{
    struct bh_bus_conn *c = arg;
    BH_ASSERT(c->magic == CONN_MAGIC);
    c->written += bh_bus_op_count(c->tx);
    if (bh_bus_op_result(c->tx) == 0)
        write_on(c);
    else
        c->ops->lost(c->arg);
}

void bh_bus_conn_send(struct bh_bus_conn *c, uint64_t number, const void *data, size_t len)
{
    BH_ASSERT(c && c->magic == CONN_MAGIC && len <= BH_WIRE_MAX_CONTROL);
    if (c->later.len > BACKLOG_MAX) { /* the read under way sees the end */
        bh_bus_stream_close(c->stream);
        return;
    }
    put(&c->later, len, LENGTH_BYTES);
    put(&c->later, number, NUMBER_BYTES);
    bh_buf_add(&c->later, data, len);
    if (!bh_bus_op_busy(c->tx))
        write_on(c);
}

/* --- life --- */

struct bh_bus_conn *bh_bus_conn_new(struct bh_done_queue *done, struct bh_bus_stream *stream,
                                    const struct bh_bus_conn_ops *ops, void *arg)
{
    struct bh_bus_conn *c = bh_alloc(sizeof(*c));
    *c = (struct bh_bus_conn){.magic = CONN_MAGIC, .stream = stream, .ops = ops, .arg = arg};
    bh_buf_init(&c->in);
    bh_buf_init(&c->out);
    bh_buf_init(&c->later);
    c->rx = bh_bus_op_new(done, rx_ended, c);
    c->tx = bh_bus_op_new(done, tx_ended, c);
    if (!c->rx || !c->tx) {
        bh_bus_conn_free(c);
        return NULL;
    }
    read_on(c, false);
    return c;
}

void bh_bus_conn_free(struct bh_bus_conn *c)
{
    if (!c)
        return;
    BH_ASSERT(c->magic == CONN_MAGIC);
    bh_bus_op_free(c->rx);
    bh_bus_op_free(c->tx);
    bh_bus_stream_free(c->stream);
    bh_buf_fini(&c->in);
    bh_buf_fini(&c->out);
    bh_buf_fini(&c->later);
    c->magic = 0;
    bh_free(c);
}
