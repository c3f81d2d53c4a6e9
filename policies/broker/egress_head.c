/* SPDX-License-Identifier: Apache-2.0 */
/* Owns what becomes of a head on its way through the proxy. Assumes nothing of the bytes; must never pass on a line
 * that it has not understood. */
#include "policies/broker/egress_head.h"

#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"

enum { HTTP_PORT = 80 };

/* --- fields --- */

/* For this hop alone. The framing is kept: bodies go on as they are. */
static bool is_of_this_hop(const char *name, const char *connection)
{
    if (!strcasecmp(name, "transfer-encoding") || !strcasecmp(name, "content-length") || !strcasecmp(name, "trailer"))
        return false;
    return bh_http_is_hop(name) || (connection && bh_http_list_has(connection, name));
}

static void add_field(struct bh_buf *out, const char *name, const char *value)
{
    bh_buf_addf(out, "%s: %s\r\n", name, value);
}

/* --- requests --- */

/* "http://host[:port][/path][?query]" */
static enum bh_egress_reason read_absolute(const char *target, struct bh_egress_request *ret, const char **ret_path)
{
    static const char scheme[] = "http://";
    struct bh_destination to = {.port = HTTP_PORT};
    if (strncasecmp(target, scheme, sizeof(scheme) - 1) != 0)
        return BH_EGRESS_BAD_REQUEST;
    const char *host = target + sizeof(scheme) - 1;
    size_t len = strcspn(host, "/?#");
    bool ported = len > 0 && host[len - 1] != ']' && memchr(host, ':', len);
    if (memchr(host, '@', len) || strchr(host, '#'))
        return BH_EGRESS_BAD_REQUEST;
    if (ported ? !bh_destination_read(host, len, false, &to) : !bh_host_read(host, len, &to.host))
        return BH_EGRESS_BAD_HOST;
    ret->host = to.host;
    ret->port = to.port;
    *ret_path = host + len;
    return BH_EGRESS_LISTED;
}

static void write_request(const struct bh_http_request *http, const char *path, struct bh_egress_request *ret)
{
    bool brackets = ret->host.is_address && !bh_address_is_v4(ret->host.address);
    const char *connection = bh_http_get(http, "connection");
    bh_buf_addf(&ret->head, "%s %s%s HTTP/1.1\r\n", http->method, *path == '/' ? "" : "/", path);
    bh_buf_addf(&ret->head, brackets ? "Host: [%s]" : "Host: %s", ret->host.name);
    if (ret->port != HTTP_PORT)
        bh_buf_addf(&ret->head, ":%u", (unsigned)ret->port);
    bh_buf_adds(&ret->head, "\r\n");
    for (size_t i = 0; i < http->n_headers; i++) {
        const struct bh_http_header *h = &http->headers[i];
        if (!is_of_this_hop(h->name, connection) && strcasecmp(h->name, "host") != 0)
            add_field(&ret->head, h->name, h->value);
    }
    bh_buf_adds(&ret->head, "Connection: close\r\n\r\n");
}

static enum bh_egress_reason read_target(const struct bh_http_request *http, struct bh_egress_request *ret)
{
    struct bh_destination to;
    const char *path = "";
    ret->connect = bh_streq(http->method, "CONNECT");
    if (!ret->connect) {
        enum bh_egress_reason reason = read_absolute(http->target, ret, &path);
        if (reason == BH_EGRESS_LISTED)
            write_request(http, path, ret);
        return reason;
    }
    if (http->body != BH_HTTP_NO_BODY)
        return BH_EGRESS_BAD_REQUEST;
    if (!bh_destination_read(http->target, strlen(http->target), false, &to))
        return BH_EGRESS_BAD_HOST;
    ret->host = to.host;
    ret->port = to.port;
    return BH_EGRESS_LISTED;
}

