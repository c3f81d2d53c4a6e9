/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the reading of requests' heads and of chunked bodies. Assumes nothing of the bytes. Must never guess: what is
 * not exactly HTTP/1.x is refused with the status that says so.
 */
#include "policies/broker/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"

#define LINE_MAX_CHUNK 4096
#define LENGTH_MAX (INT64_C(1) << 53)

static bool is_token_char(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c != '\0' && strchr("!#$%&'*+-.^_`|~", c);
}

bool bh_http_is_token(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_token_char(s[i]))
            return false;
    }
    return len > 0;
}

const char *bh_http_get(const struct bh_http_request *req, const char *name)
{
    for (size_t i = 0; i < req->n_headers; i++) {
        if (!strcasecmp(req->headers[i].name, name))
            return req->headers[i].value;
    }
    return NULL;
}

bool bh_http_is_hop(const char *name)
{
    static const char *const hop[] = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"};
    for (size_t i = 0; i < BH_ARRAY_LEN(hop); i++) {
        if (!strcasecmp(name, hop[i]))
            return true;
    }
    return !strncasecmp(name, "proxy-", 6);
}

bool bh_http_list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    while (*list) {
        list += strspn(list, " \t,");
        size_t n = strcspn(list, " \t,");
        if (n == len && !strncasecmp(list, word, len))
            return true;
        list += n;
    }
    return false;
}

/* --- the head --- */

/* Of "GET /path HTTP/1.1", in place. */
static int read_request_line(char *line, struct bh_http_request *req, const char **why)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    *why = "the first line is no 'METHOD target HTTP/1.1'";
    if (!version)
        return -400;
    *target++ = *version++ = '\0';
    if (!bh_http_is_token(line, strlen(line)) || *target == '\0')
        return -400;
    for (const char *p = target; *p; p++) {
        if (*p < 0x21 || *p > 0x7e)
            return -400;
    }
    if (strncmp(version, "HTTP/", 5) != 0)
        return -400;
    *why = "only HTTP/1.1 and HTTP/1.0 are spoken here";
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return -505;
    req->minor = version[7] - '0';
    req->method = line;
    req->target = target;
    return 0;
}

static int read_header(char *line, struct bh_http_request *req, const char **why)
{
    char *colon = strchr(line, ':');
    *why = "a header is no 'name: value' on one line";
    if (!colon || !bh_http_is_token(line, (size_t)(colon - line)))
        return -400;
    *why = "there are too many headers";
    if (req->n_headers == BH_HTTP_HEADERS_MAX)
        return -431;
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    *colon = value[len] = '\0';
    req->headers[req->n_headers++] = (struct bh_http_header){.name = line, .value = value};
    return 0;
}

static int read_length(const char *text, int64_t *ret)
{
    int64_t n = 0;
    if (*text == '\0' || strlen(text) > 16)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        n = n * 10 + (*text - '0');
    }
    *ret = n;
    return n <= LENGTH_MAX ? 0 : -1;
}

static size_t count(const struct bh_http_request *req, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < req->n_headers; i++)
        n += strcasecmp(req->headers[i].name, name) == 0;
    return n;
}

static int read_framing(struct bh_http_request *req, const char **why)
{
    const char *length = bh_http_get(req, "content-length"), *coding = bh_http_get(req, "transfer-encoding");
    *why = "the request says in two ways where its body ends";
    if ((length && coding) || count(req, "content-length") > 1 || count(req, "transfer-encoding") > 1)
        return -400;
    if (coding) {
        *why = "of transfer encodings only 'chunked' is known";
        req->body = BH_HTTP_CHUNKED;
        return req->minor == 1 && !strcasecmp(coding, "chunked") ? 0 : -501;
    }
    if (!length)
        return 0;
    *why = "'content-length' is no length";
    if (read_length(length, &req->length) < 0)
        return -400;
    req->body = req->length > 0 ? BH_HTTP_LENGTH : BH_HTTP_NO_BODY;
    return 0;
}

static int read_meaning(struct bh_http_request *req, const char **why)
{
    *why = "a request names exactly one 'host'";
    size_t hosts = count(req, "host");
    if (hosts > 1 || (hosts == 0 && req->minor == 1))
        return -400;
    const char *expect = bh_http_get(req, "expect"), *connection = bh_http_get(req, "connection");
    *why = "of expectations only '100-continue' is known";
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return -417;
    req->expects_continue = expect && req->minor == 1;
    if (!connection)
        connection = "";
    req->keep_alive =
        req->minor == 1 ? !bh_http_list_has(connection, "close") : bh_http_list_has(connection, "keep-alive");
    return read_framing(req, why);
}

/* Cuts the line at *at off, in place. NULL where it is not one. */
static char *take_line(char **at)
{
    char *line = *at, *end = strstr(line, "\r\n");
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 2;
    for (const char *p = line; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return NULL;
    }
    return line;
}

static int read_lines(struct bh_http_request *req, const char **why)
{
    char *at = req->text;
    char *line = take_line(&at);
    *why = "the head holds control characters, or its lines do not end in CR LF";
    if (!line)
        return -400;
    int rc = read_request_line(line, req, why);
    while (rc == 0) {
        *why = "the head holds control characters, or its lines do not end in CR LF";
        line = take_line(&at);
        if (!line)
            return -400;
        if (*line == '\0')
            break;
        rc = read_header(line, req, why);
    }
    return rc < 0 ? rc : read_meaning(req, why);
}

/* How long the head is with the empty line behind it; 0 where that is not there. */
static size_t head_length(const char *data, size_t len)
{
    const char *end = memmem(data, len, "\r\n\r\n", 4);
    return end ? (size_t)(end - data) + 4 : 0;
}

