/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images that the boxes of a plan stand on, taken in when a run is submitted and remembered with it: resume and
 * leases then need no file of the submitter. In the submission: "images", a map from the text of a `base` to what
 * bh_image_to_val makes.
 */
#pragma once

#include "base/val.h"
#include "topologies/plan.h"
#include "workers/rootfs/image.h"

/* Whether some box stands on one. */
bool bh_images_any(const struct bh_plan *plan);
/* Imports each base of a box that is no `host` and that an agent runs in, by the submission's options; blocks. All
 * errors go to `errors`, with their places in the document. */
int bh_images_import(const struct bh_plan *plan, const char *file, struct bh_image_host *host,
                     struct bh_val *submission, struct bh_errlist *errors) BH_MUST_CHECK;
/*
 * On resume: what is missing below HOME/bases is imported again from where it came from, if that is still the same.
 * INVALID where it is not.
 */
int bh_images_restore(const char *file, struct bh_image_host *host, const struct bh_val *submission,
                      struct bh_err **err) BH_MUST_CHECK;
/* Borrowed; NULL where the base is `host`. */
const struct bh_val *bh_images_get(const struct bh_val *submission, const char *base);
