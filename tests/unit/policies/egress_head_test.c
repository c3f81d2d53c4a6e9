/* SPDX-License-Identifier: Apache-2.0 */
/* What clients and hosts say to the egress broker: what goes on of it, and what is refused. */
#include "policies/broker/egress_head.h"
#include "policies/broker/egress_socks.h"
#include "tests/support/t.h"

#define OK BH_EGRESS_LISTED
#define BAD BH_EGRESS_BAD_REQUEST

static const struct {
    const char *in;
    enum bh_egress_reason reason;
    const char *to, *out; /* "host port"; what goes upstream */
} requests[] = {
    {"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", OK, "example.org 443", ""},
    {"CONNECT example.org:443 HTTP/1.0\r\n\r\n", OK, "example.org 443", ""},
    {"CONNECT EXAMPLE.org.:443 HTTP/1.1\r\nHost: x\r\n\r\n", OK, "example.org 443", ""},
    {"CONNECT [::1]:443 HTTP/1.1\r\nHost: x\r\n\r\n", OK, "::1 443", ""},
    {"CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\nHost: x\r\n\r\n", OK, "127.0.0.1 443", ""},
    {"CONNECT example.org HTTP/1.1\r\nHost: x\r\n\r\n", BH_EGRESS_BAD_HOST, NULL, NULL},
    {"CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: x\r\n\r\n", BH_EGRESS_BAD_HOST, NULL, NULL},
    {"CONNECT 2130706433:443 HTTP/1.1\r\nHost: x\r\n\r\n", BH_EGRESS_BAD_HOST, NULL, NULL},
    {"CONNECT http://example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", BH_EGRESS_BAD_HOST, NULL, NULL},
    {"CONNECT *.example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", BH_EGRESS_BAD_HOST, NULL, NULL},
    {"CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", BAD, NULL, NULL},
    {"GET http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\n\r\n", OK, "example.org 80",
     "GET /a?b HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n"},
    {"GET http://Example.org:8080 HTTP/1.0\r\n\r\n", OK, "example.org 8080",
     "GET / HTTP/1.1\r\nHost: example.org:8080\r\nConnection: close\r\n\r\n"},
    {"GET http://example.org?q HTTP/1.1\r\nHost: x\r\n\r\n", OK, "example.org 80",
     "GET /?q HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n"},
    {"GET http://[::1]:81/ HTTP/1.1\r\nHost: x\r\n\r\n", OK, "::1 81",
     "GET / HTTP/1.1\r\nHost: [::1]:81\r\nConnection: close\r\n\r\n"},
    /* who is asked is what was decided about, and what is for this hop stays here */
    {"GET http://a.example/ HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\nProxy-Connection: "
     "keep-alive\r\n"
     "Connection: x-secret, keep-alive\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nTE: trailers\r\nAccept: "
     "*/*\r\n\r\n",
     OK, "a.example 80", "GET / HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nConnection: close\r\n\r\n"},
    /* Connection cannot take the framing away */
    {"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\n", OK,
     "a.example 80", "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"},
    {"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", OK, "a.example 80",
     "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"},
    {"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", BAD, NULL, NULL},
    {"GET https://example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"GET ftp://example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"GET http://u:p@example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example@b.example/ HTTP/1.1\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example/#b HTTP/1.1\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"GET http:///x HTTP/1.1\r\nHost: x\r\n\r\n", BH_EGRESS_BAD_HOST, NULL, NULL},
    {"GET http://a.example:/ HTTP/1.1\r\nHost: x\r\n\r\n", BH_EGRESS_BAD_HOST, NULL, NULL},
    {"GET http://0177.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n", BH_EGRESS_BAD_HOST, NULL, NULL},
    {"GET http://a.example/ HTTP/2.0\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example/\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"GET  http://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"G(T http://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example/ HTTP/1.1\nHost: x\n\n", BAD, NULL, NULL},
    {"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", BAD, NULL, NULL},
    {"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", BAD, NULL, NULL},
    {"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", BAD, NULL, NULL},
    {"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", BAD, NULL,
     NULL},
    {"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", BAD, NULL, NULL},
    {"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", BAD, NULL, NULL},
    {"POST http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", BAD, NULL, NULL},
};

static void check_request(size_t i)
{
    struct bh_egress_request r;
    enum bh_egress_reason reason;
    char to[BH_HOST_TEXT + 8];
    size_t n = bh_egress_request_read(requests[i].in, strlen(requests[i].in), &r, &reason);
    if (n != strlen(requests[i].in) || reason != requests[i].reason)
        fail_msg("%s: %s", requests[i].in, n == 0 ? "more" : bh_egress_reason_text(reason));
    if (reason == OK) {
        (void)snprintf(to, sizeof(to), "%s %u", r.host.name, r.port);
        T_STR(to, requests[i].to);
        T_STR(r.head.data, requests[i].out);
    }
    bh_buf_fini(&r.head);
}

static void requests_go_on_or_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(requests); i++)
        check_request(i);
}

