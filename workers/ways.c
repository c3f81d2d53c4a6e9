/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways out of a box (ways.h). Every way:
 *
 *   IDLE --enter--> LISTENING --the box has it--> OPENING --the broker has it--> OPEN --stop--> CLOSING --> CLOSED
 *
 * An enter is over when no way is between IDLE and OPEN, the proxy has the rules of the phase, and a phase that has the
 * host's network is written down. What cannot be had
 * ends it with the first reason. A broker that is gone, or does not answer in time, counts as closed.
 */
#include "workers/ways.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/val.h"
#include "workers/box_call.h"
#include "workers/decisions.h"
#include "workers/exec_env.h"
#include "workers/ways_msg.h"

#define MAGIC 0x77617973u

enum { PROXY_PORT = 3128, ENDPOINT_PORT = 4101, OPEN_SECONDS = 60, CLOSE_SECONDS = 5 };

enum way_state { IDLE, LISTENING, OPENING, OPEN, CLOSING, CLOSED };

struct way {
    struct bh_ways *ways;
    enum way_state state;
    bool is_proxy;
    size_t endpoint; /* of another one */
    int port;        /* 0: not known yet */
    bool asked;      /* OPEN: new rules are on their way */
    struct bh_box_call *call;
    struct bh_broker_line *line;
    struct bh_ways_usage usage;
};

struct bh_ways {
    unsigned magic;
    struct bh_ways_spec spec;
    struct bh_decisions *decisions;
    struct way *of;
    size_t n;
    enum bh_net_phase phase;
    bool broken;
    int code; /* of an enter that has failed */
    struct bh_err *err;
    bh_ways_ready_fn ready;
    void (*gone)(void *arg);
    void *arg;
    bool flushing;
    bool noting; /* that the phase has the host's network */
    struct event *later, *patience;
};

static struct bh_ways *check(struct bh_ways *w)
{
    BH_ASSERT(w->magic == MAGIC);
    return w;
}

static bool reaches(const struct bh_lease_network *n)
{
    return n->kind == BH_NET_PUBLIC || n->kind == BH_NET_ALLOW;
}

bool bh_ways_on_host(const struct bh_lease *lease, unsigned phases)
{
    bool host = false;
    for (int i = 0; i < BH_N_NET_PHASES; i++)
        host = host || (phases & BH_WAYS(i) && lease->network[i].kind == BH_NET_HOST);
    return host;
}

static bool needs_proxy(const struct bh_lease *lease, unsigned phases)
{
    bool needed = false;
    for (int i = 0; i < BH_N_NET_PHASES; i++)
        needed = needed || (phases & BH_WAYS(i) && reaches(&lease->network[i]));
    return needed;
}

static bool needs_endpoints(const struct bh_lease *lease, unsigned phases)
{
    return lease->n_endpoints > 0 && phases & ~BH_WAYS(BH_NET_CHECK);
}

bool bh_ways_needed(const struct bh_lease *lease, unsigned phases)
{
    return needs_proxy(lease, phases) || needs_endpoints(lease, phases) || bh_ways_on_host(lease, phases);
}

/* --- telling --- */

static bool is_settled(const struct bh_ways *w)
{
    for (size_t i = 0; i < w->n; i++) {
        if (w->of[i].state < OPEN || w->of[i].asked)
            return false;
    }
    return !w->noting;
}

static bool is_closed(const struct bh_ways *w)
{
    for (size_t i = 0; i < w->n; i++) {
        if (w->of[i].state != CLOSED && w->of[i].state != IDLE)
            return false;
    }
    return true;
}

static void set_patience(struct bh_ways *w, int seconds)
{
    const struct timeval in = {.tv_sec = seconds};
    (void)event_add(w->patience, &in);
}

static void on_flushed(void *arg)
{
    struct bh_ways *w = check(arg);
    BH_TAKE(w->gone)(w->arg);
}

static void tell_gone(struct bh_ways *w)
{
    (void)event_del(w->patience);
    if (w->flushing)
        return;
    w->flushing = true;
    bh_decisions_flush(w->decisions, on_flushed, w);
}

static void tell_ready(struct bh_ways *w)
{
    BH_CLEANUP_ERR struct bh_err *err = BH_TAKE(w->err);
    int code = w->code;
    w->code = 0;
    (void)event_del(w->patience);
    BH_TAKE(w->ready)(w->arg, code, err);
}

/* Everything is told from here, so never from inside a call. */
static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct bh_ways *w = check(arg);
    (void)fd;
    (void)what;
    if (w->ready && (w->code != 0 || is_settled(w)))
        tell_ready(w);
    else if (w->gone && is_closed(w))
        tell_gone(w);
}

