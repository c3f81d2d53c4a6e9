/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what happens between a request of a box and the reply that it gets: whether the call may be, its turn, the
 * request that goes out, the reply that comes in, looked through and counted, and the line that tells of it. Must never
 * send anything twice, or let a secret through.
 *
 *   begin ── refused ──────────────────────────────────► over
 *     └─ waits for its turn ─ send ─ head ─ data… ─ end ─► over
 *   abandon (the box has gone, the endpoint is closed) and time_out may come at any moment
 */
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "policies/broker/endpoint_priv.h"

static bool on_head(void *arg, long status, const struct bh_http_header *headers, size_t n);
static enum bh_flow on_data(void *arg, char *data, size_t len);
static ssize_t give_body(void *arg, char *room, size_t size);
static bool permits(void *arg, const unsigned char address[static 16]);
static void on_end(void *arg, const char *problem, const char *reason);

static const struct bh_transfer_ops transfer_ops = {on_head, on_data, give_body, permits, on_end};

#define CERTIFICATES \
    " (more certificates are believed where SSL_CERT_FILE, an absolute path, is set where bulkhead is started)"
#define SPENT "the limit on requests or tokens of this attempt is spent"

/* --- the end --- */

static void free_call(struct bh_call *call)
{
    bh_transfer_cancel(call->transfer);
    for (size_t i = 0; i < call->n_headers; i++)
        bh_free(call->headers[i]);
    bh_free(call->headers);
    bh_free(call->url);
    bh_endpoint_target_fini(&call->target);
    bh_sieve_fini(&call->sieve);
    if (call->too_long)
        event_free(call->too_long);
    bh_free(call->method);
    bh_free(call);
}

static void leave_gate(struct bh_call *call)
{
    struct bh_shared_service *shared = call->endpoint->shared;
    bool was_in = call->turn.place == BH_GATE_SENT || call->turn.place == BH_GATE_ANSWERED;
    bh_gate_leave(&shared->service->gate, &call->turn);
    bh_call_leave(call);
    if (was_in)
        bh_endpoint_let_in_soon(shared);
}

/* Tells of it, frees it; the connection goes on with the next request where `keep`. */
static void finish(struct bh_call *call, bool keep)
{
    struct bh_conn *c = call->conn;
    bh_endpoint_report(call->endpoint, &c->req, call, call->target.compared, call->status, call->reason);
    leave_gate(call);
    keep = keep && !call->close_after;
    free_call(call);
    bh_conn_call_over(c, keep);
}

void bh_call_abandon(struct bh_call *call, const char *reason)
{
    const struct bh_http_request alone = {.method = call->method}, *req = call->conn ? &call->conn->req : &alone;
    call->reason = call->reason ? call->reason : reason;
    if (bh_call_read_on(call))
        return;
    bh_endpoint_report(call->endpoint, req, call, call->target.compared, call->status, call->reason);
    leave_gate(call);
    free_call(call);
}

/* A reply of our own in place of the service's. */
static void refuse(struct bh_call *call, long status, const char *reason, const char *message)
{
    BH_CLEANUP_BUF struct bh_buf reply = BH_BUF_INIT;
    bh_http_add_refusal(&reply, status, message, call->conn->req.keep_alive);
    call->status = status;
    call->reason = reason;
    if (strcmp(call->conn->req.method, "HEAD") == 0)
        reply.len = (size_t)(strstr(reply.data, "\r\n\r\n") + 4 - reply.data);
    bh_conn_send(call->conn, reply.data, reply.len);
    finish(call, true);
}

/* The same where the reply has begun: it is cut, so that nobody takes it for whole. */
static void fail(struct bh_call *call, long status, const char *reason, const char *message)
{
    if (!call->head_sent) {
        refuse(call, status, reason, message);
        return;
    }
    call->reason = reason;
    finish(call, false);
}

/* --- the request --- */

static void add_header(struct bh_call *call, const char *name, const char *value)
{
    call->headers[call->n_headers++] = *value ? bh_asprintf("%s: %s", name, value) : bh_asprintf("%s;", name);
}