size_t bh_egress_request_read(const char *data, size_t len, struct bh_egress_request *ret,
                              enum bh_egress_reason *ret_reason)
{
    struct bh_http_request http = {0};
    const char *why;
    *ret = (struct bh_egress_request){.head = BH_BUF_INIT};
    long n = bh_http_read_head(data, len, &http, &why);
    if (n < 0) {
        *ret_reason = n == -431 ? BH_EGRESS_HEAD_TOO_LARGE : BH_EGRESS_BAD_REQUEST;
        return len;
    }
    if (n == 0)
        return 0;
    ret->body = (struct bh_egress_body){.kind = http.body, .left = (uint64_t)http.length};
    *ret_reason = read_target(&http, ret);
    bh_http_request_fini(&http);
    return (size_t)n;
}

/* --- bodies --- */

bool bh_egress_body_is_over(const struct bh_egress_body *b)
{
    return b->kind == BH_HTTP_CHUNKED ? b->chunks.state == BH_CHUNK_DONE : b->kind == BH_HTTP_NO_BODY || b->left == 0;
}

static size_t take_chunks(struct bh_egress_body *b, const char *data, size_t len)
{
    size_t used = 0;
    while (used < len && b->chunks.state != BH_CHUNK_DONE) {
        const char *payload;
        size_t n_payload;
        ssize_t n = bh_http_chunks_take(&b->chunks, data + used, len - used, &payload, &n_payload);
        b->bad = n < 0;
        if (n < 0)
            break;
        used += (size_t)n;
    }
    return used;
}

size_t bh_egress_body_take(struct bh_egress_body *b, const char *data, size_t len)
{
    if (b->kind == BH_HTTP_NO_BODY || b->bad)
        return 0;
    if (b->kind == BH_HTTP_CHUNKED)
        return take_chunks(b, data, len);
    size_t n = b->left < len ? (size_t)b->left : len;
    b->left -= n;
    return n;
}

/* --- answers --- */

size_t bh_egress_head_end(const char *data, size_t len, size_t from)
{
    size_t start = from > 3 ? from - 3 : 0;
    const char *end = len > start ? memmem(data + start, len - start, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - data) + 4 : 0;
}

/* Cuts the line at *at off, in place. NULL where it is none, or holds control characters. */
static char *cut_line(char **at)
{
    char *line = *at, *end = strstr(line, "\r\n");
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 2;
    for (const char *p = line; *p; p++) {
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return NULL;
    }
    return line;
}

/* "HTTP/1.1 200 OK": the number, -1 where it is no such line. */
static int read_status(const char *line)
{
    bool http = bh_starts_with(line, "HTTP/1.1 ") || bh_starts_with(line, "HTTP/1.0 ");
    if (!http || strspn(line + 9, "0123456789") != 3 || (line[12] != '\0' && line[12] != ' '))
        return -1;
    return (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
}

/* In place: ends the name, gives the value. */
static char *cut_field(char *line)
{
    char *colon = strchr(line, ':');
    if (!colon || !bh_http_is_token(line, (size_t)(colon - line)))
        return NULL;
    *colon = '\0';
    return colon + 1 + strspn(colon + 1, " \t");
}

static bool copy_fields(char *at, struct bh_buf *out)
{
    for (char *line; (line = cut_line(&at));) {
        if (*line == '\0')
            return *at == '\0';
        char *value = cut_field(line);
        if (!value)
            return false;
        if (!is_of_this_hop(line, NULL))
            add_field(out, line, value);
    }
    return false;
}

enum bh_egress_answer bh_egress_answer_read(const char *head, size_t len, struct bh_buf *out)
{
    BH_CLEANUP_FREE char *text = bh_strndup(head, len);
    char *at = text, *first = strlen(text) == len ? cut_line(&at) : NULL;
    int status = first ? read_status(first) : -1;
    if (status < 100 || status == 101)
        return BH_ANSWER_BAD;
    bh_buf_addf(out, "%s\r\n", first);
    if (!copy_fields(at, out))
        return BH_ANSWER_BAD;
    bh_buf_adds(out, status < 200 ? "\r\n" : "Connection: close\r\n\r\n");
    return status < 200 ? BH_ANSWER_INTERIM : BH_ANSWER_FINAL;
}
