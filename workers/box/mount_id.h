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

/*
 * One number for a file: its inode and when it was born, for a file system gives the inode of a file that is gone to
 * the next one. Where the file system does not say (STATX_BTIME) the inode alone. Never 0.
 */
#define BH_FILE_KEY_MASK (STATX_INO | STATX_BTIME)
static inline uint64_t bh_file_key(const struct statx *sx)
{
    uint64_t born = 0;
    if (sx->stx_mask & STATX_BTIME)
        born = (uint64_t)sx->stx_btime.tv_sec * 1000000000U + sx->stx_btime.tv_nsec;
    uint64_t key = sx->stx_ino ^ born * UINT64_C(0x9e3779b97f4a7c15); /* spreads its low bits over all (Knuth 6.4) */
    return key ? key : 1;
}
/* The same of an open file; 0: the kernel does not say. */
static inline uint64_t bh_file_key_of(int fd)
{
    struct statx sx;
    return statx(fd, "", AT_EMPTY_PATH, BH_FILE_KEY_MASK, &sx) < 0 ? 0 : bh_file_key(&sx);
}

/* 0: the kernel does not say. `sx` may be asked for more by `mask`. */
static inline uint64_t bh_mount_id(int dirfd, const char *path, unsigned mask, struct statx *sx)
{
    if (statx(dirfd, path, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, mask | STATX_MNT_ID | STATX_MNT_ID_UNIQUE, sx) < 0)
        return 0;
    return sx->stx_mask & (STATX_MNT_ID | STATX_MNT_ID_UNIQUE) ? sx->stx_mnt_id : 0;
}
