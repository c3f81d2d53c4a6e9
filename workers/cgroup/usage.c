/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel has counted for a group, in numbers for people: who of several took what. */
#include <stdlib.h>
#include <string.h>

#include "workers/cgroup/priv.h"

static int64_t read_value(int dirfd, const char *group, const char *file, const char *key)
{
    char text[8192];
    return dirfd >= 0 && bh_cgroup_read(dirfd, group, file, text, sizeof(text)) > 0 ? bh_cgroup_value(text, key) : -1;
}

static int64_t divided(int64_t value, int64_t by)
{
    return value < 0 ? -1 : value / by;
}

struct bh_cgroup_usage bh_cgroup_usage(const struct bh_cgroup *cg, const char *group)
{
    struct bh_cgroup_usage u = {-1, -1, -1, -1};
    bool v2 = cg->kind == BH_CGROUP_V2;
    if (cg->kind == BH_CGROUP_NONE)
        return u;
    int memory = bh_cgroup_dir(cg, BH_CGROUP_MEMORY), cpu = bh_cgroup_dir(cg, BH_CGROUP_CPU);
    u.cpu_ms =
        v2 ? divided(read_value(cpu, group, "cpu.stat", "usage_usec"), 1000)
           : divided(bh_cgroup_read_number(cpu, group, "cpuacct.usage"), 1000000); /* where it is mounted with cpu */
    u.memory = read_value(memory, group, "memory.stat", v2 ? "anon" : "total_rss");
    u.memory_peak = bh_cgroup_read_number(memory, group, v2 ? "memory.peak" : "memory.max_usage_in_bytes");
    u.tasks = bh_cgroup_read_number(bh_cgroup_dir(cg, BH_CGROUP_PIDS), group, "pids.current");
    return u;
}
