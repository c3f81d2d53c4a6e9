/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to brokers (ways_msg.h). They hold references to secrets, never values. */
#include "workers/ways_msg.h"

#include "base/val.h"

static struct bh_val *texts(char *const *items, size_t n)
{
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < n; i++)
        bh_val_add(list, bh_val_str(items[i]));
    return list;
}

static struct bh_val *names(const struct bh_lease *lease)
{
    struct bh_val *msg = bh_val_map();
    bh_val_set_str(msg, "run", lease->run.s);
    bh_val_set_str(msg, "agent", lease->agent);
    bh_val_set_str(msg, "instance", lease->instance.s);
    bh_val_set_str(msg, "box", lease->box.id);
    return msg;
}

/* HOST is never asked for here: the box would need no proxy. */
static struct bh_val *policy(const struct bh_lease *lease, enum bh_net_phase phase)
{
    static const char *const kinds[] = {
        [BH_NET_NONE] = "none", [BH_NET_PUBLIC] = "public", [BH_NET_HOST] = "none", [BH_NET_ALLOW] = "allow"};
    const struct bh_lease_network *network = &lease->network[phase];
    struct bh_val *p = bh_val_map();
    bh_val_set_str(p, "kind", kinds[network->kind]);
    bh_val_set(p, "allow", texts(network->allow, network->n_allow));
    bh_val_set(p, "ranges", texts(lease->ranges, lease->n_ranges));
    return p;
}

static void set_policy(struct bh_val *msg, const struct bh_lease *lease, enum bh_net_phase phase)
{
    bh_val_set_str(msg, "phase", bh_net_phase_text(phase));
    bh_val_set(msg, "policy", policy(lease, phase));
}

struct bh_val *bh_ways_open_proxy(const struct bh_lease *lease, enum bh_net_phase phase)
{
    struct bh_val *msg = names(lease);
    bh_val_set_bool(msg, "notes", true);
    set_policy(msg, lease, phase);
    return msg;
}

struct bh_val *bh_ways_policy(const struct bh_lease *lease, enum bh_net_phase phase)
{
    struct bh_val *msg = bh_val_map();
    set_policy(msg, lease, phase);
    return msg;
}

static struct bh_val *reference(const struct bh_lease_secret *s)
{
    struct bh_val *v = bh_val_map();
    if (s->env)
        bh_val_set_str(v, "env", s->env);
    else if (s->file)
        bh_val_set_str(v, "file", s->file);
    else
        bh_val_set(v, "command", texts(s->command, s->n_command));
    return v;
}

struct bh_val *bh_ways_open_endpoint(const struct bh_lease *lease, size_t endpoint)
{
    const struct bh_lease_endpoint *e = &lease->endpoints[endpoint];
    struct bh_val *msg = names(lease);
    bh_val_set_int(msg, "attempt", lease->attempt);
    struct bh_val *v = bh_val_set(msg, "endpoint", bh_val_map());
    bh_val_set_str(v, "name", e->name);
    bh_val_set_str(v, "upstream", e->upstream);
    struct bh_val *headers = bh_val_set(v, "headers", bh_val_list());
    for (size_t i = 0; i < e->n_headers; i++) {
        struct bh_val *header = bh_val_add(headers, bh_val_map());
        bh_val_set_str(header, "name", e->headers[i].name);
        bh_val_set_str(header, "value", e->headers[i].value);
    }
    struct bh_val *secrets = bh_val_set(v, "secrets", bh_val_map());
    for (size_t i = 0; i < e->n_secrets; i++)
        bh_val_set(secrets, e->secrets[i].name, reference(&e->secrets[i]));
    bh_val_set(v, "allow", texts(e->allow, e->n_allow));
    bh_val_set_int(v, "max_parallel", e->max_parallel);
    bh_val_set(msg, "ranges", texts(lease->ranges, lease->n_ranges));
    struct bh_val *limits = bh_val_set(msg, "limits", bh_val_map());
    bh_val_set_int(limits, "requests", lease->max_requests);
    bh_val_set_int(limits, "tokens", lease->max_tokens);
    return msg;
}
