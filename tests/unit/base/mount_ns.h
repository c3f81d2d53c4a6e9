/* SPDX-License-Identifier: Apache-2.0 */
/* A mount namespace for a child of a test, as root or as an ordinary user. */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"

static inline int write_proc(const char *path, const char *text, size_t len)
{
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -1 : bh_write_all(fd, text, len);
}

/* Makes us root of a user namespace, so that files keep their owner. */
static inline int enter_user_namespace(void)
{
    char uids[64], gids[64];
    int nu = snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
    int ng = snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || write_proc("/proc/self/uid_map", uids, (size_t)nu) != 0)
        return -1;
    if (write_proc("/proc/self/setgroups", "deny", 4) != 0)
        return -1;
    return write_proc("/proc/self/gid_map", gids, (size_t)ng);
}

/* 0, or -1 where it cannot be had. */
static inline int enter_mount_namespace(void)
{
    bool root = geteuid() == 0 && unshare(CLONE_NEWNS) == 0;
    if (!root && enter_user_namespace() != 0)
        return -1;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}