long bh_http_read_head(const char *data, size_t len, struct bh_http_request *ret, const char **ret_why)
{
    size_t skip = 0;
    while (skip < 16 && len - skip >= 2 && data[skip] == '\r' && data[skip + 1] == '\n')
        skip += 2;
    size_t n = head_length(data + skip, len - skip);
    *ret_why = "the head is longer than 64 KiB";
    if (n > BH_HTTP_HEAD_MAX || (n == 0 && len - skip >= BH_HTTP_HEAD_MAX))
        return -431;
    /* Whoever ends lines in LF alone would be waited for until the timeout. */
    *ret_why = "the head holds control characters, or its lines do not end in CR LF";
    if (n == 0 && (memmem(data + skip, len - skip, "\n\n", 2) || memchr(data + skip, '\0', len - skip)))
        return -400;
    if (n == 0)
        return 0;
    if (memchr(data + skip, '\0', n))
        return -400;
    *ret = (struct bh_http_request){.text = bh_strndup(data + skip, n)};
    int rc = read_lines(ret, ret_why);
    if (rc < 0)
        bh_http_request_fini(ret);
    return rc < 0 ? rc : (long)(skip + n);
}

void bh_http_request_fini(struct bh_http_request *req)
{
    bh_free(req->text);
    *req = (struct bh_http_request){0};
}

/* --- chunks --- */

static void chunk_state(struct bh_http_chunks *c, enum bh_http_chunk_state state)
{
    c->state = state;
    c->line = 0;
    c->digits = c->extension = c->cr = false;
}

/* A byte of "1a;name=value\r\n". */
static int size_byte(struct bh_http_chunks *c, char byte)
{
    if (c->cr) {
        bool ok = byte == '\n' && c->digits;
        chunk_state(c, c->left > 0 ? BH_CHUNK_DATA : BH_CHUNK_TRAILER);
        return ok ? 0 : -1;
    }
    if (++c->line > LINE_MAX_CHUNK)
        return -1;
    if (byte == '\r') {
        c->cr = true;
        return 0;
    }
    if (c->extension)
        return (unsigned char)byte >= 0x20 && byte != 0x7f ? 0 : -1;
    if (byte == ';' && c->digits) {
        c->extension = true;
        return 0;
    }
    if (bh_hex_digit(byte) < 0 || c->left > (UINT64_MAX >> 8))
        return -1;
    c->left = c->left << 4 | (unsigned)bh_hex_digit(byte);
    c->digits = true;
    return 0;
}

/* The CR LF behind a chunk's bytes. */
static int data_end_byte(struct bh_http_chunks *c, char byte)
{
    if (!c->cr && byte == '\r') {
        c->cr = true;
        return 0;
    }
    bool ok = c->cr && byte == '\n';
    chunk_state(c, BH_CHUNK_SIZE);
    return ok ? 0 : -1;
}

/* Lines behind the last chunk, which are dropped, up to an empty one. */
static int trailer_byte(struct bh_http_chunks *c, char byte)
{
    if (c->cr) {
        if (byte != '\n')
            return -1;
        c->cr = false;
        if (!c->digits) /* nothing was in this line */
            chunk_state(c, BH_CHUNK_DONE);
        c->digits = false;
        return 0;
    }
    if (++c->line > LINE_MAX_CHUNK || byte == '\n' || byte == '\0')
        return -1;
    if (byte == '\r')
        c->cr = true;
    else
        c->digits = true;
    return 0;
}

static int chunk_byte(struct bh_http_chunks *c, char byte)
{
    switch (c->state) {
    case BH_CHUNK_SIZE:
        return size_byte(c, byte);
    case BH_CHUNK_DATA_END:
        return data_end_byte(c, byte);
    case BH_CHUNK_TRAILER:
        return trailer_byte(c, byte);
    case BH_CHUNK_DATA:
    case BH_CHUNK_DONE:
        break;
    }
    return -1;
}

ssize_t bh_http_chunks_take(struct bh_http_chunks *c, const char *data, size_t len, const char **ret_payload,
                            size_t *ret_n)
{
    size_t i = 0;
    *ret_payload = NULL;
    *ret_n = 0;
    while (i < len && c->state != BH_CHUNK_DONE) {
        if (c->state != BH_CHUNK_DATA) {
            if (chunk_byte(c, data[i++]) < 0)
                return -1;
            continue;
        }
        size_t n = c->left < len - i ? (size_t)c->left : len - i;
        *ret_payload = data + i;
        *ret_n = n;
        c->left -= n;
        if (c->left == 0)
            chunk_state(c, BH_CHUNK_DATA_END);
        return (ssize_t)(i + n);
    }
    return (ssize_t)i;
}

/* --- replies of our own --- */

const char *bh_http_status_text(long status)
{
    static const struct {
        long status;
        const char *text;
    } names[] = {{200, "OK"},
                 {201, "Created"},
                 {204, "No Content"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {408, "Request Timeout"},
                 {417, "Expectation Failed"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {502, "Bad Gateway"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        if (names[i].status == status)
            return names[i].text;
    }
    return "";
}

void bh_http_add_refusal(struct bh_buf *out, long status, const char *message, bool keep_alive)
{
    BH_CLEANUP_BUF struct bh_buf body = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *reply = bh_val_map();
    struct bh_val *error = bh_val_set(reply, "error", bh_val_map());
    bh_val_set_str(error, "type", "bulkhead");
    bh_val_set_str(error, "message", message);
    bh_json_format(reply, &body);
    bh_buf_addf(out,
                "HTTP/1.1 %ld %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\nconnection: %s\r\n\r\n%s",
                status, bh_http_status_text(status), body.len, keep_alive ? "keep-alive" : "close", body.data);
}
