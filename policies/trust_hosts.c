/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the look at the hosts that a document names: in allow-lists and as upstreams. An address that is never public,
 * and a name that always stands for one, is refused where the document is read, unless the site permits its range for
 * the agent; what other names resolve to is judged when they are asked for.
 */
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "policies/host_name.h"
#include "policies/range.h"
#include "policies/site.h"
#include "policies/trust_priv.h"

/* A host that is not public. */
struct suspect {
    char *text; /* as the document has it */
    bool malformed;
    unsigned char address[BH_ADDRESS_LEN];
};

/* What is suspect in one network or upstream: looked for once. */
struct suspects {
    struct suspect *items;
    size_t n, cap;
};

struct look {
    struct bh_judgement *j;
    struct bh_map *networks, *upstreams; /* text → struct suspects */
    struct bh_map *endpoints;            /* name → struct bh_endpoint */
    size_t agent;
    struct bh_range *ranges; /* of the agent; made where they are asked for */
    size_t n_ranges;
    bool has_ranges;
};

/* Names that are not for resolvers to decide on. */
static const struct {
    const char *name, *address;
} known[] = {
    {"localhost", "127.0.0.1"},
    {"localhost.localdomain", "127.0.0.1"},
    {"ip6-localhost", "::1"},
    {"ip6-loopback", "::1"},
    {"metadata.google.internal", "169.254.169.254"},
    {"metadata.goog", "169.254.169.254"},
    {"instance-data.ec2.internal", "169.254.169.254"},
};

static bool is_known(const char *name, unsigned char address[static BH_ADDRESS_LEN])
{
    for (size_t i = 0; i < BH_ARRAY_LEN(known); i++) {
        if (bh_streq(name, known[i].name))
            return bh_address_parse(known[i].address, address);
    }
    size_t n = strlen(name), below = sizeof(".localhost") - 1;
    return n > below && bh_streq(name + n - below, ".localhost") && bh_address_parse("127.0.0.1", address);
}

static void add(struct suspects *list, const char *text, const struct bh_host *host)
{
    struct suspect s = {.malformed = host == NULL};
    if (host && host->is_address)
        memcpy(s.address, host->address, sizeof(s.address));
    if (host && !host->is_address && !is_known(host->name, s.address))
        return;
    if (host && bh_address_kind(s.address) == BH_ADDRESS_PUBLIC)
        return;
    s.text = bh_strdup(text);
    *BH_PUSH(list->items, list->n, list->cap) = s;
}

static void free_suspects(void *arg)
{
    struct suspects *list = arg;
    for (size_t i = 0; i < list->n; i++)
        bh_free(list->items[i].text);
    bh_free(list->items);
    bh_free(list);
}

/* A phase's word, {allow: […]}, or a map of these by phase. */
static void look_into(const struct bh_val *network, struct suspects *list)
{
    const struct bh_val *allow = bh_val_get(network, "allow");
    for (size_t i = 0; i < bh_val_len(allow); i++) {
        const char *text = bh_val_get_str(bh_val_at(allow, i));
        struct bh_destination to;
        bool good = bh_destination_read(text, strlen(text), true, &to);
        add(list, text, good ? &to.host : NULL);
    }
    for (size_t i = 0; !allow && bh_val_type(network) == BH_VAL_MAP && i < bh_val_len(network); i++)
        look_into(bh_val_at(network, i), list);
}

static const struct suspects *of_network(struct look *look, const char *network)
{
    struct suspects *list = bh_map_get(look->networks, network);
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    if (list)
        return list;
    list = bh_alloc(sizeof(*list));
    (void)bh_map_put(look->networks, network, list);
    if (*network == '{' && bh_json_parse(network, strlen(network), &v, NULL) == 0)
        look_into(v, list);
    return list;
}

/* https://host:port/path */
static const struct suspects *of_upstream(struct look *look, const char *url)
{
    struct suspects *list = bh_map_get(look->upstreams, url);
    if (list)
        return list;
    list = bh_alloc(sizeof(*list));
    (void)bh_map_put(look->upstreams, url, list);
    const char *host = strstr(url, "://") + 3;
    size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    struct bh_host read;
    bool good = len <= strlen(host) && bh_host_read(host, len, &read);
    add(list, url, good ? &read : NULL);
    return list;
}

/* --- what the site permits --- */

