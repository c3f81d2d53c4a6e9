/* SPDX-License-Identifier: Apache-2.0 */
/* The egress broker over real sockets: what clients get, what hosts see, what the worker is told. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/support/t.h"
#include "tests/unit/policies/egress_rig.h"

static int start(void **state)
{
    *state = t_rig_start();
    return 0;
}

static int stop(void **state)
{
    t_rig_stop(*state);
    return 0;
}

/* Asks, and gives the whole answer. */
static void ask(uint16_t port, const char *request, struct bh_buf *ret)
{
    BH_CLEANUP_FD int client = t_rig_client(port);
    t_says(client, request);
    t_hear_all(client, ret);
}

#define HAS(buf, part)                                     \
    do {                                                   \
        if (!strstr((buf).data, part))                     \
            fail_msg("'%s' lacks '%s'", (buf).data, part); \
    } while (0)

/* --- let through --- */

static void a_tunnel_carries_both_ways(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    int client, upstream;
    int64_t up, down;
    t_rig_tunnel(rig, port, "UP.example.", &client, &upstream);
    t_says(client, "hello");
    t_hears(upstream, "hello");
    t_says(upstream, "you too");
    t_hears(client, "you too");
    (void)shutdown(client, SHUT_WR); /* a half that ends leaves the other */
    t_hear(upstream, "", 0);
    t_says(upstream, "!");
    bh_close(upstream);
    t_hears(client, "!");
    bh_close(client);
    t_rig_decision(rig, "up.example", "allow", "listed", &up, &down);
    T_INT(up, 5);
    T_INT(down, 8);
}

