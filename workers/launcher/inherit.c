/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every process of a box would otherwise have from whoever started bulkhead: limits, scheduling, keys. Set once in
 * the launcher, from which all of them descend, so that no exec pays for it. What an exec sets by itself (become.c) is
 * left out here: its open files, its processes. A hard limit that the caller has lowered stays as low as it is.
 */
#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/launcher/launcher.h"

#define MIB (1 << 20)

static const struct {
    int resource;
    rlim_t soft, hard; /* BOUND: the hard limit that is there */
} limits[] = {
#define BOUND RLIM_INFINITY
    /*
     * Not 0: a core_pattern that is a pipe runs its program, as root of the host, whatever the limit is but 1. And 1
     * byte is too little for a file. The filter of agents keeps them from setting it to 0.
     */
    {RLIMIT_CORE, 1, 1},
    {RLIMIT_STACK, 8 * MIB, BOUND}, /* without a limit the kernel places mappings where they can be guessed */
    {RLIMIT_MEMLOCK, 8 * MIB, 8 * MIB},
    {RLIMIT_MSGQUEUE, 819200, 819200},
    {RLIMIT_SIGPENDING, 4096, 4096},
    {RLIMIT_NICE, 0, 0},
    {RLIMIT_RTPRIO, 0, 0},
    {RLIMIT_CPU, BOUND, BOUND},
    {RLIMIT_FSIZE, BOUND, BOUND},
    {RLIMIT_DATA, BOUND, BOUND},
    {RLIMIT_RSS, BOUND, BOUND},
    {RLIMIT_AS, BOUND, BOUND},
    {RLIMIT_LOCKS, BOUND, BOUND},
    {RLIMIT_RTTIME, BOUND, BOUND},
#undef BOUND
};

static rlim_t lower(rlim_t a, rlim_t b)
{
    return a < b ? a : b;
}

static void set_limit(int resource, rlim_t soft, rlim_t hard)
{
    struct rlimit now;
    if (getrlimit(resource, &now) < 0)
        return;
    if (hard > now.rlim_max && hard != RLIM_INFINITY && setrlimit(resource, &(struct rlimit){soft, hard}) == 0)
        return; /* root may raise it */
    hard = lower(hard, now.rlim_max);
    (void)setrlimit(resource, &(struct rlimit){lower(soft, hard), hard});
}

static void reset_scheduling(void)
{
    const struct sched_param none = {0};
    int policy = sched_getscheduler(0);
    if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE)
        (void)sched_setscheduler(0, SCHED_OTHER, &none);
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_NONE, 0));
    (void)prctl(PR_SET_TIMERSLACK, 50000UL); /* 50 us, the kernel's own */
    (void)personality(PER_LINUX);
}

/* A daemon that the host spares when memory runs out does not spare its agents. */
static void be_no_favourite_of_the_oom_killer(void)
{
    char text[16];
    BH_CLEANUP_FD int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    if (n > 0 && text[0] == '-')
        (void)!write(fd, "0", 1);
}

void bh_inherit_little(void)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(limits); i++)
        set_limit(limits[i].resource, limits[i].soft, limits[i].hard);
    reset_scheduling();
    be_no_favourite_of_the_oom_killer();
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL); /* an empty one, not the login's */
}