/* Byte by byte: nothing is said before the head is whole. */
static void a_head_may_come_in_pieces(void **state)
{
    static const char head[] = "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";
    struct bh_egress_request r;
    enum bh_egress_reason reason;
    (void)state;
    for (size_t n = 1; n < sizeof(head) - 1; n++)
        T_INT(bh_egress_request_read(head, n, &r, &reason), 0);
    T_INT(bh_egress_request_read(head, sizeof(head) - 1, &r, &reason), sizeof(head) - 1);
}

static void a_head_has_an_end(void **state)
{
    BH_CLEANUP_BUF struct bh_buf head = BH_BUF_INIT;
    struct bh_egress_request r;
    enum bh_egress_reason reason;
    (void)state;
    bh_buf_adds(&head, "GET http://a.example/ HTTP/1.1\r\nHost: x\r\nA: ");
    while (head.len < BH_HTTP_HEAD_MAX)
        bh_buf_addc(&head, 'a');
    T_TRUE(bh_egress_request_read(head.data, head.len, &r, &reason) > 0);
    T_INT(reason, BH_EGRESS_HEAD_TOO_LARGE);
}

/* --- bodies --- */

static const struct {
    const char *head, *body;
    size_t own; /* of the body's bytes */
    bool over, bad;
} bodies[] = {
    {"Content-Length: 5", "helloGET http://evil/", 5, true, false},
    {"Content-Length: 5", "hell", 4, false, false},
    {"Content-Length: 0", "x", 0, true, false},
    {"X: y", "GET http://evil/ HTTP/1.1\r\n\r\n", 0, true, false},
    {"Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\nGET", 15, true, false},
    {"Transfer-Encoding: chunked", "5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\nX", 25, true, false},
    {"Transfer-Encoding: chunked", "5\r\nhel", 6, false, false},
    {"Transfer-Encoding: chunked", "5\nhello", 0, false, true},
    {"Transfer-Encoding: chunked", "-1\r\n", 0, false, true},
    {"Transfer-Encoding: chunked", "ffffffffffffffffff\r\n", 0, false, true},
};

static void bodies_end_where_they_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bodies); i++) {
        char head[256];
        struct bh_egress_request r;
        enum bh_egress_reason reason;
        (void)snprintf(head, sizeof(head), "POST http://a.example/ HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", bodies[i].head);
        T_TRUE(bh_egress_request_read(head, strlen(head), &r, &reason) > 0 && reason == OK);
        bh_buf_fini(&r.head);
        size_t n = bh_egress_body_take(&r.body, bodies[i].body, strlen(bodies[i].body));
        if (r.body.bad != bodies[i].bad || (!r.body.bad && n != bodies[i].own) ||
            bh_egress_body_is_over(&r.body) != bodies[i].over)
            fail_msg("%s: %zu of '%s'", bodies[i].head, n, bodies[i].body);
    }
}

/* --- answers --- */

static const struct {
    const char *in;
    enum bh_egress_answer kind;
    const char *out;
} answers[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n", BH_ANSWER_FINAL,
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n"},
    {"HTTP/1.0 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", BH_ANSWER_FINAL,
     "HTTP/1.0 302 Found\r\nLocation: http://169.254.169.254/\r\nConnection: close\r\n\r\n"},
    {"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nProxy-Authenticate: Basic\r\n\r\n", BH_ANSWER_FINAL,
     "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nConnection: close\r\n\r\n"},
    {"HTTP/1.1 100 Continue\r\n\r\n", BH_ANSWER_INTERIM, "HTTP/1.1 100 Continue\r\n\r\n"},
    {"HTTP/1.1 101 Switching Protocols\r\n\r\n", BH_ANSWER_BAD, NULL},
    {"HTTP/2 200\r\n\r\n", BH_ANSWER_BAD, NULL},
    {"HTTP/1.1 20 OK\r\n\r\n", BH_ANSWER_BAD, NULL},
    {"HTTP/1.1 2000 OK\r\n\r\n", BH_ANSWER_BAD, NULL},
    {"220 smtp.example ESMTP\r\n\r\n", BH_ANSWER_BAD, NULL},
    {"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", BH_ANSWER_BAD, NULL},
    {"HTTP/1.1 200 OK\r\nA: b\x1b[2J\r\n\r\n", BH_ANSWER_BAD, NULL},
    {"HTTP/1.1 200 OK\r\nA b\r\n\r\n", BH_ANSWER_BAD, NULL},
    {"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", BH_ANSWER_BAD, NULL},
};

static void answers_end_their_connection(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(answers); i++) {
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        T_INT(bh_egress_head_end(answers[i].in, strlen(answers[i].in), 0), strlen(answers[i].in));
        if (bh_egress_answer_read(answers[i].in, strlen(answers[i].in), &out) != answers[i].kind)
            fail_msg("%s", answers[i].in);
        if (answers[i].out)
            T_STR(out.data, answers[i].out);
    }
}

/* --- SOCKS --- */

#define B(text) text, sizeof(text) - 1

