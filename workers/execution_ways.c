/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways out of an execution's box (ways.h): opened before its first command that may reach something, with the rules
 * of each phase before the phase begins, closed when nothing runs any more. The end is told when all that was decided
 * is in the audit log. An execution that may reach nothing passes through here without a turn of the loop.
 */
#include "base/mem.h"
#include "workers/exec_env.h"
#include "workers/execution_priv.h"

unsigned bh_x_phases(const struct bh_lease *lease)
{
    if (lease->kind == BH_LEASE_SETUP)
        return BH_WAYS(BH_NET_SETUP);
    if (lease->kind == BH_LEASE_PREPARE)
        return BH_WAYS(BH_NET_PREPARE);
    return BH_WAYS(BH_NET_RUN) | (lease->n_setup > 0 ? BH_WAYS(BH_NET_SETUP) : 0);
}

/* Whatever runs is told to end, and then this is why. */
static void on_broken(void *arg, bool budget, const char *why)
{
    struct bh_execution *e = bh_x_check(arg);
    if (e->state == BH_X_ENDED || e->is_cut)
        return;
    e->is_cut = true;
    bh_verdict_failed(&e->cut, budget ? BH_REASON_BUDGET : BH_REASON_HOST, "%s", why);
    if (e->command)
        bh_command_stop(e->command);
    else if (e->state < BH_X_CLOSING)
        bh_x_end(e, &e->cut);
}

bool bh_x_was_cut(struct bh_execution *e, const struct bh_command_end *end, struct bh_verdict *verdict)
{
    if (!e->is_cut || !end->stopped)
        return false;
    bh_verdict_fini(verdict);
    *verdict = e->cut;
    e->cut = (struct bh_verdict){0};
    return true;
}

static void on_ready(void *arg, int code, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    if (code != 0)
        bh_x_end_for_host(e, "opening what its box may reach", code, err);
    else
        e->next(e);
}

void bh_x_with_ways(struct bh_execution *e, enum bh_net_phase phase, void (*next)(struct bh_execution *e))
{
    const unsigned phases = bh_x_phases(&e->lease);
    if (!e->ways && !bh_ways_needed(&e->lease, phases)) {
        next(e);
        return;
    }
    const struct bh_ways_spec spec = {
        .host = e->host->ways,
        .lease = &e->lease,
        .box = e->box,
        .phases = phases,
        .broken = on_broken,
        .arg = e,
    };
    if (!e->ways)
        e->ways = bh_ways_new(&spec);
    e->next = next;
    bh_ways_enter(e->ways, phase, on_ready, e);
}

const char *const *bh_x_env(struct bh_execution *e, struct bh_arena *arena, bool root)
{
    const char *const *env = bh_exec_env(arena, &e->lease, root);
    return e->ways ? bh_ways_env(e->ways, arena, env) : env;
}

static void on_gone(void *arg)
{
    struct bh_execution *e = bh_x_check(arg);
    e->ways_gone = true;
    bh_x_conclude_soon(e);
}

void bh_x_stop_ways(struct bh_execution *e)
{
    if (e->ways && !e->ways_closing)
        bh_ways_stop(e->ways);
}

bool bh_x_ways_are_gone(struct bh_execution *e)
{
    if (!e->ways || e->ways_gone)
        return true;
    if (!e->ways_closing)
        bh_ways_close(e->ways, on_gone, e);
    e->ways_closing = true;
    return false;
}

void bh_x_fill_ways(const struct bh_execution *e, struct bh_result *r)
{
    if (!e->ways)
        return;
    const struct bh_ways_usage usage = bh_ways_usage(e->ways);
    r->requests = usage.requests;
    r->tokens_in = usage.tokens_in;
    r->tokens_out = usage.tokens_out;
}

void bh_x_drop_ways(struct bh_execution *e)
{
    bh_ways_free(BH_TAKE(e->ways));
    bh_verdict_fini(&e->cut);
}
