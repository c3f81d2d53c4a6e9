/* SPDX-License-Identifier: Apache-2.0 */
/* Pure: everything that is decided here follows from the arguments alone. */
#include "policies/broker/egress_policy.h"

#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"

static const struct {
    const char *text;
    int http, socks;
    const char *what;
} reasons[] = {
#define BH_X(name, text, http, socks, what) {text, http, socks, what},
#include "policies/broker/egress_reasons.def"
#undef BH_X
};

const char *bh_egress_reason_text(enum bh_egress_reason reason)
{
    return reasons[reason].text;
}

const char *bh_egress_reason_what(enum bh_egress_reason reason)
{
    return reasons[reason].what;
}

int bh_egress_reason_http(enum bh_egress_reason reason)
{
    return reasons[reason].http;
}

int bh_egress_reason_socks(enum bh_egress_reason reason)
{
    return reasons[reason].socks;
}

bool bh_egress_is_denial(enum bh_egress_reason reason)
{
    return reason > BH_EGRESS_PUBLIC && reason <= BH_EGRESS_CONNECTIONS;
}

/* --- reading --- */

static int read_allow(const struct bh_val *list, struct bh_egress_policy *p, struct bh_err **err)
{
    p->allow = bh_calloc(bh_val_len(list), sizeof(*p->allow));
    for (; p->n_allow < bh_val_len(list); p->n_allow++) {
        const struct bh_val *item = bh_val_at(list, p->n_allow);
        const char *text = bh_val_get_str(item);
        if (!text || !bh_destination_read(text, bh_val_str_len(item), true, &p->allow[p->n_allow]))
            return bh_err_set(err, BH_E_BAD_VALUE, 0, "'%s' is no host and port", text ? text : "");
    }
    return 0;
}

static int read_all(const struct bh_val *v, struct bh_egress_policy *p, struct bh_err **err)
{
    const char *kind = bh_val_str_of(v, "kind");
    if (bh_streq(kind, "allow"))
        p->kind = BH_EGRESS_KIND_ALLOW;
    else if (bh_streq(kind, "public"))
        p->kind = BH_EGRESS_KIND_PUBLIC;
    else if (!bh_streq(kind, "none"))
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "'%s' is no kind of network", kind ? kind : "");
    int rc = p->kind == BH_EGRESS_KIND_ALLOW ? read_allow(bh_val_get(v, "allow"), p, err) : 0;
    return rc < 0 ? rc : bh_ranges_read(bh_val_get(v, "ranges"), &p->ranges, &p->n_ranges, err);
}

int bh_egress_policy_read(const struct bh_val *v, struct bh_egress_policy *ret, struct bh_err **err)
{
    struct bh_egress_policy p = {0};
    int rc = read_all(v, &p, err);
    if (rc < 0)
        bh_egress_policy_fini(&p);
    else
        *ret = p;
    return rc;
}

void bh_egress_policy_fini(struct bh_egress_policy *p)
{
    bh_free(p->allow);
    bh_free(p->ranges);
    *p = (struct bh_egress_policy){0};
}

/* --- deciding --- */

enum bh_egress_reason bh_egress_decide_name(const struct bh_egress_policy *p, const struct bh_host *host, uint16_t port)
{
    if (p->kind == BH_EGRESS_KIND_NONE)
        return BH_EGRESS_NETWORK_NONE;
    if (p->kind == BH_EGRESS_KIND_PUBLIC)
        return port == 80 || port == 443 ? BH_EGRESS_PUBLIC : BH_EGRESS_PORT;
    for (size_t i = 0; i < p->n_allow; i++) {
        if (bh_destination_matches(&p->allow[i], host, port))
            return BH_EGRESS_LISTED;
    }
    return BH_EGRESS_NOT_LISTED;
}

enum bh_egress_reason bh_egress_decide_address(const struct bh_egress_policy *p,
                                               const unsigned char address[static BH_ADDRESS_LEN])
{
    static const enum bh_egress_reason kinds[] = {
        [BH_ADDRESS_PUBLIC] = BH_EGRESS_PUBLIC,       [BH_ADDRESS_PRIVATE] = BH_EGRESS_PRIVATE,
        [BH_ADDRESS_LOOPBACK] = BH_EGRESS_LOOPBACK,   [BH_ADDRESS_LINK_LOCAL] = BH_EGRESS_LINK_LOCAL,
        [BH_ADDRESS_CGNAT] = BH_EGRESS_CGNAT,         [BH_ADDRESS_METADATA] = BH_EGRESS_METADATA,
        [BH_ADDRESS_RESERVED] = BH_EGRESS_RESERVED,   [BH_ADDRESS_MULTICAST] = BH_EGRESS_MULTICAST,
        [BH_ADDRESS_NOWHERE] = BH_EGRESS_UNSPECIFIED,
    };
    return bh_address_is_permitted(address, p->ranges, p->n_ranges) ? BH_EGRESS_PUBLIC
                                                                    : kinds[bh_address_kind(address)];
}
