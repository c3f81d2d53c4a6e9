/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bus against peers that do not keep to it: plain sockets that send what our client never would, or answer as our
 * server never would.
 */
#include <arpa/inet.h>
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

enum { HEAD = 12 };

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

/* A frame that claims `claimed` bytes and has `len`. */
static void raw_send(int fd, uint32_t claimed, const void *data, size_t len)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    uint32_t size = htonl(claimed);
    bh_buf_add(&out, &size, sizeof(size));
    bh_buf_add(&out, "\0\0\0\0\0\0\0\x07", 8);
    bh_buf_add(&out, data, len);
    T_INT(bh_write_all(fd, out.data, out.len), 0);
}

/* Waits for `fd` while the server, which must see no request, is driven. */
static void wait_driving(struct bh_bus_server *s, int fd)
{
    struct pollfd pfds[2] = {{.fd = fd, .events = POLLIN}, {.fd = bh_bus_server_fd(s), .events = POLLIN}};
    while (!pfds[0].revents) {
        if (poll(pfds, 2, PAIR_PATIENCE_MS) < 1)
            fail_msg("nothing came");
        assert_null(bh_bus_server_next(s));
    }
}

static void raw_reply(struct bh_bus_server *s, int fd, struct bh_buf *out)
{
    unsigned char head[HEAD];
    uint32_t size;
    wait_driving(s, fd);
    read_full(fd, head, sizeof(head));
    assert_memory_equal(head + 4, "\0\0\0\0\0\0\0\x07", 8);
    memcpy(&size, head, sizeof(size));
    size = ntohl(size);
    assert_in_range(size, 1, 10000);
    read_full(fd, bh_buf_reserve(out, size), size);
    out->len += size;
}

static void echo_once(struct bus_pair *p)
{
    bus_call_n(p->client, 1, PAIR_LONG_NS);
    bh_bus_reply(bus_pair_request(p), bus_n(2));
    struct bh_bus_answer a = bus_pair_answer(p);
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
    BH_CLEANUP_FD int fd = raw_socket(p);
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        BH_CLEANUP_BUF struct bh_buf reply = BH_BUF_INIT;
        struct bh_val *body = NULL;
        raw_send(fd, (uint32_t)bad[i].len, bad[i].data, bad[i].len);
        raw_reply(p->server, fd, &reply);
        T_ERR(bh_wire_decode(reply.data, reply.len, &body, &err), BH_E_PROTOCOL, bad[i].part);
    }
    echo_once(p);
}

/* The connection of whoever claims too much is closed; the others live on. */
static void test_oversize_closes_the_connection(void **state)
{
    struct bus_pair *p = *state;
    static const uint32_t claims[] = {BH_WIRE_MAX_CONTROL + 1, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < BH_ARRAY_LEN(claims); i++) {
        BH_CLEANUP_FD int fd = raw_socket(p);
        char byte;
        raw_send(fd, claims[i], "x", 1);
        wait_driving(p->server, fd);
        assert_true(read(fd, &byte, 1) <= 0);
        echo_once(p);
    }
}

/* Memory grows with the bytes that have come, not with what was claimed. */
static void test_largest_claim_costs_nothing(void **state)
{
    struct bus_pair *p = *state;
    int fds[64];
    for (size_t i = 0; i < BH_ARRAY_LEN(fds); i++) {
        fds[i] = raw_socket(p);
        raw_send(fds[i], BH_WIRE_MAX_CONTROL, "x", 1);
    }
    echo_once(p);
    for (size_t i = 0; i < BH_ARRAY_LEN(fds); i++)
        close(fds[i]);
    echo_once(p);
}

/* They say something that is no frame, or nothing, and go, before or after they were accepted. */
static void test_strangers(void **state)
{
    struct bus_pair *p = *state;
    static const char *const lines[] = {"GET / HTTP/1.1\r\n\r\n", "", "\x01"};
    for (size_t i = 0; i < 60; i++) {
        const char *line = lines[i % BH_ARRAY_LEN(lines)];
        int fd = raw_socket(p);
        T_INT(bh_write_all(fd, line, strlen(line)), 0);
        if (i % 2)
            echo_once(p);
        close(fd);
    }
    echo_once(p);
    bh_bus_client_free(p->client);
    T_OK(bh_bus_client_new(p->url, &p->client, &err)); /* and new connections are taken still */
    echo_once(p);
}

