/* SPDX-License-Identifier: Apache-2.0 */
/* From the plan's network of a box to the rules of each phase. What cannot be read lets nothing out. */
#include "scheduler/dispatch/lease_reach.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"

static char **copy_list(const struct bh_val *list, size_t *ret_n)
{
    size_t n = bh_val_len(list);
    char **copy = bh_calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = bh_strdup(bh_val_get_str(bh_val_at(list, i)));
    *ret_n = n;
    return copy;
}

static enum bh_net_kind kind_of(const char *word)
{
    return bh_streq(word, "public") ? BH_NET_PUBLIC : bh_streq(word, "host") ? BH_NET_HOST : BH_NET_NONE;
}

static void fill_phase(struct bh_lease_network *phase, const struct bh_val *v)
{
    const struct bh_val *allow = bh_val_get(v, "allow");
    phase->kind = allow ? BH_NET_ALLOW : kind_of(bh_val_get_str(v));
    if (allow)
        phase->allow = copy_list(allow, &phase->n_allow);
}

void bh_lease_reach(struct bh_lease *lease, const char *network, const struct bh_val *ranges)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    if (*network != '{')
        v = bh_val_str(network);
    else if (bh_json_parse(network, strlen(network), &v, NULL) != 0)
        return;
    bool by_phase = bh_val_type(v) == BH_VAL_MAP && !bh_val_get(v, "allow");
    for (int i = 0; i < BH_N_NET_PHASES; i++) {
        if (by_phase || i != BH_NET_CHECK)
            fill_phase(&lease->network[i], by_phase ? bh_val_get(v, bh_net_phase_text((enum bh_net_phase)i)) : v);
    }
    lease->ranges = copy_list(ranges, &lease->n_ranges);
}

static bool is_on_host(const struct bh_lease *lease)
{
    bool host = false;
    for (size_t i = 0; i < BH_N_NET_PHASES; i++)
        host = host || lease->network[i].kind == BH_NET_HOST;
    return host;
}

int bh_lease_check_powers(const struct bh_lease *lease, struct bh_err **err)
{
    static const char no_power[] = "the box of agent '%s' is tainted, and is given no power: %s %s";
    if (!lease->box.tainted)
        return 0;
    if (lease->n_secrets > 0)
        return bh_err_set(err, BH_E_POLICY, 0, no_power, lease->agent, "secret", lease->secrets[0].name);
    if (is_on_host(lease))
        return bh_err_set(err, BH_E_POLICY, 0, no_power, lease->agent, "network", "host");
    for (size_t i = 0; i < lease->n_endpoints; i++) {
        if (!lease->endpoints[i].tainted)
            return bh_err_set(err, BH_E_POLICY, 0, no_power, lease->agent, "endpoint", lease->endpoints[i].name);
    }
    return 0;
}
