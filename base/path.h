/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths below a directory descriptor, and whole-file operations that are atomic.
 *
 * bh_open_beneath uses openat2(RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS); where the kernel or a filter
 * has no openat2 it walks segment by segment with O_NOFOLLOW, which refuses the same things. Absolute names, empty ones
 * and any '..' are refused before the kernel is asked (EINVAL).
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* Returns a CLOEXEC descriptor or -1 with errno (ELOOP: a symlink in the way; EXDEV/EINVAL: would leave). `name` may be
 * "." */
int bh_open_beneath(int dirfd, const char *name, int flags, mode_t mode);
/* For tests: true uses the fallback although openat2 is there. */
void bh_path_force_fallback(bool on);

/* Makes `path` and its missing parents, each with `mode`. An existing directory is fine. */
int bh_mkdir_p(const char *path, mode_t mode, struct bh_err **err) BH_MUST_CHECK;
/* The same beneath dirfd, never through a symlink. 0 or -1 with errno. */
int bh_mkdirat_p(int dirfd, const char *name, mode_t mode);
/*
 * Removes `name` and everything below it, by descriptors, never following a symlink and never leaving the file system.
 * Directories without permission bits are given them first (overlay's work/work is mode 000). A missing name is fine. 0
 * or -1 with errno of the first failure (it goes on past it).
 */
int bh_rmtree_at(int dirfd, const char *name);
/*
 * The same for a name without slashes, which whoever looks finds whole or not at all, also where we are killed on the
 * way: it is renamed first, to one that starts with BH_TEMPORARY_PREFIX (a name that does is removed as it stands).
 */
int bh_rmtree_whole_at(int dirfd, const char *name);
/* Gives a directory that was opened with O_PATH the permissions that its owner needs in it, as far as that can be. */
void bh_dir_open_up(int path_fd);
/*
 * Writes a new file, nameless where the file system can (O_TMPFILE), syncs it, gives it exactly `mode`, puts it in the
 * place of `path`, syncs the folder. A process that is killed between two calls at the end leaves a file whose name
 * starts with BH_TEMPORARY_PREFIX: whoever owns the folder next may remove such files.
 */
#define BH_TEMPORARY_PREFIX ".bh-tmp-"
int bh_write_file_atomic(const char *path, const void *data, size_t len, mode_t mode,
                         struct bh_err **err) BH_MUST_CHECK;
/* Whole file, at most max bytes. Errors: NOT_FOUND (no such file), TOO_LARGE, PERMISSION, IO. */
struct bh_buf;
int bh_read_file(const char *path, size_t max, struct bh_buf *out, struct bh_err **err) BH_MUST_CHECK;
/* "a/b" from "a" and "b"; an absolute b wins. The caller owns it. */
char *bh_path_join(const char *a, const char *b);
/* The folder of `path`: "." for "x", "/" for "/x". The caller owns it. */
char *bh_path_dirname(const char *path);
/*
 * Whether `name` is a relative path without empty, "." and ".." segments (the lexical check for document paths after
 * one leading "./" has been taken off by the caller).
 */
bool bh_path_is_clean(const char *name);
/* Whether the first `len` bytes of a relative path leave its folder on the way, going by their text. */
bool bh_path_escapes(const char *path, size_t len);
/*
 * Whether a clean path, relative to /workspace, is or lies below what each agent has of its own there: in, prompt.md,
 * params.json, needs.json. The loader refuses such paths, and so does a box's init.
 */
bool bh_path_is_agents_own(const char *path);
