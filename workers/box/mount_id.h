/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of the mount that a descriptor was opened through. In a shared box every exec has mounts of its own, so
 * that the mount of a file says whose it is, also when the process is gone. Never used again where the kernel has such
 * numbers (6.8), else not before the mount is gone.
 */
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include "base/compiler.h"

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U
#endif

/* 0: the kernel does not say. `sx` may be asked for more by `mask`. */
static inline uint64_t bh_mount_id(int dirfd, const char *path, unsigned mask, struct statx *sx)
{
    if (statx(dirfd, path, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, mask | STATX_MNT_ID | STATX_MNT_ID_UNIQUE, sx) < 0)
        return 0;
    return sx->stx_mask & (STATX_MNT_ID | STATX_MNT_ID_UNIQUE) ? sx->stx_mnt_id : 0;
}
