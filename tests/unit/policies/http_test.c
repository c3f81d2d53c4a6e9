/* SPDX-License-Identifier: Apache-2.0 */
/* What a box may send as a request: exactly HTTP/1.x, and never two requests in the same bytes. */
#include "policies/broker/http.h"

#include "base/buf.h"
#include "base/mem.h"
#include "tests/support/t.h"

static long read_text(const char *text, struct bh_http_request *req, const char **why)
{
    return bh_http_read_head(text, strlen(text), req, why);
}

static void test_a_head_is_read(void **state)
{
    (void)state;
    const char *text = "\r\nPOST /v1/messages?beta=true HTTP/1.1\r\nHost: localhost:4101\r\nX-Api-Key:  a b \t\r\n"
                       "content-length: 12\r\nExpect: 100-continue\r\n\r\n{";
    struct bh_http_request req;
    const char *why;
    T_INT(read_text(text, &req, &why), (long)strlen(text) - 1);
    T_STR(req.method, "POST");
    T_STR(req.target, "/v1/messages?beta=true");
    T_INT(req.minor, 1);
    T_STR(bh_http_get(&req, "x-api-key"), "a b");
    assert_null(bh_http_get(&req, "cookie"));
    T_INT(req.body, BH_HTTP_LENGTH);
    T_INT(req.length, 12);
    T_TRUE(req.keep_alive);
    T_TRUE(req.expects_continue);
    bh_http_request_fini(&req);
}

static void test_a_head_is_waited_for(void **state)
{
    (void)state;
    const char *text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    struct bh_http_request req;
    const char *why;
    for (size_t n = 0; n < strlen(text); n++)
        T_INT(bh_http_read_head(text, n, &req, &why), 0);
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"

static void test_whatever_is_no_request_is_refused(void **state)
{
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 505},
        {"GET /\r\nHost: a\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: a\n\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nx: 1\ny: 2\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nx: 1\ry: 2\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {GET "Host: b\r\n\r\n", 400},
        {GET " folded: 1\r\n\r\n", 400},
        {GET "x : 1\r\n\r\n", 400},
        {GET ": 1\r\n\r\n", 400},
        {GET "no colon\r\n\r\n", 400},
        {GET "x: \x7f\r\n\r\n", 400},
        {GET "Expect: a miracle\r\n\r\n", 417},
        {POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
        {POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {POST "Content-Length: +1\r\n\r\n", 400},
        {POST "Content-Length: 1, 1\r\n\r\n", 400},
        {POST "Content-Length: 0x10\r\n\r\n", 400},
        {POST "Content-Length:\r\n\r\n", 400},
        {POST "Content-Length: 99999999999999999\r\n\r\n", 400},
        {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {POST "Transfer-Encoding: xchunked\r\n\r\n", 501},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_http_request req;
        const char *why = NULL;
        if (read_text(rows[i].text, &req, &why) != -rows[i].status)
            fail_msg("row %zu: %s", i, rows[i].text);
        assert_non_null(why);
    }
}

static void test_a_nul_is_refused(void **state)
{
    (void)state;
    struct bh_http_request req;
    const char *why;
    const char text[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    T_INT(bh_http_read_head(text, sizeof(text) - 1, &req, &why), -400);
    T_INT(bh_http_read_head(text, 26, &req, &why), -400);
}

static void test_a_head_has_an_end(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct bh_http_request req;
    const char *why;
    bh_buf_adds(&text, GET "x: ");
    while (text.len < BH_HTTP_HEAD_MAX)
        bh_buf_addc(&text, 'a');
    T_INT(bh_http_read_head(text.data, text.len, &req, &why), -431);
    bh_buf_clear(&text);
    bh_buf_adds(&text, GET);
    for (int i = 0; i < BH_HTTP_HEADERS_MAX; i++)
        bh_buf_addf(&text, "h%d: 1\r\n", i);
    bh_buf_adds(&text, "\r\n");
    T_INT(bh_http_read_head(text.data, text.len, &req, &why), -431);
}

static void test_who_may_stay(void **state)
{
    static const struct {
        const char *text;
        bool stays;
    } rows[] = {
        {GET "\r\n", true},
        {GET "Connection: Close\r\n\r\n", false},
        {GET "Connection: x, close\r\n\r\n", false},
        {GET "Connection: closed\r\n\r\n", true},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_http_request req;
        const char *why;
        T_TRUE(read_text(rows[i].text, &req, &why) > 0);
        T_INT(req.keep_alive, rows[i].stays);
        bh_http_request_fini(&req);
    }
}

/* What a chunked body holds, given in pieces of `size`; -1 where it is none, else how much was taken in all. */
static ssize_t unchunk(const char *text, size_t size, struct bh_buf *out, bool *done)
{
    struct bh_http_chunks chunks = {0};
    size_t at = 0, len = strlen(text);
    while (at < len && chunks.state != BH_CHUNK_DONE) {
        size_t n = size < len - at ? size : len - at, n_payload;
        const char *payload;
        ssize_t took = bh_http_chunks_take(&chunks, text + at, n, &payload, &n_payload);
        if (took < 0)
            return -1;
        assert_true(took > 0);
        if (n_payload > 0)
            bh_buf_add(out, payload, n_payload);
        at += (size_t)took;
    }
    *done = chunks.state == BH_CHUNK_DONE;
    return (ssize_t)at;
}

static void test_chunks_are_read_in_any_pieces(void **state)
{
    (void)state;
    const char *text =
        "5\r\nhello\r\n00001;ext=\"1\"\r\n,\r\nB\r\n it's bulk.\r\n0\r\nTrailer: x\r\n\r\nGET / HTTP/1.1";
    for (size_t size = 1; size <= strlen(text); size++) {
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        bool done = false;
        T_INT(unchunk(text, size, &out, &done), (int)strlen(text) - 14);
        T_TRUE(done);
        T_STR(out.data, "hello, it's bulk.");
    }
}

static void test_what_is_no_chunk_is_refused(void **state)
{
    static const char *const rows[] = {
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "5\nhello",
        "5 \r\nhello",
        "2\r\nabc\r\n",
        "2\r\nab\n0\r\n",
        "0\r\nx: 1\n\r\n",
        "0\r\n\r\r",
        "fffffffffffffffff\r\n",
        "5;a\x01\r\nhello",
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        for (size_t size = 1; size < 4; size++) {
            BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
            bool done = false;
            if (unchunk(rows[i], size, &out, &done) != -1)
                fail_msg("row %zu: %s", i, rows[i]);
        }
    }
}

static void test_a_refusal_is_a_whole_reply(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_http_add_refusal(&out, 403, "say \"please\"", true);
    T_STR(out.data,
          "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: 56\r\n"
          "connection: keep-alive\r\n\r\n{\"error\":{\"type\":\"bulkhead\",\"message\":\"say \\\"please\\\"\"}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_head_is_read),
        cmocka_unit_test(test_a_head_is_waited_for),
        cmocka_unit_test(test_whatever_is_no_request_is_refused),
        cmocka_unit_test(test_a_nul_is_refused),
        cmocka_unit_test(test_a_head_has_an_end),
        cmocka_unit_test(test_who_may_stay),
        cmocka_unit_test(test_chunks_are_read_in_any_pieces),
        cmocka_unit_test(test_what_is_no_chunk_is_refused),
        cmocka_unit_test(test_a_refusal_is_a_whole_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
