/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups that hold boxes: cgroup v2, or v1, or none. Libc only, no thread, no box knows of it: the launcher
 * makes groups (one for each shell, ahead), the worker reads and removes them.
 *
 *   PARENT/bulkhead          one over all boxes below PARENT, bounded, so that the host stays usable
 *     /l-PID-START           of one launcher, which holds a lock on it as long as it lives
 *       /bN                  of one box
 *         /init /eN          in a shared box: of its init (v2 alone), of one exec
 *
 * PARENT is our own group where that can have children (v2), else the root of the hierarchy; with v1 the other way
 * round, in each hierarchy by itself. The lock on l-* is the journal: nobody inherits it, so whoever finds l-* without
 * a lock has found what a dead launcher left, and may remove it (bh_cgroup_reclaim).
 *
 * What is there is found by doing it: making a group, handing controllers on, setting a limit.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "topologies/limits.h"

enum bh_cgroup_kind { BH_CGROUP_NONE, BH_CGROUP_V1, BH_CGROUP_V2 };
enum bh_cgroup_part {
    BH_CGROUP_MEMORY,
    BH_CGROUP_CPU,
    BH_CGROUP_PIDS,
    BH_CGROUP_FREEZER, /* in v2 a part of every group */
    BH_CGROUP_PARTS,
};
#define BH_CGROUP_BIT(part) (1u << (part))
#define BH_CGROUP_LIMITS \
    (BH_CGROUP_BIT(BH_CGROUP_MEMORY) | BH_CGROUP_BIT(BH_CGROUP_CPU) | BH_CGROUP_BIT(BH_CGROUP_PIDS))

/* Of the `asked` bits of limits those that a group can hold. */
static inline uint32_t bh_cgroup_asked(uint32_t asked)
{
    return (asked & 1u << BH_LIMIT_MEMORY ? BH_CGROUP_BIT(BH_CGROUP_MEMORY) : 0) |
           (asked & 1u << BH_LIMIT_CPUS ? BH_CGROUP_BIT(BH_CGROUP_CPU) : 0) |
           (asked & 1u << BH_LIMIT_PIDS ? BH_CGROUP_BIT(BH_CGROUP_PIDS) : 0);
}

#define BH_CGROUP_TOP "bulkhead"
#define BH_CGROUP_SELF "bulkhead-main" /* v2, delegated: the leaf that our own processes move to */
#define BH_CGROUP_OWNER "l-"

struct bh_cgroup {
    enum bh_cgroup_kind kind;
    uint32_t can; /* BH_CGROUP_BIT of what limits can be set on */
    /* By part: the group `bulkhead`, and in it that of the launcher. -1: none. v2 has the first alone. */
    int tops[BH_CGROUP_PARTS], dirs[BH_CGROUP_PARTS];
    char name[64];    /* of the launcher's group */
    char found[320];  /* for people: what was found, or why there is none */
    char remedy[160]; /* NONE: what to do about it */
};

const char *bh_cgroup_part_name(enum bh_cgroup_part part); /* "memory" */
/* "cgroup v1 (memory, cpu, pids)", or why there is none. */
void bh_cgroup_describe(const struct bh_cgroup *cg, char *buf, size_t size);

/* --- the launcher --- */

/*
 * Finds what is there and makes the launcher's group in it, locked. Never fails: kind NONE says why in `found`. Before
 * any change of namespaces. `id`: PID-START of the caller; `family`: the processes that may be moved to a leaf of our
 * own group where it is delegated, ending with 0. off: look for nothing, because somebody said so.
 */
void bh_cgroup_begin(struct bh_cgroup *cg, const char *id, const pid_t *family, bool off);
/*
 * A new group; joining it: *ret_into is a directory for CLONE_INTO_CGROUP (v2), or the shell writes "0" to each of
 * fds. Returns how many of fds are open (the caller's, CLOEXEC), or -1 with errno, nothing left. A v2 group that was
 * killed by cgroup.kill must not be joined any more: every later clone into it is born dead.
 */
int bh_cgroup_make(const struct bh_cgroup *cg, const char *group, int fds[static BH_CGROUP_PARTS], bool *ret_into);
/* A group in which a box's init stays and execs get groups of their own; v2 wants no process beside groups. */
int bh_cgroup_share(const struct bh_cgroup *cg, const char *group, pid_t init);