/* Clients that go as soon as they have come. */
static void test_short_lives(void **state)
{
    struct bus_pair *p = *state;
    for (int i = 0; i < 200; i++) {
        struct bh_bus_client *c;
        T_OK(bh_bus_client_new(p->url, &c, &err));
        bus_call_n(c, 1, PAIR_LONG_NS);
        bh_bus_client_free(c);
    }
    bus_call_n(p->client, 77, PAIR_LONG_NS);
    for (;;) { /* some of theirs may have come through */
        struct bh_bus_request *r = bus_pair_request(p);
        bool mine = bus_n_of(bh_bus_request_body(r)) == 77;
        bh_bus_reply(r, bus_n(0));
        if (mine)
            break;
    }
    struct bh_bus_answer a = bus_pair_answer(p);
    T_INT(a.code, 0);
    bh_val_free(a.body);
}

/* Takes what has come; each is the same request. */
static int drop_requests(struct bh_bus_server *s)
{
    int n = 0;
    for (struct bh_bus_request *r; (r = bh_bus_server_next(s)) != NULL; n++) {
        T_INT(bh_val_get_int(bh_bus_request_body(r)), 42);
        bh_bus_request_drop(r);
    }
    return n;
}

/* Frames that come in pieces, and several in one piece. */
static void test_pieces(void **state)
{
    struct bus_pair *p = *state;
    static const char body[] = "\x82\xa1v\x01\xa4"
                               "body\x2a";
    BH_CLEANUP_FD int fd = raw_socket(p);
    BH_CLEANUP_BUF struct bh_buf stream = BH_BUF_INIT;
    uint32_t size = htonl(sizeof(body) - 1);
    for (int i = 0; i < 50; i++) {
        bh_buf_add(&stream, &size, sizeof(size));
        bh_buf_add(&stream, "\0\0\0\0\0\0\0\x07", 8);
        bh_buf_add(&stream, body, sizeof(body) - 1);
    }
    int seen = 0;
    size_t half = stream.len / 2 / 5 * 5;
    for (size_t i = 0; i < half; i += 5) {
        T_INT(bh_write_all(fd, stream.data + i, 5), 0);
        seen += drop_requests(p->server);
    }
    T_INT(bh_write_all(fd, stream.data + half, stream.len - half), 0);
    struct pollfd pfd = {.fd = bh_bus_server_fd(p->server), .events = POLLIN};
    while (seen < 50) {
        T_INT(poll(&pfd, 1, PAIR_PATIENCE_MS), 1);
        seen += drop_requests(p->server);
    }
    T_INT(seen, 50);
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
        int fd = raw_socket(p);
        raw_send(fd, sizeof(request) - 1, request, sizeof(request) - 1);
        open[i] = bus_pair_request(p);
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
    BH_CLEANUP_FD int fd = raw_socket(p);
    raw_send(fd, 1000, "begin", 5);
    echo_once(p);
}

/* --- servers that do not keep to it --- */

struct raw_server {
    char *url;
    int listener, fd;
    struct bh_bus_client *client;
};

