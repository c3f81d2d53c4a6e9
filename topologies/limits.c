/* SPDX-License-Identifier: Apache-2.0 */
/* Limits against a host: what nobody has said, and what no host can give. */
#include "topologies/limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"

#define CPU_MAX 8192

void bh_limits_host(int64_t *ret_memory, int *ret_cpus)
{
    struct sysinfo info;
    cpu_set_t *set = CPU_ALLOC(CPU_MAX);
    size_t size = CPU_ALLOC_SIZE(CPU_MAX);
    *ret_memory = sysinfo(&info) == 0 ? (int64_t)((uint64_t)info.totalram * info.mem_unit) : INT64_MAX;
    *ret_cpus = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : get_nprocs();
    CPU_FREE(set);
}

void bh_limits_fill(struct bh_limits *l, int64_t host_memory)
{
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (l->of[i] != 0 || i == BH_LIMIT_OUTPUT)
            continue;
        l->of[i] = bh_limit_usual((enum bh_limit)i);
        if (i == BH_LIMIT_MEMORY && l->of[i] > host_memory / 4)
            l->of[i] = host_memory / 4;
    }
}

static bool asked(const struct bh_limits *l, enum bh_limit which)
{
    return l->asked & 1u << which;
}

static const char here[] = "that this host has", shell[] = "of our own hard limit of processes (ulimit -Hu)";

static int too_much(struct bh_err **err, enum bh_limit which, int64_t wanted, int64_t there, const char *whose)
{
    char a[BH_LIMIT_TEXT], b[BH_LIMIT_TEXT];
    int rc = bh_err_set(err, BH_E_HOST, 0, "the limit '%s: %s' is more than the %s %s", bh_limit_name(which),
                        bh_limit_format(which, wanted, a), bh_limit_format(which, there, b), whose);
    bh_err_hint(err, whose == shell ? "ask for less, or raise the hard limit (LimitNPROC= of a service)"
                                    : "ask for less, or run it on a larger host");
    return rc;
}

static int64_t max_pids(void)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int64_t n;
    if (bh_read_file("/proc/sys/kernel/pid_max", 64, &text, &err) != 0 || text.len == 0)
        return INT64_MAX;
    text.data[strcspn(text.data, "\n")] = '\0';
    return bh_parse_int(text.data, &n) == 0 && n > 0 ? n : INT64_MAX;
}

/* The kernel holds a user of a box to the hard limit that we ourselves have, whatever the control group says. */
static int fit_pids(int64_t wanted, struct bh_err **err)
{
    struct rlimit own;
    int64_t ids = max_pids();
    if (wanted > ids)
        return too_much(err, BH_LIMIT_PIDS, wanted, ids, "of this host's kernel.pid_max");
    if (getrlimit(RLIMIT_NPROC, &own) == 0 && own.rlim_max <= INT64_MAX && wanted > (int64_t)own.rlim_max)
        return too_much(err, BH_LIMIT_PIDS, wanted, (int64_t)own.rlim_max, shell);
    return 0;
}

int bh_limits_fit(const struct bh_limits *l, int64_t host_memory, int host_cpus, struct bh_err **err)
{
    if (asked(l, BH_LIMIT_MEMORY) && l->of[BH_LIMIT_MEMORY] > host_memory)
        return too_much(err, BH_LIMIT_MEMORY, l->of[BH_LIMIT_MEMORY], host_memory >> 20 << 20, here);
    if (asked(l, BH_LIMIT_CPUS) && l->of[BH_LIMIT_CPUS] > (int64_t)host_cpus * 1000)
        return too_much(err, BH_LIMIT_CPUS, l->of[BH_LIMIT_CPUS], (int64_t)host_cpus * 1000, here);
    struct rlimit files;
    bool known = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max <= INT64_MAX;
    if (known && asked(l, BH_LIMIT_NOFILE) && l->of[BH_LIMIT_NOFILE] > (int64_t)files.rlim_max)
        return too_much(err, BH_LIMIT_NOFILE, l->of[BH_LIMIT_NOFILE], (int64_t)files.rlim_max, here);
    return asked(l, BH_LIMIT_PIDS) ? fit_pids(l->of[BH_LIMIT_PIDS], err) : 0;
}
