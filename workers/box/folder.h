/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a box on disk, runs/RUN/boxes/KEY:
 *
 *   work/     overlay's; made first and removed last: a folder without it is a kept box
 *   upper/    root/ and, in a box with a writable /usr, usr/ and opt/
 *   deliver/  what the worker links for the box
 *   pid       "PID START BOOT" of its init (base/process.h), written by the launcher
 *
 * All calls block on the disk. Those that can take long run on a helper thread.
 */
#pragma once

#include "workers/box/proto.h"

#include "base/err.h"

/* Whose files they are. */
struct bh_box_owner {
    enum bh_id_mode mode;
    uint32_t first_id; /* of a range */
};

/* Whether mounts of the host can be shown with other owners: not with one id, nor with subordinate ones. */
static inline bool bh_box_owner_maps(const struct bh_box_owner *o)
{
    return o->mode == BH_IDS_RANGE && o->first_id == BH_RANGE_FIRST;
}

/* EXISTS where there is one already. */
int bh_box_folder_make(const char *run_dir, const char *key, const struct bh_box_owner *owner, bool writable_usr,
                       struct bh_err **err) BH_MUST_CHECK;
/* keep: all but upper/ is removed. A missing folder is fine. */
int bh_box_folder_remove(const char *run_dir, const char *key, bool keep, struct bh_err **err) BH_MUST_CHECK;
/*
 * Makes the folder of a dead box as good as new: everything in it is removed but the directories themselves, which get
 * their modes back and lose their attributes. -1 with errno where that cannot be had; the folder is then to be removed.
 */
int bh_box_folder_empty(const char *run_dir, const char *key, const struct bh_box_owner *owner);
/* All that a box can see of its root's own directory, or change in it: times, sizes, owners, flags, project. */
struct bh_box_stamp {
    bool taken;
    int64_t parts[24];
};
/* Of the root that is mounted from the folder, while nobody is in it yet. Where it cannot be had it stays not taken. */
void bh_box_folder_stamp(const char *run_dir, const char *key, struct bh_box_stamp *ret);
/*
 * Whether nobody has written to the root that is still mounted from the folder of a dead box, nor left anything of it
 * other than the stamp says: it is then as good as new as it is, and its other parts have been emptied. Not for a box
 * with a writable /usr.
 */
bool bh_box_folder_unused(const char *run_dir, const char *key, const struct bh_box_owner *owner,
                          const struct bh_box_stamp *stamp);
/*
 * A mark on a dead box's folder that stands alone until it is decided whether it is kept: whoever clears up after us
 * takes it for one that is not. true sets it, false takes it away. Blocks on the disk. 0, or -1 with errno.
 */
#define BH_BOX_UNDECIDED "undecided"
int bh_box_folder_undecided(const char *run_dir, const char *key, bool undecided);
/* Another name for it, which nothing may have; names that begin with BH_BOX_GONE wait for their removal. 0, or -1 with
 * errno. */
#define BH_BOX_GONE ".gone-"
int bh_box_folder_rename(const char *run_dir, const char *key, const char *new_key);
/* upper/ becomes layers/LAYER above `below` (NULL: the base), durably; the folder is removed. The box is dead. */
int bh_box_folder_freeze(const char *run_dir, const char *key, const char *layer, const char *below,
                         struct bh_err **err) BH_MUST_CHECK;