static void a_request_goes_up_alone(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT, seen = BH_BUF_INIT;
    BH_CLEANUP_FD int client = t_rig_client(port);
    BH_CLEANUP_FREE char *request = bh_asprintf(
        "POST http://up.example:%u/p HTTP/1.1\r\nHost: evil\r\nContent-Length: 2\r\nProxy-Connection: x\r\n\r\nhi"
        "GET http://up.example:%u/second HTTP/1.1\r\nHost: evil\r\n\r\n",
        rig->upstream_port, rig->upstream_port);
    t_says(client, request);
    int upstream = t_rig_accept(rig);
    t_says(upstream, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Le");
    t_says(upstream, "ngth: 2\r\n\r\nok");
    (void)shutdown(upstream, SHUT_WR);
    t_hear_all(client, &answer);
    T_STR(answer.data,
          "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    bh_close(BH_TAKE_FD(client));
    t_hear_all(upstream, &seen);
    bh_close(upstream);
    BH_CLEANUP_FREE char *want =
        bh_asprintf("POST /p HTTP/1.1\r\nHost: up.example:%u\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
                    rig->upstream_port);
    T_STR(seen.data, want);
    t_rig_decision(rig, "up.example", "allow", "listed", NULL, NULL);
}

static void socks_of_both_kinds(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    unsigned char hi = (unsigned char)(rig->upstream_port >> 8), lo = (unsigned char)rig->upstream_port;
    unsigned char fifth[] = "\5\1\0\3\x0aup.exampleXYearly", fourth[] = "\4\1XY\0\0\0\1me\0up.example\0early";
    fifth[15] = fourth[2] = hi;
    fifth[16] = fourth[3] = lo;
    for (int i = 0; i < 2; i++) {
        BH_CLEANUP_FD int client = t_rig_client(port);
        if (i == 0) {
            t_says(client, "\5\2");
            t_say(client, "\0\1", 2);
            t_hear(client, "\5\0", 2);
        }
        t_say(client, i == 0 ? fifth : fourth, i == 0 ? sizeof(fifth) - 1 : sizeof(fourth) - 1);
        BH_CLEANUP_FD int upstream = t_rig_accept(rig);
        t_hears(upstream, "early");
        t_hear(client, i == 0 ? "\5\0\0\1\0\0\0\0\0\0" : "\0\x5a\0\0\0\0\0\0", i == 0 ? 10 : 8);
        bh_close(BH_TAKE_FD(upstream));
        bh_close(BH_TAKE_FD(client));
        t_rig_decision(rig, "up.example", "allow", "listed", NULL, NULL);
    }
}

static void of_several_addresses_the_permitted(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "mixed.example", NULL);
    int client, upstream;
    t_rig_tunnel(rig, port, "mixed.example", &client, &upstream);
    bh_close(upstream);
    bh_close(client);
    BH_CLEANUP_VAL struct bh_val *v = t_rig_hear(rig, "decision");
    T_STR(bh_val_str_of(v, "address"), "127.0.0.1");
}

/* A name is asked for once a connection, and what was decided about is what is reached. */
static void an_address_is_pinned(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "turning.example", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    int client, upstream;
    t_rig_tunnel(rig, port, "turning.example", &client, &upstream);
    T_INT(*rig->lookups, 1);
    bh_close(upstream);
    bh_close(client);
    t_rig_decision(rig, "turning.example", "allow", "listed", NULL, NULL);
    BH_CLEANUP_FREE char *again =
        bh_asprintf("CONNECT turning.example:%u HTTP/1.1\r\nHost: x\r\n\r\n", rig->upstream_port);
    ask(port, again, &answer);
    HAS(answer, "(loopback)");
    T_INT(*rig->lookups, 2);
}

/* --- refused --- */

static const struct {
    const char *request; /* @: upstream's port */
    const char *status, *host, *reason;
    bool looked_up;
} refusals[] = {
    {"CONNECT other.example:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403 ", "other.example", "not-listed", false},
    {"CONNECT up.example:1 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403 ", "up.example", "not-listed", false},
    {"CONNECT 127.0.0.1:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403 ", "127.0.0.1", "not-listed", false},
    {"CONNECT [::ffff:127.0.0.2]:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403 ", "127.0.0.2", "loopback", false},
    {"CONNECT loop.example:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403 ", "loop.example", "loopback", true},
    {"CONNECT mapped.example:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403 ", "mapped.example", "loopback", true},
    {"CONNECT six.example:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403 ", "six.example", "loopback", true},
    {"CONNECT meta.example:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 403 ", "meta.example", "metadata", true},
    {"GET http://meta.example:@/latest/ HTTP/1.1\r\nHost: up.example\r\n\r\n", "HTTP/1.1 403 ", "meta.example",
     "metadata", true},
    {"GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: up.example\r\n\r\n", "HTTP/1.1 403 ", "169.254.169.254",
     "not-listed", false},
    {"CONNECT 0x7f.1:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 ", "", "bad-host", false},
    {"CONNECT 2130706433:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 ", "", "bad-host", false},
    {"GET / HTTP/1.1\r\nHost: up.example\r\n\r\n", "HTTP/1.1 400 ", "", "bad-request", false},
    {"GET http://up.example:@/ HTTP/1.1\r\nHost: x\r\nA: b\nEvil: c\r\n\r\n", "HTTP/1.1 400 ", "", "bad-request",
     false},
    {"GET http://up.example:@/\r\nEvil: x HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 ", "", "bad-request", false},
    {"\x16\x03\x01\x02", "HTTP/1.1 400 ", "", "bad-request", false}, /* TLS */
    {"CONNECT nothing.example:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 502 ", "nothing.example", "unresolved", true},
    {"CONNECT broken.example:@ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 504 ", "broken.example", "lookup-failed", true},
};

static void refused_with_a_reason(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1,
                               "up.example,loop.example,mapped.example,six.example,meta.example,nothing.example,"
                               "broken.example,[::ffff:127.0.0.2]",
                               NULL);
    for (size_t i = 0; i < BH_ARRAY_LEN(refusals); i++) {
        BH_CLEANUP_BUF struct bh_buf request = BH_BUF_INIT, answer = BH_BUF_INIT;
        bool failed = bh_streq(refusals[i].reason, "unresolved") || bh_streq(refusals[i].reason, "lookup-failed");
        int before = *rig->lookups;
        for (const char *s = refusals[i].request; *s; s++) {
            if (*s == '@')
                bh_buf_addf(&request, "%u", rig->upstream_port);
            else
                bh_buf_addc(&request, *s);
        }
        ask(port, request.data, &answer);
        BH_CLEANUP_FREE char *header = bh_asprintf("\r\nX-Bulkhead-Reason: %s\r\n", refusals[i].reason);
        HAS(answer, refusals[i].status);
        HAS(answer, header);
        t_rig_decision(rig, refusals[i].host, failed ? "allow" : "deny", refusals[i].reason, NULL, NULL);
        if (*rig->lookups - before != refusals[i].looked_up)
            fail_msg("%s: %d lookups", refusals[i].request, *rig->lookups - before);
    }
}

