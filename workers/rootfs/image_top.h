/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is ours of an image: its user resolved, and a layer above its own that holds what a box mounts on as real
 * directories, whatever the image has there (a symlink of the image is covered by them), and the accounts that a box
 * needs beside those of the image.
 */
#pragma once

#include "workers/rootfs/image_store.h"

/* `user` as the config has it ("name", "uid", "uid:gid", …; NULL). 0, 0: root or none said. */
int bh_top_user(const struct bh_bases *b, const struct bh_image *image, const char *user, int64_t *ret_uid,
                int64_t *ret_gid, struct bh_err **err) BH_MUST_CHECK;
/* Makes the layer where it is missing; its name goes to *ret_name. */
int bh_top_ensure(struct bh_bases *b, const struct bh_image *image, char **ret_name, struct bh_err **err) BH_MUST_CHECK;
