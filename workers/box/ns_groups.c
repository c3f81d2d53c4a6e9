/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control groups of the ns backend's boxes, from the worker's side. The launcher has made the one of the box;
 * here each exec of a shared box gets its own below it, what the kernel has counted is read when an exec ends, and what
 * is over is removed, on the helper thread: a removal waits for whoever else makes or removes groups. What does not
 * want to go stays until the launcher's whole group goes.
 */
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/box/ns_priv.h"

#define TRIES_MAX 8
#define AGAIN_MS 20
#define SETTLE_MS 2 /* until who has died is off the process table, which the launcher sees to */

static void name_box(const struct bh_box *box, char ret[static BH_NS_GROUP_NAME])
{
    (void)snprintf(ret, BH_NS_GROUP_NAME, "b%u", box->group);
}

static void name_exec(const struct bh_exec *exec, char ret[static BH_NS_GROUP_NAME])
{
    (void)snprintf(ret, BH_NS_GROUP_NAME, "b%u/e%llu", exec->box->group, (unsigned long long)exec->id);
}

/* --- execs of a shared box --- */

static int64_t lower(int64_t a, int64_t b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* v1 does not take more processors for a group than the one above it has. */
static int limit_exec(const struct bh_exec *exec, const char *name, const struct bh_limits *l)
{
    const struct bh_limits *box = &exec->box->limits;
    const struct bh_cgroup_limits set = {
        .memory = l->of[BH_LIMIT_MEMORY],
        .cpus = l->of[BH_LIMIT_CPUS] > 0 ? lower(l->of[BH_LIMIT_CPUS], box->of[BH_LIMIT_CPUS]) : 0,
        .pids = l->of[BH_LIMIT_PIDS] > 0 ? l->of[BH_LIMIT_PIDS] + 1 : 0, /* its small PID 1 */
    };
    uint32_t failed = bh_cgroup_limit(&exec->box->ns->cgroup, name, &set);
    return failed & bh_cgroup_asked(l->asked) & exec->box->ns->cgroup.can ? -1 : 0;
}

int bh_ns_group_exec(struct bh_exec *exec, const struct bh_limits *limits, int fds[static BH_CGROUP_PARTS])
{
    struct ns *ns = exec->box->ns;
    char name[BH_NS_GROUP_NAME];
    if (!exec->box->shared || exec->box->group == 0 || ns->cgroup.kind == BH_CGROUP_NONE)
        return 0;
    name_box(exec->box, name);
    exec->before = bh_cgroup_events(&ns->cgroup, name);
    name_exec(exec, name);
    int n = bh_cgroup_make_exec(&ns->cgroup, name, fds);
    if (n < 0)
        return -1;
    exec->grouped = true;
    if (limit_exec(exec, name, limits) == 0)
        return n;
    for (int i = 0; i < n; i++)
        bh_close(fds[i]);
    return -1;
}

/* --- what was counted --- */

static void fill(int64_t *to, int64_t n)
{
    if (*to < 0)
        *to = n;
}

void bh_ns_group_share(const struct bh_exec *exec, struct bh_box_share *ret)
{
    char name[BH_NS_GROUP_NAME];
    if (!exec->grouped)
        return;
    name_exec(exec, name);
    struct bh_cgroup_usage u = bh_cgroup_usage(&exec->box->ns->cgroup, name);
    fill(&ret->cpu_ms, u.cpu_ms);
    fill(&ret->memory_bytes, u.memory);
    fill(&ret->memory_peak_bytes, u.memory_peak);
    fill(&ret->processes, u.tasks > 0 ? u.tasks - 1 : u.tasks); /* its PID 1 is ours */
}

static bool rose(int64_t from, int64_t to)
{
    return to > (from > 0 ? from : 0);
}

/* With v1 the counters are a group's own, with v2 those below count too: init is asked alone. */
static bool init_was_killed(const struct bh_box *box, const struct bh_cgroup_events *now)
{
    char name[BH_NS_GROUP_NAME];
    if (box->ns->cgroup.kind != BH_CGROUP_V2)
        return rose(box->seen.oom_kills, now->oom_kills);
    (void)snprintf(name, sizeof(name), "b%u/init", box->group);
    return bh_cgroup_events(&box->ns->cgroup, name).oom_kills > 0;
}

static void read_grouped(struct bh_exec *exec, const struct bh_cgroup_events *box, struct bh_exec_result *result)
{
    struct ns *ns = exec->box->ns;
    char name[BH_NS_GROUP_NAME];
    name_exec(exec, name);
    struct bh_cgroup_events own = bh_cgroup_events(&ns->cgroup, name);
    bool lost = result->end == BH_EXEC_BOX_LOST;
    result->oom |= own.oom_kills > 0 || (lost && init_was_killed(exec->box, box));
    /* Where the box's own limit was met, the kernel counts at the group that forked or at the one that was full. */
    result->pids |= own.pids_hits > 0 || rose(exec->before.pids_hits, box->pids_hits);
    bh_ns_group_drop(ns, name);
}

void bh_ns_group_ended(struct bh_exec *exec, struct bh_exec_result *result)
{
    struct bh_box *box = exec->box;
    char name[BH_NS_GROUP_NAME];
    if (box->group == 0 || box->ns->cgroup.kind == BH_CGROUP_NONE)
        return;
    name_box(box, name);
    struct bh_cgroup_events now = bh_cgroup_events(&box->ns->cgroup, name);
    if (exec->grouped) {
        read_grouped(exec, &now, result);
    } else {
        result->oom |= rose(box->seen.oom_kills, now.oom_kills);
        result->pids |= rose(box->seen.pids_hits, now.pids_hits);
    }
    if (result->end != BH_EXEC_BOX_LOST) /* else the others are to be told the same */
        box->seen = now;
    else
        box->group_again = false;
}

/* --- stopped --- */

int bh_ns_box_freezer(struct bh_box *box, bool on)
{
    char name[BH_NS_GROUP_NAME];
    name_box(box, name);
    if (box->group == 0) {
        errno = ENOTSUP;
        return -1;
    }
    if (bh_cgroup_freeze(&box->ns->cgroup, name, on) < 0)
        return -1;
    box->frozen = on;
    box->was_frozen = true;
    return 0;
}

/* Only who was asked to be slow is slow enough to be waited for. */
void bh_ns_group_hurry(const struct bh_box *box)
{
    char name[BH_NS_GROUP_NAME];
    name_box(box, name);
    if (box->group != 0 && box->limits.asked & 1u << BH_LIMIT_CPUS)
        bh_cgroup_hurry(&box->ns->cgroup, name);
}

/* --- removed --- */

struct gone_job {
    const struct bh_cgroup *cgroup;
    struct bh_ns_gone *of;
    size_t n;
    struct bh_msg_group *tell; /* what the launcher is to know of them; as many as of */
    size_t n_tell;
};

static void run_gone(void *data)
{
    struct gone_job *job = data;
    size_t left = 0;
    for (size_t i = 0; i < job->n; i++) {
        const struct bh_ns_gone *g = &job->of[i];
        bool again = g->again && bh_cgroup_is_idle(job->cgroup, g->name);
        bool settles = g->again && !again && g->tries == 0;
        if (settles || (!again && bh_cgroup_remove(job->cgroup, g->name) < 0))
            job->of[left++] = *g;
        else if (g->box)
            job->tell[job->n_tell++] = (struct bh_msg_group){BH_MSG_GROUP, g->box, !again};
    }
    job->n = left;
}

static void submit_gone(struct ns *ns);

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    submit_gone(arg);
}