static void raw_server_open(const struct bus_pair *p, struct raw_server *s)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    s->url = bus_url(BUS_IPC, p->dir);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", s->url + strlen("ipc://"));
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_INT(bind(s->listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    T_INT(listen(s->listener, 5), 0);
    T_OK(bh_bus_client_new(s->url, &s->client, &err));
}

/* Waits for `fd` while the client, to which no answer may come, is driven. */
static void wait_driving_client(struct raw_server *s, int fd)
{
    struct pollfd pfds[2] = {{.fd = fd, .events = POLLIN}, {.fd = bh_bus_client_fd(s->client), .events = POLLIN}};
    while (!pfds[0].revents) {
        struct bh_bus_answer a;
        if (poll(pfds, 2, PAIR_PATIENCE_MS) < 1)
            fail_msg("nothing came from the client");
        assert_false(bh_bus_client_next(s->client, &a));
    }
}

static int raw_accept(struct raw_server *s)
{
    wait_driving_client(s, s->listener);
    return accept(s->listener, NULL, NULL);
}

static void raw_server_close(struct raw_server *s)
{
    bh_bus_client_free(s->client);
    close(s->listener);
    bh_free(s->url);
}

/* One that hangs up, as a dying one does, and then a good one at the same place. */
static void test_client_outlives_a_server_that_hangs_up(void **state)
{
    struct bus_pair *p = *state;
    struct raw_server s;
    raw_server_open(p, &s);
    for (int i = 0; i < 5; i++)
        close(raw_accept(&s));
    close(s.listener);
    s.listener = -1;
    struct bus_pair good = {.client = s.client};
    T_OK(bh_bus_server_new(s.url, &good.server, &err));
    bus_pair_insist(&good);
    bh_bus_server_free(good.server);
    bus_pair_forget(&good);
    raw_server_close(&s);
}

static const struct {
    const char *bytes;
    size_t len;
    int code;
} bad_replies[] = {
    {"\0\0\0\x05\0\0\0\x01\0\0\0\0hello", 17, -BH_E_PROTOCOL},
    {"\0\0\0\0\0\0\0\x01\0\0\0\0", 12, -BH_E_PROTOCOL},
    {"\xff\xff\xff\xff\0\0\0\x01\0\0\0\0", 12, -BH_E_UNREACHABLE},
    {"HTTP/1.1 400 Bad Request\r\n", 26, -BH_E_UNREACHABLE},
    {"\0\0\0", 3, -BH_E_UNREACHABLE}, /* and the end */
};

static void test_replies_that_are_none(void **state)
{
    struct bus_pair *p = *state;
    struct raw_server s;
    raw_server_open(p, &s);
    for (size_t i = 0; i < BH_ARRAY_LEN(bad_replies); i++) {
        struct bh_bus_client *fresh;
        char request[100];
        bh_bus_client_free(s.client);
        T_OK(bh_bus_client_new(s.url, &fresh, &err));
        s.client = fresh;
        bus_call_n(s.client, 5, PAIR_LONG_NS);
        int fd = -1;
        do { /* the connections of the clients before it are still in the line */
            bh_close(fd);
            fd = raw_accept(&s);
            wait_driving_client(&s, fd);
        } while (recv(fd, request, 1, MSG_PEEK) <= 0);
        T_INT(bh_write_all(fd, bad_replies[i].bytes, bad_replies[i].len), 0);
        if (bad_replies[i].len < HEAD)
            shutdown(fd, SHUT_WR);
        struct bh_bus_answer a = bus_next_answer(s.client);
        T_INT(a.id, 5);
        T_INT(a.code, bad_replies[i].code);
        close(fd);
    }
    raw_server_close(&s);
}

/* Numbers of calls that were never made, or are over. */
static void test_replies_to_nothing(void **state)
{
    struct bus_pair *p = *state;
    struct raw_server s;
    static const char *const heads[] = {"\0\0\0\x0a\0\0\0\0\0\0\0\0", "\0\0\0\x0a\0\0\0\x02\0\0\0\0",
                                        "\0\0\0\x0a\0\0\0\x01\0\0\0\x01", "\0\0\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff",
                                        "\0\0\0\x0a\0\0\0\x01\0\0\0\0"};
    raw_server_open(p, &s);
    bus_call_n(s.client, 5, PAIR_LONG_NS);
    int fd = raw_accept(&s);
    for (size_t i = 0; i < BH_ARRAY_LEN(heads); i++) {
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        bh_buf_add(&out, heads[i], HEAD);
        bh_buf_add(&out, "\x82\xa1v\x01\xa4", 5);
        bh_buf_add(&out, "body", 4);
        bh_buf_addc(&out, (char)i);
        T_INT(bh_write_all(fd, out.data, out.len), 0);
    }
    struct bh_bus_answer a = bus_next_answer(s.client);
    T_INT(a.code, 0);
    T_INT(bh_val_get_int(a.body), BH_ARRAY_LEN(heads) - 1);
    bh_val_free(a.body);
    close(fd);
    raw_server_close(&s);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_undecodable_is_answered),
        T(test_oversize_closes_the_connection),
        T(test_largest_claim_costs_nothing),
        T(test_strangers),
        T(test_short_lives),
        T(test_pieces),
        T(test_gone_before_the_answer),
        T(test_half_a_message),
        T(test_client_outlives_a_server_that_hangs_up),
        T(test_replies_that_are_none),
        T(test_replies_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