static void read_ranges(struct look *look)
{
    char **texts = NULL;
    size_t n = 0;
    look->has_ranges = true;
    look->n_ranges = 0;
    bh_policy_ranges(look->j->policy, look->j->plan, look->agent, &texts, &n);
    bh_free(look->ranges);
    look->ranges = bh_calloc(n + 1, sizeof(*look->ranges));
    for (size_t i = 0; i < n; i++) {
        if (bh_range_parse(texts[i], &look->ranges[look->n_ranges]))
            look->n_ranges++;
        bh_free(texts[i]);
    }
    bh_free(texts);
}

static bool is_permitted(struct look *look, const struct suspect *s)
{
    if (s->malformed || !look->j->policy)
        return false;
    if (!look->has_ranges)
        read_ranges(look);
    return bh_address_is_permitted(s->address, look->ranges, look->n_ranges);
}

static void report(struct look *look, const struct suspects *list, const char *what, struct bh_pos pos,
                   const char *path)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct suspect *s = &list->items[i];
        struct bh_err *err = NULL;
        if (is_permitted(look, s))
            continue;
        if (s->malformed) {
            bh_err_set(&err, BH_E_BAD_VALUE, 0, "%s '%s' has no host that can be reached", what, s->text);
            bh_err_hint(&err, "write a name, or an address in its usual form");
        } else {
            enum bh_address_kind kind = bh_address_kind(s->address);
            bh_err_set(&err, BH_E_POLICY, 0, "%s '%s' is not public: %s", what, s->text, bh_address_kind_text(kind));
            bh_err_hint(
                &err,
                "boxes reach public addresses; the site may permit others by 'allow: {ranges: […]}' in %s or "
                "your own file (BULKHEAD_SITE, else ~/.config/bulkhead/site.yaml); where both are there, in both",
                BH_SITE_FILE);
        }
        bh_trust_report(look->j, err, pos, path);
    }
}

/* Where the network of the agent's box is written. */
static struct bh_pos place_of_network(const struct look *look, const struct bh_plan_agent *a, char **ret_path)
{
    const struct bh_plan_box *box = &look->j->plan->boxes[a->box];
    const struct bh_str *top = &look->j->plan->pipeline->traits.network, *own = &a->doc->traits.network;
    if (box->doc && bh_streq(box->doc->traits.network.s, box->network)) {
        *ret_path = bh_asprintf("boxes.%s.network", box->doc->name.s);
        return box->doc->traits.network.pos;
    }
    bool inherited = top->s && (!own->s || own->pos.line == top->pos.line);
    *ret_path = inherited ? bh_strdup("defaults.network") : bh_asprintf("%s.network", a->doc->path);
    if (inherited)
        return top->pos;
    return own->s ? own->pos : a->doc->name.pos;
}

static void check_endpoints(struct look *look, const struct bh_plan_agent *a)
{
    for (size_t i = 0; i < a->doc->endpoints.len; i++) {
        const struct bh_endpoint *e = bh_map_get(look->endpoints, a->doc->endpoints.items[i].s);
        const struct suspects *list = e && e->upstream.s ? of_upstream(look, e->upstream.s) : NULL;
        if (!list || list->n == 0)
            continue;
        BH_CLEANUP_FREE char *path = bh_asprintf("endpoints.%s.upstream", e->name.s);
        report(look, list, "the upstream", e->upstream.pos, path);
    }
}

void bh_trust_check_hosts(struct bh_judgement *j)
{
    BH_CLEANUP_MAP struct bh_map *networks = bh_map_new(free_suspects), *upstreams = bh_map_new(free_suspects);
    BH_CLEANUP_MAP struct bh_map *endpoints = bh_map_new(NULL);
    struct look look = {.j = j, .networks = networks, .upstreams = upstreams, .endpoints = endpoints};
    for (size_t i = 0; i < j->plan->pipeline->n_endpoints; i++)
        (void)bh_map_put(endpoints, j->plan->pipeline->endpoints[i].name.s, &j->plan->pipeline->endpoints[i]);
    for (size_t i = 0; i < j->plan->n_agents; i++) {
        const struct bh_plan_agent *a = &j->plan->agents[i];
        const struct suspects *list = of_network(&look, j->plan->boxes[a->box].network);
        look.agent = i;
        look.has_ranges = false;
        if (list->n > 0) {
            BH_CLEANUP_FREE char *path = NULL;
            struct bh_pos pos = place_of_network(&look, a, &path);
            report(&look, list, "the network", pos, path);
        }
        check_endpoints(&look, a);
    }
    bh_free(look.ranges);
}
