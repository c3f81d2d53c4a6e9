/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds a process itself, in it: its control groups, its rlimits, its processors, its place before the OOM killer.
 * Everything here is inherited by what it starts, and nothing of it can be undone without a capability, but for the
 * processors.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/init/init.h"

#define CPUS_MAX 8192
#define NOFILE_USUAL 1024
#define GROUP_INITS 64 /* room for the small PID 1s of a shared box's execs */

/* --- control groups --- */

int bh_join_groups(const struct bh_join *join, struct bh_fail *fail)
{
    for (size_t i = 0; i < join->n; i++) {
        if (write(join->fds[i], "0", 1) != 1)
            return bh_fail(fail, errno, "join the control groups");
    }
    return 0;
}

/* --- processors --- */

struct cpus {
    cpu_set_t *set;
    size_t size;
};

static bool cpus_read(struct cpus *c)
{
    c->set = CPU_ALLOC(CPUS_MAX);
    c->size = CPU_ALLOC_SIZE(CPUS_MAX);
    return c->set && sched_getaffinity(0, c->size, c->set) == 0;
}

/* `want` of those that are there, beginning with the one of index `first`. */
static void keep_some(struct cpus *c, int there, int want, int first)
{
    int index = 0;
    for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!CPU_ISSET_S(cpu, c->size, c->set))
            continue;
        if ((index - first + there) % there >= want)
            CPU_CLR_S(cpu, c->size, c->set);
        index++;
    }
}

int bh_limits_narrow_cpus(const struct bh_msg_limits *limits, uint32_t number, struct bh_fail *fail)
{
    struct cpus c;
    int64_t want = (limits->cpus + 999) / 1000;
    int rc = 0;
    if (!(limits->asked & BH_LIMITS_CPUS) || limits->cpus <= 0)
        return 0;
    int there = cpus_read(&c) ? CPU_COUNT_S(c.size, c.set) : 0;
    if (there > want) {
        keep_some(&c, there, (int)want, (int)((uint64_t)number * (uint64_t)want % (uint64_t)there));
        rc = sched_setaffinity(0, c.size, c.set) < 0 ? bh_fail(fail, errno, "keep to %d processors", (int)want) : 1;
    }
    CPU_FREE(c.set);
    return rc;
}

/* --- before the ids: what takes a right that goes with them --- */

/* It is the agents that are to die, not init; raising this needs no right, but only who is dumpable owns the file. */
static void offer_to_the_oom_killer(const struct bh_init_setup *setup)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%d", setup->oom_score_adj);
    (void)prctl(PR_SET_DUMPABLE, 1);
    BH_CLEANUP_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    (void)prctl(PR_SET_DUMPABLE, 0);
    if (fd >= 0 && n > 0)
        (void)!write(fd, text, (size_t)n);
}

static int limit_processes(rlim_t n, struct bh_fail *fail)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NPROC, &now) < 0)
        return bh_fail(fail, errno, "read the limit of processes");
    if (now.rlim_max != RLIM_INFINITY && n > now.rlim_max)
        n = now.rlim_max;
    return setrlimit(RLIMIT_NPROC, &(struct rlimit){n, n}) < 0 ? bh_fail(fail, errno, "limit processes") : 0;
}

int bh_limits_before_ids(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail)
{
    offer_to_the_oom_killer(in->setup);
    /* Agents of one box are not to crowd on the same ones. */
    uint32_t number = in->shared ? (uint32_t)plan->id : in->number;
    if (bh_limits_narrow_cpus(&plan->limits, number, fail) < 0)
        return -1;
    /* With one id: what the user namespace of the box will hold, of which each exec makes a deeper one. */
    if (in->flags & BH_BOX_NPROC && in->setup->mode == BH_IDS_SINGLE && in->limits.pids > 0)
        return limit_processes((rlim_t)in->limits.pids + (in->shared ? GROUP_INITS : 1), fail);
    return 0;
}

/* --- after them --- */

/* The kernel counts processes by user and user namespace: with one id those of this exec, with a range those of the
 * box. Init counts where it is the same user. */
int bh_limits_after_ids(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail)
{
    int64_t n = in->limits.pids;
    bool single = in->setup->mode == BH_IDS_SINGLE;
    if (!(in->flags & BH_BOX_NPROC))
        return 0;
    if (single && plan->limits.pids > 0)
        n = plan->limits.pids;
    if (!single && plan->flags & BH_EXEC_ROOT)
        n++;
    return n > 0 ? limit_processes((rlim_t)n, fail) : 0;
}

/* --- last --- */

int bh_limits_of_files(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail)
{
    struct rlimit now;
    int64_t said = plan->limits.nofile > 0 ? plan->limits.nofile : in->limits.nofile;
    rlim_t n = said > 0 ? (rlim_t)said : NOFILE_USUAL;
    if (getrlimit(RLIMIT_NOFILE, &now) < 0)
        return bh_fail(fail, errno, "read the limit of open files");
    if (now.rlim_max < n && said > NOFILE_USUAL)
        return bh_fail(fail, EPERM, "open %lld files: the hard limit here is %lld", (long long)said,
                       (long long)now.rlim_max);
    if (now.rlim_max < n)
        n = now.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &(struct rlimit){n, n}) < 0 ? bh_fail(fail, errno, "limit open files") : 0;
}

/* Until here it was our own work. */
int bh_limits_be_idle(const struct bh_init *in, struct bh_fail *fail)
{
    const struct sched_param none = {0};
    if (in->flags & BH_BOX_IDLE && sched_setscheduler(0, SCHED_IDLE, &none) < 0)
        return bh_fail(fail, errno, "be idle");
    return 0;
}
