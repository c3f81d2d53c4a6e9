/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a snapshot: a small JSON file in its folder. What cannot be read to the letter is none. */
#pragma once

#include "base/process.h"
#include "workers/rootfs/snapshot.h"

struct bh_manifest_below {
    char *key;
    struct bh_digest seal; /* as it was when something was put on it */
};

struct bh_manifest {
    struct bh_snapshot s;
    struct bh_manifest_below
        *below; /* what it was made on; newest first. Squashed ones stand on nothing all the same */
    size_t n_below;
    uint32_t owner, uid;
    char boot[BH_PROCESS_BOOT]; /* in which it was made */
};
void bh_manifest_fini(struct bh_manifest *m);
struct bh_snapshot bh_manifest_take(struct bh_manifest *m);

int bh_manifest_read(int dir, struct bh_manifest *ret, struct bh_err **err) BH_MUST_CHECK;
/* In the place of what is there, by a rename. Does not sync. */
int bh_manifest_write(int dir, const struct bh_manifest *m, struct bh_err **err) BH_MUST_CHECK;
