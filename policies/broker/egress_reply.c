/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client is told where it came to nothing: what it asked for, why not, and what whoever writes the pipeline
 * could add. Addresses that names resolve to are left out: they may say something about the host's networks.
 */
#include "policies/broker/egress_priv.h"

static void add_destination(const struct bh_egress_conn *c, struct bh_buf *out)
{
    const struct bh_host *host = &c->request.host;
    bool brackets = host->is_address && !bh_address_is_v4(host->address);
    if (host->name[0] == '\0')
        bh_buf_adds(out, "this");
    else
        bh_buf_addf(out, brackets ? "[%s]:%u" : "%s:%u", host->name, (unsigned)c->request.port);
}

/* What would let it through; empty where nothing in a pipeline could. */
static void add_hint(const struct bh_egress_conn *c, enum bh_egress_reason reason, struct bh_buf *out)
{
    if (reason == BH_EGRESS_NOT_LISTED || reason == BH_EGRESS_PORT || reason == BH_EGRESS_NETWORK_NONE) {
        bh_buf_adds(out, "add \"");
        add_destination(c, out);
        bh_buf_addf(out, "\" to network.allow of agent '%s' (phase '%s')", c->exit->agent, c->exit->phase);
    } else if (reason >= BH_EGRESS_PRIVATE && reason <= BH_EGRESS_OWN_HOST) {
        bh_buf_adds(out, "no pipeline can allow this, but the site's policy can permit a range of addresses");
    } else if (reason == BH_EGRESS_BAD_REQUEST) {
        bh_buf_adds(out, "this is a proxy: use CONNECT HOST:PORT, a request for http://HOST/, or SOCKS 4a or 5");
    } else if (reason == BH_EGRESS_CONNECTIONS) {
        bh_buf_adds(out, "close some that are open");
    }
}

static void add_text(const struct bh_egress_conn *c, enum bh_egress_reason reason, struct bh_buf *out)
{
    BH_CLEANUP_BUF struct bh_buf hint = BH_BUF_INIT;
    bh_buf_adds(out, "bulkhead: ");
    add_destination(c, out);
    bh_buf_addf(out, " %s\n", bh_egress_reason_what(reason));
    add_hint(c, reason, &hint);
    if (hint.len > 0)
        bh_buf_addf(out, "hint: %s\n", hint.data);
}

static void add_http(const struct bh_egress_conn *c, enum bh_egress_reason reason, struct bh_buf *out)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT, hint = BH_BUF_INIT;
    int status = bh_egress_reason_http(reason);
    add_text(c, reason, &text);
    add_hint(c, reason, &hint);
    /* Clients that open tunnels show the first line and nothing else. */
    bh_buf_addf(out, "HTTP/1.1 %d %s by bulkhead (%s)%s%s\r\n", status, bh_http_status_text(status),
                bh_egress_reason_text(reason), status == 403 ? ": " : "", status == 403 ? hint.data : "");
    bh_buf_addf(out, "X-Bulkhead-Reason: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n",
                bh_egress_reason_text(reason), text.len);
    bh_buf_adds(out, "Connection: close\r\n\r\n");
    bh_buf_add(out, text.data, text.len);
}

void bh_egress_reply(const struct bh_egress_conn *c, enum bh_egress_reason reason, struct bh_buf *out)
{
    unsigned char socks[BH_SOCKS_ANSWER_MAX];
    if (c->speaks == BH_SPEAKS_SOCKS4 || c->speaks == BH_SPEAKS_SOCKS5)
        bh_buf_add(out, socks, bh_egress_socks_answer(c->speaks == BH_SPEAKS_SOCKS5, reason, socks));
    else
        add_http(c, reason, out);
}
