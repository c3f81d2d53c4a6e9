/* SPDX-License-Identifier: Apache-2.0 */
/* Limits in words: their keys, their least values, and numbers as a document writes them. Pure. */
#include <stdio.h>

#include "topologies/limits.h"

#define MIB (INT64_C(1) << 20)

static const struct {
    const char *name;
    enum { SIZE, CPUS, COUNT } unit;
    int64_t least, usual;
} limits[BH_N_LIMITS] = {
    [BH_LIMIT_MEMORY] = {"memory", SIZE, 4 * MIB, 2048 * MIB}, /* a shell and its libraries */
    [BH_LIMIT_CPUS] = {"cpus", CPUS, 10, 2000},                /* the kernel's least quota: 1 ms of 100 */
    [BH_LIMIT_PIDS] = {"pids", COUNT, 4, 1024},                /* a shell in a pipe */
    [BH_LIMIT_DISK] = {"disk", SIZE, 64 * 1024, 10240 * MIB},  /* the folders that a box begins with */
    [BH_LIMIT_INODES] = {"inodes", COUNT, 64, 500000},         /* the same */
    [BH_LIMIT_NOFILE] = {"nofile", COUNT, 16, 1024},           /* the three streams, libraries, a pipe */
    [BH_LIMIT_OUTPUT] = {"output", SIZE, 1024, 64 * MIB},      /* a head and a tail */
};

static const char *const enforcers[] = {
    [BH_BY_NOTHING] = "nothing",   [BH_BY_CGROUP2] = "cgroup-v2", [BH_BY_CGROUP1] = "cgroup-v1",
    [BH_BY_RLIMIT] = "rlimit",     [BH_BY_TMPFS] = "tmpfs",       [BH_BY_QUOTA] = "quota",
    [BH_BY_WATCHDOG] = "watchdog", [BH_BY_AFFINITY] = "affinity",
};

const char *bh_limit_name(enum bh_limit limit)
{
    return (size_t)limit < BH_N_LIMITS ? limits[limit].name : "";
}

const char *bh_enforcer_name(enum bh_enforcer by)
{
    return enforcers[(size_t)by < BH_ARRAY_LEN(enforcers) ? (size_t)by : (size_t)BH_BY_NOTHING];
}

int64_t bh_limit_least(enum bh_limit limit)
{
    return (size_t)limit < BH_N_LIMITS ? limits[limit].least : 1;
}

int64_t bh_limit_usual(enum bh_limit limit)
{
    return (size_t)limit < BH_N_LIMITS ? limits[limit].usual : 0;
}

/* In the largest unit that gives a whole number: 64MiB, but also 64MB, and 1000001B. */
static void format_size(int64_t bytes, char *buf)
{
    static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static const char *const decimal[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    int64_t two = bytes, ten = bytes;
    size_t b = 0, d = 0;
    for (; two > 0 && two % 1024 == 0 && b + 1 < BH_ARRAY_LEN(binary); b++)
        two /= 1024;
    for (; ten > 0 && ten % 1000 == 0 && d + 1 < BH_ARRAY_LEN(decimal); d++)
        ten /= 1000;
    bool use_binary = b > 0 && b >= d;
    (void)snprintf(buf, BH_LIMIT_TEXT, "%lld%s", (long long)(use_binary ? two : ten),
                   use_binary ? binary[b] : decimal[d]);
}

char *bh_limit_format(enum bh_limit limit, int64_t value, char buf[static BH_LIMIT_TEXT])
{
    if (limits[limit].unit == SIZE)
        format_size(value, buf);
    else if (limits[limit].unit == CPUS)
        (void)snprintf(buf, BH_LIMIT_TEXT, "%g", (double)value / 1000);
    else
        (void)snprintf(buf, BH_LIMIT_TEXT, "%lld", (long long)value);
    return buf;
}
