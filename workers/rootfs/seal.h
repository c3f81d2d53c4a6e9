/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a frozen tree holds, in one digest, in two ways. The seal is over what the file system says of each entry (path,
 * kind, mode, owner, size, times, inode): cheap, of this one tree alone, and another one as soon as anything in it was
 * touched. The content digest is over paths, kinds, modes and bytes: the same for any tree that holds the same.
 *
 * The trees were written by agents: every step goes from a descriptor to a name in it, no symlink is followed, the
 * depth is bounded (ELOOP). A directory that its owner closed to himself counts as it is, without what is in it. The
 * top itself, and what lies in it beside root/ usr/ opt/, is not looked at. All calls block on the disk.
 */
#pragma once

#include "artifact-bus/digest.h"

struct bh_seal {
    struct bh_digest digest;
    int64_t entries, bytes; /* bytes: the sizes of regular files together */
};

int bh_seal_tree(int dir, struct bh_seal *ret, struct bh_err **err) BH_MUST_CHECK;
/* `stop` (may be NULL) is looked at between files: where it is set the answer is -BH_E_INTERRUPTED. */
int bh_seal_content(int dir, const bool *stop, struct bh_digest *ret, struct bh_err **err) BH_MUST_CHECK;
