/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what cannot go together with the host's network. An endpoint is a port on the loopback of a box, at which
 * whoever connects is served with the credential: on the host's loopback that would be everybody there. And what forks
 * a warm process enters another network with it.
 */
#include "base/json.h"
#include "base/text.h"
#include "base/val.h"
#include "topologies/placement.h"

static bool has_host(const char *network, const char *phase)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    if (*network != '{')
        return bh_streq(network, "host");
    return bh_json_parse(network, strlen(network), &v, NULL) == 0 && bh_streq(bh_val_str_of(v, phase), "host");
}

static void refuse_endpoints(struct bh_planner *pl, const struct bh_plan_agent *a)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_INVALID, 0, "agent '%s' has endpoint '%s', and its 'run' has the host's network", a->name,
               a->doc->endpoints.items[0].s);
    bh_err_detail(&err, "there it would be a port for every program of the host, which sends the credential along");
    bh_err_hint(&err, "let another agent call the endpoint, or leave 'network: host' to 'setup', 'prepare' or 'check'");
    bh_planner_report(pl, err, a->doc->endpoints.items[0].pos,
                      bh_arena_printf(pl->arena, "%s.endpoints", a->doc->path));
}

static void refuse_warm(struct bh_planner *pl, const struct bh_plan_agent *a)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_INVALID, 0, "'prepare' of agent '%s' cannot be warm with the host's network", a->name);
    bh_err_hint(&err, "leave 'warm' away, or 'network: host' of 'prepare' and 'run'");
    bh_planner_report(pl, err, a->doc->prepare.pos, bh_arena_printf(pl->arena, "%s.prepare", a->doc->path));
}

void bh_host_network_check(struct bh_planner *pl, size_t box)
{
    const struct bh_plan_box *b = &pl->plan->boxes[box];
    const bool run = has_host(b->network, "run"), prepare = has_host(b->network, "prepare");
    for (size_t i = 0; (run || prepare) && i < b->n_agents; i++) {
        const struct bh_plan_agent *a = &pl->plan->agents[b->agents[i]];
        if (run && a->doc->endpoints.len > 0)
            refuse_endpoints(pl, a);
        if (a->doc->warm)
            refuse_warm(pl, a);
    }
}
