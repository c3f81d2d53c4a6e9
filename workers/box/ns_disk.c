/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box of the ns backend has to do with the watch over disks: before it is made, by what its limits will be held;
 * while it lives, what the watch says about it; when it ends, what must not stay behind.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/box/ns_priv.h"
#include "workers/disk/budget.h"
#include "workers/disk/quota.h"
#include "workers/disk/watch.h"

#define EXEC(it) BH_CONTAINER(it, struct bh_exec, link)

static char *folder_of(const struct bh_box *box)
{
    return bh_asprintf("%s/boxes/%s", box->run_dir, box->key);
}

static struct bh_disk_limits limits_of(const struct bh_box *box)
{
    return (struct bh_disk_limits){.bytes = box->limits.of[BH_LIMIT_DISK], .inodes = box->limits.of[BH_LIMIT_INODES]};
}

/* --- what the watch says --- */

/* By the freezer of its control group, which nobody in it can see; where there is none, by signals. */
static void on_pause(void *arg, bool on)
{
    struct bh_box *box = arg;
    if ((on || box->frozen) && bh_ns_box_freezer(box, on) == 0)
        return;
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        bh_ns_kill(EXEC(it), on ? SIGSTOP : SIGCONT);
    }
}

/* In a shared box nobody can tell whose files they are. */
static void on_full(void *arg, const char *note)
{
    struct bh_box *box = arg;
    bool several = !bh_list_empty(&box->execs) && box->execs.next->next != &box->execs;
    bh_ns_census_note(box);
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        if (!EXEC(it)->disk_full) /* the first word stays: whoever takes long to die is told of again */
            (void)snprintf(EXEC(it)->note, sizeof(EXEC(it)->note), "%s%s", note,
                           several ? "; all agents that ran in it were stopped" : "");
        EXEC(it)->disk_full = true;
        bh_ns_kill(EXEC(it), SIGKILL);
    }
    if (box->frozen) /* its init, too, which has the order to kill by now */
        (void)bh_ns_box_freezer(box, false);
}

static void on_out_of_memory(void *arg, const char *note)
{
    const struct bh_box *box = arg;
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        EXEC(it)->oom = true;
        (void)snprintf(EXEC(it)->note, sizeof(EXEC(it)->note), "%s", note);
    }
}

static const struct bh_disk_events events = {on_pause, on_full, on_out_of_memory};

/* --- a box from its making to its end --- */

int bh_ns_disk_room(const struct ns *ns, struct bh_err **err)
{
    int rc = bh_disk_watch_room(ns->disk, err);
    return rc == 0 && ns->budget ? bh_disk_budget_room(ns->budget, err) : rc;
}

enum bh_enforcer bh_ns_disk_means(const struct ns *ns, const struct bh_box_spec *spec)
{
    return bh_disk_means(&spec->limits, spec->disposable, bh_disk_watch_host(ns->disk));
}

int bh_ns_disk_prepare(struct bh_box *box, const struct bh_box_spec *spec, struct bh_err **err)
{
    box->limits = spec->limits;
    box->disk_by = bh_ns_disk_means(box->ns, spec);
    const struct bh_disk_limits limits = limits_of(box);
    if (box->disk_by != BH_BY_QUOTA)
        return 0;
    BH_CLEANUP_FREE char *folder = folder_of(box);
    BH_CLEANUP_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || bh_disk_quota_set(fd, &limits, &box->project) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot set a quota on the folder of box '%s'", box->key);
    return 0;
}

void bh_ns_disk_start(struct bh_box *box)
{
    BH_CLEANUP_FREE char *folder = folder_of(box);
    const struct bh_disk_box_spec spec = {
        .folder = folder,
        .by = box->disk_by,
        .limits = limits_of(box),
        .memory = box->watch_memory ? box->limits.of[BH_LIMIT_MEMORY] : 0,
        .init = box->pid,
        .memory_fd = BH_TAKE_FD(box->memory_fd),
        .project = box->project,
    };
    box->disk = bh_disk_box_new(box->ns->disk, &spec, &events, box);
}

void bh_ns_disk_stop(struct bh_box *box)
{
    box->held = bh_ns_disk_bytes(box);
    if (box->disk)
        bh_disk_box_free(BH_TAKE(box->disk));
    bh_close(BH_TAKE_FD(box->memory_fd));
}

/* What stays of the folder is not limited any more, and whoever gets it next does not inherit the number. */
void bh_ns_disk_release(struct bh_box *box)
{
    BH_CLEANUP_FREE char *folder = folder_of(box);
    if (box->project == 0)
        return;
    BH_CLEANUP_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        bh_disk_quota_clear(fd, box->project);
    box->project = 0;
}

/* --- execs --- */

/* In a box of its own the watch of the box is its. */
static bool watches_exec(const struct bh_box *box, const struct bh_limits *own)
{
    return box->shared && own->of[BH_LIMIT_MEMORY] > 0 && bh_ns_limits_watch_memory(box->ns, own);
}

void bh_ns_disk_exec(struct bh_exec *exec, const struct bh_exec_spec *spec, struct bh_msg_exec *msg)
{
    struct bh_box *box = exec->box;
    /* A single file stops exactly; where the kernel counts anyway the agent is to meet "no space" instead. */
    msg->limits.disk = box->disk_by == BH_BY_WATCHDOG ? box->limits.of[BH_LIMIT_DISK] : 0;
    msg->limits.inodes = 0;
    if (watches_exec(box, &spec->limits))
        exec->memory = spec->limits.of[BH_LIMIT_MEMORY];
    msg->flags |= box->shared ? BH_EXEC_TELL_PID : 0;
    if (box->disk)
        bh_disk_box_begin(box->disk);
}

static void on_exec_out_of_memory(void *arg, const char *note)
{
    struct bh_exec *exec = arg;
    exec->oom = true;
    (void)snprintf(exec->note, sizeof(exec->note), "%s", note);
}

void bh_ns_disk_started(struct bh_exec *exec)
{
    const struct bh_box *box = exec->box;
    if (exec->memory == 0)
        return;
    exec->scale = bh_disk_scale_new(box->ns->disk, box->pid, exec->inside, exec->memory, on_exec_out_of_memory, exec);
}

void bh_ns_disk_ended(struct bh_exec *exec, struct bh_exec_result *result)
{
    const char *met = exec->box->disk ? bh_disk_box_end(exec->box->disk) : NULL;
    bh_disk_scale_free(BH_TAKE(exec->scale));
    result->disk_full = exec->disk_full || met;
    result->inodes = met && *met == 'i';
    result->oom = result->oom || exec->oom;
    (void)snprintf(result->note, sizeof(result->note), "%s", exec->note);
}

/* --- what others ask --- */

void bh_ns_disk_enforced(const struct bh_box *box, const struct bh_limits *own, struct bh_enforced *ret)
{
    ret->by[BH_LIMIT_DISK] = box->limits.of[BH_LIMIT_DISK] > 0 ? (unsigned char)box->disk_by : BH_BY_NOTHING;
    ret->by[BH_LIMIT_INODES] = box->limits.of[BH_LIMIT_INODES] > 0 ? (unsigned char)box->disk_by : BH_BY_NOTHING;
    if (box->watch_memory || (own && watches_exec(box, own)))
        ret->by[BH_LIMIT_MEMORY] = BH_BY_WATCHDOG;
}

int64_t bh_ns_disk_bytes(const struct bh_box *box)
{
    return box->disk ? bh_disk_box_bytes(box->disk) : box->held;
}
