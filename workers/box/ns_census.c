/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who of a shared box took what: by the control group of each exec where there is one, else over its processes, which
 * are those below the PID 1 that its box's init has named. Asked for when something went wrong, not before.
 */
#include <string.h>

#include "workers/box/ns_priv.h"
#include "workers/box/share.h"
#include "workers/disk/processes.h"

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

static struct bh_box_share share_of(const struct bh_exec *exec, const struct bh_listeners *listeners)
{
    struct bh_box_share share = nothing_known(exec);
    bh_ns_group_share(exec, &share);
    int pid = exec->inside > 0 ? bh_disk_process_of_exec(exec->box->pid, exec->inside) : 0;
    if (pid <= 0)
        return share;
    bh_share_of_processes(pid, &share);
    bh_share_ports(pid, listeners, &share);
    return share;
}

void bh_ns_census_note(struct bh_box *box)
{
    struct bh_listeners listeners;
    if (!box->shared)
        return;
    bh_listeners_read(box->pid, &listeners);
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        if (EXEC(it)->weighed) /* it is dying, and what it had with it */
            continue;
        EXEC(it)->share = share_of(EXEC(it), &listeners);
        EXEC(it)->weighed = true;
    }
}

size_t bh_ns_census(struct bh_box *box, struct bh_box_share *ret, size_t max)
{
    struct bh_listeners listeners = {.n = 0};
    size_t n = 0;
    if (box->dead)
        return 0;
    bh_listeners_read(box->pid, &listeners);
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        if (n < max)
            ret[n++] = EXEC(it)->weighed ? EXEC(it)->share : share_of(EXEC(it), &listeners);
    }
    return n;
}

size_t bh_ns_holders(struct bh_box *box, dev_t device, uint64_t inode, uint64_t *ret, size_t max)
{
    size_t n = 0;
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        const struct bh_exec *exec = EXEC(it);
        int pid = exec->inside > 0 && !box->dead ? bh_disk_process_of_exec(box->pid, exec->inside) : 0;
        if (pid > 0 && n < max && bh_share_holds(pid, device, inode))
            ret[n++] = exec->tag;
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
