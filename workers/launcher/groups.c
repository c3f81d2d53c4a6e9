/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which control group each shell is in, and what limits it when it becomes a box. Groups are made together with shells,
 * ahead; their limits are a few writes when a box is asked for. What has to hold without control groups is found here
 * too.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workers/launcher/launcher.h"

#define INIT 1 /* it is in the group of its box and is not the agent's */

static void name_group(char name[static 16], uint32_t group)
{
    (void)snprintf(name, 16, "b%u", group);
}

void bh_groups_start(struct bh_launcher *l, bool off)
{
    const pid_t family[] = {getpid(), getppid(), 0};
    char start[BH_PROCESS_START] = "0", id[48];
    (void)bh_process_start(getpid(), start);
    (void)snprintf(id, sizeof(id), "%d-%s", (int)getpid(), start);
    bh_cgroup_begin(&l->cgroup, id, family, off);
    struct bh_limits usual = {0};
    int64_t memory;
    int cpus;
    bh_limits_host(&memory, &cpus);
    bh_limits_fill(&usual, memory);
    l->usual = (struct bh_cgroup_limits){.memory = usual.of[BH_LIMIT_MEMORY], .pids = usual.of[BH_LIMIT_PIDS] + INIT};
}

/*
 * The kernel counts processes per user namespace and user since 5.14, and not for its root. In a new user namespace a
 * limit of two leaves room for one child and not for another: where it counts the user's other processes there is not
 * even room for the first, and where it counts nothing there is for the second.
 */
static int try_nproc(const struct bh_launcher *l)
{
    (void)l;
    if (setrlimit(RLIMIT_NPROC, &(struct rlimit){2, 2}) < 0)
        return -1;
    pid_t first = fork();
    if (first == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)pause();
        _exit(0);
    }
    if (first < 0)
        return -1;
    pid_t second = fork();
    if (second == 0)
        _exit(0);
    (void)kill(first, SIGKILL);
    (void)waitpid(first, NULL, 0);
    if (second < 0)
        return 0;
    (void)waitpid(second, NULL, 0);
    errno = ENOTSUP;
    return -1;
}

/* Once the ids are known. */
void bh_groups_fall_back(struct bh_launcher *l)
{
    if (!(l->cgroup.can & BH_CGROUP_BIT(BH_CGROUP_PIDS)) && bh_ids_try(l, 0, try_nproc, NULL) == 0)
        l->box_flags |= BH_BOX_NPROC;
    if (!(l->cgroup.can & BH_CGROUP_BIT(BH_CGROUP_CPU)))
        l->box_flags |= BH_BOX_IDLE;
}

int bh_groups_make(struct bh_launcher *l, struct bh_msg_spawn *msg, int fds[static BH_CGROUP_PARTS])
{
    char name[16];
    bool into;
    name_group(name, l->groups_asked + 1);
    int n = bh_cgroup_make(&l->cgroup, name, fds, &into);
    if (n < 0)
        return -1;
    l->groups_asked++;
    if (n > 0)
        l->preset = (BH_CGROUP_BIT(BH_CGROUP_MEMORY) | BH_CGROUP_BIT(BH_CGROUP_PIDS)) &
                    ~bh_cgroup_limit(&l->cgroup, name, &l->usual);
    msg->into = into;
    return n;
}

void bh_groups_drop(struct bh_launcher *l, uint32_t group)
{
    char name[16];
    name_group(name, group);
    if (l->cgroup.kind != BH_CGROUP_NONE)
        (void)bh_cgroup_remove(&l->cgroup, name); /* what cannot go now goes with us */
}

static int say_which(struct bh_fail *fail, uint32_t failed, const struct bh_msg_limits *limits)
{
    static const char *const what[] = {"memory", "cpus", "pids"};
    const int64_t wanted[] = {limits->memory, limits->cpus, limits->pids};
    int why = errno;
    for (size_t i = 0; i < BH_ARRAY_LEN(what); i++) {
        if (failed & 1u << i)
            return bh_fail(fail, why, "hold it to %s %lld", what[i], (long long)wanted[i]);
    }
    return 0;
}

static void leave_out_what_is_set(const struct bh_launcher *l, struct bh_cgroup_limits *set)
{
    if (l->preset & BH_CGROUP_BIT(BH_CGROUP_MEMORY) && set->memory == l->usual.memory)
        set->memory = 0;
    if (l->preset & BH_CGROUP_BIT(BH_CGROUP_PIDS) && set->pids == l->usual.pids)
        set->pids = 0;
}

/* What nobody asked for, but is usual, may fail: a host may give us less than that. */
int bh_groups_limit(struct bh_launcher *l, const struct bh_msg_create *msg, const struct bh_shell *shell,
                    struct bh_fail *fail)
{
    char name[16];
    const struct bh_msg_limits *limits = &msg->limits;
    struct bh_cgroup_limits set = {limits->memory, limits->cpus, limits->pids ? limits->pids + INIT : 0};
    name_group(name, shell->group);
    if (l->cgroup.kind == BH_CGROUP_NONE)
        return 0;
    leave_out_what_is_set(l, &set);
    uint32_t failed = bh_cgroup_limit(&l->cgroup, name, &set) & bh_cgroup_asked(limits->asked) & l->cgroup.can;
    if (failed)
        return say_which(fail, failed, limits);
    if (msg->flags & BH_CREATE_SHARED && bh_cgroup_share(&l->cgroup, name, shell->pid) < 0)
        return bh_fail(fail, errno, "make a control group of its own for each agent");
    return 0;
}
