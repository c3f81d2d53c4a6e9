/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes at all as what a client or a host says to the egress broker. What comes out of it is a host in its one
 * form, and a head without a line that was not understood. The first byte chooses the reader.
 */
#include <string.h>
#include <strings.h>

#include "policies/broker/egress_head.h"
#include "policies/broker/egress_socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const struct bh_host *host)
{
    struct bh_host again;
    size_t len = strlen(host->name);
    BH_ASSERT(len > 0 && len < BH_HOST_TEXT && strspn(host->name, "abcdefghijklmnopqrstuvwxyz0123456789.:_-") == len);
    BH_ASSERT(bh_host_read(host->name, len, &again) && strcmp(host->name, again.name) == 0);
    BH_ASSERT(again.is_address == host->is_address);
    (void)bh_address_kind(host->address);
}

/* Lines end in CR LF and nowhere else, the last is empty, and there is one Host. */
static void check_head(const char *head, size_t len, size_t hosts)
{
    size_t found = 0;
    BH_ASSERT(len >= 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0 && !memchr(head, '\0', len));
    for (size_t i = 0; i < len; i++) {
        BH_ASSERT(head[i] != '\n' || head[i - 1] == '\r');
        BH_ASSERT(head[i] != '\r' || head[i + 1] == '\n');
        BH_ASSERT(i + 4 >= len || memcmp(head + i, "\r\n\r\n", 4) != 0);
        found += head[i] == '\n' && len - i > 6 && strncasecmp(head + i + 1, "host:", 5) == 0;
    }
    BH_ASSERT(hosts == 0 || found == hosts);
}

static void try_request(const char *data, size_t size)
{
    struct bh_egress_request r;
    enum bh_egress_reason reason;
    size_t n = bh_egress_request_read(data, size, &r, &reason);
    BH_ASSERT(n <= size);
    if (n > 0 && reason == BH_EGRESS_LISTED) {
        check_host(&r.host);
        BH_ASSERT(r.port > 0);
        if (!r.connect)
            check_head(r.head.data, r.head.len, 1);
        size_t body = bh_egress_body_take(&r.body, data + n, size - n);
        BH_ASSERT(body <= size - n && (body == size - n || r.body.bad || bh_egress_body_is_over(&r.body)));
    }
    bh_buf_fini(&r.head);
}

static void try_answer(const char *data, size_t size)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    size_t n = bh_egress_head_end(data, size, 0);
    if (n > 0 && bh_egress_answer_read(data, n, &out) != BH_ANSWER_BAD)
        check_head(out.data, out.len, 0);
}

static void try_socks(const unsigned char *data, size_t size)
{
    struct bh_egress_socks s;
    enum bh_egress_reason reason = BH_EGRESS_LISTED;
    long n = bh_egress_socks_greeting(data, size, &reason);
    BH_ASSERT(n <= (long)size);
    n = bh_egress_socks_request(data, size, &s, &reason);
    BH_ASSERT(n <= (long)size && (n >= 0 || reason != BH_EGRESS_LISTED));
    if (n > 0)
        check_host(&s.host);
}

static void try_destination(const char *data, size_t size)
{
    struct bh_destination d;
    if (bh_destination_read(data, size, true, &d))
        check_host(&d.host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    if (data[0] == 'R')
        try_request(text, size - 1);
    else if (data[0] == 'A')
        try_answer(text, size - 1);
    else if (data[0] == 'S')
        try_socks(data + 1, size - 1);
    else
        try_destination(text, size - 1);
    return 0;
}
