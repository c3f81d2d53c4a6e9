/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Project quotas: a number on the box's folders that everything below them inherits, and a limit for that number which
 * the file system itself keeps. ext4 and xfs have them where they were made and mounted so, and only root of the host
 * may set them; whether it works is found out by doing it. Calls block on the disk, briefly.
 */
#pragma once

#include "workers/disk/policy.h"

/* Sets a quota on a new folder in `home`, writes past it, and removes both. */
bool bh_disk_quota_works(const char *home);

/*
 * A new number for the folders upper/ and work/ (and those in them) of the box's folder, limited. 0 and *ret_project,
 * or -1 with errno and nothing changed.
 */
int bh_disk_quota_set(int box_dirfd, const struct bh_disk_limits *limits, uint32_t *ret_project);
/* What is charged to it now, and its limits (NULL: not asked for). 0, or -1 with errno. */
int bh_disk_quota_read(int dirfd, uint32_t project, struct bh_disk_usage *ret, struct bh_disk_limits *ret_limits);
/* The number goes from the folders (what lies in them keeps it) and has no limit any more. */
void bh_disk_quota_clear(int box_dirfd, uint32_t project);
/* The same for the folder of a box whose owner is dead: the number is read from it. */
void bh_disk_quota_forget(int box_dirfd);