static void look(struct bh_ways *w)
{
    event_active(w->later, EV_TIMEOUT, 0);
}

/* Takes err; the first reason stays. */
static void fail(struct bh_ways *w, int code, struct bh_err *err)
{
    if (w->ready && w->code == 0) {
        w->code = code;
        w->err = err;
    } else {
        bh_err_free(err);
    }
    look(w);
}

static void break_off(struct bh_ways *w, bool budget, const char *why)
{
    if (w->broken || w->gone)
        return;
    w->broken = true;
    w->spec.broken(w->spec.arg, budget, why);
}

/* --- what brokers say --- */

static const char *name_of(const struct way *way)
{
    return way->is_proxy ? "the network" : way->ways->spec.lease->endpoints[way->endpoint].name;
}

static void on_ready(struct way *way)
{
    struct bh_ways *w = way->ways;
    if (way->state == OPENING && !way->is_proxy) {
        const struct bh_lease_endpoint *e = &w->spec.lease->endpoints[way->endpoint];
        for (size_t i = 0; i < e->n_secrets; i++)
            bh_decisions_secret(w->decisions, e->name, e->secrets[i].name);
    }
    if (way->state == OPENING)
        way->state = OPEN;
    way->asked = false;
    look(w);
}

static void on_refused(struct way *way, const struct bh_val *msg)
{
    struct bh_err *err = NULL;
    const char *why = bh_val_str_of(msg, "message");
    int code = bh_err_set(&err, BH_E_HOST, 0, "%s%s%s cannot be had: %s", way->is_proxy ? "" : "the endpoint '",
                          name_of(way), way->is_proxy ? "" : "'", why ? why : "the broker says no more");
    way->state = CLOSED;
    fail(way->ways, code, err);
}

static void on_budget(struct way *way, const struct bh_val *msg)
{
    const char *what = bh_val_str_of(msg, "what");
    const struct bh_lease *lease = way->ways->spec.lease;
    bool tokens = bh_streq(what, "tokens");
    BH_CLEANUP_FREE char *why = bh_asprintf("it has used up its %lld %s (limits.%s)",
                                            (long long)(tokens ? lease->max_tokens : lease->max_requests),
                                            tokens ? "tokens" : "requests", tokens ? "tokens" : "requests");
    break_off(way->ways, true, why);
}

static void on_closed(struct way *way, const struct bh_val *msg)
{
    if (!way->is_proxy)
        way->usage = (struct bh_ways_usage){.requests = bh_val_int_of(msg, "requests"),
                                            .tokens_in = bh_val_int_of(msg, "tokens_in"),
                                            .tokens_out = bh_val_int_of(msg, "tokens_out")};
    way->state = CLOSED;
    bh_broker_drop(BH_TAKE(way->line));
    look(way->ways);
}

static void on_said(void *arg, const char *op, const struct bh_val *msg)
{
    struct way *way = arg;
    struct bh_ways *w = check(way->ways);
    if (bh_streq(op, "ready"))
        on_ready(way);
    else if (bh_streq(op, "failed"))
        on_refused(way, msg);
    else if (bh_streq(op, "decision"))
        bh_decisions_egress(w->decisions, msg);
    else if (bh_streq(op, "call"))
        bh_decisions_call(w->decisions, name_of(way), msg);
    else if (bh_streq(op, "budget"))
        on_budget(way, msg);
    else if (bh_streq(op, "closed"))
        on_closed(way, msg);
}

static void on_lost(void *arg)
{
    struct way *way = arg;
    struct bh_ways *w = check(way->ways);
    bool needed = way->state < CLOSING;
    bh_broker_drop(BH_TAKE(way->line));
    way->state = CLOSED;
    if (w->ready) {
        struct bh_err *err = NULL;
        int code = bh_err_set(&err, BH_E_HOST, 0, "the broker through which a box reaches %s has ended", name_of(way));
        fail(w, code, err);
        return;
    }
    look(w);
    if (needed)
        break_off(w, false, "the broker through which its box reached the network has ended");
}

/* What the box has opened is written down: from here on it may be used. */
static void on_noted(void *arg, int64_t connection, bool ok)
{
    struct bh_ways *w = check(arg);
    for (size_t i = 0; i < w->n; i++) {
        BH_CLEANUP_ERR struct bh_err *err = NULL;
        struct way *way = &w->of[i];
        if (!way->is_proxy || (way->state != OPENING && way->state != OPEN))
            continue;
        struct bh_val *msg = bh_val_map();
        bh_val_set_int(msg, "connection", connection);
        bh_val_set_bool(msg, "ok", ok);
        (void)!bh_broker_tell(way->line, "noted", msg, &err); /* a broker that is gone carries nothing */
    }
}

