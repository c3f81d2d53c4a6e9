/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the administrator of a host allows any pipeline: a small YAML file, /etc/bulkhead/site.yaml, or the one that
 * BULKHEAD_SITE names. Without one nothing is allowed beyond what the documents say of themselves.
 */
#pragma once

#include "base/err.h"

#define BH_SITE_FILE "/etc/bulkhead/site.yaml"

struct bh_site {
    char *file; /* that was read; NULL: there is none */
    /* limits: best-effort. Limits that this host cannot enforce are watched as far as possible, not refused. */
    bool best_effort;
    /* disk_budget: 50GiB. How much a state directory may hold for new boxes to be made in it; 0: nobody says. */
    int64_t disk_budget;
};

/*
 * Reads the site's policy. Whatever is wrong with the file is -BH_E_POLICY, with its place: it says what may not be
 * done, so nothing is done without it. It must be a file that root or the caller owns and nobody else can write. Blocks
 * on the disk.
 */
int bh_site_load(struct bh_site *ret, struct bh_errlist *errors) BH_MUST_CHECK;
void bh_site_fini(struct bh_site *site);

/* The same of one file, for who names it otherwise. `must_exist`: its absence is an error. */
int bh_site_read(const char *file, bool must_exist, struct bh_site *ret, struct bh_errlist *errors) BH_MUST_CHECK;