/* Together with what waits already: a wakeup less for each. */
static void submit_later(struct ns *ns, int ms)
{
    const struct timeval after = {0, ms * 1000};
    if (!ns->gone_again)
        ns->gone_again = event_new(ns->loop, -1, 0, on_again, ns);
    if (ns->gone_again && !event_pending(ns->gone_again, EV_TIMEOUT, NULL))
        (void)event_add(ns->gone_again, &after);
}

/* Where the launcher cannot be told any more all groups go with it. */
static void tell_launcher(struct ns *ns, const struct gone_job *job)
{
    for (size_t i = 0; i < job->n_tell && ns->launcher >= 0; i++)
        (void)bh_outbox_send(&ns->to_launcher, &job->tell[i], sizeof(job->tell[i]), NULL, 0);
}

static void gone_done(void *owner, void *data)
{
    struct ns *ns = owner;
    const struct gone_job *job = data;
    ns->gone_job = NULL;
    tell_launcher(ns, job);
    for (size_t i = 0; i < job->n; i++) {
        if (job->of[i].tries + 1 >= TRIES_MAX)
            continue;
        struct bh_ns_gone *to = BH_PUSH(ns->gone, ns->n_gone, ns->cap_gone);
        *to = job->of[i];
        to->tries++;
    }
    if (ns->n_gone > 0)
        submit_later(ns, AGAIN_MS);
}

static void free_gone(void *data)
{
    struct gone_job *job = data;
    bh_free(job->of);
    bh_free(job->tell);
    bh_free(job);
}

static const struct bh_job_ops gone_ops = {run_gone, gone_done, free_gone};

static void submit_gone(struct ns *ns)
{
    if (ns->gone_job || ns->n_gone == 0 || !ns->helper)
        return;
    struct gone_job *job = bh_alloc(sizeof(*job));
    *job = (struct gone_job){.cgroup = &ns->cgroup, .of = BH_TAKE(ns->gone), .n = ns->n_gone};
    job->tell = bh_calloc(job->n, sizeof(*job->tell));
    ns->n_gone = ns->cap_gone = 0;
    ns->gone_job = bh_helper_submit(ns->helper, &gone_ops, ns, job);
}

static void drop(struct ns *ns, const char *name, uint32_t box, bool again)
{
    if (ns->cgroup.kind == BH_CGROUP_NONE)
        return;
    struct bh_ns_gone *to = BH_PUSH(ns->gone, ns->n_gone, ns->cap_gone);
    *to = (struct bh_ns_gone){.box = box, .again = again};
    (void)snprintf(to->name, sizeof(to->name), "%s", name);
    if (again)
        submit_later(ns, SETTLE_MS);
    else
        submit_gone(ns);
}

void bh_ns_group_drop(struct ns *ns, const char *name)
{
    drop(ns, name, 0, false);
}

/* What the kernel has counted in it would be counted against the next box. */
static bool is_as_new(const struct bh_box *box)
{
    return box->group_again && !box->was_frozen && box->dead && box->seen.oom_kills <= 0 && box->seen.pids_hits <= 0;
}

void bh_ns_group_drop_box(struct bh_box *box)
{
    char name[BH_NS_GROUP_NAME];
    if (box->group == 0)
        return;
    name_box(box, name);
    drop(box->ns, name, box->group, is_as_new(box));
    box->group = 0;
}

void bh_ns_groups_fini(struct ns *ns)
{
    if (ns->gone_again)
        event_free(BH_TAKE(ns->gone_again));
    bh_free(BH_TAKE(ns->gone));
    bh_cgroup_end(&ns->cgroup);
}