static void a_denial_says_what_to_add(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    ask(port, "CONNECT Other.example.:443 HTTP/1.1\r\nHost: x\r\n\r\n", &answer);
    HAS(answer, "HTTP/1.1 403 Forbidden by bulkhead (not-listed): add \"other.example:443\" to network.allow of agent "
                "'fetch' (phase 'run')\r\n");
    HAS(answer, "\r\n\r\nbulkhead: other.example:443 is not in the allow-list\nhint: add \"other.example:443\" to "
                "network.allow of agent 'fetch' (phase 'run')\n");
    t_rig_decision(rig, "other.example", "deny", "not-listed", NULL, NULL);
}

/* A box learns nothing of what addresses names have on the host's networks. */
static void a_denial_names_no_address(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "loop.example", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    BH_CLEANUP_FREE char *request =
        bh_asprintf("CONNECT loop.example:%u HTTP/1.1\r\nHost: x\r\n\r\n", rig->upstream_port);
    ask(port, request, &answer);
    HAS(answer, "loop.example");
    assert_null(strstr(answer.data, "127.0.0"));
    BH_CLEANUP_VAL struct bh_val *v = t_rig_hear(rig, "decision");
    T_STR(bh_val_str_of(v, "address"), "127.0.0.2");
}

static void socks_refuses_by_number(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    BH_CLEANUP_FD int client = t_rig_client(port);
    t_say(client, "\5\1\0", 3);
    t_hear(client, "\5\0", 2);
    t_say(client, "\5\1\0\1\x7f\0\0\1\0\x16", 10);
    t_hear(client, "\5\2\0\1\0\0\0\0\0\0", 10);
    t_rig_decision(rig, "127.0.0.1", "deny", "not-listed", NULL, NULL);
}

#define NOTES "{},\"notes\":true"

static void expect_silence(int fd)
{
    char byte;
    T_INT(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    T_INT(errno, EAGAIN);
}

static void expect_opened(struct t_rig *rig, int64_t connection)
{
    BH_CLEANUP_VAL struct bh_val *v = t_rig_hear(rig, "decision");
    T_STR(bh_val_str_of(v, "state"), "open");
    T_STR(bh_val_str_of(v, "verdict"), "allow");
    T_STR(bh_val_str_of(v, "host"), "up.example");
    T_STR(bh_val_str_of(v, "address"), "127.0.0.1");
    T_INT(bh_val_int_of(v, "connection"), connection);
}

/* Asks for it and says a word at once; it is connected, and that is all. */
static void open_noted(struct t_rig *rig, uint16_t port, int64_t connection, int *ret_client, int *ret_upstream)
{
    BH_CLEANUP_FREE char *request =
        bh_asprintf("CONNECT up.example:%u HTTP/1.1\r\nHost: x\r\n\r\nword", rig->upstream_port);
    *ret_client = t_rig_client(port);
    t_says(*ret_client, request);
    *ret_upstream = t_rig_accept(rig);
    expect_opened(rig, connection);
    expect_silence(*ret_client);
    expect_silence(*ret_upstream);
}

static void not_a_byte_before_it_is_noted(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NOTES);
    int client, upstream, other, other_upstream;
    open_noted(rig, port, 1, &client, &upstream);
    open_noted(rig, port, 2, &other, &other_upstream);
    t_rig_send(rig, "{\"op\":\"noted\",\"id\":1,\"connection\":1,\"ok\":true}", -1);
    t_hears(client, "HTTP/1.1 200 Connection established\r\n\r\n");
    t_hears(upstream, "word");
    expect_silence(other_upstream);
    bh_close(client);
    bh_close(upstream);
    BH_CLEANUP_VAL struct bh_val *v = t_rig_hear(rig, "decision");
    T_STR(bh_val_str_of(v, "state"), "closed");
    T_INT(bh_val_int_of(v, "connection"), 1);
    T_INT(bh_val_int_of(v, "up"), 4);
    bh_close(other);
    bh_close(other_upstream);
}

