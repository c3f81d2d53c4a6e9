/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ns backend can hold a box to, and what a box gets where nobody has said anything. A limit that was asked for
 * and cannot be held is an error here, before anything of the box exists, unless best effort was asked for too.
 */
#include <stdio.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/fd.h"
#include "workers/box/ns_priv.h"

#define PIDS_WITHOUT_GROUP 256 /* of one user and user namespace; a fork bomb is not to starve the host */

static const struct {
    enum bh_limit limit;
    enum bh_cgroup_part part;
} parts[] = {{BH_LIMIT_MEMORY, BH_CGROUP_MEMORY}, {BH_LIMIT_CPUS, BH_CGROUP_CPU}, {BH_LIMIT_PIDS, BH_CGROUP_PIDS}};

static bool by_group(const struct ns *ns, enum bh_cgroup_part part)
{
    return ns->cgroup.kind != BH_CGROUP_NONE && ns->cgroup.can & BH_CGROUP_BIT(part);
}

static void copy(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from);
}

void bh_ns_limits_read(struct ns *ns, const struct bh_msg_hello *hello, const int *fds, size_t nfds)
{
    struct bh_cgroup *cg = &ns->cgroup;
    bh_limits_host(&ns->host_memory, &ns->host_cpus);
    ns->box_flags = hello->box_flags;
    *cg = (struct bh_cgroup){.kind = (enum bh_cgroup_kind)hello->cgroup_kind, .can = hello->cgroup_can};
    copy(cg->name, sizeof(cg->name), hello->cgroup_name);
    copy(cg->found, sizeof(cg->found), hello->cgroup_found);
    copy(cg->remedy, sizeof(cg->remedy), hello->cgroup_remedy);
    if (bh_cgroup_attach(cg, fds, nfds) < 0)
        copy(cg->found, sizeof(cg->found), "the control group of the launcher cannot be opened");
}

uint32_t bh_ns_limits_enforceable(const struct ns *ns)
{
    uint32_t can = 1u << BH_LIMIT_NOFILE;
    for (size_t i = 0; i < BH_ARRAY_LEN(parts); i++)
        can |= by_group(ns, parts[i].part) ? 1u << parts[i].limit : 0;
    return can | (ns->box_flags & BH_BOX_NPROC ? 1u << BH_LIMIT_PIDS : 0);
}

const char *bh_ns_limits_why_not(const struct ns *ns)
{
    const uint32_t all = 1u << BH_LIMIT_MEMORY | 1u << BH_LIMIT_CPUS | 1u << BH_LIMIT_PIDS;
    return (bh_ns_limits_enforceable(ns) & all) == all ? NULL : ns->cgroup.found;
}

void bh_ns_limits_enforced(const struct bh_box *box, const struct bh_limits *own, struct bh_enforced *ret)
{
    const struct ns *ns = box->ns;
    unsigned char by = ns->cgroup.kind == BH_CGROUP_V2 ? BH_BY_CGROUP2 : BH_BY_CGROUP1;
    ret->by[BH_LIMIT_NOFILE] = BH_BY_RLIMIT;
    for (size_t i = 0; i < BH_ARRAY_LEN(parts); i++) {
        if (box->limits.of[parts[i].limit] > 0 && by_group(ns, parts[i].part))
            ret->by[parts[i].limit] = by;
    }
    if (!by_group(ns, BH_CGROUP_PIDS) && ns->box_flags & BH_BOX_NPROC)
        ret->by[BH_LIMIT_PIDS] = BH_BY_RLIMIT;
    uint32_t asked = box->limits.asked | (own && box->shared ? own->asked : 0);
    if (!by_group(ns, BH_CGROUP_CPU) && asked & 1u << BH_LIMIT_CPUS)
        ret->by[BH_LIMIT_CPUS] = BH_BY_AFFINITY;
}

/* --- before a box is made --- */

static int cannot_hold(const struct ns *ns, const char *key, enum bh_limit limit, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_HOST, 0, "cannot hold box '%s' to its limit of %s: %s", key, bh_limit_name(limit),
                        ns->cgroup.kind == BH_CGROUP_NONE ? ns->cgroup.found
                                                          : "this host has no control group of that kind for us");
    bh_err_hint(err, "%s%sor let the site's policy allow `limits: best-effort`", ns->cgroup.remedy,
                ns->cgroup.remedy[0] ? ", " : "");
    return rc;
}

static int check_files(const struct bh_limits *l, struct bh_err **err)
{
    struct rlimit now;
    int64_t wanted = l->of[BH_LIMIT_NOFILE];
    if (getrlimit(RLIMIT_NOFILE, &now) < 0 || now.rlim_max >= (rlim_t)wanted || !(l->asked & 1u << BH_LIMIT_NOFILE))
        return 0;
    int rc = bh_err_set(err, BH_E_HOST, 0, "the limit 'nofile: %lld' is more than the %lld that we may have ourselves",
                        (long long)wanted, (long long)now.rlim_max);
    bh_err_hint(err, "ask for less, or raise the hard limit (`ulimit -Hn`, LimitNOFILE= of a service)");
    return rc;
}

int bh_ns_limits_fill(const struct ns *ns, const struct bh_box_spec *spec, struct bh_limits *ret, struct bh_err **err)
{
    uint32_t can = bh_ns_limits_enforceable(ns);
    *ret = spec->limits;
    int rc = bh_limits_fit(ret, ns->host_memory, ns->host_cpus, err);
    if (rc == 0)
        rc = check_files(ret, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < BH_ARRAY_LEN(parts) && !spec->best_effort; i++) {
        if (ret->asked & ~can & 1u << parts[i].limit)
            return cannot_hold(ns, spec->key, parts[i].limit, err);
    }
    if (ret->of[BH_LIMIT_PIDS] == 0 && !by_group(ns, BH_CGROUP_PIDS))
        ret->of[BH_LIMIT_PIDS] = PIDS_WITHOUT_GROUP;
    bh_limits_fill(ret, ns->host_memory);
    return 0;
}

bool bh_ns_limits_watch_memory(const struct ns *ns, const struct bh_limits *limits)
{
    return limits->asked & 1u << BH_LIMIT_MEMORY && !by_group(ns, BH_CGROUP_MEMORY);
}

/* An agent of a shared box: what the box was refused is refused to it too. 0 or an errno. */
int bh_ns_limits_check_exec(const struct bh_box *box, const struct bh_limits *limits)
{
    struct rlimit now;
    bool files = getrlimit(RLIMIT_NOFILE, &now) == 0 && (rlim_t)limits->of[BH_LIMIT_NOFILE] > now.rlim_max;
    if (files && limits->asked & 1u << BH_LIMIT_NOFILE)
        return EPERM;
    for (size_t i = 0; i < BH_ARRAY_LEN(parts) && !box->best_effort; i++) {
        if (limits->asked & ~bh_ns_limits_enforceable(box->ns) & 1u << parts[i].limit)
            return ENOTSUP;
    }
    return 0;
}
