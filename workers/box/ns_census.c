/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who of a shared box took what: by the control group of each exec where there is one, else over its processes, which
 * are those below the PID 1 that its box's init has named. Asked for when something went wrong, not before.
 */
#include <string.h>

#include "workers/box/ns_priv.h"
#include "workers/box/share.h"
#include "workers/disk/processes.h"

#define LIVE_MAX 128
#define EXEC(it) BH_CONTAINER(it, struct bh_exec, link)

static struct bh_box_share nothing_known(const struct bh_exec *exec)
{
    return (struct bh_box_share){.tag = exec->tag,
                                 .cpu_ms = -1,
                                 .memory_bytes = -1,
                                 .memory_peak_bytes = -1,
                                 .written_bytes = -1,
                                 .waited_ms = -1,
                                 .processes = -1};
}

struct live { /* execs of a box, and their PID 1 as the host numbers it; 0: it is not known, or gone */
    struct bh_exec *execs[LIVE_MAX];
    int pids[LIVE_MAX];
    size_t n;
};

/* Of more than that the rest is left out. */
static void find_live(struct bh_box *box, struct live *l)
{
    int inside[LIVE_MAX];
    l->n = 0;
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        if (l->n == LIVE_MAX)
            break;
        l->execs[l->n] = EXEC(it);
        inside[l->n++] = EXEC(it)->inside;
    }
    bh_disk_processes_of_execs(box->pid, inside, l->pids, l->n);
}

static struct bh_box_share share_of(const struct bh_exec *exec, int pid, const struct bh_listeners *listeners)
{
    struct bh_box_share share = nothing_known(exec);
    bh_ns_group_share(exec, &share);
    if (pid <= 0)
        return share;
    bh_share_of_processes(pid, &share);
    bh_share_ports(pid, listeners, &share);
    return share;
}

void bh_ns_census_note(struct bh_box *box)
{
    struct bh_listeners listeners;
    struct live l;
    if (!box->shared || box->dead)
        return;
    bh_listeners_read(box->pid, &listeners);
    find_live(box, &l);
    for (size_t i = 0; i < l.n; i++) {
        if (l.execs[i]->weighed) /* it is dying, and what it had with it */
            continue;
        l.execs[i]->share = share_of(l.execs[i], l.pids[i], &listeners);
        l.execs[i]->weighed = true;
    }
}

size_t bh_ns_census(struct bh_box *box, struct bh_box_share *ret, size_t max)
{
    struct bh_listeners listeners;
    struct live l;
    if (box->dead)
        return 0;
    bh_listeners_read(box->pid, &listeners);
    find_live(box, &l);
    for (size_t i = 0; i < l.n && i < max; i++)
        ret[i] = l.execs[i]->weighed ? l.execs[i]->share : share_of(l.execs[i], l.pids[i], &listeners);
    return l.n < max ? l.n : max;
}

size_t bh_ns_holders(struct bh_box *box, dev_t device, uint64_t inode, uint64_t *ret, size_t max)
{
    struct live l;
    size_t n = 0;
    if (box->dead)
        return 0;
    find_live(box, &l);
    for (size_t i = 0; i < l.n && n < max; i++) {
        if (l.pids[i] > 0 && bh_share_holds(l.pids[i], device, inode))
            ret[n++] = l.execs[i]->tag;
    }
    return n;
}

/* It is over: what its group has counted, or what was noted when the box was stopped. */
void bh_ns_census_ended(const struct bh_exec *exec, struct bh_exec_result *result)
{
    result->share = exec->weighed ? exec->share : nothing_known(exec);
    if (!exec->weighed)
        bh_ns_group_share(exec, &result->share);
    if (result->share.cpu_ms < 0)
        result->share.cpu_ms = result->cpu_ms;
    if (result->share.memory_peak_bytes < 0)
        result->share.memory_peak_bytes = result->max_rss_bytes;
}