static void what_cannot_be_noted_is_refused(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NOTES);
    int client, upstream;
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    t_rig_send(rig, "{\"op\":\"noted\",\"id\":7,\"connection\":1,\"ok\":true}", -1); /* of what is closed by now */
    open_noted(rig, port, 1, &client, &upstream);
    t_rig_send(rig, "{\"op\":\"noted\",\"id\":1,\"connection\":1,\"ok\":false}", -1);
    t_hear_all(client, &answer);
    HAS(answer, "HTTP/1.1 503 ");
    HAS(answer, "could not be written to the audit log");
    expect_silence(upstream);
    t_rig_decision(rig, "up.example", "deny", "not-noted", NULL, NULL);
    bh_close(client);
    bh_close(upstream);
}

/* The client follows by itself, which is another question. */
static void a_redirect_is_another_decision(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    BH_CLEANUP_BUF struct bh_buf first = BH_BUF_INIT, second = BH_BUF_INIT;
    BH_CLEANUP_FD int client = t_rig_client(port);
    BH_CLEANUP_FREE char *request =
        bh_asprintf("GET http://up.example:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", rig->upstream_port);
    t_says(client, request);
    int upstream = t_rig_accept(rig);
    BH_CLEANUP_FREE char *seen =
        bh_asprintf("GET / HTTP/1.1\r\nHost: up.example:%u\r\nConnection: close\r\n\r\n", rig->upstream_port);
    t_hears(upstream, seen);
    t_says(upstream, "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\n\r\n");
    bh_close(upstream);
    t_hear_all(client, &first);
    HAS(first, "Location: http://169.254.169.254/latest/");
    bh_close(BH_TAKE_FD(client));
    t_rig_decision(rig, "up.example", "allow", "listed", NULL, NULL);
    ask(port, "GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", &second);
    HAS(second, "HTTP/1.1 403 ");
    t_rig_decision(rig, "169.254.169.254", "deny", "not-listed", NULL, NULL);
}

static void a_host_that_refuses(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    bh_close(BH_TAKE_FD(rig->upstream));
    BH_CLEANUP_FREE char *request =
        bh_asprintf("CONNECT up.example:%u HTTP/1.1\r\nHost: x\r\n\r\n", rig->upstream_port);
    ask(port, request, &answer);
    HAS(answer, "HTTP/1.1 502 Bad Gateway by bulkhead (refused)");
    t_rig_decision(rig, "up.example", "allow", "refused", NULL, NULL);
}

static void answers_that_are_none(void **state)
{
    static const char *const bad[] = {"220 smtp.example ESMTP\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", "",
                                      "HTTP/1.1 101 Switching Protocols\r\n\r\n"};
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
        BH_CLEANUP_FD int client = t_rig_client(port);
        BH_CLEANUP_FREE char *request =
            bh_asprintf("GET http://up.example:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", rig->upstream_port);
        t_says(client, request);
        BH_CLEANUP_FD int upstream = t_rig_accept(rig);
        t_says(upstream, bad[i]);
        (void)shutdown(upstream, SHUT_WR);
        t_hear_all(client, &answer);
        HAS(answer, "HTTP/1.1 502 Bad Gateway by bulkhead (bad-answer)");
        t_rig_decision(rig, "up.example", "allow", "bad-answer", NULL, NULL);
    }
}

/* --- phases --- */

static void a_phase_cuts_what_the_former_began(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    BH_CLEANUP_BUF struct bh_buf left = BH_BUF_INIT, answer = BH_BUF_INIT;
    int client, upstream;
    t_rig_tunnel(rig, port, "up.example", &client, &upstream);
    t_rig_send(rig, "{\"op\":\"policy\",\"id\":1,\"phase\":\"check\",\"policy\":{\"kind\":\"none\"}}", -1);
    t_rig_decision(rig, "up.example", "allow", "phase", NULL, NULL);
    bh_val_free(t_rig_hear(rig, "ready"));
    t_hear_all(client, &left);
    T_INT(left.len, 0);
    bh_close(client);
    bh_close(upstream);
    ask(port, "CONNECT up.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", &answer);
    HAS(answer, "(network-none): add \"up.example:443\" to network.allow of agent 'fetch' (phase 'check')");
    t_rig_decision(rig, "up.example", "deny", "network-none", NULL, NULL);
}

