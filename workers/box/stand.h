/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kept box, or a frozen layer, stands on: the file STAND in its folder. With it the box can be looked at and
 * forked when the run is long over and nobody remembers its lease, and whoever clears up knows what is still needed.
 * Written when the box is kept or frozen, by the backend that made it; a folder that an older bulkhead kept has none.
 */
#pragma once

#include "workers/box/folder.h"

#define BH_BOX_STAND "stand.json"

struct bh_box_stand {
    char *base;         /* the base `host`: its folder below bases; NULL: an image */
    char **base_layers; /* of an image: folders below bases/images, newest first */
    size_t n_base_layers;
    char *usr_dirs; /* folder below bases with the directories of /usr and /opt, or NULL */
    char **layers;  /* names below layers/ of the run, newest first */
    size_t n_layers;
    char **snapshots; /* folders below snapshots, newest first, below the layers */
    size_t n_snapshots;
    bool writable_usr, shared;
    int64_t agent_uid, agent_gid; /* 0: the usual 1000 */
    struct bh_box_owner owner;
};
void bh_box_stand_fini(struct bh_box_stand *stand);

/* Into the folder `dirfd`, whole or not at all. 0, or -1 with errno. */
int bh_box_stand_write(int dirfd, const struct bh_box_stand *stand);
/* NOT_FOUND where there is none, STORE_CORRUPT where it is not what was written. */
int bh_box_stand_read(int dirfd, struct bh_box_stand *ret, struct bh_err **err) BH_MUST_CHECK;