/* --- opening --- */

static int port_of(int fd)
{
    struct sockaddr_in at = {0};
    socklen_t len = sizeof(at);
    return getsockname(fd, (struct sockaddr *)(void *)&at, &len) == 0 ? ntohs(at.sin_port) : 0;
}

static void on_listening(void *arg, int fd, int error)
{
    static const struct bh_broker_events events = {on_said, on_lost};
    struct way *way = arg;
    struct bh_ways *w = check(way->ways);
    BH_CLEANUP_FD int listener = fd;
    struct bh_err *err = NULL;
    int rc;
    way->call = NULL;
    if (listener < 0) {
        rc = bh_err_set(&err, BH_E_HOST, error, "the box cannot listen for its way to %s", name_of(way));
    } else {
        way->port = port_of(listener);
        rc = bh_broker_open(w->spec.host->brokers, way->is_proxy ? BH_BROKER_EGRESS : BH_BROKER_ENDPOINTS,
                            way->is_proxy ? bh_ways_open_proxy(w->spec.lease, w->phase)
                                          : bh_ways_open_endpoint(w->spec.lease, way->endpoint),
                            listener, &events, way, &way->line, &err);
    }
    way->state = rc == 0 ? OPENING : CLOSED;
    if (rc != 0)
        fail(w, rc, err);
}

static void open_way(struct way *way)
{
    way->state = LISTENING;
    way->call = bh_box_call_listen(way->ways->spec.box, way->is_proxy ? PROXY_PORT : ENDPOINT_PORT + (int)way->endpoint,
                                   on_listening, way);
}

static void change_rules(struct way *way)
{
    struct bh_err *err = NULL;
    int rc = bh_broker_tell(way->line, "policy", bh_ways_policy(way->ways->spec.lease, way->ways->phase), &err);
    way->asked = rc == 0;
    if (rc != 0)
        fail(way->ways, rc, err);
}

static void on_host_noted(void *arg)
{
    struct bh_ways *w = check(arg);
    const char *problem = bh_decisions_problem(w->decisions);
    w->noting = false;
    if (problem) {
        struct bh_err *err = NULL;
        int code = bh_err_set(&err, BH_E_HOST, 0, "the audit log cannot be written: %s", problem);
        fail(w, code, err);
    }
    look(w);
}

/* Of what it does there nothing is seen, so it is known at least who had it, and from when. */
static void note_host(struct bh_ways *w)
{
    w->noting = true;
    bh_decisions_host(w->decisions, w->phase);
    bh_decisions_flush(w->decisions, on_host_noted, w);
}

void bh_ways_enter(struct bh_ways *w, enum bh_net_phase phase, bh_ways_ready_fn ready, void *arg)
{
    bool changes = check(w)->phase != phase;
    BH_ASSERT(!w->ready && !w->gone);
    w->phase = phase;
    w->ready = ready;
    w->arg = arg;
    for (size_t i = 0; i < w->n; i++) {
        if (w->of[i].state == IDLE)
            open_way(&w->of[i]);
        else if (changes && w->of[i].is_proxy && w->of[i].state == OPEN)
            change_rules(&w->of[i]);
    }
    if (bh_ways_on_host(w->spec.lease, BH_WAYS(phase)))
        note_host(w);
    set_patience(w, OPEN_SECONDS);
    look(w);
}

/* --- the environment --- */

static void add(struct bh_env_list *env, const char *name, const char *value)
{
    if (!bh_env_has(env, name))
        bh_env_add(env, name, value);
}

/* ALL_PROXY is HTTP as well, which every client understands; SOCKS is spoken at the same port to whoever speaks it. */
static void add_proxy(struct bh_env_list *env, int port)
{
    static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
                                        "http_proxy", "https_proxy", "all_proxy"};
    const char *url = bh_arena_printf(env->arena, "http://127.0.0.1:%d", port);
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++)
        add(env, names[i], url);
    add(env, "NO_PROXY", "localhost,127.0.0.1,::1");
    add(env, "no_proxy", "localhost,127.0.0.1,::1");
    add(env, "NODE_USE_ENV_PROXY", "1");
}

static const char *with_url(struct bh_arena *arena, const char *value, int port)
{
    static const char mark[] = "{{url}}";
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (const char *at; (at = strstr(value, mark)); value = at + sizeof(mark) - 1)
        bh_buf_addf(&out, "%.*shttp://127.0.0.1:%d", (int)(at - value), value, port);
    bh_buf_adds(&out, value);
    return bh_arena_strdup(arena, out.data);
}

