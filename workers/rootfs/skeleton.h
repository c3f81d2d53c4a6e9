/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowest layer of boxes on base `host`: the directories of a root file system with a synthesised /etc. It is made
 * once per host and way of mapping ids, below HOME/bases, under a name that changes with everything that went into it;
 * a directory of such a name is complete and never changes. It holds nothing of /home, /root, /var, no key and no
 * credential: what is copied from /etc is a list (skeleton_etc.def).
 */
#pragma once

#include "workers/box/folder.h"

/* *ret_name: a name below home/bases. Blocks: about 30 ms where it has to be made, 1 ms else. */
int bh_skeleton_ensure(const char *home, const struct bh_box_owner *owner, char **ret_name,
                       struct bh_err **err) BH_MUST_CHECK;
/* For tests: the same with another root than "/" to copy from. */
int bh_skeleton_ensure_from(const char *host_root, const char *home, const struct bh_box_owner *owner, char **ret_name,
                            struct bh_err **err) BH_MUST_CHECK;