/* More than are taken in at once: those that wait asked for it before the phase that allows it. */
static void a_phase_has_nothing_that_waited_since_the_former(void **state)
{
    struct t_rig *rig = *state;
    enum { CLIENTS = 8, AT_ONCE = 2 };
    uint16_t port = t_rig_open(rig, 1, "other.example", "{\"rate\":1}");
    BH_CLEANUP_FREE char *policy = t_rig_policy(rig, "up.example");
    BH_CLEANUP_FREE char *change = bh_asprintf("{\"op\":\"policy\",\"id\":1,\"phase\":\"run\",\"policy\":%s}", policy);
    BH_CLEANUP_FREE char *request =
        bh_asprintf("CONNECT up.example:%u HTTP/1.1\r\nHost: x\r\n\r\n", rig->upstream_port);
    int clients[CLIENTS];
    char byte;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = t_rig_client(port);
        t_says(clients[i], request);
    }
    for (int i = 0; i < AT_ONCE; i++)
        t_rig_decision(rig, "up.example", "deny", "not-listed", NULL, NULL);
    t_rig_send(rig, change, -1);
    bh_val_free(t_rig_hear(rig, "ready"));
    for (int i = AT_ONCE; i < CLIENTS; i++)
        assert_true(recv(clients[i], &byte, 1, 0) <= 0);
    for (int i = 0; i < CLIENTS; i++)
        bh_close(clients[i]);
}

static void closed_comes_after_the_last_decision(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 7, "up.example", NULL);
    int client, upstream;
    t_rig_tunnel(rig, port, "up.example", &client, &upstream);
    t_rig_send(rig, "{\"op\":\"close\",\"id\":7}", -1);
    t_rig_decision(rig, "up.example", "allow", "closed", NULL, NULL);
    BH_CLEANUP_VAL struct bh_val *v = t_rig_hear(rig, "closed");
    T_INT(bh_val_int_of(v, "id"), 7);
    bh_close(client);
    bh_close(upstream);
}

static void what_the_worker_says_wrongly_fails(void **state)
{
    static const struct {
        const char *json, *message;
    } bad[] = {
        {"{\"op\":\"open\",\"id\":2,\"policy\":{\"kind\":\"none\"}}", "no listening socket came with 'open'"},
        {"{\"op\":\"policy\",\"id\":9,\"policy\":{\"kind\":\"none\"}}", "'policy' of what is not open"},
        {"{\"op\":\"close\",\"id\":9}", "'close' of what is not open"},
        {"{\"op\":\"policy\",\"id\":1,\"policy\":{\"kind\":\"host\"}}", "'host' is no kind of network"},
    };
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        t_rig_send(rig, bad[i].json, -1);
        BH_CLEANUP_VAL struct bh_val *v = t_rig_hear(rig, "failed");
        T_STR(bh_val_str_of(v, "message"), bad[i].message);
    }
    /* and there is no way out any more */
    BH_CLEANUP_FD int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    T_INT(connect(client, (const struct sockaddr *)&to, sizeof(to)), -1);
    T_INT(errno, ECONNREFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_tunnel_carries_both_ways, start, stop),
        cmocka_unit_test_setup_teardown(a_request_goes_up_alone, start, stop),
        cmocka_unit_test_setup_teardown(socks_of_both_kinds, start, stop),
        cmocka_unit_test_setup_teardown(of_several_addresses_the_permitted, start, stop),
        cmocka_unit_test_setup_teardown(an_address_is_pinned, start, stop),
        cmocka_unit_test_setup_teardown(refused_with_a_reason, start, stop),
        cmocka_unit_test_setup_teardown(a_denial_says_what_to_add, start, stop),
        cmocka_unit_test_setup_teardown(a_denial_names_no_address, start, stop),
        cmocka_unit_test_setup_teardown(socks_refuses_by_number, start, stop),
        cmocka_unit_test_setup_teardown(a_redirect_is_another_decision, start, stop),
        cmocka_unit_test_setup_teardown(a_host_that_refuses, start, stop),
        cmocka_unit_test_setup_teardown(answers_that_are_none, start, stop),
        cmocka_unit_test_setup_teardown(a_phase_cuts_what_the_former_began, start, stop),
        cmocka_unit_test_setup_teardown(not_a_byte_before_it_is_noted, start, stop),
        cmocka_unit_test_setup_teardown(what_cannot_be_noted_is_refused, start, stop),
        cmocka_unit_test_setup_teardown(a_phase_has_nothing_that_waited_since_the_former, start, stop),
        cmocka_unit_test_setup_teardown(closed_comes_after_the_last_decision, start, stop),
        cmocka_unit_test_setup_teardown(what_the_worker_says_wrongly_fails, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