/* What a box says about who it is does not count, nor what would make another call of the one that was compared. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {"host",
                                        "content-length",
                                        "expect",
                                        "accept-encoding",
                                        "cookie",
                                        "authorization",
                                        "x-api-key",
                                        "api-key",
                                        "forwarded",
                                        "via",
                                        "x-method-override",
                                        "x-override-url",
                                        "x-host",
                                        "x-real-ip",
                                        "x-client-ip",
                                        "x-cluster-client-ip",
                                        "x-proxyuser-ip",
                                        "client-ip",
                                        "true-client-ip",
                                        "cf-connecting-ip",
                                        "fastly-client-ip",
                                        "x-remote-user",
                                        "x-script-name",
                                        "x-accel-redirect",
                                        "x-sendfile"};
    static const char *const families[] = {"x-forwarded", "x-http-", "x-original-", "x-rewrite-", "x-envoy-"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        if (bh_header_is(name, names[i]))
            return true;
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(families); i++) {
        if (bh_header_begins(name, families[i]))
            return true;
    }
    return false;
}

/* What the connection of a box needs is ours to say, too. */
static bool goes_on(const struct bh_call *call, const struct bh_http_header *h)
{
    const char *connection = bh_http_get(&call->conn->req, "connection");
    if (is_ours(h->name) || bh_http_is_hop(h->name) || (connection && bh_http_list_has(connection, h->name)))
        return false;
    return !bh_service_sets(call->endpoint->shared->service, h->name);
}

static void make_request(struct bh_call *call)
{
    const struct bh_http_request *req = &call->conn->req;
    call->url = bh_asprintf("%s%s", call->endpoint->shared->service->base, call->target.sent);
    call->headers = bh_calloc(req->n_headers + 1, sizeof(*call->headers));
    for (size_t i = 0; i < req->n_headers; i++) {
        if (goes_on(call, &req->headers[i]))
            add_header(call, req->headers[i].name, req->headers[i].value);
    }
}

