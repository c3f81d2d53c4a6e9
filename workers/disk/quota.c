/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/disk/quota.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#ifndef PRJQUOTA
#define PRJQUOTA 2
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

/* Numbers that administrators give are small; ours are out of their way, and out of each other's by chance. */
#define PROJECT_FIRST 0x40000000u
#define PROJECT_MASK 0x3fffffffu
#define PROJECT_TRIES 16
#define QUOTA_UNIT 1024 /* of block limits */
#define PROBE_LIMIT (128 << 10)

static int quota(int fd, int command, uint32_t project, struct dqblk *q)
{
    /* As QCMD, which shifts a bit into the sign. */
    unsigned what = (unsigned)command << SUBCMDSHIFT | PRJQUOTA;
    return (int)syscall(SYS_quotactl_fd, fd, what, project, q);
}

static int limit(int fd, uint32_t project, const struct bh_disk_limits *limits)
{
    struct dqblk q = {.dqb_valid = QIF_LIMITS};
    q.dqb_bhardlimit = ((uint64_t)limits->bytes + QUOTA_UNIT - 1) / QUOTA_UNIT;
    q.dqb_ihardlimit = (uint64_t)limits->inodes;
    return quota(fd, Q_SETQUOTA, project, &q);
}

int bh_disk_quota_read(int dirfd, uint32_t project, struct bh_disk_usage *ret, struct bh_disk_limits *ret_limits)
{
    struct dqblk q = {0};
    if (quota(dirfd, Q_GETQUOTA, project, &q) < 0)
        return -1;
    *ret = (struct bh_disk_usage){.bytes = (int64_t)q.dqb_curspace, .inodes = (int64_t)q.dqb_curinodes};
    if (ret_limits)
        *ret_limits = (struct bh_disk_limits){.bytes = (int64_t)q.dqb_bhardlimit * QUOTA_UNIT,
                                              .inodes = (int64_t)q.dqb_ihardlimit};
    return 0;
}

static bool is_unused(int fd, uint32_t project)
{
    struct dqblk q = {0};
    if (quota(fd, Q_GETQUOTA, project, &q) < 0)
        return errno == ESRCH || errno == ENOENT;
    return q.dqb_curspace == 0 && q.dqb_curinodes == 0 && q.dqb_bhardlimit == 0 && q.dqb_ihardlimit == 0;
}

static int new_project(int fd, uint32_t *ret)
{
    for (int i = 0; i < PROJECT_TRIES; i++) {
        uint32_t random;
        if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
            return -1;
        *ret = PROJECT_FIRST | (random & PROJECT_MASK);
        if (is_unused(fd, *ret))
            return 0;
    }
    errno = EDQUOT;
    return -1;
}

static int mark(int dir, uint32_t project)
{
    struct fsxattr attr;
    if (ioctl(dir, FS_IOC_FSGETXATTR, &attr) < 0)
        return -1;
    attr.fsx_projid = project;
    if (project != 0)
        attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    else
        attr.fsx_xflags &= ~(uint32_t)FS_XFLAG_PROJINHERIT;
    return ioctl(dir, FS_IOC_FSSETXATTR, &attr);
}

/* Those of folder.h in which a box writes; the last ones only some boxes have. */
static int mark_all(int box_dirfd, uint32_t project)
{
    static const char *const dirs[] = {"upper",    "work",      "upper/root", "work/root",
                                       "work/usr", "upper/usr", "work/opt",   "upper/opt"};
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        BH_CLEANUP_FD int dir = bh_open_beneath(box_dirfd, dirs[i], O_RDONLY | O_DIRECTORY, 0);
        if (dir < 0 && errno == ENOENT && i >= 4)
            continue;
        if (dir < 0 || mark(dir, project) < 0)
            return -1;
    }
    return 0;
}

int bh_disk_quota_set(int box_dirfd, const struct bh_disk_limits *limits, uint32_t *ret_project)
{
    struct bh_disk_usage base;
    struct bh_disk_limits whole = *limits;
    uint32_t project;
    if (new_project(box_dirfd, &project) < 0)
        return -1;
    if (mark_all(box_dirfd, project) < 0 || bh_disk_quota_read(box_dirfd, project, &base, NULL) < 0) {
        bh_disk_quota_clear(box_dirfd, project);
        return -1;
    }
    /* What the folders themselves take is not the agent's. */
    whole.bytes += limits->bytes > 0 ? base.bytes : 0;
    whole.inodes += limits->inodes > 0 ? base.inodes : 0;
    if (limit(box_dirfd, project, &whole) < 0) {
        bh_disk_quota_clear(box_dirfd, project);
        return -1;
    }
    *ret_project = project;
    return 0;
}

void bh_disk_quota_clear(int box_dirfd, uint32_t project)
{
    int saved = errno;
    (void)limit(box_dirfd, project, &(struct bh_disk_limits){0});
    (void)mark_all(box_dirfd, 0);
    errno = saved;
}

void bh_disk_quota_forget(int box_dirfd)
{
    struct fsxattr attr;
    BH_CLEANUP_FD int upper = bh_open_beneath(box_dirfd, "upper", O_RDONLY | O_DIRECTORY, 0);
    if (upper >= 0 && ioctl(upper, FS_IOC_FSGETXATTR, &attr) == 0 && attr.fsx_projid & PROJECT_FIRST)
        bh_disk_quota_clear(box_dirfd, attr.fsx_projid);
}

/* --- whether it works --- */

static int write_much(int dir)
{
    char bytes[PROBE_LIMIT] = {0};
    BH_CLEANUP_FD int fd = openat(dir, "probe", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        if (bh_write_all(fd, bytes, sizeof(bytes)) < 0)
            return -1;
    }
    return 0;
}

/* Who may exceed resource limits is not held to quotas: for the probe this thread is like the processes of a box. */
static bool set_may_exceed(bool on)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &head, data) < 0)
        return false;
    bool had = data[0].effective & (1u << CAP_SYS_RESOURCE);
    data[0].effective &= ~(1u << CAP_SYS_RESOURCE);
    data[0].effective |= on ? 1u << CAP_SYS_RESOURCE : 0;
    return syscall(SYS_capset, &head, data) == 0 && had;
}

static bool works_in(int dir)
{
    const struct bh_disk_limits limits = {.bytes = PROBE_LIMIT};
    uint32_t project;
    bool works = false;
    if (new_project(dir, &project) < 0 || mark(dir, project) < 0)
        return false;
    if (limit(dir, project, &limits) == 0) {
        bool could = set_may_exceed(false);
        works = write_much(dir) < 0 && (errno == EDQUOT || errno == ENOSPC);
        if (could)
            (void)set_may_exceed(true);
    }
    (void)limit(dir, project, &(struct bh_disk_limits){0});
    return works;
}

bool bh_disk_quota_works(const char *home)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/.quota-XXXXXX", home);
    if (geteuid() != 0 || !mkdtemp(path))
        return false;
    BH_CLEANUP_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool works = dir >= 0 && works_in(dir);
    (void)bh_rmtree_at(AT_FDCWD, path);
    return works;
}
