/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a box, as the host's /proc shows them, and what they hold that no tree shows: files that are open
 * but have no name any more, and memory. Everything here is a guess at a moment: processes come and go meanwhile, and
 * may hide from whoever is not root. May run on a helper thread.
 */
#pragma once

#include "workers/disk/count.h"

struct bh_disk_process {
    int pid, parent;
    int64_t started; /* in ticks since boot: with the pid, who it is */
    int64_t rss_bytes;
};
struct bh_disk_processes { /* zero-initialise */
    struct bh_disk_process *items;
    size_t len, cap;
};

/* When it was started, -1: there is none. */
int64_t bh_disk_process_started(int pid);
/*
 * The child of a box's init that init itself knows by the number `inside`, and that is PID 1 of a namespace below
 * init's; 0: there is none.
 */
int bh_disk_process_of_exec(int init, int inside);
/* The same of several at once; ret[i] is that of inside[i]. */
void bh_disk_processes_of_execs(int init, const int *inside, int *ret, size_t n);
/* All below the box's init (which is left out). */
void bh_disk_processes_find(int init, struct bh_disk_processes *ret);
void bh_disk_processes_fini(struct bh_disk_processes *p);

/*
 * Adds what has no name any more, lies on an overlay (the root of a box) and is held by one of their threads: open,
 * mapped or stood in. Not seen: what is only on its way through a socket, and what is only mapped where we are not
 * root. Does not count twice, but knows nothing of what a tree showed.
 */
void bh_disk_count_open(const struct bh_disk_processes *p, const struct bh_disk_bounds *bounds,
                        struct bh_disk_usage *usage);

/*
 * What those that are there now have written, as the kernel has charged them; `in_memory`: to a file system that is
 * not charged, so whatever they have written anywhere.
 */
int64_t bh_disk_processes_written(const struct bh_disk_processes *p, bool in_memory);

/*
 * The memory of all of them: first what is resident, which counts shared pages for each; where that is more than
 * `limit`, each process's share of its pages, as far as we may read it. *ret_largest: index of the one with most, of
 * its share; only where the sum is over the limit.
 */
int64_t bh_disk_processes_memory(const struct bh_disk_processes *p, int64_t limit, size_t *ret_largest);
/* SIGKILL, unless another process has its number by now. */
void bh_disk_process_kill(const struct bh_disk_process *process);
