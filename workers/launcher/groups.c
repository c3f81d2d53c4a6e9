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
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
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
    l->usual = (struct bh_cgroup_limits){
        .memory = usual.of[BH_LIMIT_MEMORY], .cpus = usual.of[BH_LIMIT_CPUS], .pids = usual.of[BH_LIMIT_PIDS] + INIT};
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
    pid_t us = getpid(), first = fork();
    if (first == 0) {
        bh_process_die_with(us);
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

static struct bh_kept_group *find_kept(struct bh_launcher *l, uint32_t number)
{
    for (size_t i = 0; i < BH_GROUPS_KEPT; i++) {
        if (l->kept[i].number == number)
            return &l->kept[i];
    }
    return NULL;
}

static int make(struct bh_launcher *l, uint32_t number, bool *ret_into, int fds[static BH_CGROUP_PARTS])
{
    char name[16];
    name_group(name, number);
    int n = bh_cgroup_make(&l->cgroup, name, fds, ret_into);
    if (n > 0)
        l->preset = (BH_CGROUP_BIT(BH_CGROUP_MEMORY) | BH_CGROUP_BIT(BH_CGROUP_PIDS)) &
                    ~bh_cgroup_limit(&l->cgroup, name, &l->usual);
    return n;
}

static int make_new(struct bh_launcher *l, struct bh_msg_spawn *msg, int fds[static BH_CGROUP_PARTS], uint32_t *ret)
{
    bool into;
    int n = make(l, l->groups + 1, &into, fds);
    if (n < 0)
        return -1;
    *ret = ++l->groups;
    msg->into = into;
    return n;
}

static struct bh_kept_group *find_free(struct bh_launcher *l)
{
    for (size_t i = 0; i < BH_GROUPS_KEPT; i++) {
        if (l->kept[i].number && l->kept[i].free)
            return &l->kept[i];
    }
    return NULL;
}

/* Making a group and ending it costs the kernel a tenth of a small box: one in which nothing happened is kept. */
int bh_groups_take(struct bh_launcher *l, struct bh_msg_spawn *msg, bool once, int fds[static BH_CGROUP_PARTS],
                   uint32_t *ret, bool *ret_close)
{
    struct bh_kept_group *k = once ? NULL : find_free(l);
    if (!k) {
        int n = make_new(l, msg, fds, ret);
        k = n > 0 && !once ? find_kept(l, 0) : NULL;
        *ret_close = k == NULL;
        if (!k)
            return n;
        *k = (struct bh_kept_group){.number = *ret, .into = msg->into, .n = n};
        memcpy(k->fds, fds, (size_t)n * sizeof(*fds));
        return n;
    }
    k->free = false;
    *ret = k->number;
    *ret_close = false;
    msg->into = k->into;
    memcpy(fds, k->fds, (size_t)k->n * sizeof(*fds));
    return k->n;
}

static void forget(struct bh_kept_group *k)
{
    for (int i = 0; i < k->n; i++)
        bh_close(k->fds[i]);
    *k = (struct bh_kept_group){0};
}

void bh_groups_answer(struct bh_launcher *l, const struct bh_msg_group *msg)
{
    struct bh_kept_group *k = msg->group ? find_kept(l, msg->group) : NULL;
    if (k && msg->removed)
        forget(k);
    else if (k)
        k->free = true;
}

void bh_groups_drop(struct bh_launcher *l, uint32_t group)
{
    char name[16];
    struct bh_kept_group *k = group ? find_kept(l, group) : NULL;
    if (k)
        forget(k);
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

/* Of a group that is used again the processors may have been limited for an earlier box: a difference is written. */
static void leave_out_same_cpus(struct bh_launcher *l, const char *name, struct bh_kept_group *k,
                                struct bh_cgroup_limits *set)
{
    int64_t wanted = set->cpus;
    if (k->cpus == wanted)
        set->cpus = 0;
    else if (wanted == 0)
        bh_cgroup_hurry(&l->cgroup, name);
    k->cpus = wanted;
}

/* What nobody asked for, but is usual, may fail: a host may give us less than that. */
static int set_limits(struct bh_launcher *l, const char *name, const struct bh_msg_limits *limits,
                      struct bh_shell *shell, struct bh_fail *fail)
{
    struct bh_cgroup_limits set = {limits->memory, limits->cpus, limits->pids ? limits->pids + INIT : 0};
    struct bh_kept_group *k = find_kept(l, shell->group);
    leave_out_what_is_set(l, &set);
    shell->group_again = k && set.memory == 0 && set.pids == 0 && bh_cgroup_asked(limits->asked) == 0;
    if (k)
        leave_out_same_cpus(l, name, k, &set);
    uint32_t failed = bh_cgroup_limit(&l->cgroup, name, &set);
    if (k && failed & BH_CGROUP_BIT(BH_CGROUP_CPU))
        k->cpus = 0;
    failed &= bh_cgroup_asked(limits->asked) & l->cgroup.can;
    return failed ? say_which(fail, failed, limits) : 0;
}

int bh_groups_limit(struct bh_launcher *l, const struct bh_msg_create *msg, struct bh_shell *shell,
                    struct bh_fail *fail)
{
    char name[16];
    name_group(name, shell->group);
    if (l->cgroup.kind == BH_CGROUP_NONE)
        return 0;
    if (set_limits(l, name, &msg->limits, shell, fail) < 0)
        return -1;
    if (!(msg->flags & BH_CREATE_SHARED))
        return 0;
    shell->group_again = false;
    if (bh_cgroup_share(&l->cgroup, name, shell->pid) < 0)
        return bh_fail(fail, errno, "make a control group of its own for each agent");
    return 0;
}
