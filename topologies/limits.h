/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of a box or of an agent, as numbers. What the document says is read by the loader (load_box.c), what it
 * does not say has a default that depends on the host, filled in where the host is known (bh_limits_fill).
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"

enum bh_limit {
    BH_LIMIT_MEMORY, /* bytes */
    BH_LIMIT_CPUS,   /* thousandths of a processor */
    BH_LIMIT_PIDS,   /* processes and threads */
    BH_LIMIT_DISK,   /* bytes that a box may write to its root */
    BH_LIMIT_INODES, /* files that it may make there */
    BH_LIMIT_NOFILE, /* open files of one process */
    BH_LIMIT_OUTPUT, /* bytes of an execution's stdout and stderr that are kept */
    BH_N_LIMITS,
};

struct bh_limits {
    int64_t of[BH_N_LIMITS]; /* by enum bh_limit; 0: none is said */
    uint32_t asked;          /* one bit each: the document says it, it is no default */
};

/* What holds a limit of a box. */
enum bh_enforcer {
    BH_BY_NOTHING,
    BH_BY_CGROUP2,
    BH_BY_CGROUP1,
    BH_BY_RLIMIT,   /* exact, per process or per user in the box's user namespace */
    BH_BY_TMPFS,    /* exact */
    BH_BY_QUOTA,    /* exact */
    BH_BY_WATCHDOG, /* looked at every now and then: may be overshot */
    BH_BY_AFFINITY, /* kept on fewer processors as long as it does not ask the kernel for more */
};
struct bh_enforced {
    unsigned char by[BH_N_LIMITS]; /* enum bh_enforcer */
};

/* "memory", "cpus", …: the key of the document. */
const char *bh_limit_name(enum bh_limit limit);
/* "cgroup-v2", "rlimit", …; "nothing". */
const char *bh_enforcer_name(enum bh_enforcer by);
/* The least that the loader takes: what a box can live in. */
int64_t bh_limit_least(enum bh_limit limit);
/* What a box has where nobody says anything; of MEMORY the most (a quarter of a small host is less). 0: no such limit.
 */
int64_t bh_limit_usual(enum bh_limit limit);
/* As the document would have it: "64MiB", "0.5", "256". */
enum { BH_LIMIT_TEXT = 32 };
char *bh_limit_format(enum bh_limit limit, int64_t value, char buf[static BH_LIMIT_TEXT]);

/* The host's memory in bytes, and the processors that we may run on. */
void bh_limits_host(int64_t *ret_memory, int *ret_cpus);
/* Puts what is usual where nothing was said (OUTPUT apart, which is no box's business): memory is at most a quarter of
 * the host's. `asked` stays. */
void bh_limits_fill(struct bh_limits *l, int64_t host_memory);
/* HOST where more memory, processors, processes or open files were asked for than the host has (or our own hard limits
 * allow), with both numbers. Reads /proc where `pids` was asked for. */
struct bh_err;
int bh_limits_fit(const struct bh_limits *l, int64_t host_memory, int host_cpus, struct bh_err **err) BH_MUST_CHECK;