static const struct {
    const char *in;
    size_t len;
    long n;
    enum bh_egress_reason reason;
    const char *to;
} socks[] = {
    {B("\5\1\0\1\x7f\0\0\1\0\x50"), 10, OK, "127.0.0.1 80"},
    {B("\5\1\0\3\x0b"
       "example.org\1\xbb"),
     18, OK, "example.org 443"},
    {B("\5\1\0\3\x0b"
       "EXAMPLE.org\1\xbbrest"),
     18, OK, "example.org 443"},
    {B("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1\0\x50"), 22, OK, "127.0.0.1 80"}, /* mapped */
    {B("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\x50"), 22, OK, "::1 80"},
    {B("\5\1\0\3\x0b"
       "example"),
     0, OK, NULL},
    {B("\5\2\0\1\x7f\0\0\1\0\x50"), -1, BH_EGRESS_METHOD, NULL}, /* BIND */
    {B("\5\3\0\1\x7f\0\0\1\0\x50"), -1, BH_EGRESS_METHOD, NULL}, /* UDP ASSOCIATE */
    {B("\5\1\0\2\x7f\0\0\1\0\x50"), -1, BH_EGRESS_BAD_HOST, NULL},
    {B("\5\1\0\1\x7f\0\0\1\0\0"), -1, BH_EGRESS_BAD_HOST, NULL},
    {B("\5\1\0\3\0\0\x50"), -1, BH_EGRESS_BAD_HOST, NULL},
    {B("\5\1\0\3\6"
       "0x7f.1\0\x50"),
     -1, BH_EGRESS_BAD_HOST, NULL},
    {B("\5\1\0\3\x0e"
       "a.example\0evil\0\x50"),
     -1, BH_EGRESS_BAD_HOST, NULL},
    {B("\4\1\0\x50\x7f\0\0\1\0"), 9, OK, "127.0.0.1 80"},
    {B("\4\1\0\x50\x7f\0\0\1me\0"), 11, OK, "127.0.0.1 80"},
    {B("\4\1\0\x50\0\0\0\1me\0example.org\0"), 23, OK, "example.org 80"},
    {B("\4\1\0\x50\0\0\0\1me\0example"), 0, OK, NULL},
    {B("\4\2\0\x50\x7f\0\0\1\0"), -1, BH_EGRESS_METHOD, NULL},
    {B("\4\1\0\0\x7f\0\0\1\0"), -1, BH_EGRESS_BAD_HOST, NULL},
    {B("\4\1\0\x50\0\0\0\1\0"
       "127.1\0"),
     -1, BH_EGRESS_BAD_HOST, NULL},
    {B("\6\1\0"), -1, BH_EGRESS_BAD_REQUEST, NULL},
};

static void socks_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(socks); i++) {
        struct bh_egress_socks s;
        enum bh_egress_reason reason = OK;
        char to[BH_HOST_TEXT + 8];
        long n = bh_egress_socks_request((const unsigned char *)socks[i].in, socks[i].len, &s, &reason);
        if (n != socks[i].n || reason != socks[i].reason)
            fail_msg("row %zu: %ld, %s", i, n, bh_egress_reason_text(reason));
        (void)snprintf(to, sizeof(to), "%s %u", s.host.name, s.port);
        if (socks[i].to)
            T_STR(to, socks[i].to);
    }
}

static void socks_greetings(void **state)
{
    enum bh_egress_reason reason;
    (void)state;
    T_INT(bh_egress_socks_greeting((const unsigned char *)"\5\1\0", 3, &reason), 3);
    T_INT(bh_egress_socks_greeting((const unsigned char *)"\5\2\2\0x", 5, &reason), 4);
    T_INT(bh_egress_socks_greeting((const unsigned char *)"\5\2\2", 3, &reason), 0);
    T_INT(bh_egress_socks_greeting((const unsigned char *)"\5\1\2", 3, &reason), -1);
    T_INT(bh_egress_socks_greeting((const unsigned char *)"\5\0", 2, &reason), -1);
}

static void socks_answers(void **state)
{
    unsigned char out[BH_SOCKS_ANSWER_MAX];
    (void)state;
    T_INT(bh_egress_socks_answer(true, BH_EGRESS_LISTED, out), 10);
    assert_memory_equal(out, "\5\0\0\1\0\0\0\0\0\0", 10);
    T_INT(bh_egress_socks_answer(true, BH_EGRESS_NOT_LISTED, out), 10);
    T_INT(out[1], 2);
    T_INT(bh_egress_socks_answer(false, BH_EGRESS_PUBLIC, out), 8);
    assert_memory_equal(out, "\0\x5a\0\0\0\0\0\0", 8);
    T_INT(bh_egress_socks_answer(false, BH_EGRESS_LOOPBACK, out), 8);
    T_INT(out[1], 0x5b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_on_or_are_refused),
        cmocka_unit_test(a_head_may_come_in_pieces),
        cmocka_unit_test(a_head_has_an_end),
        cmocka_unit_test(bodies_end_where_they_end),
        cmocka_unit_test(answers_end_their_connection),
        cmocka_unit_test(socks_requests),
        cmocka_unit_test(socks_greetings),
        cmocka_unit_test(socks_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