void bh_call_send(struct bh_call *call)
{
    const struct bh_http_request *req = &call->conn->req;
    const struct bh_service *s = call->endpoint->shared->service;
    if (call->endpoint->budget->told) { /* while it waited */
        refuse(call, 403, "budget", SPENT);
        return;
    }
    make_request(call);
    call->heard = bh_mono_now();
    if (req->expects_continue && call->conn->in.len == 0 && req->body != BH_HTTP_NO_BODY)
        bh_conn_send(call->conn, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    const struct bh_transfer_request out = {
        .method = req->method,
        .url = call->url,
        .headers = call->headers,
        .n_headers = call->n_headers,
        .more = s->headers,
        .n_more = s->n_headers,
        .length = req->body == BH_HTTP_CHUNKED ? -1 : req->length,
        .crowded = call->endpoint->n_conns > BH_CONNS_FEW,
    };
    call->transfer = bh_transfer_start(call->endpoint->owner->transfers, &out, &transfer_ops, call);
    if (!call->transfer)
        refuse(call, 500, "host", "the endpoint broker has no memory for this call");
}

static ssize_t give_body(void *arg, char *room, size_t size)
{
    struct bh_call *call = arg;
    if (!call->conn)
        return 0; /* all of it was taken */
    ssize_t n = bh_conn_take_body(call->conn, room, size);
    call->wants_body = n == -1;
    call->heard = bh_mono_now();
    if (call->wants_body && !call->paused)
        call->stands = call->heard;
    if (n == -2)
        call->reason = "bad-request";
    else if (n > 0)
        call->up += n;
    return n;
}

static bool permits(void *arg, const unsigned char address[static 16])
{
    struct bh_call *call = arg;
    return bh_service_permits(call->endpoint->shared->service, address);
}

void bh_call_go_on(struct bh_call *call)
{
    bool room = call->paused && call->conn->out.len == 0;
    bool body = call->wants_body && call->conn->in.len > 0;
    if (!call->transfer || (!room && !body))
        return;
    struct bh_mono now = bh_mono_now();
    call->stood_ns += now.ns - call->stands.ns;
    call->stands = now;
    call->paused = call->paused && !room;
    call->wants_body = false;
    bh_transfer_go_on(call->transfer);
}

/* --- the reply --- */

static bool is_for_the_box(const struct bh_http_header *h)
{
    static const char *const kept[] = {"set-cookie",     "set-cookie2",     "alt-svc", "strict-transport-security",
                                       "content-length", "content-encoding"};
    for (size_t i = 0; i < BH_ARRAY_LEN(kept); i++) {
        if (!strcasecmp(h->name, kept[i]))
            return false;
    }
    return !bh_http_is_hop(h->name);
}

struct framing {
    const char *length; /* of the body, as the service said it; NULL */
    const char *type;
    bool coded; /* chunked or compressed: the length is another one here */
};

static struct framing read_framing(const struct bh_http_header *headers, size_t n)
{
    struct framing f = {0};
    for (size_t i = 0; i < n; i++) {
        if (!strcasecmp(headers[i].name, "content-length"))
            f.length = headers[i].value;
        else if (!strcasecmp(headers[i].name, "transfer-encoding"))
            f.coded = true;
        else if (!strcasecmp(headers[i].name, "content-encoding") && strcasecmp(headers[i].value, "identity") != 0)
            f.coded = true;
        else if (!strcasecmp(headers[i].name, "content-type"))
            f.type = headers[i].value;
    }
    if (f.length && strspn(f.length, "0123456789") != strlen(f.length))
        f.length = NULL;
    return f;
}

static void decide_framing(struct bh_call *call, const struct framing *f, struct bh_buf *head)
{
    const struct bh_http_request *req = &call->conn->req;
    call->no_body = call->status == 204 || call->status == 304 || strcmp(req->method, "HEAD") == 0;
    if (f->length && !f->coded && call->status != 204)
        bh_buf_addf(head, "content-length: %s\r\n", f->length);
    else if (!call->no_body && req->minor == 1)
        call->chunked = true;
    else if (!call->no_body)
        call->close_after = true;
    if (call->chunked)
        bh_buf_adds(head, "transfer-encoding: chunked\r\n");
    bh_buf_addf(head, "connection: %s\r\n\r\n", req->keep_alive && !call->close_after ? "keep-alive" : "close");
}

/* What a 429 asks for, in nanoseconds; -1: it does not say. */
static int64_t retry_after(const struct bh_http_header *headers, size_t n, struct bh_wall now)
{
    for (size_t i = 0; i < n; i++) {
        int64_t number;
        bool ms = !strcasecmp(headers[i].name, "retry-after-ms");
        if (!ms && strcasecmp(headers[i].name, "retry-after") != 0)
            continue;
        double value;
        if (bh_parse_number(headers[i].value, &value) == 0 && value >= 0 && value < 1e9)
            return (int64_t)(value * (double)(ms ? BH_NS_PER_MS : BH_NS_PER_S));
        number = bh_transfer_parse_date(headers[i].value);
        if (!ms && number >= 0)
            return number * 1000000 > now.us ? (number * 1000000 - now.us) * 1000 : 0;
    }
    return -1;
}

static void tell_gate(struct bh_call *call, const struct bh_http_header *headers, size_t n)
{
    struct bh_shared_service *shared = call->endpoint->shared;
    int64_t wait = call->status == 429 ? retry_after(headers, n, bh_wall_now()) : -1;
    bh_gate_answered(&shared->service->gate, &call->turn, call->status == 429, wait, bh_mono_now());
    bh_endpoint_let_in_soon(shared); /* a transfer cannot be started inside of another one */
}

static bool leaks(struct bh_call *call, const void *data, size_t len)
{
    (void)bh_needles_find(call->sieve.set, data, len, &call->leaked);
    call->reason = call->leaked ? "leak" : call->reason;
    return call->leaked;
}

static bool on_head(void *arg, long status, const struct bh_http_header *headers, size_t n)
{
    struct bh_call *call = arg;
    BH_CLEANUP_BUF struct bh_buf head = BH_BUF_INIT;
    const struct framing framing = read_framing(headers, n);
    call->status = status;
    call->heard = bh_mono_now();
    tell_gate(call, headers, n);
    bh_usage_begin(&call->usage, framing.type);
    if (!call->conn)
        return bh_call_is_counted(call);
    bh_buf_addf(&head, "HTTP/1.1 %ld %s\r\n", status, bh_http_status_text(status));
    for (size_t i = 0; i < n; i++) {
        if (is_for_the_box(&headers[i]))
            bh_buf_addf(&head, "%s: %s\r\n", headers[i].name, headers[i].value);
    }
    decide_framing(call, &framing, &head);
    if (leaks(call, head.data, head.len))
        return false;
    call->head_sent = true;
    bh_conn_send(call->conn, head.data, head.len);
    return !call->conn->broken || bh_call_is_counted(call);
}

static void pass_on(struct bh_call *call, const char *data, size_t len)
{
    if (len == 0 || call->no_body)
        return;
    call->down += (int64_t)len;
    if (call->chunked)
        bh_conn_send_chunk(call->conn, data, len);
    else
        bh_conn_send(call->conn, data, len);
}

static void count_tokens(struct bh_call *call)
{
    int64_t in = bh_usage_in(&call->usage), out = bh_usage_out(&call->usage);
    if (in == call->tokens_in && out == call->tokens_out)
        return;
    bh_endpoint_spend_tokens(call->endpoint, in - call->tokens_in, out - call->tokens_out);
    call->tokens_in = in;
    call->tokens_out = out;
}

/* NULL: nothing follows. False where a secret was found: it is cut before it. */
static bool sift(struct bh_call *call, char *data, size_t len)
{
    const char *pass;
    size_t n;
    call->leaked = data ? bh_sieve_push_behind(&call->sieve, BH_TRANSFER_BEFORE, data, len, &pass, &n)
                        : bh_sieve_push(&call->sieve, "", 0, true, &pass, &n);
    pass_on(call, pass, n);
    call->reason = call->leaked ? "leak" : call->reason;
    return !call->leaked;
}

static void count(struct bh_call *call, const char *data, size_t len)
{
    call->heard = bh_mono_now();
    bh_usage_feed(&call->usage, data, len);
    count_tokens(call);
}

/* There is no box any more that would take it. */
static enum bh_flow only_count(struct bh_call *call, const char *data, size_t len)
{
    call->unseen += (int64_t)len;
    if (call->unseen > BH_READ_ON_MAX || !bh_call_is_counted(call))
        return BH_FLOW_CUT;
    count(call, data, len);
    return BH_FLOW_ON;
}

static enum bh_flow on_data(void *arg, char *data, size_t len)
{
    struct bh_call *call = arg;
    if (!call->conn || call->conn->broken)
        return only_count(call, data, len);
    count(call, data, len);
    if (!sift(call, data, len))
        return BH_FLOW_CUT;
    if (call->conn->broken)
        return bh_call_is_counted(call) ? BH_FLOW_ON : BH_FLOW_CUT;
    if (call->conn->out.len == 0)
        return BH_FLOW_ON;
    call->stands = call->wants_body ? call->stands : call->heard;
    call->paused = true;
    return BH_FLOW_PAUSE;
}

/* What the service, or what it is looked at for, put an end to. */
static void say_problem(struct bh_call *call, const char *problem, const char *reason)
{
    static const struct {
        const char *reason;
        long status;
    } statuses[] = {{"bad-request", 400}, {"address", 403}, {"timeout", 504}};
    BH_CLEANUP_FREE char *message = NULL;
    const struct bh_service *s = call->endpoint->shared->service;
    long status = 502;
    for (size_t i = 0; i < BH_ARRAY_LEN(statuses); i++)
        status = bh_streq(statuses[i].reason, reason) ? statuses[i].status : status;
    if (bh_streq(reason, "leak"))
        message = bh_asprintf("the reply of endpoint '%s' holds its secret: it was cut", s->name);
    else if (bh_streq(reason, "bad-request"))
        message = bh_strdup("the body of the request is not framed as its head says");
    else
        message = bh_asprintf("endpoint '%s': cannot get a reply from '%s': %s%s", s->name, s->host, problem,
                              strstr(problem, "certificate") ? CERTIFICATES : "");
    call->close_after = call->close_after || bh_streq(reason, "bad-request");
    fail(call, status, reason, message);
}

static void on_end(void *arg, const char *problem, const char *reason)
{
    struct bh_call *call = arg;
    call->transfer = NULL;
    if (!call->conn) {
        bh_call_abandon(call, "gone");
        return;
    }
    if (call->conn->broken) {
        call->reason = "gone";
        finish(call, false);
        return;
    }
    bool whole = !problem && sift(call, NULL, 0);
    if (!whole) {
        say_problem(call, problem ? problem : "", call->reason ? call->reason : reason);
        return;
    }
    if (call->chunked)
        bh_conn_send(call->conn, "0\r\n\r\n", 5);
    finish(call, true);
}

/* --- the beginning --- */

static bool is_allowed(struct bh_call *call)
{
    const struct bh_service *s = call->endpoint->shared->service;
    const struct bh_http_request *req = &call->conn->req;
    const char *why;
    bool clear = bh_endpoint_normalise(req->target, &call->target, &why) == 0;
    if (!bh_endpoint_spend_request(call->endpoint)) { /* also what is refused counts */
        refuse(call, 403, "budget", SPENT);
        return false;
    }
    if (!clear) {
        refuse(call, 400, "bad-request", why);
        return false;
    }
    if (!bh_endpoint_allows(s->allow, s->n_allow, req->method, call->target.compared)) {
        BH_CLEANUP_FREE char *message =
            bh_asprintf("endpoint '%s' does not allow this call: to permit it, add \"%s %s\" to "
                        "its 'allow'",
                        s->name, req->method, call->target.compared);
        refuse(call, 403, "not-allowed", message);
        return false;
    }
    return true;
}

void bh_call_begin(struct bh_conn *c)
{
    struct bh_call *call = bh_alloc(sizeof(*call));
    struct bh_shared_service *shared = c->endpoint->shared;
    *call = (struct bh_call){.conn = c, .endpoint = c->endpoint, .began = bh_mono_now()};
    call->sieve.set = shared->service->needles;
    bh_list_init(&call->link);
    c->call = call;
    if (!is_allowed(call))
        return;
    if (bh_call_enter(call))
        bh_endpoint_let_in(shared);
}

/* --- time --- */

bool bh_call_is_late(const struct bh_call *call, struct bh_mono now)
{
    if (now.ns - call->began.ns > call->endpoint->total_s * BH_NS_PER_S)
        return true;
    bool service = call->transfer && !call->paused && !call->wants_body;
    return service && now.ns - call->heard.ns > call->endpoint->idle_s * BH_NS_PER_S;
}

bool bh_call_is_in_the_way(const struct bh_call *call, struct bh_mono now)
{
    int64_t stood = call->stood_ns + (call->wants_body || call->paused ? now.ns - call->stands.ns : 0);
    int64_t may = BH_IN_THE_WAY_S + (call->up + call->down) / BH_LEAST_RATE;
    return stood > may * BH_NS_PER_S && bh_gate_is_in_the_way(&call->endpoint->shared->service->gate, &call->turn);
}

void bh_call_give_up(struct bh_call *call)
{
    BH_CLEANUP_FREE char *message = bh_asprintf(
        "endpoint '%s': others wait for a place among its 'max_parallel' calls, and this one was neither sent nor read",
        call->endpoint->shared->service->name);
    bh_transfer_cancel(BH_TAKE(call->transfer));
    call->close_after = true;
    fail(call, 408, "slow", message);
}

void bh_call_time_out(struct bh_call *call)
{
    const struct bh_service *s = call->endpoint->shared->service;
    BH_CLEANUP_FREE char *message = bh_asprintf("endpoint '%s': '%s' took too long to reply", s->name, s->host);
    bh_transfer_cancel(BH_TAKE(call->transfer));
    fail(call, 504, "timeout", message);
}
