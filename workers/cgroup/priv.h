/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, inside. */
#pragma once

#include "base/fd.h"
#include "workers/cgroup/cgroup.h"

#define BH_CGROUP_WAIT_MS 2000

/* --- find.c --- */

/* Where a hierarchy is mounted, and our own group below that; NULL: it is not, or not in sight. */
struct bh_cgroup_place {
    char *mount, *own;
};
struct bh_cgroup_places {
    struct bh_cgroup_place v2, v1[BH_CGROUP_PARTS];
};
/* From the texts of /proc/self/mountinfo and /proc/self/cgroup. */
void bh_cgroup_places_parse(struct bh_cgroup_places *ret, const char *mountinfo, const char *self);
int bh_cgroup_places_read(struct bh_cgroup_places *ret); /* -1 with errno */
void bh_cgroup_places_fini(struct bh_cgroup_places *p);

/* --- files.c: small files below a directory; all -1 with errno --- */

int bh_cgroup_open_dir(int dirfd, const char *path);
int bh_cgroup_write(int dirfd, const char *group, const char *file, const char *text);
int bh_cgroup_write_number(int dirfd, const char *group, const char *file, int64_t n);
/* At most size - 1 bytes, terminated. */
ssize_t bh_cgroup_read(int dirfd, const char *group, const char *file, char *text, size_t size);
/* A file that is one number, none of which is negative. */
int64_t bh_cgroup_read_number(int dirfd, const char *group, const char *file);
/* The number behind `key ` at the start of a line; -1: there is none. */
int64_t bh_cgroup_value(const char *text, const char *key);
/* Whether a word is one of a list of them. */
bool bh_cgroup_has_word(const char *text, const char *word);
/* Calls fn for every process directly in the group that we can see; stops where it returns nonzero, and returns that.
 * -1 with errno where the list cannot be read. */
int bh_cgroup_each(int dirfd, const char *group, int (*fn)(pid_t pid, void *arg), void *arg);
/* Everything below a directory and itself: removed depth first. */
int bh_cgroup_rmdir(int dirfd, const char *group);
/* Calls fn for the group and all below it, those below first. */
void bh_cgroup_walk(int dirfd, const char *group, void (*fn)(int dirfd, const char *group, void *arg), void *arg);

/*
 * Whether a text of /proc/PID/cgroup names the group of ours: of the freezer that very group, of any other part
 * (!freezer) it or one below it.
 */
bool bh_cgroup_says(const char *text, bool freezer, const char *name, const char *group);

/* --- group.c --- */

/* Puts one process of a box into its group of the v1 freezer, and no other. 1: it was outside. */
int bh_cgroup_gather(const struct bh_cgroup *cg, const char *group, pid_t pid);
/* Whoever is in the freezer of a box without being of the box goes out of it. */
void bh_cgroup_put_back(const struct bh_cgroup *cg, const char *group, pid_t pid);

/* --- end.c --- */

/* Kills what is in a group of a hierarchy (v2 or v1) and below it, once. */
void bh_cgroup_kill_in(int dirfd, const char *group);
/* Kills and removes until it is gone or the time is over. */
int bh_cgroup_clear(int dirfd, const char *group, int64_t wait_ms);

static inline int bh_cgroup_dir(const struct bh_cgroup *cg, enum bh_cgroup_part part)
{
    return cg->dirs[cg->kind == BH_CGROUP_V2 ? 0 : part];
}
static inline bool bh_cgroup_can(const struct bh_cgroup *cg, enum bh_cgroup_part part)
{
    return cg->can & BH_CGROUP_BIT(part);
}
