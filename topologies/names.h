/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of artifacts: '/'-separated segments of [A-Za-z0-9_][A-Za-z0-9._+=-]{0,127}, no '@', and who may own which.
 * Pure.
 *
 * Two names collide where they are equal, equal after case folding, or one is a path prefix of the other (`a`, `a/b`).
 * The grammar allows ASCII only, so folding is ASCII folding.
 */
#pragma once

#include "base/err.h"

/* NULL where it is good, else why not ("is empty", "has '..' as a segment", …): static text. */
const char *bh_artifact_name_problem(const char *name);
/* The same for a name as it stands on the bus: it may end in the number of an attempt or of a round, name@2, name@r2.
 */
const char *bh_published_name_problem(const char *name);
/* The same for a glob pattern of names (segments may hold * ? **). */
const char *bh_artifact_glob_problem(const char *glob);

/* Who owns which names in one run. */
struct bh_name_table;
struct bh_name_table *bh_name_table_new(void);
void bh_name_table_free(struct bh_name_table *t);

enum bh_name_clash { BH_CLASH_NONE, BH_CLASH_EQUAL, BH_CLASH_CASE, BH_CLASH_PREFIX };
/*
 * Looks whether `owner` may have `name`. A clash gives the other name and owner (borrowed until the table changes). The
 * same owner may claim the same name again (a later try), but not a name that clashes with another of its own.
 */
enum bh_name_clash bh_name_table_check(const struct bh_name_table *t, const char *name, const char *owner,
                                       const char **ret_name, const char **ret_owner);
/* Must have been checked. */
void bh_name_table_add(struct bh_name_table *t, const char *name, const char *owner);
const char *bh_name_clash_text(
    enum bh_name_clash clash); /* "is the same name", "differs only by case", "is a folder of" */