static void add_endpoint(struct bh_env_list *env, const struct bh_lease_endpoint *e, int port)
{
    for (size_t i = 0; i < e->n_env; i++)
        add(env, e->env[i].name, with_url(env->arena, e->env[i].value, port));
}

const char *const *bh_ways_env(const struct bh_ways *w, struct bh_arena *arena, const char *const *env)
{
    struct bh_env_list list = {.arena = arena};
    for (; *env; env++) {
        const char **slot = BH_ARENA_PUSH(arena, list.items, list.len, list.cap);
        *slot = *env;
    }
    /* On the host's network 127.0.0.1 is the host: whoever listens there is not ours. */
    const bool on_host = bh_ways_on_host(w->spec.lease, BH_WAYS(w->phase));
    for (size_t i = 0; i < w->n && !on_host; i++) {
        const struct way *way = &w->of[i];
        if (way->state != OPEN)
            continue;
        if (!way->is_proxy)
            add_endpoint(&list, &w->spec.lease->endpoints[way->endpoint], way->port);
        else if (reaches(&w->spec.lease->network[w->phase]))
            add_proxy(&list, way->port);
    }
    return bh_env_end(&list);
}

/* --- closing --- */

static void close_way(struct way *way)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    bh_box_call_forget(BH_TAKE(way->call));
    way->asked = false;
    if (way->state < OPENING)
        way->state = CLOSED;
    if (way->state != OPENING && way->state != OPEN)
        return;
    int rc = bh_broker_tell(way->line, "close", bh_val_map(), &err);
    way->state = rc == 0 ? CLOSING : CLOSED;
}

void bh_ways_stop(struct bh_ways *w)
{
    check(w)->ready = NULL;
    for (size_t i = 0; i < w->n; i++)
        close_way(&w->of[i]);
}

void bh_ways_close(struct bh_ways *w, void (*gone)(void *arg), void *arg)
{
    bh_ways_stop(w);
    w->gone = gone;
    w->arg = arg;
    set_patience(w, CLOSE_SECONDS);
    look(w);
}

/* The broker hangs: nobody waits for it for ever. */
static void on_patience(evutil_socket_t fd, short what, void *arg)
{
    struct bh_ways *w = check(arg);
    (void)fd;
    (void)what;
    if (w->ready) {
        struct bh_err *err = NULL;
        int code = bh_err_set(&err, BH_E_HOST, 0, "a broker does not answer");
        fail(w, code, err);
        return;
    }
    for (size_t i = 0; i < w->n && w->gone; i++)
        w->of[i].state = CLOSED;
    look(w);
}

struct bh_ways_usage bh_ways_usage(const struct bh_ways *w)
{
    struct bh_ways_usage sum = {0};
    for (size_t i = 0; i < w->n; i++) {
        sum.requests += w->of[i].usage.requests;
        sum.tokens_in += w->of[i].usage.tokens_in;
        sum.tokens_out += w->of[i].usage.tokens_out;
    }
    return sum;
}

char *bh_ways_text(const struct bh_ways *w)
{
    return bh_decisions_text(w->decisions);
}

struct bh_ways *bh_ways_new(const struct bh_ways_spec *spec)
{
    struct bh_ways *w = bh_alloc(sizeof(*w));
    const struct bh_lease *lease = spec->lease;
    *w = (struct bh_ways){.magic = MAGIC, .spec = *spec};
    w->decisions = bh_decisions_new(spec->host->audit, spec->host->home, lease, on_noted, w);
    w->of = bh_calloc(lease->n_endpoints + 1, sizeof(*w->of));
    if (needs_proxy(lease, spec->phases))
        w->of[w->n++] = (struct way){.ways = w, .is_proxy = true};
    for (size_t i = 0; i < lease->n_endpoints && needs_endpoints(lease, spec->phases); i++)
        w->of[w->n++] = (struct way){.ways = w, .endpoint = i};
    w->later = event_new(spec->host->loop, -1, 0, on_later, w);
    w->patience = evtimer_new(spec->host->loop, on_patience, w);
    BH_ASSERT(w->later && w->patience);
    return w;
}

void bh_ways_free(struct bh_ways *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < check(w)->n; i++) {
        bh_box_call_forget(w->of[i].call);
        bh_broker_drop(w->of[i].line);
    }
    bh_decisions_free(w->decisions);
    event_free(w->later);
    event_free(w->patience);
    bh_err_free(w->err);
    bh_free(w->of);
    w->magic = 0;
    bh_free(w);
}
