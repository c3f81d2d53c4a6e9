/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bus against peers that do not keep to it: a plain socket that speaks just enough of the SP protocol over unix
 * sockets to send what our client never would.
 */
#include <endian.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "artifact-bus/wire.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/unit/artifact-bus/bus_pair.h"

enum { SP_REQ = 0x30, HELLO = 8 };

static int setup(void **state)
{
    struct bus_pair *p = bh_alloc(sizeof(*p));
    bus_pair_open(p, BUS_IPC);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    bus_pair_close(*state);
    bh_free(*state);
    return 0;
}

static void read_full(int fd, void *data, size_t len)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    for (size_t got = 0; got < len;) {
        if (poll(&pfd, 1, PAIR_PATIENCE_MS) != 1)
            fail_msg("nothing came");
        ssize_t n = read(fd, (char *)data + got, len - got);
        if (n <= 0)
            fail_msg("the connection ended");
        got += (size_t)n;
    }
}

static int raw_socket(const struct bus_pair *p)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", p->url + strlen("ipc://"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    T_INT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static int raw_connect(const struct bus_pair *p)
{
    const char hello[HELLO] = {0, 'S', 'P', 0, 0, SP_REQ, 0, 0};
    char theirs[HELLO];
    int fd = raw_socket(p);
    T_INT(bh_write_all(fd, hello, sizeof(hello)), 0);
    read_full(fd, theirs, sizeof(theirs));
    assert_memory_equal(theirs, "\0SP", 3);
    return fd;
}

static void raw_send(int fd, uint64_t claimed, const void *data, size_t len)
{
    struct bh_buf out = BH_BUF_INIT;
    uint64_t size = htobe64(claimed);
    uint32_t id = htobe32(0x80000001u);
    bh_buf_addc(&out, 1);
    bh_buf_add(&out, &size, sizeof(size));
    bh_buf_add(&out, &id, sizeof(id));
    bh_buf_add(&out, data, len);
    T_INT(bh_write_all(fd, out.data, out.len), 0);
    bh_buf_fini(&out);
}

/* The reply's bytes without its header. The server is driven meanwhile by whoever is at the other end of `s`. */
static void raw_reply(struct bh_bus_server *s, int fd, struct bh_buf *out)
{
    unsigned char head[9];
    uint64_t size;
    struct pollfd pfds[2] = {{.fd = fd, .events = POLLIN}, {.fd = bh_bus_server_fd(s), .events = POLLIN}};
    while (!(pfds[0].revents & POLLIN)) {
        if (poll(pfds, 2, PAIR_PATIENCE_MS) < 1)
            fail_msg("no reply came");
        assert_null(bh_bus_server_next(s)); /* what does not decode is never seen */
    }
    read_full(fd, head, sizeof(head));
    memcpy(&size, head + 1, sizeof(size));
    size = be64toh(size);
    assert_in_range(size, 5, 10000);
    read_full(fd, bh_buf_reserve(out, size), size);
    out->len += size;
    bh_buf_consume(out, 4); /* the request id */
}

static void echo_once(struct bus_pair *p)
{
    bus_call_n(p->client, 1, PAIR_LONG_NS);
    bh_bus_reply(bus_next_request(p->server), bus_n(2));
    struct bh_bus_answer a = bus_next_answer(p->client);
    T_INT(a.code, 0);
    bh_val_free(a.body);
}

static const struct {
    const char *data;
    size_t len;
    const char *part;
} bad[] = {
    {"", 0, "does not begin with a protocol version"},
    {"hello", 5, "does not begin with a protocol version"},
    {"\x82\xa1v\x02\xa4"
     "body\xc0",
     10, "of protocol version 2, this side speaks 1"},
    {"\x82\xa1v\x01\xa4"
     "body\xdd\xff\xff\xff\xff",
     14, "claims more values"},
    {"\x82\xa1v\x01\xa5"
     "error\xa2hi",
     13, "refused it: hi"},
};

static void test_undecodable_is_answered(void **state)
{
    struct bus_pair *p = *state;
    BH_CLEANUP_FD int fd = raw_connect(p);
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        BH_CLEANUP_BUF struct bh_buf reply = BH_BUF_INIT;
        struct bh_val *body = NULL;
        raw_send(fd, 4 + bad[i].len, bad[i].data, bad[i].len);
        raw_reply(p->server, fd, &reply);
        T_ERR(bh_wire_decode(reply.data, reply.len, &body, &err), BH_E_PROTOCOL, bad[i].part);
    }
    echo_once(p);
}

