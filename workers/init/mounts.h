/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount calls that launcher and init use. Mounts are made detached and attached last, to a place that was opened
 * without following a symlink: a hostile tree can refuse a mount but not steer it.
 *
 * Functions that return an int give 0 or a descriptor, or -1 with errno.
 */
#pragma once

#include <sys/mount.h>

#include "base/compiler.h"
#include "workers/init/fail.h"

/* A detached copy of the mount at `path` (of what dirfd is, where path is ""). */
int bh_mount_clone(int dirfd, const char *path, bool recursive);
/* MOUNT_ATTR_* to set on a mount, detached or not. */
int bh_mount_restrict(int fd, uint64_t attrs, bool recursive);
/* Ids in the mount are seen through the user namespace `userns_fd`. Only on a detached mount. */
int bh_mount_idmap(int fd, int userns_fd);
/* Makes an attached mount read-only or writable; EBUSY while a file on it is open for writing. */
int bh_mount_readonly(int dirfd, const char *path, bool on);
/* Attaches to a directory or file that exists beneath dirfd; no symlink on the way. */
int bh_mount_attach(int mount_fd, int dirfd, const char *path);
/* The same for what is attached at `from`. */
int bh_mount_move(const char *from, int dirfd, const char *path);

/*
 * A new detached mount. `options` are "key=value" or "flag", NULL-terminated. On failure sets `fail` (with what the
 * kernel says about it) and returns -1.
 */
int bh_mount_new(const char *type, const char *const *options, uint64_t attrs, struct bh_fail *fail);

/*
 * An overlay at `at`, which is ours. Options as mount(8) takes them, in less than a page: the calls for detached mounts
 * take no more than 255 bytes of `lowerdir` on older kernels.
 */
int bh_mount_overlay(const char *at, const char *options, bool readonly);

/* The current directory, which is a mount, becomes the root; the old root and all below it is detached. */
int bh_mount_enter(void);
