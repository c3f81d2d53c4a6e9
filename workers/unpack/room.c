/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reserve of the host's disk: a small archive may hold far more than there is, and what is left of the disk is not
 * its to take. Looked at before the first entry and every so often; the rule is that of boxes (disk/policy.h).
 */
#include <errno.h>
#include <sys/statvfs.h>

#include "workers/disk/policy.h"
#include "workers/unpack/unpack.h"

#define LOOK_BYTES (4 << 20)
#define LOOK_ENTRIES 256

int bh_put_room(struct bh_putter *p)
{
    struct statvfs fs;
    if (p->looked && p->bytes < p->look_bytes && p->entries < p->look_entries)
        return 0;
    p->looked = true;
    p->look_bytes = p->bytes + LOOK_BYTES;
    p->look_entries = p->entries + LOOK_ENTRIES;
    if (fstatvfs(p->root, &fs) < 0)
        return bh_put_host(p, "see how much is free");
    const struct bh_disk_space space = {
        .total = (int64_t)(fs.f_blocks * fs.f_frsize),
        .free = (int64_t)(fs.f_bavail * fs.f_frsize),
        .inodes = (int64_t)fs.f_files,
        .free_inodes = (int64_t)fs.f_favail,
    };
    if (!bh_disk_is_low(&space))
        return 0;
    errno = ENOSPC;
    return bh_put_host(p, "take more of the disk, which is nearly full");
}
