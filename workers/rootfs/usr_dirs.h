/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories of the host's /usr and /opt, and nothing in them, as ours. With one id nobody in a box may write into
 * a directory of the host: its owner has no number there. A merged directory of an overlay takes owner and mode from
 * the topmost layer that has it, so with this layer below the upper one everything in /usr can be made, removed and
 * replaced (a file of the host still cannot be changed in place: it would have to be copied with its owner).
 *
 * Made once per host, below HOME/bases, and again when a directory in the first two levels of either tree changes. An
 * old one does no harm: a directory that the host has no more is empty, one that it has got since cannot be written.
 */
#pragma once

#include "workers/box/folder.h"

/* *ret_name: a name below home/bases, with usr/ and opt/. Blocks: a second or two where it has to be made. */
int bh_usr_dirs_ensure(const char *home, const struct bh_box_owner *owner, char **ret_name,
                       struct bh_err **err) BH_MUST_CHECK;
/* For tests: of another root than "/". */
int bh_usr_dirs_ensure_from(const char *host_root, const char *home, const struct bh_box_owner *owner, char **ret_name,
                            struct bh_err **err) BH_MUST_CHECK;
