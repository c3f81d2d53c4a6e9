/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker holds of one run: its folder and the content store, opened once and shared by everything that works for
 * that run. Counted: the last user closes it.
 */
#pragma once

#include "artifact-bus/cas.h"

/* A small text that most executions of a run are given alike: it is written once and linked from then on. */
struct bh_common_file {
    char *text; /* NULL: none yet */
    char *name; /* relative to the run's folder */
};

struct bh_run_files {
    unsigned refs;
    char *run;            /* id */
    char *dir;            /* absolute path of runs/RUN */
    int dirfd;            /* of it */
    struct bh_cas *links; /* for the loop's thread: links of stored objects */
    struct bh_cas *puts;  /* for the helper thread: copies into the store */
    struct bh_common_file params, no_inputs;
};

/* Makes what is missing of the run's folders. One reference, the caller's. */
int bh_run_files_open(const char *home, const char *run, struct bh_run_files **ret, struct bh_err **err) BH_MUST_CHECK;
/* The same of another folder below home, for who carries out something of a run beside it. */
int bh_run_files_open_at(const char *home, const char *folder, struct bh_run_files **ret,
                         struct bh_err **err) BH_MUST_CHECK;
struct bh_run_files *bh_run_files_ref(struct bh_run_files *f);
void bh_run_files_unref(struct bh_run_files *f); /* NULL is fine */

/* Puts a file of mode 0444 with this text at dirfd/name, which must not exist. */
int bh_run_files_write(const char *text, int dirfd, const char *name, struct bh_err **err) BH_MUST_CHECK;
/*
 * The same: by a link where `common` holds the same
 * text, else it is written, and held from now on.
 */
int bh_run_files_common(struct bh_run_files *f, struct bh_common_file *common, const char *text, int dirfd,
                        const char *name, struct bh_err **err) BH_MUST_CHECK;
