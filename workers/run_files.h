/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker holds of one run: its folder and the content store, opened once and shared by everything that works for
 * that run. Counted: the last user closes it.
 */
#pragma once

#include "artifact-bus/cas.h"

struct bh_run_files {
    unsigned refs;
    char *run;            /* id */
    char *dir;            /* absolute path of runs/RUN */
    int dirfd;            /* of it */
    struct bh_cas *links; /* for the loop's thread: links of stored objects */
    struct bh_cas *puts;  /* for the helper thread: copies into the store */
};

/* Makes what is missing of the run's folders. One reference, the caller's. */
int bh_run_files_open(const char *home, const char *run, struct bh_run_files **ret, struct bh_err **err) BH_MUST_CHECK;
struct bh_run_files *bh_run_files_ref(struct bh_run_files *f);
void bh_run_files_unref(struct bh_run_files *f); /* NULL is fine */