struct bh_cgroup_limits {
    int64_t memory, cpus, pids; /* bytes, thousandths of a processor, tasks; 0: none */
};
/* Returns the BH_CGROUP_BITs that were wanted and could not be had, with errno of one of them. */
uint32_t bh_cgroup_limit(const struct bh_cgroup *cg, const char *group, const struct bh_cgroup_limits *limits);

/* --- the worker --- */

/* From what the launcher has said (kind, can, name, found, remedy are set); takes the descriptors of tops. -1 with
 * errno: then it is kind NONE. */
int bh_cgroup_attach(struct bh_cgroup *cg, const int *tops, size_t n);
/* Of tops, in the order in which attach wants them. */
size_t bh_cgroup_tops(const struct bh_cgroup *cg, int ret[static BH_CGROUP_PARTS]);
void bh_cgroup_close(struct bh_cgroup *cg); /* lets go of it; nothing is removed */

/* Counters since a group was made; -1: not to be had. */
struct bh_cgroup_events {
    int64_t oom_kills, pids_hits;
};
struct bh_cgroup_events bh_cgroup_events(const struct bh_cgroup *cg, const char *group);

/* What it has taken so far; -1: not to be had. */
struct bh_cgroup_usage {
    int64_t cpu_ms, memory, memory_peak, tasks; /* memory: without the cache of files; peak: with it */
};
struct bh_cgroup_usage bh_cgroup_usage(const struct bh_cgroup *cg, const char *group);

/* Open for writing "0": an exec of a shared box. As bh_cgroup_make, but never by CLONE_INTO_CGROUP. */
int bh_cgroup_make_exec(const struct bh_cgroup *cg, const char *group, int fds[static BH_CGROUP_PARTS]);

/* The same of a group that is there. */
int bh_cgroup_open(const struct bh_cgroup *cg, const char *group, int fds[static BH_CGROUP_PARTS]);

/*
 * Stops every process of the group, and lets them go on. Blocks: some 15 ms the first time with v1, where the box joins
 * the freezer only then, else under one. -1 with errno where it has not stopped in time. With v1 a frozen process does
 * not die of SIGKILL until it is thawed: whoever kills a frozen box thaws it then.
 */
int bh_cgroup_freeze(const struct bh_cgroup *cg, const char *group, bool on);
/* Lets a group that is about to be killed have all processors: a process needs some time to die. */
void bh_cgroup_hurry(const struct bh_cgroup *cg, const char *group);
/*
 * Nobody is in the group, and what it is still charged for is little: another box may have it. Not for one that was
 * frozen, killed by its group, limited otherwise than at first, or that has groups below it.
 */
bool bh_cgroup_is_idle(const struct bh_cgroup *cg, const char *group);
/* SIGKILL to all of the group and of those below it, which are thawed. */
void bh_cgroup_kill(const struct bh_cgroup *cg, const char *group);
/* Removes a group and those below it. 0 (also where it is gone already), or -1 with errno (EBUSY: somebody still dies
 * in it). */
int bh_cgroup_remove(const struct bh_cgroup *cg, const char *group);
/* After the launcher has ended: kills what is left below its group, removes it, and the top where it is empty then.
 * Waits at most two seconds for it. Lets go of everything. */
void bh_cgroup_end(struct bh_cgroup *cg);

/* --- whoever clears up --- */

/*
 * Removes what dead launchers have left in all places that bh_cgroup_begin would look at: kills what still lives in
 * their groups, then removes them. Launchers that live (the lock says so) are not touched, whoever they belong to. For
 * the start of a run, a worker and `gc`: needs no launcher, may block for two seconds where something does not want to
 * die, is harmless where there are no control groups or where they are not ours. Returns how many groups of launchers
 * were removed; *ret_left (may be NULL) counts those that could not be.
 */
size_t bh_cgroup_reclaim(size_t *ret_left);
/* The same, told group by group; dry_run: nothing is touched, and what is counted is what would be removed. */
struct bh_cgroup_reclaim_how {
    bool dry_run;
    void (*found)(void *arg, const char *path, int error); /* error: errno of why it is still there, or 0 */
    void *arg;
};
size_t bh_cgroup_reclaim_how(const struct bh_cgroup_reclaim_how *how, size_t *ret_left);