/* The connection of whoever claims too much is closed; the others live on. */
static void test_oversize_closes_the_connection(void **state)
{
    struct bus_pair *p = *state;
    static const uint64_t claims[] = {BH_WIRE_MAX_CONTROL + 1024, UINT64_C(1) << 40, UINT64_MAX};
    for (size_t i = 0; i < BH_ARRAY_LEN(claims); i++) {
        BH_CLEANUP_FD int fd = raw_connect(p);
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        char byte;
        raw_send(fd, claims[i], "x", 1);
        T_INT(poll(&pfd, 1, PAIR_PATIENCE_MS), 1);
        assert_true(read(fd, &byte, 1) <= 0);
        echo_once(p);
    }
}

/* They are greeted, say something that is not SP, or nothing, and go. */
static void test_strangers(void **state)
{
    struct bus_pair *p = *state;
    static const char *const lines[] = {"GET / HTTP/1.1\r\n\r\n", "", "\x01"};
    for (size_t i = 0; i < BH_ARRAY_LEN(lines); i++) {
        char theirs[HELLO];
        int fd = raw_socket(p);
        read_full(fd, theirs, sizeof(theirs));
        T_INT(bh_write_all(fd, lines[i], strlen(lines[i])), 0);
        close(fd);
        echo_once(p);
    }
    struct bh_bus_client *late;
    T_OK(bh_bus_client_new(p->url, &late, &err)); /* and new connections are taken still */
    bh_bus_client_free(p->client);
    p->client = late;
    echo_once(p);
}

/* A peer that sends a request and is gone before the answer. */
static void test_gone_before_the_answer(void **state)
{
    struct bus_pair *p = *state;
    static const char request[] = "\x82\xa1v\x01\xa4"
                                  "body\x2a";
    struct bh_bus_request *open[20];
    for (int i = 0; i < 20; i++) {
        int fd = raw_connect(p);
        raw_send(fd, 4 + sizeof(request) - 1, request, sizeof(request) - 1);
        open[i] = bus_next_request(p->server);
        T_INT(bh_val_get_int(bh_bus_request_body(open[i])), 42);
        close(fd);
    }
    for (int i = 0; i < 20; i++)
        bh_bus_reply(open[i], bus_n(i));
    echo_once(p);
}

/* Half a message, and silence: it costs a connection, not the server. */
static void test_half_a_message(void **state)
{
    struct bus_pair *p = *state;
    BH_CLEANUP_FD int fd = raw_connect(p);
    raw_send(fd, 1000, "begin", 5);
    echo_once(p);
}

/* A server that hangs up before it greets, as a dying one does, and then a good one at the same place. */
static void test_client_outlives_a_server_that_hangs_up(void **state)
{
    struct bus_pair *p = *state;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    BH_CLEANUP_FREE char *url = bus_url(BUS_IPC, p->dir);
    struct bus_pair q = {.url = url};
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", url + strlen("ipc://"));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_INT(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    T_INT(listen(listener, 5), 0);
    T_OK(bh_bus_client_new(url, &q.client, &err));
    struct pollfd pfd = {.fd = listener, .events = POLLIN};
    for (int i = 0; i < 5 && poll(&pfd, 1, 300) == 1; i++) /* until it comes no more, or long enough */
        close(accept(listener, NULL, NULL));
    close(listener);
    T_OK(bh_bus_server_new(url, &q.server, &err));
    struct bh_bus_answer a = {.code = -BH_E_UNREACHABLE};
    for (int64_t end = bh_mono_now().ns + 20 * BH_NS_PER_S; a.code != 0 && bh_mono_now().ns < end;) {
        bus_call_n(q.client, 1, 100 * BH_NS_PER_MS); /* a worker tries again until it is heard */
        while (!bh_bus_client_next(q.client, &a)) {
            struct pollfd both[2] = {{.fd = bh_bus_server_fd(q.server), .events = POLLIN},
                                     {.fd = bh_bus_client_fd(q.client), .events = POLLIN}};
            if (poll(both, 2, PAIR_PATIENCE_MS) < 1)
                fail_msg("neither a request nor an answer came");
            struct bh_bus_request *r = bh_bus_server_next(q.server);
            if (r)
                bh_bus_reply(r, bus_n(2));
        }
    }
    T_INT(a.code, 0);
    bh_val_free(a.body);
    bh_bus_client_free(q.client);
    bh_bus_server_free(q.server);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_undecodable_is_answered),
        T(test_oversize_closes_the_connection),
        T(test_strangers),
        T(test_gone_before_the_answer),
        T(test_half_a_message),
        T(test_client_outlives_a_server_that_hangs_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
