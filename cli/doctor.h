/* SPDX-License-Identifier: Apache-2.0 */
/* What `bulkhead doctor` reports: one check after the other, each with what follows and what to do. */
#pragma once

#include "base/home.h"
#include "base/val.h"

struct bh_report {
    struct bh_val *checks;
    size_t missing;   /* required ones that were tried */
    size_t not_tried; /* for want of another */
};

struct bh_check {
    const char *name;
    bool ok, required;
    const char *found, *effect, *remedy; /* effect and remedy: of what is not ok */
};
void bh_report_add(struct bh_report *r, const struct bh_check *check);

/* doctor_home.c. `home.path` is NULL where it cannot be used; the report says why. */
struct bh_doctor_home {
    struct bh_home home;
    char *chosen, *trial; /* trial: a folder in its place, ours; NULL: it is there */
};
void bh_doctor_home_open(struct bh_report *r, const char *path, struct bh_doctor_home *ret);
void bh_doctor_home_close(struct bh_doctor_home *h);

/* doctor_host.c: what is true of this host and this process, whether or not boxes can be made. */
void bh_doctor_kernel(struct bh_report *r);
void bh_doctor_process(struct bh_report *r); /* its limits */
void bh_doctor_file_system(struct bh_report *r, const struct bh_home *home);
void bh_doctor_python(struct bh_report *r);
void bh_doctor_ids(struct bh_report *r);
